//! Calendars of time zones: the only file that knows them.
//!
//! The zone data is in the binary; the machine's own zone files and `TZ` play no part, so every machine
//! gives the same answers.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use jiff::ToSpan as _;
use jiff::civil::Date;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};
use ratekeeper_core::{Calendar, Micros, Period, Window};

use crate::hints;

/// The days, weeks (from Monday) or months of a time zone.
///
/// A period begins at the first instant whose local date lies in it: a day whose midnight does not exist
/// begins when the clocks have been set forward, and one whose midnight comes twice at the first of them.
/// Good for all instants up to [`Micros::MAX`]; periods are cut at both ends of that range.
///
/// ```
/// use ratekeeper_core::{Calendar, Micros, Period};
/// use ratekeeper_policy::ZoneCalendar;
/// let paris = ZoneCalendar::new("Europe/Paris", Period::Day).expect("a zone");
/// let day = paris.window(Micros::new(1_774_738_800_000_000)); // 2026-03-29, when summer time begins
/// assert_eq!(day.end.get() - day.start.get(), 23 * 3_600_000_000);
/// ```
pub struct ZoneCalendar {
    zone: TimeZone,
    period: Period,
    /// The period of the last answer: first second << 22 | length in seconds. One word, so it is read and
    /// written without a lock; 0 contains no instant. Zone offsets are whole seconds, and so are periods.
    last: AtomicU64,
}

/// Bits for the length of a period in seconds: 48 days, more than any month.
const LENGTH_BITS: u32 = 22;

impl ZoneCalendar {
    /// The calendar of an IANA zone such as `Europe/Paris`, spelt as IANA spells it.
    ///
    /// # Errors
    /// If there is no such zone.
    pub fn new(zone: &str, period: Period) -> Result<Self, UnknownZone> {
        let database = TimeZoneDatabase::bundled();
        let unknown = || UnknownZone { nearest: nearest_zone(&database, zone) };
        let found = database.get(zone).map_err(|_| unknown())?;
        // The database does not mind the case, but everybody who compares names of zones does.
        if found.iana_name() != Some(zone) {
            return Err(unknown());
        }
        Ok(Self { zone: found, period, last: AtomicU64::new(0) })
    }

    /// The name of the zone.
    #[must_use]
    pub fn zone(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// The period that this calendar cuts time into.
    #[must_use]
    pub const fn period(&self) -> Period {
        self.period
    }

    /// The period around `now` in seconds, `[start, end)`.
    fn around(&self, now: i64) -> Option<(i64, i64)> {
        let instant = Timestamp::from_second(now).ok()?;
        let mut first = self.first_date(self.zone.to_datetime(instant).date())?;
        let mut start = self.begin(first)?;
        // Clocks that are set back over midnight show the old date again, but the new period has begun.
        // Never more than one step: the loop is bounded by the dates running out.
        loop {
            first = self.next_first_date(first)?;
            let end = self.begin(first)?;
            if now < end {
                return Some((start, end));
            }
            start = end;
        }
    }

    /// The first date of the period that contains a date.
    fn first_date(&self, date: Date) -> Option<Date> {
        match self.period {
            Period::Day => Some(date),
            Period::Week => date.checked_sub(i64::from(date.weekday().to_monday_zero_offset()).days()).ok(),
            Period::Month => Some(date.first_of_month()),
        }
    }

    /// The first date of the period after the one that begins at `first`.
    fn next_first_date(&self, first: Date) -> Option<Date> {
        let length = match self.period {
            Period::Day => 1.day(),
            Period::Week => 1.week(),
            Period::Month => 1.month(),
        };
        first.checked_add(length).ok()
    }

    /// The first instant, in seconds, whose local date is `date` or a later one.
    fn begin(&self, date: Date) -> Option<i64> {
        let midnight = date.at(0, 0, 0, 0);
        let at = |offset: Offset| offset.to_timestamp(midnight).ok();
        let instant = match self.zone.to_ambiguous_timestamp(midnight).offset() {
            AmbiguousOffset::Unambiguous { offset } => at(offset)?,
            // Midnight comes twice: the first one has the offset from before.
            AmbiguousOffset::Fold { before, .. } => at(before)?,
            // Midnight is left out: the date, or the next one that exists, begins with the leap itself. Read
            // with the offset from after, midnight lies before the leap by less than its length.
            AmbiguousOffset::Gap { after, .. } => {
                self.zone.following(at(after)?).find(|leap| leap.offset() == after)?.timestamp()
            }
        };
        Some(instant.as_second())
    }
}

impl Calendar for ZoneCalendar {
    fn window(&self, now: Micros) -> Window {
        let second = now.get() / 1_000_000;
        let (start, length) = unpack(self.last.load(Ordering::Relaxed));
        if start <= second && second < start + length {
            return window(start, start + length);
        }
        let whole = i64::try_from(second).ok().and_then(|second| self.around(second));
        let (start, end) = match whole {
            // What began before the epoch is cut at it.
            Some((start, end)) => (u64::try_from(start).unwrap_or(0), u64::try_from(end).unwrap_or(0)),
            // No instant that `Micros` can hold comes here; if one did, its own period would be the best
            // answer left.
            None => (second, second + 1),
        };
        self.last.store(pack(start, end - start), Ordering::Relaxed);
        window(start, end)
    }
}

const fn pack(start: u64, length: u64) -> u64 {
    start << LENGTH_BITS | length
}

const fn unpack(word: u64) -> (u64, u64) {
    (word >> LENGTH_BITS, word & ((1 << LENGTH_BITS) - 1))
}

const fn window(start: u64, end: u64) -> Window {
    Window { start: Micros::new(start * 1_000_000), end: Micros::new(end * 1_000_000) }
}

impl fmt::Debug for ZoneCalendar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ZoneCalendar({}, {:?})", self.zone(), self.period)
    }
}

/// A name that is no IANA time zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownZone {
    nearest: Option<String>,
}

impl UnknownZone {
    /// The zone whose name is nearest to what was given, if one is near.
    #[must_use]
    pub fn nearest(&self) -> Option<&str> {
        self.nearest.as_deref()
    }
}

impl fmt::Display for UnknownZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a time zone of the IANA database")
    }
}

impl core::error::Error for UnknownZone {}

/// A zone by its name in another case or its city alone (`Paris`), else by the nearest spelling.
fn nearest_zone(database: &TimeZoneDatabase, typed: &str) -> Option<String> {
    let names: Vec<_> = database.available().collect();
    let names = || names.iter().map(|name| name.as_str());
    let wanted = typed.replace(' ', "_");
    let same = names().find(|name| name.eq_ignore_ascii_case(&wanted));
    let city = || {
        let city =
            |name: &str| name.rsplit_once('/').is_some_and(|(_, city)| city.eq_ignore_ascii_case(&wanted));
        names().find(|name| city(name))
    };
    same.or_else(city).or_else(|| hints::nearest(typed, names())).map(str::to_owned)
}

#[cfg(test)]
mod tests;
