//! The other end of our own listener: enough of HTTP/1.1 to ask a server on one kept connection.

use std::fmt;
use std::io;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::http::request::Builder;
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use ratekeeper_sim::hints::quoted;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a connection may take, and an answer: decisions take microseconds, so a server that is silent for
/// this long will be so for longer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer that is read: that of a check with 16 limits has some kilobytes.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;
/// The longest page of an admin listener that is read: that of 10,000 policies has some megabytes.
const MAX_PAGE_BYTES: usize = 16 * 1024 * 1024;

/// Where a server is asked: `host:port`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Address(String);

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Address {
    /// The address of `http://HOST[:PORT]`.
    ///
    /// # Errors
    /// What is wrong with it, and what to write instead.
    pub(crate) fn of_url(url: &str) -> Result<Self, String> {
        let example = "for example http://127.0.0.1:8080";
        let no_url = || format!("{} is no URL of a server: {example}", quoted(url));
        let uri: Uri = url.parse().map_err(|_| no_url())?;
        let authority = uri.authority().ok_or_else(no_url)?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(format!(
                    "{}: https is not available for asking in this version: name a listener without TLS, {example}",
                    quoted(url)
                ));
            }
            _ => return Err(no_url()),
        }
        if authority.host().is_empty() || authority.as_str().contains('@') {
            return Err(no_url());
        }
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(format!("{}: a server is named without a path: {example}", quoted(url)));
        }
        let port = match authority.as_str().strip_prefix(authority.host()) {
            Some("") => 80,
            _ => authority.port_u16().ok_or_else(no_url)?,
        };
        Ok(Self(format!("{}:{port}", authority.host())))
    }

    /// Where a listener can be reached from its own machine.
    pub(crate) fn of_listener(address: &str) -> Self {
        let (host, port) = address.rsplit_once(':').unwrap_or((address, "80"));
        let host = match host {
            // Everywhere is no place to go to.
            "0.0.0.0" | "" => "127.0.0.1",
            "[::]" => "[::1]",
            host => host,
        };
        Self(format!("{host}:{port}"))
    }
}

/// Why there is no answer.
pub(crate) enum Trouble {
    /// Nobody is there.
    Absent(io::Error),
    /// Somebody is, but does not answer in time.
    Silent,
    /// What is there does not speak as our server does.
    Strange(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(wrong) => wrong.fmt(f),
            Self::Silent => write!(f, "no answer within {} s", PATIENCE.as_secs()),
            Self::Strange(what) => f.write_str(what),
        }
    }
}

/// A connection to a server, on which one question follows another.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

impl Connection {
    /// # Errors
    /// If nobody is there.
    pub(crate) async fn open(address: &Address) -> Result<Self, Trouble> {
        let stream = timeout(PATIENCE, TcpStream::connect(&address.0)).await;
        let stream = stream.map_err(|_| Trouble::Silent)?.map_err(Trouble::Absent)?;
        // Questions are small and each waits for its answer.
        stream.set_nodelay(true).map_err(Trouble::Absent)?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|wrong| strange(&wrong))?;
        // Ends with the sender, and what went wrong the sender hears too.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self { sender, host: address.0.clone() })
    }

    /// The status and the body of the answer to a question in JSON.
    ///
    /// # Errors
    /// If there is no answer; then the connection is of no more use.
    pub(crate) async fn post(&mut self, path: &'static str, body: Vec<u8>) -> Result<(u16, Bytes), Trouble> {
        let request = Request::post(path).header(CONTENT_TYPE, "application/json");
        let answer = self.exchange(request, body, MAX_ANSWER_BYTES);
        timeout(PATIENCE, answer).await.unwrap_or(Err(Trouble::Silent))
    }

    /// The same of an admin listener, with its token if it has one. Letters and digits are what it is made of, so that no field is broken by it.
    ///
    /// # Errors
    /// If there is no answer; then the connection is of no more use.
    pub(crate) async fn post_with(
        &mut self,
        path: &'static str,
        body: Vec<u8>,
        token: Option<&str>,
    ) -> Result<(u16, Bytes), Trouble> {
        let mut request = Request::post(path).header(CONTENT_TYPE, "application/json");
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let answer = self.exchange(request, body, MAX_PAGE_BYTES);
        timeout(PATIENCE, answer).await.unwrap_or(Err(Trouble::Silent))
    }

    /// The status and the body of what is at a path.
    ///
    /// # Errors
    /// If there is no answer; then the connection is of no more use.
    pub(crate) async fn get(&mut self, path: &'static str) -> Result<(u16, Bytes), Trouble> {
        let answer = self.exchange(Request::get(path), Vec::new(), MAX_ANSWER_BYTES);
        timeout(PATIENCE, answer).await.unwrap_or(Err(Trouble::Silent))
    }

    /// The same of an admin listener, with its token if it has one.
    ///
    /// # Errors
    /// If there is no answer; then the connection is of no more use.
    pub(crate) async fn get_as(
        &mut self,
        target: &'static str,
        token: Option<&str>,
    ) -> Result<(u16, Bytes), Trouble> {
        let mut request = Request::get(target);
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let answer = self.exchange(request, Vec::new(), MAX_PAGE_BYTES);
        timeout(PATIENCE, answer).await.unwrap_or(Err(Trouble::Silent))
    }

    async fn exchange(
        &mut self,
        request: Builder,
        body: Vec<u8>,
        most: usize,
    ) -> Result<(u16, Bytes), Trouble> {
        let request = request
            .header(HOST, &self.host)
            .body(Full::new(Bytes::from(body)))
            .map_err(|wrong| Trouble::Strange(wrong.to_string()))?;
        self.sender.ready().await.map_err(|wrong| strange(&wrong))?;
        let answer = self.sender.send_request(request).await.map_err(|wrong| strange(&wrong))?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), most).collect().await;
        let body = body.map_err(|wrong| match wrong.downcast_ref::<LengthLimitError>() {
            Some(_) => Trouble::Strange(format!("the answer has more than {most} bytes")),
            None => Trouble::Strange(format!("the answer has no end: {wrong}")),
        })?;
        Ok((status, body.to_bytes()))
    }
}

fn strange(wrong: &hyper::Error) -> Trouble {
    Trouble::Strange(format!("the answer cannot be read: {wrong}"))
}

#[cfg(test)]
mod tests;
