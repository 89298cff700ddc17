//! A configuration at work: its stores, and what is told of their decisions. A reload puts another in its place.

use std::sync::Arc;

use ratekeeper::OnStoreError;
use ratekeeper_core::{Ask, Check, Key, Micros, Name, StoreError};
use ratekeeper_policy::{
    Act, Applied, Chance, Config, Exceptions, LogConfig, LogFormat, LogKeys, LogLevel, Override, Policy,
    PolicyLimit, StoreConfig,
};
use ratekeeper_sim::hints::nearest;

use crate::app::Time;
use crate::exceptions::Compiled;
use crate::telemetry::Protocol;
use crate::telemetry::log::{Format, Keys, Level, Log, LogSettings, PolicyLog, Request};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::metrics::exposition::{SharedSnapshot, StoreSnapshot};
use crate::transport::http::Texts;

mod deciding;
#[cfg(test)]
pub(crate) mod fake;
mod follow;
mod noted;
mod probing;
mod stores;
mod taken;
mod waiting;
mod watch;
mod ways;

pub(crate) use probing::PROBE_TIMEOUT;
pub(crate) use stores::{AnyStore, Shared, build_stores, connect, place, simulated};
pub(crate) use taken::Taken;
pub(crate) use watch::Watch;

/// Among how many policies the one is looked for that a misspelt name may have meant: the search takes up to thirty
/// microseconds a name, and anybody can ask for it.
const MAX_SEARCHED_NAMES: usize = 100;

/// A configuration at work. A request takes it once, at its beginning, and uses it to its end.
pub(crate) struct Live {
    config: Arc<Config>,
    stores: Arc<[(Name, AnyStore)]>,
    served: Arc<[Served]>,
    /// All limits of all policies lie in shared stores.
    always_waits: bool,
    metrics: Metrics,
    log: Log,
    chance: Arc<Chance>,
    time: Time,
    since: Micros,
    /// What is different for single keys for a while.
    exceptions: Compiled,
}

/// What is known of a policy before anybody asks.
struct Served {
    /// Which store decides it.
    store: usize,
    /// What becomes of its limits when that does not answer.
    on_error: OnStoreError,
    texts: Texts,
    /// The same for each override that changes limits.
    overrides: Vec<Option<Texts>>,
    log: Arc<PolicyLog>,
}

/// What is known of the request that is limited, for the log.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen<'a> {
    pub(crate) method: Option<&'a str>,
    /// Without the query: that is where secrets are.
    pub(crate) path: Option<&'a str>,
}

impl<'a> Seen<'a> {
    const fn request(&self) -> Request<'a> {
        Request { protocol: Protocol::Http, method: self.method, path: self.path, trace_id: None }
    }
}

impl Live {
    /// The first configuration of a process.
    ///
    /// # Errors
    /// If a store cannot be built.
    pub(crate) fn first(config: Config, log: &Log, time: Time) -> Result<Self, String> {
        let clock = time.clone();
        let build = |store: &StoreConfig, log: &Log| stores::build(store, clock.moved(), log);
        Self::first_with(config, &build, log, time)
    }

    /// The same with a stand-in for each shared store, by the names of both.
    #[cfg(test)]
    pub(crate) fn with_fakes(
        config: Config,
        fakes: &[(&str, Arc<fake::Fake>)],
        log: &Log,
        time: Time,
    ) -> Result<Self, String> {
        let build = |store: &StoreConfig, log: &Log| match fakes
            .iter()
            .find(|(name, _)| *name == store.name.as_str())
        {
            Some((name, fake)) => {
                let name = Name::new(name).expect("a name");
                Ok(AnyStore::Shared(Shared::fake(&name, Arc::clone(fake), log)))
            }
            None => stores::build(store, None, log),
        };
        Self::first_with(config, &build, log, time)
    }

