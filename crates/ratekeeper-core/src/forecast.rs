//! What becomes of those who stand in line: the same rules, one after another, in time that has not come yet.

use crate::algorithm::{Moment, Rule, State};
use crate::decision::{Ask, Verdict, decide_one};
use crate::limit::Limit;
use crate::time::{Micros, Window};

/// When each of a line of requests will be served, if nobody else asks: each at the first instant, not before the
/// one ahead of it, at which the limit admits it.
///
/// ```
/// use ratekeeper_core::{Ask, Limit, Micros, Moment, State, StateRef, evaluate};
/// let limit = Limit::per_second(1).burst(100);
/// let at = |us| Moment::at(Micros::new(us));
/// let empty = evaluate(&limit, StateRef::Words(State::FRESH), &at(7), 100, Ask::Acquire).taken();
/// let mut line = empty.forecast().expect("a bucket can be foretold");
/// let mut start = |cost| line.admit(cost, |_| None);
/// assert_eq!(start(60), Some(Micros::new(60_000_007)));
/// assert_eq!(start(1), Some(Micros::new(61_000_007)), "behind sixty units");
/// assert_eq!(start(101), None);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Forecast {
    limit: Limit,
    state: State,
    now: u64,
}

impl Verdict {
    /// What follows this decision; `None` for a sliding-window log, whose entries are not at hand, and where
    /// nobody has been asked.
    #[must_use]
    pub fn forecast(&self) -> Option<Forecast> {
        let Self { limit, state, now, .. } = *self;
        let can_tell = self.has_numbers() && !self.has_no_room() && limit.rule() != Rule::Log;
        can_tell.then_some(Forecast { limit, state, now })
    }
}

impl Forecast {
    /// A request refused twice at the instant that it was told has met a boundary of its calendar; never more.
    const MOST_LOOKS: usize = 4;

    /// Puts a request behind the others: when it will start, by the clock of the decision (a queue: its slot, not when
    /// it gets it). `None`: never; then it takes nothing. `period` says the calendar period of an instant, for limits
    /// that follow one.
    pub fn admit(&mut self, cost: u64, period: impl Fn(Micros) -> Option<Window>) -> Option<Micros> {
        for _ in 0..Self::MOST_LOOKS {
            let now = Micros::new(self.now);
            let at = Moment { now, heals: false, period: period(now) };
            let (next, verdict) = decide_one(&self.limit, self.state, &at, cost, Ask::Acquire);
            if verdict.allowed() {
                self.state = next.unwrap_or(self.state);
                return Some(now.saturating_add(verdict.delay()));
            }
            let wait = verdict.retry_after()?;
            self.now = now.saturating_add(wait).get();
        }
        Some(Micros::new(self.now))
    }
}
