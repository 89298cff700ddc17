//! Several limits decided together: all or nothing.

use std::collections::BTreeMap;

use super::{Answer, GroupSubject, Reason, Reference, Rule, Token};

/// One limit's part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask<'a> {
    /// Which of the group's limits.
    pub limit: usize,
    /// Whose state of it.
    pub key: &'a str,
    /// What it costs there.
    pub cost: u64,
}

/// One limit's part of the answer. `answer.allowed` says whether this limit would have let the request go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Which of the group's limits.
    pub limit: usize,
    /// Whose state of it.
    pub key: String,
    /// What this limit says; its numbers are those after the decision of the whole.
    pub answer: Answer,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupAnswer {
    /// The least `remaining`, the greatest `reset_after_us`, the longest wait of the refusing limits, the
    /// `more_after_us` of the limit that binds.
    pub headline: Answer,
    /// The limit that binds: refusing, the one with the longest wait (one that can never let it pass: the
    /// first such); allowed, the one with the least `remaining`. Ties: the first asked.
    pub limit: usize,
    /// What each limit says, in the order asked, doubles merged into the first.
    pub each: Vec<Share>,
}

/// The admission of a request, for giving it back in every limit of it.
#[derive(Debug, Clone)]
pub struct GroupToken(Vec<(usize, String, Token)>);

/// Limits that are decided together, each with a state per key.
#[derive(Debug, Clone)]
pub struct Group {
    rules: Vec<Rule>,
    heals: bool,
    states: BTreeMap<(usize, String), Reference>,
}

impl Group {
    /// Limits without any state.
    #[must_use]
    pub fn new(rules: Vec<Rule>, heals: bool) -> Self {
        Self { rules, heals, states: BTreeMap::new() }
    }

    /// Takes every part of the request, or none.
    ///
    /// # Panics
    /// If nothing is asked.
    pub fn acquire(&mut self, now_us: u64, asks: &[Ask<'_>]) -> (GroupAnswer, Option<GroupToken>) {
        let asks = merged(asks);
        let looked = self.look(now_us, &asks);
        let impossible = looked.iter().any(|share| share.answer.reason == Some(Reason::CostExceedsCapacity));
        if impossible {
            return (summed(looked), None);
        }
        // A request that is decided heals every limit it takes units of, also when another one refuses.
        for (limit, key, cost) in &asks {
            if *cost > 0 {
                self.state(*limit, key).heal(now_us);
            }
        }
        if looked.iter().any(|share| !share.answer.allowed) {
            return (summed(looked), None);
        }
        let mut tokens = Vec::new();
        let mut each = looked;
        for ((limit, key, cost), share) in asks.iter().zip(&mut each) {
            let state = self.state(*limit, key);
            if *cost > 0 {
                tokens.push((*limit, key.clone(), state.commit(now_us, *cost)));
            }
            let after = state.peek(now_us, 0);
            share.answer.remaining = after.remaining;
            share.answer.more_after_us = after.more_after_us;
            share.answer.reset_after_us = after.reset_after_us;
        }
        let token = (!tokens.is_empty()).then_some(GroupToken(tokens));
        (summed(each), token)
    }

    /// What [`acquire`](Self::acquire) would answer, with the numbers of now; writes nothing.
    ///
    /// # Panics
    /// If nothing is asked.
    #[must_use]
    pub fn peek(&self, now_us: u64, asks: &[Ask<'_>]) -> GroupAnswer {
        summed(self.look(now_us, &merged(asks)))
    }

    /// Forgets one limit's state of one key.
    pub fn reset(&mut self, limit: usize, key: &str) {
        self.states.remove(&(limit, key.to_owned()));
    }

    /// Gives a request back in every limit of it.
    pub fn refund(&mut self, now_us: u64, token: &GroupToken) {
        for (limit, key, token) in &token.0 {
            self.state(*limit, key).refund(now_us, token);
        }
    }

    /// Gives units back to one limit's state of one key.
    pub fn credit(&mut self, now_us: u64, ask: Ask<'_>) {
        self.state(ask.limit, ask.key).credit(now_us, ask.cost);
    }

    fn state(&mut self, limit: usize, key: &str) -> &mut Reference {
        let (rule, heals) = (&self.rules[limit], self.heals);
        self.states.entry((limit, key.to_owned())).or_insert_with(|| Reference::new(rule.clone(), heals))
    }

    fn look(&self, now_us: u64, asks: &[(usize, String, u64)]) -> Vec<Share> {
        asks.iter()
            .map(|(limit, key, cost)| {
                let answer = match self.states.get(&(*limit, key.clone())) {
                    Some(state) => state.peek(now_us, *cost),
                    None => Reference::new(self.rules[*limit].clone(), self.heals).peek(now_us, *cost),
                };
                Share { limit: *limit, key: key.clone(), answer }
            })
            .collect()
    }
}

impl GroupSubject for Group {
    type Receipt = GroupToken;

    fn acquire(&mut self, t_us: u64, asks: &[Ask<'_>]) -> (GroupAnswer, Option<GroupToken>) {
        Self::acquire(self, t_us, asks)
    }

    fn peek(&mut self, t_us: u64, asks: &[Ask<'_>]) -> GroupAnswer {
        Self::peek(self, t_us, asks)
    }

    fn reset(&mut self, limit: usize, key: &str) {
        Self::reset(self, limit, key);
    }

    fn refund(&mut self, t_us: u64, receipt: GroupToken) {
        Self::refund(self, t_us, &receipt);
    }

    fn credit(&mut self, t_us: u64, ask: Ask<'_>) {
        Self::credit(self, t_us, ask);
    }
}

/// Parts on one state are one part of their sum, or each would pass alone.
fn merged(asks: &[Ask<'_>]) -> Vec<(usize, String, u64)> {
    let mut merged: Vec<(usize, String, u64)> = Vec::new();
    for ask in asks {
        match merged.iter_mut().find(|(limit, key, _)| *limit == ask.limit && key == ask.key) {
            Some((_, _, cost)) => *cost = cost.saturating_add(ask.cost),
            None => merged.push((ask.limit, ask.key.to_owned(), ask.cost)),
        }
    }
    merged
}

fn summed(each: Vec<Share>) -> GroupAnswer {
    let allowed = each.iter().all(|share| share.answer.allowed);
    let never = |share: &&Share| share.answer.reason == Some(Reason::CostExceedsCapacity);
    let binding = if allowed {
        each.iter().min_by_key(|share| share.answer.remaining)
    } else {
        let longest = || {
            // `max_by_key` would take the last of equals.
            let refusing = each.iter().filter(|share| !share.answer.allowed);
            refusing.rev().max_by_key(|share| share.answer.retry_after_us)
        };
        each.iter().find(never).or_else(longest)
    };
    let binding = binding.expect("at least one limit is asked");
    let headline = Answer {
        allowed,
        reason: binding.answer.reason,
        remaining: each.iter().map(|share| share.answer.remaining).min().unwrap_or(0),
        retry_after_us: binding.answer.retry_after_us,
        more_after_us: binding.answer.more_after_us,
        reset_after_us: each.iter().map(|share| share.answer.reset_after_us).max().unwrap_or(0),
        delay_us: if allowed { each.iter().map(|share| share.answer.delay_us).max().unwrap_or(0) } else { 0 },
    };
    GroupAnswer { headline, limit: binding.limit, each }
}
