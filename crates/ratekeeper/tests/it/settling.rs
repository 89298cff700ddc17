//! Hold an estimate, charge the actual cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper::{
    Algorithm, Align, Check, Key, KeyedLimiter, Limit, Limiter, ManualClock, MemoryStore, Micros, Name,
    NamedLimit, Period, Receipt, Reservation, Source, StoreError, UtcCalendar, all, days, hours, seconds,
};
use ratekeeper_testkit::generate::{cases, refunds, rules};
use ratekeeper_testkit::oracle::{Align as Aligned, Reference, Rule};
use ratekeeper_testkit::product;
use ratekeeper_testkit::property::check;

fn clock() -> ManualClock {
    ManualClock::at(Micros::new(1_000_000_000))
}

fn keyed(limit: Limit, clock: &ManualClock) -> KeyedLimiter {
    KeyedLimiter::builder(limit).max_keys(10).clock(clock).build().unwrap()
}

/// Ten units in an hour by each algorithm, and by a queue.
fn limits() -> Vec<Limit> {
    let limit = Limit::per_hour(10);
    let queue = limit.algorithm(Algorithm::LeakyBucket).queue(9);
    Algorithm::ALL.map(|algorithm| limit.algorithm(algorithm)).into_iter().chain([queue]).collect()
}

#[test]
fn what_was_reserved_too_high_comes_back() {
    for limit in limits() {
        let limiter = keyed(limit, &clock());
        let receipt = limiter.reserve("k", 6).unwrap().settle(2);
        assert_eq!((receipt.charged(), limiter.peek("k").remaining()), (2, 8), "{limit:?}");
        drop(receipt);
        assert_eq!(limiter.peek("k").remaining(), 8, "{limit:?}: it is final");
    }
}

#[test]
fn what_was_reserved_too_low_is_taken_down_to_empty_and_not_below() {
    for limit in limits() {
        let limiter = keyed(limit, &clock());
        assert_eq!(limiter.reserve("k", 3).unwrap().settle(5).charged(), 5, "{limit:?}");
        let second = limiter.reserve("k", 3).unwrap();
        assert!(limiter.try_acquire("k").allowed());
        assert_eq!(second.settle(u64::MAX).charged(), 4, "{limit:?}: one unit was left");
        assert!(!limiter.try_acquire("k").allowed());
    }
}

#[test]
fn an_estimate_that_was_right_changes_nothing() {
    for limit in limits() {
        let limiter = keyed(limit, &clock());
        let reservation = limiter.reserve("k", 4).unwrap();
        let before = format!("{:?}", limiter.peek("k"));
        assert_eq!(reservation.settle(4).charged(), 4);
        assert_eq!(format!("{:?}", limiter.peek("k")), before);
    }
}

#[test]
fn a_settled_admission_still_comes_back_as_a_whole() {
    for limit in Algorithm::ALL.map(|algorithm| Limit::per_hour(10).algorithm(algorithm)) {
        for actual in [0, 1, 6, 9, 100] {
            let limiter = keyed(limit, &clock());
            limiter.refund(limiter.reserve("k", 6).unwrap().settle(actual));
            assert_eq!(limiter.peek("k").remaining(), 10, "{limit:?}, {actual}");
        }
    }
    // A queue gives back what does not start at once.
    let paced = Limit::per_hour(10).algorithm(Algorithm::LeakyBucket).queue(9);
    let limiter = keyed(paced, &clock());
    assert!(limiter.try_acquire("k").allowed());
    limiter.refund(limiter.reserve("k", 3).unwrap().settle(5));
    assert_eq!(limiter.peek("k").remaining(), 9);
}

#[test]
fn what_was_not_reserved_at_all_can_be_charged_later() {
    let limiter = keyed(Limit::per_hour(10), &clock());
    assert_eq!(limiter.reserve("k", 0).unwrap().settle(3).charged(), 3);
    assert_eq!(limiter.peek("k").remaining(), 7);
}

#[test]
fn the_last_units_of_a_bucket_drain_last() {
    let clock = clock();
    let limiter = keyed(Limit::per_second(1).burst(10), &clock);
    let reservation = limiter.reserve("k", 6).unwrap();
    clock.advance(seconds(4));
    assert_eq!(limiter.peek("k").remaining(), 8);
    let _ = reservation.settle(1);
    assert_eq!(limiter.peek("k").remaining(), 10, "of the six the last two had not drained, and come back");
}