    /// The same with stores from elsewhere.
    fn first_with(
        config: Config,
        build: &dyn Fn(&StoreConfig, &Log) -> Result<AnyStore, String>,
        log: &Log,
        time: Time,
    ) -> Result<Self, String> {
        let log = log.with(log_settings(config.log));
        let stores = config.stores.iter().map(|store| Ok((store.name.clone(), build(store, &log)?)));
        let stores = stores.collect::<Result<_, String>>()?;
        let metrics = Metrics::new(&config, time.now());
        let policy_log = |policy: &Policy| Arc::new(PolicyLog::new(policy.name()));
        Ok(Self::new(config, stores, metrics, policy_log, &log, time))
    }

    fn new(
        config: Config,
        stores: Vec<(Name, AnyStore)>,
        metrics: Metrics,
        policy_log: impl Fn(&Policy) -> Arc<PolicyLog>,
        log: &Log,
        time: Time,
    ) -> Self {
        let served = |policy: &Policy| {
            // The configuration is refused if a policy names a store that it does not have.
            let store = stores.iter().position(|(name, _)| name == policy.store()).unwrap_or(0);
            let of_override = |item: &Override| match item.act() {
                Act::Limits(limits) => Some(Texts::new(policy, limits)),
                Act::Action(_) => None,
            };
            Served {
                store,
                on_error: stores::on_store_error(policy.options().on_store_error),
                texts: Texts::new(policy, policy.limits()),
                overrides: policy.overrides().as_slice().iter().map(of_override).collect(),
                log: policy_log(policy),
            }
        };
        let served: Arc<[Served]> = config.policies.iter().map(served).collect();
        let is_shared = |of: &Served| stores.get(of.store).is_some_and(|(_, store)| store.shared().is_some());
        let always_waits = !served.is_empty() && served.iter().all(is_shared);
        let (log, since) = (log.with(log_settings(config.log)), time.now());
        Self {
            config: Arc::new(config),
            stores: stores.into(),
            served,
            always_waits,
            metrics,
            log,
            chance: Arc::new(Chance::new()),
            time,
            since,
            exceptions: Compiled::default(),
        }
    }

    /// The same configuration, counting together with this one, with other exceptions.
    pub(crate) fn with_exceptions(&self, exceptions: Compiled) -> Self {
        Self {
            config: Arc::clone(&self.config),
            stores: Arc::clone(&self.stores),
            served: Arc::clone(&self.served),
            always_waits: self.always_waits,
            metrics: self.metrics.clone(),
            log: self.log.clone(),
            chance: Arc::clone(&self.chance),
            time: self.time.clone(),
            since: self.since,
            exceptions,
        }
    }

    /// What is different for single keys.
    pub(crate) const fn exceptions(&self) -> &Compiled {
        &self.exceptions
    }

    /// Lets the stores meet every limit, so that the memory they need is reserved now and not at some request.
    ///
    /// # Errors
    /// If a store cannot hold the limits of a policy.
    pub(crate) fn prepare(&self) -> Result<(), String> {
        for (index, policy) in self.config.policies.iter().enumerate() {
            let overridden = policy.overrides().as_slice().iter().filter_map(|item| match item.act() {
                Act::Limits(limits) => Some(limits.as_slice()),
                Act::Action(_) => None,
            });
            for limits in core::iter::once(policy.limits()).chain(overridden) {
                self.hold(index, limits).map_err(|wrong| {
                    format!("cannot hold the limits of policy `{}`: {wrong}", policy.name())
                })?;
            }
        }
        Ok(())
    }

    /// Lets the store of policy number `policy` meet limits, so that it can tell them apart.
    ///
    /// # Errors
    /// If it has met too many.
    pub(crate) fn hold(&self, policy: usize, limits: &[PolicyLimit]) -> Result<(), StoreError> {
        // A look of cost 0 leaves nothing behind.
        let check = |limit| Check { limit, key: "".into(), cost: 0 };
        let checks: Vec<Check<'_>> = limits.iter().map(|limit| check(&limit.named)).collect();
        match self.store_of(policy) {
            _ if checks.is_empty() => Ok(()),
            AnyStore::Memory(memory) => memory.decide_now(&checks, Ask::Peek).map(drop),
            AnyStore::Shared(_) => Shared::hold(&checks),
        }
    }

