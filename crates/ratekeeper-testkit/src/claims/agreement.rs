//! Every answer is the right one.

use super::{failure, passes};
use crate::generate::{Move, Op, Run, horizon_us, play};
use crate::oracle::{Admitted, Reason, Rule, Subject, history};

/// How many units are taken one by one to count what remains.
const COUNTED_MAX: u64 = 64;

/// P1: decision, reason and all five numbers are those of the reference, to the tick.
///
/// # Errors
/// The first answer that differs.
pub fn agrees_with_reference<S: Subject>(
    rule: &Rule,
    heals: bool,
    subject: S,
    start_us: u64,
    moves: &[Move],
) -> Result<(), String> {
    let played = play(rule, heals, start_us, moves);
    let mut run = Run::new(subject);
    for (number, expected) in played.iter().enumerate() {
        let got = run.step(expected.step);
        if got != expected.answer {
            let what = format!("\nshould be {:?}\nbut is    {got:?}", expected.answer);
            return Err(failure(rule, &played, number, &what));
        }
    }
    Ok(())
}

/// P1: decisions and delays are those that follow from the admitted trace alone. For moves that only check
/// and look, under a clock that does not step.
///
/// # Errors
/// The first answer that differs.
pub fn agrees_with_history<S: Subject>(
    rule: &Rule,
    subject: S,
    start_us: u64,
    moves: &[Move],
) -> Result<(), String> {
    let played = play(rule, true, start_us, moves);
    let mut run = Run::new(subject);
    let mut admitted: Vec<Admitted> = Vec::new();
    for (number, expected) in played.iter().enumerate() {
        let t_us = expected.step.t_us;
        let got = run.step(expected.step);
        let (Op::Acquire(cost) | Op::Peek(cost)) = expected.step.op else {
            return Err(failure(rule, &played, number, "a move that is no check"));
        };
        let allowed = history::admissible(rule, &admitted, t_us, cost);
        let delay = if allowed && cost > 0 { history::delay_us(rule, &admitted, t_us) } else { 0 };
        if (got.allowed, got.delay_us) != (allowed, delay) {
            let what =
                format!("by its history allowed is {allowed} and the delay {delay}, but it is {got:?}");
            return Err(failure(rule, &played, number, &what));
        }
        if matches!(expected.step.op, Op::Acquire(1..)) && allowed {
            admitted.push(Admitted { t_us, cost });
        }
    }
    Ok(())
}

/// P2: a refused check is refused a tick before `retry_after` and passes at it; `remaining` checks of one
/// unit pass and no more, and after them one more at `more_after` and not a tick before; at `reset_after` the key answers like a fresh one, and a tick before it does not.
///
/// # Errors
/// The first number that is too large or too small.
pub fn fields_are_minimal<S: Subject + Clone>(
    rule: &Rule,
    fresh: &S,
    start_us: u64,
    moves: &[Move],
) -> Result<(), String> {
    let played = play(rule, true, start_us, moves);
    let mut run = Run::new(fresh.clone());
    for (number, expected) in played.iter().enumerate() {
        let t_us = expected.step.t_us;
        let answer = run.step(expected.step);
        let wrong = |what: String| Err(failure(rule, &played, number, &format!("{what}; {answer:?}")));
        // Numbers are those after healing, which a look and an impossible cost do not write.
        let mut subject = run.subject.clone();
        heal(&mut subject, rule, t_us);
        if let (Some(Reason::Limited), Op::Acquire(cost) | Op::Peek(cost)) = (answer.reason, expected.step.op)
        {
            let retry = answer.retry_after_us.unwrap_or(0);
            if retry == 0 {
                return wrong("a refusal without a wait".to_owned());
            }
            let then = t_us + retry;
            if passes(&subject, then - 1, cost) {
                return wrong(format!("{cost} passes a tick before its wait is over"));
            }
            if then <= horizon_us(rule) && !passes(&subject, then, cost) {
                return wrong(format!("{cost} is refused after its wait"));
            }
        }
        let emptied = match emptied(rule, &subject, t_us, answer.remaining) {
            Ok(emptied) => emptied,
            Err(what) => return wrong(what),
        };
        let more_at = t_us + answer.more_after_us;
        if answer.more_after_us == 0 || passes(&emptied, more_at - 1, 1) {
            return wrong("more than remains can be taken a tick before more_after".to_owned());
        }
        if more_at <= horizon_us(rule) && !passes(&emptied, more_at, 1) {
            return wrong("nothing more can be taken at more_after".to_owned());
        }
        let reset_at = t_us + answer.reset_after_us;
        let like_fresh = |t_us: u64| {
            subject.clone().peek(t_us, rule.capacity()) == fresh.clone().peek(t_us, rule.capacity())
        };
        if answer.reset_after_us > 0 && like_fresh(reset_at - 1) {
            return wrong("the key is fresh a tick before its reset".to_owned());
        }
        if reset_at <= horizon_us(rule) && !like_fresh(reset_at) {
            return wrong("the key is not fresh at its reset".to_owned());
        }
    }
    Ok(())
}

/// Heals a state from the future: a refused check does, and the largest is refused by any such state.
fn heal<S: Subject + Clone>(subject: &mut S, rule: &Rule, t_us: u64) {
    let mut trial = subject.clone();
    if !trial.acquire(t_us, rule.capacity()).0.allowed {
        *subject = trial;
    }
}

/// What is left of the subject once all that remains is taken, which must be just that much.
fn emptied<S: Subject + Clone>(rule: &Rule, subject: &S, t_us: u64, remaining: u64) -> Result<S, String> {
    let mut taker = subject.clone();
    if remaining <= COUNTED_MAX {
        for taken in 0..remaining {
            if !taker.acquire(t_us, 1).0.allowed {
                return Err(format!("only {taken} of {remaining} remaining units can be taken"));
            }
        }
    } else if matches!(rule, Rule::Queue { max_wait_us: Some(_), .. }) {
        // One large check waits for its own start only: all but the last are taken at once, then that one.
        taker = subject.clone();
        if !taker.acquire(t_us, remaining - 1).0.allowed || !taker.acquire(t_us, 1).0.allowed {
            return Err(format!("the remaining {remaining} units cannot be taken"));
        }
    } else if !taker.acquire(t_us, remaining).0.allowed {
        return Err(format!("the remaining {remaining} units cannot be taken at once"));
    }
    if passes(&taker, t_us, 1) {
        return Err(format!("after the remaining {remaining} units one more is taken"));
    }
    Ok(taker)
}
