//! The HTTP listener: who answers which path, and what a body may be. Its sockets are `connection`'s.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes};
use hyper::header::{
    ALLOW, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, EXPECT, HOST, HeaderMap, HeaderValue, ORIGIN,
    RETRY_AFTER,
};
use hyper::{Method, Request, Response, StatusCode, Version};
use ratekeeper_core::StoreError;
use ratekeeper_policy::Call;
use ratekeeper_sim::hints::{nearest, quoted};
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::app::App;
use crate::transport::http::facts::CheckRequest;
use crate::transport::http::wire::{CheckAnswer, Problem};

/// The longest body that is read: a question takes a hundred bytes, sixteen longest keys 100 KiB when every
/// byte of them is written as an escape.
const MAX_BODY_BYTES: usize = 1_024 * 1_024;
/// How much of a longer body is thrown away so that its sender, who may not read before having written, sees
/// the answer. Past it the connection is cut.
const MAX_DRAINED_BYTES: usize = 4 * MAX_BODY_BYTES;
/// Bodies up to here are taken as they come.
const SMALL_BODY_BYTES: usize = 4 * 1_024;
/// How many longer ones are in memory at once; others wait. 10,000 connections with a megabyte each would be
/// ten gigabytes.
const MAX_LARGE_BODIES: usize = 64;
/// How long a body may take: less than the patience of any client, much more than a kilobyte needs.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Among how many policies the one is looked for that a misspelt name may have meant: the search takes a few
/// hundred nanoseconds for each, and anybody can ask for it.
const MAX_SEARCHED_NAMES: usize = 1_000;

/// Answers requests; one for all connections.
pub(super) struct Service {
    app: Arc<App>,
    large_bodies: Semaphore,
    under_way: AtomicU64,
}

/// A request under way, until it is dropped.
struct UnderWay<'s>(&'s AtomicU64);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

type Answer = Response<Full<Bytes>>;

impl Service {
    pub(super) fn new(app: Arc<App>) -> Self {
        Self { app, large_bodies: Semaphore::new(MAX_LARGE_BODIES), under_way: AtomicU64::new(0) }
    }

    /// Whether some request is under way: read, but not answered.
    pub(super) fn is_busy(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 0
    }

