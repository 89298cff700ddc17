//! Another limit while keys are in use: what was used stays used, for every algorithm, on real threads too.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ratekeeper::{Algorithm, BuildError, KeyedLimiter, Limit, Limiter, ManualClock, seconds};

fn limiter(limit: Limit, clock: &ManualClock) -> KeyedLimiter {
    KeyedLimiter::builder(limit).max_keys(1_000).clock(clock).build().expect("a small table")
}

#[test]
fn used_units_stay_used_whatever_the_new_limit_is() {
    for algorithm in Algorithm::ALL {
        let per_minute = |n| Limit::per_minute(n).algorithm(algorithm);
        let clock = ManualClock::new();
        let users = limiter(per_minute(10), &clock);
        let clone = users.clone();
        assert!(users.try_acquire_n("u", 6).allowed(), "{algorithm:?}");
        users.set_limit(per_minute(20)).expect("one more");
        assert_eq!(clone.limit(), &per_minute(20), "clones take it too");
        assert_eq!(clone.peek("u").remaining(), 14, "{algorithm:?}: a raise gives the difference");
        assert_eq!(clone.peek("new").remaining(), 20, "{algorithm:?}");
        users.set_limit(per_minute(3)).expect("one more");
        let cut = users.try_acquire("u");
        assert_eq!((cut.allowed(), cut.remaining()), (false, 0), "{algorithm:?}");
        let wait = cut.retry_after().expect("it passes some time");
        // A counter counts what was used in the window before, too.
        let longest = if algorithm == Algorithm::SlidingWindowCounter { seconds(120) } else { seconds(60) };
        assert!(wait <= longest, "{algorithm:?}: {wait:?}");
        clock.advance(wait);
        assert!(users.try_acquire("u").allowed(), "{algorithm:?}");
        users.reset("u");
        assert_eq!(users.peek("u").remaining(), 3, "{algorithm:?}");
    }
}

#[test]
fn all_ways_to_ask_go_by_the_limit_of_now() {
    let clock = ManualClock::new();
    let users = limiter(Limit::per_hour(1), &clock);
    users.set_limit(Limit::per_hour(4)).expect("one more");
    let mut verdicts = Vec::new();
    users.try_acquire_batch(["u", "u"], &mut verdicts);
    assert!(verdicts.iter().all(|verdict| verdict.allowed()));
    assert!(ratekeeper::all([users.check("u")]).try_acquire().allowed);
    let held = users.reserve("u", 1).expect("the fourth");
    assert!(!users.try_acquire("u").allowed());
    users.set_limit(Limit::per_hour(40)).expect("one more");
    assert_eq!(users.peek("u").remaining(), 36);
    assert!(users.try_acquire("u").allowed());
    drop(held);
    assert_eq!(users.peek("u").remaining(), 35, "units of another limit come back with time only");
}

#[test]
fn a_limiter_without_keys_and_keys_with_limits_of_their_own() {
    let global = Limiter::builder(Limit::per_second(1)).clock(ManualClock::new()).build().expect("small");
    assert!(global.try_acquire().allowed());
    global.set_limit(Limit::per_second(2)).expect("one more");
    assert!(global.try_acquire().allowed());
    assert!(!global.try_acquire().allowed());

    let rich = Limit::per_minute(100);
    let plans = KeyedLimiter::builder(Limit::per_minute(1))
        .limit_for(move |key| (*key == "rich".into()).then_some(rich))
        .build()
        .expect("small");
    plans.set_limit(Limit::per_minute(2)).expect("one more");
    assert_eq!((plans.peek("rich").remaining(), plans.peek("poor").remaining()), (100, 2));
}

#[test]
fn one_limit_more_than_can_be_told_apart_is_refused_and_the_last_one_stays() {
    let users = limiter(Limit::per_day(1), &ManualClock::new());
    for n in 2..=32_766 {
        users.set_limit(Limit::per_day(n)).expect("there is room");
    }
    assert!(users.try_acquire_n("u", 32_766).allowed());
    assert_eq!(users.set_limit(Limit::per_day(32_767)), Err(BuildError::TooManyLimits));
    assert_eq!(users.limit(), &Limit::per_day(32_766));
    users.set_limit(Limit::per_day(5)).expect("it is known");
    assert_eq!((users.limit(), users.peek("u").remaining()), (&Limit::per_day(5), 0));
}

/// Limits of 1,000 and of 10 a day.
fn large_and_small(algorithm: Algorithm) -> [Limit; 2] {
    [1_000, 10].map(|n| Limit::per_day(n).algorithm(algorithm))
}

#[test]
fn a_refusal_by_a_smaller_limit_forgets_nothing_that_the_larger_one_knows() {
    for algorithm in Algorithm::ALL {
        let [large, small] = large_and_small(algorithm);
        let users = limiter(large, &ManualClock::new());
        let mut admitted = 0_u64;
        for n in 0..4_000 {
            users.set_limit(if n % 4 < 3 { large } else { small }).expect("two limits");
            admitted += u64::from(users.try_acquire("u").allowed());
        }
        assert_eq!(admitted, 1_000, "{algorithm:?}");
    }
}

