//! Whether a store is asked at all: one that has failed again and again is left alone for a moment, so that nobody
//! waits for what does not come.

use std::hash::BuildHasher as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ratekeeper_core::Micros;

/// So many failures in a row open it.
const MAX_IN_A_ROW: u32 = 5;
/// So many calls within [`LOOK_BACK`] are enough to judge by their share of failures.
const MIN_CALLS: u32 = 20;
const LOOK_BACK: Duration = Duration::from_secs(1);
/// For how long nobody is asked then; up to a fifth is added, so that a fleet does not come back at one instant.
pub(super) const OPEN_FOR: Duration = Duration::from_secs(1);
/// How long an attempt may be under way before another one is made.
const MAX_ATTEMPT: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Breaker {
    state: Mutex<State>,
}

#[derive(Clone, Copy, Default)]
struct State {
    in_a_row: u32,
    window: Micros,
    calls: u32,
    failures: u32,
    /// Nobody is asked before.
    opens_at: Option<Micros>,
    /// Since when somebody tries.
    attempt: Option<Micros>,
    down_since: Option<Micros>,
}

/// What a result has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    None,
    /// It has opened just now.
    Down,
    /// The store answers again, after so long.
    Up(Duration),
}

impl Breaker {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the store is to be asked. While it is left alone, one caller at a time tries.
    pub(super) fn lets_through(&self, now: Micros) -> bool {
        let mut state = self.state();
        let Some(opens_at) = state.opens_at else { return true };
        let is_tried = state.attempt.is_some_and(|since| now < since.saturating_add(MAX_ATTEMPT));
        if now < opens_at || is_tried {
            return false;
        }
        state.attempt = Some(now);
        true
    }

    /// Whether it is left alone.
    pub(super) fn is_open(&self) -> bool {
        self.state().opens_at.is_some()
    }

    /// Notes that it answered.
    pub(super) fn answered(&self, now: Micros) -> Change {
        let mut state = self.state();
        state.count(now, false);
        state.in_a_row = 0;
        if state.opens_at.is_none() {
            return Change::None;
        }
        let since = state.down_since.unwrap_or(now);
        *state = State::default();
        Change::Up(since.until(now))
    }

    /// Notes that it did not.
    pub(super) fn failed(&self, now: Micros) -> Change {
        let mut state = self.state();
        state.count(now, true);
        state.in_a_row = state.in_a_row.saturating_add(1);
        state.attempt = None;
        let is_bad = state.in_a_row >= MAX_IN_A_ROW
            || (state.calls >= MIN_CALLS && 2 * u64::from(state.failures) >= u64::from(state.calls));
        if state.opens_at.is_none() && !is_bad {
            return Change::None;
        }
        let more =
            foldhash::quality::RandomState::default().hash_one(now.get()) % (OPEN_FOR.as_micros() as u64 / 5);
        let was_open = state.opens_at.is_some();
        state.opens_at = Some(now.saturating_add(OPEN_FOR + Duration::from_micros(more)));
        if was_open {
            return Change::None;
        }
        state.down_since = Some(now);
        Change::Down
    }
}

impl State {
    fn count(&mut self, now: Micros, failed: bool) {
        if now >= self.window.saturating_add(LOOK_BACK) {
            (self.window, self.calls, self.failures) = (now, 0, 0);
        }
        self.calls = self.calls.saturating_add(1);
        self.failures = self.failures.saturating_add(u32::from(failed));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratekeeper_core::Micros;

    use super::{Breaker, Change};

    const fn ms(ms: u64) -> Micros {
        Micros::new(ms * 1_000)
    }

    #[test]
    fn five_failures_in_a_row_open_it_and_one_caller_at_a_time_tries_again() {
        let breaker = Breaker::default();
        for n in 0..4 {
            assert_eq!(breaker.failed(ms(n * 5_000)), Change::None);
        }
        assert!(breaker.lets_through(ms(15_001)));
        assert_eq!(breaker.failed(ms(20_000)), Change::Down);
        assert!(breaker.is_open() && !breaker.lets_through(ms(20_999)));
        assert!(breaker.lets_through(ms(21_200)), "one tries");
        assert!(!breaker.lets_through(ms(21_201)), "and no other");
        assert_eq!(breaker.failed(ms(21_250)), Change::None, "it was down before");
        assert!(!breaker.lets_through(ms(22_000)));
        assert!(breaker.lets_through(ms(22_500)));
        assert_eq!(breaker.answered(ms(22_510)), Change::Up(Duration::from_millis(2_510)));
        assert!(breaker.lets_through(ms(22_511)) && breaker.lets_through(ms(22_512)));
    }

    #[test]
    fn half_of_twenty_within_a_second_opens_it_and_a_caller_that_goes_away_blocks_nobody() {
        let breaker = Breaker::default();
        for n in 0..9 {
            assert_eq!(breaker.answered(ms(n)), Change::None);
            assert_eq!(breaker.failed(ms(n)), Change::None);
        }
        assert_eq!(breaker.answered(ms(20)), Change::None);
        assert_eq!(breaker.failed(ms(21)), Change::Down, "ten of twenty");
        assert!(breaker.lets_through(ms(1_300)));
        assert!(breaker.lets_through(ms(2_301)), "the first has not come back for a second");
    }
}
