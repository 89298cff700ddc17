//! Numbers about a server for Prometheus. Their names are API: `docs/metrics.md` has the list.
//!
//! Every series follows from the configuration and is there from the start: a policy holds its counters by the
//! index of its limits, and counting is one relaxed addition to each of two of them. Nothing that a caller
//! sends becomes a label, so there is nothing to look up, to lock or to make.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use ratekeeper_core::{Decision, Micros, Name, Source};
use ratekeeper_policy::{Action, Config, Mode, Policy, PolicyLimit};

use super::{Listener, Protocol};
use histogram::Histogram;

pub(crate) mod exposition;
mod histogram;
mod operations;
mod process;

pub(crate) use operations::Operations;

/// The numbers of a configuration at work. Clones count together.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    series: Arc<Series>,
}

#[derive(Debug)]
struct Series {
    policies: Vec<PolicyMetrics>,
    stores: Vec<StoreMetrics>,
    sha: Box<str>,
    shared: Arc<Shared>,
}

/// What no configuration owns.
#[derive(Debug, Default)]
struct Shared {
    requests: [[AtomicU64; CODES.len() + 1]; Protocol::ALL.len()],
    connections: [AtomicU64; Listener::ALL.len()],
    reload_failed: AtomicBool,
    loaded_at_us: AtomicU64,
}

/// The statuses that this server answers with. Others, should there be some, are counted together.
const CODES: [u16; 17] =
    [200, 204, 400, 401, 403, 404, 405, 408, 409, 410, 413, 415, 422, 429, 431, 500, 503];
/// What the others are called.
const OTHER_CODES: &str = "other";

/// What became of a request.
#[derive(Clone, Copy)]
enum Answer {
    Allowed,
    Denied,
    Delayed,
    /// It would have been denied, had the policy been enforced.
    ShadowDenied,
}

impl Answer {
    const ALL: [Self; 4] = [Self::Allowed, Self::Denied, Self::Delayed, Self::ShadowDenied];

    const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Delayed => "delayed",
            Self::ShadowDenied => "shadow_denied",
        }
    }
}

/// What becomes of a request for which a policy asks no limit, as the page calls it.
const ACTIONS: [&str; 3] = ["denied", "bypassed", "shadow_denied"];

/// How an answer can be reached: the first two ways are those of a memory store.
const SOURCES: [Source; 6] = [
    Source::Exact,
    Source::Overflow,
    Source::Cached,
    Source::Local,
    Source::FailedOpen,
    Source::FailedClosed,
];
/// How many of them a memory store has.
const MEMORY_SOURCES: usize = 2;

/// The numbers of a policy.
#[derive(Debug)]
pub(crate) struct PolicyMetrics {
    name: Name,
    limits: Box<[(Name, Arc<Answers>)]>,
    sources: Arc<[AtomicU64; SOURCES.len()]>,
    /// How many of those its store has: the others are not shown.
    sources_shown: usize,
    /// Requests for which no limit was asked.
    actions: Arc<[AtomicU64; ACTIONS.len()]>,
    /// Only a policy with a queue delays.
    delay: Option<Arc<Histogram>>,
}

/// The decisions that one limit was the binding one of.
type Answers = [AtomicU64; Answer::ALL.len()];

#[derive(Debug)]
struct StoreMetrics {
    name: Name,
    took: Arc<Histogram>,
}

impl Metrics {
    /// All series of `config`, which is at work from `now` on, at zero.
    pub(crate) fn new(config: &Config, now: Micros) -> Self {
        let shared = Arc::<Shared>::default();
        shared.loaded_at_us.store(now.get(), Ordering::Relaxed);
        Self::build(config, shared, &HashMap::new(), &HashMap::new())
    }

    /// The series of `config`, which is to follow the present one. What both have, by its names, goes on counting;
    /// who still holds the old ones counts for both.
    pub(crate) fn reloaded(&self, config: &Config) -> Self {
        let Series { policies, stores, shared, .. } = &*self.series;
        let policies = policies.iter().map(|policy| (policy.name.as_str(), policy)).collect();
        let stores = stores.iter().map(|store| (store.name.as_str(), store)).collect();
        Self::build(config, Arc::clone(shared), &policies, &stores)
    }

    fn build(
        config: &Config,
        shared: Arc<Shared>,
        policies: &HashMap<&str, &PolicyMetrics>,
        stores: &HashMap<&str, &StoreMetrics>,
    ) -> Self {
        let policy = |policy: &Policy| {
            let store = config.stores.iter().find(|store| store.name == *policy.store());
            let is_shared = store.is_some_and(|store| store.redis().is_some());
            PolicyMetrics::new(policy, is_shared, policies.get(policy.name().as_str()).copied())
        };
        let store = |name: &Name| StoreMetrics {
            name: name.clone(),
            took: stores
                .get(name.as_str())
                .map_or_else(|| Arc::new(Histogram::of_decisions()), |before| Arc::clone(&before.took)),
        };
        let series = Series {
            policies: config.policies.iter().map(policy).collect(),
            stores: config.stores.iter().map(|config| store(&config.name)).collect(),
            sha: config.source_sha().into(),
            shared,
        };
        Self { series: Arc::new(series) }
    }

