use super::*;
use crate::oracle::{Reason, Rule};
use crate::property::{check, sample};

#[test]
fn traces_stay_within_the_time_there_is() {
    check("horizon", 500, cases(rules(), anything()), |(rule, start, moves)| {
        let horizon = horizon_us(&rule);
        let late = play(&rule, true, start, &moves).into_iter().find(|played| played.step.t_us > horizon);
        late.map_or(Ok(()), |late| Err(format!("{late:?} is after {horizon}")))
    });
}

#[test]
fn a_seed_repeats_its_trace() {
    let strategy = cases(rules(), anything());
    assert_eq!(sample(&strategy, 7), sample(&strategy, 7));
    assert_ne!(sample(&strategy, 7), sample(&strategy, 8));
}

/// How often each of some things happens in 300 traces of a family.
fn tally(moves: impl Fn() -> proptest::prelude::BoxedStrategy<Vec<Move>>) -> [usize; 6] {
    let mut counts = [0; 6];
    for seed in 0..300 {
        let (rule, start, moves) = sample(&cases(small_rules(), moves()), seed);
        let played = play(&rule, true, start, &moves);
        for (number, step) in played.iter().enumerate() {
            let before = number.checked_sub(1).map(|before| &played[before]);
            let back = before.is_some_and(|before| step.step.t_us < before.step.t_us);
            counts[0] += usize::from(step.answer.allowed);
            counts[1] += usize::from(step.answer.reason == Some(Reason::Limited));
            counts[2] += usize::from(step.answer.reason == Some(Reason::CostExceedsCapacity));
            counts[3] += usize::from(back);
            counts[4] += usize::from(matches!(step.step.op, Op::Refund(_)));
            counts[5] += usize::from(matches!(step.step.op, Op::RefundLast(..)));
        }
    }
    counts
}

#[test]
fn every_family_is_both_let_in_and_refused() {
    for moves in
        [boundary_bursts, instant_bursts, retry_probes, saturation, idle_gaps, costs, refunds, clock_steps]
    {
        let [allowed, limited, ..] = tally(moves);
        assert!(allowed > 300 && limited > 300, "{allowed} let in, {limited} refused");
    }
    assert!(tally(costs)[2] > 300, "costs above every capacity are among them");
    assert_eq!(tally(forward)[3..], [0, 0, 0], "time only passes, nothing is given back");
    assert_eq!(tally(refunds)[3], 0);
    assert!(tally(refunds)[4..].iter().all(|back| *back > 300));
    assert!(tally(clock_steps)[3] > 300);
}

#[test]
fn probes_come_a_tick_too_early_and_in_time() {
    let (mut early, mut in_time) = (0, 0);
    for seed in 0..100 {
        let (rule, start, moves) = sample(&cases(small_rules(), retry_probes()), seed);
        let mut due = None;
        for played in play(&rule, true, start, &moves) {
            early += u32::from(due == Some(played.step.t_us + 1) && !played.answer.allowed);
            in_time += u32::from(due == Some(played.step.t_us) && played.answer.allowed);
            if let (false, Some(retry)) = (played.answer.allowed, played.answer.retry_after_us) {
                due = Some(played.step.t_us + retry);
            }
        }
    }
    assert!(early > 50 && in_time > 50, "{early} too early, {in_time} in time");
}

#[test]
fn every_kind_of_limit_is_tried() {
    for rules in [small_rules, large_rules, nasty_rules] {
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..200 {
            kinds.insert(match sample(&rules(), seed) {
                Rule::Meter { .. } => 0,
                Rule::Fixed { .. } => 1,
                Rule::Log { .. } => 2,
                Rule::Counter { .. } => 3,
                Rule::Queue { max_wait_us: None, .. } => 4,
                Rule::Queue { .. } => 5,
            });
        }
        assert_eq!(kinds.len(), 6, "{kinds:?}");
    }
}

#[test]
fn steps_print_as_lines_of_a_trace() {
    let lines = [
        (Op::Acquire(3), r#"{"t_us":7,"key":"k","cost":3}"#),
        (Op::Peek(1), r#"{"t_us":7,"key":"k","op":"peek","cost":1}"#),
        (Op::Reset, r#"{"t_us":7,"key":"k","op":"reset"}"#),
        (Op::Refund(2), r#"{"t_us":7,"key":"k","op":"refund","of":2}"#),
        (Op::RefundLast(2, 3), r#"{"t_us":7,"key":"k","op":"refund","of":2,"last":3}"#),
        (Op::Credit(4), r#"{"t_us":7,"key":"k","op":"refund","cost":4}"#),
    ];
    for (op, line) in lines {
        assert_eq!(Step { t_us: 7, op }.to_string(), line);
    }
}
