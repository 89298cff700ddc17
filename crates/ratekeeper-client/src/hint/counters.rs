//! Limits told in three fields: how many there are, how many remain, and when they are back.

use std::time::Duration;

use super::{LimitInfo, ResponseHead};
use crate::dates::{http_date, javascript, rfc3339};
use crate::draw::micros_up;
use crate::numbers::{Decimal, count, decimal, go_duration, milliseconds, seconds};

/// Added to a reset that is a whole second of the server's clock: its second may have just begun.
const WHOLE_SECOND: Duration = Duration::from_secs(1);
/// Numbers from here on are instants in these units, since the Unix epoch; those up to [`MAX_DELTA_S`] are seconds
/// from now. All of them are instants after 2001, or times below three years.
const EPOCH_NS: u64 = 100_000_000_000_000_000;
const EPOCH_US: u64 = 100_000_000_000_000;
const EPOCH_MS: u64 = 100_000_000_000;
const EPOCH_S: u64 = 1_000_000_000;
const MAX_DELTA_S: u64 = 100_000_000;

/// What the number in a reset field counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Told by its shape and size: seconds from now, an instant in seconds to nanoseconds, a date, or `1m30s`.
    Any,
    /// Milliseconds from now.
    Millis,
}

/// A limit told in three fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    /// What the limit is called here.
    pub name: &'static str,
    /// The field of the whole quota.
    pub limit: &'static str,
    /// The field of what remains.
    pub remaining: &'static str,
    /// The field of when there is more.
    pub reset: &'static str,
    /// What a number in that field counts.
    pub unit: Unit,
}

/// What a provider's fields are called and mean, beyond what all have.
///
/// ```
/// use ratekeeper_client::{Counter, Rules, Unit};
/// const MILLIS: Counter = Counter {
///     name: "default",
///     limit: "x-rate-limit-limit",
///     remaining: "x-rate-limit-remaining",
///     reset: "x-rate-limit-reset",
///     unit: Unit::Millis,
/// };
/// const RULES: Rules = Rules { counters: &[MILLIS], ..Rules::GENERIC };
/// # assert_ne!(RULES, Rules::GENERIC);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Whether `Retry-After` may be `1m30s` or an instant of RFC 3339, which are not in its grammar.
    pub odd_retry_after: bool,
    /// The limits that are told in three fields.
    pub counters: &'static [Counter],
    /// The field that names what they count: it is learned as a limit of its own.
    pub scope: Option<&'static str>,
}

impl Rules {
    /// The rules for who is not known: `X-RateLimit-*`, `X-Rate-Limit-*` and `RateLimit-*`, by their shape.
    pub const GENERIC: Self = Self {
        odd_retry_after: false,
        counters: &[
            Counter::prefixed(
                "x-ratelimit",
                ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"],
            ),
            Counter::prefixed(
                "x-rate-limit",
                ["x-rate-limit-limit", "x-rate-limit-remaining", "x-rate-limit-reset"],
            ),
            Counter::prefixed("ratelimit", ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"]),
        ],
        scope: None,
    };
}

impl Counter {
    /// A limit of this name in the fields for limit, remaining and reset, by their shape.
    #[must_use]
    pub const fn prefixed(name: &'static str, [limit, remaining, reset]: [&'static str; 3]) -> Self {
        Self { name, limit, remaining, reset, unit: Unit::Any }
    }

    /// What the answer tells.
    pub(super) fn read(&self, head: &ResponseHead<'_>, scope: Option<&str>) -> Option<LimitInfo> {
        let reset = head.text(self.reset).and_then(|text| reset(text, head, self.unit));
        let remaining = match head.text(self.remaining) {
            Some(text) => first(text).and_then(count)?,
            // A refusal that tells a reset only: it is this limit that refuses.
            None if head.is_refusal() && reset.is_some() => 0,
            None => return None,
        };
        let quota = head.text(self.limit).and_then(first).and_then(count);
        let (wait, margin) = reset.map_or((None, Duration::ZERO), |(wait, margin)| (Some(wait), margin));
        let name = scope.map_or_else(|| self.name.to_owned(), |scope| format!("{}:{scope}", self.name));
        Some(LimitInfo { name, remaining, wait, margin, quota, window: None })
    }
}

/// `100` of `100, 100;w=60`.
fn first(text: &str) -> Option<&str> {
    text.split([',', ';']).next().map(str::trim)
}

/// How long it is until a reset. What is past is now.
fn reset(text: &str, head: &ResponseHead<'_>, unit: Unit) -> Option<(Duration, Duration)> {
    let exact = |wait: Duration| (micros_up(wait), Duration::ZERO);
    if let Some(n) = decimal(text) {
        return match unit {
            Unit::Any => by_size(n, head),
            Unit::Millis => milliseconds(n).map(exact),
        };
    }
    if let Some(wait) = go_duration(text) {
        return Some(exact(wait));
    }
    let date = http_date(text).or_else(|| rfc3339(text)).or_else(|| javascript(text))?;
    Some(exact(date.saturating_sub(head.made_at())))
}

fn by_size(n: Decimal, head: &ResponseHead<'_>) -> Option<(Duration, Duration)> {
    let at = |instant: Duration| micros_up(instant.saturating_sub(head.made_at()));
    let exact = |wait| Some((wait, Duration::ZERO));
    match n.whole {
        EPOCH_NS.. => exact(at(Duration::from_nanos(n.whole))),
        EPOCH_US.. => exact(at(Duration::from_micros(n.whole))),
        EPOCH_MS.. => exact(at(Duration::from_millis(n.whole))),
        EPOCH_S.. => Some((at(seconds(n)?), if n.nanos == 0 { WHOLE_SECOND } else { Duration::ZERO })),
        0..=MAX_DELTA_S => exact(micros_up(seconds(n)?)),
        _ => None,
    }
}
