//! [`RateLimit`]: the service with limits around it.

use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use ratekeeper_policy::Mode;
use tower_service::Service;

use crate::body::ResponseBody;
use crate::denied;
use crate::future::{Finish, ResponseFuture};
use crate::layer::Shared;
use crate::limited::Decided;
use crate::outcome::{Charged, Outcome};
use crate::waiting;

/// A service whose requests are limited, made by a [`RateLimitLayer`](crate::RateLimitLayer).
///
/// It is ready when the service behind it is, and its errors are that service's. A refusal is an answer.
#[derive(Clone)]
pub struct RateLimit<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S> RateLimit<S> {
    pub(crate) const fn new(inner: S, shared: Arc<Shared>) -> Self {
        Self { inner, shared }
    }

    /// The service behind it.
    pub const fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S, B, R> Service<Request<B>> for RateLimit<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Send + 'static,
    R: Send + 'static,
{
    type Response = Response<ResponseBody<R>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, R, S::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let shared = &self.shared;
        if shared.passes_by(&request) {
            return ResponseFuture::inner(self.inner.call(request), Finish::default());
        }
        let (mut parts, body) = request.into_parts();
        if shared.waits {
            // Ready is the service that was polled: a clone takes its place for the next request.
            let clone = self.inner.clone();
            let ready = std::mem::replace(&mut self.inner, clone);
            let shared = Arc::clone(shared);
            return ResponseFuture::waiting(waiting::call(shared, ready, Request::from_parts(parts, body)));
        }
        let mut outcome = Outcome::default();
        if let Err(denial) = shared.ask_now(&parts, shared.refunds(), &mut outcome) {
            if shared.options.mode == Mode::Enforce {
                return ResponseFuture::denied(denied::respond(shared, &parts, Err(&denial)));
            }
            // What only shows itself never makes a request bad input.
            outcome = Outcome::default();
        }
        shared.observe(&parts, &outcome);
        if !outcome.allowed() && shared.options.mode == Mode::Enforce {
            return ResponseFuture::denied(denied::respond(shared, &parts, Ok(&outcome)));
        }
        let finish = admit(shared, &mut parts, outcome);
        ResponseFuture::inner(self.inner.call(Request::from_parts(parts, body)), finish)
    }
}

/// Lets a request through: what its answer is told and may give back, and what the service behind is handed.
pub(crate) fn admit(shared: &Arc<Shared>, parts: &mut http::request::Parts, outcome: Outcome) -> Finish {
    let fields = shared.fields(&outcome);
    let Outcome { decision, held, .. } = outcome;
    Decided::stamp(&mut parts.extensions, shared.id, decision);
    let refund = (shared.refunds() && !held.is_nothing()).then(|| (Arc::clone(shared), Charged::new(held)));
    Finish::new(fields, refund)
}
