//! What comes back, and what must not: refunds beside changing limits, shared states, duplicates.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper::{
    Algorithm, Ask, Check, Key, KeyedLimiter, KeyedLimiterBuilder, Limit, ManualClock, MemoryStore, Micros,
    Name, NamedLimit, OnFull, Reason, Source, Store as _, all, hours, seconds,
};

use crate::memory::now;

fn clock() -> ManualClock {
    ManualClock::at(Micros::new(1_000_000_000))
}

/// A limiter of ten keys, filled until strangers find no place.
fn full(builder: KeyedLimiterBuilder, clock: &ManualClock) -> KeyedLimiter {
    let limiter = builder.max_keys(10).clock(clock).build().unwrap();
    let overflows = (0..10_000_u64).any(|key| limiter.try_acquire(key).source() == Source::Overflow);
    assert!(overflows);
    limiter
}

#[test]
fn a_refund_after_the_limit_has_changed_never_gives_more_than_was_taken() {
    for algorithm in Algorithm::ALL {
        let plan = Arc::new(AtomicU64::new(10));
        let seen = Arc::clone(&plan);
        let clock = clock();
        let limiter = KeyedLimiter::builder(Limit::per_minute(1).algorithm(algorithm))
            .max_keys(10)
            .clock(&clock)
            .limit_for(move |_| Some(Limit::per_minute(seen.load(Ordering::SeqCst)).algorithm(algorithm)))
            .build()
            .unwrap();
        let reservation = limiter.reserve("k", 1).unwrap();
        plan.store(1_000, Ordering::SeqCst);
        let left = limiter.peek("k").remaining();
        assert!(limiter.try_acquire_n("k", left).allowed());
        drop(reservation);
        assert!(limiter.peek("k").remaining() <= 1, "{algorithm}: {}", limiter.peek("k").remaining());
    }
}

#[test]
fn a_token_of_another_limit_gives_nothing_back_and_stops_nothing() {
    let clock = clock();
    let policy = Name::new("p").unwrap();
    let named = |limit| NamedLimit::new(&policy, policy.clone(), limit);
    let store = MemoryStore::builder().max_keys(10).clock(&clock).build().unwrap();
    let huge = named(Limit::per_second(1_000_000_000));
    let check = |limit, cost| Check { limit, key: "k".into(), cost };
    let decision = store.decide_now(&[check(&huge, 1_000_000_000)], Ask::Acquire).unwrap();
    let token = decision.limits()[0].token().unwrap();
    let small = named(Limit::per_day(1));
    now(store.refund(&[(check(&small, 1), token)])).unwrap();
    now(store.refund(&[(check(&huge, 1), token)])).unwrap();
    assert_eq!(store.decide_now(&[check(&huge, 0)], Ask::Peek).unwrap().remaining, 1_000_000_000);
}

#[test]
fn a_reservation_comes_back_by_the_limit_that_was_charged() {
    let asked = AtomicU64::new(0);
    let other = Limit::per_day(1);
    let limiter = KeyedLimiter::builder(other)
        .max_keys(10)
        .clock(clock())
        .limit_for(move |_| {
            let first = asked.fetch_add(1, Ordering::SeqCst) == 0;
            Some(if first { Limit::per_second(1_000_000_000) } else { other })
        })
        .build()
        .unwrap();
    drop(limiter.reserve("k", 1_000_000_000).unwrap());
}

#[test]
fn placeless_keys_of_different_plans_do_not_convert_each_others_state() {
    for rich in [Limit::per_minute(1_000), Limit::per_hour(1).algorithm(Algorithm::FixedWindow)] {
        let clock = clock();
        let builder = KeyedLimiter::builder(Limit::per_hour(1))
            .limit_for(move |key| (*key == Key::from("rich")).then_some(rich));
        let limiter = full(builder, &clock);
        // Keep every place live.
        let mut poor = 0;
        for round in 0..1_000_u64 {
            poor += u64::from(limiter.try_acquire("poor").allowed());
            let _ = limiter.try_acquire("rich");
            let _ = limiter.try_acquire(1_000_000 + round);
            clock.advance(ratekeeper::millis(200));
        }
        assert!(poor <= 1, "{poor} of one an hour within 200 s");
    }
}

