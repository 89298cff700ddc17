//! Where counts are kept: in the memory of the process, and in stores that a fleet shares.

use std::sync::Arc;
use std::time::Duration;

use ratekeeper::{
    BuildError, Demand, MemoryStore, OnFull, OnStoreError, Probe, RedisStore, SharedStore, StoreCounts,
    StoreObserver, StoreStatus,
};
use ratekeeper_core::{
    Check, Decision, MIN_SHARED_WINDOW, ManualClock, Name, StoreError, StoreUrl, Topology,
};
use ratekeeper_policy::{Config, MemoryConfig, RedisConfig, StoreConfig, StoreKind};

#[cfg(test)]
use super::fake::Fake;
use super::taken::{Held, Ticket};
use super::watch::Watch;
use crate::telemetry::log::Log;

/// A store of either kind. Clones are the same store.
#[derive(Clone)]
pub(crate) enum AnyStore {
    /// In this process: it answers at once.
    Memory(MemoryStore),
    /// Shared by a fleet: it is waited for.
    Shared(Shared),
}

/// A store that a fleet shares, with what we know of it ourselves.
#[derive(Clone)]
pub(crate) struct Shared {
    store: Backend,
    /// How long it may take to answer.
    timeout: Duration,
    /// What it is and where, for people: `redis 127.0.0.1:6379`. Nobody's name or password.
    place: Arc<str>,
    watch: Arc<Watch>,
}

#[derive(Clone)]
enum Backend {
    Store(SharedStore),
    #[cfg(test)]
    Fake(Arc<Fake>),
}

impl AnyStore {
    /// The store, if it answers at once.
    pub(crate) const fn memory(&self) -> Option<&MemoryStore> {
        match self {
            Self::Memory(memory) => Some(memory),
            Self::Shared(_) => None,
        }
    }

    /// The store, if it is waited for.
    pub(crate) const fn shared(&self) -> Option<&Shared> {
        match self {
            Self::Memory(_) => None,
            Self::Shared(shared) => Some(shared),
        }
    }

    /// How many more different limits it can tell apart.
    pub(crate) fn distinct_limits_left(&self) -> usize {
        self.memory().map_or(usize::MAX, MemoryStore::distinct_limits_left)
    }
}

impl Shared {
    /// How long it may take if there is so much time left.
    pub(super) fn within(&self, left: Duration) -> Duration {
        self.timeout.min(left)
    }

    /// How long it may take to answer.
    pub(crate) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// What it is and where.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// What it is, where, and how, in words.
    pub(crate) fn told(&self) -> String {
        let StoreStatus { is_up, breaker_is_open, last_error, round_trip, server, .. } = self.status();
        let mut text = self.place.to_string();
        if let Some(server) = server {
            text.push_str(&format!(", {server}"));
        }
        if is_up {
            text.push_str(", up");
            if let Some(took) = round_trip {
                text.push_str(&format!(", round trip {took:.1?}"));
            }
        } else {
            text.push_str(", down");
            if let Some(why) = last_error {
                text.push_str(&format!(": {why}"));
            }
        }
        if breaker_is_open {
            text.push_str(", not asked for a moment");
        }
        text
    }

    /// What is seen of it.
    pub(crate) const fn watch(&self) -> &Arc<Watch> {
        &self.watch
    }

