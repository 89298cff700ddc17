//! Every interleaving of a few threads on the table's locks, by loom:
//! `RUSTFLAGS="--cfg loom" cargo test -p ratekeeper --lib --release`.

use std::sync::atomic::AtomicU64;

use loom::thread;

use super::*;
use crate::{KeyedLimiter, ManualClock, all, seconds};

fn keyed(limit: Limit, clock: &ManualClock) -> KeyedLimiter {
    KeyedLimiter::builder(limit).max_keys(1).clock(clock).build().unwrap()
}

/// Runs the bodies on threads of their own and waits for all; `true` counts as one.
fn race<const N: usize>(bodies: [Box<dyn FnOnce() -> bool + Send>; N]) -> usize {
    let threads = bodies.map(|body| thread::spawn(body));
    threads.into_iter().map(|t| usize::from(t.join().unwrap())).sum()
}

fn body(run: impl FnOnce() -> bool + Send + 'static) -> Box<dyn FnOnce() -> bool + Send> {
    Box::new(run)
}

#[test]
fn three_threads_on_one_key_admit_exactly_the_burst() {
    loom::model(|| {
        let clock = ManualClock::new();
        let limiter = keyed(Limit::per_minute(2), &clock);
        let take = || {
            let limiter = limiter.clone();
            body(move || limiter.try_acquire("k").allowed())
        };
        assert_eq!(race([take(), take(), take()]), 2);
        assert_eq!(limiter.peek("k").remaining(), 0);
    });
}

#[test]
fn a_batch_beside_a_check_admits_exactly_the_burst() {
    loom::model(|| {
        let clock = ManualClock::new();
        let limiter = keyed(Limit::per_minute(2), &clock);
        let (a, b) = (limiter.clone(), limiter.clone());
        let admitted = std::sync::Arc::new(AtomicU64::new(0));
        let counted = std::sync::Arc::clone(&admitted);
        let single = race([
            body(move || {
                let mut verdicts = Vec::new();
                a.try_acquire_batch(["k", "k"], &mut verdicts);
                let allowed = verdicts.iter().filter(|verdict| verdict.allowed()).count();
                counted.store(allowed as u64, Ordering::Relaxed);
                false
            }),
            body(move || b.try_acquire("k").allowed()),
        ]);
        assert_eq!(admitted.load(Ordering::Relaxed) + single as u64, 2);
    });
}

#[test]
fn settling_beside_a_check_loses_and_mints_nothing() {
    for actual in [1, 3] {
        loom::model(move || {
            let clock = ManualClock::new();
            let limiter = keyed(Limit::per_minute(3), &clock);
            let reservation = limiter.reserve("k", 2).unwrap();
            let (a, b) = (limiter.clone(), limiter.clone());
            let charged = std::sync::Arc::new(AtomicU64::new(0));
            let told = std::sync::Arc::clone(&charged);
            let taken = race([
                body(move || {
                    let receipt = reservation.settle(actual);
                    told.store(receipt.charged(), Ordering::Relaxed);
                    drop(a);
                    false
                }),
                body(move || b.try_acquire("k").allowed()),
            ]);
            let charged = charged.load(Ordering::Relaxed);
            assert!(charged == actual || (actual == 3 && taken == 1 && charged == 2));
            assert_eq!(limiter.peek("k").remaining(), 3 - charged - taken as u64);
        });
    }
}

#[test]
fn a_refund_beside_a_check_and_a_look_loses_and_mints_nothing() {
    loom::model(|| {
        let clock = ManualClock::new();
        let limiter = keyed(Limit::per_minute(1), &clock);
        let receipt = limiter.reserve("k", 1).unwrap().keep();
        let (a, b, c) = (limiter.clone(), limiter.clone(), limiter.clone());
        let admitted = race([
            body(move || {
                a.refund(receipt);
                false
            }),
            body(move || b.try_acquire("k").allowed()),
            body(move || {
                assert!(c.peek("k").remaining() <= 1);
                false
            }),
        ]);
        assert_eq!(limiter.peek("k").remaining(), 1 - admitted as u64);
    });
}

#[test]
fn newcomers_that_replace_an_idle_entry_lose_no_live_one() {
    loom::model(|| {
        let clock = ManualClock::new();
        let limiter = keyed(Limit::per_minute(1), &clock);
        // Fill the table with entries that have become idle, but one.
        for key in 0..60_u64 {
            let _ = limiter.try_acquire(key);
        }
        clock.advance(seconds(60));
        assert!(limiter.try_acquire(0_u64).allowed());
        let (a, b) = (limiter.clone(), limiter.clone());
        let admitted = race([
            body(move || a.try_acquire(100_u64).allowed()),
            body(move || b.try_acquire(100_u64).allowed()),
        ]);
        assert_eq!(admitted, 1, "the newcomer has one state, whoever placed it");
        assert!(!limiter.try_acquire(0_u64).allowed(), "the live entry is still there");
    });
}

