//! What our server is measured beside: hyper, and nothing behind it. It reads the body, looks at none of it, and
//! answers what it was told at the start.

use std::convert::Infallible;
use std::io::{self, Read as _};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

/// The hidden argument: a process of its own, so that its CPU time is its own too.
pub(crate) const SUBCOMMAND: &str = "bare-service";

/// The answer to everything.
#[derive(Clone)]
struct Constant {
    fields: HeaderMap,
    body: Bytes,
}

impl Constant {
    /// Fields as lines, an empty line, and the body.
    fn parse(text: &str) -> Option<Self> {
        let (head, body) = text.split_once("\n\n")?;
        let mut fields = HeaderMap::new();
        for line in head.lines() {
            let (name, value) = line.split_once(": ")?;
            fields.append(HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(value).ok()?);
        }
        Some(Self { fields, body: Bytes::from(body.to_owned()) })
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
        let body = request.into_body().collect().await?.to_bytes();
        std::hint::black_box(&body);
        let mut response = Response::new(Full::new(self.body));
        *response.headers_mut() = self.fields;
        Ok(response)
    }
}

/// Reads the answer from standard input, says where it listens, and serves until it is ended.
pub(crate) fn serve() -> io::Result<()> {
    let mut text = String::new();
    io::stdin().read_to_string(&mut text)?;
    let constant = Constant::parse(&text).ok_or(io::ErrorKind::InvalidInput)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_io().build()?;
    runtime.block_on(async move {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        eprintln!("http://{}/", listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(connection(stream, constant.clone()));
        }
    })
}

async fn connection(stream: TcpStream, constant: Constant) -> Result<(), Infallible> {
    let service = service_fn(move |request| constant.clone().answer(request));
    let mut builder = hyper::server::conn::http1::Builder::new();
    // The best that hyper has for requests that come together: one write for their answers.
    builder.pipeline_flush(true);
    // A connection that breaks is the client's affair.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
    Ok(())
}
