//! A refusal in the words of HTTP: its status, and the problem object (RFC 9457) that goes with it.

use alloc::borrow::ToOwned as _;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::decision::Decision;
use crate::headers::{Quota, retry_after_seconds, write_decimal};
use crate::words::Reason;

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const REDUCED_CAPACITY: &str = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
const TOO_LARGE: &str = "urn:ratekeeper:problem:cost-exceeds-capacity";
const BLOCKED: &str = "urn:ratekeeper:problem:blocked";
const BAD_INPUT: &str = "urn:ratekeeper:problem:bad-input";

/// Why HTTP says no, for programs and for people: what every wire of ours answers in the same words.
///
/// | status | when |
/// |---|---|
/// | 429 | a limit is used up, or too many wait for it, or for too long: waiting helps |
/// | 413 | the cost is above what the limit ever holds: no wait helps |
/// | 403 | an override or a policy blocks the key |
/// | 503 | the store does not answer, or has no place for the key; or nobody may wait any more |
/// | 400 | the request lacks what its key or cost is read from |
///
/// No key and no address is in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Denial<'a> {
    status: u16,
    kind: &'static str,
    title: &'static str,
    detail: String,
    error: Option<&'static str>,
    reason: Option<Reason>,
    wait: Option<Duration>,
    policy: &'a str,
    limit: Option<&'a str>,
    /// With the names, and the wait to the millisecond.
    is_whole: bool,
}

impl<'a> Denial<'a> {
    /// The refusal of a decision whose [binding](Decision::binding) limit has these names. `told` is the wait as it is
    /// to be told, which may be longer than the decision's; `None` if it can never pass, or nobody knows.
    #[must_use]
    pub fn of(decision: &Decision, policy: &'a str, limit: &'a str, told: Option<Duration>) -> Self {
        let verdict = decision.limits().get(decision.binding);
        let (wait, seconds) = (told, told.map_or(1, retry_after_seconds));
        let whole = |status, kind, title, detail, error, wait| Self {
            status,
            kind,
            title,
            detail,
            error: Some(error),
            reason: decision.reason,
            wait,
            policy,
            limit: Some(limit),
            is_whole: true,
        };
        match decision.reason {
            Some(Reason::StoreUnavailable) => {
                let title = "Temporarily reduced capacity";
                if verdict.is_some_and(|verdict| !verdict.has_numbers()) {
                    let detail = format!(
                        "The store of policy {policy} does not answer, and on_store_error is deny. Retry in {seconds} s."
                    );
                    let short = whole(503, REDUCED_CAPACITY, title, detail, "unavailable", wait);
                    return Self { is_whole: false, ..short };
                }
                let detail = "There is no place for this key at the moment.".to_owned();
                whole(503, REDUCED_CAPACITY, title, detail, "unavailable", wait)
            }
            Some(Reason::Closed) => {
                let detail = format!("Nobody may wait for limit {policy}.{limit} any more.");
                whole(503, REDUCED_CAPACITY, "Temporarily reduced capacity", detail, "unavailable", wait)
            }
            Some(Reason::Blocked) => Self::blocked(policy),
            // Whatever is refused for now is worth asking again, though not always anybody knows when.
            Some(Reason::Limited | Reason::QueueFull | Reason::TooLate) => {
                let quota = verdict.map(|verdict| Quota::of(verdict.limit()));
                let Quota { units, seconds: window } = quota.unwrap_or(Quota { units: 0, seconds: 0 });
                let requests = if units == 1 { "request" } else { "requests" };
                let retry = wait.map_or_else(String::new, |_| format!(" Retry in {seconds} s."));
                let detail =
                    format!("Limit {policy}.{limit} allows {units} {requests} per {window} s.{retry}");
                whole(429, QUOTA_EXCEEDED, "Quota exceeded", detail, "rate_limited", wait)
            }
            Some(Reason::CostExceedsCapacity) | None => {
                let (capacity, cost) =
                    verdict.map_or((0, 0), |verdict| (verdict.limit().capacity(), verdict.cost()));
                let detail = format!(
                    "Limit {policy}.{limit} never holds more than {capacity}: a cost of {cost} can never pass."
                );
                whole(413, TOO_LARGE, "Cost exceeds capacity", detail, "cost_exceeds_capacity", None)
            }
        }
    }

