//! Starts at an even pace: whoever comes, leaves, or finds no place.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_core::Stream;
use proptest::prelude::*;
use ratekeeper::{
    Admitted as Served, Algorithm, BuildError, Clock as _, Limit, ManualClock, Micros, Overflow, Pace as _,
    Reason, Shaper, TokioClock, millis, seconds,
};
use ratekeeper_testkit::generate::small_rules;
use ratekeeper_testkit::oracle::{Admitted, Rule, theorem};
use ratekeeper_testkit::product::limit;
use ratekeeper_testkit::property::check;

use crate::crowd::{Crowd, for_seconds};

const fn paced(n: u64, queue: u64) -> Limit {
    Limit::per_second(n).algorithm(Algorithm::LeakyBucket).queue(queue)
}

fn shaper(limit: Limit, overflow: Overflow) -> (Shaper, ManualClock) {
    let clock = ManualClock::new();
    let builder = Shaper::builder(limit).max_keys(10).overflow(overflow).clock(&clock);
    (builder.build().unwrap(), clock)
}

#[test]
fn b100r_twenty_one_at_once_start_in_order_and_evenly() {
    let (shaper, clock) = shaper(paced(10, 20).max_wait(seconds(3)), Overflow::Refuse);
    let mut crowd = Crowd::new(&clock);
    for _ in 0..21 {
        crowd.come(shaper.ready("client"));
    }
    for _ in 0..210 {
        crowd.advance(millis(10));
    }
    let starts: Vec<(usize, u64)> = crowd.ends.iter().map(|(it, at, _)| (*it, at.get() / 1_000)).collect();
    assert_eq!(starts, (0..21).map(|i| (i, i as u64 * 100)).collect::<Vec<_>>());
}

#[test]
fn b101r_overload_is_answered_at_once() {
    let (shaper, clock) = shaper(paced(10, 5), Overflow::Refuse);
    let mut crowd = Crowd::new(&clock);
    for _ in 0..1_000 {
        crowd.come(shaper.ready("client"));
    }
    assert_eq!(crowd.ends.len() - crowd.served().len(), 994, "refused before any time has passed");
    assert_eq!(crowd.refused(6), (Reason::QueueFull, Some(millis(100)), 0));
    crowd.advance(millis(500));
    assert_eq!(crowd.served().len(), 6);
}

#[test]
fn with_overflow_wait_nobody_is_refused_and_all_start_in_order() {
    let (shaper, clock) = shaper(paced(1, 2), Overflow::Wait);
    let mut crowd = Crowd::new(&clock);
    for _ in 0..10 {
        crowd.come(shaper.ready("client"));
    }
    let late = crowd.come(shaper.ready("client").within(millis(9_999)));
    assert_eq!(crowd.refused(late), (Reason::TooLate, Some(seconds(10)), 0), "its start, not its place");
    let just = crowd.come(shaper.ready("client").within(seconds(10)));
    for_seconds(&mut crowd, 12);
    let expected: Vec<(usize, u64)> = (0..10).map(|i| (i, i as u64)).chain([(just, 10)]).collect();
    assert_eq!(crowd.served(), expected);
}

#[test]
fn a_place_that_becomes_free_goes_to_the_first_in_line() {
    let (shaper, clock) = shaper(paced(1, 1), Overflow::Wait);
    let mut crowd = Crowd::new(&clock);
    let callers: Vec<usize> = (0..4).map(|_| crowd.come(shaper.ready("client"))).collect();
    crowd.go(callers[1]);
    for_seconds(&mut crowd, 4);
    assert_eq!(crowd.served(), [(callers[0], 0), (callers[2], 1), (callers[3], 2)]);
}

#[test]
fn a_heavier_request_pushes_the_next_start_back() {
    let (shaper, clock) = shaper(paced(1, 10), Overflow::Refuse);
    let mut crowd = Crowd::new(&clock);
    crowd.come(shaper.ready("client").cost(3));
    crowd.come(shaper.ready("client"));
    let large = crowd.come(shaper.ready("client").cost(12));
    assert_eq!(crowd.refused(large).0, Reason::CostExceedsCapacity);
    for_seconds(&mut crowd, 4);
    assert_eq!(crowd.served(), [(0, 0), (1, 3)]);
    assert_eq!(crowd.ends[2].2.as_ref().unwrap().waited(), seconds(3));
}

