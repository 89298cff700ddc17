//! Families of traces; each aims at another kind of mistake.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Act, Amount, Gap, Move};

/// Bursts around the ends of windows: one tick before, at it, one after.
pub fn boundary_bursts() -> BoxedStrategy<Vec<Move>> {
    let edge = (0_u8..3, -1_i8..=1).prop_map(|(windows, ticks)| Gap::Edge { windows, ticks });
    let gap = prop_oneof![3 => edge, 2 => Just(Gap::None), 1 => Just(Gap::Ticks(1))];
    trace(gap, acquire(some_amount()), 1..40)
}

/// Many checks at one instant, of the capacity, a unit less, a unit more.
pub fn instant_bursts() -> BoxedStrategy<Vec<Move>> {
    let gap = prop_oneof![8 => Just(Gap::None), 1 => any::<u16>().prop_map(Gap::Share)];
    let amount = prop_oneof![
        3 => Just(Amount::Units(1)),
        1 => (-1_i8..=1).prop_map(Amount::Capacity),
        1 => (-1_i8..=1).prop_map(Amount::Remaining),
    ];
    trace(gap, acquire(amount), 1..60)
}

/// After each refusal the same again, one tick too early and in time.
pub fn retry_probes() -> BoxedStrategy<Vec<Move>> {
    let probe = prop_oneof![
        (-1_i8..=1).prop_map(|ticks| Move { gap: Gap::Retry(ticks), act: Act::Acquire(Amount::Again) }),
        (ahead(), some_amount()).prop_map(|(gap, amount)| Move { gap, act: Act::Acquire(amount) }),
    ];
    vec(probe, 1..60).boxed()
}

/// Evenly spaced checks of one unit, at the rate, a little above it, and ten times as fast.
pub fn saturation() -> BoxedStrategy<Vec<Move>> {
    (prop_oneof![Just(100_u16), Just(101), Just(1000)], 1_usize..120)
        .prop_map(|(pace, count)| {
            vec![Move { gap: Gap::Even(pace), act: Act::Acquire(Amount::Units(1)) }; count]
        })
        .boxed()
}

/// Idle times around whole periods and of years.
pub fn idle_gaps() -> BoxedStrategy<Vec<Move>> {
    let near = prop_oneof![-1_i16..=1, Just(-1000_i16), Just(1000_i16)];
    let gap = prop_oneof![
        4 => (0_u8..3, near).prop_map(|(count, ticks)| Gap::Periods { count, ticks }),
        3 => Just(Gap::None),
        1 => (1_u8..40).prop_map(Gap::Years),
    ];
    trace(gap, acquire(some_amount()), 1..40)
}

/// All costs from none to more than 64 bits can mean.
pub fn costs() -> BoxedStrategy<Vec<Move>> {
    let amount = prop_oneof![4 => some_amount(), 1 => Just(Amount::Units(0)), 1 => Just(Amount::Huge)];
    trace(ahead(), acquire(amount), 1..50)
}

/// Time that only passes; checks and looks only. For these the history oracle and the theorems hold.
pub fn forward() -> BoxedStrategy<Vec<Move>> {
    let act = prop_oneof![
        6 => acquire(some_amount()),
        1 => some_amount().prop_map(Act::Peek),
    ];
    prop_oneof![
        2 => boundary_bursts(),
        2 => instant_bursts(),
        3 => retry_probes(),
        1 => saturation(),
        2 => idle_gaps(),
        2 => costs(),
        4 => trace(ahead(), act, 1..60),
    ]
    .boxed()
}

/// Time that only passes; units are given back: none, one, many, some of them, late, twice.
pub fn refunds() -> BoxedStrategy<Vec<Move>> {
    let act = prop_oneof![
        5 => acquire(some_amount()),
        2 => (0_u8..8).prop_map(Act::Refund),
        3 => refund_last(),
    ];
    trace(ahead(), act, 1..60)
}

/// Everything but clocks that are set.
pub fn without_clock_steps() -> BoxedStrategy<Vec<Move>> {
    prop_oneof![2 => forward(), 1 => refunds(), 2 => trace(ahead(), any_act(), 1..60)].boxed()
}

