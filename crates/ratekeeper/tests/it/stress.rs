//! Real threads on the process's clock: what they were admitted, sorted by the instants of the decisions,
//! obeys the admission theorems.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper::{
    Algorithm, KeyedLimiter, Limit, Limiter, OnFull, Source, Token, Verdict, all, days, millis, minutes,
};
use ratekeeper_testkit::oracle::{Admitted, Align, Rule, theorem};

const THREADS: usize = 4;

/// Runs `body` on all threads at once and gathers what each returns.
fn together<T: Send>(body: impl Fn(usize) -> Vec<T> + Sync) -> Vec<T> {
    let start = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (body, start) = (&body, &start);
                scope.spawn(move || {
                    start.wait();
                    body(thread)
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

fn in_order(tokens: impl IntoIterator<Item = Token>) -> Vec<Admitted> {
    let admitted = tokens.into_iter().map(|token| Admitted { t_us: token.at().get(), cost: token.cost() });
    let mut admitted: Vec<Admitted> = admitted.collect();
    admitted.sort_by_key(|a| a.t_us);
    admitted
}

fn rules() -> Vec<(Limit, Rule)> {
    let (amount, window_us) = (50, 5_000);
    let limit = Limit::per(amount, millis(5));
    vec![
        (limit.burst(20), Rule::Meter { amount, window_us, burst: 20 }),
        (
            Limit::per_second(300_000_007).burst(1_000),
            Rule::Meter { amount: 300_000_007, window_us: 1_000_000, burst: 1_000 },
        ),
        (limit.algorithm(Algorithm::FixedWindow), Rule::Fixed { amount, window_us, align: Align::Epoch }),
        (limit.algorithm(Algorithm::SlidingWindowLog), Rule::Log { amount, window_us }),
        (limit.algorithm(Algorithm::SlidingWindowCounter), Rule::Counter { amount, window_us }),
        (
            limit.algorithm(Algorithm::LeakyBucket).queue(9),
            Rule::Queue { amount, window_us, queue: 9, max_wait_us: None },
        ),
    ]
}

#[test]
fn what_threads_are_admitted_on_one_key_obeys_the_theorems() {
    for (limit, rule) in rules() {
        let limiter = KeyedLimiter::new(limit);
        let tokens = together(|thread| {
            let costs = [1, 2, 1, 5, 1];
            (0..100_000)
                .filter_map(|i| limiter.try_acquire_n("hot", costs[(i + thread) % costs.len()]).token())
                .collect()
        });
        assert!(tokens.len() > 50, "{limit:?}");
        theorem::check(&rule, &in_order(tokens)).unwrap_or_else(|error| panic!("{limit:?}: {error}"));
    }
}

#[test]
fn what_threads_are_admitted_in_batches_and_one_by_one_obeys_the_theorems() {
    // The hot key again and again, among others.
    const KEYS: [u64; 16] = [0, 1, 0, 0, 2, 0, 3, 0, 0, 4, 0, 0, 5, 0, 0, 6];
    for (limit, rule) in rules() {
        let limiter = KeyedLimiter::new(limit);
        let tokens = together(|thread| {
            let (mut verdicts, mut tokens) = (Vec::new(), Vec::new());
            for _ in 0..10_000 {
                verdicts.clear();
                if thread % 2 == 0 {
                    limiter.try_acquire_batch(KEYS, &mut verdicts);
                } else {
                    verdicts.extend(KEYS.map(|key| limiter.try_acquire(key)));
                }
                let hot = KEYS.iter().zip(&verdicts).filter(|(key, _)| **key == 0);
                tokens.extend(hot.filter_map(|(_, verdict)| verdict.token()));
            }
            tokens
        });
        assert!(tokens.len() > 50, "{limit:?}");
        theorem::check(&rule, &in_order(tokens)).unwrap_or_else(|error| panic!("{limit:?}: {error}"));
    }
}

#[test]
fn what_threads_are_admitted_on_two_limits_obeys_both_and_is_charged_in_both() {
    let user = Limit::per(40, millis(4)).burst(10);
    let global = Limit::per(60, millis(5)).algorithm(Algorithm::FixedWindow);
    let (users, everybody) = (KeyedLimiter::new(user), Limiter::new(global));
    let tokens = together(|thread| {
        let key = thread as u64 % 2;
        let ask = |i: u64| {
            // Both orders, so that they would wait for each other if locks were taken as they are written.
            let decision = if i.is_multiple_of(2) {
                all([users.check(key), everybody.check()]).try_acquire()
            } else {
                all([everybody.check(), users.check(key)]).try_acquire()
            };
            let tokens: Vec<Token> = decision.limits().iter().filter_map(Verdict::token).collect();
            assert_eq!(tokens.len(), if decision.allowed { 2 } else { 0 }, "all or nothing");
            decision.allowed.then(|| (key, tokens[0]))
        };
        (0..50_000).filter_map(ask).collect()
    });
    assert!(tokens.len() > 50);
    for key in 0..2 {
        let of_key = in_order(tokens.iter().filter(|(k, _)| *k == key).map(|(_, token)| *token));
        theorem::check(&Rule::Meter { amount: 40, window_us: 4_000, burst: 10 }, &of_key).unwrap();
    }
    let of_all = in_order(tokens.iter().map(|(_, token)| *token));
    theorem::check(&Rule::Fixed { amount: 60, window_us: 5_000, align: Align::Epoch }, &of_all).unwrap();
}

#[test]
fn of_a_hundred_requests_at_once_exactly_the_limit_is_admitted() {
    for algorithm in Algorithm::ALL {
        let limiter = KeyedLimiter::new(Limit::per(5, days(365)).algorithm(algorithm));
        for round in 0..200_u64 {
            let admitted: Vec<bool> =
                together(|_| (0..25).map(|_| limiter.try_acquire(round).allowed()).collect());
            assert_eq!(admitted.into_iter().filter(|a| *a).count(), 5, "{algorithm}, round {round}");
        }
    }
}

#[test]
fn a_refund_storm_neither_loses_nor_mints_units() {
    for algorithm in Algorithm::ALL {
        let limiter = KeyedLimiter::new(Limit::per(100, days(365)).algorithm(algorithm));
        let outstanding = AtomicU64::new(0);
        let _: Vec<()> = together(|thread| {
            for i in 0..20_000 {
                if let Ok(reservation) = limiter.reserve("k", 1 + (i + thread as u64) % 7) {
                    let cost = 1 + (i + thread as u64) % 7;
                    let now = outstanding.fetch_add(cost, Ordering::SeqCst) + cost;
                    assert!(now <= 100, "{algorithm}: {now} of 100 are out at once");
                    outstanding.fetch_sub(cost, Ordering::SeqCst);
                    reservation.cancel();
                }
            }
            Vec::new()
        });
        let left = limiter.peek("k").remaining();
        // A bucket gives back what cannot have drained: a little less than the unit for each, never more.
        assert!(left <= 100 && left + 40 >= 100, "{algorithm}: {left}");
    }
}

#[test]
fn newcomers_of_many_threads_fight_for_places_and_no_live_key_is_lost() {
    for on_full in [OnFull::Share, OnFull::Deny] {
        let limiter =
            KeyedLimiter::builder(Limit::per(1, minutes(60))).max_keys(64).on_full(on_full).build().unwrap();
        let admitted: Vec<u64> = together(|_| {
            let keys = (0..2_000_u64).map(|i| i % 500);
            keys.filter(|key| {
                let verdict = limiter.try_acquire(*key);
                verdict.allowed() && verdict.source() == Source::Exact
            })
            .collect()
        });
        let mut once = admitted.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), admitted.len(), "{on_full:?}: no key was admitted twice in its hour");
        assert!(admitted.len() >= 64, "{on_full:?}");
    }
}
