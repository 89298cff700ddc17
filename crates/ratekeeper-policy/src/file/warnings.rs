//! What can be used, but is hardly meant so: a warning of each kind at most for a policy.

use std::collections::HashMap;

use ratekeeper_core::Name;

use super::errors::Errors;
use super::relations::{Places, can_meet};
use super::stores::Stores;
use crate::fault::{Fault, code};
use crate::key::{Alternative, KeyPart, KeySpec};
use crate::options::{MissingKey, Mode};
use crate::policy::{Policy, PolicyLimit};

/// Headers in which a client says what it likes, and that are known to be taken for more.
const INVENTED_HEADERS: [&str; 9] = [
    "accept-language",
    "client-ip",
    "forwarded",
    "referer",
    "true-client-ip",
    "user-agent",
    "x-client-ip",
    "x-forwarded-for",
    "x-real-ip",
];
/// Those of them that say an address.
const ADDRESS_HEADERS: [&str; 6] =
    ["client-ip", "forwarded", "true-client-ip", "x-client-ip", "x-forwarded-for", "x-real-ip"];

/// The least window that fields in whole seconds can tell the truth about.
const SECOND_US: u64 = 1_000_000;

/// Warns of what each policy says, and of those that another leaves nothing to do.
pub(super) fn warn(policies: &[(Policy, Places)], stores: &Stores, errors: &mut Errors<'_>) {
    let mut first_of_all: HashMap<&Name, &Policy> = HashMap::new();
    for (policy, places) in policies {
        if policy.options().mode != Mode::Off {
            keys(policy, places, errors);
            finer_than_seconds(policy, places, errors);
            never_applies(policy, places, &mut first_of_all, errors);
        }
    }
    stores_meet(policies, stores, errors);
}

fn keys(policy: &Policy, places: &Places, errors: &mut Errors<'_>) {
    let own = policy.limits().iter().filter_map(|limit| limit.key.as_ref());
    let is_used = policy.limits().iter().any(|limit| limit.key.is_none());
    let specs = || policy.key().filter(|_| is_used).into_iter().chain(own.clone());
    let place = || places.key.clone().unwrap_or_else(|| places.name.clone());
    if let Some(part) = specs().flat_map(KeySpec::alternatives).find_map(invented) {
        let message = format!("clients choose `{part}` themselves, a new one for each request if they like");
        let hint = match part {
            KeyPart::Header(name) if ADDRESS_HEADERS.contains(&&**name) => {
                "use `ip`, and say in `client_ip` which proxies are believed"
            }
            _ => "put something beside it that they cannot choose: `[[ip, …]]`, or a limit by `ip`",
        };
        errors.warn(place(), Fault::new(code::INVENTED_KEY, message).hint(hint));
        return;
    }
    // A policy that says what becomes of requests without a key has thought of them.
    if places.says_missing_key || policy.options().missing_key != MissingKey::Skip {
        return;
    }
    let lacking = |spec: &KeySpec| spec.alternatives().last().and_then(absent);
    if let Some(part) = specs().find_map(lacking) {
        let message = format!("a request without `{part}` has no key, and this policy does not limit it");
        let hint = "say so with `missing_key: skip`, or write `shared`, `reject`, or another alternative";
        errors.warn(place(), Fault::new(code::MISSING_KEY, message).hint(hint));
    }
}

/// A part that whoever asks can choose freely, if nothing else is beside it.
fn invented(alternative: &Alternative) -> Option<&KeyPart> {
    let is_free = |part: &&KeyPart| match part {
        KeyPart::Header(name) => INVENTED_HEADERS.contains(&&**name),
        _ => false,
    };
    if alternative.parts().iter().all(|part| is_free(&part)) { alternative.parts().first() } else { None }
}

/// A part that a request can do without.
fn absent(alternative: &Alternative) -> Option<KeyPart> {
    let can_be_absent =
        |part: &&KeyPart| matches!(part, KeyPart::Header(_) | KeyPart::Cookie(_) | KeyPart::Query(_));
    alternative.parts().iter().find(can_be_absent).cloned()
}

fn finer_than_seconds(policy: &Policy, places: &Places, errors: &mut Errors<'_>) {
    let is_fine = |limit: &&PolicyLimit| limit.named.limit().spec().window_us < SECOND_US;
    if let Some(limit) = policy.limits().iter().find(is_fine) {
        let message = format!(
            "limit `{}` is finer than header fields can say, which count whole seconds",
            limit.name()
        );
        let hint = "clients that obey them wait up to a second; `retry_after_ms` is exact";
        errors.warn(places.name.clone(), Fault::new(code::FINER_THAN_SECONDS, message).hint(hint));
    }
}

/// Of a group only the first that applies counts.
fn never_applies<'p>(
    policy: &'p Policy,
    places: &Places,
    first_of_all: &mut HashMap<&'p Name, &'p Policy>,
    errors: &mut Errors<'_>,
) {
    let Some(group) = &policy.options().group else { return };
    if let Some(first) = first_of_all.get(group) {
        let message = format!(
            "`{}` never applies: `{}`, before it in group `{group}`, takes every request",
            policy.name(),
            first.name()
        );
        let hint = "the first of a group that fits is the one: put the general ones last";
        errors.warn(places.name.clone(), Fault::new(code::NEVER_APPLIES, message).hint(hint));
        return;
    }
    let always_has_key = |spec: &KeySpec| spec.alternatives().last().and_then(absent).is_none();
    let asks = policy.options().action.is_some()
        || policy.options().missing_key != MissingKey::Skip
        || policy
            .limits()
            .iter()
            .any(|limit| limit.key.as_ref().or_else(|| policy.key()).is_some_and(always_has_key));
    if policy.matches().is_none() && policy.options().mode == Mode::Enforce && asks {
        first_of_all.insert(group, policy);
    }
}

/// What one request asks of several stores is not one decision if one of them is elsewhere.
fn stores_meet(policies: &[(Policy, Places)], stores: &Stores, errors: &mut Errors<'_>) {
    /// Beyond so many policies it is not looked at who could meet whom, which takes the square of the time. Those
    /// before them have said it by then.
    const MOST: usize = 500;
    let Stores::Known(stores) = stores else { return };
    if stores.len() < 2 || stores.iter().all(|store| store.redis().is_none()) {
        return;
    }
    let is_elsewhere = |name: &Name| stores.iter().any(|s| s.name == *name && s.redis().is_some());
    let asks = |policy: &Policy| policy.options().mode != Mode::Off && !policy.limits().is_empty();
    let asking: Vec<(&Policy, &Places, bool)> = policies
        .iter()
        .filter(|(policy, _)| asks(policy))
        .take(MOST)
        .map(|(policy, places)| (policy, places, is_elsewhere(policy.store())))
        .collect();
    for (nth, (policy, places, elsewhere)) in asking.iter().enumerate() {
        let meets = |(other, _, other_elsewhere): &&(&Policy, &Places, bool)| {
            other.store() != policy.store() && (*elsewhere || *other_elsewhere) && can_meet(policy, other)
        };
        if let Some((other, ..)) = asking.iter().take(nth).find(meets) {
            let message = format!(
                "a request could meet `{}` on store `{}` and `{}` on store `{}`, which do not decide together",
                other.name(),
                other.store(),
                policy.name(),
                policy.store()
            );
            let hint = "one is asked after the other, and undone if that refuses: use one `store`, or matches that no request fits at once";
            errors.warn(places.name.clone(), Fault::new(code::STORES_MEET, message).hint(hint));
        }
    }
}
