//! Who is served, in which order and when.

use std::time::Duration;

use ratekeeper::{
    Algorithm, Check, KeyedLimiter, Limit, Limiter, MemoryStore, Name, NamedLimit, Reason, all, millis,
    seconds,
};

use crate::crowd::{Crowd, for_seconds, limiter};

#[test]
fn those_in_line_are_served_in_the_order_in_which_they_came() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::SlidingWindowLog, Algorithm::SlidingWindowCounter] {
        let (users, clock) = limiter(Limit::per(2, seconds(2)).algorithm(algorithm), 2);
        let mut crowd = Crowd::new(&clock);
        for _ in 0..6 {
            crowd.come(users.acquire("k"));
        }
        for_seconds(&mut crowd, 20);
        let order: Vec<usize> = crowd.served().into_iter().map(|(number, _)| number).collect();
        assert_eq!(order, [0, 1, 2, 3, 4, 5], "{algorithm}");
    }
}

#[test]
fn b96_a_large_request_is_served_in_its_turn_and_those_behind_it_are_told_so() {
    let (users, clock) = limiter(Limit::per_second(1).burst(100), 100);
    let mut crowd = Crowd::new(&clock);
    let large = crowd.come(users.acquire("k").cost(60));
    let hasty = crowd.come(users.acquire("k").within(seconds(5)));
    assert_eq!(crowd.refused(hasty), (Reason::TooLate, Some(seconds(61)), 0));
    let small: Vec<usize> = (0..3).map(|_| crowd.come(users.acquire("k"))).collect();
    for_seconds(&mut crowd, 70);
    assert_eq!(crowd.served(), [(large, 60), (small[0], 61), (small[1], 62), (small[2], 63)]);
}

#[test]
fn a_key_waits_for_itself_only() {
    let (users, clock) = limiter(Limit::per_minute(1), 1);
    let mut crowd = Crowd::new(&clock);
    crowd.come(users.acquire("k"));
    let other = crowd.come(users.acquire("another"));
    assert_eq!(crowd.served(), [(other, 0)]);
}

#[test]
fn b22_waiters_never_overfill_a_window() {
    let (users, clock) = limiter(Limit::per(3, seconds(10)).algorithm(Algorithm::FixedWindow), 0);
    let mut crowd = Crowd::new(&clock);
    for _ in 0..30 {
        crowd.come(users.acquire("k").within(seconds(12)));
    }
    let refused = crowd.ends.iter().filter(|(.., end)| end.is_err()).count();
    assert_eq!(refused, 24, "at once");
    for_seconds(&mut crowd, 12);
    assert_eq!(crowd.served(), [(0, 0), (1, 0), (2, 0), (3, 10), (4, 10), (5, 10)]);
}

#[test]
fn trying_takes_what_others_wait_for_and_waiting_no_time_does_not() {
    let (users, clock) = limiter(Limit::per_second(1).burst(4), 4);
    let mut crowd = Crowd::new(&clock);
    let large = crowd.come(users.acquire("k").cost(4));
    crowd.advance(seconds(3));
    let orderly = crowd.come(users.acquire("k").within(Duration::ZERO));
    assert_eq!(
        crowd.refused(orderly),
        (Reason::TooLate, Some(seconds(2)), 3),
        "behind four, of which three are there"
    );
    assert!(users.try_acquire("k").allowed(), "it does not look at the line");
    crowd.advance(seconds(1));
    assert!(crowd.is_waiting(large), "and what it has taken is waited for once more");
    crowd.advance(seconds(1));
    assert_eq!(crowd.served(), [(large, 5)]);
}

#[test]
fn a_cost_of_nothing_is_served_when_nobody_is_ahead() {
    let (users, clock) = limiter(Limit::per_second(1), 1);
    let mut crowd = Crowd::new(&clock);
    let look = crowd.come(users.acquire("k").cost(0));
    let first = crowd.come(users.acquire("k"));
    let behind = crowd.come(users.acquire("k").cost(0));
    crowd.advance(seconds(1));
    assert_eq!(crowd.served(), [(look, 0), (first, 1), (behind, 1)]);
}

#[test]
fn units_that_come_back_are_given_to_those_in_line_at_once() {
    let (users, clock) = limiter(Limit::per_hour(10).burst(10), 4);
    let mut crowd = Crowd::new(&clock);
    let job = users.reserve("k", 6).unwrap();
    let first = crowd.come(users.acquire("k").cost(2));
    let second = crowd.come(users.acquire("k").cost(2));
    let third = crowd.come(users.acquire("k").cost(9));
    let receipt = job.settle(4);
    crowd.settle();
    assert_eq!(crowd.served(), [(first, 0)], "two have come back");
    users.refund(receipt);
    crowd.settle();
    assert_eq!(crowd.served(), [(first, 0), (second, 0)], "and four");
    users.reset("k");
    crowd.settle();
    assert_eq!(crowd.served(), [(first, 0), (second, 0), (third, 0)]);
}

