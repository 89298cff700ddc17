//! The product in the oracle's words: limits from rules, answers from verdicts.

use std::time::Duration;

use ratekeeper_core::{
    Algorithm, Align, Calendar, Decision, Limit, LimitSpec, Micros, Period, Reason, Verdict, Window,
};

use crate::oracle::{self, Answer, GroupAnswer, Rule, Share};

/// The limit of a rule; a meter by the name that is given.
///
/// # Panics
/// If the rule is outside the bounds of limits.
#[must_use]
pub fn limit(rule: &Rule, meter: Algorithm) -> Limit {
    let spec = |algorithm| LimitSpec::new(algorithm, rule.amount(), rule.window_us());
    let spec = match rule {
        Rule::Meter { burst, .. } => {
            let mut spec = spec(meter);
            spec.burst = Some(*burst);
            spec
        }
        Rule::Queue { queue, max_wait_us, .. } => {
            let mut spec = spec(Algorithm::LeakyBucket);
            (spec.queue, spec.max_wait_us) = (Some(*queue), *max_wait_us);
            spec
        }
        Rule::Fixed { align, .. } => {
            let mut spec = spec(Algorithm::FixedWindow);
            spec.align = match align {
                oracle::Align::Epoch => Align::Epoch,
                oracle::Align::FirstRequest => Align::FirstRequest,
                oracle::Align::Periods(_) => {
                    // The lengths that count are those of the calendar.
                    spec.window_us = Period::Day.nominal_us();
                    Align::Calendar(Period::Day)
                }
            };
            spec
        }
        Rule::Log { .. } => spec(Algorithm::SlidingWindowLog),
        Rule::Counter { .. } => spec(Algorithm::SlidingWindowCounter),
    };
    spec.build().unwrap_or_else(|error| panic!("{rule:?}: {error}"))
}

/// The calendar of a rule, if it has one: its periods, as they are listed.
#[must_use]
pub fn calendar(rule: &Rule) -> Option<ListedPeriods> {
    match rule {
        Rule::Fixed { align: oracle::Align::Periods(starts), .. } => Some(ListedPeriods(starts.clone())),
        _ => None,
    }
}

/// Periods by a sorted list of their first instants; the last has no end.
#[derive(Debug, Clone)]
pub struct ListedPeriods(Vec<u64>);

impl Calendar for ListedPeriods {
    fn window(&self, now: Micros) -> Window {
        let next = self.0.partition_point(|&start| start <= now.get());
        let start = next.checked_sub(1).map_or(0, |before| self.0[before]);
        let end = self.0.get(next).map_or(Micros::MAX, |&end| Micros::new(end));
        Window { start: Micros::new(start), end }
    }
}

fn us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).expect("a span that fits 64 bits")
}

fn reason(reason: Reason) -> oracle::Reason {
    match reason {
        Reason::Limited => oracle::Reason::Limited,
        Reason::CostExceedsCapacity => oracle::Reason::CostExceedsCapacity,
        other => panic!("a limit that has its own state never says {other:?}"),
    }
}

/// One limit's answer.
#[must_use]
pub fn answer(verdict: &Verdict) -> Answer {
    Answer {
        allowed: verdict.allowed(),
        reason: verdict.reason().map(reason),
        remaining: verdict.remaining(),
        retry_after_us: verdict.retry_after().map(us),
        more_after_us: us(verdict.more_after()),
        reset_after_us: us(verdict.reset_after()),
        delay_us: us(verdict.delay()),
    }
}

/// A request's answer. `parts` says which limit and key each verdict is of; a part that is named twice has
/// two verdicts, which are the same, and is listed once.
#[must_use]
pub fn group_answer(decision: &Decision, parts: &[(usize, String)]) -> GroupAnswer {
    let headline = Answer {
        allowed: decision.allowed,
        reason: decision.reason.map(reason),
        remaining: decision.remaining,
        retry_after_us: decision.retry_after.map(us),
        more_after_us: decision.limits().get(decision.binding).map_or(0, |verdict| us(verdict.more_after())),
        reset_after_us: us(decision.reset_after),
        delay_us: us(decision.delay),
    };
    let mut each: Vec<Share> = Vec::new();
    for ((limit, key), verdict) in parts.iter().zip(decision.limits()) {
        let share = Share { limit: *limit, key: key.clone(), answer: answer(verdict) };
        match each.iter().find(|other| (other.limit, &other.key) == (*limit, key)) {
            Some(twin) => assert_eq!(twin, &share, "one state, one answer"),
            None => each.push(share),
        }
    }
    GroupAnswer { headline, limit: parts.get(decision.binding).map_or(0, |(limit, _)| *limit), each }
}
