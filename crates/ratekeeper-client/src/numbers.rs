//! Numbers as servers write them, read digit by digit: nothing overflows, and nothing is a float.

use std::time::Duration;

use crate::draw::micros_up;

/// A number from 0 that may have a fraction. Past 64 bits it is [`u64::MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Decimal {
    pub(crate) whole: u64,
    /// The fraction, rounded up.
    pub(crate) nanos: u32,
}

const NANOS: u32 = 1_000_000_000;
const FRACTION_DIGITS: usize = 9;

/// `12`, `12.5`: no sign, no exponent, no space, ASCII digits on both sides of the point.
pub(crate) fn decimal(text: &str) -> Option<Decimal> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (digits(whole)?, Some(fraction)),
        None => (digits(text)?, None),
    };
    let nanos = match fraction {
        None => 0,
        Some(fraction) if is_digits(fraction) => {
            let mut nanos = 0;
            for place in 0..FRACTION_DIGITS {
                let digit = fraction.as_bytes().get(place).map_or(0, |digit| u32::from(digit - b'0'));
                nanos = nanos * 10 + digit;
            }
            let more = fraction.bytes().skip(FRACTION_DIGITS).any(|digit| digit != b'0');
            nanos + u32::from(more)
        }
        Some(_) => return None,
    };
    if nanos == NANOS {
        return Some(Decimal { whole: whole.saturating_add(1), nanos: 0 });
    }
    Some(Decimal { whole, nanos })
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A whole number from 0, [`u64::MAX`] if there are too many digits.
pub(crate) fn digits(text: &str) -> Option<u64> {
    is_digits(text).then(|| {
        text.bytes().fold(0_u64, |n, digit| n.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
    })
}

/// A count that remains: `7`, or `0.0`, of which the fraction is dropped. `-1` and the like are unknown.
pub(crate) fn count(text: &str) -> Option<u64> {
    decimal(text).map(|n| n.whole)
}

/// How long a number of seconds is; `None` if it has no end in 64 bits.
pub(crate) fn seconds(n: Decimal) -> Option<Duration> {
    (n.whole < u64::MAX).then(|| Duration::new(n.whole, n.nanos))
}

/// How long a number of milliseconds is, rounded up to whole microseconds.
pub(crate) fn milliseconds(n: Decimal) -> Option<Duration> {
    // A billionth of a millisecond is a millionth of a microsecond.
    let us = u64::from(n.nanos.div_ceil(1_000_000));
    (n.whole < u64::MAX).then(|| Duration::from_millis(n.whole).saturating_add(Duration::from_micros(us)))
}

/// A time as Go prints it: `1m30.5s`, `12ms`, `6m0s`; rounded up to whole microseconds.
pub(crate) fn go_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let unit_ns: u64 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let number = decimal(number)?;
        let whole = u128::from(number.whole) * u128::from(unit_ns);
        let part = (u128::from(number.nanos) * u128::from(unit_ns)).div_ceil(u128::from(NANOS));
        let us = (whole + part).div_ceil(1_000);
        total = total.saturating_add(Duration::from_micros(u64::try_from(us).unwrap_or(u64::MAX)));
        rest = tail;
    }
    Some(micros_up(total))
}
