//! One limit from its words, as a file or a command line writes them: all its mistakes at once.

mod words;

use std::collections::HashMap;
use std::sync::Arc;

use ratekeeper_core::{Algorithm, Align, Limit, LimitError, LimitSpec, Period, Rate, parse_duration};

use crate::calendar::ZoneCalendar;
use crate::fault::{Fault, code};
use crate::hints;

pub(crate) use self::words::{limit_fault, parse_number, window_fault};
use self::words::{meant_rate, range_error};

/// An option of a limit as it was found.
#[derive(Clone, Copy, Default)]
pub(crate) enum Given<'a> {
    #[default]
    Absent,
    /// It is there, but not as text or number; that has been said already.
    Unusable,
    Text(&'a str),
}

impl<'a> Given<'a> {
    const fn is_absent(self) -> bool {
        matches!(self, Self::Absent)
    }

    const fn text(self) -> Option<&'a str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

/// The options of a limit, by their names in the configuration.
#[derive(Clone, Copy, Default)]
pub(crate) struct LimitWords<'a> {
    pub(crate) algorithm: Given<'a>,
    pub(crate) limit: Given<'a>,
    pub(crate) burst: Given<'a>,
    pub(crate) queue: Given<'a>,
    pub(crate) max_wait: Given<'a>,
    pub(crate) align: Given<'a>,
    pub(crate) timezone: Given<'a>,
}

/// What of an option is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum At {
    /// It should be there.
    Missing,
    /// It should not be there.
    Name,
    Value,
}

/// A mistake in the option `field`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LimitFault {
    pub(crate) field: &'static str,
    pub(crate) at: At,
    pub(crate) fault: Fault,
}

/// A limit that can be decided.
#[derive(Clone)]
pub(crate) struct BuiltLimit {
    pub(crate) limit: Limit,
    pub(crate) calendar: Option<Arc<ZoneCalendar>>,
}

/// The calendars of one configuration: limits of the same zone share one, and its remembered period.
#[derive(Default)]
pub(crate) struct Zones {
    made: HashMap<(String, Period), Result<Arc<ZoneCalendar>, Fault>>,
}

impl Zones {
    fn calendar(&mut self, zone: &str, period: Period) -> Result<Arc<ZoneCalendar>, Fault> {
        let made = self.made.entry((zone.to_owned(), period)).or_insert_with(|| new_calendar(zone, period));
        made.clone()
    }
}

fn new_calendar(zone: &str, period: Period) -> Result<Arc<ZoneCalendar>, Fault> {
    if zone.is_empty() {
        return Err(Fault::new(code::EMPTY, "`timezone` is empty").hint(ZONE_EXAMPLE));
    }
    ZoneCalendar::new(zone, period).map(Arc::new).map_err(|unknown| {
        let message = format!("unknown time zone `{}`", hints::shown(zone));
        Fault::new(code::UNKNOWN_ZONE, message).hint(match unknown.nearest() {
            Some(name) => format!("did you mean `{name}`?"),
            None => String::from("a name of the IANA database, for example `Europe/Paris` or `UTC`"),
        })
    })
}

const ZONE_EXAMPLE: &str = "for example `timezone: Europe/Paris`";
pub(crate) const ALIGNMENTS: [&str; 3] = ["epoch", "first-request", "calendar"];