    /// Answers one request, whatever it is.
    pub(super) async fn answer<B: Body<Data = Bytes> + Unpin>(
        &self,
        request: Request<B>,
    ) -> Result<Answer, Infallible> {
        self.under_way.fetch_add(1, Ordering::Relaxed);
        let _under_way = UnderWay(&self.under_way);
        let version = request.version();
        let (mut answer, closes) = match self.route(request).await {
            Ok(answer) => (answer, false),
            Err(problem) => (refusal(&problem), problem.closes),
        };
        // HTTP/2 ends streams and connections by itself, and knows no such field.
        if (closes || self.app.is_draining()) && version < Version::HTTP_2 {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(answer)
    }

    async fn route<B: Body<Data = Bytes> + Unpin>(&self, request: Request<B>) -> Result<Answer, Problem> {
        let method = request.method();
        if request.version() == Version::HTTP_11 && request.headers().get_all(HOST).iter().count() != 1 {
            return Err(Problem::bad_host());
        }
        match request.uri().path() {
            "/v1/check" if *method == Method::POST => {
                // Who asks for an answer in the status and is not heard would take every answer for a yes.
                if let Some(query) = request.uri().query().filter(|query| !query.is_empty()) {
                    return Err(Problem::query_not_available(query));
                }
                acceptable(request.headers())?;
                let body = self.read_body(request).await?;
                self.check(&body)
            }
            "/v1/check" => Err(Problem::method_not_allowed("POST")),
            "/livez" | "/readyz" if *method != Method::GET && *method != Method::HEAD => {
                Err(Problem::method_not_allowed("GET, HEAD"))
            }
            "/readyz" if self.app.is_draining() => {
                let mut answer = text(StatusCode::SERVICE_UNAVAILABLE, "draining\n");
                answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
                Ok(answer)
            }
            "/livez" | "/readyz" => Ok(text(StatusCode::OK, "ok\n")),
            _ => Err(Problem::not_found()),
        }
    }

    /// `POST /v1/check`: the decision of one policy about one key.
    fn check(&self, body: &[u8]) -> Result<Answer, Problem> {
        let asked = CheckRequest::parse(body).map_err(|flaws| Problem::bad_input(&flaws))?;
        let config = self.app.config();
        let policy = config.policy(&asked.policy).ok_or_else(|| {
            let names = config.policies.iter().take(MAX_SEARCHED_NAMES).map(|policy| policy.name().as_str());
            let hint = nearest(&asked.policy, names).map(|name| format!("did you mean `{name}`?"));
            let message = format!("there is no policy {}", quoted(&asked.policy));
            Problem::unknown_policy(&asked.places.flaw("policy", message, hint))
        })?;
        let keys = borrowed(&asked.keys);
        let call = Call { key: asked.key.as_deref(), keys: &keys, cost: asked.cost };
        let checks = policy
            .checks(&call)
            .map_err(|wrong| Problem::bad_input(&[ratekeeper_sim::call_flaw(&asked.places, &wrong)]))?;
        match self.app.decide(policy, &checks, asked.ask) {
            Ok(decision) => Ok(json(StatusCode::OK, &CheckAnswer::new(policy.name(), &checks, &decision))),
            Err(wrong @ StoreError::TooManyLimits) => Err(Problem::too_many_limits(wrong.to_string())),
            Err(wrong) => Err(Problem::unavailable(wrong.to_string())),
        }
    }

    /// The body, up to its bound in bytes and in time.
    async fn read_body<B: Body<Data = Bytes> + Unpin>(
        &self,
        request: Request<B>,
    ) -> Result<Vec<u8>, Problem> {
        let announced = usize::try_from(request.body().size_hint().lower()).unwrap_or(usize::MAX);
        let waits = request.headers().contains_key(EXPECT);
        if announced > MAX_DRAINED_BYTES || (announced > MAX_BODY_BYTES && waits) {
            return Err(Problem::body_too_large(MAX_BODY_BYTES));
        }
        let mut body = request.into_body();
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

/// Whether the fields of a request let its body be read as JSON.
fn acceptable(headers: &HeaderMap) -> Result<(), Problem> {
    let identity = |value: &HeaderValue| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity");
    if !headers.get_all(CONTENT_ENCODING).iter().all(identity) {
        return Err(Problem::unsupported_encoding());
    }
    let is_json = |value: &HeaderValue| {
        let kind = value.as_bytes().split(|b| *b == b';').next().unwrap_or_default();
        kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
    };
    // A page may send other types anywhere without asking; it has to ask for this one, and nobody grants it.
    if headers.contains_key(ORIGIN) && !headers.get(CONTENT_TYPE).is_some_and(is_json) {
        return Err(Problem::foreign_page());
    }
    Ok(())
}

fn borrowed<'s>(keys: &'s [(Cow<'_, str>, Cow<'_, str>)]) -> Vec<(&'s str, &'s str)> {
    keys.iter().map(|(name, key)| (name.as_ref(), key.as_ref())).collect()
}

fn refusal(problem: &Problem) -> Answer {
    let mut answer = json(problem.status(), problem);
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if let Some(allow) = problem.allow {
        headers.insert(ALLOW, HeaderValue::from_static(allow));
    }
    answer
}

fn json(status: StatusCode, body: &impl Serialize) -> Answer {
    // Structs of texts and numbers cannot fail to be written; should they, an empty body is no panic.
    let bytes = serde_json::to_vec(body).unwrap_or_default();
    whole(status, "application/json", bytes.into())
}

fn text(status: StatusCode, body: &'static str) -> Answer {
    whole(status, "text/plain; charset=utf-8", Bytes::from_static(body.as_bytes()))
}

fn whole(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    answer
}

#[cfg(test)]
mod tests;
