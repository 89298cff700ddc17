//! Days, weeks and months of a time zone, written out as instants.

use jiff::civil::{Date, Weekday};
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, ToSpan};

/// A period of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    /// From midnight to midnight.
    Day,
    /// From Monday to Monday.
    Week,
    /// From the first to the first.
    Month,
}

/// The instants at which periods begin, from the one around `from_us` to two beyond that around `to_us`.
///
/// A period begins at the first instant whose local date lies in it, also where midnight does not exist.
///
/// # Panics
/// If the zone is unknown or the instants lie outside the years 1 to 9999.
#[must_use]
pub fn period_starts(period: Period, zone: &str, from_us: u64, to_us: u64) -> Vec<u64> {
    let zone = TimeZone::get(zone).expect("a zone of the database");
    let date_at = |us: u64| {
        let instant = Timestamp::from_microsecond(i64::try_from(us).expect("an instant")).expect("a date");
        zone.to_datetime(instant).date()
    };
    let last = date_at(to_us);
    // One earlier than needed: a clock may step back to before the first instant that is asked about.
    let mut date = before(period, first_day(period, date_at(from_us)));
    let mut starts = Vec::new();
    let mut beyond = 0;
    while beyond < 3 {
        let start = first_instant(&zone, date).as_microsecond();
        // Before the epoch there is no time: what began there begins with it.
        let start = u64::try_from(start).unwrap_or(0);
        if starts.last() != Some(&start) {
            starts.push(start);
        }
        beyond += u32::from(date > last);
        date = after(period, date);
    }
    starts
}

/// The first instant whose local date is `date` or later. Between two changes of the clock local time runs
/// straight on, so each such stretch is looked at by itself: midnight may be missing, or come twice.
fn first_instant(zone: &TimeZone, date: Date) -> Timestamp {
    let in_utc = Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)).expect("a midnight");
    let mut begin = in_utc - 48.hours();
    loop {
        let end = zone.following(begin).next().map_or(Timestamp::MAX, |change| change.timestamp());
        let midnight = zone.to_offset(begin).to_timestamp(date.at(0, 0, 0, 0)).expect("a midnight");
        if midnight < end {
            return begin.max(midnight);
        }
        begin = end;
    }
}

fn first_day(period: Period, date: Date) -> Date {
    match period {
        Period::Day => date,
        Period::Week => {
            let days = date.weekday().since(Weekday::Monday);
            date - i64::from(days).days()
        }
        Period::Month => date.first_of_month(),
    }
}

fn after(period: Period, date: Date) -> Date {
    match period {
        Period::Day => date + 1.day(),
        Period::Week => date + 1.week(),
        Period::Month => date + 1.month(),
    }
}

fn before(period: Period, date: Date) -> Date {
    match period {
        Period::Day => date - 1.day(),
        Period::Week => date - 1.week(),
        Period::Month => date - 1.month(),
    }
}