#[test]
fn placeless_keys_of_one_request_are_added_up() {
    for algorithm in Algorithm::ALL {
        let clock = clock();
        let limiter = full(KeyedLimiter::builder(Limit::per_hour(10).algorithm(algorithm)), &clock);
        let mut units = 0;
        for _ in 0..100 {
            let both = all([limiter.check("b").cost(3), limiter.check("a").cost(3)]);
            units += if both.try_acquire().allowed { 6 } else { 0 };
        }
        assert!(units <= 10, "{algorithm}: {units} of 10");
        // And come back once.
        clock.advance(hours(3));
        let limiter = full(KeyedLimiter::builder(Limit::per_hour(10).algorithm(algorithm)), &clock);
        let before = limiter.peek("b").remaining();
        all([limiter.check("b").cost(4), limiter.check("a").cost(1)]).reserve().unwrap().cancel();
        assert_eq!(limiter.peek("b").remaining(), before, "{algorithm}");
    }
}

#[test]
fn a_flood_is_forgotten_after_two_periods_although_newcomers_keep_coming() {
    struct Steady(ManualClock);
    impl ratekeeper::Clock for Steady {
        fn now(&self) -> Micros {
            self.0.now()
        }
        fn may_step_back(&self) -> bool {
            false
        }
    }
    for algorithm in [Algorithm::SlidingWindowCounter, Algorithm::SlidingWindowLog, Algorithm::TokenBucket] {
        let hands = clock();
        let steady: Arc<dyn ratekeeper::Clock> = Arc::new(Steady(hands.clone()));
        let limit = Limit::per_minute(10_000).algorithm(algorithm);
        let limiter = KeyedLimiter::builder(limit).max_keys(1_000).clock(steady).build().unwrap();
        let mut next = 0_u64;
        let mut newcomers = |count: u64| {
            (0..count)
                .filter(|_| {
                    next += 1;
                    limiter.try_acquire(next).source() != Source::Exact
                })
                .count()
        };
        // So many are admitted without a place that every mark there is gets set.
        for _ in 0..90 {
            assert!(newcomers(5_000) > 0);
            hands.advance(seconds(10));
        }
        // Ordinary traffic again: 100 newcomers in ten seconds, at most 800 of them live at a time.
        for _ in 0..30 {
            newcomers(100);
            hands.advance(seconds(10));
        }
        let inexact: usize = (0..30)
            .map(|_| {
                hands.advance(seconds(10));
                newcomers(100)
            })
            .sum();
        assert_eq!(inexact, 0, "{algorithm}");
    }
}

#[test]
fn what_is_named_twice_in_a_call_is_amended_once() {
    let clock = clock();
    let policy = Name::new("p").unwrap();
    let limit = NamedLimit::new(&policy, policy.clone(), Limit::per_minute(9));
    let store = MemoryStore::builder().max_keys(10).clock(&clock).build().unwrap();
    let check = |cost| Check { limit: &limit, key: "k".into(), cost };
    let left = || store.decide_now(&[check(0)], Ask::Peek).unwrap().remaining;
    let twice = store.decide_now(&[check(1), check(2)], Ask::Acquire).unwrap();
    let tokens: Vec<_> = twice.limits().iter().filter_map(ratekeeper::Verdict::token).collect();
    assert_eq!(tokens.len(), 1, "one state, one token");
    assert_eq!(tokens[0].cost(), 3);
    assert_eq!(left(), 6);
    now(store.reset(&[check(0), check(0)])).unwrap();
    assert_eq!((left(), store.keys()), (9, 0));
    assert!(store.decide_now(&[check(2)], Ask::Acquire).unwrap().allowed);
    now(store.credit(&[check(2), check(2)])).unwrap();
    assert_eq!(left(), 9);
    assert!(store.keys() <= 1);
}

#[test]
fn newcomers_share_the_overflow_state_when_logs_have_used_up_their_memory() {
    let limit = Limit::per_minute(1_000).algorithm(Algorithm::SlidingWindowLog);
    let build = |on_full| {
        let builder = KeyedLimiter::builder(limit).max_keys(1_000).max_bytes(16_000).on_full(on_full);
        builder.clock(clock()).build().unwrap()
    };
    let limiter = build(OnFull::Share);
    for _ in 0..1_000 {
        assert!(limiter.try_acquire("hog").allowed());
    }
    for key in 0..200_u64 {
        let verdict = limiter.try_acquire(key);
        assert!(verdict.allowed(), "key {key}: {verdict:?}");
    }
    let limiter = build(OnFull::Deny);
    while limiter.try_acquire("hog").allowed() {}
    assert_eq!(limiter.try_acquire("new").reason(), Some(Reason::StoreUnavailable));
}

