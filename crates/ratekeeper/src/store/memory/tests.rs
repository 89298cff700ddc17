#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

use super::*;
use crate::{Algorithm, Key, KeyedLimiter, ManualClock, Name, Source, all, seconds};

fn keyed(limit: Limit, max_keys: u64, clock: &ManualClock) -> KeyedLimiter {
    KeyedLimiter::builder(limit).max_keys(max_keys).clock(clock).build().unwrap()
}

const ONE_A_MINUTE: Limit = Limit::per_minute(1);

/// Every live key up to `max_keys` keeps its own state: the first of each is allowed, the second refused.
fn fill(limit: Limit, max_keys: u64) {
    let clock = ManualClock::new();
    let limiter = keyed(limit, max_keys, &clock);
    for key in 0..max_keys {
        let verdict = limiter.try_acquire(key);
        assert!(verdict.allowed(), "key {key} of {max_keys} is new");
        assert_eq!(verdict.source(), Source::Exact, "key {key} of {max_keys} has a place");
    }
    for key in 0..max_keys {
        let verdict = limiter.try_acquire(key);
        assert!(!verdict.allowed(), "key {key} of {max_keys} was remembered");
        assert_eq!(verdict.source(), Source::Exact);
    }
}

#[test]
fn a_table_filled_to_max_keys_places_every_live_key_exactly() {
    // Each limiter has a seed of its own, so repetition is what makes this a property.
    for max_keys in (1..=64).chain([100, 127, 500, 1_000, 4_096]) {
        for _ in 0..40 {
            fill(ONE_A_MINUTE, max_keys);
        }
    }
    for _ in 0..30 {
        fill(ONE_A_MINUTE, 50_000);
    }
    fill(ONE_A_MINUTE, 1_000_000);
}

#[test]
fn a_key_takes_the_bytes_that_are_said_of_it() {
    let buckets = MemoryStore::bytes_per_key(&ONE_A_MINUTE);
    assert_eq!(buckets, KeyBytes { table: 44, log: 0 });
    let store = MemoryStore::builder().max_keys(1_000_000).build().unwrap();
    let reserved = store.memory_bytes();
    assert!(reserved <= 44_000_000 && reserved > 43_000_000, "{reserved}");
    let words = MemoryStore::builder().max_keys(100_000).build().unwrap().memory_bytes();
    for n in [1, 3, 4, 5, 10, 1_000] {
        let log = Limit::per_minute(n).algorithm(Algorithm::SlidingWindowLog);
        let said = MemoryStore::bytes_per_key(&log);
        let clock = ManualClock::new();
        let store = MemoryStore::builder().max_keys(100_000).clock(&clock).build().unwrap();
        let named = NamedLimit::new(&Name::new("p").unwrap(), Name::new("l").unwrap(), log);
        // Full once, and once more while the first are leaving.
        for _ in 0..2 * n {
            let check = Check { limit: &named, key: "k".into(), cost: 1 };
            let _ = store.decide_now(&[check], crate::Ask::Acquire).unwrap();
            clock.advance(seconds(60) / u32::try_from(n).unwrap());
        }
        assert_eq!(store.log_bytes(), said.log, "{n}");
        let table = store.memory_bytes() - words;
        assert!(table <= 100_000 * said.table, "{table} for 100,000 keys, {} each", said.table);
    }
}

#[test]
fn a_table_of_logs_filled_to_max_keys_places_every_live_key_exactly() {
    let log = ONE_A_MINUTE.algorithm(Algorithm::SlidingWindowLog);
    for max_keys in (1..=64).chain([1_000, 20_000]) {
        for _ in 0..5 {
            fill(log, max_keys);
        }
    }
}

#[test]
fn places_of_keys_that_equal_fresh_ones_serve_newcomers_for_ever() {
    let clock = ManualClock::new();
    let limiter = keyed(ONE_A_MINUTE, 1_000, &clock);
    for generation in 0..200_u64 {
        for key in 0..1_000_u64 {
            let verdict = limiter.try_acquire(generation << 32 | key);
            assert!(verdict.allowed());
            assert_eq!(verdict.source(), Source::Exact, "generation {generation}, key {key}");
        }
        clock.advance(seconds(60));
    }
}