/// Clocks that step: by a tick, by the guard, by windows, by an hour, in storms.
pub fn clock_steps() -> BoxedStrategy<Vec<Move>> {
    let gap = prop_oneof![2 => ahead(), 3 => step()];
    let storm = trace(step(), acquire(some_amount()), 1..40);
    prop_oneof![3 => trace(gap, any_act(), 1..60), 1 => storm].boxed()
}

/// All of it.
pub fn anything() -> BoxedStrategy<Vec<Move>> {
    prop_oneof![without_clock_steps(), clock_steps()].boxed()
}

/// The same moves with nothing but checks and looks: for the bounds, which credits and resets lift.
#[must_use]
pub fn only_checks(moves: &[Move]) -> Vec<Move> {
    let check = |act| match act {
        Act::Acquire(_) | Act::Peek(_) => act,
        Act::Reset | Act::Refund(_) | Act::RefundLast(..) | Act::Credit(_) => Act::Peek(Amount::Units(1)),
    };
    moves.iter().map(|&Move { gap, act }| Move { gap, act: check(act) }).collect()
}

/// The same moves with clocks that step back only, by no more than `budget_us` in all.
#[must_use]
pub fn small_steps(moves: &[Move], budget_us: u64) -> Vec<Move> {
    let mut left = u32::try_from(budget_us).unwrap_or(u32::MAX);
    let mut smaller = |gap| match gap {
        Gap::Step(ticks) => {
            let back = ticks.unsigned_abs().min(left);
            left -= back;
            Gap::Step(i32::try_from(back).map_or(0, |back| -back))
        }
        gap if gap.steps_the_clock() => Gap::None,
        gap => gap,
    };
    moves.iter().map(|&Move { gap, act }| Move { gap: smaller(gap), act }).collect()
}

fn trace(
    gap: impl Strategy<Value = Gap> + 'static,
    act: impl Strategy<Value = Act> + 'static,
    length: std::ops::Range<usize>,
) -> BoxedStrategy<Vec<Move>> {
    vec((gap, act).prop_map(|(gap, act)| Move { gap, act }), length).boxed()
}

/// Time that passes. The simplest first: proptest shrinks towards it.
fn ahead() -> BoxedStrategy<Gap> {
    prop_oneof![
        6 => Just(Gap::None),
        4 => (1_u32..4).prop_map(Gap::Ticks),
        3 => any::<u16>().prop_map(Gap::Share),
        3 => (-1_i8..=1).prop_map(Gap::Retry),
        3 => (0_u8..3, -1_i8..=1).prop_map(|(windows, ticks)| Gap::Edge { windows, ticks }),
        1 => (0_u8..3, -1_i16..=1).prop_map(|(count, ticks)| Gap::Periods { count, ticks }),
    ]
    .boxed()
}

fn step() -> BoxedStrategy<Gap> {
    prop_oneof![
        3 => (-3_i32..=3).prop_map(Gap::Step),
        1 => (-3_000_000_i32..=3_000_000).prop_map(Gap::Step),
        3 => (-1_i8..=1).prop_map(Gap::Guard),
        3 => (-3_i8..=3, -1_i8..=1).prop_map(|(count, ticks)| Gap::StepWindows { count, ticks }),
        1 => Just(Gap::BackAnHour),
    ]
    .boxed()
}

fn some_amount() -> BoxedStrategy<Amount> {
    prop_oneof![
        6 => Just(Amount::Units(1)),
        2 => (0_u32..8).prop_map(Amount::Units),
        2 => any::<u16>().prop_map(Amount::Share),
        2 => (-1_i8..=1).prop_map(Amount::Capacity),
        2 => (-1_i8..=1).prop_map(Amount::Remaining),
    ]
    .boxed()
}

fn acquire(amount: impl Strategy<Value = Amount> + 'static) -> BoxedStrategy<Act> {
    amount.prop_map(Act::Acquire).boxed()
}

fn refund_last() -> BoxedStrategy<Act> {
    (0_u8..8, some_amount()).prop_map(|(back, amount)| Act::RefundLast(back, amount)).boxed()
}

fn any_act() -> BoxedStrategy<Act> {
    prop_oneof![
        12 => acquire(some_amount()),
        2 => some_amount().prop_map(Act::Peek),
        2 => (0_u8..8).prop_map(Act::Refund),
        2 => refund_last(),
        1 => some_amount().prop_map(Act::Credit),
        1 => Just(Act::Reset),
    ]
    .boxed()
}