#[test]
fn taking_what_fits_of_a_full_store_says_that_it_is_full() {
    let clock = clock();
    let builder = KeyedLimiter::builder(Limit::per_hour(5)).on_full(OnFull::Deny);
    let limiter = builder.max_keys(10).clock(&clock).build().unwrap();
    let stranger =
        (0..10_000_u64).find(|key| limiter.try_acquire(*key).source() == Source::Overflow).unwrap();
    let refused = limiter.try_acquire_up_to(stranger, 8);
    assert_eq!(refused.reason(), Some(Reason::StoreUnavailable));
}

#[test]
fn numbers_of_any_width_are_keys() {
    let limiter = KeyedLimiter::new(Limit::per_minute(1));
    assert!(limiter.try_acquire(42).allowed());
    assert!(!limiter.try_acquire(42_u64).allowed());
    assert!(!limiter.try_acquire(42_usize).allowed());
    assert!(limiter.try_acquire(b"bytes").allowed());
}

/// A stranger to `limiter` that has no place, and what it took on the shared state.
fn placeless(limiter: &KeyedLimiter) -> u64 {
    (20_000..30_000_u64)
        .find(|key| limiter.peek_n(*key, 1).source() == Source::Overflow)
        .expect("a full table has strangers without a place")
}

#[test]
fn a_reset_or_credit_of_one_placeless_key_gives_the_others_nothing() {
    for algorithm in Algorithm::ALL {
        let clock = clock();
        let limiter = full(KeyedLimiter::builder(Limit::per_hour(3).algorithm(algorithm)), &clock);
        let key = placeless(&limiter);
        while limiter.try_acquire(key).allowed() {}
        limiter.reset(key);
        assert!(!limiter.try_acquire(key + 50_000).allowed(), "{algorithm}: what all share stays used");
    }
    let clock = clock();
    let policy = Name::new("p").unwrap();
    let limit = NamedLimit::new(&policy, policy.clone(), Limit::per_hour(3));
    let store = MemoryStore::builder().max_keys(1).clock(&clock).build().unwrap();
    let check = |key: u64, cost| Check { limit: &limit, key: key.into(), cost };
    let take = |key, cost| store.decide_now(&[check(key, cost)], Ask::Acquire).unwrap();
    let stranger = (0..1_000).find(|key| take(*key, 1).source == Source::Overflow).unwrap();
    let _ = take(stranger + 1, 2);
    now(store.credit(&[check(stranger, 3)])).unwrap();
    assert!(!take(stranger + 2, 1).allowed);
}

#[test]
fn a_shorter_plan_does_not_make_a_longer_one_forget() {
    let clock = clock();
    let builder = KeyedLimiter::builder(Limit::per_hour(2))
        .limit_for(|key| (*key == Key::from("rich")).then(|| Limit::per_second(1_000)));
    let limiter = full(builder, &clock);
    clock.advance(seconds(1));
    assert!(limiter.try_acquire("poor").allowed(), "a stranger took one, this is the other");
    for _ in 0..5 {
        clock.advance(seconds(2));
        let _ = limiter.try_acquire("rich");
    }
    (0..10_000_u64).for_each(|key| limiter.reset(key));
    let verdict = limiter.try_acquire("poor");
    assert!(!verdict.allowed(), "ten seconds of its hour have passed: {verdict:?}");
}

#[test]
fn a_placeless_key_whose_plan_changes_from_call_to_call_earns_nothing_by_it() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::SlidingWindowLog, Algorithm::FixedWindow] {
        let plan = Arc::new(AtomicU64::new(10));
        let seen = Arc::clone(&plan);
        let clock = clock();
        let builder = KeyedLimiter::builder(Limit::per_hour(1).algorithm(algorithm)).limit_for(move |key| {
            let amount = seen.load(Ordering::SeqCst);
            (*key == Key::from("fickle")).then(|| Limit::per_hour(amount).algorithm(algorithm))
        });
        let limiter = full(builder, &clock);
        let mut admitted = 0;
        for round in 0..200 {
            plan.store(10 + round % 50, Ordering::SeqCst);
            while limiter.try_acquire("fickle").allowed() {
                admitted += 1;
            }
        }
        // The first few plans get states, each beginning with what was used under the others; the rest are
        // decided by the last of those.
        assert!(admitted <= 13, "{algorithm}: {admitted}");
    }
}