/// Fills a small store until some key finds no place.
fn overfull(limit: Limit, on_full: OnFull, clock: &ManualClock) -> (KeyedLimiter, u64) {
    let limiter = KeyedLimiter::builder(limit).max_keys(10).on_full(on_full).clock(clock).build().unwrap();
    for key in 0..10_000 {
        if limiter.try_acquire(key).source() == Source::Overflow {
            return (limiter, key);
        }
    }
    panic!("a table of ten cannot hold ten thousand");
}

#[test]
fn keys_without_a_place_share_one_state_and_say_so() {
    let clock = ManualClock::new();
    for algorithm in Algorithm::ALL {
        let limit = Limit::per_minute(3).algorithm(algorithm);
        let (limiter, first) = overfull(limit, OnFull::Share, &clock);
        assert_eq!(limiter.peek(first).remaining(), 2);
        assert!(limiter.try_acquire(20_000_u64).allowed());
        assert!(limiter.try_acquire(30_000_u64).allowed());
        let refused = limiter.try_acquire(40_000_u64);
        assert!(!refused.allowed(), "{algorithm}: three strangers have used up what all share");
        assert_eq!(refused.source(), Source::Overflow);
        assert_eq!(limiter.try_acquire(0_u64).source(), Source::Exact, "placed keys are untouched");
    }
}

#[test]
fn a_key_that_took_units_without_a_place_gets_none_back_when_places_become_free() {
    let clock = ManualClock::new();
    for algorithm in Algorithm::ALL {
        let limit = Limit::per_minute(3).algorithm(algorithm);
        let (limiter, first) = overfull(limit, OnFull::Share, &clock);
        assert!(limiter.try_acquire_n(first, 2).allowed());
        // Every placed key leaves, so there are places again, but not for this one.
        (0..first).for_each(|key| limiter.reset(key));
        let refused = limiter.try_acquire(first);
        assert!(!refused.allowed(), "{algorithm}");
        assert_eq!(refused.source(), Source::Overflow);
        assert_eq!(
            limiter.try_acquire(77_777_u64).source(),
            Source::Exact,
            "{algorithm}: a newcomer has a place"
        );
        // When the shared state is fresh again it is a key like any other.
        clock.advance(seconds(180));
        assert_eq!(limiter.try_acquire(first).source(), Source::Exact, "{algorithm}");
    }
}

#[test]
fn on_full_deny_refuses_newcomers_as_unavailable_and_charges_nothing() {
    let clock = ManualClock::new();
    let (limiter, first) = overfull(ONE_A_MINUTE, OnFull::Deny, &clock);
    for key in [first, 20_000, 30_000] {
        let refused = limiter.try_acquire(key);
        assert!(!refused.allowed());
        assert_eq!(refused.reason(), Some(crate::Reason::StoreUnavailable));
        assert_eq!(refused.source(), Source::Overflow);
        assert!(refused.retry_after().is_some_and(|wait| !wait.is_zero()));
    }
    clock.advance(seconds(60));
    assert!(limiter.try_acquire(first).allowed());
}

#[test]
fn logs_stay_within_max_bytes_and_are_kept_coarsely_beyond() {
    let clock = ManualClock::new();
    let limit = Limit::per_minute(1_000).algorithm(Algorithm::SlidingWindowLog);
    let store = MemoryStore::builder().max_keys(100).max_bytes(4_096).clock(&clock).build().unwrap();
    let name = crate::Name::new("log").unwrap();
    let limit = NamedLimit::new(&name, name.clone(), limit);
    let mut admitted = 0;
    let mut coarse = 0;
    for i in 0..2_000 {
        clock.advance(std::time::Duration::from_millis(1));
        let check = Check { limit: &limit, key: "k".into(), cost: 1 };
        let decision = store.decide_now(&[check], Ask::Acquire).unwrap();
        admitted += u64::from(decision.allowed);
        coarse += u64::from(decision.source == Source::Overflow);
        assert!(store.log_bytes() <= 4_096, "step {i}: {}", store.log_bytes());
    }
    assert_eq!(admitted, 1_000, "what cannot be kept exactly is still counted");
    assert!(coarse > 500, "{coarse}");
    // Coarse means longer, never shorter: a minute after the first unit nothing is free yet, and in the end all is.
    clock.set(Micros::new(60_001_000));
    let peek = |key: &str| {
        store.decide_now(&[Check { limit: &limit, key: key.into(), cost: 0 }], Ask::Peek).unwrap().remaining
    };
    assert!(peek("k") < 1_000);
    clock.set(Micros::new(62_001_000));
    assert_eq!(peek("k"), 1_000);
}

