//! Clocks that step: nobody is locked out for longer than a period, and little more is admitted.

use super::failure;
use crate::generate::{Move, Op, Played, Run, horizon_us, play};
use crate::oracle::{Align, Reason, Rule, Subject, theorem};

/// P12, Theorem H: from the first check after a step back by `back_us`, a cost passes within the period of
/// the limit and its guard, if nothing else comes.
///
/// # Errors
/// The cost that waits for too long.
pub fn jumps_lock_nobody_out<S: Subject + Clone>(
    rule: &Rule,
    subject: S,
    start_us: u64,
    moves: &[Move],
    back_us: u64,
) -> Result<(), String> {
    let played = play(rule, true, start_us, moves);
    let mut run = Run::new(subject);
    for expected in &played {
        run.step(expected.step);
    }
    let last = played.len() - 1;
    let now = played[last].step.t_us.saturating_sub(back_us);
    let capacity = rule.capacity();
    for cost in [1, capacity / 2, capacity].into_iter().filter(|&cost| cost > 0) {
        let mut subject = run.subject.clone();
        let answer = subject.acquire(now, cost).0;
        if answer.allowed {
            continue;
        }
        let wait = answer.retry_after_us.unwrap_or(u64::MAX);
        let longest = longest_wait(rule, cost);
        if wait > longest || answer.reason != Some(Reason::Limited) {
            let what = format!("at {now} a cost of {cost} has to wait {wait}, {longest} at most: {answer:?}");
            return Err(failure(rule, &played, last, &what));
        }
        if now + wait <= horizon_us(rule) && !subject.acquire(now + wait, cost).0.allowed {
            let what = format!("at {now} a cost of {cost} is told to wait {wait} and then refused");
            return Err(failure(rule, &played, last, &what));
        }
    }
    Ok(())
}

/// n T of a meter, all of a queue, a window of a log, and windows with their guard.
fn longest_wait(rule: &Rule, cost: u64) -> u64 {
    let share = |units: u64| {
        let us = (u128::from(rule.window_us()) * u128::from(units)).div_ceil(u128::from(rule.amount()));
        u64::try_from(us).expect("a wait that fits 64 bits")
    };
    match rule {
        Rule::Meter { .. } => share(cost),
        Rule::Queue { .. } | Rule::Log { .. } | Rule::Fixed { .. } => rule.full_period_us() + rule.guard_us(),
        Rule::Counter { window_us, .. } => window_us + share(cost) + rule.guard_us(),
    }
}

/// P12, Theorem J: in physical time a span admits its worst case, and one capacity more for each step
/// forward in it, and for windows and counters one amount more for each step back.
///
/// # Errors
/// The span that holds too much.
pub fn jumps_admit_little_more<S: Subject>(
    rule: &Rule,
    subject: S,
    start_us: u64,
    moves: &[Move],
) -> Result<(), String> {
    let played = play(rule, true, start_us, moves);
    let for_back = match rule {
        Rule::Fixed { .. } | Rule::Counter { .. } => rule.amount(),
        Rule::Meter { .. } | Rule::Log { .. } | Rule::Queue { .. } => 0,
    };
    let bound = |span_us: u64, forward: u64, back: u64| {
        admissions_worst_case(rule, span_us)
            + u128::from(forward) * u128::from(rule.capacity())
            + u128::from(back) * u128::from(for_back)
    };
    in_physical_time(rule, subject, moves, &played, bound)
}

/// P12, Theorem J: windows and counters admit nothing more if the steps back come to at most the guard, and
/// none goes forward. `moves` must be such.
///
/// # Errors
/// The span that holds too much.
pub fn small_steps_admit_no_more<S: Subject>(
    rule: &Rule,
    subject: S,
    start_us: u64,
    moves: &[Move],
) -> Result<(), String> {
    let played = play(rule, true, start_us, moves);
    in_physical_time(rule, subject, moves, &played, |span_us, _, _| admissions_worst_case(rule, span_us))
}

fn admissions_worst_case(rule: &Rule, span_us: u64) -> u128 {
    match rule {
        Rule::Queue { queue, .. } => theorem::worst_case(rule, span_us) + u128::from(*queue),
        // Physical time may be anywhere in the calendar: any of its periods may be the shortest.
        Rule::Fixed { amount, align: Align::Periods(starts), .. } => {
            let shortest = starts.windows(2).map(|pair| pair[1] - pair[0]).min().unwrap_or(1);
            u128::from(*amount) * u128::from(span_us.div_ceil(shortest) + 1)
        }
        _ => theorem::worst_case(rule, span_us),
    }
}

/// An admission: how much physical time has passed, how often the clock was set before it, the units.
struct Admission {
    elapsed: u64,
    forward: u64,
    back: u64,
    cost: u64,
}

fn in_physical_time<S: Subject>(
    rule: &Rule,
    subject: S,
    moves: &[Move],
    played: &[Played],
    bound: impl Fn(u64, u64, u64) -> u128,
) -> Result<(), String> {
    let mut run = Run::new(subject);
    let mut admitted: Vec<Admission> = Vec::new();
    let (mut elapsed, mut forward, mut back) = (0, 0, 0);
    let mut clock = played[0].step.t_us;
    for (number, (next, expected)) in moves.iter().zip(played).enumerate() {
        let t_us = expected.step.t_us;
        if next.gap.steps_the_clock() {
            forward += u64::from(t_us > clock);
            back += u64::from(t_us < clock);
        } else {
            elapsed += t_us - clock;
        }
        clock = t_us;
        let answer = run.step(expected.step);
        let Op::Acquire(cost @ 1..) = expected.step.op else { continue };
        if !answer.allowed {
            continue;
        }
        admitted.push(Admission { elapsed, forward, back, cost });
        let mut held: u128 = 0;
        for first in admitted.iter().rev() {
            held += u128::from(first.cost);
            let most = bound(elapsed - first.elapsed, forward - first.forward, back - first.back);
            if held > most {
                let what = format!(
                    "{held} units in the last {} us of physical time, {most} at most",
                    elapsed - first.elapsed
                );
                return Err(failure(rule, played, number, &what));
            }
        }
    }
    Ok(())
}
