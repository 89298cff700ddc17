//! P3, P4, P9, P11, P12: the bounds are kept and reached, whatever is given back and however clocks step.

use std::time::Duration;

use proptest::prelude::*;
use ratekeeper_testkit::claims;
use ratekeeper_testkit::generate::{
    MAX_INSTANT_US, cases, clock_steps, forward, large_rules, nasty_rules, only_checks, queues, refunds,
    rules, small_rules, small_steps,
};
use ratekeeper_testkit::oracle::{Align, Rule, theorem};
use ratekeeper_testkit::property::check;

use crate::subject::Core;

#[test]
fn p03_what_is_admitted_keeps_the_theorem() {
    check("p03", 4_000, cases(rules(), forward()), |(rule, start, moves)| {
        claims::admissions_keep_their_bound(&rule, Core::new(&rule, true), start, &moves)
    });
}

#[test]
fn p03_the_worst_case_is_that_of_the_theorem_and_exact_arithmetic() {
    let limits = prop_oneof![rules(), nasty_rules()];
    let spans = prop_oneof![0_u64..100, 0..=MAX_INSTANT_US, any::<u64>()];
    check("p03_worst_case", 4_000, (limits, spans), |(rule, span)| {
        if matches!(rule, Rule::Fixed { align: Align::Periods(_), .. }) {
            return Ok(());
        }
        let said = Core::new(&rule, true).limit.worst_case(Duration::from_micros(span));
        let bound = u64::try_from(theorem::worst_case(&rule, span)).unwrap_or(u64::MAX);
        if said == bound {
            Ok(())
        } else {
            Err(format!("{rule:?}: {said} in {span} us, by the theorem {bound}"))
        }
    });
}

#[test]
fn p04_a_counter_is_driven_to_twice_its_limit_less_one() {
    for (amount, window_us) in [(1, 4), (3, 12), (5, 10), (4, 20), (50, 100), (999, 2_000)] {
        let rule = Rule::Counter { amount, window_us };
        claims::counter_reaches_twice_the_limit_less_one(&rule, Core::new(&rule, true)).unwrap();
    }
}

#[test]
fn p04_a_fixed_window_is_driven_to_twice_its_limit_in_two_ticks() {
    for (amount, window_us) in [(1, 1), (3, 10), (1_000_000_000, 60_000_000)] {
        let rule = Rule::Fixed { amount, window_us, align: Align::Epoch };
        let starts: Vec<u64> = (0..5).map(|k| k * window_us).collect();
        let core = Core::new(&rule, true);
        claims::fixed_window_reaches_its_worst_case(&rule, core, &starts).unwrap();
    }
    let starts = vec![0, 5, 28, 30, 61, 62];
    let rule = Rule::Fixed { amount: 7, window_us: 30, align: Align::Periods(starts.clone()) };
    claims::fixed_window_reaches_its_worst_case(&rule, Core::new(&rule, true), &starts).unwrap();
}

#[test]
fn p04_buckets_queues_and_logs_are_driven_to_their_worst_case() {
    // A burst of 1 at a rate that does not divide the microsecond is left out: requests come at whole ticks
    // only, so that each loses a part of one.
    for (amount, window_us, burst) in [(1, 1, 1), (3, 10, 4), (7, 3, 20), (10, 1_000_000, 20), (1, 1_000, 1)]
    {
        let rule = Rule::Meter { amount, window_us, burst };
        claims::meter_reaches_its_worst_case(&rule, Core::new(&rule, true)).unwrap();
        let rule = Rule::Queue { amount, window_us, queue: burst, max_wait_us: None };
        claims::queue_reaches_its_worst_case(&rule, Core::new(&rule, true)).unwrap();
        let rule = Rule::Log { amount, window_us };
        claims::log_reaches_its_worst_case(&rule, Core::new(&rule, true)).unwrap();
    }
}

#[test]
fn p09_starts_are_in_order_and_apart_also_when_waiters_give_up() {
    let moves = || prop_oneof![refunds(), forward()];
    check("p09", 2_000, cases(queues(), moves()), |(rule, start, moves)| {
        claims::starts_are_spaced(&rule, Core::new(&rule, true), start, &moves)
    });
}

#[test]
fn p11_what_is_not_given_back_keeps_the_theorem() {
    check("p11", 6_000, cases(rules(), refunds()), |(rule, start, moves)| {
        claims::net_admissions_keep_their_bound(&rule, Core::new(&rule, true), start, &moves)
    });
}

#[test]
fn p11_no_short_trace_with_parts_given_back_admits_too_much() {
    for rule in [
        Rule::Meter { amount: 1, window_us: 3, burst: 3 },
        Rule::Meter { amount: 2, window_us: 3, burst: 3 },
        Rule::Fixed { amount: 3, window_us: 4, align: Align::Epoch },
        Rule::Log { amount: 3, window_us: 4 },
        Rule::Counter { amount: 3, window_us: 4 },
        Rule::Queue { amount: 1, window_us: 3, queue: 2, max_wait_us: None },
    ] {
        for heals in [true, false] {
            let core = Core::new(&rule, heals);
            let looked = claims::parts_keep_their_bound_in_all_short_traces(&rule, &core, 5).unwrap();
            assert!(looked > 1_000, "{rule:?}");
        }
    }
}

#[test]
fn p12_no_step_of_a_clock_locks_a_key_for_longer_than_its_period() {
    let back = prop_oneof![0_u64..100, 0_u64..100_000_000, 0_u64..1 << 53];
    check("p12_lockout", 4_000, (cases(rules(), clock_steps()), back), |((rule, start, moves), back)| {
        claims::jumps_lock_nobody_out(&rule, Core::new(&rule, true), start, &moves, back)
    });
}

#[test]
fn p12_steps_of_a_clock_admit_no_more_than_theorem_j() {
    check("p12_jumps", 3_000, cases(rules(), clock_steps()), |(rule, start, moves)| {
        claims::jumps_admit_little_more(&rule, Core::new(&rule, true), start, &only_checks(&moves))
    });
    let limits = prop_oneof![small_rules(), large_rules()];
    check("p12_small_steps", 3_000, cases(limits, clock_steps()), |(rule, start, moves)| {
        let moves = small_steps(&only_checks(&moves), rule.guard_us());
        claims::small_steps_admit_no_more(&rule, Core::new(&rule, true), start, &moves)
    });
}
