//! A service to be limited, and requests.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Full};
use ratekeeper_tower::{RateLimitLayer, ResponseBody};
use tower::{Layer as _, ServiceExt as _};

type Answers = dyn Fn(&Request<Empty<Bytes>>) -> Response<Full<Bytes>> + Send + Sync;

/// A service that counts its calls and answers what it is told.
#[derive(Clone)]
pub(crate) struct Backend {
    pub(crate) calls: Arc<AtomicUsize>,
    answer: Arc<Answers>,
}

impl Default for Backend {
    fn default() -> Self {
        Self::answering(|_| Response::new(Full::from("ok")))
    }
}

impl Backend {
    pub(crate) fn answering(
        answer: impl Fn(&Request<Empty<Bytes>>) -> Response<Full<Bytes>> + Send + Sync + 'static,
    ) -> Self {
        Self { calls: Arc::default(), answer: Arc::new(answer) }
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// The answer to a request through the layer.
    pub(crate) async fn ask(&self, layer: &RateLimitLayer, request: Request<Empty<Bytes>>) -> Answer {
        let this = self.clone();
        let service = tower::service_fn(move |request: Request<Empty<Bytes>>| {
            let this = this.clone();
            async move {
                this.calls.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Infallible>((this.answer)(&request))
            }
        });
        let Ok(response) = layer.layer(service).oneshot(request).await;
        Answer::of(response).await
    }
}

/// An answer, whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    async fn of(response: Response<ResponseBody<Full<Bytes>>>) -> Self {
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a body in memory").to_bytes();
        let body = String::from_utf8(body.to_vec()).expect("text");
        Self { status: head.status, headers: head.headers, body }
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|wrong| panic!("{wrong}: {}", self.body))
    }

    /// The one line of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.get_all(name).into_iter();
        let first = lines.next()?.to_str().ok();
        assert!(lines.next().is_none(), "{name} has two lines: {:?}", self.headers);
        first
    }
}

/// A request from this address.
pub(crate) fn from(address: &str) -> http::request::Builder {
    let peer = SocketAddr::new(address.parse().expect("an address"), 1_234);
    Request::builder().uri("http://example.com/path").extension(peer)
}

/// The same without a body.
pub(crate) fn empty(request: http::request::Builder) -> Request<Empty<Bytes>> {
    request.body(Empty::new()).expect("a request")
}

/// `n` microseconds.
pub(crate) const fn micros(n: u64) -> std::time::Duration {
    std::time::Duration::from_micros(n)
}
