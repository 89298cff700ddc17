//! What the policies of a file are to each other: it can be looked at only when all are known.

use std::collections::{HashMap, HashSet};

use ratekeeper_core::Name;

use super::errors::Errors;
use crate::fault::{Fault, code};
use crate::hints::{did_you_mean, thousands};
use crate::matcher::Match;
use crate::options::{CostSpec, Mode, OnExcess};
use crate::overrides::Act;
use crate::policy::{Policy, PolicyLimit};

/// Where in the file the things are that a policy says of others.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// The policy's name.
    pub(super) name: core::ops::Range<usize>,
    /// The names that it replaces.
    pub(super) replaces: Vec<core::ops::Range<usize>>,
    /// Its cost.
    pub(super) cost: Option<core::ops::Range<usize>>,
    /// Its key.
    pub(super) key: Option<core::ops::Range<usize>>,
    /// Whether it says `missing_key`.
    pub(super) says_missing_key: bool,
}

/// Reports what does not fit together. `names` are all names of the file, also those of policies that cannot be
/// used.
pub(super) fn check(policies: &[(Policy, Places)], names: &HashMap<Name, usize>, errors: &mut Errors<'_>) {
    let by_name: HashMap<&str, usize> =
        policies.iter().enumerate().map(|(index, (policy, _))| (policy.name().as_str(), index)).collect();
    for (policy, places) in policies {
        replaced(policy, places, names, errors);
        cost(policy, places, errors);
    }
    circles(policies, &by_name, errors);
    queues(policies, errors);
}

fn replaced(policy: &Policy, places: &Places, names: &HashMap<Name, usize>, errors: &mut Errors<'_>) {
    let mut before = HashSet::new();
    for (name, place) in policy.options().replaces.iter().zip(&places.replaces) {
        let fault = if name == policy.name() {
            Fault::new(code::REPLACED_IN_A_CIRCLE, "a policy cannot replace itself").hint("leave it out")
        } else if !names.contains_key(name) {
            let names = names.keys().filter(|other| *other != policy.name()).map(Name::as_str);
            let mut names: Vec<&str> = names.collect();
            names.sort_unstable();
            Fault::new(code::UNKNOWN_POLICY, format!("there is no policy `{name}`"))
                .hint(did_you_mean_few(name, &names))
        } else if !before.insert(name) {
            Fault::new(code::DUPLICATE_NAME, format!("`{name}` is there twice")).hint("leave one out")
        } else {
            continue;
        };
        errors.add(place.clone(), fault);
    }
}

/// A list of thousands of names helps nobody.
fn did_you_mean_few(name: &Name, names: &[&str]) -> String {
    const MOST: usize = 16;
    if names.len() <= MOST {
        return did_you_mean(name.as_str(), names.iter().copied());
    }
    match crate::hints::nearest(name.as_str(), names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "name a policy of this file".to_owned(),
    }
}

/// A cost that a limit never holds would refuse every request for ever.
fn cost(policy: &Policy, places: &Places, errors: &mut Errors<'_>) {
    let Some(place) = &places.cost else { return };
    let spec = &policy.options().cost;
    if policy.options().on_excess == OnExcess::Drain {
        return;
    }
    let sets = policy.overrides().as_slice().iter().filter_map(|item| match item.act() {
        Act::Limits(limits) => Some(limits.as_slice()),
        Act::Action(_) => None,
    });
    let all = core::iter::once(policy.limits()).chain(sets).flatten();
    let Some(least) = all.min_by_key(|limit| limit.named.limit().capacity()) else { return };
    let capacity = least.named.limit().capacity();
    if spec.max() > capacity {
        let what = if matches!(spec, CostSpec::Header { .. }) { "`max` is" } else { "the cost is" };
        let message = format!("{what} above what limit `{}` ever holds", least.named.name());
        let hint = format!("take at most {}, or raise its `burst` or `limit`", thousands(capacity));
        errors.add(place.clone(), Fault::new(code::COST_NEVER_FITS, message).hint(hint));
    }
}

/// If policies replace each other, none is left.
fn circles(policies: &[(Policy, Places)], by_name: &HashMap<&str, usize>, errors: &mut Errors<'_>) {
    let next = |index: usize| {
        let names = policies.get(index).map(|(policy, _)| policy.options().replaces.iter());
        names.into_iter().flatten().filter_map(|name| by_name.get(name.as_str()).copied())
    };
    // Each policy is left behind once all that it replaces have been looked at.
    let mut done = vec![false; policies.len()];
    for start in 0..policies.len() {
        let mut way: Vec<usize> = vec![start];
        let mut open: Vec<Vec<usize>> = vec![next(start).collect()];
        while let Some(rest) = open.last_mut() {
            let Some(index) = rest.pop() else {
                open.pop();
                if let Some(left) = way.pop() {
                    done[left] = true;
                }
                continue;
            };
            if done[index] {
                continue;
            }
            let (Some(from), Some((policy, _))) = (way.last(), policies.get(index)) else { continue };
            if way.contains(&index) {
                // A policy that replaces itself has been reported.
                if *from != index
                    && let Some((last, places)) = policies.get(*from)
                {
                    let place = last.options().replaces.iter().position(|name| name == policy.name());
                    let span = place.and_then(|place| places.replaces.get(place)).unwrap_or(&places.name);
                    let message = format!(
                        "`{}` and `{}` replace each other, so none would be left",
                        last.name(),
                        policy.name()
                    );
                    errors.add(
                        span.clone(),
                        Fault::new(code::REPLACED_IN_A_CIRCLE, message).hint("leave one of them out"),
                    );
                }
                continue;
            }
            way.push(index);
            open.push(next(index).collect());
        }
    }
}

/// A request starts at one time: policies with a queue that could meet must share a group.
fn queues(policies: &[(Policy, Places)], errors: &mut Errors<'_>) {
    /// Beyond so many policies with queues it is not looked at who could meet whom: that would take minutes. They
    /// meet at the request then, which is refused as one with too many limits is.
    const MOST: usize = 1_000;
    let has_queue = |policy: &Policy| {
        let is_queue = |limit: &PolicyLimit| limit.named.limit().spec().queue.is_some();
        policy.options().mode == Mode::Enforce && policy.limits().iter().any(is_queue)
    };
    let with_queue: Vec<&(Policy, Places)> =
        policies.iter().filter(|(policy, _)| has_queue(policy)).take(MOST).collect();
    for (nth, (policy, places)) in with_queue.iter().enumerate() {
        let meets = |(other, _): &&&(Policy, Places)| can_meet(policy, other);
        if let Some((other, _)) = with_queue.iter().take(nth).find(meets) {
            let message = format!(
                "a request could meet the queues of `{}` and `{}`, and has one start only",
                other.name(),
                policy.name()
            );
            let hint = "give both the same `group`, or matches that no request fits at once";
            errors.add(places.name.clone(), Fault::new(code::QUEUES_MEET, message).hint(hint));
        }
    }
}

/// Whether both could apply to one request.
pub(super) fn can_meet(one: &Policy, other: &Policy) -> bool {
    let (a, b) = (one.options(), other.options());
    let apart = a.group.is_some() && a.group == b.group
        || a.replaces.contains(other.name())
        || b.replaces.contains(one.name());
    !apart && condition(one).can_meet(condition(other))
}

fn condition(policy: &Policy) -> &Match {
    policy.matches().unwrap_or_else(|| Match::any())
}
