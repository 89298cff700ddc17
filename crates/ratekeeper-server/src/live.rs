//! A configuration at work: its stores, and what is told of their decisions. A reload puts another in its place.

use std::sync::Arc;
use std::time::Duration;

use crate::asking::{Asking, Outcome, Place, Stores};
use ratekeeper::{BuildError, MemoryStore, OnFull, Question, Reservation};
use ratekeeper_core::{Ask, Check, Decision, Key, ManualClock, Micros, Name, StoreError};
use ratekeeper_policy::{
    Act, Action, Applied, Config, Does, Exceptions, Few, LogConfig, LogFormat, LogKeys, LogLevel, Mode,
    Override, Policy, PolicyLimit, StoreConfig,
};
use ratekeeper_sim::hints::nearest;

use crate::app::Time;
use crate::exceptions::Compiled;
use crate::seeded::Chance;
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
    config: Arc<Config>,
    stores: Arc<[(Name, MemoryStore)]>,
    served: Arc<[Served]>,
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
    texts: Texts,
    /// The same for each override that changes limits.
    overrides: Vec<Option<Texts>>,
    log: Arc<PolicyLog>,
}

/// What was taken for a request, to be settled.
#[derive(Default)]
pub(crate) struct Taken {
    /// By the limits that are enforced.
    pub(crate) enforced: Option<Reservation>,
    /// By each policy that only shows itself.
    pub(crate) shadows: Vec<Reservation>,
}

impl Taken {
    /// Ends it at `cost`; what is charged for it now by the limits that are enforced.
    pub(crate) fn settle(self, cost: u64) -> u64 {
        for shadow in self.shadows {
            let _ = shadow.settle(cost);
        }
        self.enforced.map_or(0, |taken| taken.settle(cost).charged())
    }

    /// Whether no limit was asked, so that there is nothing to settle.
    pub(crate) const fn is_nothing(&self) -> bool {
        self.enforced.is_none() && self.shadows.is_empty()
    }