#[test]
fn work_runs_from_its_start_on_and_never_if_it_is_refused() {
    let (shaper, clock) = shaper(paced(1, 1), Overflow::Refuse);
    let log = Rc::new(RefCell::new(Vec::new()));
    let work = |name: &'static str| {
        let (log, clock) = (Rc::clone(&log), clock.clone());
        async move { log.borrow_mut().push((name, clock.now().get() / 1_000_000)) }
    };
    let mut crowd = Crowd::new(&clock);
    for name in ["first", "second", "third"] {
        let (shaper, work) = (shaper.clone(), work(name));
        crowd.come(async move { shaper.run("client", work).await });
    }
    assert_eq!(crowd.refused(2).0, Reason::QueueFull);
    crowd.advance(seconds(1));
    assert_eq!(*log.borrow(), [("first", 0), ("second", 1)]);
}

#[test]
fn a_limit_without_a_queue_makes_no_shaper() {
    for limit in [Limit::per_second(1), Limit::per_second(1).algorithm(Algorithm::LeakyBucket)] {
        assert_eq!(Shaper::builder(limit).build().unwrap_err(), BuildError::NotAQueue);
    }
}

/// Numbers as they come.
struct Numbers(std::ops::Range<u32>);

impl Stream for Numbers {
    type Item = u32;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u32>> {
        Poll::Ready(self.0.next())
    }
}

async fn next<S: Stream + Unpin>(stream: &mut S) -> Option<S::Item> {
    std::future::poll_fn(|cx| Pin::new(&mut *stream).poll_next(cx)).await
}