    /// The configuration.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Since when it is at work.
    pub(crate) const fn since(&self) -> Micros {
        self.since
    }

    /// The stores, in the order of the configuration.
    pub(crate) fn stores(&self) -> &[(Name, AnyStore)] {
        &self.stores
    }

    /// The stores that a fleet shares, by their names.
    pub(crate) fn shared_stores(&self) -> impl Iterator<Item = (&Name, &Shared)> {
        self.stores.iter().filter_map(|(name, store)| Some((name, store.shared()?)))
    }

    /// Whether no check can be decided without waiting for a store.
    pub(crate) const fn always_waits(&self) -> bool {
        self.always_waits
    }

    /// What becomes of the limits of policy number `policy` when its store does not answer.
    pub(crate) fn on_error(&self, policy: usize) -> OnStoreError {
        self.served[policy].on_error
    }

    /// What is constant in the answers of a policy.
    pub(crate) fn texts(&self, applied: &Applied<'_>) -> &Texts {
        if let Some(texts) = applied.by_exception.and_then(|number| self.exceptions.texts(number)) {
            return texts;
        }
        let served = &self.served[applied.policy];
        let of_override = applied.by_override.and_then(|place| served.overrides.get(place)?.as_ref());
        of_override.unwrap_or(&served.texts)
    }

    /// The number of the store that decides policy number `policy`.
    pub(crate) fn store_number(&self, policy: usize) -> usize {
        self.served[policy].store
    }

    /// The store that decides policy number `policy`.
    pub(crate) fn store_of(&self, policy: usize) -> &AnyStore {
        &self.stores[self.served[policy].store].1
    }

    /// The process's clock.
    pub(crate) fn now(&self) -> Micros {
        self.time.now()
    }

    /// The policy that a misspelt name probably means.
    pub(crate) fn nearest_policy(&self, name: &str) -> Option<&str> {
        let names = self.config.policies.iter().take(MAX_SEARCHED_NAMES);
        nearest(name, names.map(|policy| policy.name().as_str()))
    }

    /// What the stores count, for the page of metrics.
    pub(crate) fn stores_snapshot(&self) -> Vec<StoreSnapshot> {
        let store = |(_, store): &(Name, AnyStore)| match store {
            AnyStore::Memory(store) => StoreSnapshot {
                keys: store.keys(),
                overflow_decisions: store.overflow_decisions(),
                shared: None,
            },
            AnyStore::Shared(shared) => {
                let (status, counts, watch) = (shared.status(), shared.counts(), Arc::clone(shared.watch()));
                StoreSnapshot { shared: Some(SharedSnapshot { status, counts, watch }), ..Default::default() }
            }
        };
        self.stores.iter().map(store).collect()
    }

    /// Counts an answer of the HTTP listener.
    pub(crate) fn answered(&self, status: u16) {
        self.metrics.answered(Protocol::Http, status);
    }

    /// What is counted.
    pub(crate) const fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What spreads answers that would bring everybody back together.
    pub(crate) fn chance(&self) -> &Chance {
        &self.chance
    }

    /// What is told.
    pub(crate) const fn log(&self) -> &Log {
        &self.log
    }
}

impl Exceptions for Live {
    fn find(&self, policy: usize, key: &Key<'_>) -> Option<(usize, &Act)> {
        if self.exceptions.is_empty() {
            return None;
        }
        self.exceptions.find(policy, key, || self.now())
    }
}

/// The words of the configuration as the log's own.
pub(crate) const fn log_settings(config: LogConfig) -> LogSettings {
    LogSettings {
        format: match config.format {
            LogFormat::Text => Format::Text,
            LogFormat::Json => Format::Json,
        },
        level: match config.level {
            LogLevel::Error => Level::Error,
            LogLevel::Warn => Level::Warn,
            LogLevel::Info => Level::Info,
            LogLevel::Debug => Level::Debug,
        },
        keys: match config.keys {
            LogKeys::Hash => Keys::Hash,
            LogKeys::Plain => Keys::Plain,
            LogKeys::Off => Keys::Off,
        },
        denied_per_second: config.denied_per_second,
    }
}