    /// The numbers of the configuration's policy number `index`, if there is one.
    #[inline]
    pub(crate) fn policy(&self, index: usize) -> Option<&PolicyMetrics> {
        self.series.policies.get(index)
    }

    /// A request was answered with `status`.
    #[inline]
    pub(crate) fn answered(&self, protocol: Protocol, status: u16) {
        let code = CODES.iter().position(|code| *code == status).unwrap_or(CODES.len());
        add(&self.series.shared.requests[protocol as usize][code]);
    }

    /// The configuration's store number `index` took that long to decide.
    #[inline]
    pub(crate) fn decision_took(&self, index: usize, took: Duration) {
        if let Some(store) = self.series.stores.get(index) {
            store.took.observe(took);
        }
    }

    /// A connection was accepted; it is open until the value is dropped.
    pub(crate) fn connected(&self, listener: Listener) -> Connection {
        add(&self.series.shared.connections[listener as usize]);
        Connection { shared: Arc::clone(&self.series.shared), listener }
    }

    /// The configuration of these series is at work from `now` on.
    pub(crate) fn reload_succeeded(&self, now: Micros) {
        self.series.shared.loaded_at_us.store(now.get(), Ordering::Relaxed);
        self.series.shared.reload_failed.store(false, Ordering::Relaxed);
    }

    /// A configuration was refused; the one before stays at work.
    pub(crate) fn reload_failed(&self) {
        self.series.shared.reload_failed.store(true, Ordering::Relaxed);
    }
}

impl PolicyMetrics {
    fn new(policy: &Policy, is_shared: bool, before: Option<&Self>) -> Self {
        let limit = |limit: &PolicyLimit| {
            let name = limit.named.name();
            let same = before.and_then(|before| before.limits.iter().find(|(other, _)| other == name));
            (name.clone(), same.map(|(_, answers)| Arc::clone(answers)).unwrap_or_default())
        };
        let has_queue = policy.limits().iter().any(|limit| limit.named.limit().spec().queue.is_some());
        let delay = before.and_then(|before| before.delay.clone());
        Self {
            name: policy.name().clone(),
            limits: policy.limits().iter().map(limit).collect(),
            sources: before.map(|before| Arc::clone(&before.sources)).unwrap_or_default(),
            sources_shown: if is_shared { SOURCES.len() } else { MEMORY_SOURCES },
            actions: before.map(|before| Arc::clone(&before.actions)).unwrap_or_default(),
            delay: has_queue.then(|| delay.unwrap_or_else(|| Arc::new(Histogram::of_delays()))),
        }
    }

    /// Counts a decision about limits of the policy, once per request; `binding` is the place of the binding one in
    /// the policy. Looks are no decisions: nobody was let in or turned away.
    #[inline]
    pub(crate) fn decided(&self, decision: &Decision, binding: Option<usize>) {
        let answer = match decision.allowed {
            false => Answer::Denied,
            true if decision.delay.is_zero() => Answer::Allowed,
            true => Answer::Delayed,
        };
        self.count(answer, binding);
        match decision.source {
            Source::Exact => add(&self.sources[0]),
            other => {
                if let Some(at) = SOURCES.iter().position(|source| *source == other) {
                    add(&self.sources[at]);
                }
            }
        }
        if let Some(delay) = &self.delay
            && decision.allowed
        {
            delay.observe(decision.delay);
        }
    }

    /// Counts what a policy that only shows itself would have done.
    pub(crate) fn shown(&self, decision: &Decision, binding: Option<usize>) {
        self.count(if decision.allowed { Answer::Allowed } else { Answer::ShadowDenied }, binding);
    }

    /// Counts a request for which no limit was asked.
    pub(crate) fn acted(&self, action: Action, mode: Mode) {
        let [denied, bypassed, shadow_denied] = &*self.actions;
        add(match (action, mode) {
            (Action::Bypass, _) => bypassed,
            (Action::Block, Mode::Shadow) => shadow_denied,
            (Action::Block, _) => denied,
        });
    }

    #[inline]
    fn count(&self, answer: Answer, binding: Option<usize>) {
        if let Some((_, answers)) = binding.and_then(|binding| self.limits.get(binding)) {
            add(&answers[answer as usize]);
        }
    }
}

/// An open connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    shared: Arc<Shared>,
    listener: Listener,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.connections[self.listener as usize].fetch_sub(1, Ordering::Relaxed);
    }
}

#[inline]
fn add(counter: &AtomicU64) {
    // Numbers for people: no order between them is promised.
    counter.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
