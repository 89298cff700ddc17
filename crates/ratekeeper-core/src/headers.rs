//! What an answer says in HTTP fields: `RateLimit-Policy`, `RateLimit`, `Retry-After` and the three
//! `X-RateLimit-*`, as text.
//!
//! The first two are lists of RFC 9651 with an item per limit, as in the IETF draft "RateLimit header fields for
//! HTTP" (versions 10 and 11): `"api.burst";q=20;w=12` and `"api.burst";r=7;t=1`. Everything is whole numbers,
//! rounded once from exact microseconds: `q` and `r` down, `w`, `t` and every other wait up. So a client that
//! waits for as long as it is told is never too early.
//!
//! What is the same on every answer is made once, as a [`LimitItem`]; what differs is appended to the caller's
//! buffer, digit by digit. What others write in the first two is read by [`read_limit_field`] and
//! [`read_policy_field`].

mod parse;

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::decision::Verdict;
use crate::limit::Limit;
use crate::store::Name;
use crate::time::{Micros, whole_micros};

pub use parse::{
    MAX_FIELD_BYTES, MAX_FIELD_ITEMS, ToldLimit, ToldPolicy, read_limit_field, read_policy_field,
};

/// The largest integer of a structured field: 15 digits. What is larger is told as this.
pub const MAX_FIELD_INTEGER: u64 = 999_999_999_999_999;

const SECOND_US: u64 = 1_000_000;
/// Digits of the largest number of 64 bits.
const MAX_DIGITS: usize = 20;

/// Appends `n` in decimal digits.
pub fn write_decimal(out: &mut Vec<u8>, n: u64) {
    let mut digits = [b'0'; MAX_DIGITS];
    let mut rest = n;
    let mut first = MAX_DIGITS;
    for (place, digit) in digits.iter_mut().enumerate().rev() {
        // A remainder by 10 is one digit.
        *digit = b'0' + (rest % 10) as u8;
        first = place;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(first..).unwrap_or_default());
}

/// Whole seconds that are not shorter than `span`.
const fn seconds_up(span: Duration) -> u64 {
    span.as_secs().saturating_add(if span.subsec_nanos() > 0 { 1 } else { 0 })
}

/// The value of `Retry-After` for a wait: whole seconds, rounded up, and never 0, which many clients take for
/// "no wait" and come again at once.
#[must_use]
pub const fn retry_after_seconds(wait: Duration) -> u64 {
    let seconds = seconds_up(wait);
    if seconds == 0 { 1 } else { seconds }
}

/// A limit in the words of `RateLimit-Policy`: `units` within `seconds`.
///
/// A window or log says N and the window; a bucket or queue its capacity, and the time in which all of it comes
/// back. So `r` is never above `q`, and q / w is the sustained rate, but for the rounding of `w` to whole
/// seconds. What takes less than a second is told per second: 10 per 100 ms are 100 per second. A calendar
/// window has the seconds of its nominal period: 86,400, 604,800 or 2,592,000.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    /// `q`: units, rounded down if they are told for a longer time than the limit's own.
    pub units: u64,
    /// `w`: whole seconds, rounded up, at least 1.
    pub seconds: u64,
}

impl Quota {
    /// The quota of a limit.
    #[must_use]
    pub const fn of(limit: &Limit) -> Self {
        if limit.span_us < SECOND_US {
            // capacity × 1 s / span, and the span is capacity × W / N. N is at most 10^9, so the product fits.
            return Self { units: capped(limit.amount() * SECOND_US / limit.window_us()), seconds: 1 };
        }
        let span_us = limit.span_us + if limit.span_part > 0 { 1 } else { 0 };
        Self { units: limit.capacity(), seconds: span_us.div_ceil(SECOND_US) }
    }
}

const fn capped(n: u64) -> u64 {
    if n > MAX_FIELD_INTEGER { MAX_FIELD_INTEGER } else { n }
}

/// A limit's item in the two `RateLimit` fields: `"<policy>.<limit>"` and what never changes about it, written
/// once, when the configuration is read.
///
/// ```
/// use ratekeeper_core::{Ask, Limit, LimitItem, Micros, Moment, Name, State, StateRef, evaluate};
/// let limit = Limit::per_minute(100).burst(20);
/// let item = LimitItem::new(&Name::new("api")?, &Name::new("default")?, &limit);
/// assert_eq!(item.policy(), r#""api.default";q=20;w=12"#);
///
/// let at = Moment::at(Micros::new(0));
/// let answer = evaluate(&limit, StateRef::Words(State::FRESH), &at, 13, Ask::Acquire).taken();
/// let mut field = Vec::new();
/// assert!(item.write(&mut field, &answer));
/// assert_eq!(field, br#""api.default";r=7;t=1"#);
/// # Ok::<(), ratekeeper_core::NameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitItem {
    policy: String,
    /// Bytes of `"<policy>.<limit>"` within the text above.
    name_len: usize,
}

