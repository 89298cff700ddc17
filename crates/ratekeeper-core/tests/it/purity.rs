//! P5, P6, P7, P13: what writes, and what does not.

use ratekeeper_core::{Ask, Micros};
use ratekeeper_testkit::generate::{Move, Op, Played, Run, anything, cases, play, rules};
use ratekeeper_testkit::oracle::{Rule, Subject};
use ratekeeper_testkit::property::check;

use crate::subject::Core;

/// Plays a trace on the core and looks at each step with the state before and after it.
fn each_step(
    rule: &Rule,
    start_us: u64,
    moves: &[Move],
    mut claim: impl FnMut(&Core, &Core, &Played) -> Result<(), String>,
) -> Result<(), String> {
    for heals in [true, false] {
        let mut run = Run::new(Core::new(rule, heals));
        for played in play(rule, heals, start_us, moves) {
            let before = run.subject.clone();
            let answer = run.step(played.step);
            claim(&before, &run.subject, &Played { answer, ..played }).map_err(|what| {
                format!(
                    "{what}\n{rule:?} {}\nbefore {}\nafter  {}",
                    played.step,
                    before.stored(),
                    run.subject.stored()
                )
            })?;
        }
    }
    Ok(())
}

fn unless(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

#[test]
fn p05_a_look_changes_nothing_and_says_what_a_check_would() {
    check("p05", 2_000, cases(rules(), anything()), |(rule, start, moves)| {
        each_step(&rule, start, &moves, |_, after, played| {
            let t_us = played.step.t_us;
            let costs = [0, 1, rule.capacity(), rule.capacity() + 1];
            for cost in costs {
                let asked = after.evaluate(t_us, cost, Ask::Peek);
                unless(asked.healed().is_none(), "a look wants to heal")?;
                let mut looked = after.clone();
                let look = looked.peek(t_us, cost);
                unless(looked.stored() == after.stored(), "a look has written")?;
                let checked = after.clone().acquire(t_us, cost).0;
                let same = (look.allowed, look.reason, look.retry_after_us, look.delay_us)
                    == (checked.allowed, checked.reason, checked.retry_after_us, checked.delay_us);
                unless(same, &format!("cost {cost}: a look says {look:?}, a check {checked:?}"))?;
            }
            let (nothing, token) = after.clone().acquire(t_us, 0);
            unless(nothing.allowed && token.is_none(), "a check of no units is a look")?;
            let asked = after.evaluate(t_us, 0, Ask::Acquire);
            unless(asked.healed().is_none(), "a check of no units wants to heal")
        })
    });
}

#[test]
fn p06_a_refusal_changes_nothing_but_what_it_heals() {
    check("p06", 4_000, cases(rules(), anything()), |(rule, start, moves)| {
        each_step(&rule, start, &moves, |before, after, played| {
            let Op::Acquire(cost) = played.step.op else {
                return Ok(());
            };
            if played.answer.allowed || cost > rule.capacity() {
                return Ok(());
            }
            let evaluation = before.evaluate(played.step.t_us, cost, Ask::Acquire);
            if evaluation.healed().is_none() {
                return unless(before.stored() == after.stored(), "a refusal has written");
            }
            // What was healed is legal now: it does not heal again, and answers the same.
            let again = after.evaluate(played.step.t_us, cost, Ask::Acquire);
            unless(again.healed().is_none(), "what was healed heals again")?;
            let mut healed = after.clone();
            unless(healed.peek(played.step.t_us, cost) == played.answer, "healing twice answers otherwise")
        })
    });
}

#[test]
fn p07_a_cost_above_capacity_is_refused_for_ever_and_writes_nothing() {
    check("p07", 1_500, cases(rules(), anything()), |(rule, start, moves)| {
        each_step(&rule, start, &moves, |_, after, played| {
            for cost in [rule.capacity() + 1, rule.capacity() + 2, u64::MAX] {
                let mut subject = after.clone();
                let (answer, token) = subject.acquire(played.step.t_us, cost);
                let reason = answer.reason.map(|reason| reason.as_str());
                let refused = !answer.allowed && token.is_none() && answer.retry_after_us.is_none();
                unless(refused && reason == Some("cost_exceeds_capacity"), &format!("{answer:?}"))?;
                unless(subject.stored() == after.stored(), "an impossible cost has written")?;
            }
            Ok(())
        })
    });
}

/// Whether the clock has stepped back behind the last write: a fresh copy then answers otherwise a moment on.
fn is_ahead(rule: &Rule, core: &Core, t_us: u64) -> bool {
    let healed = core.evaluate(t_us, 1, Ask::Acquire).healed().is_some();
    healed
        || (matches!(rule, Rule::Log { .. })
            && core.clone().log.idle_at(&core.limit) > Micros::new(t_us + rule.window_us()))
}

#[test]
fn p13_a_state_is_idle_from_the_instant_at_which_it_answers_like_a_fresh_one() {
    check("p13", 2_000, cases(rules(), anything()), |(rule, start, moves)| {
        each_step(&rule, start, &moves, |_, after, played| {
            let t_us = played.step.t_us;
            let idle = if matches!(rule, Rule::Log { .. }) {
                after.log.idle_at(&after.limit)
            } else {
                after.limit.idle_at(after.state)
            };
            // Never earlier than the reset says; the same, unless nothing is used or the state lies ahead of the
            // clock, whose reading it then is that is behind.
            let reset = after.clone().peek(t_us, 0).reset_after_us;
            let fresh_at = Micros::new(t_us + reset);
            let exact = reset > 0 && !is_ahead(&rule, after, t_us);
            unless(
                idle == fresh_at || (!exact && (reset == 0 || idle > fresh_at)),
                &format!("idle at {idle:?}, fresh at {fresh_at:?}"),
            )?;
            let horizon = ratekeeper_testkit::generate::horizon_us(&rule);
            if (t_us..horizon).contains(&idle.get()) {
                let mut fresh = after.clone();
                fresh.reset();
                let same = after.clone().peek(idle.get(), rule.capacity())
                    == fresh.peek(idle.get(), rule.capacity());
                unless(same, &format!("idle at {idle:?}, but not fresh then"))?;
            }
            Ok(())
        })
    });
}
