//! All traffic there is, for limits small enough: the theorems' bounds are reached exactly.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::{counter, fixed, log, meter, queue};
use crate::claims::parts_keep_their_bound_in_all_short_traces;
use crate::oracle::{Align, Reference, Rule, theorem};

/// The most units that any traffic whatever gets admitted at the ticks of `span`, when it may begin at 0.
///
/// Goes tick by tick through all states that can be reached, and keeps for each the most that was admitted
/// within the span on the way to it. Taking several units at a tick is taking them one after another.
fn most_of_all_traffic(rule: &Rule, span: RangeInclusive<u64>) -> u64 {
    // `Reference` has no equality: its states are told apart by how they print.
    let fresh = Reference::new(rule.clone(), false);
    let mut reached = BTreeMap::from([(format!("{fresh:?}"), (fresh, 0))]);
    for tick in 0..=*span.end() {
        let mut waiting: Vec<(Reference, u64)> = reached.values().cloned().collect();
        while let Some((mut state, mut counted)) = waiting.pop() {
            if !state.acquire(tick, 1).0.allowed {
                continue;
            }
            counted += u64::from(span.contains(&tick));
            let name = format!("{state:?}");
            if reached.get(&name).is_none_or(|(_, most)| *most < counted) {
                reached.insert(name, (state.clone(), counted));
                waiting.push((state, counted));
            }
        }
    }
    reached.values().map(|(_, counted)| *counted).max().unwrap_or(0)
}

/// The most in any span of so many ticks beyond its first, wherever in the window it begins.
fn most_anywhere(rule: &Rule, span_us: u64) -> u64 {
    let window = rule.window_us();
    let begins = window..2 * window;
    begins.map(|begin| most_of_all_traffic(rule, begin..=begin + span_us)).max().unwrap_or(0)
}

#[test]
fn a_counter_admits_exactly_twice_the_limit_less_one_in_a_half_open_window() {
    for (amount, window) in [(3, 12), (5, 10), (4, 20)] {
        // A half-open window of W ticks is a closed span of W - 1.
        let most = most_anywhere(&counter(amount, window), window - 1);
        assert_eq!(most, 2 * amount - 1, "{amount} per {window}");
    }
}

#[test]
fn a_fixed_window_admits_exactly_twice_the_limit_in_two_ticks() {
    let rule = fixed(3, 7);
    assert_eq!(most_anywhere(&rule, 0), 3);
    assert_eq!(most_anywhere(&rule, 1), 6);
    assert_eq!(most_anywhere(&rule, 7), 6);
    assert_eq!(most_anywhere(&rule, 8), 9);
}

#[test]
fn the_worst_case_of_every_span_is_reached_by_some_traffic() {
    for rule in [meter(2, 7, 3), meter(3, 2, 4), fixed(2, 5), log(2, 5)] {
        for span in 0..=2 * rule.window_us() + 1 {
            let most = u128::from(most_anywhere(&rule, span));
            assert_eq!(most, theorem::worst_case(&rule, span), "{rule:?}, {span} us");
        }
    }
}

#[test]
fn a_counter_keeps_its_worst_case_and_reaches_that_of_a_tick_less() {
    let (amount, window) = (3, 12);
    let rule = counter(amount, window);
    for span in 0..=2 * window {
        let most = u128::from(most_anywhere(&rule, span));
        assert!(most <= theorem::worst_case(&rule, span), "{span} us: {most}");
        // The last tick in which a window can be filled lies one before the next, where it begins to fade.
        if (1..=window).contains(&span) {
            assert_eq!(most, theorem::worst_case(&rule, span - 1), "{span} us");
        }
    }
}

#[test]
fn a_first_request_window_keeps_the_worst_case_and_misses_it_by_the_request_that_opens_it() {
    let rule = Rule::Fixed { amount: 3, window_us: 6, align: Align::FirstRequest };
    for span in 0..=2 * rule.window_us() {
        assert!(u128::from(most_anywhere(&rule, span)) <= theorem::worst_case(&rule, span), "{span} us");
    }
    assert_eq!(most_anywhere(&rule, 1), 5);
    assert_eq!(most_anywhere(&rule, 6), 6);
}

#[test]
fn no_trace_of_five_steps_with_parts_given_back_admits_too_much() {
    for rule in [meter(1, 3, 3), meter(2, 3, 3), fixed(3, 4), log(3, 4), counter(3, 4), queue(1, 3, 2, None)]
    {
        let looked =
            parts_keep_their_bound_in_all_short_traces(&rule, &Reference::new(rule.clone(), true), 5);
        assert!(looked.unwrap() > 1_000, "{rule:?}");
    }
}
