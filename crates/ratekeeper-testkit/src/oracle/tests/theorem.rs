//! The checkers find what is over the bound and let through what is at it.

use super::{counter, fixed, log, meter, queue};
use crate::claims;
use crate::generate::{
    cases, clock_steps, forward, large_rules, only_checks, refunds, rules, small_rules, small_steps,
};
use crate::oracle::{Admitted, Align, Reference, Rule, theorem};
use crate::property;

fn trace(admissions: &[(u64, u64)]) -> Vec<Admitted> {
    admissions.iter().map(|&(t_us, cost)| Admitted { t_us, cost }).collect()
}

fn fresh(rule: &Rule) -> Reference {
    Reference::new(rule.clone(), true)
}

#[test]
fn at_the_bound_passes_and_one_past_it_does_not() {
    let first_request = Rule::Fixed { amount: 3, window_us: 10, align: Align::FirstRequest };
    let calendar = Rule::Fixed { amount: 3, window_us: 10, align: Align::Periods(vec![0, 4, 30, 40]) };
    type Trace<'a> = &'a [(u64, u64)];
    let rows: [(Rule, Trace<'_>, Trace<'_>); 7] = [
        (meter(1, 10, 3), &[(5, 3), (15, 1), (25, 1)], &[(5, 3), (15, 1), (24, 1)]),
        (counter(3, 12), &[(11, 3), (15, 1), (19, 1)], &[(11, 3), (15, 1), (18, 1)]),
        (log(3, 10), &[(0, 2), (9, 1), (10, 2)], &[(0, 2), (9, 1), (9, 2)]),
        (fixed(3, 10), &[(9, 3), (10, 3)], &[(9, 3), (10, 3), (19, 1)]),
        (first_request, &[(4, 1), (13, 2), (14, 3)], &[(4, 1), (13, 3)]),
        (calendar, &[(3, 3), (4, 3), (30, 3)], &[(4, 1), (29, 3)]),
        (queue(1, 10, 2, None), &[(0, 3), (10, 1)], &[(0, 3), (9, 1)]),
    ];
    for (rule, kept, broken) in rows {
        assert_eq!(theorem::check(&rule, &trace(kept)), Ok(()), "{rule:?}");
        assert!(theorem::check(&rule, &trace(broken)).is_err(), "{rule:?}");
    }
}

#[test]
fn starts_may_be_rounded_up_and_not_closer_than_that() {
    // T = 10/3: starts at 0, 3.33, 6.67, 10.
    let rule = queue(3, 10, 9, None);
    assert_eq!(theorem::check_spacing(&rule, &trace(&[(0, 1), (4, 1), (7, 1), (10, 1)])), Ok(()));
    assert!(theorem::check_spacing(&rule, &trace(&[(0, 1), (3, 1), (5, 1), (9, 1)])).is_err());
    assert!(theorem::check_spacing(&rule, &trace(&[(0, 3), (9, 1)])).is_err());
    assert!(theorem::check_spacing(&rule, &trace(&[(10, 1), (0, 1)])).is_err());
}

#[test]
fn a_refusal_is_one_that_the_theorem_asks_for() {
    // The converse for meters and logs: what is refused would break the bound.
    let strategy = cases(small_rules(), forward());
    property::check("refusals_are_needed", 500, strategy, |(rule, start, moves)| {
        if !matches!(rule, Rule::Meter { .. } | Rule::Log { .. } | Rule::Fixed { .. }) {
            return Ok(());
        }
        let mut reference = fresh(&rule);
        let mut admitted = Vec::new();
        for played in crate::generate::play(&rule, true, start, &moves) {
            let crate::generate::Op::Acquire(cost) = played.step.op else { continue };
            let answer = reference.acquire(played.step.t_us, cost).0;
            if cost > 0 && cost <= rule.capacity() {
                admitted.push(Admitted { t_us: played.step.t_us, cost });
                if answer.allowed != theorem::check(&rule, &admitted).is_ok() {
                    return Err(format!("{rule:?} {admitted:?}: {answer:?}"));
                }
                if !answer.allowed {
                    admitted.pop();
                }
            }
        }
        Ok(())
    });
}

#[test]
fn the_reference_keeps_every_bound() {
    property::check("bounds", 1000, cases(rules(), forward()), |(rule, start, moves)| {
        claims::admissions_keep_their_bound(&rule, fresh(&rule), start, &moves)
    });
    property::check("net_bounds", 1000, cases(rules(), refunds()), |(rule, start, moves)| {
        claims::net_admissions_keep_their_bound(&rule, fresh(&rule), start, &moves)?;
        if matches!(rule, Rule::Queue { .. }) {
            claims::starts_are_spaced(&rule, fresh(&rule), start, &moves)?;
        }
        Ok(())
    });
}

#[test]
fn the_reference_locks_nobody_out_and_admits_little_more_when_clocks_step() {
    let back = || proptest::prelude::prop_oneof![0_u64..100, 0_u64..100_000_000, 0_u64..1 << 53];
    let strategy = (cases(rules(), clock_steps()), back());
    property::check("lockout", 1000, strategy, |((rule, start, moves), back)| {
        claims::jumps_lock_nobody_out(&rule, fresh(&rule), start, &moves, back)?;
        claims::jumps_admit_little_more(&rule, fresh(&rule), start, &only_checks(&moves))
    });
    let limits = proptest::prelude::prop_oneof![small_rules(), large_rules()];
    property::check("small_steps", 1000, cases(limits, clock_steps()), |(rule, start, moves)| {
        let moves = small_steps(&only_checks(&moves), rule.guard_us());
        claims::small_steps_admit_no_more(&rule, fresh(&rule), start, &moves)
    });
}

#[test]
fn the_reference_reaches_every_bound() {
    let good = [
        claims::meter_reaches_its_worst_case(&meter(3, 10, 4), fresh(&meter(3, 10, 4))),
        claims::log_reaches_its_worst_case(&log(3, 10), fresh(&log(3, 10))),
        claims::queue_reaches_its_worst_case(&queue(3, 10, 4, None), fresh(&queue(3, 10, 4, None))),
        claims::counter_reaches_twice_the_limit_less_one(&counter(5, 10), fresh(&counter(5, 10))),
        claims::fixed_window_reaches_its_worst_case(&fixed(3, 10), fresh(&fixed(3, 10)), &[0, 10, 20, 30]),
    ];
    assert!(good.iter().all(Result::is_ok), "{good:?}");
}