#[test]
fn a_window_that_is_over_gets_nothing_back_and_a_new_one_is_charged() {
    for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindowLog, Algorithm::TokenBucket] {
        let clock = clock();
        let limiter = keyed(Limit::per_hour(10).algorithm(algorithm), &clock);
        let (low, high) = (limiter.reserve("k", 5).unwrap(), limiter.reserve("k", 5).unwrap());
        clock.advance(hours(2));
        assert!(limiter.try_acquire_n("k", 8).allowed());
        assert_eq!(low.settle(1).charged(), 1);
        assert_eq!(limiter.peek("k").remaining(), 2, "{algorithm}: that hour is over");
        assert_eq!(high.settle(8).charged(), 7);
        assert_eq!(limiter.peek("k").remaining(), 0, "{algorithm}");
    }
}

#[test]
fn every_limit_of_a_request_is_settled_by_its_own_number() {
    let clock = clock();
    let requests = keyed(Limit::per_hour(10), &clock);
    let tokens = keyed(Limit::per_hour(1_000).algorithm(Algorithm::SlidingWindowLog), &clock);
    let global = Limiter::builder(Limit::per_day(500)).clock(&clock).build().unwrap();
    let reserve =
        || all([requests.check("ann"), tokens.check("ann").cost(300), global.check().cost(300)]).reserve();
    let left =
        || (requests.peek("ann").remaining(), tokens.peek("ann").remaining(), global.peek().remaining());
    let receipt = reserve().unwrap().settle_each(&[1, 100, 100]);
    assert_eq!(receipt.charged_each().collect::<Vec<_>>(), [1, 100, 100]);
    assert_eq!((receipt.charged(), left()), (1, (9, 900, 400)));
    requests.refund(receipt);
    assert_eq!(left(), (10, 1_000, 500));
    let receipt = reserve().unwrap().settle_each(&[1, 900]);
    assert_eq!(
        receipt.charged_each().collect::<Vec<_>>(),
        [1, 900, 300],
        "one without a number keeps its own"
    );
    let receipt = reserve();
    assert!(receipt.is_err(), "a hundred tokens are left");
    let receipt = all([requests.check("bob"), global.check()]).reserve().unwrap().settle(400);
    assert_eq!(receipt.charged_each().collect::<Vec<_>>(), [10, 200], "each as far as it goes");
    assert_eq!(receipt.charged(), 10);
}

#[test]
fn a_key_that_is_named_twice_is_charged_the_sum() {
    let limiter = keyed(Limit::per_hour(20), &clock());
    let twice = || all([limiter.check("k").cost(3), limiter.check("k").cost(5)]).reserve().unwrap();
    assert_eq!(twice().settle(2).charged_each().collect::<Vec<_>>(), [4, 4]);
    assert_eq!(limiter.peek("k").remaining(), 16);
    assert_eq!(twice().settle_each(&[7, 2]).charged(), 9);
    assert_eq!(limiter.peek("k").remaining(), 7);
}

#[test]
fn placeless_keys_that_were_charged_together_are_settled_together() {
    for algorithm in Algorithm::ALL {
        let limit = Limit::per_hour(20).algorithm(algorithm);
        let limiter = keyed(limit, &clock());
        let is_placeless = |key: &u64| limiter.try_acquire(*key).source() == Source::Overflow;
        let strangers: Vec<u64> = (0..10_000).filter(is_placeless).take(2).collect();
        let (a, b) = (strangers[0], strangers[1]);
        let before = limiter.peek(a).remaining();
        let both = || all([limiter.check(a).cost(4), limiter.check(b).cost(6)]).reserve().unwrap();
        let receipt = both().settle_each(&[1, 2]);
        assert_eq!((receipt.charged(), limiter.peek(a).remaining()), (3, before - 3), "{algorithm}");
        limiter.refund(receipt);
        assert_eq!(limiter.peek(b).remaining(), before, "{algorithm}");
        limiter.refund(both().settle(8));
        assert_eq!(limiter.peek(b).remaining(), before, "{algorithm}");
    }
}

