//! Several limiters' answer to one request: all or nothing.

use ratekeeper_core::{Ask, Decision, MAX_LIMITS, Refused, Verdict};

use crate::keyed::LimiterCheck;
use crate::receipt::{Part, Reservation};
use crate::store::memory::decide_queries;

/// Puts several limits to one request: see [`all`].
#[must_use]
pub struct All<'a, const N: usize> {
    checks: [LimiterCheck<'a>; N],
}

/// Several limits on one request, decided together: every one of them takes its cost, or none does.
///
/// All states are locked before the clock is read, so the answer is one step for all threads. A key that is
/// named twice is asked once, with the sum of the costs. More than 16 limits do not compile. At most one of them
/// should be a leaky bucket with a queue: a request has one start.
///
/// ```
/// use ratekeeper::{KeyedLimiter, Limit, Limiter, all};
/// let users = KeyedLimiter::new(Limit::per_minute(1));
/// let global = Limiter::new(Limit::per_minute(10));
/// for _ in 0..20 {
///     let _ = all([users.check("u1"), global.check()]).try_acquire();
/// }
/// assert_eq!(global.peek().remaining(), 9, "nineteen refusals took nothing");
/// ```
pub const fn all<const N: usize>(checks: [LimiterCheck<'_>; N]) -> All<'_, N> {
    const { assert!(N <= MAX_LIMITS, "at most 16 limits decide one request") };
    All { checks }
}

impl<const N: usize> All<'_, N> {
    /// Takes the cost of every limit, or nothing.
    pub fn try_acquire(&self) -> Decision {
        self.decide(Ask::Acquire)
    }

    /// Would [`All::try_acquire`] take them? Never writes.
    pub fn peek(&self) -> Decision {
        self.decide(Ask::Peek)
    }

    /// Takes the cost of every limit in a way that can be given back.
    ///
    /// # Errors
    /// [`Refused`] if some limit refuses; then nothing is taken.
    pub fn reserve(&self) -> Result<Reservation, Refused> {
        let decision = self.try_acquire().into_result()?;
        let part = |check: &LimiterCheck<'_>| {
            let (store, calendar) = (&check.limiter.store, check.limiter.calendar.as_ref());
            check.query().map(|query| Part::of(store, calendar, &query))
        };
        Ok(Reservation::new(self.checks.iter().filter_map(part).collect(), decision.limits()))
    }

    fn decide(&self, ask: Ask) -> Decision {
        let queries: Option<Vec<_>> = self.checks.iter().map(LimiterCheck::query).collect();
        Decision::of(match queries {
            Some(queries) => decide_queries(&queries, ask),
            // One limit too many to tell apart: that one refuses, so nothing is taken, and the rest look.
            None => self.checks.iter().map(Self::alone).collect(),
        })
    }

    fn alone(check: &LimiterCheck<'_>) -> Verdict {
        match check.query() {
            Some(query) => decide_queries(&[query], Ask::Peek)[0],
            None => check.no_room(),
        }
    }
}