    /// Ends it as it is.
    pub(crate) fn keep(self) {
        for taken in self.shadows.into_iter().chain(self.enforced) {
            drop(taken.keep());
        }
    }
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
            let of_override = |item: &Override| match item.act() {
                Act::Limits(limits) => Some(Texts::new(policy, limits)),
                Act::Action(_) => None,
            };
            Served {
                store,
                texts: Texts::new(policy, policy.limits()),
                overrides: policy.overrides().as_slice().iter().map(of_override).collect(),
                log: policy_log(policy),
            }
        };
        let served = config.policies.iter().map(served).collect();
        let (log, since) = (log.with(log_settings(config.log)), time.now());
        Self {
            config: Arc::new(config),
            stores: stores.into(),
            served,
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
        if checks.is_empty() {
            Ok(())
        } else {
            self.store_of(policy).decide_now(&checks, Ask::Peek).map(drop)
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
    pub(crate) fn stores(&self) -> &[(Name, MemoryStore)] {
        &self.stores
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
    pub(crate) fn store_of(&self, policy: usize) -> &MemoryStore {
        &self.stores[self.served[policy].store].1
    }

    /// The process's clock.
    pub(crate) fn now(&self) -> Micros {
        self.time.now()
    }

    /// Decides requests in their order, each all or nothing; those that follow one another in one store together, so
    /// that their waits for memory overlap.
    pub(crate) fn decide_batch(&self, asked: &[(&Asking<'_>, Ask)]) -> Vec<Result<Outcome, StoreError>> {
        let mut outcomes = Vec::with_capacity(asked.len());
        for run in asked.chunk_by(|(a, _), (b, _)| a.stores == b.stores) {
            match run {
                [(first, _), _, ..] if let Stores::One(store) = first.stores => {
                    let questions: Vec<Question<'_>> = run
                        .iter()
                        .map(|(asking, ask)| Question { checks: asking.checks(), ask: *ask })
                        .collect();
                    let decisions = self.timed(store, |store| store.decide_batch(&questions));
                    for ((asking, ask), decision) in run.iter().zip(decisions) {
                        outcomes.push(decision.and_then(|decision| self.shown(asking, Some(decision), *ask)));
                    }
                }
                run => outcomes.extend(run.iter().map(|(asking, ask)| self.decide(asking, *ask))),
            }
        }
        outcomes
    }

    /// Decides one request.
    ///
    /// # Errors
    /// Those of the stores.
    pub(crate) fn decide(&self, asking: &Asking<'_>, ask: Ask) -> Result<Outcome, StoreError> {
        let decision = match asking.stores {
            Stores::None => None,
            Stores::One(store) => Some(self.timed(store, |store| store.decide_now(asking.checks(), ask))?),
            Stores::Several => {
                Some(self.timed_across(asking, |parts| MemoryStore::decide_across(parts, ask))?)
            }
        };
        self.shown(asking, decision, ask)
    }

    /// Takes what a request asks for in a way that can be settled: the enforced limits together, and what those take
    /// that only show themselves.
    ///
    /// # Errors
    /// If a store cannot answer.
    pub(crate) fn reserve(&self, asking: &Asking<'_>) -> Result<(Outcome, Taken), StoreError> {
        let mut taken = Taken::default();
        let decided = match asking.stores {
            Stores::None => None,
            Stores::One(store) => Some(self.timed(store, |store| store.reserve_now(asking.checks()))?),
            Stores::Several => Some(self.timed_across(asking, MemoryStore::reserve_across)?),
        };
        let decision = decided.map(|(decision, reservation)| {
            taken.enforced = reservation;
            decision
        });
        let mut outcome =
            Outcome { decision, is_blocked: asking.blocked().is_some(), shadow_denied: Vec::new() };
        if outcome.allowed() {
            for applied in asking.shadows() {
                let shadows = &mut taken.shadows;
                self.show((asking, applied), &mut outcome, Ask::Acquire, |store, checks| {
                    let (decision, reservation) = store.reserve_now(checks)?;
                    shadows.extend(reservation);
                    Ok(decision)
                })?;
            }
        }
        Ok((outcome, taken))
    }

    /// Asks the stores that the limits of a request lie in together, and notes of each of them how long that took.
    fn timed_across<'s, T>(
        &'s self,
        asking: &Asking<'s>,
        ask: impl FnOnce(&[(&'s MemoryStore, Check<'s>)]) -> T,
    ) -> T {
        let number = |place: &Place| Some(self.store_number(asking.applied().get(place.applied)?.policy));
        let numbered = asking.places().iter().map(number).zip(asking.checks());
        let mut numbers: Few<usize> = Few::default();
        let mut parts: Vec<(&MemoryStore, Check<'_>)> = Vec::with_capacity(asking.checks().len());
        for (number, check) in numbered {
            let Some((number, (_, store))) = number.and_then(|n| Some((n, self.stores.get(n)?))) else {
                continue;
            };
            parts.push((store, *check));
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        let started = self.now();
        let answer = ask(&parts);
        let took = self.since_then(started);
        for number in numbers.iter() {
            self.metrics.decision_took(*number, took);
        }
        answer
    }

    /// Asks those that only show themselves, if the request passes: each alone, as if it alone were enforced.
    fn shown(
        &self,
        asking: &Asking<'_>,
        decision: Option<Decision>,
        ask: Ask,
    ) -> Result<Outcome, StoreError> {
        let mut outcome =
            Outcome { decision, is_blocked: asking.blocked().is_some(), shadow_denied: Vec::new() };
        if outcome.allowed() {
            for applied in asking.shadows() {
                let shown = (asking, applied);
                self.show(shown, &mut outcome, ask, |store, checks| store.decide_now(checks, ask))?;
            }
        }
        Ok(outcome)
    }

    fn show(
        &self,
        (asking, applied): (&Asking<'_>, &Applied<'_>),
        outcome: &mut Outcome,
        why: Ask,
        ask: impl FnOnce(&MemoryStore, &[Check<'_>]) -> Result<Decision, StoreError>,
    ) -> Result<(), StoreError> {
        let Some(policy) = self.config.policies.get(applied.policy) else { return Ok(()) };
        match applied.does {
            Does::Action(action) => {
                if why == Ask::Acquire {
                    self.count_action(applied, action);
                }
                if action == Action::Block {
                    if let (Ask::Acquire, Some(served)) = (why, self.served.get(applied.policy)) {
                        let request = asking.seen().request();
                        self.log.would_block(&served.log, applied.key().as_ref(), request);
                    }
                    outcome.shadow_denied.push(policy.name().to_string());
                }
            }
            Does::Limits(_) => {
                let checks: Few<Check<'_>> = applied.checks().map(|(_, check)| check).collect();
                let decision = self.timed(self.store_number(applied.policy), |store| ask(store, &checks))?;
                if why == Ask::Acquire {
                    self.note_shadow(applied, &checks, &decision, asking.seen());
                }
                let refusing = checks.iter().zip(decision.limits()).filter(|(_, verdict)| !verdict.allowed());
                let name = |(check, _): (&Check<'_>, _)| format!("{}.{}", policy.name(), check.limit.name());
                outcome.shadow_denied.extend(refusing.map(name));
            }
        }
        Ok(())
    }

    /// Asks store number `store`, and notes how long it took.
    fn timed<T>(&self, store: usize, ask: impl FnOnce(&MemoryStore) -> T) -> T {
        let started = self.now();
        let answer = ask(&self.stores[store].1);
        self.metrics.decision_took(store, self.since_then(started));
        answer
    }

    fn since_then(&self, started: Micros) -> Duration {
        Duration::from_micros(self.now().get().saturating_sub(started.get()))
    }

    /// The policy that a misspelt name probably means.
    pub(crate) fn nearest_policy(&self, name: &str) -> Option<&str> {
        let names = self.config.policies.iter().take(MAX_SEARCHED_NAMES);
        nearest(name, names.map(|policy| policy.name().as_str()))
    }

    /// Counts what became of a request that asked for units, and tells of refusals. Looks are no decisions.
    pub(crate) fn note(&self, asking: &Asking<'_>, outcome: &Outcome) {
        let seen = asking.seen();
        // Of a refused request only those count it that refuse it; one line tells of it, under the name of the answer.
        for applied in asking.blockers() {
            self.count_action(applied, Action::Block);
        }
        if let Some(applied) = asking.blocked() {
            if let Some(served) = self.served.get(applied.policy) {
                self.log.blocked(&served.log, applied.key().as_ref(), seen.request());
            }
            return;
        }
        if outcome.allowed() {
            for applied in asking.applied().iter().filter(|applied| applied.mode == Mode::Enforce) {
                if let Does::Action(action) = applied.does {
                    self.count_action(applied, action);
                }
            }
        }
        let Some(decision) = &outcome.decision else { return };
        let mut parts = asking.by_policy();
        if let (Some((applied, _)), None) = (parts.next(), parts.next()) {
            // Most requests meet one policy, which has the whole decision for itself.
            self.note_decision(applied, asking.checks(), decision, seen);
        } else {
            for (applied, range) in asking.by_policy() {
                let verdicts = decision.limits().get(range.clone()).unwrap_or_default();
                let own = Decision::of(verdicts.to_vec());
                // Of a refused request only those count it that refuse it: the others took nothing.
                if own.allowed == decision.allowed {
                    self.note_decision(applied, asking.checks().get(range).unwrap_or_default(), &own, seen);
                }
            }
        }
    }

    fn note_decision(
        &self,
        applied: &Applied<'_>,
        checks: &[Check<'_>],
        decision: &Decision,
        seen: &Seen<'_>,
    ) {
        let binding = applied.checks().nth(decision.binding).map(|(place, _)| place);
        if let Some(metrics) = self.metrics.policy(applied.policy) {
            metrics.decided(decision, binding);
        }
        let decided = Decided { checks, decision, mode: Mode::Enforce.name(), request: seen.request() };
        if let Some(served) = self.served.get(applied.policy) {
            self.log.decided(&served.log, &decided);
        }
    }

    /// Counts what a policy in shadow mode would have done.
    fn note_shadow(&self, applied: &Applied<'_>, checks: &[Check<'_>], decision: &Decision, seen: &Seen<'_>) {
        let binding = applied.checks().nth(decision.binding).map(|(place, _)| place);
        if let Some(metrics) = self.metrics.policy(applied.policy) {
            metrics.shown(decision, binding);
        }
        let decided = Decided { checks, decision, mode: Mode::Shadow.name(), request: seen.request() };
        if let Some(served) = self.served.get(applied.policy) {
            self.log.shown(&served.log, &decided);
        }
    }

    /// Counts what a policy does without asking any limit, or would do.
    fn count_action(&self, applied: &Applied<'_>, action: Action) {
        if let Some(metrics) = self.metrics.policy(applied.policy) {
            metrics.acted(action, applied.mode);
        }
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
