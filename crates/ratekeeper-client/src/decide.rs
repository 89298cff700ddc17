//! Whether to try again, and when: a function of what is known.

use std::time::Duration;

use http::{Method, StatusCode};
use ratekeeper_core::Micros;

use crate::budget::Balance;
use crate::draw::{Draw, micros_up};
use crate::hint::{Hint, Wait};
use crate::profile::Class;
use crate::settings::{Repeat, Settings};

/// What is known of a call when an answer to it comes.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// Sends so far, the one that was answered included.
    pub attempts: u32,
    /// Whether its method may be repeated by itself: see [`is_idempotent`].
    pub idempotent: bool,
    /// Whether it has an Idempotency-Key.
    pub has_key: bool,
    /// Whether there is a body to be sent again, or none.
    pub replayable: bool,
    /// The wait before this attempt; zero before the first.
    pub previous: Duration,
    /// When its caller gives up.
    pub deadline: Option<Micros>,
}

/// GET, HEAD, OPTIONS, TRACE, PUT and DELETE.
#[must_use]
pub fn is_idempotent(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE, Method::PUT, Method::DELETE].contains(method)
}

/// How a send failed without an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The server has not seen it: no connection could be made.
    NeverSent,
    /// The server has said that it did nothing about it, by HTTP/2: asked again at once, for nothing, once.
    Unprocessed,
    /// It may have been worked on.
    MaybeProcessed,
    /// Trying again gives the same: a wrong certificate, a request that cannot be written.
    Permanent,
}

/// What came of a send.
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'a> {
    /// An answer, and what it means.
    Answer {
        /// Its status.
        status: StatusCode,
        /// What it means for trying again.
        class: Class,
        /// What it says about waiting.
        hint: &'a Hint,
    },
    /// None.
    Failed(Failure),
}

/// Why a call is repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// It was refused: the quota is used up.
    Throttled,
    /// The service has too much to do.
    Overloaded,
    /// Something failed that may not fail again.
    Transient,
    /// It was never sent, or not processed.
    NotProcessed,
}

/// Why a call that failed is not repeated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum GiveUp {
    /// All attempts are made.
    Attempts,
    /// The key has no retries left in its budget.
    Budget,
    /// The server asks for more than `max_hint`: this much.
    HintTooLong(Wait),
    /// The wait would pass the caller's deadline.
    Deadline,
    /// The body can be sent once only.
    NotReplayable,
    /// The method may not be repeated after this.
    NotRetryable,
    /// The server has taken the traffic for abuse.
    Abuse,
}

/// What to do about an outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Nothing: it is the answer, or a failure that asking again does not change.
    Done,
    /// Send it again.
    Retry {
        /// Not earlier than this.
        not_before: Micros,
        /// The reason.
        why: Why,
        /// What it took from the budget, in thousandths of a token.
        paid_milli: u64,
    },
    /// Return what came, with the reason.
    GiveUp(GiveUp),
}

/// The wait before the next attempt after a refusal or an overload, from when the answer came. `Err`: longer than
/// may be waited.
pub(crate) fn wait_for(settings: &Settings, call: &Call, hint: &Hint, draw: Draw) -> Result<Duration, Wait> {
    let quota = settings.quota.wait(call.attempts, call.previous, draw);
    match hint.least() {
        None => Ok(micros_up(quota)),
        Some(Wait::For(least)) => {
            let doublings = if hint.grows { call.attempts.saturating_sub(1) } else { 0 };
            let least = least.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX));
            if least > settings.max_hint.saturating_add(hint.margin) {
                return Err(Wait::For(least));
            }
            // The margin is no part of what the jitter is a share of.
            let jitter = draw.up_to(settings.most_jitter(least.saturating_sub(hint.margin)));
            Ok(micros_up(least.saturating_add(jitter).max(quota)))
        }
        Some(Wait::Forever) => Err(Wait::Forever),
    }
}