#[tokio::test(start_paused = true)]
async fn a_paced_stream_has_all_its_items_in_order_at_the_pace() {
    let clock = TokioClock::new();
    let shaper = Shaper::builder(paced(5, 0)).clock(clock).build().unwrap();
    let mut items = Numbers(0..4).paced(&shaper, "mail");
    // Somebody else on the same key: the stream waits in line even though the queue has no places at all.
    shaper.ready("mail").await.unwrap();
    let mut seen = Vec::new();
    while let Some(item) = next(&mut items).await {
        seen.push((item.unwrap(), clock.now().get() / 1_000));
    }
    assert_eq!(seen, [(0, 200), (1, 400), (2, 600), (3, 800)]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_takes_no_item_from_a_paced_stream() {
    let shaper = Shaper::builder(paced(5, 0)).clock(TokioClock::new()).max_waiting(1).build().unwrap();
    let mut items = Numbers(7..9).paced(&shaper, "mail");
    shaper.ready("mail").await.unwrap();
    let mut other = Numbers(0..1).paced(&shaper, "mail");
    assert!(Pin::new(&mut other).poll_next(&mut Context::from_waker(Waker::noop())).is_pending());
    let refused = next(&mut items).await.unwrap().unwrap_err();
    assert_eq!(refused.reason(), Some(Reason::QueueFull));
    drop(other);
    assert_eq!(next(&mut items).await.unwrap().unwrap(), 7, "the same item, later");
    shaper.close();
    assert_eq!(next(&mut items).await.unwrap().unwrap_err().reason(), Some(Reason::Closed));
    assert!(next(&mut items).await.is_none());
    assert_eq!(items.into_parts().1, Some(8), "what has not started is not lost");
}

#[tokio::test(start_paused = true)]
async fn a_paced_stream_ends_when_its_shaper_is_closed() {
    let shaper = Shaper::builder(paced(5, 10)).clock(TokioClock::new()).build().unwrap();
    let mut items = Numbers(0..100).paced(&shaper, "mail");
    for i in 0..3 {
        assert_eq!(next(&mut items).await.unwrap().unwrap(), i);
    }
    shaper.close();
    assert_eq!(next(&mut items).await.unwrap().unwrap_err().reason(), Some(Reason::Closed));
    assert!(next(&mut items).await.is_none());
}

/// What happens to a shaper.
#[derive(Clone, Copy, Debug)]
enum Move {
    Come { cost: u8, within: Option<u8> },
    Go { which: u16, knows: bool },
    Pass { percent: u16 },
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let within = prop_oneof![3 => Just(None), 1 => (0_u8..=150).prop_map(Some)];
    let some = prop_oneof![
        5 => (0_u8..=60, within).prop_map(|(cost, within)| Move::Come { cost, within }),
        2 => (any::<u16>(), any::<bool>()).prop_map(|(which, knows)| Move::Go { which, knows }),
        3 => prop_oneof![Just(100_u16), 0_u16..300].prop_map(|percent| Move::Pass { percent }),
    ];
    proptest::collection::vec(some, 1..60)
}

/// Starts are in order and never too close, whoever leaves; everybody has an answer, and nothing is owed.
fn holds(rule: &Rule, overflow: Overflow, moves: &[Move]) -> Result<(), String> {
    let clock = ManualClock::at(Micros::new(1_000_000_007));
    let builder = Shaper::builder(limit(rule, Algorithm::Gcra)).max_keys(10).overflow(overflow).clock(&clock);
    let (shaper, mut crowd) = (builder.build().unwrap(), Crowd::<Served>::new(&clock));
    let (mut costs, mut gone) = (Vec::new(), 0);
    let unit_us = (rule.window_us() / rule.amount()).max(1);
    // In steps of a microsecond, so that every start is seen at its own instant.
    let pass = |crowd: &mut Crowd<Served>, us| (0..us).for_each(|_| crowd.advance(Duration::from_micros(1)));
    for step in moves {
        match *step {
            Move::Come { cost, within } => {
                let cost = (rule.capacity() * u64::from(cost)).div_ceil(100).max(1);
                let ready = shaper.ready("k").cost(cost);
                crowd.come(match within {
                    Some(percent) => {
                        let us = rule.full_period_us() * u64::from(percent) / 100;
                        ready.within(Duration::from_micros(us))
                    }
                    None => ready,
                });
                costs.push(cost);
            }
            Move::Go { which, knows } => {
                let waiting: Vec<usize> = (0..costs.len()).filter(|it| crowd.is_waiting(*it)).collect();
                if let Some(which) = waiting.get(usize::from(which) % waiting.len().max(1)) {
                    if !knows {
                        clock.advance(Duration::from_micros(1));
                    }
                    gone += 1;
                    crowd.go(*which);
                }
            }
            Move::Pass { percent } => pass(&mut crowd, (unit_us * u64::from(percent)).div_ceil(100)),
        }
    }
    let most = rule.full_period_us() * (costs.iter().sum::<u64>() / rule.capacity() + 2);
    for _ in 0..most {
        if crowd.waiting() == 0 {
            break;
        }
        pass(&mut crowd, 1);
    }
    if crowd.ends.len() + gone != costs.len() {
        return Err(format!("{} answers and {gone} gone of {}", crowd.ends.len(), costs.len()));
    }
    let started = crowd.ends.iter().filter(|(.., end)| end.is_ok());
    let (order, starts): (Vec<usize>, Vec<Admitted>) =
        started.map(|(it, at, _)| (*it, Admitted { t_us: at.get(), cost: costs[*it] })).unzip();
    if !order.is_sorted() {
        return Err(format!("started in the order {order:?}"));
    }
    theorem::check_spacing(rule, &starts)?;
    crowd.advance(Duration::from_micros(rule.full_period_us() * 2));
    let rest = shaper.peek("k").unwrap();
    let is_fresh = rest.delay().is_zero() && rest.reset_after().is_zero();
    if is_fresh { Ok(()) } else { Err(format!("something is owed: {rest:?}")) }
}

fn queues(rules: impl Strategy<Value = Rule> + 'static) -> impl Strategy<Value = Rule> {
    rules.prop_map(|rule| match rule {
        Rule::Queue { .. } => rule,
        _ => {
            let (amount, window_us) = (rule.amount(), rule.window_us());
            Rule::Queue { amount, window_us, queue: rule.capacity() - 1, max_wait_us: None }
        }
    })
}

#[test]
fn starts_are_in_order_and_spaced_whoever_leaves() {
    for (name, overflow) in [("refuse", Overflow::Refuse), ("wait", Overflow::Wait)] {
        let cases = (queues(small_rules()), moves());
        check(name, 1_500, cases, |(rule, moves)| holds(&rule, overflow, &moves));
    }
}
