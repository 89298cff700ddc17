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
    /// That of the binding limit, or one that asks none; None if none applies.
    policy: Option<String>,
    /// The binding limit, if any was asked.
    limit: Option<String>,
    /// None if waiting does not help.
    retry_after_ms: Option<u64>,
    delay_ms: u64,
    source: String,
    limits: Vec<Limit>,
    /// What would have refused it, were it enforced: `policy.limit`.
    #[serde(default)]
    shadow_denied: Vec<String>,
}

#[derive(Deserialize)]
struct Limit {
    policy: String,
    name: String,
    capacity: u64,
    remaining: u64,
    reset_after_ms: u64,
}

/// What was asked, as far as it is repeated.
pub(super) struct Asked<'a> {
    /// The request, if no policy is named.
    pub(super) request: Option<&'a str>,
    pub(super) key: Option<&'a str>,
    /// None if the policies say it.
    pub(super) cost: Option<u64>,
    pub(super) peek: bool,
}

impl Answer {
    /// The line for people. `zone` is where they are.
    pub(super) fn told(&self, asked: &Asked<'_>, now: Micros, zone: &TimeZone) -> String {
        let word = if self.allowed { "ALLOWED  " } else { "DENIED   " };
        let mut question = Vec::new();
        question.extend(asked.request.map(str::to_owned).or_else(|| self.policy.clone()));
        question.extend(asked.key.map(str::to_owned));
        question.extend(asked.cost.map(|cost| format!("cost {cost}")));
        if asked.peek {
            question.push("peek".to_owned());
        }
        let mut parts = vec![question.join(" · ")];
        if self.allowed {
            self.tell_allowed(&mut parts, asked)
        } else {
            self.tell_denied(&mut parts, asked, now, zone)
        }
        if !self.shadow_denied.is_empty() {
            parts.push(format!("would have been denied by {} (shadow)", self.shadow_denied.join(", ")));
        }
        if self.source != "exact" {
            parts.push(format!("source: {}", self.source));
        }
        harmless(&format!("{word}{}", parts.join(GAP))) + "\n"
    }

    /// The binding limit first, since it decides what comes next; the others in the file's order.
    fn tell_allowed(&self, parts: &mut Vec<String>, asked: &Asked<'_>) {
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
            parts.push(format!("{}{full}", left(limit, asked)));
        } else {
            parts.push(match &self.policy {
                Some(policy) => format!("policy {policy} asks no limit"),
                None => "no policy applies".to_owned(),
            });
        }
        for limit in self.limits.iter().filter(|limit| !self.is_binding(limit)) {
            parts.push(format!("{} {} of {}", limit.called(asked), limit.remaining, limit.capacity));
        }
    }

    /// The limit that refuses, and when it will not.
    fn tell_denied(&self, parts: &mut Vec<String>, asked: &Asked<'_>, now: Micros, zone: &TimeZone) {
        let reason = self.reason.as_deref().unwrap_or_default();
        if let Some(limit) = self.binding() {
            parts.push(if reason == "cost_exceeds_capacity" {
                format!("{} holds {}: this cost can never pass", limit.called(asked), limit.capacity)
            } else {
                left(limit, asked)
            });
        } else if let Some(policy) = &self.policy {
            parts.push(format!("policy {policy} blocks it"));
        }
        if let Some(wait) = self.retry_after_ms.filter(|wait| *wait > 0) {
            let clock = human::time_of_day(now, wait, zone).map(|time| format!(" ({time})"));
            parts.push(format!("again in {}{}", human::duration(wait), clock.unwrap_or_default()));
        }
        parts.push(format!("reason: {reason}"));
    }

    fn binding(&self) -> Option<&Limit> {
        self.limits.iter().find(|limit| self.is_binding(limit))
    }

    fn is_binding(&self, limit: &Limit) -> bool {
        self.limit.as_ref() == Some(&limit.name) && self.policy.as_ref() == Some(&limit.policy)
    }
}

impl Limit {
    /// Its name; with that of its policy, where nobody has named that.
    fn called(&self, asked: &Asked<'_>) -> String {
        match asked.request {
            Some(_) => format!("{}.{}", self.policy, self.name),
            None => self.name.clone(),
        }
    }
}

fn left(limit: &Limit, asked: &Asked<'_>) -> String {
    format!("{} {} of {} left", limit.called(asked), limit.remaining, limit.capacity)
}

/// A text from elsewhere without what would move the cursor or break the line.
pub(in crate::cli) fn harmless(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests;
