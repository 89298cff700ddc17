//! Dates as servers write them, in time since the Unix epoch. Whatever is none of these forms is no date.

use std::time::{Duration, UNIX_EPOCH};

use crate::numbers::{decimal, digits, seconds};

const DAY_S: u64 = 86_400;

/// One of the three forms of an HTTP date. What some servers write for `GMT` is taken for it.
pub(crate) fn http_date(text: &str) -> Option<Duration> {
    let text = text.trim_matches([' ', '\t']);
    let other_zone = ["UTC", "+0000"].iter().find_map(|zone| text.strip_suffix(zone));
    let date = match other_zone {
        Some(start) => httpdate::parse_http_date(&format!("{start}GMT")),
        None => httpdate::parse_http_date(text),
    };
    // Before the epoch is as past as the epoch.
    date.ok().map(|date| date.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// RFC 3339, with or without seconds: `2026-01-15T12:00:03Z`, `2026-01-15T12:00Z`.
pub(crate) fn rfc3339(text: &str) -> Option<Duration> {
    let (date, time) = text.split_once(['T', 't', ' '])?;
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || (year.len(), month.len(), day.len()) != (4, 2, 2) {
        return None;
    }
    let zone = time.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = time.split_at(zone);
    moment(days(digits(year)?, digits(month)?, digits(day)?)?, time, zone)
}

/// What JavaScript's dates print: `Thu Jan 15 2026 13:00:02 GMT+0100 (Central European Standard Time)`.
pub(crate) fn javascript(text: &str) -> Option<Duration> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut words = text.split(' ').skip(1);
    let (month, day, year) = (words.next()?, words.next()?, words.next()?);
    let (time, zone) = (words.next()?, words.next()?.strip_prefix("GMT")?);
    let month = MONTHS.iter().position(|known| *known == month)? + 1;
    moment(days(digits(year)?, u64::try_from(month).ok()?, digits(day)?)?, time, zone)
}

/// Days since the epoch of a date from 1970 to 9999.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return None,
    };
    if !(1970..=9999).contains(&year) || day == 0 || day > length {
        return None;
    }
    // Years that begin in March have their leap day at the end.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let of_year = (153 * m + 2) / 5 + day - 1;
    // 719,468 days from 1 March of the year 0 to the epoch.
    (365 * y + y / 4 - y / 100 + y / 400 + of_year).checked_sub(719_468)
}

/// `12:00:03.25` and a zone on a day. A leap second counts as the next one.
fn moment(day: u64, time: &str, zone: &str) -> Option<Duration> {
    let mut parts = time.split(':');
    let (hour, minute) = (two_digits(parts.next()?)?, two_digits(parts.next()?)?);
    let second = match parts.next() {
        None => Duration::ZERO,
        Some(second) => seconds(decimal(second)?)?,
    };
    if parts.next().is_some() || hour > 23 || minute > 59 || second >= Duration::from_secs(61) {
        return None;
    }
    let at = Duration::from_secs(day * DAY_S + hour * 3_600 + minute * 60) + second;
    let (sign, offset) = match zone.split_at_checked(1)? {
        ("Z" | "z", "") => return Some(at),
        (sign @ ("+" | "-"), offset) => (sign, offset),
        _ => return None,
    };
    let (hours, minutes) = match offset.split_once(':') {
        Some(parts) => parts,
        None => offset.split_at_checked(2)?,
    };
    let (hours, minutes) = (two_digits(hours)?, two_digits(minutes)?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    let offset = Duration::from_secs(hours * 3_600 + minutes * 60);
    Some(if sign == "+" { at.saturating_sub(offset) } else { at + offset })
}

fn two_digits(text: &str) -> Option<u64> {
    if text.len() == 2 { digits(text) } else { None }
}
