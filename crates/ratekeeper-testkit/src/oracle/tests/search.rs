//! What is found by trying is the least there is.

use super::{counter, log, meter, queue};
use crate::claims;
use crate::generate::{
    anything, cases, forward, nasty_rules, play, rules, small_rules, start_us, without_clock_steps,
};
use crate::oracle::reference::least;
use crate::oracle::{Align, Answer, Reason, Reference, Rule, Tick};
use crate::property;

#[test]
fn bisection_finds_the_least() {
    for wanted in (0..70).chain([1000, 1 << 40, (1 << 40) + 1, (1 << 61) + 12345]) {
        assert_eq!(least(|d| d >= wanted), wanted);
    }
}

/// The whole of lemma M, tick by tick: once a cost passes it passes for good, a smaller cost always passes
/// where a larger one does, and the answers of the reference are the first ticks at which things change.
#[test]
fn waits_are_the_first_tick_at_which_the_rule_says_yes() {
    let strategy = cases(small_rules(), anything());
    property::check("lemma_m", 200, strategy, |(rule, start, moves)| {
        let mut run = crate::generate::Run::new(Reference::new(rule.clone(), true));
        for played in play(&rule, true, start, &moves) {
            run.step(played.step);
        }
        let now = play(&rule, true, start, &moves).last().map_or(start, |played| played.step.t_us);
        let mut subject = run.subject;
        // A refusal heals; what comes later is asked of that state.
        let _ = subject.acquire(now, rule.capacity());
        let horizon = 2 * rule.full_period_us() + 2 * rule.guard_us();
        let scan = |cost: u64| (0..=horizon).map(|d| subject.peek(now + d, cost).allowed).collect::<Vec<_>>();
        let mut last: Option<Vec<bool>> = None;
        for cost in 1..=rule.capacity() {
            let passes = scan(cost);
            let first = passes.iter().position(|&passes| passes);
            let Some(first) = first else { return Err(format!("{rule:?}: {cost} never passes")) };
            if passes[first..].contains(&false) {
                return Err(format!("{rule:?}: {cost} passes at +{first} and not for good"));
            }
            let answer = subject.peek(now, cost);
            if answer.retry_after_us != Some(first as u64) {
                return Err(format!("{rule:?}: {cost} passes at +{first}, but {answer:?}"));
            }
            if let Some(last) = &last
                && passes.iter().zip(last).any(|(this, less)| *this && !less)
            {
                return Err(format!("{rule:?}: {cost} passes where {} does not", cost - 1));
            }
            last = Some(passes);
        }
        let reset = subject.peek(now, 0).reset_after_us;
        let first_full = scan(rule.capacity()).iter().position(|&passes| passes);
        (first_full == Some(reset as usize))
            .then_some(())
            .ok_or_else(|| format!("{rule:?}: all fits at +{first_full:?}, but the reset is +{reset}"))
    });
}

#[test]
fn counting_out_and_bisection_agree_on_what_remains() {
    let strategy = cases(small_rules(), without_clock_steps());
    property::check("remaining", 200, strategy, |(rule, start, moves)| {
        let mut run = crate::generate::Run::new(Reference::new(rule.clone(), true));
        for played in play(&rule, true, start, &moves) {
            run.step(played.step);
            let now = Tick::from(played.step.t_us);
            let counted = run.subject.remaining_counted(now);
            let found = run.subject.remaining_bisected(now);
            if counted != found {
                return Err(format!("{rule:?} at {now}: {counted} counted, {found} found"));
            }
        }
        Ok(())
    });
}

#[test]
fn the_reference_and_the_history_agree() {
    let strategy = cases(rules(), forward());
    property::check("reference_and_history", 1500, strategy, |(rule, start, moves)| {
        claims::agrees_with_history(&rule, Reference::new(rule.clone(), true), start, &moves)?;
        claims::agrees_with_history(&rule, Reference::new(rule.clone(), false), start, &moves)
    });
}

#[test]
fn every_number_of_the_reference_is_minimal() {
    property::check("minimal", 500, cases(rules(), anything()), |(rule, start, moves)| {
        claims::fields_are_minimal(&rule, &Reference::new(rule.clone(), true), start, &moves)
    });
}