#[test]
fn a_charge_under_a_limit_of_the_past_forgets_no_units() {
    for algorithm in Algorithm::ALL {
        let plan = Arc::new(AtomicU64::new(10));
        let seen = Arc::clone(&plan);
        let builder = KeyedLimiter::builder(Limit::per_hour(10).algorithm(algorithm)).max_keys(10);
        let limiter = builder
            .clock(clock())
            .limit_for(move |_| Some(Limit::per_hour(seen.load(Ordering::SeqCst)).algorithm(algorithm)))
            .build()
            .unwrap();
        let reservation = limiter.reserve("k", 2).unwrap();
        plan.store(1_000, Ordering::SeqCst);
        assert!(limiter.try_acquire_n("k", 700).allowed());
        let left = limiter.peek("k").remaining();
        let receipt = reservation.settle(102);
        assert_eq!((receipt.charged(), limiter.peek("k").remaining()), (102, left - 100), "{algorithm}");
    }
}

#[test]
fn a_request_to_a_store_is_reserved_and_settled_with_all_its_limits() {
    let policy = Name::new("llm").unwrap();
    let named = |name: &str, limit| NamedLimit::new(&policy, Name::new(name).unwrap(), limit);
    let daily = Limit::per_day(1_000).algorithm(Algorithm::FixedWindow).align(Align::Calendar(Period::Day));
    let limits = [
        named("minute", Limit::per_minute(500)),
        named("day", daily).with_calendar(Arc::new(UtcCalendar(Period::Day))),
    ];
    let store = MemoryStore::builder().max_keys(10).clock(clock()).build().unwrap();
    let checks = |cost| limits.each_ref().map(|limit| Check { limit, key: "tenant".into(), cost });
    let left = || {
        let look = store.decide_now(&checks(0), ratekeeper::Ask::Peek).unwrap();
        look.limits().iter().map(ratekeeper::Verdict::remaining).collect::<Vec<_>>()
    };
    let (decision, reservation) = store.reserve_now(&checks(400)).unwrap();
    assert!(decision.allowed);
    assert_eq!(reservation.unwrap().settle(150).charged_each().collect::<Vec<_>>(), [150, 150]);
    assert_eq!(left(), [350, 850]);
    let (decision, reservation) = store.reserve_now(&checks(400)).unwrap();
    assert!(!decision.allowed && reservation.is_none());
    let (_, reservation) = store.reserve_now(&checks(300)).unwrap();
    assert_eq!(reservation.unwrap().settle(900).charged_each().collect::<Vec<_>>(), [350, 850]);
    assert_eq!(left(), [0, 0]);
    let many = [checks(1)[0]; 17];
    assert_eq!(store.reserve_now(&many).err(), Some(StoreError::TooManyLimits));
}

#[test]
fn a_token_comes_back_by_a_plain_function() {
    let policy = Name::new("p").unwrap();
    let limit = NamedLimit::new(&policy, policy.clone(), Limit::per_hour(5));
    let store = MemoryStore::builder().max_keys(10).clock(clock()).build().unwrap();
    let check = Check { limit: &limit, key: "k".into(), cost: 3 };
    let decision = store.decide_now(&[check], ratekeeper::Ask::Acquire).unwrap();
    let (kept, last) = decision.limits()[0].token().unwrap().split(2);
    store.refund_now(&[(check, last.unwrap())]).unwrap();
    assert_eq!(store.decide_now(&[check], ratekeeper::Ask::Peek).unwrap().remaining, 4);
    store.refund_now(&[(check, kept.unwrap())]).unwrap();
    assert_eq!(store.decide_now(&[check], ratekeeper::Ask::Peek).unwrap().remaining, 5);
}

#[test]
fn a_reservation_is_small_and_can_be_ended_by_any_thread() {
    const fn is_owned<T: Send + Sync + 'static>() {}
    is_owned::<Reservation>();
    is_owned::<Receipt>();
    assert!(size_of::<Reservation>() <= 32);
    let limiter = keyed(Limit::per_hour(5), &clock());
    let reservation = limiter.reserve(Key::from("k"), 4).unwrap();
    std::thread::spawn(move || reservation.settle(1).charged()).join().unwrap();
    assert_eq!(limiter.peek("k").remaining(), 4);
}

