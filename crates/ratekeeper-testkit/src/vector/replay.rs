//! Driving a vector through whatever decides groups of limits.

use super::{LimitKey, LimitOutcome, Outcome, Vector, VectorLimit, VectorOp, VectorStep};
use crate::oracle::{Ask, Group, GroupAnswer, GroupSubject, Share};

/// The oracle's answers to a vector: those of a [`Group`] of references whose clock heals.
///
/// # Panics
/// As [`replay_on`] does.
#[must_use]
pub fn replay(vector: &Vector) -> Vec<Outcome> {
    let (first, last) = vector.instants_us();
    let rules = vector.limits().iter().map(|limit| limit.rule(first, last)).collect();
    replay_on(vector, &mut Group::new(rules, true))
}

/// Plays a vector on `group`, which decides the limits of the vector, in order.
///
/// # Panics
/// If the vector is malformed: no key for a limit that has its own, a refund of a step that is not there.
pub fn replay_on<G: GroupSubject>(vector: &Vector, group: &mut G) -> Vec<Outcome> {
    let limits = vector.limits();
    let mut tokens: Vec<Option<G::Receipt>> = Vec::new();
    let mut outcomes = Vec::new();
    for step in &vector.steps {
        let mut token = None;
        let answer = match step.op {
            VectorOp::Acquire => {
                let (answer, taken) = group.acquire(step.t_us, &asks(&limits, step, step.units()));
                token = taken;
                answer
            }
            VectorOp::Peek => group.peek(step.t_us, &asks(&limits, step, step.units())),
            VectorOp::Reset => {
                for ask in asks(&limits, step, 0) {
                    let limit = &limits[ask.limit];
                    let named = limit.key() == LimitKey::Own && step.keys.contains_key(&limit.name);
                    if limit.key() == LimitKey::Policy || named {
                        group.reset(ask.limit, ask.key);
                    }
                }
                group.peek(step.t_us, &asks(&limits, step, 0))
            }
            VectorOp::Refund => {
                // What is given back with `of`, and the line that follows, are about the keys of that step.
                let about = step.of.map_or(step, |of| &vector.steps[of]);
                match step.of {
                    Some(of) => {
                        if let Some(token) = tokens[of].take() {
                            group.refund(step.t_us, token);
                        }
                    }
                    None => {
                        for ask in asks(&limits, step, step.units()) {
                            group.credit(step.t_us, ask);
                        }
                    }
                }
                group.peek(step.t_us, &asks(&limits, about, 0))
            }
        };
        tokens.push(token);
        outcomes.push(outcome(&limits, step.t_us, &answer));
    }
    outcomes
}

fn asks<'a>(limits: &[VectorLimit], step: &'a VectorStep, cost: u64) -> Vec<Ask<'a>> {
    let key = |limit: &VectorLimit| match limit.key() {
        LimitKey::Policy => step.keys.get(&limit.name).map_or(step.key.as_str(), String::as_str),
        LimitKey::Global => "",
        LimitKey::Own => step.keys.get(&limit.name).expect("a key for a limit that has its own"),
    };
    limits.iter().enumerate().map(|(place, limit)| Ask { limit: place, key: key(limit), cost }).collect()
}

fn outcome(limits: &[VectorLimit], t_us: u64, answer: &GroupAnswer) -> Outcome {
    let told = |share: &Share| LimitOutcome {
        name: limits[share.limit].name.clone(),
        remaining: share.answer.remaining,
        reset_after_us: share.answer.reset_after_us,
    };
    Outcome {
        t_us,
        allowed: answer.headline.allowed,
        reason: answer.headline.reason.map(|reason| reason.as_str().to_owned()),
        remaining: answer.headline.remaining,
        retry_after_us: answer.headline.retry_after_us,
        reset_after_us: answer.headline.reset_after_us,
        delay_us: answer.headline.delay_us,
        limit: limits[answer.limit].name.clone(),
        limits: answer.each.iter().map(told).collect(),
    }
}
