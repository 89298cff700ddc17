//! Limits to try: small ones, whose every state can be reached, and ones with nasty numbers.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::oracle::{Align, Rule};

/// The last instant that traces may reach: doubles and 53-bit states hold no later one.
pub const MAX_INSTANT_US: u64 = (1 << 53) - 1;

const DAY_US: u64 = 86_400_000_000;
const SPAN_MAX_US: u64 = 366 * DAY_US;
const AMOUNT_MAX: u64 = 1_000_000_000;
const LOG_AMOUNT_MAX: u64 = 100_000;

/// Amounts that break arithmetic: small primes, primes near the bounds of words, the bounds.
const NASTY_AMOUNTS: [u64; 12] =
    [1, 2, 3, 7, 97, 999, 123_456, 1_000_003, 300_000_000, 999_999_937, 999_999_999, AMOUNT_MAX];
/// Windows from a tick to the longest, some of them prime.
const NASTY_WINDOWS: [u64; 13] = [
    1,
    2,
    13,
    1_000,
    999_983,
    1_000_000,
    1_000_001,
    60_000_000,
    3_600_000_000,
    DAY_US,
    86_399_999_977,
    365 * DAY_US,
    SPAN_MAX_US,
];

/// Limits of a few units and ticks, of all kinds.
pub fn small_rules() -> BoxedStrategy<Rule> {
    every_kind(1..=8, (1_u64..=40).boxed())
}

/// Limits of so few units and ticks that every way to spend them can be tried.
pub fn tiny_rules() -> BoxedStrategy<Rule> {
    every_kind(1..=4, (1_u64..=10).boxed())
}

/// Limits as people write them: windows of seconds and minutes, longer than the guard.
pub fn large_rules() -> BoxedStrategy<Rule> {
    let window = prop_oneof![Just(1_000_000_u64), Just(1_500_000), Just(10_000_000), Just(60_000_000)];
    every_kind(1..=50, window.boxed())
}

/// Limits at and near the bounds.
pub fn nasty_rules() -> BoxedStrategy<Rule> {
    let amount = prop_oneof![3 => prop::sample::select(&NASTY_AMOUNTS[..]), 1 => 1..=AMOUNT_MAX];
    let window = prop_oneof![3 => prop::sample::select(&NASTY_WINDOWS[..]), 1 => 1..=SPAN_MAX_US];
    let capacity = prop_oneof![
        prop::sample::select(&NASTY_AMOUNTS[..]).prop_map(Some),
        (1..=AMOUNT_MAX).prop_map(Some),
        Just(None),
    ];
    (amount, window, capacity, 0_usize..6, any::<Option<u64>>())
        .prop_map(|(amount, window_us, capacity, kind, max_wait)| {
            // The largest capacity that refills within the longest span.
            let most = u128::from(SPAN_MAX_US) * u128::from(amount) / u128::from(window_us);
            let most = u64::try_from(most).unwrap_or(u64::MAX).min(AMOUNT_MAX);
            let burst = capacity.unwrap_or(most).min(most);
            let max_wait_us = max_wait.map(|wait| 1 + wait % SPAN_MAX_US);
            match kind {
                0 => Rule::Meter { amount, window_us, burst },
                1 => Rule::Queue { amount, window_us, queue: burst - 1, max_wait_us },
                2 => Rule::Fixed { amount, window_us, align: Align::Epoch },
                3 => Rule::Fixed { amount, window_us, align: Align::FirstRequest },
                4 => Rule::Counter { amount, window_us },
                _ => Rule::Log { amount: amount.min(LOG_AMOUNT_MAX), window_us },
            }
        })
        .boxed()
}

/// Limits of all sizes.
pub fn rules() -> BoxedStrategy<Rule> {
    prop_oneof![4 => small_rules(), 2 => large_rules(), 1 => nasty_rules()].boxed()
}

/// Queues of all sizes, with and without a longest wait.
pub fn queues() -> BoxedStrategy<Rule> {
    rules()
        .prop_map(|rule| match rule {
            Rule::Queue { .. } => rule,
            _ => {
                let (amount, window_us) = (rule.amount(), rule.window_us());
                Rule::Queue { amount, window_us, queue: rule.capacity() - 1, max_wait_us: None }
            }
        })
        .boxed()
}

/// A limit, and another of its kind: all its numbers are others, or only its units, or only its window.
pub fn changes(rules: impl Strategy<Value = Rule> + Clone + 'static) -> BoxedStrategy<(Rule, Rule)> {
    (rules.clone(), rules, 0_usize..3)
        .prop_map(|(old, other, what)| {
            let window_us = if what == 1 { old.window_us() } else { other.window_us() };
            let (amount, capacity) = match what {
                2 => (old.amount(), old.capacity()),
                _ => (other.amount(), other.capacity()),
            };
            let new = of_the_kind(&old, amount, window_us, capacity);
            (old, new)
        })
        .boxed()
}