#[test]
fn memory_of_logs_that_have_run_dry_goes_to_those_that_need_it() {
    let clock = ManualClock::new();
    let limit = Limit::per_minute(100).algorithm(Algorithm::SlidingWindowLog);
    let limiter = KeyedLimiter::builder(limit).max_keys(200).max_bytes(64_000).clock(&clock).build().unwrap();
    for generation in 0..50_u64 {
        for i in 0..2_000_u64 {
            let verdict = limiter.try_acquire(generation << 32 | (i % 20));
            assert_eq!(verdict.source(), Source::Exact, "generation {generation}, step {i}");
            assert!(verdict.allowed());
        }
        clock.advance(seconds(60));
    }
}

#[test]
fn a_reset_or_refund_to_nothing_leaves_no_bytes_behind() {
    let clock = ManualClock::new();
    let limit = Limit::per_minute(100).algorithm(Algorithm::SlidingWindowLog);
    let limiter = keyed(limit, 100, &clock);
    (0..100).for_each(|_| assert!(limiter.try_acquire("k").allowed()));
    assert!(limiter.shared.store.log_memory.used() > 0);
    limiter.reset("k");
    assert_eq!(limiter.shared.store.log_memory.used(), 0);
    limiter.reserve("k", 5).unwrap().cancel();
    assert_eq!(limiter.shared.store.log_memory.used(), 0);
    assert_eq!(limiter.peek("k").remaining(), 100);
}

#[test]
fn a_limit_for_a_key_may_change_and_used_units_stay_used() {
    use std::sync::atomic::AtomicU64;
    let plan = Arc::new(AtomicU64::new(10));
    let clock = ManualClock::new();
    let seen = Arc::clone(&plan);
    let limiter = KeyedLimiter::builder(Limit::per_minute(1))
        .max_keys(100)
        .clock(&clock)
        .limit_for(move |key| {
            (*key == Key::from("acme")).then(|| Limit::per_minute(seen.load(Ordering::SeqCst)))
        })
        .build()
        .unwrap();
    assert!(limiter.try_acquire_n("acme", 10).allowed());
    assert!(!limiter.try_acquire("acme").allowed());
    assert!(!limiter.try_acquire_n("other", 2).allowed());
    plan.store(20, Ordering::SeqCst);
    // Half of 10 tokens a minute are in use for a minute: as units of the new limit still 10 of 20.
    assert_eq!(limiter.peek("acme").remaining(), 10);
    plan.store(5, Ordering::SeqCst);
    assert_eq!(limiter.peek("acme").remaining(), 0);
    clock.advance(seconds(60));
    assert_eq!(limiter.peek("acme").remaining(), 5);
}

#[test]
fn a_refused_request_leaves_every_other_limit_alone_whatever_their_order() {
    let clock = ManualClock::new();
    for algorithm in Algorithm::ALL {
        let user = keyed(ONE_A_MINUTE.algorithm(algorithm), 100, &clock);
        let tenant = keyed(Limit::per_minute(10), 100, &clock);
        for _ in 0..20 {
            let _ = all([user.check("u1"), tenant.check("t")]).try_acquire();
            let _ = all([tenant.check("t"), user.check("u1")]).try_acquire();
        }
        assert_eq!(tenant.peek("t").remaining(), 9, "{algorithm}");
        assert!(all([user.check("u2"), tenant.check("t")]).try_acquire().allowed);
        assert_eq!(tenant.peek("t").remaining(), 8, "{algorithm}");
    }
}

