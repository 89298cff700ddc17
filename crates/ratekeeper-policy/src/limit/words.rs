//! Numbers and rates as people write them, and core's mistakes in our words.

use ratekeeper_core::{Algorithm, LimitError, LimitSpec, MAX_AMOUNT, Rate};

use crate::fault::{Fault, code};
use crate::hints;

/// The limit that was meant by spaces, `per minute`, or a unit of another dialect.
pub(super) fn meant_rate(text: &str) -> Option<String> {
    const DIALECTS: [(&str, &str); 10] = [
        ("sec", "s"),
        ("seconds", "s"),
        ("min", "minute"),
        ("mins", "minute"),
        ("minutes", "minute"),
        ("h", "hour"),
        ("hr", "hour"),
        ("hours", "hour"),
        ("d", "day"),
        ("days", "day"),
    ];
    let (amount, unit) = text.split_once('/').or_else(|| text.split_once(" per "))?;
    let unit = unit.trim();
    let unit = DIALECTS.iter().find(|(theirs, _)| *theirs == unit).map_or(unit, |(_, ours)| ours);
    let meant = format!("{}/{unit}", amount.trim());
    Rate::parse(&meant).is_ok().then_some(meant)
}

/// The bound that a number passes in a limit where everything else is good: core knows the bounds.
pub(super) fn range_error(field: &str, number: u64) -> Option<LimitError> {
    // The fastest rate there is: no capacity takes long to refill.
    let mut spec = LimitSpec::new(Algorithm::LeakyBucket, MAX_AMOUNT, 1);
    match field {
        "burst" => spec.burst = Some(number),
        "queue" => spec.queue = Some(number),
        _ => (spec.queue, spec.max_wait_us) = (Some(0), Some(number)),
    }
    spec.build().err()
}

/// A whole number in plain digits; more than `u64` holds is `u64::MAX`, which every bound refuses.
pub(crate) fn parse_number(field: &str, text: &str) -> Result<u64, Fault> {
    let refused = |hint: Option<String>| {
        Err(Fault::new(code::BAD_NUMBER, format!("`{field}` is a whole number in plain digits"))
            .maybe_hint(hint))
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if digits(text) {
        let trimmed = text.trim_start_matches('0');
        return if trimmed.len() == text.len() || text == "0" {
            Ok(text.parse().unwrap_or(u64::MAX))
        } else {
            refused(Some(format!("write `{}`", if trimmed.is_empty() { "0" } else { trimmed })))
        };
    }
    let plain = text.replace(['_', ',', ' '], "");
    if plain.len() < text.len() && digits(&plain) {
        return refused(Some(format!("write `{}`", hints::shown(&plain))));
    }
    match text.strip_prefix('+') {
        Some(rest) if digits(rest) => refused(Some(format!("write `{}`", hints::shown(rest)))),
        _ => refused(Some(String::from("digits only, for example `20`"))),
    }
}

/// Core's words for a mistake, with a code and a remedy.
pub(crate) fn limit_fault(error: LimitError) -> Fault {
    use LimitError as E;
    let code = match error {
        E::BurstNotTaken | E::QueueNotTaken | E::AlignNotTaken => code::OPTION_NOT_TAKEN,
        E::QueueWithBurst => code::OPTIONS_EXCLUDE,
        E::MaxWaitWithoutQueue => code::OPTION_NEEDS,
        E::CalendarWindow => code::CALENDAR_WINDOW,
        E::NotALimit | E::NotANumber | E::UnknownUnit | E::AmbiguousUnit | E::Spaces => code::BAD_LIMIT,
        E::NotADuration => code::BAD_DURATION,
        _ => code::OUT_OF_RANGE,
    };
    let hint = error.hint().or(match error {
        E::BurstNotTaken => Some("leave it out, or use `token-bucket`"),
        E::QueueNotTaken => Some("leave it out, or use `leaky-bucket`"),
        E::AlignNotTaken => Some("leave it out, or use `fixed-window`"),
        E::CalendarWindow => Some("other windows take `align: epoch` or `first-request`"),
        E::BurstOutOfRange => Some("leave it out for a burst of one window's worth"),
        E::RefillTooLong => Some("take a smaller capacity, or a higher rate"),
        E::AmountTooLarge => Some("count in larger units: thousands of them as one"),
        E::QueueTooLarge => Some("a queue that long is never worked off"),
        E::WindowTooLong | E::MaxWaitTooLong => Some("at most `366d`"),
        E::WindowZero => Some("for example `10 per 1s`"),
        _ => None,
    });
    Fault::new(code, error.message()).maybe_hint(hint.map(str::to_owned))
}

/// That a window is shorter than its store can count.
pub(crate) fn window_fault(window_us: u64, min_window_us: u64) -> Option<Fault> {
    (window_us < min_window_us).then(|| {
        let fault = Fault::new(code::OUT_OF_RANGE, "a window on a Redis store is at least 1 ms");
        fault.hint("for example `10 per 1ms`; a `memory` store counts shorter ones")
    })
}

/// The bound that [`window_fault`] names in words.
const _: () = assert!(ratekeeper_core::MIN_SHARED_WINDOW.as_millis() == 1);
/// The bound that [`limit_fault`] names in words.
const _: () = assert!(MAX_AMOUNT == 1_000_000_000);
