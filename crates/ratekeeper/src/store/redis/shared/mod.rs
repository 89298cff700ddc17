//! A store that always has an answer in time.

#[cfg(feature = "tokio")]
mod acquire;
mod breaker;
mod owed;
mod owned;
mod probe;
mod remembered;
mod reservation;
mod share;
mod told;
#[cfg(feature = "tokio")]
mod turns;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use ratekeeper_core::{Ask, Check, Clock as _, Decision, Micros, Part, StoreError, Trouble};
use tokio::runtime::Handle;

#[cfg(feature = "tokio")]
pub use acquire::{AcquireShared, AcquireSharedReservation};
pub use probe::{Finding, Probe};
pub use reservation::SharedReservation;
#[cfg(feature = "tokio")]
pub(crate) use turns::{Coming, Room, Turn};

pub use told::{StoreCounts, StoreObserver, StoreStatus};

use self::breaker::{Breaker, Change, OPEN_FOR};
use self::owed::Owed;
use self::owned::OwnedCheck;
use self::remembered::{Asked, Remembered};
use self::share::Share;
use super::codec;
use super::exact::{Decided, Layout};
use super::link::Failure;
use super::plain::{RedisStore, failed};
use crate::clock::ProcessClock;
use crate::{BuildError, Reservation};

/// What becomes of a limit whose store does not answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnStoreError {
    /// This instance's share of the limit decides.
    #[default]
    Local,
    /// The request passes.
    Allow,
    /// The request is refused.
    Deny,
}

/// One request to a [`SharedStore`].
#[derive(Clone, Copy, Debug)]
pub struct Demand<'a> {
    /// Its limits, at most 16, decided all or nothing.
    pub checks: &'a [Check<'a>],
    /// What becomes of each of them when the store does not answer; [`OnStoreError::Local`] for those beyond.
    pub on_error: &'a [OnStoreError],
    /// Whether units are taken.
    pub ask: Ask,
}

/// Limits in Redis or Valkey, with an answer in time whatever becomes of the servers.
///
/// - While the store answers, it decides: exactly, for all who share it ([`Source::Exact`]). A refusal is remembered for a
///   second at most ([`Source::Cached`]).
/// - When it does not, each limit's [`OnStoreError`] does: by this instance's share of it ([`Source::Local`]), which
///   every admission is debited from all the time; or by letting pass or refusing without asking anybody
///   ([`Source::FailedOpen`], [`Source::FailedClosed`]). What was admitted meanwhile is debited when the store is back.
/// - A store that fails again and again is left alone for a second, so that nobody waits for it.
///
/// [`Source::Exact`]: crate::Source::Exact
/// [`Source::Cached`]: crate::Source::Cached
/// [`Source::Local`]: crate::Source::Local
/// [`Source::FailedOpen`]: crate::Source::FailedOpen
/// [`Source::FailedClosed`]: crate::Source::FailedClosed
#[derive(Clone)]
pub struct SharedStore {
    inner: Arc<Inner>,
}

struct Inner {
    redis: RedisStore,
    share: Share,
    breaker: Breaker,
    remembered: Remembered,
    owed: Owed,
    /// Questions that were not asked, because the breaker was open.
    unasked: AtomicU64,
    /// Those of this process who wait.
    #[cfg(feature = "tokio")]
    room: Arc<Room>,
}

/// How a [`SharedStore`] behaves when its servers do not answer.
#[derive(Clone, Debug)]
#[must_use]
pub struct SharedStoreBuilder {
    redis: RedisStore,
    instances: u32,
    max_keys: u64,
    #[cfg(feature = "tokio")]
    max_waiting: usize,
}

impl SharedStoreBuilder {
    /// How many instances share the store: the share of each is a limit by this number; 1 unless said otherwise.
    pub const fn instances(mut self, instances: u32) -> Self {
        self.instances = instances;
        self
    }

    /// How many keys and limits the share holds exactly; 250,000 unless said otherwise.
    pub const fn max_keys(mut self, max_keys: u64) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// How many may wait for one key at a time behind the one that asks ([`SharedStore::acquire`]); default 1,024. Whoever
    /// comes later is refused at once.
    #[cfg(feature = "tokio")]
    pub const fn max_waiting(mut self, max_waiting: usize) -> Self {
        self.max_waiting = max_waiting;
        self
    }

    /// The store.
    ///
    /// # Errors
    /// If the memory of the share cannot be had.
    pub fn build(self) -> Result<SharedStore, BuildError> {
        let share = Share::new(self.instances, self.max_keys)?;
        let inner = Inner {
            redis: self.redis,
            share,
            breaker: Breaker::default(),
            remembered: Remembered::default(),
            owed: Owed::default(),
            unasked: AtomicU64::new(0),
            #[cfg(feature = "tokio")]
            room: Arc::new(Room::new(self.max_waiting)),
        };
        Ok(SharedStore { inner: Arc::new(inner) })
    }
}

