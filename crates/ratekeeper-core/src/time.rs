//! Instants, clocks and calendars: integer microseconds, and nobody in this crate reads a real clock.

use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::Waker;
use core::time::Duration;

/// An instant: whole microseconds since the Unix epoch, as the clock that owns the state counts them.
///
/// At most [`Micros::MAX`], so that the same instants are exact as the doubles of Redis' Lua.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Micros(u64);

impl Micros {
    /// The Unix epoch.
    pub const ZERO: Self = Self(0);
    /// 2^53 − 1 µs: the year 2255. Later instants are this one.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// The instant `us` microseconds after the epoch, at most [`Micros::MAX`].
    #[must_use]
    pub const fn new(us: u64) -> Self {
        if us > Self::MAX.0 { Self::MAX } else { Self(us) }
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The instant `by` later; parts of a microsecond are dropped, and [`Micros::MAX`] is the end.
    #[must_use]
    pub const fn saturating_add(self, by: Duration) -> Self {
        Self::new(self.0.saturating_add(whole_micros(by)))
    }

    /// The instant `by` earlier, or the epoch; parts of a microsecond are dropped.
    #[must_use]
    pub const fn saturating_sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(whole_micros(by)))
    }

    /// How long it is from this instant to `later`; zero if that is past.
    #[must_use]
    pub const fn until(self, later: Self) -> Duration {
        Duration::from_micros(later.0.saturating_sub(self.0))
    }
}

impl fmt::Debug for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}us", self.0)
    }
}

/// Whole microseconds of a duration, `u64::MAX` if there are more.
pub(crate) const fn whole_micros(d: Duration) -> u64 {
    let us = d.as_micros();
    if us > u64::MAX as u128 { u64::MAX } else { us as u64 }
}

/// A source of instants. It is read under locks: it must not block, nor call the limiter that reads it.
///
/// The clock belongs to the state: a store reads its own, never a caller's.
pub trait Clock: Send + Sync {
    /// The instant now.
    fn now(&self) -> Micros;

    /// Whether a reading may be earlier than one made before it. If so, state "from the future" is cut
    /// to the fullest legal state when it is met (it heals); a clock that never steps back leaves state
    /// that is ahead of a reading alone, since another thread has simply read the clock later.
    fn may_step_back(&self) -> bool {
        true
    }

    /// Wakes `sleeper` once the hands have reached `at` or have been set back, and answers `true`; a clock that
    /// can wake nobody answers `false`, and whoever waits sets a timer for the time that is left.
    ///
    /// It wakes at least once, maybe before its time: a sleeper looks at the clock and asks again. One that asks
    /// twice is woken for the earlier of both.
    fn wake_at(&self, at: Micros, sleeper: &Waker) -> bool {
        let _ = (at, sleeper);
        false
    }
}

/// A clock that stands still until it is told to move: for tests, simulation and replay.
///
/// Clones share the same hands. It may be set back, so stores heal under it as they do on a Redis server
/// whose clock was corrected.
///
/// ```
/// use ratekeeper_core::{Clock, ManualClock, Micros};
/// use core::time::Duration;
/// let clock = ManualClock::new();
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(clock.now(), Micros::new(1_000_000));
/// clock.step_back(Duration::from_millis(1));
/// assert_eq!(clock.now(), Micros::new(999_000));
/// ```
#[derive(Clone, Default)]
pub struct ManualClock {
    hands: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock at the epoch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A clock at `instant`.
    #[must_use]
    pub fn at(instant: Micros) -> Self {
        let clock = Self::new();
        clock.set(instant);
        clock
    }

    /// Moves the hands to `instant`, forwards or backwards.
    pub fn set(&self, instant: Micros) {
        self.hands.store(instant.get(), Ordering::SeqCst);
    }

    /// Moves the hands `by` forwards, at most to [`Micros::MAX`].
    pub fn advance(&self, by: Duration) {
        self.turn(|now| now.saturating_add(by));
    }

    /// Moves the hands `by` backwards, at most to the epoch.
    pub fn step_back(&self, by: Duration) {
        self.turn(|now| now.saturating_sub(by));
    }