#[test]
fn placeless_keys_that_want_too_much_together_are_not_told_never() {
    for on_full in [OnFull::Share, OnFull::Deny] {
        let clock = clock();
        let limiter = full(KeyedLimiter::builder(Limit::per_hour(10)).on_full(on_full), &clock);
        let (x, y) = (placeless_of(&limiter, 0), placeless_of(&limiter, 1));
        let decision = all([limiter.check(x).cost(6), limiter.check(y).cost(6)]).try_acquire();
        assert_eq!(decision.reason, Some(Reason::StoreUnavailable), "{on_full:?}");
        assert!(decision.retry_after.is_some());
    }
}

fn placeless_of(limiter: &KeyedLimiter, skip: usize) -> u64 {
    let is_placeless = |key: &u64| limiter.peek_n(*key, 1).source() == Source::Overflow;
    (20_000..90_000_u64).filter(is_placeless).nth(skip).unwrap()
}

#[test]
fn a_token_of_a_place_of_ones_own_takes_nothing_out_of_what_all_share() {
    let clock = clock();
    let limiter = KeyedLimiter::builder(Limit::per_hour(4)).max_keys(10).clock(&clock).build().unwrap();
    let reservation = limiter.reserve("k", 4).unwrap();
    limiter.reset("k");
    let stranger =
        (0..10_000_u64).find(|key| limiter.try_acquire(*key).source() == Source::Overflow).unwrap();
    while limiter.try_acquire(stranger).allowed() {}
    let _ = limiter.try_acquire("k");
    drop(reservation);
    assert!(!limiter.try_acquire(stranger).allowed());
}

#[test]
fn a_reading_made_before_the_lock_admits_nobody_into_a_window_that_is_over() {
    /// Never steps back; parks one reading until it is let go.
    struct Parking {
        now_us: AtomicU64,
        park_next: std::sync::atomic::AtomicBool,
        parked: std::sync::Barrier,
        go_on: std::sync::Barrier,
    }
    impl ratekeeper::Clock for Parking {
        fn now(&self) -> Micros {
            let reading = Micros::new(self.now_us.load(Ordering::SeqCst));
            if self.park_next.swap(false, Ordering::SeqCst) {
                self.parked.wait();
                self.go_on.wait();
            }
            reading
        }
        fn may_step_back(&self) -> bool {
            false
        }
    }
    let clock = Arc::new(Parking {
        now_us: AtomicU64::new(5_000_100),
        park_next: false.into(),
        parked: std::sync::Barrier::new(2),
        go_on: std::sync::Barrier::new(2),
    });
    let shared: Arc<dyn ratekeeper::Clock> = clock.clone();
    let limit = Limit::per_second(10).algorithm(Algorithm::FixedWindow);
    let limiter = KeyedLimiter::builder(limit).max_keys(1).clock(shared).build().unwrap();
    assert!(limiter.try_acquire_n("k", 10).allowed());
    clock.now_us.store(5_999_999, Ordering::SeqCst);
    clock.park_next.store(true, Ordering::SeqCst);
    let late = std::thread::scope(|scope| {
        let late = scope.spawn(|| limiter.try_acquire_n("k", 10));
        clock.parked.wait();
        // Its key is idle from now on; newcomers take its place, and leave it again.
        clock.now_us.store(6_000_000, Ordering::SeqCst);
        // No more than one bucket holds, or the late one goes the long way round.
        let strangers = 0..5_u64;
        strangers.clone().for_each(|key| assert!(limiter.try_acquire_n(key, 1).cost() == 1));
        strangers.for_each(|key| limiter.reset(key));
        clock.go_on.wait();
        late.join().unwrap()
    });
    let after = limiter.try_acquire_n("k", 10);
    assert!(!(late.allowed() && after.allowed()), "twenty at one instant");
}
