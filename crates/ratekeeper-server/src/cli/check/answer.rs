//! The answer of a check in words: one line, its parts five spaces apart.

use jiff::tz::TimeZone;
use ratekeeper_core::Micros;
use serde::Deserialize;

use crate::human;

const GAP: &str = "     ";

/// What a server answers; fields that are not shown are not read.
#[derive(Deserialize)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    reason: Option<String>,
    policy: String,
    /// The binding limit.
    limit: String,
    /// None if waiting does not help.
    retry_after_ms: Option<u64>,
    delay_ms: u64,
    source: String,
    limits: Vec<Limit>,
}

#[derive(Deserialize)]
struct Limit {
    name: String,
    capacity: u64,
    remaining: u64,
    reset_after_ms: u64,
}

/// What was asked, as far as it is repeated.
pub(super) struct Asked<'a> {
    pub(super) key: Option<&'a str>,
    pub(super) cost: u64,
    pub(super) peek: bool,
}

impl Answer {
    /// The line for people. `zone` is where they are.
    pub(super) fn told(&self, asked: &Asked<'_>, now: Micros, zone: &TimeZone) -> String {
        let word = if self.allowed { "ALLOWED  " } else { "DENIED   " };
        let mut question = vec![self.policy.clone()];
        question.extend(asked.key.map(str::to_owned));
        question.push(format!("cost {}", asked.cost));
        if asked.peek {
            question.push("peek".to_owned());
        }
        let mut parts = vec![question.join(" · ")];
        if self.allowed {
            self.tell_allowed(&mut parts)
        } else {
            self.tell_denied(&mut parts, now, zone)
        }
        if self.source != "exact" {
            parts.push(format!("source: {}", self.source));
        }
        harmless(&format!("{word}{}", parts.join(GAP))) + "\n"
    }

    /// The binding limit first, since it decides what comes next; the others in the file's order.
    fn tell_allowed(&self, parts: &mut Vec<String>) {
        if self.delay_ms > 0 {
            parts.push(format!("start in {}", human::duration(self.delay_ms)));
        }
        if let Some(limit) = self.binding() {
            let full = match limit.reset_after_ms {
                // A start that lies ahead is what there is to know of a queue.
                _ if self.delay_ms > 0 => String::new(),
                0 => String::new(),
                ms => format!(", full in {}", human::duration(ms)),
            };
            parts.push(format!("{}{full}", left(limit)));
        }
        for limit in self.limits.iter().filter(|limit| limit.name != self.limit) {
            parts.push(format!("{} {} of {}", limit.name, limit.remaining, limit.capacity));
        }
    }

    /// The limit that refuses, and when it will not.
    fn tell_denied(&self, parts: &mut Vec<String>, now: Micros, zone: &TimeZone) {
        let reason = self.reason.as_deref().unwrap_or_default();
        if let Some(limit) = self.binding() {
            parts.push(if reason == "cost_exceeds_capacity" {
                format!("{} holds {}: this cost can never pass", limit.name, limit.capacity)
            } else {
                left(limit)
            });
        }
        if let Some(wait) = self.retry_after_ms.filter(|wait| *wait > 0) {
            let clock = human::time_of_day(now, wait, zone).map(|time| format!(" ({time})"));
            parts.push(format!("again in {}{}", human::duration(wait), clock.unwrap_or_default()));
        }
        parts.push(format!("reason: {reason}"));
    }

    fn binding(&self) -> Option<&Limit> {
        self.limits.iter().find(|limit| limit.name == self.limit)
    }
}

fn left(limit: &Limit) -> String {
    format!("{} {} of {} left", limit.name, limit.remaining, limit.capacity)
}

/// A text from elsewhere without what would move the cursor or break the line.
pub(super) fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests;
