//! A store that stands for a shared one: counts in memory, answers when the test lets it, and can be away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ratekeeper::{Demand, Finding, MemoryStore, OnStoreError, Probe, Reservation, StoreStatus};
use ratekeeper_core::{Check, Decision, Source, StoreError, Trouble, Verdict};
use tokio::sync::Semaphore;

/// What is worth asking again after.
pub(crate) const RETRY: Duration = Duration::from_millis(1_500);

pub(crate) struct Fake {
    pub(crate) memory: MemoryStore,
    is_down: AtomicBool,
    /// What lets questions through, one each.
    gate: Semaphore,
    /// How often it was asked.
    pub(crate) asked: AtomicUsize,
    /// Reservations that are neither settled, kept nor given back.
    pub(crate) open: AtomicUsize,
    /// What a probe finds.
    fatal: Option<&'static str>,
}

pub(crate) struct FakeReservation {
    inner: Option<Reservation>,
    fake: Arc<Fake>,
}

impl Default for Fake {
    fn default() -> Self {
        let memory = MemoryStore::builder().max_keys(1_000).build().expect("a small store");
        Self {
            memory,
            is_down: AtomicBool::new(false),
            gate: Semaphore::new(1_000_000),
            asked: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            fatal: None,
        }
    }
}

impl Fake {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// One that answers and cannot serve.
    pub(crate) fn that_cannot_serve(why: &'static str) -> Self {
        Self { fatal: Some(why), ..Self::default() }
    }

    /// Stops or begins to answer.
    pub(crate) fn be_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::SeqCst);
    }

    /// Lets every question wait until [`Fake::open_gate`].
    pub(crate) fn close_gate(&self) {
        self.gate.forget_permits(usize::MAX);
    }

    pub(crate) fn open_gate(&self) {
        self.gate.add_permits(1_000_000);
    }

    async fn pass(&self) {
        self.asked.fetch_add(1, Ordering::SeqCst);
        // Never ready at once, as no network is.
        tokio::task::yield_now().await;
        self.gate.acquire().await.expect("never closed").forget();
    }

    fn without_answer(demand: Demand<'_>) -> Decision {
        let verdicts = demand.checks.iter().zip(demand.on_error).map(|(check, on_error)| {
            let limit = check.limit.limit();
            match on_error {
                OnStoreError::Deny => Verdict::failed_closed(limit, check.cost, RETRY),
                _ => Verdict::failed_open(limit, check.cost),
            }
        });
        Decision::of(verdicts.collect())
    }

    fn decide_now(&self, demand: Demand<'_>) -> Result<Decision, StoreError> {
        if self.is_down.load(Ordering::SeqCst) && !demand.on_error.contains(&OnStoreError::Local) {
            return Ok(Self::without_answer(demand));
        }
        let decision = self.memory.decide_now(demand.checks, demand.ask)?;
        if !self.is_down.load(Ordering::SeqCst) {
            return Ok(decision);
        }
        let verdicts = decision.limits().iter().map(|verdict| verdict.with_source(Source::Local));
        Ok(Decision::of(verdicts.collect()))
    }

    pub(super) async fn decide_batch(&self, demands: &[Demand<'_>]) -> Vec<Result<Decision, StoreError>> {
        self.pass().await;
        demands.iter().map(|demand| self.decide_now(*demand)).collect()
    }

    pub(super) async fn decide(&self, demand: Demand<'_>) -> Result<Decision, StoreError> {
        self.pass().await;
        self.decide_now(demand)
    }

    pub(super) async fn reserve(
        self: &Arc<Self>,
        demand: Demand<'_>,
    ) -> Result<(Decision, Option<FakeReservation>), StoreError> {
        self.pass().await;
        if self.is_down.load(Ordering::SeqCst) && !demand.on_error.contains(&OnStoreError::Local) {
            return Ok((Self::without_answer(demand), None));
        }
        let (decision, inner) = self.memory.reserve_now(demand.checks)?;
        let reservation = inner.map(|inner| {
            self.open.fetch_add(1, Ordering::SeqCst);
            FakeReservation { inner: Some(inner), fake: Arc::clone(self) }
        });
        Ok((decision, reservation))
    }

    pub(super) async fn reset(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
        self.pass().await;
        if self.is_down.load(Ordering::SeqCst) {
            return Err(StoreError::Failed(Trouble::Connect));
        }
        ratekeeper_core::Store::reset(&self.memory, checks).await
    }

    pub(super) fn probe(&self) -> Result<Probe, StoreError> {
        if self.is_down.load(Ordering::SeqCst) {
            return Err(StoreError::Failed(Trouble::Connect));
        }
        let finding = |message: &str| Finding { is_fatal: true, message: message.to_owned(), hint: None };
        let findings = self.fatal.map(finding).into_iter().collect();
        Ok(Probe { server: Some("fake 1".to_owned()), findings, ..Probe::default() })
    }

    pub(super) fn status(&self) -> StoreStatus {
        let is_up = !self.is_down.load(Ordering::SeqCst);
        let last_error = (!is_up).then(|| "connection refused".to_owned());
        StoreStatus { is_up, last_error, server: Some("fake 1".to_owned()), ..StoreStatus::default() }
    }
}

impl FakeReservation {
    pub(super) async fn settle(mut self, cost: u64) -> u64 {
        let inner = self.end();
        self.fake.pass().await;
        inner.map_or(0, |inner| inner.settle(cost).charged())
    }

    pub(super) async fn cancel(mut self) {
        let inner = self.end();
        self.fake.pass().await;
        drop(inner);
    }

    pub(super) fn keep(mut self) {
        if let Some(inner) = self.end() {
            drop(inner.keep());
        }
    }

    fn end(&mut self) -> Option<Reservation> {
        let inner = self.inner.take()?;
        self.fake.open.fetch_sub(1, Ordering::SeqCst);
        Some(inner)
    }
}

impl Drop for FakeReservation {
    fn drop(&mut self) {
        // As the real one cannot go to its server from here: units of whoever forgets to end it stay charged.
        if let Some(inner) = self.inner.take() {
            drop(inner.keep());
        }
    }
}
