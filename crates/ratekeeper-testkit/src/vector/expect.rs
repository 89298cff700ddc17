//! What a step must answer, and what it did answer.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{VectorOp, VectorStep};

/// What is certain about an answer; what is `None` is not checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expect {
    /// Whether the request may go.
    pub allowed: Option<bool>,
    /// The reason of a refusal.
    pub reason: Option<String>,
    /// What remains.
    pub remaining: Option<u64>,
    /// The wait; `Some(None)`: never.
    pub retry_after_us: Option<Option<u64>>,
    /// The time until the key is fresh.
    pub reset_after_us: Option<u64>,
    /// The wait of an admitted request for its start.
    pub delay_us: Option<u64>,
    /// The binding limit.
    pub limit: Option<String>,
    /// The numbers of each limit, by name.
    pub limits: BTreeMap<String, LimitExpect>,
}

/// What is certain about one limit of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LimitExpect {
    /// What remains in it.
    pub remaining: Option<u64>,
    /// The time until its state is fresh.
    pub reset_after_us: Option<u64>,
}

/// An answer, in the words of a line of `ratekeeper simulate`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The instant of the step.
    pub t_us: u64,
    /// Whether the request may go.
    pub allowed: bool,
    /// The reason of a refusal.
    pub reason: Option<String>,
    /// What remains: the least of all limits.
    pub remaining: u64,
    /// The wait; `None`: never. The field must be there.
    #[serde(deserialize_with = "Option::deserialize")]
    pub retry_after_us: Option<u64>,
    /// The time until the key is fresh: the greatest of all limits.
    pub reset_after_us: u64,
    /// The wait of an admitted request for its start.
    pub delay_us: u64,
    /// The binding limit.
    pub limit: String,
    /// Each limit, in the order of the policy.
    pub limits: Vec<LimitOutcome>,
}

/// One limit of an answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitOutcome {
    /// Its name.
    pub name: String,
    /// What remains in it.
    pub remaining: u64,
    /// The time until its state is fresh.
    pub reset_after_us: u64,
}

impl Expect {
    /// What is wrong with an answer.
    #[must_use]
    pub fn mismatches(&self, outcome: &Outcome) -> Vec<String> {
        let mut wrong = Vec::new();
        compare(&mut wrong, "allowed", self.allowed, outcome.allowed);
        compare(&mut wrong, "reason", self.reason.as_deref().map(Some), outcome.reason.as_deref());
        compare(&mut wrong, "remaining", self.remaining, outcome.remaining);
        compare(&mut wrong, "retry_after_us", self.retry_after_us, outcome.retry_after_us);
        compare(&mut wrong, "reset_after_us", self.reset_after_us, outcome.reset_after_us);
        compare(&mut wrong, "delay_us", self.delay_us, outcome.delay_us);
        compare(&mut wrong, "limit", self.limit.as_deref(), outcome.limit.as_str());
        for (name, expected) in &self.limits {
            let Some(limit) = outcome.limits.iter().find(|limit| limit.name == *name) else {
                wrong.push(format!("limit {name} is missing"));
                continue;
            };
            compare(&mut wrong, &format!("{name}.remaining"), expected.remaining, limit.remaining);
            let reset = &format!("{name}.reset_after_us");
            compare(&mut wrong, reset, expected.reset_after_us, limit.reset_after_us);
        }
        wrong
    }
}

fn compare<T: PartialEq + std::fmt::Debug>(
    wrong: &mut Vec<String>,
    field: &str,
    expected: Option<T>,
    got: T,
) {
    if let Some(expected) = expected
        && expected != got
    {
        wrong.push(format!("{field} should be {expected:?}, is {got:?}"));
    }
}

