//! Every way to spend, tried out: for limits so small that it can be done.

use std::collections::BTreeMap;
use std::fmt::Debug;

use super::{failure, passes};
use crate::generate::{Move, Run, horizon_us, play};
use crate::oracle::{Answer, Reason, Rule, Subject};

/// P2: after the last move, at every tick and for every cost: what is refused is refused until `retry_after`
/// and passes from then on; no pattern of checks of cost 1 gets more than `remaining` before `more_after`, and
/// some pattern does at it; and a refusal tells `more_after` ≤ `retry_after` ≤ `reset_after`.
///
/// Subjects that answer alike must print alike: patterns that lead to the same print are followed once.
///
/// # Errors
/// The first number that some pattern of checks proves wrong.
pub fn no_spending_gets_more<S: Subject + Clone + Debug>(
    rule: &Rule,
    subject: S,
    start_us: u64,
    moves: &[Move],
) -> Result<(), String> {
    let played = play(rule, true, start_us, moves);
    let mut run = Run::new(subject);
    for expected in &played {
        run.step(expected.step);
    }
    let Some(last) = played.len().checked_sub(1) else { return Ok(()) };
    let now = played[last].step.t_us;
    let wrong = |what: String| Err(failure(rule, &played, last, &what));
    // The longest that any of the numbers can be: two windows and a bit, or a bucket and a unit.
    let Answer { more_after_us, reset_after_us, .. } = run.subject.peek(now, 0);
    if now + more_after_us.max(reset_after_us) > horizon_us(rule) {
        return Ok(());
    }
    for cost in 1..=rule.capacity() {
        // It heals, as a check does; a refusal changes nothing else.
        let mut subject = run.subject.clone();
        let (answer, _) = subject.acquire(now, cost);
        if let Some(what) = wait_is_wrong(rule, &subject, now, cost, &answer) {
            return wrong(format!("{cost}: {what}; {answer:?}"));
        }
        if let Some(what) = most_is_wrong(&subject, now, &answer) {
            return wrong(format!("{cost}: {what}; {answer:?}"));
        }
    }
    Ok(())
}

fn wait_is_wrong<S: Subject + Clone>(
    rule: &Rule,
    subject: &S,
    now: u64,
    cost: u64,
    answer: &Answer,
) -> Option<String> {
    if answer.reason != Some(Reason::Limited) {
        return None;
    }
    let retry = answer.retry_after_us.unwrap_or(u64::MAX);
    // One large check finds a place in a queue where small ones would each have to start soon.
    let is_one_slot = cost == 1 || !matches!(rule, Rule::Queue { max_wait_us: Some(_), .. });
    if (is_one_slot && answer.more_after_us > retry) || retry > answer.reset_after_us {
        return Some("not more_after <= retry_after <= reset_after".to_owned());
    }
    (0..=answer.reset_after_us)
        .find(|&d| passes(subject, now + d, cost) != (d >= retry))
        .map(|d| format!("at {d} ticks from now it should pass: {}", d >= retry))
}

/// Follows every pattern of checks of cost 1 up to `more_after`.
fn most_is_wrong<S: Subject + Clone + Debug>(subject: &S, now: u64, answer: &Answer) -> Option<String> {
    // The most that was taken on the way to each state.
    let mut states: BTreeMap<String, (S, u64)> = BTreeMap::new();
    states.insert(format!("{subject:?}"), (subject.clone(), 0));
    for d in 0..=answer.more_after_us {
        let mut todo: Vec<(S, u64)> = states.values().cloned().collect();
        while let Some((mut state, taken)) = todo.pop() {
            if !state.acquire(now + d, 1).0.allowed {
                continue;
            }
            if taken == answer.remaining {
                let early = d < answer.more_after_us;
                return early.then(|| format!("{} units can be taken within {d} ticks", taken + 1));
            }
            let known = states.entry(format!("{state:?}")).or_insert_with(|| (state.clone(), 0));
            if known.1 <= taken {
                known.1 = taken + 1;
                todo.push((state, taken + 1));
            }
        }
    }
    Some("no pattern takes more within more_after".to_owned())
}
