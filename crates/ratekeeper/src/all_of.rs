//! Several limiters' answer to one request, where how many there are is known at run time only.

use ratekeeper_core::{Ask, Decision, MAX_LIMITS, StoreError, Verdict};
use smallvec::SmallVec;

use crate::keyed::LimiterCheck;
use crate::receipt::{Part, Reservation};
use crate::store::memory::{Query, decide_queries};

/// Puts a list of limits to one request: see [`all_of`].
#[derive(Clone, Copy)]
#[must_use]
pub struct AllOf<'c, 'a> {
    checks: &'c [LimiterCheck<'a>],
}

/// [`all`](crate::all) for a list whose length is known at run time only: what a layer or a configuration puts
/// together.
///
/// ```
/// use ratekeeper::{KeyedLimiter, Limit, Limiter, all_of};
/// let users = KeyedLimiter::new(Limit::per_minute(1));
/// let global = Limiter::new(Limit::per_minute(10));
/// let mut checks = vec![global.check()];
/// checks.push(users.check("u1")); // only of those who say who they are
/// assert!(all_of(&checks)?.try_acquire().allowed);
/// assert!(!all_of(&checks)?.try_acquire().allowed);
/// assert_eq!(global.peek().remaining(), 9, "the refusal took nothing");
/// # Ok::<(), ratekeeper::StoreError>(())
/// ```
///
/// # Errors
/// [`StoreError::TooManyLimits`] for more than 16.
pub const fn all_of<'c, 'a>(checks: &'c [LimiterCheck<'a>]) -> Result<AllOf<'c, 'a>, StoreError> {
    if checks.len() > MAX_LIMITS { Err(StoreError::TooManyLimits) } else { Ok(AllOf { checks }) }
}

impl<'c, 'a> AllOf<'c, 'a> {
    /// Of a list whose length has been looked at.
    pub(crate) const fn new(checks: &'c [LimiterCheck<'a>]) -> Self {
        Self { checks }
    }

    /// Takes the cost of every limit, or nothing.
    pub fn try_acquire(self) -> Decision {
        self.decide(Ask::Acquire)
    }

    /// Would [`AllOf::try_acquire`] take them? Never writes.
    pub fn peek(self) -> Decision {
        self.decide(Ask::Peek)
    }

    /// Takes the cost of every limit in a way that can be given back; with the numbers of the answer, whatever it is.
    /// There is a reservation if it is allowed.
    pub fn reserve(self) -> (Decision, Option<Reservation>) {
        let decision = self.try_acquire();
        let part = |check: &LimiterCheck<'_>| {
            let (store, calendar) = (&check.limiter.store, check.limiter.calendar.as_ref());
            check.query().map(|query| Part::of(store, calendar, &query))
        };
        let parts = || self.checks.iter().filter_map(part).collect();
        let reservation = decision.allowed.then(|| Reservation::new(parts(), decision.limits()));
        (decision, reservation)
    }

    /// Waits until all limits let the request pass, and takes the cost of each: as [`All::acquire`](crate::All::acquire).
    ///
    /// # Panics
    /// The future, as [`KeyedLimiter::acquire`](crate::KeyedLimiter::acquire)'s.
    #[cfg(any(feature = "tokio", loom))]
    pub fn acquire(self) -> crate::AcquireAll {
        crate::AcquireAll::new(self.checks.iter().map(crate::waiting::One::of_check).collect())
    }

    fn decide(self, ask: Ask) -> Decision {
        let mut queries: SmallVec<[Query<'_>; 4]> = SmallVec::new();
        for check in self.checks {
            let Some(query) = check.query() else {
                // One limit too many to tell apart: that one refuses, so nothing is taken, and the rest look.
                return Decision::of(self.checks.iter().map(alone).collect());
            };
            // All buckets are asked for before the first is waited for.
            query.store.touch_for(&query);
            queries.push(query);
        }
        Decision::of(match &queries[..] {
            // One limit alone takes the short way.
            [query] => vec![query.store.decide_one(query, ask)],
            queries => decide_queries(queries, ask),
        })
    }
}

fn alone(check: &LimiterCheck<'_>) -> Verdict {
    match check.query() {
        Some(query) => decide_queries(&[query], Ask::Peek)[0],
        None => check.no_room(),
    }
}