/// Decides what to do about an outcome, and takes what a retry costs from the key's balance.
///
/// It never waits less than a hint asks for: a hint that is too long ends the call.
pub fn decide(
    settings: &Settings,
    call: &Call,
    outcome: &Outcome<'_>,
    balance: &mut Balance,
    now: Micros,
    draw: Draw,
) -> Next {
    let why = match reason(settings, call, outcome) {
        Ok(why) => why,
        Err(next) => return next,
    };
    if let Some(reason) = forbidden(settings, call, outcome) {
        return Next::GiveUp(reason);
    }
    let transient = || micros_up(settings.transient.wait(call.attempts, call.previous, draw));
    let wait = match outcome {
        Outcome::Failed(Failure::Unprocessed) => {
            return Next::Retry { not_before: now, why, paid_milli: 0 };
        }
        Outcome::Answer { hint, .. } if why == Why::Throttled || hint.wait.is_some() => {
            match wait_for(settings, call, hint, draw) {
                Ok(wait) => wait,
                Err(wait) => return Next::GiveUp(GiveUp::HintTooLong(wait)),
            }
        }
        Outcome::Answer { .. } | Outcome::Failed(_) => transient(),
    };
    if call.deadline.is_some_and(|deadline| wait > now.until(deadline)) {
        return Next::GiveUp(GiveUp::Deadline);
    }
    match balance.withdraw(&settings.budget, why == Why::Throttled, now) {
        Some(paid_milli) => Next::Retry { not_before: now.saturating_add(wait), why, paid_milli },
        None => Next::GiveUp(GiveUp::Budget),
    }
}

/// Why the outcome asks for another attempt, or what there is to be done if it does not.
fn reason(settings: &Settings, call: &Call, outcome: &Outcome<'_>) -> Result<Why, Next> {
    let as_if_idempotent = call.idempotent
        || match settings.non_idempotent {
            Repeat::Never => false,
            Repeat::On429Only | Repeat::WithIdempotencyKey => call.has_key,
            Repeat::Always => true,
        };
    let if_refused = as_if_idempotent || settings.non_idempotent == Repeat::On429Only;
    let (why, allowed) = match outcome {
        Outcome::Answer { class: Class::Throttled, .. } => (Why::Throttled, if_refused),
        Outcome::Answer { class: Class::Overloaded, .. } => (Why::Overloaded, as_if_idempotent),
        Outcome::Answer { class: Class::Transient, .. } => (Why::Transient, as_if_idempotent),
        Outcome::Answer { class: Class::Abuse, .. } => return Err(Next::GiveUp(GiveUp::Abuse)),
        // The first request of this key is still at work: its answer will be the answer.
        Outcome::Answer { status: StatusCode::CONFLICT, .. } if call.has_key => (Why::Transient, true),
        Outcome::Answer { class: Class::Success | Class::Permanent, .. }
        | Outcome::Failed(Failure::Permanent) => return Err(Next::Done),
        // By its method or not: the server says that it did nothing.
        Outcome::Failed(Failure::Unprocessed) => (Why::NotProcessed, call.attempts == 1),
        Outcome::Failed(Failure::NeverSent) => (Why::NotProcessed, if_refused),
        Outcome::Failed(Failure::MaybeProcessed) => (Why::Transient, as_if_idempotent),
    };
    if allowed { Ok(why) } else { Err(Next::GiveUp(GiveUp::NotRetryable)) }
}

/// Why it may not be repeated, however good the reason.
fn forbidden(settings: &Settings, call: &Call, outcome: &Outcome<'_>) -> Option<GiveUp> {
    // Without early data there is no second reason to say "too early".
    let early = matches!(outcome, Outcome::Answer { status: StatusCode::TOO_EARLY, .. });
    let most = if early { settings.max_attempts.min(2) } else { settings.max_attempts };
    match () {
        () if call.attempts >= most => Some(GiveUp::Attempts),
        () if !call.replayable => Some(GiveUp::NotReplayable),
        () => None,
    }
}

#[cfg(test)]
mod tests;
