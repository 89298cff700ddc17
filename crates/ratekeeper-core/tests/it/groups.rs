//! P10, and the decision vectors: several limits together, all or nothing.

use ratekeeper_testkit::claims;
use ratekeeper_testkit::generate::{GroupOp, group_cases, play_group, start_us};
use ratekeeper_testkit::oracle::{GroupSubject, Rule};
use ratekeeper_testkit::property::check;
use ratekeeper_testkit::vector::{replay_on, vectors};

use crate::subject::CoreGroup;

#[test]
fn p10_requests_are_decided_as_a_whole() {
    check("p10_reference", 2_000, (group_cases(), start_us()), |((rules, moves), start)| {
        for heals in [true, false] {
            claims::groups_agree_with_reference(
                &rules,
                heals,
                CoreGroup::new(rules.clone(), heals),
                start,
                &moves,
            )?;
        }
        Ok(())
    });
}

#[test]
fn p10_the_longest_wait_of_the_refusing_limits_is_exact() {
    check("p10_waits", 2_000, (group_cases(), start_us()), |((rules, moves), start)| {
        claims::group_waits_are_exact(&rules, CoreGroup::new(rules.clone(), true), start, &moves)
    });
}

#[test]
fn p10_what_every_key_is_charged_is_what_was_admitted_on_it() {
    // In windows that never end a count is the sum of what was taken.
    let endless = |rules: &[Rule]| -> Vec<Rule> {
        let amount = |rule: &Rule| rule.capacity() * 3;
        let window_us = 366 * 86_400_000_000;
        rules.iter().map(|rule| Rule::Log { amount: amount(rule), window_us }).collect()
    };
    check("p10_sums", 1_000, group_cases(), |(rules, moves)| {
        let rules = endless(&rules);
        let mut group = CoreGroup::new(rules.clone(), true);
        let mut charged = std::collections::BTreeMap::new();
        let moves: Vec<_> = moves
            .into_iter()
            .map(|mut next| {
                next.ticks = next.ticks.abs();
                next.retry = None;
                next
            })
            .collect();
        let mut last = 0;
        for played in play_group(&rules, true, 0, &moves) {
            last = played.step.t_us;
            let asks = played.step.asks();
            if played.step.op == GroupOp::Acquire && group.acquire(last, &asks).0.headline.allowed {
                for ask in asks {
                    *charged.entry((ask.limit, ask.key)).or_insert(0) += ask.cost;
                }
            }
        }
        for ((limit, key), units) in charged {
            let ask = ratekeeper_testkit::oracle::Ask { limit, key, cost: 0 };
            let remaining = group.peek(last, &[ask]).headline.remaining;
            if remaining + units != rules[limit].capacity() {
                return Err(format!(
                    "limit {limit} of {key}: {units} admitted, {remaining} left of {:?}",
                    rules[limit]
                ));
            }
        }
        Ok(())
    });
}

#[test]
fn every_decision_vector_is_answered_as_worked_out() {
    let mut wrong = Vec::new();
    for vector in vectors() {
        let (first, last) = vector.instants_us();
        let rules = vector.limits().iter().map(|limit| limit.rule(first, last)).collect();
        for (step, outcome) in replay_on(&vector, &mut CoreGroup::new(rules, true)).iter().enumerate() {
            wrong.extend(vector.mismatches(step, outcome));
        }
    }
    assert!(wrong.is_empty(), "{} mismatches:\n{}", wrong.len(), wrong.join("\n"));
}
