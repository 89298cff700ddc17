//! Who is refused, when, and what it is told.

use std::time::Duration;

use ratekeeper::{
    Algorithm, KeyedLimiter, Limit, Limiter, ManualClock, Micros, OnFull, Reason, Source, all, hours, seconds,
};

use crate::crowd::{Crowd, for_seconds, limiter};

#[test]
fn b23_a_wait_known_to_be_too_long_fails_at_once() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::SlidingWindowLog] {
        let (users, clock) = limiter(Limit::per(1, seconds(100)).algorithm(algorithm), 1);
        let mut crowd = Crowd::new(&clock);
        let hasty = crowd.come(users.acquire("k").within(seconds(5)));
        assert_eq!(crowd.refused(hasty), (Reason::TooLate, Some(seconds(100)), 0));
        let just = crowd.come(users.acquire("k").within(seconds(100)));
        crowd.advance(seconds(100));
        assert_eq!(crowd.served(), [(just, 100)], "a wait of exactly what was told is long enough");
    }
}

#[test]
fn b25r_an_oversized_waiter_does_not_block_the_line() {
    let (users, clock) = limiter(Limit::per_second(5), 5);
    let mut crowd = Crowd::new(&clock);
    let oversized = crowd.come(users.acquire("k").cost(6).within(seconds(10)));
    assert_eq!(crowd.refused(oversized), (Reason::CostExceedsCapacity, None, 0));
    let small = crowd.come(users.acquire("k").cost(1).within(seconds(10)));
    let oversized = crowd.come(users.acquire("k").cost(6));
    assert_eq!(crowd.refused(oversized).0, Reason::CostExceedsCapacity, "behind others, too");
    crowd.advance(Duration::from_micros(199_999));
    assert!(crowd.is_waiting(small));
    crowd.advance(Duration::from_micros(1));
    assert_eq!(crowd.served(), [(small, 0)]);
}

#[test]
fn b94_refused_waiters_leave_no_debt() {
    let (users, clock) = limiter(Limit::per_second(1).burst(5), 0);
    let mut crowd = Crowd::new(&clock);
    for _ in 0..2_000 {
        crowd.come(users.acquire("k").within(Duration::ZERO));
    }
    assert_eq!(crowd.served().len(), 5);
    assert_eq!(crowd.waiting(), 0, "1995 are refused at once");
    crowd.advance(seconds(1));
    assert!(users.try_acquire("k").allowed());
    assert!(!users.try_acquire("k").allowed());
}

#[test]
fn b94_a_cancelled_reservation_leaves_the_key_as_it_was() {
    let clock = ManualClock::at(Micros::new(1_000_000_000));
    let users = KeyedLimiter::builder(Limit::per_second(20)).max_keys(10).clock(&clock).build().unwrap();
    let mut crowd = Crowd::new(&clock);
    let job = users.acquire("k").cost(15).reserve();
    crowd.come(async { job.await.map(|(_, held)| held.keep()) });
    let before = users.peek("k");
    let second = users.acquire("k").cost(5).reserve();
    let mut others = Crowd::new(&clock);
    others.come(second);
    assert_eq!(users.peek("k").remaining(), 0);
    let (_, _, held) = others.ends.pop().unwrap();
    held.unwrap().1.cancel();
    let after = users.peek("k");
    assert_eq!((after.remaining(), after.reset_after()), (before.remaining(), before.reset_after()));
}

#[test]
fn a_full_line_refuses_at_once_and_says_how_long_it_is() {
    let clock = ManualClock::new();
    let build =
        |most| Limiter::builder(Limit::per_second(1)).clock(&clock).max_waiting(most).build().unwrap();
    let global = build(2);
    let mut crowd = Crowd::new(&clock);
    for _ in 0..4 {
        crowd.come(global.acquire().within(seconds(10)));
    }
    assert_eq!(crowd.refused(3), (Reason::QueueFull, Some(seconds(3)), 0));
    for_seconds(&mut crowd, 1);
    let next = crowd.come(global.acquire());
    for_seconds(&mut crowd, 3);
    assert_eq!(crowd.served(), [(0, 0), (1, 1), (2, 2), (next, 3)], "a place is free again");

    let nobody = build(0);
    let mut crowd = Crowd::new(&clock);
    crowd.come(nobody.acquire());
    crowd.come(nobody.acquire());
    assert_eq!(crowd.refused(1).0, Reason::QueueFull, "nobody may wait");
}

