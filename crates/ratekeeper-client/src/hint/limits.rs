//! All that an answer tells, put together.

use std::borrow::Cow;
use std::time::Duration;

use ratekeeper_core::{MAX_FIELD_BYTES, MAX_FIELD_ITEMS, read_limit_field, read_policy_field};

use super::{Hint, HintSource, LimitInfo, ResponseHead, Rules, Wait, retry_after};
use crate::numbers::{decimal, digits, go_duration, milliseconds, seconds};

impl Rules {
    /// Reads what an answer says about waiting: what [`resolve`](crate::resolve) does for a profile with these rules.
    #[must_use]
    pub fn hint(&self, head: &ResponseHead<'_>) -> Hint {
        let (mut limits, of_limits) = self.limits(head);
        if let Some((wait, source)) = retry_after::told(head, self) {
            // It takes precedence over what the limits that refuse say of themselves.
            if let (Wait::For(wait), true) = (wait, head.is_refusal()) {
                for limit in limits.iter_mut().filter(|limit| limit.remaining == 0) {
                    (limit.wait, limit.margin) = (limit.wait.map(|_| wait), Duration::ZERO);
                }
            }
            return Hint { wait: Some(wait), source, limits, ..Hint::NONE };
        }
        match of_limits.or_else(|| in_body(head)) {
            Some(found) => Hint {
                wait: Some(found.wait),
                margin: found.margin,
                source: found.source,
                limits,
                grows: false,
            },
            None => Hint { limits, ..Hint::NONE },
        }
    }

    /// The limits, and the longest wait of those that are exhausted.
    fn limits(&self, head: &ResponseHead<'_>) -> (Vec<LimitInfo>, Option<Found>) {
        // Numbers that a cache has kept are those of somebody else, and old.
        if head.text("age").and_then(digits).is_some_and(|age| age > 0) {
            return (Vec::new(), None);
        }
        let of_field = limit_field(head);
        if !of_field.is_empty() {
            let exhausted = of_field.iter().filter(|limit| limit.remaining == 0);
            let longest = exhausted.filter_map(|limit| limit.wait).max();
            let found = longest.map(|wait| Found::new(wait, Duration::ZERO, HintSource::RateLimit));
            return (of_field, found);
        }
        let scope = self.scope.and_then(|field| head.text(field));
        let told = self.counters.iter().filter_map(|counter| counter.read(head, scope));
        let limits: Vec<LimitInfo> = told.take(MAX_FIELD_ITEMS).collect();
        let exhausted = limits.iter().filter(|limit| limit.remaining == 0);
        let longest = exhausted.filter_map(|limit| Some((limit.wait?, limit.margin))).max();
        (limits, longest.map(|(wait, margin)| Found::new(wait, margin, HintSource::Counters)))
    }
}

struct Found {
    wait: Wait,
    margin: Duration,
    source: HintSource,
}

impl Found {
    fn new(wait: Duration, margin: Duration, source: HintSource) -> Self {
        Self { wait: Wait::For(wait), margin, source }
    }
}

/// All lines of a field as one, if it is not too long.
fn joined<'a>(head: &ResponseHead<'a>, name: &str) -> Option<Cow<'a, str>> {
    let mut lines = head.headers.get_all(name).iter();
    let first = lines.next()?.to_str().ok()?;
    let mut all = Cow::Borrowed(first);
    for line in lines {
        let line = line.to_str().ok()?;
        if all.len() + line.len() > MAX_FIELD_BYTES {
            return None;
        }
        let all = all.to_mut();
        all.push_str(", ");
        all.push_str(line);
    }
    Some(all)
}

/// `RateLimit`, and what `RateLimit-Policy` adds to it.
fn limit_field(head: &ResponseHead<'_>) -> Vec<LimitInfo> {
    let Some(field) = joined(head, "ratelimit") else { return Vec::new() };
    let told = read_limit_field(&field).unwrap_or_default();
    let policies = joined(head, "ratelimit-policy");
    let policies = policies.as_deref().and_then(read_policy_field).unwrap_or_default();
    let only = told.len() == 1 && policies.len() == 1;
    told.iter()
        .map(|limit| {
            let quota = policies.iter().find(|policy| only || policy.name == limit.name);
            LimitInfo {
                name: limit.name.clone().into_owned(),
                remaining: limit.remaining,
                wait: limit.seconds.map(Duration::from_secs),
                margin: Duration::ZERO,
                quota: quota.map(|policy| policy.quota.units).or(limit.limit),
                window: quota.map(|policy| Duration::from_secs(policy.quota.seconds)),
            }
        })
        .collect()
}

/// What some say in the body of a refusal: `retry_after_ms`, `retry_after` in seconds, `retryDelay` as `34.5s`.
fn in_body(head: &ResponseHead<'_>) -> Option<Found> {
    let json = head.json()?;
    let millis = || json.value("retry_after_ms").and_then(decimal).and_then(milliseconds);
    let whole = || json.value("retry_after").and_then(decimal).and_then(seconds);
    let delay = || json.value("retryDelay").and_then(go_duration);
    let wait = millis().or_else(whole).or_else(delay)?;
    Some(Found::new(crate::draw::micros_up(wait), Duration::ZERO, HintSource::Body))
}
