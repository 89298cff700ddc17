//! Several limits: all or nothing.

use std::fmt::Write;

use crate::generate::{GroupMove, GroupOp, GroupPlayed, horizon_us, play_group};
use crate::oracle::{GroupSubject, Reason, Rule};

/// P10: the headline and every limit's part of it are those of the reference: nothing is taken anywhere unless
/// all of it is, parts on one state are decided by their sum, and a refusal heals what it touches.
///
/// # Errors
/// The first answer that differs.
pub fn groups_agree_with_reference<G: GroupSubject>(
    rules: &[Rule],
    heals: bool,
    mut subject: G,
    start_us: u64,
    moves: &[GroupMove],
) -> Result<(), String> {
    let played = play_group(rules, heals, start_us, moves);
    let mut receipts: Vec<Option<G::Receipt>> = Vec::new();
    for (number, expected) in played.iter().enumerate() {
        let (t_us, asks) = (expected.step.t_us, expected.step.asks());
        let mut receipt = None;
        let got = match expected.step.op {
            GroupOp::Acquire => {
                let (answer, taken) = subject.acquire(t_us, &asks);
                receipt = taken;
                answer
            }
            GroupOp::Peek => subject.peek(t_us, &asks),
            GroupOp::Refund(of) => {
                if let Some(receipt) = receipts[of].take() {
                    subject.refund(t_us, receipt);
                }
                subject.peek(t_us, &asks)
            }
        };
        receipts.push(receipt);
        if got != expected.answer {
            let what = format!("should be {:#?}\nbut is {got:#?}", expected.answer);
            return Err(failure(rules, &played, number, &what));
        }
    }
    Ok(())
}

/// P2 for requests: one that is refused is refused a tick before its `retry_after` and passes at it, however
/// many limits there are: the longest of the refusing ones is exact.
///
/// # Errors
/// The first wait that is too long or too short.
pub fn group_waits_are_exact<G: GroupSubject + Clone>(
    rules: &[Rule],
    mut subject: G,
    start_us: u64,
    moves: &[GroupMove],
) -> Result<(), String> {
    let played = play_group(rules, true, start_us, moves);
    let horizon = rules.iter().map(horizon_us).min().unwrap_or(0);
    for (number, expected) in played.iter().enumerate() {
        let (t_us, asks) = (expected.step.t_us, expected.step.asks());
        if expected.step.op != GroupOp::Acquire {
            continue;
        }
        let answer = subject.acquire(t_us, &asks).0.headline;
        let (Some(Reason::Limited), Some(retry)) = (answer.reason, answer.retry_after_us) else { continue };
        let passes = |t_us: u64| subject.clone().acquire(t_us, &asks).0.headline.allowed;
        if retry == 0 || passes(t_us + retry - 1) {
            return Err(failure(rules, &played, number, &format!("the wait is too long: {answer:?}")));
        }
        if t_us + retry <= horizon && !passes(t_us + retry) {
            return Err(failure(rules, &played, number, &format!("the wait is too short: {answer:?}")));
        }
    }
    Ok(())
}

fn failure(rules: &[Rule], played: &[GroupPlayed], step: usize, what: &str) -> String {
    let mut text = String::new();
    for (limit, rule) in rules.iter().enumerate() {
        let _ = writeln!(text, "limit {limit}: {rule:?}");
    }
    for (number, played) in played.iter().take(step + 1).enumerate() {
        let played = &played.step;
        let _ = writeln!(text, "{number:>4}: {} {:?} {:?}", played.t_us, played.op, played.parts);
    }
    let _ = write!(text, "step {step}: {what}");
    text
}
