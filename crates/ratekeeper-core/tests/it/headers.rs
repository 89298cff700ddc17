//! P17, and that every field is what a parser of structured fields takes it for.

use std::time::Duration;

use proptest::prelude::*;
use ratekeeper_core::{
    Decision, LimitItem, MAX_FIELD_INTEGER, Micros, Name, Quota, Verdict, XRateLimit, policy_field,
    retry_after_seconds, write_limit_field,
};
use ratekeeper_testkit::generate::{Move, Run, anything, cases, forward, horizon_us, play, rules};
use ratekeeper_testkit::oracle::{Rule, Subject};
use ratekeeper_testkit::property::check;
use sfv::{BareItem, FieldType, List, ListEntry, Parser};

use crate::subject::Core;

/// The state that the moves lead to, and when the last of them was.
fn played(rule: &Rule, start: u64, moves: &[Move]) -> (Core, u64) {
    let played = play(rule, true, start, moves);
    let mut run = Run::new(Core::new(rule, true));
    for step in &played {
        run.step(step.step);
    }
    (run.subject, played.last().map_or(start, |last| last.step.t_us))
}

#[test]
fn p17_a_client_that_waits_for_retry_after_is_never_refused() {
    check("p17_retry_after", 3_000, cases(rules(), anything()), |(rule, start, moves)| {
        let (core, now) = played(&rule, start, &moves);
        for cost in [1, rule.capacity().div_ceil(2), rule.capacity()] {
            let mut core = core.clone();
            let verdict = core.decide(now, cost);
            let wait = match verdict.retry_after() {
                Some(wait) if !verdict.allowed() => wait,
                _ => continue,
            };
            let text = retry_after_seconds(wait).to_string();
            let waited = Duration::from_secs(text.parse().map_err(|error| format!("{text}: {error}"))?);
            if waited < wait || waited > (wait + Duration::from_micros(999_999)).max(Duration::from_secs(1)) {
                return Err(format!("{rule:?}: {wait:?} is told as {text}"));
            }
            let then = Micros::new(now).saturating_add(waited).get();
            if then < horizon_us(&rule) && !core.acquire(then, cost).0.allowed {
                return Err(format!("{rule:?}: {cost} at {now} is refused after {text} s"));
            }
        }
        Ok(())
    });
}

#[test]
fn p17_a_client_that_spends_no_more_than_r_until_t_is_never_refused() {
    check("p17_r_and_t", 2_000, cases(rules(), forward()), |(rule, start, moves)| {
        let (mut core, now) = played(&rule, start, &moves);
        let verdict = core.decide(now, 0);
        for taken in 0..verdict.remaining().min(40) {
            if !core.acquire(now, 1).0.allowed {
                return Err(format!("{rule:?}: unit {taken} of {verdict:?}"));
            }
        }
        let then = now + 1_000_000 * retry_after_seconds(verdict.more_after());
        if then < horizon_us(&rule) && !core.acquire(then, 1).0.allowed {
            return Err(format!("{rule:?}: at {then} nothing more after {verdict:?}"));
        }
        Ok(())
    });
}

#[test]
fn p17_the_reset_of_x_ratelimit_is_never_early_and_less_than_a_second_late() {
    check("p17_reset", 3_000, cases(rules(), anything()), |(rule, start, moves)| {
        let (mut core, now) = played(&rule, start, &moves);
        let verdict = core.decide(now, 1);
        let reset_us = u64::try_from(verdict.reset_after().as_micros()).map_err(|error| error.to_string())?;
        let (unix, delta) = (XRateLimit::unix(&verdict, Micros::new(now)), XRateLimit::delta(&verdict));
        let is_next_second = |seconds: u64, us: u64| (us..us + 1_000_000).contains(&(seconds * 1_000_000));
        if !is_next_second(unix.reset, now + reset_us) || !is_next_second(delta.reset, reset_us) {
            return Err(format!("{rule:?} at {now}: {verdict:?} is told as {unix:?} and {delta:?}"));
        }
        let told = (unix.limit, unix.remaining);
        if told != (rule.capacity(), verdict.remaining()) || told != (delta.limit, delta.remaining) {
            return Err(format!("{rule:?} at {now}: {verdict:?} is told as {unix:?}"));
        }
        Ok(())
    });
}

/// One member of a list, as a parser sees it: the name, and the parameters in their order.
type Parsed = (String, Vec<(String, i64)>);