/// The rules that every answer keeps, whatever was expected of it.
pub(super) fn broken_rules(step: &VectorStep, names: &[String], outcome: &Outcome) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut rule = |holds: bool, what: &str| {
        if !holds {
            wrong.push(format!("{what}: {outcome:?}"));
        }
    };
    rule(outcome.t_us == step.t_us, "an answer tells the instant of its step");
    if outcome.allowed {
        rule(outcome.retry_after_us == Some(0), "who may go need not wait");
        rule(outcome.reason.is_none(), "who may go is given no reason");
    } else {
        rule(outcome.delay_us == 0, "who may not go is given no start");
        match outcome.reason.as_deref() {
            Some("limited") => rule(outcome.retry_after_us.is_some_and(|us| us > 0), "a wait is positive"),
            Some("cost_exceeds_capacity") => rule(outcome.retry_after_us.is_none(), "never has no wait"),
            _ => rule(false, "a refusal has a reason"),
        }
    }
    let looks = matches!(step.op, VectorOp::Reset | VectorOp::Refund) || step.units() == 0;
    if looks {
        rule(outcome.allowed && outcome.delay_us == 0, "a look is allowed");
    }
    rule(outcome.limits.iter().map(|limit| &limit.name).eq(names), "each limit is told, in order");
    rule(names.contains(&outcome.limit), "the binding limit is one of the policy");
    let least = outcome.limits.iter().map(|limit| limit.remaining).min();
    rule(least == Some(outcome.remaining), "remaining is the least");
    let greatest = outcome.limits.iter().map(|limit| limit.reset_after_us).max();
    rule(greatest == Some(outcome.reset_after_us), "reset_after_us is the greatest");
    wrong
}

impl<'de> Deserialize<'de> for Expect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::deserialize(deserializer)?;
        read(&mut fields).map_err(D::Error::custom)
    }
}

fn read(fields: &mut Map<String, Value>) -> Result<Expect, String> {
    let mut expect = Expect {
        retry_after_us: number(fields, "retry_after_us")?,
        reset_after_us: plain_number(fields, "reset_after_us")?,
        delay_us: plain_number(fields, "delay_us")?,
        remaining: plain_number(fields, "remaining")?,
        ..Expect::default()
    };
    if let Some(value) = fields.remove("allowed") {
        expect.allowed = Some(value.as_bool().ok_or("allowed is true or false")?);
    }
    if let Some(value) = fields.remove("reason") {
        expect.reason = Some(value.as_str().ok_or("reason is text")?.to_owned());
    }
    if let Some(value) = fields.remove("limit") {
        expect.limit = Some(value.as_str().ok_or("limit is text")?.to_owned());
    }
    if let Some(value) = fields.remove("limits") {
        let Value::Object(limits) = value else { return Err("limits has fields".to_owned()) };
        for (name, value) in limits {
            let Value::Object(mut of) = value else { return Err(format!("{name} has fields")) };
            let remaining = plain_number(&mut of, "remaining")?;
            let reset_after_us = plain_number(&mut of, "reset_after_us")?;
            nothing_left(&of)?;
            expect.limits.insert(name, LimitExpect { remaining, reset_after_us });
        }
    }
    nothing_left(fields)?;
    Ok(expect)
}

fn nothing_left(fields: &Map<String, Value>) -> Result<(), String> {
    fields.keys().next().map_or(Ok(()), |field| Err(format!("unknown field {field}")))
}

fn plain_number(fields: &mut Map<String, Value>, field: &str) -> Result<Option<u64>, String> {
    match number(fields, field)? {
        Some(None) => Err(format!("{field} is a number")),
        Some(Some(number)) => Ok(Some(number)),
        None => Ok(None),
    }
}

/// A whole number, `null`, or a fraction to be rounded up, with the whole number beside it in `<field>_int`.
fn number(fields: &mut Map<String, Value>, field: &str) -> Result<Option<Option<u64>>, String> {
    let Some(value) = fields.remove(field) else { return Ok(None) };
    if value.is_null() {
        return Ok(Some(None));
    }
    if let Some(number) = value.as_u64() {
        return Ok(Some(Some(number)));
    }
    let wrong = || format!("{field} is a whole number, null or a fraction");
    let fraction = value.get("ceil_of").and_then(Value::as_str).ok_or_else(wrong)?;
    let (above, below) = fraction.split_once('/').ok_or_else(wrong)?;
    let parse = |text: &str| text.parse::<u128>().map_err(|_| wrong());
    let whole = parse(above)?.div_ceil(parse(below)?);
    let beside = fields.remove(&format!("{field}_int")).and_then(|value| value.as_u64());
    if beside.map(u128::from) != Some(whole) {
        return Err(format!("{field}: {fraction} rounded up is {whole}, not {beside:?}"));
    }
    Ok(Some(beside))
}
