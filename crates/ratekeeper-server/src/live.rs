//! A configuration at work: its stores, and what is told of their decisions. A reload puts another in its place.

use std::sync::Arc;
use std::time::Duration;

use ratekeeper::{BuildError, MemoryStore, OnFull, Question, Reservation};
use ratekeeper_core::{Ask, Check, Decision, ManualClock, Micros, Name, StoreError};
use ratekeeper_policy::{Config, LogConfig, LogFormat, LogKeys, LogLevel, Policy, StoreConfig};
use ratekeeper_sim::hints::nearest;

use crate::app::Time;
use crate::telemetry::Protocol;
use crate::telemetry::log::{Decided, Format, Keys, Level, Log, LogSettings, PolicyLog, Request};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::metrics::exposition::StoreSnapshot;
use crate::transport::http::Texts;

mod follow;

/// Among how many policies the one is looked for that a misspelt name may have meant: the search takes up to thirty
/// microseconds a name, and anybody can ask for it.
const MAX_SEARCHED_NAMES: usize = 100;

/// A configuration at work. A request takes it once, at its beginning, and uses it to its end.
pub(crate) struct Live {
    config: Config,
    stores: Vec<(Name, MemoryStore)>,
    served: Vec<Served>,
    metrics: Metrics,
    log: Log,
    time: Time,
    since: Micros,
}

/// What is known of a policy before anybody asks.
struct Served {
    /// Which store decides it.
    store: usize,
    texts: Texts,
    log: Arc<PolicyLog>,
}

/// A question about a policy, all its keys known.
pub(crate) struct Asked<'a> {
    /// Which policy of the configuration.
    pub(crate) policy: usize,
    pub(crate) checks: &'a [Check<'a>],
    pub(crate) ask: Ask,
}

impl Live {
    /// The first configuration of a process.
    ///
    /// # Errors
    /// If a store cannot be built.
    pub(crate) fn first(config: Config, log: &Log, time: Time) -> Result<Self, String> {
        let stores =
            build_stores(&config, time.moved()).map_err(|wrong| format!("cannot build a store: {wrong}"))?;
        let metrics = Metrics::new(&config, time.now());
        let policy_log = |policy: &Policy| Arc::new(PolicyLog::new(policy.name()));
        Ok(Self::new(config, stores, metrics, policy_log, log, time))
    }

    fn new(
        config: Config,
        stores: Vec<(Name, MemoryStore)>,
        metrics: Metrics,
        policy_log: impl Fn(&Policy) -> Arc<PolicyLog>,
        log: &Log,
        time: Time,
    ) -> Self {
        let served = |policy: &Policy| {
            // The configuration is refused if a policy names a store that it does not have.
            let store = stores.iter().position(|(name, _)| name == policy.store()).unwrap_or(0);
            Served { store, texts: Texts::new(policy), log: policy_log(policy) }
        };
        let served = config.policies.iter().map(served).collect();
        let (log, since) = (log.with(log_settings(config.log)), time.now());
        Self { config, stores, served, metrics, log, time, since }
    }

    /// Lets the stores meet every limit, so that the memory they need is reserved now and not at some request.
    ///
    /// # Errors
    /// If a store cannot hold the limits of a policy.
    pub(crate) fn prepare(&self) -> Result<(), String> {
        for (index, policy) in self.config.policies.iter().enumerate() {
            // A look of cost 0 leaves nothing behind.
            let limits = policy.limits().iter();
            let checks: Vec<Check<'_>> =
                limits.map(|limit| Check { limit: &limit.named, key: "".into(), cost: 0 }).collect();
            if let Err(wrong) = self.store_of(index).decide_now(&checks, Ask::Peek) {
                return Err(format!("cannot hold the limits of policy `{}`: {wrong}", policy.name()));
            }
        }
        Ok(())
    }

    /// The configuration.
    pub(crate) const fn config(&self) -> &Config {
        &self.config
    }

    /// Since when it is at work.
    pub(crate) const fn since(&self) -> Micros {
        self.since
    }

    /// The stores, in the order of the configuration.
    pub(crate) fn stores(&self) -> &[(Name, MemoryStore)] {
        &self.stores
    }

    /// What is constant in the answers of policy number `policy`.
    pub(crate) fn texts(&self, policy: usize) -> &Texts {
        &self.served[policy].texts
    }

