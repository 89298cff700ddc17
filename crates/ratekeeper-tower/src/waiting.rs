//! Requests that wait before they are answered: for a shared store, for their start in a queue, or for their turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response};
use ratekeeper::Reason;
use ratekeeper_policy::Mode;
use tokio::time::{Instant, sleep, sleep_until};
use tower_service::Service;

use crate::body::ResponseBody;
use crate::denied;
use crate::layer::Shared;
use crate::outcome::{Outcome, Wrong};
use crate::service::admit;

/// Decides, waits as long as is to be waited, and calls. Dropped while it waits, it gives back what was taken.
pub(crate) async fn call<S, B, R>(
    shared: Arc<Shared>,
    mut inner: S,
    request: Request<B>,
) -> Result<Response<ResponseBody<R>>, S::Error>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    let (mut parts, body) = request.into_parts();
    let enforces = shared.options.mode == Mode::Enforce;
    let outcome = match admission(&shared, &parts).await {
        Ok(outcome) => outcome,
        Err(denial) if enforces => return Ok(denied::respond(&shared, &parts, Err(&denial))),
        Err(_) => Outcome::default(),
    };
    shared.observe(&parts, &outcome);
    if !outcome.allowed() && enforces {
        return Ok(denied::respond(&shared, &parts, Ok(&outcome)));
    }
    let delay = outcome.decision.as_ref().map_or(Duration::ZERO, |decision| decision.delay);
    if !delay.is_zero() && enforces {
        sleep(delay).await;
    }
    let mut outcome = outcome;
    if !shared.refunds() {
        std::mem::take(&mut outcome.held).keep();
    }
    let finish = admit(&shared, &mut parts, outcome);
    let response = inner.call(Request::from_parts(parts, body)).await?;
    Ok(finish.of(response))
}

/// The decision, after waiting for it if that helps in time.
async fn admission(shared: &Shared, parts: &Parts) -> Result<Outcome, Wrong> {
    // What is taken before the start must be given back if nobody waits for that any more.
    let first = shared.ask(parts, true).await?;
    let Some(within) = shared.options.wait.filter(|_| shared.options.mode == Mode::Enforce) else {
        return Ok(first);
    };
    let deadline = Instant::now() + within;
    let mut outcome = first;
    let mut place = None;
    while let Some(wait) = wait_of(&outcome) {
        let until = Instant::now() + wait;
        // Who cannot be let in in time is told so at once.
        if until > deadline {
            break;
        }
        if place.is_none() {
            place = Waiting::enter(&shared.options.waiting, shared.options.max_waiting);
            if place.is_none() {
                break;
            }
        }
        sleep_until(until).await;
        outcome = shared.ask(parts, true).await?;
    }
    Ok(outcome)
}

/// How long it is worth waiting; `None` if the request is let through, or no wait helps.
fn wait_of(outcome: &Outcome) -> Option<Duration> {
    let decision = outcome.decision.as_ref().filter(|_| !outcome.allowed())?;
    decision.retry_after.filter(|_| decision.reason == Some(Reason::Limited))
}

/// A place among those that wait.
struct Waiting<'w>(&'w AtomicUsize);

impl<'w> Waiting<'w> {
    fn enter(waiting: &'w AtomicUsize, most: usize) -> Option<Self> {
        let more = |now: usize| (now < most).then_some(now + 1);
        waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self(waiting))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
