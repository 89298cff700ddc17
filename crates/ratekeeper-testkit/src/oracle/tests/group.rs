//! Several limits: all or nothing.

use super::{counter, fixed, meter};
use crate::oracle::{Ask, Group, Reason};

fn ask(limit: usize, key: &str, cost: u64) -> Ask<'_> {
    Ask { limit, key, cost }
}

#[test]
fn one_refusal_takes_nothing_anywhere() {
    let mut group = Group::new(vec![fixed(5, 100), fixed(2, 100)], true);
    let both = |cost| [ask(0, "a", cost), ask(1, "g", cost)];
    assert!(group.acquire(0, &both(2)).0.headline.allowed);
    let (refused, token) = group.acquire(0, &both(1));
    assert!(!refused.headline.allowed && token.is_none());
    assert!(refused.each[0].answer.allowed && !refused.each[1].answer.allowed);
    assert_eq!(group.peek(0, &both(1)).each[0].answer.remaining, 3);
}

#[test]
fn doubles_are_one_part_of_their_sum() {
    let mut group = Group::new(vec![fixed(3, 100)], true);
    assert!(!group.acquire(0, &[ask(0, "a", 2), ask(0, "a", 2)]).0.headline.allowed);
    assert!(group.acquire(0, &[ask(0, "a", 2), ask(0, "b", 2)]).0.headline.allowed);
    let (impossible, _) = group.acquire(200, &[ask(0, "a", 3), ask(0, "a", 3)]);
    assert_eq!(impossible.headline.reason, Some(Reason::CostExceedsCapacity));
}

#[test]
fn the_longest_wait_of_those_that_refuse_is_told_and_not_the_longest_reset() {
    let mut group = Group::new(vec![fixed(10, 86_400), meter(1, 10, 1)], true);
    let both = [ask(0, "a", 1), ask(1, "a", 1)];
    assert!(group.acquire(0, &both).0.headline.allowed);
    let (refused, _) = group.acquire(1, &both);
    assert_eq!((refused.headline.retry_after_us, refused.limit), (Some(9), 1));
    assert_eq!(refused.headline.reset_after_us, 86_399);
}

#[test]
fn ties_are_broken_by_order() {
    let mut group = Group::new(vec![fixed(1, 10), fixed(1, 10), fixed(3, 10)], true);
    let all = [ask(0, "a", 1), ask(1, "a", 1), ask(2, "a", 1)];
    assert_eq!(group.peek(0, &all).limit, 0);
    assert!(group.acquire(0, &all).0.headline.allowed);
    assert_eq!(group.acquire(0, &all).0.limit, 0);
    assert_eq!(group.acquire(0, &[all[1], all[0]]).0.limit, 1);
    let too_much = [ask(2, "a", 2), ask(1, "a", 2), ask(0, "a", 2)];
    let (impossible, _) = group.acquire(0, &too_much);
    assert_eq!((impossible.limit, impossible.headline.retry_after_us), (1, None));
}

#[test]
fn a_refusal_heals_its_neighbour_and_an_impossible_cost_heals_nothing() {
    let neighbours = |heals| {
        let mut group = Group::new(vec![counter(1, 10), fixed(1, 1000)], heals);
        assert!(group.acquire(500, &[ask(0, "a", 1)]).0.headline.allowed);
        assert!(group.acquire(20, &[ask(1, "a", 1)]).0.headline.allowed);
        group
    };
    let both = |cost| [ask(0, "a", cost), ask(1, "a", cost)];
    // Back by far: the count of the first moves into the window of now, though only the second limit is the
    // reason of the refusal; at 40 it has faded.
    let mut group = neighbours(true);
    let _ = group.acquire(21, &both(1));
    assert!(group.peek(40, &both(1)[..1]).headline.allowed);
    // A cost that can never pass leaves it where it was: at 500 it counts again.
    let mut group = neighbours(true);
    let _ = group.acquire(21, &both(2));
    assert!(!group.peek(505, &both(1)[..1]).headline.allowed);
    // And where the clock never steps back nothing heals.
    let mut group = neighbours(false);
    let _ = group.acquire(21, &both(1));
    assert!(!group.peek(40, &both(1)[..1]).headline.allowed);
}

#[test]
fn a_request_is_given_back_in_all_its_limits() {
    let mut group = Group::new(vec![fixed(5, 100), meter(1, 10, 5)], true);
    let both = [ask(0, "a", 3), ask(1, "a", 3)];
    let (_, token) = group.acquire(0, &both);
    group.refund(0, &token.expect("an admission"));
    let after = group.peek(0, &[ask(0, "a", 0), ask(1, "a", 0)]);
    assert_eq!((after.headline.remaining, after.headline.reset_after_us), (5, 0));
}

#[test]
fn no_units_are_no_part_of_it() {
    let mut group = Group::new(vec![fixed(1, 100), fixed(1, 100)], true);
    assert!(group.acquire(0, &[ask(0, "a", 1)]).0.headline.allowed);
    let (answer, token) = group.acquire(0, &[ask(0, "a", 0), ask(1, "a", 1)]);
    assert!(answer.headline.allowed && token.is_some());
}