    /// Whether it can hold the limits of `checks`.
    ///
    /// # Errors
    /// If one has too short a window.
    pub(super) fn hold(checks: &[Check<'_>]) -> Result<(), StoreError> {
        let is_short = |check: &Check<'_>| check.limit.limit().window() < MIN_SHARED_WINDOW;
        if checks.iter().any(is_short) { Err(StoreError::WindowTooShort) } else { Ok(()) }
    }

    pub(super) async fn decide_batch(
        &self,
        demands: &[Demand<'_>],
        within: Duration,
    ) -> Vec<Result<Decision, StoreError>> {
        match &self.store {
            Backend::Store(store) => store.decide_batch(demands, within).await,
            #[cfg(test)]
            Backend::Fake(fake) => fake.decide_batch(demands).await,
        }
    }

    pub(super) async fn decide(&self, demand: Demand<'_>, within: Duration) -> Result<Decision, StoreError> {
        match &self.store {
            Backend::Store(store) => store.decide(demand, within).await,
            #[cfg(test)]
            Backend::Fake(fake) => fake.decide(demand).await,
        }
    }

    pub(super) async fn reserve(
        &self,
        demand: Demand<'_>,
        within: Duration,
    ) -> Result<(Decision, Option<Held>), StoreError> {
        let (decision, ticket) = match &self.store {
            Backend::Store(store) => {
                let (decision, reservation) = store.reserve(demand, within).await?;
                (decision, reservation.map(Ticket::Store))
            }
            #[cfg(test)]
            Backend::Fake(fake) => {
                let (decision, reservation) = fake.reserve(demand).await?;
                (decision, reservation.map(Ticket::Fake))
            }
        };
        Ok((decision, ticket.map(|ticket| Held::new(ticket, self.timeout))))
    }

    /// Forgets keys.
    ///
    /// # Errors
    /// If the store does not answer.
    pub(super) async fn reset(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
        match &self.store {
            Backend::Store(store) => store.reset(checks, self.timeout).await,
            #[cfg(test)]
            Backend::Fake(fake) => fake.reset(checks).await,
        }
    }

    /// Asks whether it can serve.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) async fn probe(&self, within: Duration) -> Result<Probe, StoreError> {
        match &self.store {
            Backend::Store(store) => store.probe(within).await,
            #[cfg(test)]
            Backend::Fake(fake) => fake.probe(),
        }
    }

    /// How it is.
    pub(crate) fn status(&self) -> StoreStatus {
        match &self.store {
            Backend::Store(store) => store.status(),
            #[cfg(test)]
            Backend::Fake(fake) => fake.status(),
        }
    }

    /// What it has counted.
    pub(crate) fn counts(&self) -> StoreCounts {
        match &self.store {
            Backend::Store(store) => store.counts(),
            #[cfg(test)]
            Backend::Fake(_) => StoreCounts::default(),
        }
    }

    /// Is said to a store that stands for one.
    #[cfg(test)]
    pub(super) fn fake(name: &Name, fake: Arc<Fake>, log: &Log) -> Self {
        let watch = Arc::new(Watch::new(name, Some(log)));
        Self { store: Backend::Fake(fake), timeout: Duration::from_millis(50), place: "fake".into(), watch }
    }
}

/// The words of the configuration as the store's own.
pub(super) const fn on_store_error(word: ratekeeper_policy::OnStoreError) -> OnStoreError {
    match word {
        ratekeeper_policy::OnStoreError::Local => OnStoreError::Local,
        ratekeeper_policy::OnStoreError::Allow => OnStoreError::Allow,
        ratekeeper_policy::OnStoreError::Deny => OnStoreError::Deny,
    }
}

/// The store of a configuration, on `clock` or on the process's own. Nobody is asked yet.
///
/// # Errors
/// If it cannot be built.
pub(super) fn build(store: &StoreConfig, clock: Option<&ManualClock>, log: &Log) -> Result<AnyStore, String> {
    let cannot = |wrong: BuildError| format!("cannot build store `{}`: {wrong}", store.name);
    match &store.kind {
        StoreKind::Memory(memory) => build_memory(memory, clock).map(AnyStore::Memory).map_err(cannot),
        StoreKind::Redis(redis) => {
            connect(&store.name, redis, Some(log)).map(AnyStore::Shared).map_err(cannot)
        }
    }
}

/// The only place that makes a shared store: nobody is asked yet, and nothing is waited for.
///
/// # Errors
/// If it cannot be built.
pub(crate) fn connect(name: &Name, redis: &RedisConfig, log: Option<&Log>) -> Result<Shared, BuildError> {
    let watch = Arc::new(Watch::new(name, log));
    let observer = Arc::clone(&watch) as Arc<dyn StoreObserver>;
    let password = redis.password.as_ref().map(|password| password.expose());
    let plain = RedisStore::builder(redis.url.clone())
        .timeout(redis.timeout)
        .prefix(&redis.prefix)
        .credentials(redis.username.as_deref(), password)
        .observer(observer)
        .direct(true)
        .build()?;
    let store = SharedStore::builder(plain).instances(redis.instances).build()?;
    let place = place(&redis.url).into();
    Ok(Shared { store: Backend::Store(store), timeout: redis.timeout, place, watch })
}

/// The only place that makes the store of a simulation.
///
/// # Errors
/// If it cannot be built.
pub(crate) fn simulated(url: &StoreUrl, clock: ManualClock) -> Result<RedisStore, BuildError> {
    RedisStore::builder(url.clone()).simulated(clock)
}

/// What a store is and where, for people: `redis 127.0.0.1:6379`. Nobody's name or password.
pub(crate) fn place(url: &StoreUrl) -> String {
    let kind = match url.topology() {
        Topology::Standalone => "redis",
        Topology::Sentinel => "redis by sentinels",
        Topology::Cluster => "redis cluster",
    };
    let host = |(host, port): &(String, u16)| match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    };
    let hosts: Vec<String> = url.hosts().iter().map(host).collect();
    format!("{kind} {}", hosts.join(","))
}

/// Whether `next` keeps the counts of the shared store `before`.
pub(super) fn keeps_counts(before: &RedisConfig, next: &RedisConfig) -> bool {
    let (a, b) = (&before.url, &next.url);
    // Another password, or another way there, leads to the same counts.
    (a.topology(), a.hosts(), a.master(), a.database()) == (b.topology(), b.hosts(), b.master(), b.database())
        && before.prefix == next.prefix
}

fn build_memory(memory: &MemoryConfig, clock: Option<&ManualClock>) -> Result<MemoryStore, BuildError> {
    let on_full = match memory.on_full {
        ratekeeper_policy::OnFull::Share => OnFull::Share,
        ratekeeper_policy::OnFull::Deny => OnFull::Deny,
    };
    let built = MemoryStore::builder().max_keys(memory.max_keys).max_bytes(memory.max_bytes).on_full(on_full);
    match clock {
        Some(clock) => built.clock(clock.clone()).build(),
        None => built.build(),
    }
}

/// Stores in memory for the policies of a configuration, wherever it keeps counts: nobody else is asked.
///
/// # Errors
/// If a store cannot be built.
pub(crate) fn build_stores(
    config: &Config,
    clock: Option<&ManualClock>,
) -> Result<Vec<(Name, MemoryStore)>, BuildError> {
    let memory = |store: &StoreConfig| store.memory().copied().unwrap_or_default();
    config.stores.iter().map(|store| Ok((store.name.clone(), build_memory(&memory(store), clock)?))).collect()
}