#[test]
fn the_default_line_holds_1024() {
    let (users, clock) = limiter(Limit::per_hour(1), 1);
    let mut crowd = Crowd::new(&clock);
    for _ in 0..1_025 {
        crowd.come(users.acquire("k"));
    }
    assert_eq!(crowd.waiting(), 1_024);
    assert_eq!(crowd.refused(1_024).0, Reason::QueueFull);
}

#[test]
fn all_lines_together_hold_65536() {
    let clock = ManualClock::new();
    let limit = Limit::per_hour(1);
    let users =
        KeyedLimiter::builder(limit).max_keys(1_000).max_waiting(100_000).clock(&clock).build().unwrap();
    let mut crowd = Crowd::new(&clock);
    for key in 0..2_u64 {
        assert!(users.try_acquire(key).allowed());
        for _ in 0..32_768 {
            crowd.come(users.acquire(key));
        }
    }
    assert_eq!(crowd.waiting(), 65_536);
    let one_more = crowd.come(users.acquire(0_u64));
    assert_eq!(crowd.refused(one_more).0, Reason::QueueFull);
    assert!(users.try_acquire(3_u64).allowed(), "who need not wait is served");
    drop(crowd);
    let mut crowd = Crowd::new(&clock);
    crowd.come(users.acquire(0_u64));
    assert_eq!(crowd.waiting(), 1, "all places are free again");
}

#[test]
fn a_deadline_is_kept_when_others_take_what_was_foreseen() {
    let (users, clock) = limiter(Limit::per_second(1).burst(2), 2);
    let mut crowd = Crowd::new(&clock);
    let first = crowd.come(users.acquire("k").cost(2).within(seconds(10)));
    let second = crowd.come(users.acquire("k").within(seconds(3)));
    for _ in 0..5 {
        // Somebody who does not wait takes every unit as it comes.
        clock.advance(seconds(1));
        let _ = users.try_acquire("k");
        crowd.settle();
    }
    assert_eq!(crowd.refused(second).0, Reason::TooLate);
    assert_eq!(crowd.refused(second).2, 3, "at its deadline, not later");
    for_seconds(&mut crowd, 3);
    assert_eq!(crowd.served(), [(first, 7)]);
}

#[test]
fn whoever_is_first_is_refused_as_soon_as_it_cannot_be_in_time() {
    let (users, clock) = limiter(Limit::per_second(1).burst(2), 2);
    let mut crowd = Crowd::new(&clock);
    let first = crowd.come(users.acquire("k").cost(2).within(seconds(2)));
    crowd.advance(seconds(1));
    assert!(users.try_acquire("k").allowed());
    crowd.advance(seconds(1));
    assert_eq!(crowd.refused(first), (Reason::TooLate, Some(seconds(1)), 2));
}

#[test]
fn a_late_timer_makes_nobody_late_whose_units_are_there() {
    let (users, clock) = limiter(Limit::per_second(1), 1);
    let mut crowd = Crowd::new(&clock);
    let both = [
        crowd.come(users.acquire("k").within(seconds(1))),
        crowd.come(users.acquire("k").within(seconds(3))),
    ];
    crowd.advance(hours(1));
    assert_eq!(crowd.served()[0], (both[0], 3_600), "its turn was within its time");
    assert_eq!(crowd.refused(both[1]).0, Reason::TooLate);
}

#[test]
fn closing_refuses_all_who_wait_and_who_would_have_to() {
    let (users, clock) = limiter(Limit::per_second(1), 1);
    let mut crowd = Crowd::new(&clock);
    let waits = [crowd.come(users.acquire("k")), crowd.come(users.acquire("k"))];
    users.close();
    crowd.settle();
    assert_eq!(waits.map(|it| crowd.refused(it).0), [Reason::Closed; 2]);
    let later = crowd.come(users.acquire("k"));
    assert_eq!(crowd.refused(later).0, Reason::Closed);
    let served = crowd.come(users.acquire("another"));
    assert_eq!(crowd.served(), [(served, 0)], "who need not wait is served");
    assert!(!users.try_acquire("k").allowed());
}