fn parsed(field: &str) -> Result<Vec<Parsed>, String> {
    if field.is_empty() {
        // A list without members is a field that is not sent.
        return Ok(Vec::new());
    }
    let list: List = Parser::new(field).parse().map_err(|error| format!("{field}: {error}"))?;
    if list.serialize().as_deref() != Some(field) {
        return Err(format!("{field} is written otherwise: {:?}", list.serialize()));
    }
    let member = |entry: &ListEntry| {
        let ListEntry::Item(item) = entry else { return Err(format!("{field}: an inner list")) };
        let BareItem::String(name) = &item.bare_item else { return Err(format!("{field}: not a string")) };
        let parameters = item.params.iter().map(|(key, value)| match value {
            BareItem::Integer(n) => Ok((key.as_str().to_owned(), i64::from(*n))),
            other => Err(format!("{field}: {other:?} is no integer")),
        });
        Ok((name.as_str().to_owned(), parameters.collect::<Result<_, _>>()?))
    };
    list.iter().map(member).collect()
}

fn named(key: &str, n: u64) -> (String, i64) {
    (key.to_owned(), i64::try_from(n).expect("15 digits"))
}

fn seconds(wait: Duration) -> u64 {
    let us = u64::try_from(wait.as_micros()).expect("a wait that fits 64 bits");
    us.div_ceil(1_000_000).clamp(1, MAX_FIELD_INTEGER)
}

type OneLimit = ((Rule, u64, Vec<Move>), String, u64);

fn some_limits() -> impl Strategy<Value = (String, Vec<OneLimit>)> {
    let name = || "[A-Za-z0-9_-]{1,64}";
    (name(), prop::collection::vec((cases(rules(), forward()), name(), 0_u64..4), 1..5))
}

#[test]
fn every_field_is_a_list_of_strings_with_integers_and_is_written_in_canonical_form() {
    check("headers_sfv", 1_500, some_limits(), |(policy, limits)| {
        let mut items: Vec<LimitItem> = Vec::new();
        let mut verdicts: Vec<Verdict> = Vec::new();
        let (mut of_policy, mut of_limits): (Vec<Parsed>, Vec<Parsed>) = (Vec::new(), Vec::new());
        for ((rule, start, moves), name, quarter) in &limits {
            let (mut core, now) = played(rule, *start, moves);
            // From nothing to one unit more than fits.
            let cost = (u128::from(rule.capacity()) + 1) * u128::from(*quarter) / 3;
            verdicts.push(core.decide(now, u64::try_from(cost).expect("a capacity")));
            let names = (Name::new(&policy), Name::new(name));
            let (Ok(policy_name), Ok(limit_name)) = names else { return Err("a name".to_owned()) };
            items.push(LimitItem::new(&policy_name, &limit_name, &core.limit));
            let Quota { units, seconds } = Quota::of(&core.limit);
            if units < rule.capacity() {
                return Err(format!("{rule:?}: r may exceed q={units}"));
            }
            of_policy.push((format!("{policy}.{name}"), vec![named("q", units), named("w", seconds)]));
        }
        let decision = Decision::of(verdicts);
        let mut longest = 0;
        for (verdict, (name, _)) in decision.limits().iter().zip(&of_policy) {
            let t = match verdict.retry_after() {
                Some(_) if decision.allowed => verdict.more_after(),
                Some(wait) if !verdict.allowed() => wait,
                _ => continue,
            };
            longest = longest.max(seconds(t));
            of_limits.push((name.clone(), vec![named("r", verdict.remaining()), named("t", seconds(t))]));
        }
        if parsed(&policy_field(&items))? != of_policy {
            return Err(format!("{} should be {of_policy:?}", policy_field(&items)));
        }
        let mut field = Vec::new();
        let any = write_limit_field(&mut field, items.iter().zip(decision.limits()));
        let field = String::from_utf8(field).map_err(|error| error.to_string())?;
        if any == of_limits.is_empty() || parsed(&field)? != of_limits {
            return Err(format!("{field} should be {of_limits:?}"));
        }
        match decision.retry_after {
            Some(wait) if !decision.allowed && retry_after_seconds(wait) < longest => {
                Err(format!("{field} goes on for longer than a Retry-After of {wait:?}"))
            }
            _ => Ok(()),
        }
    });
}