    fn turn(&self, to: impl Fn(Micros) -> Micros) {
        let mut now = self.hands.load(Ordering::SeqCst);
        while let Err(moved) = self.hands.compare_exchange_weak(
            now,
            to(Micros::new(now)).get(),
            Ordering::SeqCst,
            Ordering::SeqCst,
        ) {
            now = moved;
        }
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Micros {
        Micros::new(self.hands.load(Ordering::SeqCst))
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock").field(&self.now()).finish()
    }
}

/// A half-open span of time `[start, end)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// First instant that belongs to the window.
    pub start: Micros,
    /// First instant that no longer does.
    pub end: Micros,
}

/// The periods that a calendar window can follow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Period {
    /// From midnight to midnight: 23, 24 or 25 hours, and rarely something else.
    Day,
    /// From Monday to Monday.
    Week,
    /// From the first of a month to the first of the next.
    Month,
}

impl Period {
    /// The window that a limit of this period is written with: 1, 7 or 30 days, in microseconds.
    #[must_use]
    pub const fn nominal_us(self) -> u64 {
        match self {
            Self::Day => DAY_US,
            Self::Week => 7 * DAY_US,
            Self::Month => 30 * DAY_US,
        }
    }

    /// A length that no period of any zone exceeds: clocks are set back by at most a day.
    pub(crate) const fn longest_us(self) -> u64 {
        match self {
            Self::Day => 2 * DAY_US,
            Self::Week => 8 * DAY_US,
            Self::Month => 32 * DAY_US,
        }
    }

    /// A length that no period of any zone falls below: clocks are set forward by at most three hours.
    pub(crate) const fn shortest_us(self) -> u64 {
        match self {
            Self::Day => 20 * HOUR_US,
            Self::Week => 7 * DAY_US - 4 * HOUR_US,
            Self::Month => 28 * DAY_US - 4 * HOUR_US,
        }
    }
}

pub(crate) const HOUR_US: u64 = 3_600_000_000;
pub(crate) const DAY_US: u64 = 24 * HOUR_US;

/// Tells in which calendar period an instant lies: a fact about a time zone, never a caller's clock.
///
/// A period begins at the first instant whose local date lies in it. The answer must contain `now`, and
/// two answers are the same window or do not overlap. It is asked under locks: it must not block, nor call the
/// limiter that asks. A window that does not contain `now` is not used; UTC takes its place.
pub trait Calendar: Send + Sync {
    /// The period that contains `now`.
    fn window(&self, now: Micros) -> Window;
}

/// The calendar of UTC, which needs no zone data: what calendar limits follow when nobody names a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UtcCalendar(pub Period);

impl Calendar for UtcCalendar {
    fn window(&self, now: Micros) -> Window {
        let day = now.get() / DAY_US;
        let (start, end) = match self.0 {
            Period::Day => (day, day + 1),
            // 1970-01-01 was a Thursday: three days after a Monday. The first week began before the epoch.
            Period::Week => {
                let monday = (day + 3) / 7 * 7;
                (monday.saturating_sub(3), monday + 4)
            }
            Period::Month => month_of(day),
        };
        Window { start: Micros::new(start * DAY_US), end: Micros::new(end * DAY_US) }
    }
}

/// First days of the month that contains `day` and of the next one, counted from 1970-01-01.
fn month_of(day: u64) -> (u64, u64) {
    // A walk by years would be simple too, but this is asked once per decision in the worst case.
    // Days since 0000-03-01, in eras of 400 years: the Gregorian rule in integers.
    let shifted = day + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153; // 0 = March
    let start_of_year = |month: u64| (153 * month + 2) / 5;
    let first = day - (of_year - start_of_year(month));
    let leap = (year + 1).is_multiple_of(4)
        && (!(year + 1).is_multiple_of(100) || (year + 1 + era * 400).is_multiple_of(400));
    let length =
        if month == 11 { 28 + u64::from(leap) } else { start_of_year(month + 1) - start_of_year(month) };
    (first, first + length)
}

#[cfg(test)]
mod tests;
