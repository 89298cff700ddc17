//! Traces of requests that several limits decide together, with keys that are shared and keys named twice.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Amount, MAX_INSTANT_US, large_rules, small_rules};
use crate::oracle::{Ask, Group, GroupAnswer, GroupToken, Rule};

/// The keys there are: few, so that they meet.
const KEYS: [&str; 3] = ["a", "b", "c"];

/// One request of a trace, in the words of its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMove {
    /// Ticks that pass before it; the clock may step back.
    pub ticks: i64,
    /// Whether it comes when the last refusal said, and so many ticks later.
    pub retry: Option<i8>,
    /// What is asked.
    pub parts: Vec<Part>,
    /// What is done.
    pub act: GroupAct,
}

/// One limit's part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Which limit, counted round.
    pub limit: u8,
    /// Which of the keys, counted round.
    pub key: u8,
    /// How many units.
    pub amount: Amount,
}

/// What is done with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupAct {
    /// It is decided.
    Acquire,
    /// It is looked at.
    Peek,
    /// The request that came so many requests before is given back.
    Refund(u8),
}

/// A request with plain numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStep {
    /// When.
    pub t_us: u64,
    /// Limit, key and cost of each part.
    pub parts: Vec<(usize, &'static str, u64)>,
    /// What is done.
    pub op: GroupOp,
}

/// What is done with a request of plain numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupOp {
    /// It is decided.
    Acquire,
    /// It is looked at.
    Peek,
    /// The step of this number is given back, then it is looked at.
    Refund(usize),
}

/// A request, and what must be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupPlayed {
    /// The request.
    pub step: GroupStep,
    /// What must be answered.
    pub answer: GroupAnswer,
}

impl GroupStep {
    /// The parts, to be asked.
    #[must_use]
    pub fn asks(&self) -> Vec<Ask<'static>> {
        self.parts.iter().map(|&(limit, key, cost)| Ask { limit, key, cost }).collect()
    }
}

/// One to five limits, at most one of them a queue, and requests to them.
pub fn group_cases() -> BoxedStrategy<(Vec<Rule>, Vec<GroupMove>)> {
    let limits = prop_oneof![3 => vec(small_rules(), 1..=5), 1 => vec(large_rules(), 1..=5)];
    (limits.prop_map(one_queue), vec(a_move(), 1..50)).boxed()
}

fn one_queue(rules: Vec<Rule>) -> Vec<Rule> {
    let mut queues = 0;
    let mut kept = rules.clone();
    kept.retain(|rule| {
        queues += u32::from(matches!(rule, Rule::Queue { .. }));
        queues <= 1 || !matches!(rule, Rule::Queue { .. })
    });
    kept
}

fn a_move() -> BoxedStrategy<GroupMove> {
    let ticks = prop_oneof![
        5 => Just(0_i64),
        4 => 1_i64..5,
        2 => 0_i64..100,
        1 => 0_i64..2_000_000,
        1 => -60_i64..0,
        1 => -3_000_000_i64..0,
    ];
    let retry = prop_oneof![3 => Just(None), 1 => (-1_i8..=1).prop_map(Some)];
    let amount = prop_oneof![
        8 => Just(Amount::Units(1)),
        2 => (0_u32..4).prop_map(Amount::Units),
        1 => any::<u16>().prop_map(Amount::Share),
        1 => (-1_i8..=1).prop_map(Amount::Capacity),
    ];
    let part = (0_u8..5, 0_u8..3, amount).prop_map(|(limit, key, amount)| Part { limit, key, amount });
    let act = prop_oneof![
        8 => Just(GroupAct::Acquire),
        1 => Just(GroupAct::Peek),
        1 => (0_u8..6).prop_map(GroupAct::Refund),
    ];
    (ticks, retry, vec(part, 1..6), act)
        .prop_map(|(ticks, retry, parts, act)| GroupMove { ticks, retry, parts, act })
        .boxed()
}

/// Plays `moves` on a fresh group of references, beginning at `start_us`.
#[must_use]
pub fn play_group(rules: &[Rule], heals: bool, start_us: u64, moves: &[GroupMove]) -> Vec<GroupPlayed> {
    let horizon = rules.iter().map(super::horizon_us).min().unwrap_or(MAX_INSTANT_US);
    let mut group = Group::new(rules.to_vec(), heals);
    let mut tokens: Vec<Option<GroupToken>> = Vec::new();
    let mut now = start_us;
    let mut due: Option<u64> = None;
    let mut played = Vec::new();
    for GroupMove { ticks, retry, parts, act } in moves {
        now = match (retry, due) {
            (Some(more), Some(due)) => due.saturating_add_signed(i64::from(*more)),
            _ => now.saturating_add_signed(*ticks),
        };
        now = now.min(horizon);
        let op = match act {
            GroupAct::Acquire => GroupOp::Acquire,
            GroupAct::Peek => GroupOp::Peek,
            GroupAct::Refund(back) => {
                let of = tokens.len().checked_sub(1 + usize::from(*back));
                of.map_or(GroupOp::Peek, GroupOp::Refund)
            }
        };
        let parts = parts.iter().map(|part| plain(rules, *part)).collect();
        let step = GroupStep { t_us: now, parts, op };
        let mut token = None;
        let answer = match op {
            GroupOp::Acquire => {
                let (answer, taken) = group.acquire(now, &step.asks());
                token = taken;
                answer
            }
            GroupOp::Peek => group.peek(now, &step.asks()),
            GroupOp::Refund(of) => {
                if let Some(token) = tokens[of].take() {
                    group.refund(now, &token);
                }
                group.peek(now, &step.asks())
            }
        };
        tokens.push(token);
        if let (false, Some(retry)) = (answer.headline.allowed, answer.headline.retry_after_us) {
            due = Some(now + retry);
        }
        played.push(GroupPlayed { step, answer });
    }
    played
}

fn plain(rules: &[Rule], part: Part) -> (usize, &'static str, u64) {
    let limit = usize::from(part.limit) % rules.len();
    let capacity = rules[limit].capacity();
    let cost = match part.amount {
        Amount::Units(units) => units.into(),
        Amount::Capacity(more) | Amount::Remaining(more) => capacity.saturating_add_signed(more.into()),
        Amount::Share(share) => (capacity * u64::from(share)) >> 16,
        Amount::Again | Amount::Huge => u64::MAX,
    };
    (limit, KEYS[usize::from(part.key) % KEYS.len()], cost)
}
