//! Times as people read them.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ratekeeper_core::Micros;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// `300 ms`, `3 s`, `3 min 34 s`, `1 h 5 min`, `2 d 3 h`: two units at most, rounded up, so that nobody comes
/// back too early.
pub(crate) fn duration(ms: u64) -> String {
    if ms < 1_000 {
        return format!("{ms} ms");
    }
    let seconds = ms.div_ceil(1_000);
    // What rounds up to the next unit is said in it.
    let minutes = seconds.div_ceil(MINUTE);
    if seconds < MINUTE {
        format!("{seconds} s")
    } else if seconds < HOUR {
        two(seconds, MINUTE, "min", "s")
    } else if minutes < DAY / MINUTE {
        two(minutes, HOUR / MINUTE, "h", "min")
    } else {
        two(seconds.div_ceil(HOUR), DAY / HOUR, "d", "h")
    }
}

/// So many small units, of which `per` make a large one.
fn two(n: u64, per: u64, large: &str, small: &str) -> String {
    match n % per {
        0 => format!("{} {large}", n / per),
        rest => format!("{} {large} {rest} {small}", n / per),
    }
}

/// `12 ns`, `250 µs`, `31 ms`: in the unit that leaves two to five digits, rounded up.
pub(crate) fn nanos(ns: u64) -> String {
    const TOO_LONG: u64 = 10_000;
    match ns {
        0..TOO_LONG => format!("{ns} ns"),
        _ if ns < TOO_LONG * 1_000 => format!("{} µs", ns.div_ceil(1_000)),
        _ => format!("{} ms", ns.div_ceil(1_000_000)),
    }
}

/// `12.3 s`, `60 ms`: as [`duration`], but to the millisecond below a minute.
pub(crate) fn exact(ms: u64) -> String {
    match ms {
        1_000..60_000 => format!("{} s", thousandths(ms)),
        _ => duration(ms),
    }
}

/// A number given in thousandths, without noughts at its end: `19.6`, `20`.
pub(crate) fn thousandths(n: u64) -> String {
    let (whole, rest) = (n / 1_000, n % 1_000);
    match rest {
        0 => whole.to_string(),
        rest => format!("{whole}.{}", format!("{rest:03}").trim_end_matches('0')),
    }
}

/// The time of day at so many milliseconds since the epoch, where `zone` is: `12:57:42.120`; with its date if that is
/// not the date of `today_ms`. None if no calendar goes so far.
pub(crate) fn clock(ms: u64, today_ms: u64, zone: &TimeZone) -> Option<String> {
    let zoned = |ms: u64| {
        let moment = Timestamp::from_millisecond(i64::try_from(ms).ok()?).ok()?;
        Some(moment.to_zoned_datetime(zone.clone()))
    };
    let (then, today) = (zoned(ms)?, zoned(today_ms)?);
    let format = if then.date() == today.date() { "%H:%M:%S%.3f" } else { "%Y-%m-%d %H:%M:%S%.3f" };
    Some(then.strftime(format).to_string())
}

/// The time of day when a wait from `now` is over, where `zone` is: `13:07:42`, rounded up to the second; with
/// its date if that is another one. None if no calendar goes so far.
pub(crate) fn time_of_day(now: Micros, wait_ms: u64, zone: &TimeZone) -> Option<String> {
    let zoned = |us: u64| {
        let seconds = i64::try_from(us.div_ceil(1_000_000)).ok()?;
        Timestamp::from_second(seconds).ok().map(|moment| moment.to_zoned_datetime(zone.clone()))
    };
    let today = zoned(now.get())?;
    let then = zoned(now.get().checked_add(wait_ms.checked_mul(1_000)?)?)?;
    let format = if then.date() == today.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
    Some(then.strftime(format).to_string())
}

#[cfg(test)]
mod tests;