#[test]
fn a_closed_queue_promises_no_more_starts_and_keeps_those_it_has_promised() {
    for within in [None, Some(hours(1))] {
        let (users, clock) = limiter(Limit::per_second(1).algorithm(Algorithm::LeakyBucket).queue(2), 0);
        let acquire = || within.iter().fold(users.acquire("k"), |it, within| it.within(*within));
        let mut crowd = Crowd::new(&clock);
        let (first, promised) = (crowd.come(acquire()), crowd.come(acquire()));
        users.close();
        crowd.settle();
        let later = crowd.come(acquire());
        assert_eq!(crowd.refused(later), (Reason::Closed, None, 0));
        for_seconds(&mut crowd, 2);
        let free = crowd.come(acquire());
        let expected = [(first, 0), (promised, 1), (free, 2)];
        assert_eq!(crowd.served(), expected, "no slot was taken in vain, and who need not wait is served");
    }
}

#[test]
fn a_full_queue_that_is_closed_says_so() {
    let (users, clock) = limiter(Limit::per_second(1).algorithm(Algorithm::LeakyBucket).queue(0), 1);
    let mut crowd = Crowd::new(&clock);
    users.close();
    let later = crowd.come(users.acquire("k"));
    assert_eq!(crowd.refused(later).0, Reason::Closed);
}

#[test]
fn a_queue_among_several_limits_makes_final_only_what_it_refuses_itself() {
    let clock = ManualClock::new();
    let build = |limit| Limiter::builder(limit).clock(&clock).build().unwrap();
    let bucket = build(Limit::per(1, seconds(10)));
    let queue = build(Limit::per_second(1).algorithm(Algorithm::LeakyBucket).queue(1));
    let both = || all([bucket.check(), queue.check()]).acquire();
    let mut crowd = Crowd::new(&clock);
    let waits: Vec<usize> = (0..3).map(|_| crowd.come(both())).collect();
    assert_eq!(crowd.waiting(), 2, "for units of the bucket, in line");
    for_seconds(&mut crowd, 20);
    assert_eq!(crowd.served(), [(waits[0], 0), (waits[1], 10), (waits[2], 20)]);
    for_seconds(&mut crowd, 10);
    assert!(queue.try_acquire().allowed() && queue.try_acquire().allowed());
    let full = crowd.come(both());
    assert_eq!(crowd.refused(full), (Reason::QueueFull, Some(seconds(1)), 30));
}

#[test]
fn a_clock_that_is_set_back_locks_nobody_out() {
    let (users, clock) = limiter(Limit::per_second(1).burst(2), 0);
    clock.advance(hours(10));
    assert!(users.try_acquire_n("k", 2).allowed());
    let mut crowd = Crowd::new(&clock);
    let first = crowd.come(users.acquire("k"));
    let second = crowd.come(users.acquire("k").within(seconds(5)));
    let third = crowd.come(users.acquire("k").cost(2).within(seconds(4)));
    clock.step_back(hours(1));
    crowd.settle();
    for_seconds(&mut crowd, 6);
    let since = 9 * 3_600;
    assert_eq!(crowd.served(), [(first, since + 1), (second, since + 2), (third, since + 4)]);
}

#[test]
fn a_key_without_a_place_is_refused_and_does_not_wait_for_others_to_leave() {
    let clock = ManualClock::new();
    let users = KeyedLimiter::builder(Limit::per_hour(1)).max_keys(10).on_full(OnFull::Deny).clock(&clock);
    let users = users.build().unwrap();
    let placeless = (0..10_000_u64).find(|key| !users.try_acquire(*key).allowed()).unwrap();
    let mut crowd = Crowd::new(&clock);
    let refused = crowd.come(users.acquire(placeless));
    assert_eq!(crowd.refused(refused).0, Reason::StoreUnavailable);
    let (_, _, end) = &crowd.ends[0];
    assert_eq!(end.as_ref().unwrap_err().decision().source, Source::Overflow);
}

#[test]
fn a_refusal_reads_as_what_it_is() {
    let (users, clock) = limiter(Limit::per_second(1).burst(3), 3);
    let mut crowd = Crowd::new(&clock);
    crowd.come(users.acquire("k").within(Duration::ZERO));
    crowd.come(users.acquire("k").cost(9));
    users.close();
    crowd.come(users.acquire("k"));
    let texts: Vec<String> =
        crowd.ends.iter().map(|(.., end)| end.as_ref().unwrap_err().to_string()).collect();
    assert_eq!(
        texts,
        [
            "1/s: 0 of 3 left, in 1s at the earliest, which is too late",
            "1/s: 0 of 3 left, a cost of 9 can never pass",
            "1/s: 0 of 3 left, nobody may wait any more",
        ]
    );
}
