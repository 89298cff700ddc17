//! The long way of a request: HTTP/2, other paths than checks, bodies in pieces. hyper reads and writes here.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, EXPECT, HOST, HeaderMap, HeaderValue, ORIGIN,
};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, Version};
use tokio::time::timeout;

use crate::telemetry::Listener;
use crate::telemetry::log::Event;
use crate::telemetry::metrics::Connection;
use crate::transport::http::connection::Site;
use crate::transport::http::problem::Problem;
use crate::transport::http::reply::Reply;
use crate::transport::http::service::{Call, Service, Verb};
use crate::transport::http::{answer, wishes};

/// The longest body that is read: a question takes a hundred bytes, sixteen longest keys 100 KiB when every
/// byte of them is written as an escape, a batch of a thousand checks a hundred KiB.
const MAX_BODY_BYTES: usize = 1_024 * 1_024;
/// How much of a longer body is thrown away so that its sender, who may not read before having written, sees
/// the answer. Past it the connection is cut.
const MAX_DRAINED_BYTES: usize = 4 * MAX_BODY_BYTES;
/// Bodies up to here are taken as they come.
const SMALL_BODY_BYTES: usize = 4 * 1_024;
/// How long a body may take: less than the patience of any client, much more than a kilobyte needs.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// What there is, for those who asked for something else.
const SERVED: &str = "POST /v1/check decides; docs/http.md lists the others";
const KNOWN_QUERY: &str = "only `status=true` is known, for checks and reservations";

pub(crate) type Answer = Response<Full<Bytes>>;

impl Site for Service {
    async fn answer(&self, request: Request<Incoming>) -> Result<Answer, Infallible> {
        self.answer_any(request).await
    }

    fn is_busy(&self) -> bool {
        self.has_calls_under_way()
    }

    fn short_way(&self) -> Option<&Service> {
        Some(self)
    }

    fn connected(&self) -> Connection {
        self.app().live().metrics().connected(Listener::Http)
    }

    fn cannot_accept(&self, wrong: &io::Error) {
        let message = wrong.to_string();
        self.app().live().log().event(&Event::AcceptFailed { listener: Listener::Http, message: &message });
    }
}

impl Service {
    /// Answers one request, whatever it is, with a body from wherever.
    async fn answer_any<B: Body<Data = Bytes> + Unpin>(
        &self,
        request: Request<B>,
    ) -> Result<Answer, Infallible> {
        let _under_way = self.busy();
        let version = request.version();
        let mut reply = Reply::default();
        let (head, body) = request.into_parts();
        let mut unread = Some(body);
        if let Err(problem) = self.route(&head, &mut unread, &mut reply).await {
            problem.write(&mut reply);
        }
        if let Some(body) = unread.filter(|_| version < Version::HTTP_2) {
            reply.closes |= !thrown_away(&head.headers, body).await;
        }
        self.app().live().answered(reply.status);
        let closes = reply.closes || self.is_draining();
        let mut answer =
            reply.into_response(&head.method, |body| Bytes::from_owner(self.unsent().counted(body)));
        // HTTP/2 ends streams and connections by itself, and knows no such field.
        if closes && version < Version::HTTP_2 {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(answer)
    }

    async fn route<B: Body<Data = Bytes> + Unpin>(
        &self,
        head: &Parts,
        body: &mut Option<B>,
        reply: &mut Reply,
    ) -> Result<(), Problem> {
        let Parts { method, uri, version, headers, .. } = head;
        if *version == Version::HTTP_11 && headers.get_all(HOST).iter().count() != 1 {
            return Err(Problem::bad_host());
        }
        let path = uri.path();
        if let Some(verb) = Verb::at(path) {
            if *method != Method::POST {
                return Err(Problem::method_not_allowed("POST"));
            }
            let wants_status = wants_status(verb, uri.query())?;
            acceptable(headers)?;
            let prefer = headers.get_all("prefer");
            let preferred = prefer.iter().any(|value| wishes::asks_for_status(value.as_bytes()));
            let body = self.read_body(headers, body).await?;
            if self.unsent().is_full() {
                return Err(Problem::overloaded());
            }
            let call = Call { verb, wants_status: wants_status || preferred, preferred, body: &body };
            self.answer_one(&self.app().live(), &call, reply);
            return Ok(());
        }
        if !matches!(path, "/livez" | "/readyz" | "/v1/policies") {
            return Err(Problem::not_found(SERVED));
        }
        if *method != Method::GET && *method != Method::HEAD {
            return Err(Problem::method_not_allowed("GET, HEAD"));
        }
        let query = uri.query().filter(|query| path == "/v1/policies" && !query.is_empty());
        if let Some(query) = query {
            return Err(Problem::unknown_query(query, "none is known here"));
        }
        match path {
            "/v1/policies" => answer::policies(&self.app().live(), reply),
            probe => answer::probe(self.app(), probe, uri.query(), reply),
        }
        Ok(())
    }

    /// The body, up to its bound in bytes and in time.
    async fn read_body<B: Body<Data = Bytes> + Unpin>(
        &self,
        headers: &HeaderMap,
        body: &mut Option<B>,
    ) -> Result<Vec<u8>, Problem> {
        let Some(mut body) = body.take() else { return Ok(Vec::new()) };
        let announced = announced(&body);
        let waits = headers.contains_key(EXPECT);
        if announced > MAX_DRAINED_BYTES || (announced > MAX_BODY_BYTES && waits) {
            return Err(Problem::body_too_large(MAX_BODY_BYTES));
        }
        let read = timeout(BODY_TIMEOUT, self.collect(&mut body)).await;
        read.map_err(|_| Problem::body_timeout(BODY_TIMEOUT.as_secs()))?
    }

    async fn collect<B: Body<Data = Bytes> + Unpin>(&self, body: &mut B) -> Result<Vec<u8>, Problem> {
        let mut whole = Vec::new();
        let mut permit = None;
        let mut drained = 0;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return Err(Problem::body_broken()) };
            let Ok(data) = frame.into_data() else { continue }; // Trailers say nothing here.
            if drained > 0 || whole.len() + data.len() > MAX_BODY_BYTES {
                whole = Vec::new();
                permit = None;
                drained += data.len();
                if drained > MAX_DRAINED_BYTES - MAX_BODY_BYTES {
                    break;
                }
                continue;
            }
            if whole.len() + data.len() > SMALL_BODY_BYTES && permit.is_none() {
                // Never closed, so waiting ends with a permit or with the time for the body.
                permit = self.large_bodies.acquire().await.ok();
            }
            whole.extend_from_slice(&data);
        }
        if drained > 0 { Err(Problem::body_too_large(MAX_BODY_BYTES)) } else { Ok(whole) }
    }
}