/// Reservations of any rule, settled and given back at any time, beside the reference.
#[test]
fn p11_settling_is_a_refund_of_the_last_units_or_a_charge_of_what_is_there() {
    check("settling", 2_000, (cases(rules(), refunds()), 0..u64::MAX), |((rule, start, moves), seed)| {
        if matches!(rule, Rule::Fixed { align: Aligned::Periods(_), .. }) {
            return Ok(());
        }
        let hands = ManualClock::new();
        let limiter = keyed(product::limit(&rule, Algorithm::Gcra), &hands);
        let mut reference = Reference::new(rule.clone(), true);
        let mut open = Vec::new();
        let mut seed = seed;
        for played in ratekeeper_testkit::generate::play(&rule, true, start, &moves) {
            let now = played.step.t_us;
            hands.set(Micros::new(now));
            match played.step.op {
                ratekeeper_testkit::generate::Op::Acquire(cost) => {
                    let token = reference.acquire(now, cost).1;
                    let reservation = limiter.reserve("k", cost);
                    if let (Some(token), Ok(reservation)) = (token, reservation) {
                        open.push((token, reservation));
                    }
                }
                _ if open.is_empty() => {}
                _ => {
                    seed =
                        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let (token, reservation) = open.remove((seed >> 33) as usize % open.len());
                    let actual = (seed >> 40) % (2 * token.cost + 1);
                    let charged = if actual <= token.cost {
                        let _ = reference.refund_last(now, &token, token.cost - actual);
                        actual
                    } else {
                        // All of it if that fits, else as much as remains.
                        let missing = actual - token.cost;
                        let fits = reference.peek(now, missing).allowed;
                        let more = if fits { missing } else { reference.peek(now, 0).remaining.min(missing) };
                        token.cost + if reference.acquire(now, more).0.allowed { more } else { 0 }
                    };
                    let receipt = reservation.settle(actual);
                    if receipt.charged() != charged {
                        return Err(format!(
                            "{rule:?} at {now}: {} charged, not {charged}",
                            receipt.charged()
                        ));
                    }
                }
            }
            let (is, should) = (product::answer(&limiter.peek_n("k", 1)), reference.peek(now, 1));
            if is != should {
                return Err(format!("{rule:?} at {now} after {}:\n{is:?}\n{should:?}", played.step));
            }
        }
        open.into_iter().for_each(|(_, reservation)| drop(reservation.keep()));
        Ok(())
    });
}

#[test]
fn settling_beside_other_threads_charges_each_limit_what_it_says() {
    for algorithm in Algorithm::ALL {
        let limiter = KeyedLimiter::new(Limit::per(100, days(365)).algorithm(algorithm));
        let (out, kept) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (limiter, out, kept) = (&limiter, &out, &kept);
                scope.spawn(move || {
                    for i in 0..5_000 {
                        let (estimate, actual) = (1 + (i + thread) % 9, (i * 7 + thread) % 12);
                        let Ok(reservation) = limiter.reserve("k", estimate) else { continue };
                        let now = out.fetch_add(estimate, Ordering::SeqCst) + estimate;
                        assert!(now <= 100, "{algorithm}: {now} of 100 are out at once");
                        out.fetch_sub(estimate.saturating_sub(actual), Ordering::SeqCst);
                        let receipt = reservation.settle(actual);
                        let charged = receipt.charged();
                        assert!(charged <= actual, "{algorithm}");
                        let now = out.fetch_add(charged.saturating_sub(estimate), Ordering::SeqCst);
                        assert!(now <= 100, "{algorithm}: {now} of 100 are out at once");
                        if i % 500 == 0 {
                            kept.fetch_add(charged, Ordering::SeqCst);
                            continue;
                        }
                        out.fetch_sub(charged, Ordering::SeqCst);
                        limiter.refund(receipt);
                    }
                });
            }
        });
        let (left, kept) = (limiter.peek("k").remaining(), kept.load(Ordering::SeqCst));
        assert_eq!(out.load(Ordering::SeqCst), kept, "{algorithm}");
        // A bucket gives back what cannot have drained: a little less than the unit for each, never more.
        assert!(left <= 100 - kept && left + 40 >= 100 - kept, "{algorithm}: {left}, {kept} are kept");
    }
}