impl SharedStore {
    /// A store on the states of `redis`.
    pub const fn builder(redis: RedisStore) -> SharedStoreBuilder {
        SharedStoreBuilder {
            redis,
            instances: 1,
            max_keys: share::DEFAULT_MAX_KEYS,
            #[cfg(feature = "tokio")]
            max_waiting: crate::waiting::DEFAULT_MAX_WAITING,
        }
    }

    /// Decides requests, each all or nothing, in their order as far as they touch the same keys; `within` bounds how
    /// long that takes.
    pub async fn decide_batch(
        &self,
        demands: &[Demand<'_>],
        within: Duration,
    ) -> Vec<Result<Decision, StoreError>> {
        let _together = (demands.len() > 1).then(|| self.inner.redis.exact.link.together());
        join_all(demands.iter().map(|demand| self.decide(*demand, within))).await
    }

    /// Decides one request. `within` bounds how long that takes; the store's own timeout does, too.
    ///
    /// # Errors
    /// [`StoreError::TooManyLimits`] and [`StoreError::WindowTooShort`]; never because the servers do not answer.
    pub async fn decide(&self, demand: Demand<'_>, within: Duration) -> Result<Decision, StoreError> {
        let layout = self.inner.redis.exact.layout(demand.checks, false)?;
        match self.inner.ask(&demand, &layout, within).await? {
            Answered::Store(_, decision) | Answered::Remembered(decision) => Ok(decision),
            Answered::Alone(alone) => {
                let Alone { decision, reservation, owes } = *alone;
                if let Some(reservation) = reservation {
                    drop(reservation.keep());
                }
                if owes {
                    self.inner.owed.add(&layout.seats);
                }
                Ok(decision)
            }
        }
    }

    /// Decides a request, and if it is allowed hands out what settles it.
    ///
    /// Within a runtime of tokio it may be dropped at any time: whoever goes away meanwhile has asked all the same, and
    /// what is taken for nobody comes back.
    ///
    /// # Errors
    /// Those of [`SharedStore::decide`].
    pub async fn reserve(
        &self,
        demand: Demand<'_>,
        within: Duration,
    ) -> Result<(Decision, Option<SharedReservation>), StoreError> {
        let Ok(runtime) = Handle::try_current() else { return self.reserve_in_place(demand, within).await };
        let owned: Vec<OwnedCheck> = demand.checks.iter().map(OwnedCheck::of).collect();
        let (store, on_error) = (self.clone(), demand.on_error.to_vec());
        let asked = async move {
            let keys: Vec<Vec<Part<'_>>> = owned.iter().map(OwnedCheck::parts).collect();
            let checks: Vec<Check<'_>> =
                owned.iter().zip(&keys).map(|(check, parts)| check.lend(parts)).collect();
            let demand = Demand { checks: &checks, on_error: &on_error, ask: Ask::Acquire };
            store.reserve_in_place(demand, within).await
        };
        // Nobody takes the answer of a task whose handle is dropped, so it is dropped with what it holds.
        runtime.spawn(asked).await.unwrap_or(Err(StoreError::Failed(Trouble::Other)))
    }

    /// The same for a caller that stays.
    async fn reserve_in_place(
        &self,
        demand: Demand<'_>,
        within: Duration,
    ) -> Result<(Decision, Option<SharedReservation>), StoreError> {
        let demand = Demand { ask: Ask::Acquire, ..demand };
        let layout = self.inner.redis.exact.layout(demand.checks, false)?;
        let (decision, reservation) = match self.inner.ask(&demand, &layout, within).await? {
            Answered::Store(decided, decision) => {
                let held = decision.allowed.then(|| SharedReservation::of(self, &layout, &decided));
                (decision, held)
            }
            Answered::Remembered(decision) => (decision, None),
            Answered::Alone(alone) => {
                let Alone { decision, reservation, owes } = *alone;
                let held = || SharedReservation::alone(self, &layout, reservation, owes);
                let held = decision.allowed.then(held);
                (decision, held)
            }
        };
        Ok((decision, reservation))
    }

    /// Forgets keys; costs are not looked at.
    ///
    /// # Errors
    /// [`StoreError::Failed`] if the servers do not answer.
    pub async fn reset(&self, checks: &[Check<'_>], within: Duration) -> Result<(), StoreError> {
        let layout = self.inner.redis.exact.layout(checks, false)?;
        let forget = layout.seats.iter().map(|seat| (seat.name.clone(), codec::forget()));
        // Nor is anything debited of them afterwards that was admitted before.
        let debts = self.inner.owed.take(&layout.seats);
        let done = self.inner.amend(forget.collect(), within).await.map_err(failed);
        match done {
            Ok(()) => self.inner.share.forget(&layout.seats).await,
            Err(_) => debts.iter().for_each(|(name, debt)| self.inner.owed.add_units(name, debt)),
        }
        done
    }

    /// How it is.
    #[must_use]
    pub fn status(&self) -> StoreStatus {
        let link = self.inner.redis.exact.link.status();
        let breaker_is_open = self.inner.breaker.is_open();
        StoreStatus {
            is_up: link.connected && !breaker_is_open,
            breaker_is_open,
            last_error: link.last_error,
            round_trip: link.round_trip,
            server: link.server,
            owed: self.inner.owed.len(),
        }
    }

    /// What it has counted.
    #[must_use]
    pub fn counts(&self) -> StoreCounts {
        let exact = &self.inner.redis.exact;
        let link = exact.link.counts();
        let mut errors = link.errors;
        for (trouble, count) in [(Trouble::Corrupt, &exact.unreadable), (Trouble::Open, &self.inner.unasked)]
        {
            if let Some(at) = Trouble::ALL.iter().position(|one| *one == trouble) {
                errors[at] += count.load(Ordering::Relaxed);
            }
        }
        StoreCounts {
            errors,
            script_reloads: link.script_reloads,
            undone: exact.undone(),
            commands: link.commands,
            requests: link.requests,
        }
    }
}

/// Who answered a request.
enum Answered {
    Store(Box<Decided>, Decision),
    Remembered(Decision),
    /// Nobody but this instance.
    Alone(Box<Alone>),
}

/// What this instance has said by itself.
struct Alone {
    decision: Decision,
    /// What was taken of its share.
    reservation: Option<Reservation>,
    /// What is admitted is to be debited by the store later: it cannot have been debited already.
    owes: bool,
}

impl Inner {
    async fn ask(
        &self,
        demand: &Demand<'_>,
        layout: &Layout<'_>,
        within: Duration,
    ) -> Result<Answered, StoreError> {
        if layout.seats.is_empty() {
            return Ok(Answered::Remembered(Decision::of(Vec::new())));
        }
        let takes = demand.ask == Ask::Acquire;
        if let Some(decision) = takes.then(|| self.remembered.find(layout)).flatten() {
            return Ok(Answered::Remembered(decision));
        }
        let exact = &self.redis.exact;
        let asked = Asked { at: ProcessClock.now(), generation: self.remembered.generation(&layout.seats) };
        // Without time there is no answer, and nobody's fault.
        if within.is_zero() || !self.lets_through(asked.at) {
            return self.alone(demand, layout, false);
        }
        match exact.decide(layout, demand.ask, within.min(exact.timeout)).await {
            Ok(mut decided) => {
                self.answered();
                let decision = Decision::of(std::mem::take(&mut decided.verdicts));
                if takes && decision.allowed {
                    self.share.debit(&layout.seats);
                } else if takes && decided.readings.is_empty() {
                    // Of several slots: what some had taken is back. Whoever was refused for it would pass now.
                    layout.seats.iter().for_each(|seat| self.remembered.forget(&seat.name));
                } else if takes {
                    self.remembered.note(layout, &decided, &decision, &asked);
                }
                Ok(Answered::Store(Box::new(decided), decision))
            }
            Err(failure) => {
                self.failed(&failure);
                self.alone(demand, layout, failure.may_have_run)
            }
        }
    }

    /// Whether the store is asked now.
    fn lets_through(&self, now: Micros) -> bool {
        let is_asked = self.breaker.lets_through(now);
        if !is_asked {
            self.unasked.fetch_add(1, Ordering::Relaxed);
        }
        is_asked
    }

    /// Decides without the store.
    fn alone(
        &self,
        demand: &Demand<'_>,
        layout: &Layout<'_>,
        may_have_run: bool,
    ) -> Result<Answered, StoreError> {
        let (decision, reservation) = self.share.decide(demand, layout, OPEN_FOR)?;
        let owes = demand.ask == Ask::Acquire && decision.allowed && !may_have_run;
        Ok(Answered::Alone(Box::new(Alone { decision, reservation, owes })))
    }

    fn answered(&self) {
        if let Change::Up(after) = self.breaker.answered(ProcessClock.now()) {
            self.redis.observer.came_back(after);
        }
        if !self.owed.is_settled() {
            self.owed.pay(&self.redis.exact);
        }
    }

    fn failed(&self, failure: &Failure) {
        match failure.trouble {
            // What is wrong with one key is no fault of the store: it answers.
            Trouble::Corrupt => return self.answered(),
            // Nor is it that we ask too much at once.
            Trouble::Full => return,
            _ => {}
        }
        if self.breaker.failed(ProcessClock.now()) == Change::Down {
            let why = self.redis.exact.link.status().last_error;
            self.redis.observer.went_down(why.as_deref().unwrap_or_else(|| failure.trouble.name()));
        }
    }

    /// Changes states; refusals of their keys are not remembered any more.
    async fn amend(&self, amendments: Vec<(Vec<u8>, Vec<u8>)>, within: Duration) -> Result<(), Failure> {
        if !self.lets_through(ProcessClock.now()) {
            return Err(Failure { trouble: Trouble::Open, may_have_run: false });
        }
        let names: Vec<Vec<u8>> = amendments.iter().map(|(name, _)| name.clone()).collect();
        let forget = || names.iter().for_each(|name| self.remembered.forget(name));
        // A refusal that arrives meanwhile may be of before or after it.
        forget();
        let done = self.redis.exact.amend(amendments, within).await;
        forget();
        match &done {
            Ok(()) => self.answered(),
            Err(failure) => self.failed(failure),
        }
        done
    }
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedStore").field(&self.status()).finish()
    }
}