    /// The refusal of a policy that blocks the request without asking a limit.
    #[must_use]
    pub fn blocked(policy: &'a str) -> Self {
        Self {
            status: 403,
            kind: BLOCKED,
            title: "Blocked",
            detail: format!("Policy {policy} blocks this request."),
            error: Some("blocked"),
            reason: Some(Reason::Blocked),
            wait: None,
            policy,
            limit: None,
            is_whole: true,
        }
    }

    /// The answer to a request that lacks what it is told apart by, or says a cost that is none.
    #[must_use]
    pub const fn bad_input(detail: String) -> Self {
        Self {
            status: 400,
            kind: BAD_INPUT,
            title: "Bad input",
            detail,
            error: None,
            reason: None,
            wait: None,
            policy: "",
            limit: None,
            is_whole: false,
        }
    }

    /// The answer when a store says something that is no decision, nor a refusal by configuration.
    #[must_use]
    pub const fn unavailable(detail: String) -> Self {
        Self {
            status: 503,
            kind: REDUCED_CAPACITY,
            title: "Unavailable",
            detail,
            error: Some("unavailable"),
            reason: None,
            wait: Some(Duration::from_secs(1)),
            policy: "",
            limit: None,
            is_whole: false,
        }
    }

    /// The status of the answer.
    #[must_use]
    pub const fn status(&self) -> u16 {
        self.status
    }

    /// What is wrong, in a sentence.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Why, if a limit or a policy refuses.
    #[must_use]
    pub const fn reason(&self) -> Option<Reason> {
        self.reason
    }

    /// How long to wait; `None` if no wait helps.
    #[must_use]
    pub const fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// The value of `Retry-After`, if the answer has that field.
    #[must_use]
    pub fn retry_after(&self) -> Option<u64> {
        self.wait.map(retry_after_seconds)
    }

    /// Appends the problem object. `violated` are the limits that refuse, as `policy.limit`; they are told with 429.
    pub fn write_json<'v>(&self, violated: impl IntoIterator<Item = &'v str>, out: &mut Vec<u8>) {
        write_field(out, "{\"type\":", self.kind);
        write_field(out, ",\"title\":", self.title);
        write_number(out, ",\"status\":", Some(u64::from(self.status)));
        write_field(out, ",\"detail\":", &self.detail);
        if self.status == 429 {
            let mut lead = ",\"violated-policies\":[";
            for name in violated {
                write_field(out, lead, name);
                lead = ",";
            }
            if lead == "," {
                out.push(b']');
            }
        }
        if let Some(error) = self.error {
            write_field(out, ",\"error\":", error);
        }
        if let Some(reason) = self.reason {
            write_field(out, ",\"reason\":", reason.name());
        }
        let seconds = self.retry_after();
        if self.is_whole || seconds.is_some() {
            write_number(out, ",\"retry_after\":", seconds);
        }
        if self.is_whole {
            // Rounded up: who waits that long is not refused for the rest of one.
            let millis =
                |wait: Duration| u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
            write_number(out, ",\"retry_after_ms\":", self.wait.map(millis));
            write_field(out, ",\"policy\":", self.policy);
            match self.limit {
                Some(limit) => write_field(out, ",\"limit\":", limit),
                None => out.extend_from_slice(b",\"limit\":null"),
            }
        }
        out.push(b'}');
    }
}

fn write_number(out: &mut Vec<u8>, lead: &str, number: Option<u64>) {
    out.extend_from_slice(lead.as_bytes());
    match number {
        Some(number) => write_decimal(out, number),
        None => out.extend_from_slice(b"null"),
    }
}

/// Appends `lead` and a text as JSON writes it.
fn write_field(out: &mut Vec<u8>, lead: &str, text: &str) {
    out.extend_from_slice(lead.as_bytes());
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..0x20 => {
                out.extend_from_slice(b"\\u00");
                for digit in [byte >> 4, byte & 15] {
                    out.push(if digit < 10 { b'0' + digit } else { b'a' + digit - 10 });
                }
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests;