#[test]
fn two_keys_in_opposite_orders_never_deadlock_and_are_taken_together() {
    loom::model(|| {
        let clock = ManualClock::new();
        let (a, b) = (keyed(Limit::per_minute(1), &clock), keyed(Limit::per_minute(1), &clock));
        let pair = |first: &KeyedLimiter, second: &KeyedLimiter| {
            let (first, second) = (first.clone(), second.clone());
            body(move || all([first.check("k"), second.check("k")]).try_acquire().allowed)
        };
        assert_eq!(race([pair(&a, &b), pair(&b, &a)]), 1);
        assert_eq!((a.peek("k").remaining(), b.peek("k").remaining()), (0, 0));
    });
}

#[test]
fn two_keys_that_are_known_in_opposite_orders_never_deadlock_and_are_taken_together() {
    loom::model(|| {
        let clock = ManualClock::new();
        let known = || {
            let limiter = keyed(Limit::per_minute(2), &clock);
            assert!(limiter.try_acquire("k").allowed());
            limiter
        };
        let (a, b) = (known(), known());
        let pair = |first: &KeyedLimiter, second: &KeyedLimiter| {
            let (first, second) = (first.clone(), second.clone());
            body(move || all([first.check("k"), second.check("k")]).try_acquire().allowed)
        };
        assert_eq!(race([pair(&a, &b), pair(&b, &a)]), 1);
        assert_eq!((a.peek("k").remaining(), b.peek("k").remaining()), (0, 0));
    });
}

#[test]
fn a_pair_beside_a_single_check_takes_both_or_none() {
    loom::model(|| {
        let clock = ManualClock::new();
        let (a, b) = (keyed(Limit::per_minute(1), &clock), keyed(Limit::per_minute(1), &clock));
        let (x, y, z) = (a.clone(), b.clone(), b.clone());
        let pair = thread::spawn(move || all([x.check("k"), y.check("k")]).try_acquire().allowed);
        let single = thread::spawn(move || z.try_acquire("k").allowed());
        let (pair, single) = (pair.join().unwrap(), single.join().unwrap());
        assert!(pair != single, "one unit of b goes to one of them");
        assert_eq!(a.peek("k").remaining(), u64::from(!pair));
        assert_eq!(b.peek("k").remaining(), 0);
    });
}

#[test]
fn two_keys_of_one_bucket_are_decided_together() {
    loom::model(|| {
        let clock = ManualClock::new();
        let limiter = keyed(Limit::per_minute(1), &clock);
        let pair = |first: u64, second: u64| {
            let limiter = limiter.clone();
            body(move || all([limiter.check(first), limiter.check(second)]).try_acquire().allowed)
        };
        assert_eq!(race([pair(1, 2), pair(2, 3)]), 1);
        assert_eq!(limiter.peek(2_u64).remaining(), 0);
        assert_eq!(limiter.peek(1_u64).remaining() + limiter.peek(3_u64).remaining(), 1);
    });
}

/// A clock that may step back and that moves between any two steps of any thread. A reading that was made
/// before the lock would meet newer state, heal it, and so give units back.
struct Restless(AtomicU64);

impl crate::Clock for Restless {
    fn now(&self) -> Micros {
        Micros::new(self.0.fetch_add(1, Ordering::SeqCst))
    }
}

#[test]
fn a_clock_that_moves_between_any_two_steps_gives_no_units_back() {
    loom::model(|| {
        let clock: Arc<dyn crate::Clock> = Arc::new(Restless(AtomicU64::new(0)));
        let limit = Limit::per(1, std::time::Duration::from_micros(3));
        let limiter = KeyedLimiter::builder(limit).max_keys(1).clock(clock).build().unwrap();
        let take = |times: u32| {
            let limiter = limiter.clone();
            thread::spawn(move || {
                let admitted = (0..times).filter_map(|_| limiter.try_acquire("k").token());
                admitted.map(|token| token.at().get()).collect::<Vec<_>>()
            })
        };
        let (a, b) = (take(3), take(2));
        let mut admitted = [a.join().unwrap(), b.join().unwrap()].concat();
        admitted.sort_unstable();
        assert!(admitted.windows(2).all(|pair| pair[1] - pair[0] >= 3), "admitted at {admitted:?}");
    });
}
