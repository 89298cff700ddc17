//! Futures that are dropped: before, at and after the moment they are served.

use ratekeeper::{Algorithm, Limit, Reason, millis, seconds};

use crate::crowd::{Crowd, for_seconds, limiter};

#[test]
fn a_cancelled_waiter_gives_up_its_place_and_those_behind_it_move_up() {
    let (users, clock) = limiter(Limit::per_second(1), 1);
    let mut crowd = Crowd::new(&clock);
    let waits: Vec<usize> = (0..4).map(|_| crowd.come(users.acquire("k"))).collect();
    crowd.go(waits[1]);
    crowd.go(waits[0]);
    for_seconds(&mut crowd, 2);
    crowd.go(waits[3]);
    for_seconds(&mut crowd, 5);
    assert_eq!(crowd.served(), [(waits[2], 1), (waits[3], 2)]);
}

#[test]
fn when_a_large_request_leaves_the_small_one_behind_it_is_served_at_once() {
    let (users, clock) = limiter(Limit::per_second(1).burst(10), 8);
    let mut crowd = Crowd::new(&clock);
    let large = crowd.come(users.acquire("k").cost(10));
    let small = crowd.come(users.acquire("k").cost(2));
    assert!(crowd.is_waiting(small));
    crowd.go(large);
    assert_eq!(crowd.served(), [(small, 0)]);
}

#[test]
fn what_is_foreseen_follows_those_who_leave() {
    let (users, clock) = limiter(Limit::per_second(1).burst(100), 100);
    let mut crowd = Crowd::new(&clock);
    let large = crowd.come(users.acquire("k").cost(60));
    let hasty = crowd.come(users.acquire("k").within(seconds(5)));
    assert_eq!(crowd.refused(hasty).1, Some(seconds(61)));
    crowd.go(large);
    let hasty = crowd.come(users.acquire("k").within(seconds(5)));
    crowd.advance(seconds(1));
    assert_eq!(crowd.served(), [(hasty, 1)]);
}

#[test]
fn units_of_a_caller_that_never_knew_it_was_served_go_to_the_next() {
    let (users, clock) = limiter(Limit::per(2, seconds(2)).burst(2), 2);
    let mut crowd = Crowd::new(&clock);
    let first = crowd.come(users.acquire("k").cost(2));
    let second = crowd.come(users.acquire("k").cost(2));
    // The clock serves the first; before it is polled, it is dropped.
    clock.advance(seconds(2));
    assert_eq!(users.peek("k").remaining(), 0);
    crowd.go(first);
    assert_eq!(crowd.served(), [(second, 2)], "what came back was enough at the same instant");
    assert_eq!(users.peek("k").remaining(), 0);
}

#[test]
fn a_served_reservation_gives_back_when_it_is_dropped_and_not_when_it_is_kept() {
    let (users, clock) = limiter(Limit::per_hour(3), 3);
    let mut crowd = Crowd::new(&clock);
    crowd.come(users.acquire("k").cost(2).reserve());
    crowd.advance(seconds(2_400));
    let (_, _, end) = crowd.ends.pop().unwrap();
    let (admitted, held) = end.unwrap();
    assert_eq!((admitted.remaining(), admitted.waited()), (0, seconds(2_400)));
    let decision = admitted.into_decision();
    assert_eq!((decision.allowed, decision.limits().len()), (true, 1));
    drop(held);
    assert_eq!(users.peek("k").remaining(), 2);
    crowd.come(users.acquire("k").cost(2).reserve());
    let (_, _, end) = crowd.ends.pop().unwrap();
    let receipt = end.unwrap().1.keep();
    assert_eq!((receipt.charged(), users.peek("k").remaining()), (2, 0));
}

#[test]
fn b97_a_cancelled_waiter_gives_up_its_slot() {
    let (users, clock) = limiter(Limit::per_second(1).algorithm(Algorithm::LeakyBucket).queue(1), 0);
    let mut crowd = Crowd::new(&clock);
    crowd.come(users.acquire("k"));
    let first = crowd.come(users.acquire("k"));
    let refused = crowd.come(users.acquire("k"));
    assert_eq!(crowd.refused(refused), (Reason::QueueFull, Some(seconds(1)), 0));
    crowd.go(first);
    let second = crowd.come(users.acquire("k"));
    crowd.advance(seconds(1));
    assert_eq!(crowd.served(), [(0, 0), (second, 1)]);
}

#[test]
fn a_promised_start_never_moves_and_a_slot_given_up_before_it_stays_a_hole() {
    let (users, clock) = limiter(Limit::per_second(1).algorithm(Algorithm::LeakyBucket).queue(3), 0);
    let mut crowd = Crowd::new(&clock);
    let line: Vec<usize> = (0..4).map(|_| crowd.come(users.acquire("k"))).collect();
    crowd.go(line[1]);
    let none = crowd.come(users.acquire("k"));
    assert_eq!(crowd.refused(none).0, Reason::QueueFull, "others are behind the slot");
    crowd.go(line[3]);
    let last = crowd.come(users.acquire("k"));
    for_seconds(&mut crowd, 4);
    assert_eq!(crowd.served(), [(line[0], 0), (line[2], 2), (last, 3)]);
}

#[test]
fn b97_ten_thousand_waits_dropped_at_any_moment_spend_what_started() {
    for algorithm in [Algorithm::TokenBucket, Algorithm::LeakyBucket] {
        let limit = Limit::per(10, seconds(1)).algorithm(algorithm);
        let limit = if algorithm == Algorithm::LeakyBucket { limit.queue(20) } else { limit.burst(5) };
        let (users, clock) = limiter(limit, 0);
        let mut crowd = Crowd::new(&clock);
        let mut random = crate::properties::Random(97);
        let mut cancelled = 0;
        for _ in 0..10_000 {
            let number = crowd.come(users.acquire("k"));
            match random.below(4) {
                // Before it is served, mostly.
                0 if crowd.is_waiting(number) => {
                    crowd.go(number);
                    cancelled += 1;
                }
                // At the moment of some service, before those who were woken are polled.
                1 => {
                    clock.advance(millis(100 * random.below(3)));
                    if crowd.is_waiting(number) {
                        crowd.go(number);
                        cancelled += 1;
                    }
                    crowd.settle();
                }
                _ => crowd.advance(millis(random.below(150))),
            }
        }
        for_seconds(&mut crowd, 200);
        assert_eq!(crowd.waiting(), 0, "no call hangs");
        let started = crowd.served().len();
        assert!(started > 3_000 && cancelled > 1_000, "{algorithm}: {started} and {cancelled}");
        assert_eq!(started + cancelled + crowd.ends.len() - started, 10_000);
        let rest = users.peek("k");
        assert_eq!(
            (rest.remaining(), rest.reset_after()),
            (limit.capacity(), seconds(0)),
            "like a fresh key"
        );
    }
}