impl LimitItem {
    /// The item of a limit of a policy. An override that changes the numbers has an item of its own.
    #[must_use]
    pub fn new(policy: &Name, name: &Name, limit: &Limit) -> Self {
        // Neither `"` nor `\` is in the alphabet of names, so nothing is to be escaped.
        let mut text = String::from("\"");
        for part in [policy.as_str(), ".", name.as_str(), "\""] {
            text.push_str(part);
        }
        let name_len = text.len();
        let quota = Quota::of(limit);
        let mut digits = Vec::new();
        for (key, n) in [(";q=", quota.units), (";w=", quota.seconds)] {
            digits.clear();
            write_decimal(&mut digits, n);
            text.push_str(key);
            text.extend(digits.iter().copied().map(char::from));
        }
        Self { policy: text, name_len }
    }

    /// The item of `RateLimit-Policy`: `"<policy>.<limit>";q=Q;w=S`.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The name with its quotes, as both fields begin an item: `"<policy>.<limit>"`.
    #[must_use]
    pub fn quoted_name(&self) -> &str {
        self.policy.get(..self.name_len).unwrap_or_default()
    }

    /// Appends the item of `RateLimit` for this limit's answer: `"<policy>.<limit>";r=R;t=T`. R is what remains; T
    /// is when to come again if this limit refuses, and otherwise when more than R can have been had.
    ///
    /// Appends nothing, and says `false`, if the request can never pass this limit: no number of seconds would
    /// be true of it.
    pub fn write(&self, out: &mut Vec<u8>, verdict: &Verdict) -> bool {
        let wait = if verdict.allowed() { Some(verdict.more_after()) } else { verdict.retry_after() };
        if let Some(wait) = wait {
            self.write_numbers(out, verdict.remaining(), wait);
        }
        wait.is_some()
    }

    /// Appends the item of `RateLimit` with these numbers, for an answer whose wait has been lengthened since, or
    /// that was not decided here.
    pub fn write_numbers(&self, out: &mut Vec<u8>, remaining: u64, wait: Duration) {
        out.extend_from_slice(self.quoted_name().as_bytes());
        out.extend_from_slice(b";r=");
        write_decimal(out, capped(remaining));
        out.extend_from_slice(b";t=");
        write_decimal(out, capped(retry_after_seconds(wait)));
    }
}

/// The value of `RateLimit-Policy`: the items of all limits, in their order. Empty without any; such a field is
/// not sent.
#[must_use]
pub fn policy_field<'a>(items: impl IntoIterator<Item = &'a LimitItem>) -> String {
    let mut field = String::new();
    for item in items {
        if !field.is_empty() {
            field.push_str(", ");
        }
        field.push_str(item.policy());
    }
    field
}

/// Appends the value of `RateLimit`: the items of all limits if all of them let the request pass, else those of
/// the refusing ones only, since `Retry-After`, the longest wait of these, must not be earlier than any `t`.
///
/// Appends nothing, and says `false`, if there is no item to be written: without limits, or if those that
/// refuse can never let the request pass. Such a field is not sent.
pub fn write_limit_field<'a, I>(out: &mut Vec<u8>, limits: I) -> bool
where
    I: IntoIterator<Item = (&'a LimitItem, &'a Verdict)>,
    I::IntoIter: Clone,
{
    let limits = limits.into_iter();
    let passes = limits.clone().all(|(_, verdict)| verdict.allowed());
    let listed = |verdict: &Verdict| verdict.allowed() == passes && verdict.retry_after().is_some();
    let mut written = false;
    for (item, verdict) in limits.filter(|(_, verdict)| listed(verdict)) {
        if written {
            out.extend_from_slice(b", ");
        }
        written |= item.write(out, verdict);
    }
    written
}

/// The numbers of `X-RateLimit-Limit`, `-Remaining` and `-Reset` for the limit that binds
/// ([`Decision::binding`](crate::Decision::binding)). Zero is a value like any other, and to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct XRateLimit {
    /// The capacity: N of a window or log, the burst of a bucket, queue + 1.
    pub limit: u64,
    /// How many requests of cost 1 would be admitted now.
    pub remaining: u64,
    /// When the key is fresh again, rounded up to whole seconds: Unix time, or seconds from now.
    pub reset: u64,
}

impl XRateLimit {
    /// With the reset as Unix time in seconds, added to `now` before anything is rounded. `now` is the reading of
    /// the wall clock that `Date` is written from.
    #[must_use]
    pub fn unix(verdict: &Verdict, now: Micros) -> Self {
        let reset_us = now.get().saturating_add(whole_micros(verdict.reset_after()));
        Self { reset: reset_us.div_ceil(SECOND_US), ..Self::delta(verdict) }
    }

    /// With the reset as seconds from now, whatever the time is; 0 when nothing is used.
    #[must_use]
    pub fn delta(verdict: &Verdict) -> Self {
        Self {
            limit: verdict.limit().capacity(),
            remaining: verdict.remaining(),
            reset: seconds_up(verdict.reset_after()),
        }
    }
}

#[cfg(test)]
mod tests;
