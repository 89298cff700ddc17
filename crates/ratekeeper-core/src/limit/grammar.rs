//! How limits and durations are written: `10/s`, `5 per 10m`, `2500ms`.

use core::fmt;
use core::str::FromStr;

use super::{Limit, LimitError, LimitSpec, MAX_AMOUNT};
use crate::algorithm::Algorithm;
use crate::time::{DAY_US, HOUR_US, Period};

const SECOND_US: u64 = 1_000_000;
const MINUTE_US: u64 = 60 * SECOND_US;

const UNITS: [(&str, u64); 8] = [
    ("s", SECOND_US),
    ("second", SECOND_US),
    ("minute", MINUTE_US),
    ("hour", HOUR_US),
    ("day", DAY_US),
    ("week", 7 * DAY_US),
    ("month", 30 * DAY_US),
    ("year", 365 * DAY_US),
];

const SUFFIXES: [(&str, u64); 6] =
    [("us", 1), ("ms", 1_000), ("s", SECOND_US), ("m", MINUTE_US), ("h", HOUR_US), ("d", DAY_US)];

/// The amount and window of a limit as written, before an algorithm is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// N.
    pub amount: u64,
    /// The window in microseconds (week = 7 days, month = 30 days, year = 365 days).
    pub window_us: u64,
    /// The calendar period, if it was written `/day`, `/week` or `/month`.
    pub period: Option<Period>,
}

impl Rate {
    /// What may stand for UNIT.
    pub const UNITS: [&'static str; 8] = words(&UNITS);
    /// What may stand for SUFFIX, in rates and durations.
    pub const SUFFIXES: [&'static str; 6] = words(&SUFFIXES);

    /// Reads `N/UNIT` or `N per COUNT SUFFIX`.
    ///
    /// # Errors
    /// What of the text cannot be read, or which number is out of range.
    pub fn parse(text: &str) -> Result<Self, LimitError> {
        if let Some((amount, unit)) = text.split_once('/') {
            if amount.ends_with(' ') || unit.starts_with(' ') || text.trim() != text {
                return Err(LimitError::Spaces);
            }
            let amount = digits(amount).ok_or(LimitError::NotANumber)?;
            if matches!(unit, "m" | "M") {
                return Err(LimitError::AmbiguousUnit);
            }
            let window_us = lookup(&UNITS, unit).ok_or(LimitError::UnknownUnit)?;
            let period = match unit {
                "day" => Some(Period::Day),
                "week" => Some(Period::Week),
                "month" => Some(Period::Month),
                _ => None,
            };
            return Self { amount, window_us, period }.checked();
        }
        let (amount, window) = text.split_once(" per ").ok_or(LimitError::NotALimit)?;
        let amount = digits(amount).ok_or(LimitError::NotANumber)?;
        Self { amount, window_us: parse_duration(window)?, period: None }.checked()
    }

    fn checked(self) -> Result<Self, LimitError> {
        match self.amount {
            0 => Err(LimitError::AmountZero),
            1..=MAX_AMOUNT => Ok(self),
            _ => Err(LimitError::AmountTooLarge),
        }
    }
}

/// Reads a duration such as `5s` or `2500ms` as microseconds; more than `u64` holds is `u64::MAX`.
///
/// # Errors
/// If the text is not whole digits and one of `us`, `ms`, `s`, `m`, `h`, `d`.
pub fn parse_duration(text: &str) -> Result<u64, LimitError> {
    let suffix = text.find(|c: char| !c.is_ascii_digit()).ok_or(LimitError::NotADuration)?;
    let (count, suffix) = text.split_at(suffix);
    let count = digits(count).ok_or(LimitError::NotADuration)?;
    let us = lookup(&SUFFIXES, suffix).ok_or(LimitError::NotADuration)?;
    Ok(count.saturating_mul(us))
}

/// Digits without sign, separator or leading zero; a number that does not fit is `u64::MAX`.
fn digits(text: &str) -> Option<u64> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !plain || (text.len() > 1 && text.starts_with('0')) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

const fn words<const N: usize>(table: &[(&'static str, u64); N]) -> [&'static str; N] {
    let mut words = [""; N];
    let mut at = 0;
    while at < N {
        words[at] = table[at].0;
        at += 1;
    }
    words
}

fn lookup(table: &[(&str, u64)], word: &str) -> Option<u64> {
    table.iter().find(|(name, _)| *name == word).map(|(_, us)| *us)
}

/// Writes an amount and a window so that [`Rate::parse`] reads them back.
pub(super) fn write_rate(f: &mut fmt::Formatter<'_>, amount: u64, window_us: u64) -> fmt::Result {
    // The longest name of a window first, and `s` instead of `second`.
    for (unit, us) in UNITS.iter().rev().filter(|(unit, _)| *unit != "second") {
        if *us == window_us {
            return write!(f, "{amount}/{unit}");
        }
    }
    let (suffix, us) =
        SUFFIXES.iter().rev().find(|(_, us)| window_us.is_multiple_of(*us)).expect("1 us divides all");
    write!(f, "{amount} per {}{suffix}", window_us / us)
}

impl FromStr for Limit {
    type Err = LimitError;

    /// Reads `300/minute` or `5 per 10m` as a token bucket whose burst is N.
    fn from_str(text: &str) -> Result<Self, LimitError> {
        let rate = Rate::parse(text)?;
        LimitSpec::new(Algorithm::TokenBucket, rate.amount, rate.window_us).build()
    }
}
