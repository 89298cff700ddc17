//! Requests that wait before they are answered: for a shared store, for their start in a queue, or for their turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response};
use ratekeeper::Reason;
use ratekeeper_policy::Mode;
use tokio::time::{Instant, sleep};
use tower_service::Service;

use crate::body::ResponseBody;
use crate::denied;
use crate::layer::Shared;
use crate::outcome::{Outcome, Wrong};
use crate::service::admit;

type Admission<'s> = (Outcome, Duration, Option<Waiting<'s>>);

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
    let (mut outcome, ahead, place) = match admission(&shared, &parts).await {
        Ok(admission) => admission,
        Err(denial) if enforces => return Ok(denied::respond(&shared, &parts, Err(&denial))),
        Err(_) => (Outcome::default(), Duration::ZERO, None),
    };
    shared.observe(&parts, &outcome);
    if !outcome.allowed() && enforces {
        return Ok(denied::respond(&shared, &parts, Ok(&outcome)));
    }
    if !ahead.is_zero() {
        sleep(ahead).await;
    }
    drop(place);
    if !shared.refunds() {
        std::mem::take(&mut outcome.held).keep();
    }
    let finish = admit(&shared, &mut parts, outcome);
    let response = inner.call(Request::from_parts(parts, body)).await?;
    Ok(finish.of(response))
}

/// The decision, after waiting for it if that helps in time; how far ahead the start is, and the place of who waits for it.
async fn admission<'s>(shared: &'s Shared, parts: &Parts) -> Result<Admission<'s>, Wrong> {
    let enforces = shared.options.mode == Mode::Enforce;
    let within = shared.options.wait.filter(|_| enforces);
    if within.is_some() && shared.is_in_memory() {
        // Whoever was served in line has waited for its start there.
        return Ok((shared.ask_in_line(parts).await?, Duration::ZERO, None));
    }
    // A time that never comes is no deadline.
    let deadline = within.and_then(|within| Instant::now().checked_add(within));
    let (mut outcome, mut place) = match within {
        Some(_) => ask_again(shared, parts, deadline).await?,
        // What is taken before the start must be given back if nobody waits for that any more.
        None => (shared.ask(parts, true).await?, None),
    };
    let ahead = outcome.decision.as_ref().map_or(Duration::ZERO, |decision| decision.delay);
    if ahead.is_zero() || !enforces {
        return Ok((outcome, Duration::ZERO, None));
    }
    if is_late(deadline, ahead) {
        outcome.refuse(Reason::TooLate, ahead);
        return Ok((outcome, Duration::ZERO, None));
    }
    place = place.or_else(|| enter(shared));
    if place.is_none() {
        outcome.refuse(Reason::QueueFull, ahead);
        return Ok((outcome, Duration::ZERO, None));
    }
    Ok((outcome, ahead, place))
}

/// Asks shared stores until they let pass: they have no line, so each asks again when the wait that it was told is over.
async fn ask_again<'s>(
    shared: &'s Shared,
    parts: &Parts,
    deadline: Option<Instant>,
) -> Result<(Outcome, Option<Waiting<'s>>), Wrong> {
    let mut outcome = shared.ask(parts, true).await?;
    let mut place = None;
    while let Some(wait) = wait_of(&outcome) {
        // Who cannot be let in in time is told so at once.
        if is_late(deadline, wait) {
            break;
        }
        place = place.or_else(|| enter(shared));
        if place.is_none() {
            break;
        }
        sleep(wait).await;
        outcome = shared.ask(parts, true).await?;
    }
    Ok((outcome, place))
}

/// Whether what is that far ahead comes after the deadline.
fn is_late(deadline: Option<Instant>, ahead: Duration) -> bool {
    deadline.is_some_and(|deadline| ahead > deadline.saturating_duration_since(Instant::now()))
}

fn enter(shared: &Shared) -> Option<Waiting<'_>> {
    Waiting::enter(&shared.options.waiting, shared.options.max_waiting)
}

/// How long it is worth waiting; `None` if the request is let through, or no wait helps.
fn wait_of(outcome: &Outcome) -> Option<Duration> {
    let decision = outcome.decision.as_ref().filter(|_| !outcome.allowed())?;
    decision.retry_after.filter(|_| decision.reason == Some(Reason::Limited))
}

/// A place among those that wait.
pub(crate) struct Waiting<'w>(&'w AtomicUsize);

impl<'w> Waiting<'w> {
    pub(crate) fn enter(waiting: &'w AtomicUsize, most: usize) -> Option<Self> {
        let more = |now: usize| (now < most).then_some(now + 1);
        waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self(waiting))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