#[test]
fn the_clock_decides_only_where_it_steps_back() {
    let strategy = cases(rules(), without_clock_steps());
    property::check("heals_or_not", 500, strategy, |(rule, start, moves)| {
        let (healing, not) = (play(&rule, true, start, &moves), play(&rule, false, start, &moves));
        (healing == not).then_some(()).ok_or_else(|| format!("{rule:?}: {healing:?} or {not:?}"))
    });
}

#[test]
fn numbers_near_every_bound_are_answered() {
    let strategy = (nasty_rules(), start_us(), anything());
    property::check("nasty_numbers", 500, strategy, |(rule, start, moves)| {
        for heals in [true, false] {
            for played in play(&rule, heals, start, &moves) {
                if played.answer.remaining > rule.capacity() {
                    return Err(format!("{rule:?}: {:?}", played.answer));
                }
            }
        }
        Ok(())
    });
}

fn answer(allowed: bool, remaining: u64, retry: u64, more: u64, reset: u64, delay: u64) -> Answer {
    Answer {
        allowed,
        reason: (!allowed).then_some(Reason::Limited),
        remaining,
        retry_after_us: Some(retry),
        more_after_us: more,
        reset_after_us: reset,
        delay_us: delay,
    }
}

/// Worked out by hand from the rules: a few rows for each kind, so that an error common to all that is
/// generated does not go unseen.
#[test]
fn a_few_rows_by_hand() {
    type Row = (u64, u64, Answer);
    let tables: [(Rule, &[Row]); 6] = [
        // T = 10/3: three at once, the fourth at 10/3 - 1 rounded up.
        (
            meter(3, 10, 3),
            &[
                (0, 3, answer(true, 0, 0, 4, 10, 0)),
                (1, 1, answer(false, 0, 3, 3, 9, 0)),
                (4, 1, answer(true, 0, 0, 3, 10, 0)),
            ],
        ),
        // p = 4 of 4 at 9; at 13 they weigh 4 × 7/10: 2.8 and 1 fit, at 12 3.2 and 1 do not.
        (
            counter(4, 10),
            &[
                (9, 4, answer(true, 0, 0, 4, 11, 0)),
                (12, 1, answer(false, 0, 1, 1, 8, 0)),
                (13, 1, answer(true, 0, 0, 2, 17, 0)),
            ],
        ),
        // The entry of 2 dies at 10, that of 1 at 15.
        (
            log(3, 10),
            &[
                (0, 2, answer(true, 1, 0, 10, 10, 0)),
                (5, 1, answer(true, 0, 0, 5, 10, 0)),
                (9, 3, answer(false, 0, 6, 1, 6, 0)),
            ],
        ),
        // The window opens at 3 and ends at 13.
        (
            Rule::Fixed { amount: 2, window_us: 10, align: Align::FirstRequest },
            &[
                (3, 1, answer(true, 1, 0, 10, 10, 0)),
                (12, 2, answer(false, 1, 1, 1, 1, 0)),
                (13, 2, answer(true, 0, 0, 10, 10, 0)),
            ],
        ),
        // T = 5: starts at 0, 5, 10; a fourth must wait until one of two places is free.
        (
            queue(2, 10, 2, None),
            &[
                (0, 1, answer(true, 2, 0, 5, 5, 0)),
                (0, 1, answer(true, 1, 0, 5, 10, 5)),
                (0, 1, answer(true, 0, 0, 5, 15, 10)),
                (0, 1, answer(false, 0, 5, 5, 15, 0)),
            ],
        ),
        // The same, but nobody waits for longer than 7: the third would start after 10.
        (
            queue(2, 10, 2, Some(7)),
            &[
                (0, 2, answer(true, 0, 0, 3, 10, 0)),
                (1, 1, answer(false, 0, 2, 2, 9, 0)),
                (3, 1, answer(true, 0, 0, 5, 12, 7)),
            ],
        ),
    ];
    for (rule, rows) in tables {
        let mut reference = Reference::new(rule.clone(), true);
        for &(t_us, cost, expected) in rows {
            assert_eq!(reference.acquire(t_us, cost).0, expected, "{rule:?}: {cost} at {t_us}");
        }
    }
}
