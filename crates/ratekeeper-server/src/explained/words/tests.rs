use std::time::Duration;

use ratekeeper_core::{Algorithm, Ask, Clock as _, ManualClock, Micros, Name, NamedLimit};

use super::super::of::now;
use super::*;

/// 12:57:42.120 of a day in UTC.
const NOON: u64 = 1_767_272_262_120_000;

/// What is told of a limit after admissions of so many units, each so long after the one before, when this cost is asked
/// for at the end.
fn told(limit: ratekeeper_core::Limit, taken: &[(u64, u64)], then_ms: u64, cost: u64) -> [String; 2] {
    let clock = ManualClock::at(Micros::new(NOON));
    let store =
        ratekeeper::MemoryStore::builder().max_keys(100).clock(clock.clone()).build().expect("a store");
    let named = NamedLimit::new(&Name::new("p").expect("a name"), Name::new("l").expect("a name"), limit);
    let check = |cost| [ratekeeper_core::Check { limit: &named, key: "k".into(), cost }];
    for (after_ms, cost) in taken {
        clock.advance(Duration::from_millis(*after_ms));
        assert!(store.decide_now(&check(*cost), Ask::Acquire).expect("a decision").allowed);
    }
    clock.advance(Duration::from_millis(then_ms));
    let decision = store.decide_now(&check(cost), Ask::Peek).expect("a decision");
    let now = now(&decision.limits()[0]);
    assert_eq!(now.at_ms, clock.now().get().div_ceil(1_000));
    let limit = Limit {
        name: "l".into(),
        algorithm: limit.kind().name().into(),
        limit: limit.to_string(),
        key: None,
        window_ms: u64::try_from(limit.window().as_millis()).expect("a short one"),
        capacity: limit.capacity(),
        arithmetic: String::new(),
        now: None,
    };
    [arithmetic(&limit, &now, &TimeZone::UTC), verdict(&limit, &now, &TimeZone::UTC)]
}

#[test]
fn a_bucket_shows_how_much_is_too_much_and_for_how_long() {
    let limit = ratekeeper_core::Limit::per_second(10).burst(20);
    assert_eq!(
        told(limit, &[(0, 20)], 40, 1),
        [
            "level 19.6 of 20, cost 1 \u{2192} 0.6 too much \u{2192} 60 ms",
            "DENIED now: enough has drained at 12:57:42.220, so again in 60 ms"
        ]
    );
    assert_eq!(told(limit, &[(0, 15)], 0, 1), ["level 15 of 20", "ALLOWED now: 5 of 20 left"]);
    assert_eq!(
        told(limit, &[], 0, 21),
        ["level 0 of 20", "DENIED: it never holds more than 20, so a cost of 21 can never pass"]
    );
}

#[test]
fn a_log_names_the_entry_whose_end_is_waited_for() {
    let limit =
        ratekeeper_core::Limit::per(10, Duration::from_secs(600)).algorithm(Algorithm::SlidingWindowLog);
    let ten: Vec<(u64, u64)> = (0..10).map(|i| (if i == 0 { 0 } else { 10_000 }, 1)).collect();
    assert_eq!(
        told(limit, &ten, 296_126, 1),
        [
            "10 used: 12:57:42.120 \u{2026} 12:59:12.120",
            "DENIED now: the oldest leaves at 13:07:42.120, so again in 3 min 34 s"
        ]
    );
    // Two units need the second entry gone, too.
    assert_eq!(
        told(limit, &ten, 296_126, 2)[1],
        "DENIED now: enough has left at 13:07:52.120, so again in 3 min 44 s"
    );
    assert_eq!(told(limit, &[], 0, 1), ["0 used of 10", "ALLOWED now: 10 of 10 left"]);
    assert_eq!(told(limit, &[(0, 1)], 5, 1)[0], "1 used: 12:57:42.120");
    assert_eq!(told(limit, &[(0, 3)], 5, 1)[0], "3 used: 12:57:42.120");
}

#[test]
fn windows_show_their_counts() {
    let fixed = ratekeeper_core::Limit::per_minute(10).algorithm(Algorithm::FixedWindow);
    assert_eq!(
        told(fixed, &[(0, 7)], 5_580, 1),
        ["count 7 of 10 in the window that ends in 12.3 s", "ALLOWED now: 3 of 10 left"]
    );
    assert_eq!(
        told(fixed, &[(0, 7)], 5_580, 4)[1],
        "DENIED now: the window ends at 12:58:00.000, so again in 13 s"
    );
    let counter = ratekeeper_core::Limit::per_second(100).algorithm(Algorithm::SlidingWindowCounter);
    // A second begins 880 ms after the first admission.
    assert_eq!(
        told(counter, &[(0, 80), (1_000, 12)], 530, 61),
        [
            "previous 80 \u{d7} 35 % + current 12 = 40 of 100",
            "DENIED now: enough has faded at 12:57:43.663, so again in 13 ms"
        ]
    );
}

#[test]
fn a_queue_shows_who_waits_and_when_the_next_starts() {
    let limit = ratekeeper_core::Limit::per_second(1)
        .algorithm(Algorithm::LeakyBucket)
        .queue(10)
        .max_wait(Duration::from_secs(5));
    assert_eq!(
        told(limit, &[(0, 3)], 0, 1),
        ["2 of 10 waiting, start in 3 s", "ALLOWED now: 3 of 11 left, start in 3 s"]
    );
    assert_eq!(told(limit, &[], 0, 1), ["0 of 10 waiting, start at once", "ALLOWED now: 6 of 11 left"]);
    assert_eq!(
        told(limit, &[(0, 6)], 500, 1),
        [
            "5 of 10 waiting, start in 5.5 s",
            "DENIED now: a place is free at 12:57:43.120, so again in 500 ms"
        ]
    );
}
