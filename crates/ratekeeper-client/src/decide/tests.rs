use super::*;
use crate::budget::{Budget, Percent};
use crate::hint::HintSource;

fn at(ms: u64) -> Micros {
    Micros::new(ms * 1_000)
}

#[test]
fn shares_of_a_retry_are_counted_and_not_rounded_away() {
    let budget = Budget::share(Percent(1)).reserve(0, Duration::from_secs(10));
    let mut balance = Balance::new(&budget);
    for _ in 0..99 {
        balance.succeeded(&budget, None, at(0));
    }
    assert_eq!((balance.milli(), balance.withdraw(&budget, true, at(0))), (990, None));
    balance.succeeded(&budget, None, at(0));
    assert_eq!(balance.withdraw(&budget, true, at(0)), Some(1_000));
    assert_eq!(balance.milli(), 0);
    // A retry never earns.
    balance.succeeded(&budget, Some(1_000), at(0));
    assert_eq!(balance.milli(), 0);
}

#[test]
fn the_reserve_comes_back_each_span_and_earnings_are_forgotten_after_two() {
    let budget = Budget::share(Percent(100)).reserve(2, Duration::from_secs(10));
    let mut balance = Balance::new(&budget);
    balance.succeeded(&budget, None, at(0));
    for _ in 0..3 {
        assert!(balance.withdraw(&budget, false, at(1)).is_some());
    }
    assert!(balance.withdraw(&budget, false, at(9_999)).is_none());
    balance.succeeded(&budget, None, at(9_999));
    assert_eq!(balance.milli(), 1_000);
    assert!(balance.withdraw(&budget, false, at(10_000)).is_some());
    assert_eq!(balance.milli(), 2_000, "what was earned is spent first");
    balance.succeeded(&budget, None, at(10_000));
    assert!(balance.withdraw(&budget, false, at(60_000)).is_some());
    assert_eq!(balance.milli(), 1_000, "long ago");
}

#[test]
fn the_bucket_of_aws_pays_back_what_helped() {
    let budget = Budget::aws();
    let mut balance = Balance::new(&budget);
    assert_eq!(balance.withdraw(&budget, false, at(0)), Some(14_000));
    assert_eq!(balance.withdraw(&budget, true, at(0)), Some(5_000));
    assert_eq!(balance.milli(), 481_000);
    balance.succeeded(&budget, Some(5_000), at(0));
    balance.succeeded(&budget, None, at(0));
    assert_eq!(balance.milli(), 487_000);
    for _ in 0..20 {
        balance.succeeded(&budget, None, at(0));
    }
    assert_eq!(balance.milli(), 500_000, "it is full");
    let retries = std::iter::from_fn(|| balance.withdraw(&budget, false, at(0))).count();
    assert_eq!((retries, balance.milli()), (35, 10_000));
}

#[test]
fn a_deadline_that_is_just_enough_is_enough() {
    let hint =
        Hint { wait: Some(Wait::For(Duration::from_secs(60))), source: HintSource::RetryAfter, ..Hint::NONE };
    let outcome =
        Outcome::Answer { status: StatusCode::TOO_MANY_REQUESTS, class: Class::Throttled, hint: &hint };
    for (deadline, fits) in [(59_999, false), (60_000, true), (60_001, true)] {
        let call = Call {
            attempts: 1,
            idempotent: true,
            has_key: false,
            replayable: true,
            previous: Duration::ZERO,
            deadline: Some(at(deadline)),
        };
        let mut balance = Balance::new(&Settings::DEFAULT.budget);
        let next = decide(&Settings::DEFAULT, &call, &outcome, &mut balance, at(0), Draw::LEAST);
        assert_eq!(matches!(next, Next::Retry { .. }), fits, "{deadline}");
        // What is not sent is not paid for.
        assert_eq!(balance.milli(), if fits { 9_000 } else { 10_000 });
    }
}

#[test]
fn settings_that_cannot_be_are_named() {
    use crate::backoff::Backoff;
    use ratekeeper_core::{Algorithm, Limit};
    let zero = Duration::ZERO;
    for (settings, name) in [
        (Settings { max_attempts: 0, ..Settings::DEFAULT }, "max_attempts"),
        (Settings { max_in_flight: Some(0), ..Settings::DEFAULT }, "max_in_flight"),
        (Settings { transient: Backoff::full_jitter(zero, zero), ..Settings::DEFAULT }, "transient"),
        (
            Settings {
                quota: Backoff::equal_jitter(Duration::from_secs(2), Duration::from_secs(1)),
                ..Settings::DEFAULT
            },
            "quota",
        ),
        (Settings { hint_jitter_bounds: Duration::from_secs(1)..=zero, ..Settings::DEFAULT }, "hint_jitter"),
        (Settings { budget: Budget::share(Percent(1)).reserve(1, zero), ..Settings::DEFAULT }, "budget"),
        (
            Settings {
                own_limit: Some(Limit::per_second(1).algorithm(Algorithm::SlidingWindowLog)),
                ..Settings::DEFAULT
            },
            "own_limit",
        ),
    ] {
        let error = settings.check().unwrap_err().to_string();
        assert!(error.starts_with(name), "{error}");
    }
    assert_eq!(Settings::default().check(), Ok(()));
}
