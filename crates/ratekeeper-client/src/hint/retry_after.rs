//! `Retry-After` in all its forms, and the milliseconds that some vendors send beside it.

use std::time::Duration;

use http::header::RETRY_AFTER;

use super::{HintSource, ResponseHead, Rules, Wait};
use crate::dates::{http_date, rfc3339};
use crate::draw::micros_up;
use crate::numbers::{decimal, go_duration, milliseconds, seconds};

const VENDOR_MILLIS: [&str; 3] = ["retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after"];
/// Milliseconds and whole seconds of one wait may differ by so much.
const SAME: Duration = Duration::from_secs(1);

/// The wait in the fields that say nothing else.
pub(super) fn told(head: &ResponseHead<'_>, rules: &Rules) -> Option<(Wait, HintSource)> {
    let millis = VENDOR_MILLIS.iter().find_map(|name| head.text(name).and_then(decimal));
    let millis = millis.map(|n| milliseconds(n).map_or(Wait::Forever, Wait::For));
    match (millis, retry_after(head, rules)) {
        (None, None) => None,
        (None, Some(wait)) => Some((wait, HintSource::RetryAfter)),
        (Some(wait), None) => Some((wait, HintSource::VendorMillis)),
        (Some(millis), Some(seconds)) => Some(if seconds > millis && !are_near(millis, seconds) {
            (seconds, HintSource::RetryAfter)
        } else {
            (millis, HintSource::VendorMillis)
        }),
    }
}

fn are_near(one: Wait, other: Wait) -> bool {
    match (one, other) {
        (Wait::For(one), Wait::For(other)) => one.abs_diff(other) <= SAME,
        _ => one == other,
    }
}

/// The largest valid value of all lines.
fn retry_after(head: &ResponseHead<'_>, rules: &Rules) -> Option<Wait> {
    let lines = head.headers.get_all(RETRY_AFTER).iter().filter_map(|line| line.to_str().ok());
    lines.filter_map(|line| largest(line.trim_matches([' ', '\t']), head, rules)).max()
}

/// A line: one date, which has a comma itself, or values that something has joined by commas.
fn largest(line: &str, head: &ResponseHead<'_>, rules: &Rules) -> Option<Wait> {
    if let Some(date) = http_date(line) {
        return Some(Wait::For(date.saturating_sub(head.made_at())));
    }
    line.split(',').filter_map(|part| value(part.trim_matches([' ', '\t']), head, rules)).max()
}

fn value(text: &str, head: &ResponseHead<'_>, rules: &Rules) -> Option<Wait> {
    if let Some(n) = decimal(text) {
        return Some(seconds(n).map_or(Wait::Forever, |wait| Wait::For(micros_up(wait))));
    }
    if !rules.odd_retry_after {
        return None;
    }
    let date = || rfc3339(text).map(|date| date.saturating_sub(head.made_at()));
    go_duration(text).or_else(date).map(|wait| Wait::For(micros_up(wait)))
}