impl LimitWords<'_> {
    /// Whether nothing in it is unusable.
    pub(crate) fn is_whole(&self) -> bool {
        let all =
            [self.algorithm, self.limit, self.burst, self.queue, self.max_wait, self.align, self.timezone];
        all.iter().all(|given| !matches!(given, Given::Unusable))
    }

    /// The limit, or every mistake in it.
    pub(crate) fn build(&self, zones: &mut Zones) -> Result<BuiltLimit, Vec<LimitFault>> {
        let mut faults = Faults(Vec::new());
        let algorithm = self.read_algorithm(&mut faults);
        let rate = self.read_rate(&mut faults);
        let burst = faults.number("burst", self.burst);
        let queue = faults.number("queue", self.queue);
        let max_wait_us = self.read_max_wait(&mut faults);
        if let Some(algorithm) = algorithm {
            self.check_options(algorithm, &mut faults);
        }
        faults.check_range("burst", burst, algorithm.is_none_or(Algorithm::takes_burst));
        faults.check_range("queue", queue, takes_queue(algorithm));
        faults.check_range("max_wait", max_wait_us, takes_queue(algorithm));
        if !self.queue.is_absent() && !self.burst.is_absent() && takes_queue(algorithm) {
            faults.limit(LimitError::QueueWithBurst, At::Name);
        }
        if !self.max_wait.is_absent() && self.queue.is_absent() && takes_queue(algorithm) {
            faults.limit(LimitError::MaxWaitWithoutQueue, At::Name);
        }
        let (align, calendar) = self.read_align(algorithm, rate, zones, &mut faults);
        // The bounds that several numbers have together are core's affair. What has been refused above is left
        // out of the question, so that no mistake is told twice.
        let (Some(algorithm), Some(rate)) = (algorithm, rate) else { return Err(faults.0) };
        let mut spec = LimitSpec::new(algorithm, rate.amount, rate.window_us);
        spec.burst = burst.filter(|_| faults.none_at("burst") && faults.none_at("queue"));
        spec.queue = queue.filter(|_| faults.none_at("burst") && faults.none_at("queue"));
        spec.max_wait_us = max_wait_us.filter(|_| spec.queue.is_some() && faults.none_at("max_wait"));
        spec.align = align;
        match spec.build() {
            Ok(limit) if faults.0.is_empty() => return Ok(BuiltLimit { limit, calendar }),
            Ok(_) => {}
            // The capacity is what can be too large for the rate; without one it is a window, which fits.
            Err(error @ LimitError::RefillTooLong) => {
                let field = if spec.queue.is_some() { "queue" } else { "burst" };
                faults.add(field, At::Value, limit_fault(error));
            }
            Err(error) => faults.limit(error, At::Value),
        }
        Err(faults.0)
    }

    fn read_algorithm(&self, faults: &mut Faults) -> Option<Algorithm> {
        let names = || Algorithm::ALL.iter().map(|algorithm| algorithm.name());
        match self.algorithm {
            Given::Absent => {
                let missing = Fault::new(code::MISSING_FIELD, "`algorithm` is missing");
                faults.add("algorithm", At::Missing, missing.hint(hints::one_of(names())));
                None
            }
            Given::Unusable => None,
            Given::Text(text) => text.parse().map_or_else(
                |_| {
                    let message = format!("unknown algorithm `{}`", hints::shown(text));
                    let fault = Fault::new(code::UNKNOWN_WORD, message);
                    faults.add("algorithm", At::Value, fault.hint(hints::did_you_mean(text, names())));
                    None
                },
                Some,
            ),
        }
    }

    fn read_rate(&self, faults: &mut Faults) -> Option<Rate> {
        if self.limit.is_absent() {
            let missing = Fault::new(code::MISSING_FIELD, "`limit` is missing");
            let hint = "for example `limit: 10/s`; absent is never unlimited";
            faults.add("limit", At::Missing, missing.hint(hint));
        }
        let text = self.limit.text()?;
        match Rate::parse(text) {
            Ok(rate) => Some(rate),
            Err(error) => {
                let mut fault = limit_fault(error);
                if let Some(meant) = meant_rate(text) {
                    fault.hint = Some(format!("write `{}`", hints::shown(&meant)));
                }
                faults.add("limit", At::Value, fault);
                None
            }
        }
    }

    fn read_max_wait(&self, faults: &mut Faults) -> Option<u64> {
        let text = self.max_wait.text()?;
        // Zero is refused for what it means, not for its missing unit.
        let read = if text == "0" { Err(LimitError::MaxWaitZero) } else { parse_duration(text) };
        match read {
            Ok(us) => Some(us),
            Err(error) => {
                faults.add("max_wait", At::Value, limit_fault(error));
                None
            }
        }
    }

    fn check_options(&self, algorithm: Algorithm, faults: &mut Faults) {
        if !self.burst.is_absent() && !algorithm.takes_burst() {
            faults.limit(LimitError::BurstNotTaken, At::Name);
        }
        if !takes_queue(Some(algorithm)) {
            if !self.queue.is_absent() {
                faults.limit(LimitError::QueueNotTaken, At::Name);
            }
            if !self.max_wait.is_absent() {
                let fault = Fault::new(code::OPTION_NOT_TAKEN, "`max_wait` belongs to leaky-bucket");
                faults.add("max_wait", At::Name, fault.hint("leave it out, or use `leaky-bucket`"));
            }
        }
        if !self.align.is_absent() && algorithm != Algorithm::FixedWindow {
            faults.limit(LimitError::AlignNotTaken, At::Name);
        }
    }

    fn read_align(
        &self,
        algorithm: Option<Algorithm>,
        rate: Option<Rate>,
        zones: &mut Zones,
        faults: &mut Faults,
    ) -> (Align, Option<Arc<ZoneCalendar>>) {
        let align = match self.align {
            Given::Absent | Given::Text("epoch") => Align::Epoch,
            Given::Text("first-request") => Align::FirstRequest,
            Given::Text("calendar") => return self.read_calendar(rate, zones, faults),
            // It may be meant to be `calendar`.
            Given::Unusable => {
                self.read_zone(rate, zones, faults);
                return (Align::Epoch, None);
            }
            Given::Text(text) => {
                let fault =
                    Fault::new(code::UNKNOWN_WORD, format!("unknown alignment `{}`", hints::shown(text)));
                faults.add("align", At::Value, fault.hint(hints::did_you_mean(text, ALIGNMENTS)));
                self.read_zone(rate, zones, faults);
                return (Align::Epoch, None);
            }
        };
        self.read_zone(rate, zones, faults);
        if !self.timezone.is_absent() {
            let fault = Fault::new(code::OPTION_NEEDS, "`timezone` needs `align: calendar`");
            let fixed = algorithm.is_none_or(|algorithm| algorithm == Algorithm::FixedWindow);
            let hint = if fixed { "add `align: calendar`, or leave it out" } else { "leave it out" };
            faults.add("timezone", At::Name, fault.hint(hint));
        }
        // An alignment that the algorithm does not take has been refused by name.
        let taken = algorithm.is_none_or(|algorithm| algorithm == Algorithm::FixedWindow);
        (if taken { align } else { Align::Epoch }, None)
    }

    /// The calendar of `align: calendar`; [`Align::Epoch`] if it cannot be one.
    fn read_calendar(
        &self,
        rate: Option<Rate>,
        zones: &mut Zones,
        faults: &mut Faults,
    ) -> (Align, Option<Arc<ZoneCalendar>>) {
        let period = rate.and_then(|rate| rate.period);
        if rate.is_some() && period.is_none() {
            faults.limit(LimitError::CalendarWindow, At::Value);
        }
        if self.timezone.is_absent() {
            let missing = Fault::new(code::OPTION_NEEDS, "`align: calendar` needs a `timezone`");
            faults.add("align", At::Value, missing.hint(ZONE_EXAMPLE));
        }
        match self.read_zone(rate, zones, faults) {
            Some(calendar) if faults.none_at("align") => {
                (period.map_or(Align::Epoch, Align::Calendar), period.map(|_| calendar))
            }
            _ => (Align::Epoch, None),
        }
    }

    /// The calendar of the zone, if one is named. A wrong zone is said whatever stands beside it.
    fn read_zone(
        &self,
        rate: Option<Rate>,
        zones: &mut Zones,
        faults: &mut Faults,
    ) -> Option<Arc<ZoneCalendar>> {
        let period = rate.and_then(|rate| rate.period).unwrap_or(Period::Day);
        match zones.calendar(self.timezone.text()?, period) {
            Ok(calendar) => Some(calendar),
            Err(fault) => {
                faults.add("timezone", At::Value, fault);
                None
            }
        }
    }
}

/// An unknown algorithm may be meant to be one that takes a queue.
fn takes_queue(algorithm: Option<Algorithm>) -> bool {
    algorithm.is_none_or(|algorithm| algorithm == Algorithm::LeakyBucket)
}

struct Faults(Vec<LimitFault>);

impl Faults {
    fn add(&mut self, field: &'static str, at: At, fault: Fault) {
        self.0.push(LimitFault { field, at, fault });
    }

    fn limit(&mut self, error: LimitError, at: At) {
        self.add(error.field(), at, limit_fault(error));
    }

    fn none_at(&self, field: &str) -> bool {
        self.0.iter().all(|fault| fault.field != field)
    }

    /// Checks a number by itself, whatever becomes of the others. An option that is not taken has been refused
    /// by name.
    fn check_range(&mut self, field: &'static str, number: Option<u64>, taken: bool) {
        let Some(number) = number.filter(|_| taken) else { return };
        if let Some(error) = range_error(field, number) {
            self.add(field, At::Value, limit_fault(error));
        }
    }

    fn number(&mut self, field: &'static str, given: Given<'_>) -> Option<u64> {
        match parse_number(field, given.text()?) {
            Ok(number) => Some(number),
            Err(fault) => {
                self.add(field, At::Value, fault);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
