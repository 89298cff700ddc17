//! The numbers of a polite client.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use ratekeeper_core::{Algorithm, Limit};

use crate::backoff::Backoff;
use crate::budget::{Budget, Percent};

/// What may be repeated of requests that are not idempotent: POST and PATCH, and methods that nobody knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repeat {
    /// Nothing.
    Never,
    /// Those that were refused before anything was done, and those that were never sent; with an Idempotency-Key as
    /// if they were idempotent.
    On429Only,
    /// Only those with an Idempotency-Key, as if they were idempotent.
    WithIdempotencyKey,
    /// All, as if they were idempotent.
    Always,
}

/// How calls are held back before a server has to refuse them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// Nothing is held back but by refusals and by [`Settings::own_limit`].
    Off,
    /// Calls wait once nothing remains of a limit that answers tell about.
    GateAtZero,
    /// The same, and calls are evenly apart: as the quota and its window tell, or so that what remains lasts until
    /// there is more. `reserve` units of every limit are left to others.
    Smooth {
        /// Units that are not used.
        reserve: u64,
    },
}

/// Whether keys for idempotency are made for requests that have none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Generate {
    /// None.
    Off,
    /// One for each POST and PATCH, the same on every retry. Only for servers that know the field: others may do
    /// the work twice.
    ForPostAndPatch,
}

/// All that can be set about waiting and trying again. The defaults are those of [`Settings::DEFAULT`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// Sends of one call in all; 1 waits at the gate and never repeats. Default 3.
    pub max_attempts: u32,
    /// Waits after failures that may pass. Default: full jitter up to 100 ms, 200 ms, … 20 s.
    pub transient: Backoff,
    /// Waits after refusals without a hint, and the least after those with one. Default: equal jitter up to
    /// 1 s, 2 s, … 60 s.
    pub quota: Backoff,
    /// A hint that asks for more is neither shortened nor slept through: the refusal is returned. Default 120 s.
    pub max_hint: Duration,
    /// What is added to a hint at most, as a share of it. Default 10 %.
    pub hint_jitter: Percent,
    /// What that share is at least and at most. Default 250 ms to 5 s.
    pub hint_jitter_bounds: RangeInclusive<Duration>,
    /// How long a call may wait at the gate; one that would wait longer fails at once. Default 30 s.
    pub max_queue_wait: Duration,
    /// What retries may be made. Default: 10 % of successes, and 10 in every 10 s.
    pub budget: Budget,
    /// What is repeated that is not idempotent. Default [`Repeat::On429Only`].
    pub non_idempotent: Repeat,
    /// Default [`Generate::Off`].
    pub idempotency_keys: Generate,
    /// Default [`Pace::GateAtZero`].
    pub pace: Pace,
    /// A limit of our own for every key, whatever servers say. No log, no queue, no calendar. Default none.
    pub own_limit: Option<Limit>,
    /// Calls of a key whose answer has not begun. Default none.
    pub max_in_flight: Option<u32>,
}

impl Settings {
    /// The defaults.
    pub const DEFAULT: Self = Self {
        max_attempts: 3,
        transient: Backoff::full_jitter(Duration::from_millis(100), Duration::from_secs(20)),
        quota: Backoff::equal_jitter(Duration::from_secs(1), Duration::from_secs(60)),
        max_hint: Duration::from_secs(120),
        hint_jitter: Percent(10),
        hint_jitter_bounds: Duration::from_millis(250)..=Duration::from_secs(5),
        max_queue_wait: Duration::from_secs(30),
        budget: Budget::share(Percent(10)),
        non_idempotent: Repeat::On429Only,
        idempotency_keys: Generate::Off,
        pace: Pace::GateAtZero,
        own_limit: None,
        max_in_flight: None,
    };

    /// The most that is added to a hint, so that not everybody comes at the moment that all were told.
    pub(crate) fn most_jitter(&self, hint: Duration) -> Duration {
        let share = hint.saturating_mul(self.hint_jitter.0) / 100;
        share.clamp(*self.hint_jitter_bounds.start(), *self.hint_jitter_bounds.end())
    }

    /// Says what is wrong with the numbers, if anything is.
    ///
    /// # Errors
    /// [`SettingsError`] names the first setting that cannot be.
    pub fn check(&self) -> Result<(), SettingsError> {
        let own_is_odd = self.own_limit.is_some_and(|limit| {
            limit.is_queue()
                || limit.kind() == Algorithm::SlidingWindowLog
                || matches!(limit.alignment(), ratekeeper_core::Align::Calendar(_))
        });
        let wrong = match () {
            () if self.max_attempts == 0 => "max_attempts is 0: nothing would ever be sent",
            () if !self.transient.is_usable() => "transient: the base is 0 or above the cap",
            () if !self.quota.is_usable() => "quota: the base is 0 or above the cap",
            () if self.hint_jitter_bounds.is_empty() => "hint_jitter: the least is above the most",
            () if !self.budget.is_usable() => "budget: the span of the reserve is 0",
            () if own_is_odd => "own_limit: a log, a queue or a calendar window",
            () if self.max_in_flight == Some(0) => "max_in_flight is 0: nothing would ever be sent",
            () => return Ok(()),
        };
        Err(SettingsError(wrong))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A setting that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SettingsError(&'static str);

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for SettingsError {}