#[test]
fn a_window_of_another_length_forgets_no_units_either_as_long_as_it_lasts() {
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindowCounter] {
        let (large, small) = (Limit::per_day(1_000), Limit::per_minute(10));
        let users = limiter(large.algorithm(algorithm), &ManualClock::new());
        assert!(users.try_acquire_n("u", 1_000).allowed());
        for _ in 0..3 {
            users.set_limit(small.algorithm(algorithm)).expect("two limits");
            assert!(!users.try_acquire("u").allowed(), "{algorithm:?}");
            users.set_limit(large.algorithm(algorithm)).expect("two limits");
            assert!(!users.try_acquire("u").allowed(), "{algorithm:?}");
        }
    }
}

#[test]
fn after_a_cut_admissions_by_the_smaller_limit_count_for_the_larger_one_too() {
    for algorithm in [Algorithm::Gcra, Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let clock = ManualClock::new();
        let [large, small] = large_and_small(algorithm);
        let users = limiter(large, &clock);
        assert!(users.try_acquire_n("u", 1_000).allowed());
        users.set_limit(small).expect("two limits");
        // A tenth of a day is one unit of ten, and a hundred of a thousand.
        let refused = users.try_acquire("u");
        assert_eq!(refused.retry_after(), Some(seconds(8_640)), "{algorithm:?}");
        clock.advance(seconds(8_640));
        assert!(users.try_acquire("u").allowed(), "{algorithm:?}");
        assert!(!users.try_acquire("u").allowed(), "{algorithm:?}");
        users.set_limit(large).expect("two limits");
        assert_eq!(users.peek("u").remaining(), 99, "{algorithm:?}");
    }
}

#[test]
fn what_was_held_comes_back_to_the_limit_that_it_was_taken_from_also_after_a_cut() {
    for algorithm in [Algorithm::Gcra, Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let [large, small] = large_and_small(algorithm);
        let users = limiter(large, &ManualClock::new());
        assert!(users.try_acquire_n("u", 400).allowed());
        let held = users.reserve("u", 600).expect("all the rest");
        users.set_limit(small).expect("two limits");
        assert!(!users.try_acquire("u").allowed());
        drop(held);
        assert_eq!(users.peek("u").remaining(), 0, "{algorithm:?}: ten of four hundred are in use");
        users.set_limit(large).expect("two limits");
        assert_eq!(users.peek("u").remaining(), 600, "{algorithm:?}");

        let held = users.reserve("u", 1).expect("there are six hundred");
        users.set_limit(small).expect("two limits");
        assert!(!users.try_acquire("u").allowed());
        // What was reserved too low is charged by the limit that it was reserved under, as far as that has it.
        assert_eq!(held.settle(3).charged(), 3, "{algorithm:?}");
        users.set_limit(large).expect("two limits");
        assert_eq!(users.peek("u").remaining(), 600 - 3, "{algorithm:?}");
        users.reset("u");
        assert_eq!(users.peek("u").remaining(), 1_000, "{algorithm:?}");
    }
}

#[test]
fn a_step_back_locks_a_key_that_was_cut_for_no_longer_than_its_limits_take() {
    let clock = ManualClock::at(ratekeeper::Micros::new(1_000_000_000_000));
    let [large, small] = large_and_small(Algorithm::Gcra);
    let users = limiter(large, &clock);
    assert!(users.try_acquire_n("u", 1_000).allowed());
    users.set_limit(small).expect("two limits");
    assert!(!users.try_acquire("u").allowed());
    clock.set(ratekeeper::Micros::new(0));
    for limit in [small, large] {
        users.set_limit(limit).expect("two limits");
        let refused = users.try_acquire("u");
        let wait = refused.retry_after().expect("it passes some time");
        assert_eq!(
            wait,
            seconds(86_400) / u32::try_from(limit.capacity()).expect("a thousand at most"),
            "{limit:?}"
        );
        clock.advance(wait);
        assert!(users.try_acquire("u").allowed(), "{limit:?}");
        clock.set(ratekeeper::Micros::new(0));
    }
}

#[test]
fn keys_that_were_cut_make_room_when_they_have_drained() {
    let clock = ManualClock::at(ratekeeper::Micros::new(1_000_000_000));
    let [large, small] = large_and_small(Algorithm::Gcra);
    let users = KeyedLimiter::builder(large).max_keys(40).clock(&clock).build().expect("a small table");
    for round in 0..20_u64 {
        for key in 0..40_u64 {
            let key = (round, key);
            users.set_limit(large).expect("two limits");
            let taken = users.try_acquire_n(key, 1_000);
            assert!(taken.allowed(), "{key:?} has no place of its own");
            users.set_limit(small).expect("two limits");
            assert!(!users.try_acquire(key).allowed());
        }
        clock.advance(seconds(86_400));
    }
}

#[test]
fn threads_that_decide_while_limits_change_admit_no_more_than_the_largest() {
    for algorithm in Algorithm::ALL {
        let clock = ManualClock::at(ratekeeper::Micros::new(1_000_000_000));
        let limit = |n| Limit::per_day(n).algorithm(algorithm);
        let users = limiter(limit(1_000), &clock);
        let (admitted, over) = (AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        if users.try_acquire("u").allowed() {
                            admitted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            for n in 0..2_000 {
                users.set_limit(limit(if n % 2 == 0 { 400 } else { 1_000 })).expect("two limits");
            }
            while users.peek("u").remaining() > 0 {
                std::thread::yield_now();
            }
            over.store(true, Ordering::Relaxed);
        });
        let admitted = admitted.into_inner();
        // No conversion rounds the use of a meter down. Each may round it up by a microsecond's worth, less than a
        // hundredth of a unit for all of them together, which can cost the last one.
        assert!((999..=1_000).contains(&admitted), "{algorithm:?}: {admitted}");
    }
}