    /// The store that decides policy number `policy`.
    pub(crate) fn store_of(&self, policy: usize) -> &MemoryStore {
        &self.stores[self.served[policy].store].1
    }

    /// The process's clock.
    pub(crate) fn now(&self) -> Micros {
        self.time.now()
    }

    /// Decides questions in their order, each all or nothing; those that follow one another in one store
    /// together, so that their waits for memory overlap.
    pub(crate) fn decide_batch(&self, asked: &[Asked<'_>]) -> Vec<Result<Decision, StoreError>> {
        let store_of = |asked: &Asked<'_>| self.served[asked.policy].store;
        let mut decisions = Vec::with_capacity(asked.len());
        for run in asked.chunk_by(|a, b| store_of(a) == store_of(b)) {
            let store = store_of(&run[0]);
            let questions: Vec<Question<'_>> =
                run.iter().map(|asked| Question { checks: asked.checks, ask: asked.ask }).collect();
            decisions.extend(self.timed(store, |store| store.decide_batch(&questions)));
        }
        decisions
    }

    /// Decides one question about policy number `policy`.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) fn decide(
        &self,
        policy: usize,
        checks: &[Check<'_>],
        ask: Ask,
    ) -> Result<Decision, StoreError> {
        self.timed(self.served[policy].store, |store| store.decide_now(checks, ask))
    }

    /// Takes what policy number `policy` is asked for in a way that can be settled.
    ///
    /// # Errors
    /// If the store cannot answer.
    pub(crate) fn reserve(
        &self,
        policy: usize,
        checks: &[Check<'_>],
    ) -> Result<(Decision, Option<Reservation>), StoreError> {
        self.timed(self.served[policy].store, |store| store.reserve_now(checks))
    }

    /// Asks store number `store`, and notes how long it took.
    fn timed<T>(&self, store: usize, ask: impl FnOnce(&MemoryStore) -> T) -> T {
        let started = self.now();
        let answer = ask(&self.stores[store].1);
        let took = Duration::from_micros(self.now().get().saturating_sub(started.get()));
        self.metrics.decision_took(store, took);
        answer
    }

    /// The policy that a misspelt name probably means.
    pub(crate) fn nearest_policy(&self, name: &str) -> Option<&str> {
        let names = self.config.policies.iter().take(MAX_SEARCHED_NAMES);
        nearest(name, names.map(|policy| policy.name().as_str()))
    }

    /// Counts a decision that took units or was refused them, and tells of refusals. Looks are no decisions.
    pub(crate) fn note(&self, policy: usize, checks: &[Check<'_>], decision: &Decision) {
        if let Some(metrics) = self.metrics.policy(policy) {
            metrics.decided(decision);
        }
        let request = Request { protocol: Protocol::Http, method: None, path: None, trace_id: None };
        let decided = Decided { checks, decision, mode: "enforce", request };
        self.log.decided(&self.served[policy].log, &decided);
    }

    /// What the stores count, for the page of metrics.
    pub(crate) fn stores_snapshot(&self) -> Vec<StoreSnapshot> {
        let store = |(_, store): &(Name, MemoryStore)| StoreSnapshot {
            keys: store.keys(),
            overflow_decisions: store.overflow_decisions(),
            is_up: true,
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

    /// What is told.
    pub(crate) const fn log(&self) -> &Log {
        &self.log
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

/// The stores of a configuration, on `clock` or on the process's own.
///
/// # Errors
/// If a store cannot be built.
pub(crate) fn build_stores(
    config: &Config,
    clock: Option<&ManualClock>,
) -> Result<Vec<(Name, MemoryStore)>, BuildError> {
    config.stores.iter().map(|store| Ok((store.name.clone(), build_store(store, clock)?))).collect()
}

fn build_store(store: &StoreConfig, clock: Option<&ManualClock>) -> Result<MemoryStore, BuildError> {
    let on_full = match store.memory.on_full {
        ratekeeper_policy::OnFull::Share => OnFull::Share,
        ratekeeper_policy::OnFull::Deny => OnFull::Deny,
    };
    let memory = MemoryStore::builder()
        .max_keys(store.memory.max_keys)
        .max_bytes(store.memory.max_bytes)
        .on_full(on_full);
    match clock {
        Some(clock) => memory.clock(clock.clone()).build(),
        None => memory.build(),
    }
}
