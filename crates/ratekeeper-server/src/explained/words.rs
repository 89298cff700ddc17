//! The arithmetic of a limit in words.

use jiff::tz::TimeZone;

use super::{Limit, Now, State};
use crate::human::{clock, duration, exact, thousandths};

/// How a limit reckons. `zone` is where the readers are.
pub(crate) fn arithmetic(limit: &Limit, now: &Now, zone: &TimeZone) -> String {
    let Limit { capacity, .. } = limit;
    let time = |ms: u64| told(ms, now.at_ms, zone);
    match &now.state {
        None => "no place in the store".to_owned(),
        Some(State::Level { level_thousandths: level }) => {
            let text = format!("level {} of {capacity}", thousandths(*level));
            let wanted = level.saturating_add(now.cost.saturating_mul(1_000));
            let much = wanted.saturating_sub(capacity.saturating_mul(1_000));
            match now.retry_after_ms {
                Some(wait) if !now.allowed => {
                    let (cost, much) = (now.cost, thousandths(much));
                    format!("{text}, cost {cost} \u{2192} {much} too much \u{2192} {}", exact(wait))
                }
                _ => text,
            }
        }
        Some(State::Line { waiting, start_after_ms }) => {
            let most = capacity.saturating_sub(1);
            let start = if *start_after_ms == 0 {
                "start at once".to_owned()
            } else {
                format!("start in {}", exact(*start_after_ms))
            };
            format!("{waiting} of {most} waiting, {start}")
        }
        Some(State::Window { count, ends_after_ms }) => {
            format!("count {count} of {capacity} in the window that ends in {}", exact(*ends_after_ms))
        }
        Some(State::Fading { previous, share_thousandths, current }) => {
            let share = thousandths(share_thousandths.saturating_mul(100));
            let used = now.used;
            format!("previous {previous} \u{d7} {share} % + current {current} = {used} of {capacity}")
        }
        Some(State::Log { used, oldest_ms, newest_ms }) => {
            let times = match (oldest_ms, newest_ms) {
                (Some(oldest), Some(newest)) if oldest != newest => {
                    format!(": {} \u{2026} {}", time(*oldest), time(*newest))
                }
                (Some(_), Some(newest)) => format!(": {}", time(*newest)),
                (_, Some(newest)) => format!(": the newest {}", time(*newest)),
                _ => format!(" of {capacity}"),
            };
            format!("{used} used{times}")
        }
    }
}

/// What a limit says, and when it will say something else.
pub(crate) fn verdict(limit: &Limit, now: &Now, zone: &TimeZone) -> String {
    if now.allowed {
        let start = match now.delay_ms {
            0 => String::new(),
            delay => format!(", start in {}", exact(delay)),
        };
        return format!("ALLOWED now: {} of {} left{start}", now.remaining, limit.capacity);
    }
    let Some(wait) = now.retry_after_ms else {
        return format!(
            "DENIED: it never holds more than {}, so a cost of {} can never pass",
            limit.capacity, now.cost
        );
    };
    let again = format!("again in {}", duration(wait));
    let again_at = now.retry_at_ms.unwrap_or(now.at_ms);
    let at = told(again_at, now.at_ms, zone);
    match &now.state {
        None => format!("DENIED now: {again}"),
        Some(State::Level { .. }) => format!("DENIED now: enough has drained at {at}, so {again}"),
        Some(State::Line { .. }) => format!("DENIED now: a place is free at {at}, so {again}"),
        Some(State::Window { .. }) => format!("DENIED now: the window ends at {at}, so {again}"),
        Some(State::Fading { .. }) => format!("DENIED now: enough has faded at {at}, so {again}"),
        Some(State::Log { oldest_ms: Some(oldest), .. })
            if oldest.saturating_add(limit.window_ms) == again_at =>
        {
            format!("DENIED now: the oldest leaves at {at}, so {again}")
        }
        Some(State::Log { .. }) => format!("DENIED now: enough has left at {at}, so {again}"),
    }
}

fn told(ms: u64, at_ms: u64, zone: &TimeZone) -> String {
    clock(ms, at_ms, zone).unwrap_or_else(|| format!("{ms} ms"))
}

#[cfg(test)]
mod tests;
