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
    for n in 2..=32_767 {
        users.set_limit(Limit::per_day(n)).expect("there is room");
    }
    assert!(users.try_acquire_n("u", 32_767).allowed());
    assert_eq!(users.set_limit(Limit::per_day(32_768)), Err(BuildError::TooManyLimits));
    assert_eq!(users.limit(), &Limit::per_day(32_767));
    users.set_limit(Limit::per_day(5)).expect("it is known");
    assert_eq!((users.limit(), users.peek("u").remaining()), (&Limit::per_day(5), 0));
}

#[test]
fn threads_that_decide_while_limits_change_admit_no_more_than_the_largest() {
    for algorithm in [
        Algorithm::Gcra,
        Algorithm::FixedWindow,
        Algorithm::SlidingWindowCounter,
        Algorithm::SlidingWindowLog,
    ] {
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
        // Each conversion may round the use of a meter up, never down.
        assert!(admitted <= 1_000, "{algorithm:?}: {admitted}");
        assert!(admitted >= 900, "{algorithm:?}: {admitted}");
    }
}