#[test]
fn a_key_named_twice_is_asked_once_with_the_sum() {
    let clock = ManualClock::new();
    for algorithm in Algorithm::ALL {
        let limiter = keyed(Limit::per_minute(5).algorithm(algorithm), 100, &clock);
        let twice = |a, b| all([limiter.check("k").cost(a), limiter.check("k").cost(b)]).try_acquire();
        assert!(!twice(3, 3).allowed, "{algorithm}: each would pass alone");
        assert!(twice(3, 2).allowed);
        assert_eq!(limiter.peek("k").remaining(), 0);
        limiter.reset("k");
        let reservation = all([limiter.check("k").cost(3), limiter.check("k").cost(2)]).reserve().unwrap();
        reservation.cancel();
        assert_eq!(limiter.peek("k").remaining(), 5, "{algorithm}: it comes back once");
    }
}

#[test]
fn one_decision_reads_the_clock_once() {
    struct Counting(AtomicU64);
    impl crate::Clock for Counting {
        fn now(&self) -> Micros {
            // Every reading is in another window.
            Micros::new(self.0.fetch_add(1, Ordering::SeqCst) * 60_000_000)
        }
    }
    let clock = Arc::new(Counting(AtomicU64::new(0)));
    let shared: Arc<dyn crate::Clock> = clock.clone();
    for algorithm in Algorithm::ALL {
        let a = KeyedLimiter::builder(Limit::per_minute(2).algorithm(algorithm))
            .max_keys(1)
            .clock(Arc::clone(&shared))
            .build()
            .unwrap();
        let b = KeyedLimiter::builder(Limit::per_minute(2))
            .max_keys(1)
            .clock(Arc::clone(&shared))
            .build()
            .unwrap();
        for key in 0..200_u64 {
            let before = clock.0.load(Ordering::SeqCst);
            let verdict = a.try_acquire(key);
            let _ = (verdict.remaining(), verdict.reset_after(), verdict.retry_after(), verdict.delay());
            assert_eq!(clock.0.load(Ordering::SeqCst), before + 1);
            let _ = all([a.check(key), b.check(key)]).try_acquire();
            assert_eq!(clock.0.load(Ordering::SeqCst), before + 2);
        }
    }
}

#[test]
fn more_limits_than_can_be_told_apart_are_refused_not_confused() {
    let clock = ManualClock::new();
    let limiter = KeyedLimiter::builder(Limit::per_minute(1_000_000))
        .max_keys(10)
        .clock(&clock)
        .limit_for(|key| match key.parts() {
            [crate::Part::Number(n)] => Limit::try_per(n + 1, seconds(60)).ok(),
            _ => None,
        })
        .build()
        .unwrap();
    for n in 0..u64::from(u16::MAX) {
        let verdict = limiter.peek_n(n, 1);
        assert_eq!(verdict.allowed(), n < shapes::MAX_SHAPES as u64 - 1, "{n}");
    }
    assert!(limiter.try_acquire("text").allowed());
}

#[test]
fn bytes_of_logs_are_counted_to_the_last_also_without_a_place() {
    let clock = ManualClock::new();
    let limiter = KeyedLimiter::builder(Limit::per_minute(5).algorithm(Algorithm::SlidingWindowLog))
        .max_keys(10)
        .clock(&clock)
        .limit_for(|key| match key.parts() {
            [crate::Part::Number(n)] => {
                Limit::try_per(5 + n % 7, seconds(60)).ok().map(|l| l.algorithm(Algorithm::SlidingWindowLog))
            }
            _ => None,
        })
        .build()
        .unwrap();
    for generation in 0..20_u64 {
        for key in 0..300_u64 {
            let _ = limiter.try_acquire(generation << 32 | key);
        }
        clock.advance(seconds(121));
        for key in 0..300_u64 {
            let _ = limiter.try_acquire(1 << 40 | key);
            limiter.reset(1 << 40 | key);
        }
        clock.advance(seconds(121));
        let used = limiter.shared.store.log_memory.used();
        assert!(used < 100_000, "generation {generation}: {used}");
    }
}