/// A limit, and one of its kind that counts in the same windows: a meter of other numbers, or any other limit of
/// other units. One theorem holds for both together: that of the larger units and the faster rate.
pub fn pairs(rules: impl Strategy<Value = Rule> + Clone + 'static) -> BoxedStrategy<(Rule, Rule)> {
    (rules.clone(), rules)
        .prop_map(|(rule, other)| {
            let (amount, window_us) = match rule {
                Rule::Meter { .. } => (other.amount(), other.window_us()),
                Rule::Queue { .. } => (rule.amount(), rule.window_us()),
                _ => (other.amount(), rule.window_us()),
            };
            let other = of_the_kind(&rule, amount, window_us, other.capacity());
            (rule, other)
        })
        .boxed()
}

/// One question of two limits that take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Whether it is the second limit's turn.
    pub second: bool,
    /// The wait before it, in thousandths of a full period of that limit.
    pub wait: u16,
    /// The cost, in thousandths of that limit's units; at least one.
    pub cost: u16,
    /// Whether a refused question is asked again after the wait that it was told.
    pub insists: bool,
}

/// Questions of two limits: half of them at the same instant as the one before, many for one unit or for all.
pub fn turns() -> BoxedStrategy<Vec<Turn>> {
    let wait = prop_oneof![3 => Just(0_u16), 2 => 1..=50_u16, 1 => 1..=1_000_u16];
    let cost = prop_oneof![2 => Just(0_u16), 1 => Just(1_000_u16), 2 => 0..=1_000_u16];
    let turn = (any::<bool>(), wait, cost, prop::bool::weighted(0.2))
        .prop_map(|(second, wait, cost, insists)| Turn { second, wait, cost, insists });
    vec(turn, 1..60).boxed()
}

fn of_the_kind(rule: &Rule, amount: u64, window_us: u64, capacity: u64) -> Rule {
    let most = u128::from(SPAN_MAX_US) * u128::from(amount) / u128::from(window_us);
    let burst = capacity.min(u64::try_from(most).unwrap_or(u64::MAX)).max(1);
    match rule.clone() {
        Rule::Meter { .. } => Rule::Meter { amount, window_us, burst },
        Rule::Queue { max_wait_us, .. } => Rule::Queue { amount, window_us, queue: burst - 1, max_wait_us },
        // What is aligned to a calendar keeps it.
        Rule::Fixed { window_us, align: align @ Align::Periods(_), .. } => {
            Rule::Fixed { amount, window_us, align }
        }
        Rule::Fixed { align, .. } => Rule::Fixed { amount, window_us, align },
        Rule::Counter { .. } => Rule::Counter { amount, window_us },
        Rule::Log { .. } => Rule::Log { amount: amount.min(LOG_AMOUNT_MAX), window_us },
    }
}

/// Where a trace begins: near the epoch, today, or near the end of time.
pub fn start_us() -> BoxedStrategy<u64> {
    prop_oneof![
        4 => 0_u64..200,
        1 => 0_u64..200_000_000,
        1 => (0_u64..DAY_US).prop_map(|more| 1_764_547_200_000_000 + more),
        1 => (0_u64..DAY_US).prop_map(|less| MAX_INSTANT_US - less),
    ]
    .boxed()
}

/// A limit, where its trace begins, and the trace.
pub fn cases<M: Strategy + 'static>(
    rules: impl Strategy<Value = Rule> + 'static,
    moves: M,
) -> BoxedStrategy<(Rule, u64, M::Value)>
where
    M::Value: 'static,
{
    (rules, start_us(), moves)
        .prop_map(|(rule, start, moves)| {
            let start = start.min(super::horizon_us(&rule));
            (rule, start, moves)
        })
        .boxed()
}

fn every_kind(amount: std::ops::RangeInclusive<u64>, window_us: BoxedStrategy<u64>) -> BoxedStrategy<Rule> {
    let capacity = amount.clone();
    let lengths = vec((window_us.clone(), 1_u64..4), 3..12);
    (amount, window_us, capacity, 0_usize..8, any::<Option<u16>>(), lengths)
        .prop_map(|(amount, window_us, burst, kind, max_wait, lengths)| match kind {
            0 | 1 => Rule::Meter { amount, window_us, burst },
            2 => {
                // Waits up to that of a full queue, and somewhat beyond.
                let longest = burst * window_us / amount + 2;
                let max_wait_us = max_wait.map(|wait| 1 + u64::from(wait) * longest / 65_536);
                Rule::Queue { amount, window_us, queue: burst - 1, max_wait_us }
            }
            3 => Rule::Fixed { amount, window_us, align: Align::Epoch },
            4 => Rule::Fixed { amount, window_us, align: Align::FirstRequest },
            5 => Rule::Fixed { amount, window_us, align: Align::Periods(periods(&lengths)) },
            6 => Rule::Counter { amount, window_us },
            _ => Rule::Log { amount, window_us },
        })
        .boxed()
}

/// A calendar of uneven periods, the pattern of their lengths repeated.
fn periods(lengths: &[(u64, u64)]) -> Vec<u64> {
    let mut start = 0;
    let mut starts = vec![0];
    for &(length, divisor) in lengths.iter().cycle().take(200) {
        start += length.div_ceil(divisor);
        starts.push(start);
    }
    starts
}