/// The length of a body, as far as it is known.
fn announced(body: &impl Body) -> usize {
    usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX)
}

/// Reads to its end a body that nobody needs, so that the next request can be found behind it; whether that was
/// possible. Who waits for leave to send it is not given any.
async fn thrown_away<B: Body<Data = Bytes> + Unpin>(headers: &HeaderMap, mut body: B) -> bool {
    if body.is_end_stream() {
        return true;
    }
    if headers.contains_key(EXPECT) || announced(&body) > MAX_DRAINED_BYTES {
        return false;
    }
    let all = async {
        let mut most = MAX_DRAINED_BYTES;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            most = most.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if most == 0 {
                return false;
            }
        }
        true
    };
    timeout(BODY_TIMEOUT, all).await.unwrap_or(false)
}

/// Whether the fields of a request let its body be read as JSON.
fn acceptable(headers: &HeaderMap) -> Result<(), Problem> {
    let identity = |value: &HeaderValue| wishes::is_identity(value.as_bytes());
    if !headers.get_all(CONTENT_ENCODING).iter().all(identity) {
        return Err(Problem::unsupported_encoding());
    }
    let is_json = |value: &HeaderValue| wishes::is_json(value.as_bytes());
    // A page may send other types anywhere without asking; it has to ask for this one, and nobody grants it.
    let mut types = headers.get_all(CONTENT_TYPE).iter().peekable();
    if headers.contains_key(ORIGIN) && (types.peek().is_none() || !types.all(is_json)) {
        return Err(Problem::foreign_page());
    }
    Ok(())
}

/// Whether the address asks for refusals in the status. Who asks for something and is not heard would take
/// every answer for a yes.
fn wants_status(verb: Verb, query: Option<&str>) -> Result<bool, Problem> {
    match query {
        None | Some("") => Ok(false),
        Some("status=true") if verb.has_status() => Ok(true),
        Some("status=false") if verb.has_status() => Ok(false),
        Some(other) if verb.has_status() => Err(Problem::unknown_query(other, KNOWN_QUERY)),
        Some(other) => Err(Problem::unknown_query(other, "none is known here")),
    }
}

#[cfg(test)]
mod tests;