#[test]
fn a_raised_limit_serves_those_in_line_at_once() {
    let (users, clock) = limiter(Limit::per_hour(1), 1);
    let mut crowd = Crowd::new(&clock);
    let waits = crowd.come(users.acquire("k").cost(1));
    users.set_limit(Limit::per_hour(5)).unwrap();
    crowd.settle();
    assert_eq!(crowd.served(), [(waits, 0)]);
}

#[test]
fn a_limit_that_is_cut_below_a_cost_refuses_it_instead_of_letting_it_wait_for_ever() {
    let (users, clock) = limiter(Limit::per_second(5), 5);
    let mut crowd = Crowd::new(&clock);
    let large = crowd.come(users.acquire("k").cost(5));
    let small = crowd.come(users.acquire("k"));
    users.set_limit(Limit::per_second(2)).unwrap();
    crowd.settle();
    assert_eq!(crowd.refused(large).0, Reason::CostExceedsCapacity);
    crowd.advance(seconds(1));
    assert_eq!(crowd.served(), [(small, 1)]);
}

#[test]
fn several_limits_are_waited_for_together_in_the_line_of_the_first() {
    let (users, clock) = limiter(Limit::per_second(1), 1);
    let global = Limiter::builder(Limit::per(1, seconds(10))).clock(&clock).build().unwrap();
    let mut crowd = Crowd::new(&clock);
    let both = || all([users.check("k"), global.check()]).acquire();
    let first = crowd.come(both());
    let second = crowd.come(both());
    let third = crowd.come(both().within(seconds(2)));
    assert_eq!(
        crowd.refused(third),
        (Reason::TooLate, Some(seconds(3)), 0),
        "the line of the user alone says so"
    );
    for_seconds(&mut crowd, 15);
    assert_eq!(crowd.served(), [(first, 1), (second, 11)]);
    assert_eq!(global.peek().remaining(), 0);
    let stranger = crowd.come(all([users.check("stranger"), global.check()]).acquire().within(seconds(3)));
    assert_eq!(
        crowd.refused(stranger),
        (Reason::TooLate, Some(seconds(6)), 15),
        "all limits together say so"
    );
    assert_eq!(users.peek("stranger").remaining(), 1, "and nothing was taken of any");
}

#[test]
fn checks_on_a_store_wait_by_their_named_limits() {
    let clock = ratekeeper::ManualClock::new();
    let store = MemoryStore::builder().max_keys(100).clock(&clock).build().unwrap();
    let policy = Name::new("api").unwrap();
    let named = NamedLimit::new(&policy, Name::new("second").unwrap(), Limit::per_second(1));
    let check = [Check { limit: &named, key: "u".into(), cost: 1 }];
    let mut crowd = Crowd::new(&clock);
    for _ in 0..3 {
        crowd.come(store.acquire(&check).unwrap());
    }
    for_seconds(&mut crowd, 3);
    assert_eq!(crowd.served(), [(0, 0), (1, 1), (2, 2)]);
    let checks = [check[0]; 17];
    assert!(store.acquire(&checks).is_err(), "seventeen limits are one too many");
    crowd.come(store.acquire(&[]).unwrap());
    assert_eq!(crowd.served().len(), 4, "nothing to wait for");
}

#[test]
fn waiting_in_a_queue_ends_at_the_start_of_the_slot() {
    let limit = Limit::per_second(1).algorithm(Algorithm::LeakyBucket).queue(3);
    let (users, clock) = limiter(limit, 0);
    let mut crowd = Crowd::new(&clock);
    for _ in 0..5 {
        crowd.come(users.acquire("k"));
    }
    assert_eq!(crowd.refused(4).0, Reason::QueueFull, "three wait, and one has started");
    let late = crowd.come(users.acquire("other").cost(2));
    let too_late = crowd.come(users.acquire("other").within(millis(1_999)));
    assert_eq!(crowd.refused(too_late), (Reason::TooLate, Some(seconds(2)), 0));
    let just = crowd.come(users.acquire("other").within(seconds(2)));
    for_seconds(&mut crowd, 4);
    let mut served = crowd.served();
    served.sort_unstable();
    assert_eq!(served, [(0, 0), (1, 1), (2, 2), (3, 3), (late, 0), (just, 2)]);
}

#[test]
fn clones_stand_in_one_line() {
    let (users, clock) = limiter(Limit::per_second(1), 1);
    let other: KeyedLimiter = users.clone();
    let mut crowd = Crowd::new(&clock);
    crowd.come(users.acquire("k"));
    crowd.come(other.acquire("k"));
    crowd.come(users.acquire("k"));
    for_seconds(&mut crowd, 3);
    assert_eq!(crowd.served(), [(0, 1), (1, 2), (2, 3)]);
}
