use super::*;
use crate::{Algorithm, Ask, Micros, StateRef, evaluate};
use core::time::Duration;

fn after(limit: &Limit, at_us: u64, cost: u64) -> State {
    let e =
        evaluate(limit, StateRef::Words(State::FRESH), &Moment::at(Micros::new(at_us)), cost, Ask::Acquire);
    assert!(e.allowed());
    e.next()
}

fn remaining_and_wait(limit: &Limit, state: State, at_us: u64, cost: u64) -> (u64, u64) {
    let at = Moment::at(Micros::new(at_us));
    let v = evaluate(limit, StateRef::Words(state), &at, cost, Ask::Peek).untouched();
    (v.remaining(), v.retry_after().map_or(u64::MAX, |d| d.as_micros() as u64))
}

#[test]
fn a_raised_rate_keeps_the_units_in_use_and_shortens_the_wait_at_once() {
    let old = Limit::per(1, Duration::from_secs(100)).algorithm(Algorithm::Gcra);
    let new = Limit::per(1, Duration::from_secs(10)).algorithm(Algorithm::Gcra);
    let state = after(&old, 0, 1);
    let at = Moment::at(Micros::new(10_000_000));
    // 0.9 units are still in use: 9 s, never 90 s.
    assert_eq!(remaining_and_wait(&new, new.convert(&old, state, &at), 10_000_000, 1), (0, 9_000_000));
}

#[test]
fn a_cut_never_locks_for_longer_than_the_new_period() {
    let old = Limit::per_minute(1_000);
    let new = Limit::per_minute(10).burst(2);
    let state = after(&old, 0, 1_000);
    let converted = new.convert(&old, state, &Moment::at(Micros::ZERO));
    assert_eq!(remaining_and_wait(&new, converted, 0, 2), (0, 12_000_000));
}

#[test]
fn a_new_window_takes_over_what_still_counts_capped() {
    for (algorithm, counted) in [(Algorithm::FixedWindow, 7), (Algorithm::SlidingWindowCounter, 7)] {
        let old = Limit::per(10, Duration::from_secs(10)).algorithm(algorithm);
        let at = Moment::at(Micros::new(3_000_000));
        let state = after(&old, 0, counted);
        let wider = Limit::per(20, Duration::from_secs(60)).algorithm(algorithm);
        assert_eq!(remaining_and_wait(&wider, wider.convert(&old, state, &at), 3_000_000, 1).0, 13);
        let smaller = Limit::per(5, Duration::from_secs(60)).algorithm(algorithm);
        assert_eq!(remaining_and_wait(&smaller, smaller.convert(&old, state, &at), 3_000_000, 1).0, 0);
        let same_window = Limit::per(5, Duration::from_secs(10)).algorithm(algorithm);
        assert_eq!(
            remaining_and_wait(&same_window, same_window.convert(&old, state, &at), 3_000_000, 1).0,
            0
        );
    }
}

#[test]
fn what_a_smaller_bucket_or_queue_cannot_hold_is_cut_and_windows_never_are() {
    let at = |us| Moment::at(Micros::new(us));
    let spec = |algorithm| Limit::per_minute(60).algorithm(algorithm);
    for algorithm in [Algorithm::TokenBucket, Algorithm::Gcra, Algorithm::LeakyBucket] {
        let (old, same_rate) = (spec(algorithm), spec(algorithm).burst(10));
        let slower = Limit::per_minute(30).algorithm(algorithm).burst(10);
        for new in [same_rate, slower] {
            assert!(!new.cuts(&old, after(&old, 0, 10), &at(0)), "{algorithm:?}");
            assert!(new.cuts(&old, after(&old, 0, 11), &at(0)), "{algorithm:?}");
            // After a second a unit has drained.
            assert!(new.cuts(&old, after(&old, 0, 11), &at(999_999)), "{algorithm:?}");
            assert!(!new.cuts(&old, after(&old, 0, 11), &at(1_000_000)), "{algorithm:?}");
        }
    }
    let queue = |waiting| spec(Algorithm::LeakyBucket).queue(waiting);
    assert!(!queue(9).cuts(&queue(59), after(&queue(59), 0, 10), &at(0)));
    assert!(queue(9).cuts(&queue(59), after(&queue(59), 0, 11), &at(0)));
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindowCounter] {
        let (old, new) = (spec(algorithm), Limit::per_hour(5).algorithm(algorithm));
        let state = after(&old, 0, 60);
        assert!(!new.cuts(&old, state, &at(0)));
        // All of them are still there when the old limit comes back.
        let back = old.convert(&new, new.convert(&old, state, &at(0)), &at(0));
        assert_eq!(remaining_and_wait(&old, back, 0, 1).0, 0, "{algorithm:?}");
    }
}

#[test]
fn another_rule_starts_afresh() {
    let old = Limit::per_minute(10);
    let new = old.algorithm(Algorithm::FixedWindow);
    assert_eq!(new.convert(&old, after(&old, 0, 10), &Moment::at(Micros::ZERO)), State::FRESH);
}
