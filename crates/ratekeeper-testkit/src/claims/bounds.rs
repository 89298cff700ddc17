//! No traffic gets more than the theorem of its limit.

use super::failure;
use crate::generate::{Move, Op, Run, horizon_us, play};
use crate::oracle::{Admitted, Align, Rule, Subject, theorem};

/// P3: what is admitted keeps the theorem of the limit, and no span of any of several lengths holds more than
/// its worst case. For moves under a clock that does not step, without credits and resets.
///
/// # Errors
/// The span that holds too much.
pub fn admissions_keep_their_bound<S: Subject>(
    rule: &Rule,
    subject: S,
    start_us: u64,
    moves: &[Move],
) -> Result<(), String> {
    let played = play(rule, true, start_us, moves);
    let mut run = Run::new(subject);
    let mut admitted = Vec::new();
    for expected in &played {
        let t_us = expected.step.t_us;
        let answer = run.step(expected.step);
        if let Op::Acquire(cost @ 1..) = expected.step.op
            && answer.allowed
        {
            admitted.push(Admitted { t_us, cost });
        }
    }
    let last = played.len() - 1;
    theorem::check(rule, &admitted).map_err(|what| failure(rule, &played, last, &what))?;
    spans_keep_their_worst_case(rule, &admitted).map_err(|what| failure(rule, &played, last, &what))
}

/// P11: what is admitted and not given back keeps the theorem, whatever is given back and when. For moves
/// under a clock that does not step, without credits and resets.
///
/// # Errors
/// The span that holds too much.
pub fn net_admissions_keep_their_bound<S: Subject>(
    rule: &Rule,
    subject: S,
    start_us: u64,
    moves: &[Move],
) -> Result<(), String> {
    let played = play(rule, true, start_us, moves);
    let mut run = Run::new(subject);
    let mut held: Vec<Option<Admitted>> = Vec::new();
    for (number, expected) in played.iter().enumerate() {
        let t_us = expected.step.t_us;
        let answer = run.step(expected.step);
        held.push(None);
        match expected.step.op {
            Op::Refund(of) => held[of] = None,
            Op::RefundLast(of, units) => held[of] = without_last(held[of], units),
            Op::Acquire(cost @ 1..) if answer.allowed => {
                held[number] = Some(Admitted { t_us, cost });
                let net: Vec<Admitted> = held.iter().flatten().copied().collect();
                // A first-request window may have been opened by a request that was given back: where it
                // began cannot be told from what is left.
                let kept = match rule {
                    Rule::Fixed { align: Align::FirstRequest, .. } => Ok(()),
                    // A slot that is given up late stays empty, so the net starts are what is bounded.
                    _ => theorem::check(rule, &net),
                };
                kept.and_then(|()| spans_keep_their_worst_case(rule, &net))
                    .map_err(|what| failure(rule, &played, number, &format!("net of refunds: {what}")))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// P9: starts come in the order of admission and never closer than their costs allow, also when waiters give
/// up; and nobody starts before arriving. For queues, under a clock that does not step.
///
/// # Errors
/// The starts that are too close.
pub fn starts_are_spaced<S: Subject>(
    rule: &Rule,
    subject: S,
    start_us: u64,
    moves: &[Move],
) -> Result<(), String> {
    let played = play(rule, true, start_us, moves);
    let mut run = Run::new(subject);
    let mut starts: Vec<Option<Admitted>> = Vec::new();
    for expected in &played {
        let t_us = expected.step.t_us;
        let answer = run.step(expected.step);
        starts.push(match expected.step.op {
            Op::Acquire(cost @ 1..) if answer.allowed => {
                Some(Admitted { t_us: t_us + answer.delay_us, cost })
            }
            _ => None,
        });
        // Who has started cannot give up any more.
        if let Op::Refund(of) = expected.step.op
            && starts[of].is_some_and(|start| t_us < start.t_us)
        {
            starts[of] = None;
        }
        // The last units of a slot have a turn of their own, behind the others.
        if let Op::RefundLast(of, units) = expected.step.op
            && let Some(start) = starts[of]
        {
            let units = units.min(start.cost);
            let ahead = u128::from(start.cost - units) * u128::from(rule.window_us());
            let turn = u128::from(start.t_us) + ahead.div_ceil(rule.amount().into());
            if u128::from(t_us) < turn {
                starts[of] = without_last(Some(start), units);
            }
        }
    }
    let started: Vec<Admitted> = starts.into_iter().flatten().collect();
    theorem::check_spacing(rule, &started).map_err(|what| failure(rule, &played, played.len() - 1, &what))
}

/// An admission without its last units, if any are left.
fn without_last(held: Option<Admitted>, units: u64) -> Option<Admitted> {
    let rest = held.map(|held| Admitted { cost: held.cost.saturating_sub(units), ..held });
    rest.filter(|rest| rest.cost > 0)
}

/// Compares with [`theorem::worst_case`]: for a queue that bounds starts, so its admissions get one more
/// queue of it.
fn spans_keep_their_worst_case(rule: &Rule, admitted: &[Admitted]) -> Result<(), String> {
    let (window, period) = (rule.window_us(), rule.full_period_us());
    let spans = [0, 1, window / 3, window - 1, window, window + 1, 2 * window, 3 * window + 1, period];
    for span in spans {
        let most = theorem::most_within(admitted, span);
        let mut worst = theorem::worst_case(rule, span.min(horizon_us(rule)));
        if let Rule::Queue { queue, .. } = rule {
            worst += u128::from(*queue);
        }
        if most > worst {
            return Err(format!("{most} units within {span} us, {worst} at worst"));
        }
    }
    Ok(())
}
