//! Limits as the configuration writes them.

use serde::Deserialize;

use super::calendar::{Period, period_starts};
use crate::oracle::{Align, Rule};

/// One entry of `limits`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VectorLimit {
    /// Its name.
    pub name: String,
    /// How units are counted.
    pub algorithm: String,
    /// N and window: `10/s`, `5 per 10m`.
    pub limit: String,
    /// Capacity of a bucket.
    pub burst: Option<u64>,
    /// Units that may wait.
    pub queue: Option<u64>,
    /// The longest wait in a queue.
    pub max_wait: Option<String>,
    /// Where fixed windows begin.
    pub align: Option<String>,
    /// The zone of a calendar.
    pub timezone: Option<String>,
    /// The parts of a key of its own.
    #[serde(default)]
    key: Vec<String>,
}

/// Whose state of a limit a request touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitKey {
    /// That of the policy's key.
    Policy,
    /// The one that there is.
    Global,
    /// That of the key which each step names for this limit.
    Own,
}

impl VectorLimit {
    /// Whose state of this limit a request touches.
    #[must_use]
    pub fn key(&self) -> LimitKey {
        match self.key.as_slice() {
            [] => LimitKey::Policy,
            [only] if only == "global" => LimitKey::Global,
            _ => LimitKey::Own,
        }
    }

    /// N and the window in microseconds; of calendar units the nominal one.
    ///
    /// # Panics
    /// If the text is not a limit.
    #[must_use]
    pub fn amount_and_window_us(&self) -> (u64, u64) {
        parse(&self.limit).unwrap_or_else(|| panic!("{} is not a limit", self.limit))
    }

    /// The limit for the oracle. A calendar is written out so that it covers `from_us` to `to_us`.
    ///
    /// # Panics
    /// If the entry is none that the configuration allows.
    #[must_use]
    pub fn rule(&self, from_us: u64, to_us: u64) -> Rule {
        let (amount, window_us) = self.amount_and_window_us();
        match self.algorithm.as_str() {
            "leaky-bucket" if self.queue.is_some() => Rule::Queue {
                amount,
                window_us,
                queue: self.queue.unwrap_or(0),
                max_wait_us: self.max_wait.as_deref().map(|wait| duration_us(wait).expect("a duration")),
            },
            "token-bucket" | "gcra" | "leaky-bucket" => {
                Rule::Meter { amount, window_us, burst: self.burst.unwrap_or(amount) }
            }
            "fixed-window" => {
                let align = match self.align.as_deref() {
                    None | Some("epoch") => Align::Epoch,
                    Some("first-request") => Align::FirstRequest,
                    Some("calendar") => {
                        let zone = self.timezone.as_deref().expect("a calendar has a zone");
                        Align::Periods(period_starts(self.period(), zone, from_us, to_us))
                    }
                    Some(other) => panic!("no alignment {other}"),
                };
                Rule::Fixed { amount, window_us, align }
            }
            "sliding-window-log" => Rule::Log { amount, window_us },
            "sliding-window-counter" => Rule::Counter { amount, window_us },
            other => panic!("no algorithm {other}"),
        }
    }

    fn period(&self) -> Period {
        match self.limit.split_once('/').map(|(_, unit)| unit) {
            Some("day") => Period::Day,
            Some("week") => Period::Week,
            Some("month") => Period::Month,
            _ => panic!("{} is no calendar period", self.limit),
        }
    }
}

/// `N/UNIT` or `N per COUNT SUFFIX`.
fn parse(text: &str) -> Option<(u64, u64)> {
    if let Some((amount, duration)) = text.split_once(" per ") {
        return Some((amount.parse().ok()?, duration_us(duration)?));
    }
    let (amount, unit) = text.split_once('/')?;
    let seconds = match unit {
        "s" | "second" => 1,
        "minute" => 60,
        "hour" => 3_600,
        "day" => 86_400,
        "week" => 7 * 86_400,
        "month" => 30 * 86_400,
        "year" => 365 * 86_400,
        _ => return None,
    };
    Some((amount.parse().ok()?, seconds * 1_000_000))
}

fn duration_us(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (count, suffix) = text.split_at(digits);
    let unit = match suffix {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return None,
    };
    count.parse::<u64>().ok()?.checked_mul(unit)
}
