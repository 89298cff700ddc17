//! The layer for tower.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::time::timeout;
use tower_layer::Layer;
use tower_service::Service;

use crate::decide::Failure;
use crate::failure::failure_of;
use crate::head::RequestHead;
use crate::polite::{Polite, PoliteOptions};
use crate::run::{Run, Verdict, idempotency_key};

/// What tower's services fail with when they may fail with anything.
type BoxError = Box<dyn Error + Send + Sync>;

/// So much of a refused body is read before the wait, so that its connection can be used again.
const MAX_DRAINED_BYTES: usize = 64 * 1024;
/// And for no longer than this.
const MAX_DRAIN_TIME: Duration = Duration::from_secs(1);

/// How a body is sent again.
pub trait Replay<B> {
    /// The body once more; `None` if it can be sent once only, and then it is.
    fn replay(&self, body: &B) -> Option<B>;
}

/// Bodies that are cloned: `Bytes`, `Full`, `Empty`, `String`, and all else that is `Clone`. Cloning one that streams
/// must not share the stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cloned;

impl<B: Clone> Replay<B> for Cloned {
    fn replay(&self, body: &B) -> Option<B> {
        Some(body.clone())
    }
}

/// Bodies that are sent once: calls wait at the gate, and are not repeated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Once;

impl<B> Replay<B> for Once {
    fn replay(&self, _: &B) -> Option<B> {
        None
    }
}

impl<B, F: Fn(&B) -> Option<B>> Replay<B> for F {
    fn replay(&self, body: &B) -> Option<B> {
        self(body)
    }
}

/// Puts a [`Polite`] around services that take `http` requests.
///
/// ```
/// use ratekeeper_client::{Polite, PoliteLayer};
/// let polite = Polite::builder().max_attempts(2).build()?;
/// let layer = PoliteLayer::new(polite);                  // tower::ServiceBuilder::new().layer(layer).service(http)
/// # drop(layer);
/// # Ok::<(), ratekeeper_client::SettingsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PoliteLayer<R = Cloned> {
    polite: Polite,
    replay: R,
    failures: fn(&(dyn Error + 'static)) -> Failure,
}

impl PoliteLayer {
    /// A layer for bodies that can be cloned.
    #[must_use]
    pub fn new(polite: Polite) -> Self {
        Self { polite, replay: Cloned, failures: failure_of }
    }

    /// All defaults: one gate for each origin.
    #[must_use]
    pub fn per_host() -> Self {
        Self::new(Polite::default())
    }
}

impl From<Polite> for PoliteLayer {
    fn from(polite: Polite) -> Self {
        Self::new(polite)
    }
}

impl<R> PoliteLayer<R> {
    /// Another way to send a body again: [`Once`], or a function that returns it once more if it can.
    #[must_use]
    pub fn replay<Q>(self, replay: Q) -> PoliteLayer<Q> {
        PoliteLayer { polite: self.polite, replay, failures: self.failures }
    }

    /// Another way to tell what a service's error says about the request; [`failure_of`] unless set.
    #[must_use]
    pub fn failures(mut self, failures: fn(&(dyn Error + 'static)) -> Failure) -> Self {
        self.failures = failures;
        self
    }
}

impl<S, R: Clone> Layer<S> for PoliteLayer<R> {
    type Service = PoliteService<S, R>;

    fn layer(&self, inner: S) -> Self::Service {
        PoliteService { inner, layer: self.clone() }
    }
}

/// A service that waits at the gate of a request's key, and repeats what may be repeated.
///
/// It is always ready, so `call` needs nothing before it: a wait depends on the request, so it is made within the
/// call, and the inner service is made ready after it. Otherwise a call that waits for one host would hold a place
/// that a call to another could use.
///
/// Every answer has a [`RetryReport`](crate::RetryReport) among its extensions. A call that may not be sent fails
/// with [`Gated`](crate::Gated); other errors are the inner service's.
#[derive(Clone, Debug)]
pub struct PoliteService<S, R = Cloned> {
    inner: S,
    layer: PoliteLayer<R>,
}

impl<S, R, B, ResB> Service<Request<B>> for PoliteService<S, R>
where
    S: Service<Request<B>, Response = Response<ResB>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: Send + 'static,
    R: Replay<B> + Clone + Send + 'static,
    ResB: Body + Send + 'static,
    ResB::Data: Send,
    ResB::Error: Send,
{
    type Response = Response<ResB>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResB>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (inner, layer) = (self.inner.clone(), self.layer.clone());
        Box::pin(sent(inner, layer, request))
    }
}

/// Sends a request until it has its answer, or is given up.
async fn sent<S, R, B, ResB>(
    mut inner: S,
    layer: PoliteLayer<R>,
    mut request: Request<B>,
) -> Result<Response<ResB>, BoxError>
where
    S: Service<Request<B>, Response = Response<ResB>>,
    S::Error: Into<BoxError>,
    R: Replay<B>,
    ResB: Body,
{
    let PoliteLayer { polite, replay, failures } = layer;
    if let Some((name, key)) = idempotency_key(&polite, request.method(), request.headers()) {
        request.headers_mut().insert(name, key);
    }
    let options = request.extensions().get::<PoliteOptions>().copied().unwrap_or_default();
    let head = RequestHead { method: request.method(), uri: request.uri(), headers: request.headers() };
    let mut run = Run::new(&polite, &head, options);
    loop {
        let ticket = run.admitted().await?;
        poll_fn(|context| inner.poll_ready(context)).await.map_err(Into::into)?;
        let again = replayed(&replay, &request);
        let answer: Result<Response<ResB>, BoxError> = inner.call(request).await.map_err(Into::into);
        match answer {
            Ok(mut response) => {
                let (status, headers) = (response.status(), response.headers());
                let verdict = run.answered(ticket, status, headers, None, again.is_some());
                match (verdict, again) {
                    (Verdict::Retry, Some(again)) => {
                        drain(response.into_body(), run.pause()).await;
                        request = again;
                    }
                    (verdict, _) => {
                        if let Verdict::Return(report) = verdict {
                            response.extensions_mut().insert(report);
                        }
                        return Ok(response);
                    }
                }
            }
            Err(error) => {
                let failure = failures(error.as_ref());
                match (run.failed(ticket, failure, again.is_some()), again) {
                    (true, Some(again)) => request = again,
                    _ => return Err(error),
                }
            }
        }
    }
}

/// The request once more, if its body can be had again.
fn replayed<B, R: Replay<B>>(replay: &R, request: &Request<B>) -> Option<Request<B>> {
    let body = replay.replay(request.body())?;
    let mut again = Request::new(body);
    *again.method_mut() = request.method().clone();
    *again.uri_mut() = request.uri().clone();
    *again.version_mut() = request.version();
    *again.headers_mut() = request.headers().clone();
    *again.extensions_mut() = request.extensions().clone();
    Some(again)
}

/// Reads what is left of a refused answer, within bounds. Its trailers say nothing to us.
async fn drain<B: Body>(body: B, pause: Duration) {
    let read = async {
        let mut body = pin!(body);
        let mut bytes = 0_usize;
        while bytes < MAX_DRAINED_BYTES
            && let Some(Ok(frame)) = body.as_mut().frame().await
        {
            let data = frame.data_ref().map_or(0, bytes::Buf::remaining);
            bytes = bytes.saturating_add(data);
        }
    };
    // A server that does not end its refusal only loses the connection.
    let _ = timeout(pause.min(MAX_DRAIN_TIME), read).await;
}
