//! One configuration after another: what stays, and what is lost by it.

use std::sync::Arc;

use ratekeeper_core::{Limit, Name};
use ratekeeper_policy::{Alternative, Config, KeyPart, KeySpec, Policy, PolicyLimit, StoreConfig, StoreKind};

use super::{AnyStore, Live, log_settings, stores};
use crate::telemetry::log::{Log, PolicyLog};

/// How many losses are told one by one: a file can have 10,000 policies, and nobody reads so many lines.
const MAX_NOTES: usize = 20;

impl Live {
    /// `config` at work after the present one, and what of the counts is lost by that. Stores of the same name and
    /// size stay, with all that has been used; limits that change are converted when their keys are asked for.
    ///
    /// # Errors
    /// If a store cannot be built, or cannot hold the limits of a policy. Then nothing has changed.
    pub(crate) fn followed_by(&self, config: Config) -> Result<(Self, Vec<String>), String> {
        let log = self.log.with(log_settings(config.log));
        let store = |store: &StoreConfig| Ok((store.name.clone(), self.store_for(store, &log)?));
        let stores = config.stores.iter().map(store);
        let stores: Vec<(Name, AnyStore)> = stores.collect::<Result<_, String>>()?;
        let losses = self.losses(&config);
        // Denials are sampled on as they were: a reload is no leave to write more of them.
        let policy_log = |policy: &Policy| match self.config.policy_index(policy.name().as_str()) {
            Some(index) => Arc::clone(&self.served[index].log),
            None => Arc::new(PolicyLog::new(policy.name())),
        };
        let metrics = self.metrics.reloaded(&config);
        let next = Self::new(config, stores, metrics, policy_log, &self.log, self.time.clone());
        next.prepare()?;
        Ok((next, losses))
    }

    fn store_for(&self, store: &StoreConfig, log: &Log) -> Result<AnyStore, String> {
        match self.config.stores.iter().position(|before| before == store) {
            Some(index) => {
                let same = self.stores[index].1.clone();
                if let Some(shared) = same.shared() {
                    shared.watch().tell_by(log);
                }
                Ok(same)
            }
            None => stores::build(store, self.time.moved(), log),
        }
    }

    /// What of the counts does not outlive the change to `next`, as far as both files know it by one name.
    fn losses(&self, next: &Config) -> Vec<String> {
        let mut losses = Vec::new();
        for store in &self.config.stores {
            match next.stores.iter().find(|other| other.name == store.name) {
                None if store.redis().is_some() => {
                    losses.push(format!("store `{}` is gone; its counts stay where it was", store.name));
                }
                None => losses.push(format!("store `{}` is gone, and its counts with it", store.name)),
                Some(other) => losses.extend(lost(store, other)),
            }
        }
        for (before, after) in self
            .config
            .policies
            .iter()
            .filter_map(|before| Some((before, next.policy(before.name().as_str())?)))
        {
            let name = before.name();
            if before.store() != after.store() {
                losses.push(format!(
                    "policy `{name}` is on store `{}` now: its counts begin anew",
                    after.store()
                ));
                continue;
            }
            let (mut of_policy, mut of_limits) = (false, Vec::new());
            for limit in before.limits() {
                let other = after.limits().iter().find(|other| other.named.name() == limit.named.name());
                let Some(other) = other else { continue };
                let limit_name = limit.named.name();
                if !is_counted_alike(limit.named.limit(), other.named.limit()) {
                    of_limits.push(format!(
                        "limit `{name}.{limit_name}` has another algorithm: its counts begin anew"
                    ));
                } else if by_key(before, limit) != by_key(after, other) {
                    if limit.key.is_none() && other.key.is_none() {
                        of_policy = true;
                    } else {
                        of_limits.push(format!(
                            "limit `{name}.{limit_name}` has another `key`: counts of other keys begin anew"
                        ));
                    }
                }
            }
            if of_policy {
                losses.push(format!("policy `{name}` has another `key`: counts of other keys begin anew"));
            }
            losses.append(&mut of_limits);
        }
        let prefix = next.client_ip.ipv6_prefix;
        if prefix != self.config.client_ip.ipv6_prefix && next.policies.iter().any(counts_by_address) {
            losses.push(format!(
                "IPv6 clients are told apart by /{prefix} now (client_ip.ipv6_prefix): their counts begin anew"
            ));
        }
        let more = losses.len().saturating_sub(MAX_NOTES);
        if more > 0 {
            losses.truncate(MAX_NOTES);
            losses.push(format!("and {more} more whose counts begin anew"));
        }
        losses
    }
}

/// What is lost of the counts of a store when it becomes another of its name.
fn lost(before: &StoreConfig, after: &StoreConfig) -> Option<String> {
    let name = &before.name;
    match (&before.kind, &after.kind) {
        _ if before == after => None,
        (StoreKind::Memory(_), StoreKind::Memory(_)) => {
            Some(format!("store `{name}` was resized: its counts begin anew"))
        }
        (StoreKind::Redis(before), StoreKind::Redis(after)) if stores::keeps_counts(before, after) => None,
        (StoreKind::Redis(_), StoreKind::Redis(_)) => {
            Some(format!("store `{name}` has another `url` or `prefix`: its counts begin anew"))
        }
        _ => Some(format!("store `{name}` is of another kind: its counts begin anew")),
    }
}

/// What a limit counts by.
fn by_key<'p>(policy: &'p Policy, limit: &'p PolicyLimit) -> Option<&'p [Alternative]> {
    limit.key.as_ref().or_else(|| policy.key()).map(KeySpec::alternatives)
}

/// Whether addresses are among what a policy counts by.
fn counts_by_address(policy: &Policy) -> bool {
    let keys = policy.key().into_iter().chain(policy.limits().iter().filter_map(|limit| limit.key.as_ref()));
    let mut parts = keys.flat_map(KeySpec::alternatives).flat_map(Alternative::parts);
    parts.any(|part| *part == KeyPart::Ip)
}

/// Whether what was used of one limit counts for the other, whatever their numbers.
fn is_counted_alike(before: &Limit, after: &Limit) -> bool {
    before.kind() == after.kind() && before.spec().queue.is_some() == after.spec().queue.is_some()
}
