//! Reservations over the network: what was held, under which id, until it is settled, given back or forgotten.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ratekeeper_core::{Micros, Name};
use tokio::sync::watch;

use crate::digits::{hex, hex_digit};
use crate::live::Taken;
use crate::telemetry::secret::Secret;

/// How long a reservation can be settled: longer than the answer of a language model or an upload takes. What
/// is not settled by then stays charged as it was held, and comes back with time like every unit.
pub(crate) const HOLD_TTL: Duration = Duration::from_secs(15 * 60);
/// How many may be open at once: with their bookkeeping some 30 MB.
pub(crate) const MAX_HOLDS: usize = 100_000;
/// How many endings are remembered, so that a call that is repeated because its answer was lost changes nothing
/// and is answered the same.
const MAX_ENDINGS: usize = 100_000;

/// 128 bits that nobody can guess: who knows an id may settle it.
pub(crate) type Id = [u8; 16];

/// The id of all reservations that hold nothing, since no limit was asked: they take no room that others need.
const NOTHING: Id = [0; 16];

/// All reservations of a server.
pub(crate) struct Holds {
    secret: Arc<Secret>,
    made: AtomicU64,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    open: HashMap<Id, Open>,
    /// Those that are being ended in a shared store, with their costs.
    under_way: HashMap<Id, (u64, Soon)>,
    /// Open ones in the order in which they expire, and some that have ended since.
    expiring: VecDeque<(Micros, Id)>,
    ended: HashMap<Id, Ending>,
    /// The same in the order of their ends.
    endings: VecDeque<Id>,
}

struct Open {
    policy: Option<Name>,
    held: u64,
    taken: Taken,
}

/// An ending that is under way.
pub(crate) type Soon = watch::Receiver<Option<Ending>>;

/// What comes of the end of a reservation.
pub(crate) enum Ends {
    /// It has ended.
    Now(Ending),
    /// It is being ended in a shared store, whoever waits for that.
    Soon(Soon),
}

/// How a reservation ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ending {
    /// The policy that decided, if one did. A reload since may have taken it away.
    pub(crate) policy: Option<Name>,
    /// What was held: the most that a limit has taken; 0 if none was asked.
    pub(crate) held: u64,
    /// What it came to; 0 if it was given back.
    pub(crate) cost: u64,
    /// What is charged now: less than `cost` if that was more than was held and there was not so much left.
    pub(crate) charged: u64,
}

/// Why a reservation cannot be ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotEnded {
    /// No such id: it never was, has expired, or was made by another server.
    Unknown,
    /// It has ended before, at this cost.
    Otherwise(u64),
    /// Its end was cut short with the process.
    Cut,
}

impl Holds {
    pub(crate) fn new(secret: Arc<Secret>) -> Self {
        Self { secret, made: AtomicU64::new(0), inner: Arc::default() }
    }

    /// How many are open at `now`.
    pub(crate) fn len(&self, now: Micros) -> usize {
        let mut inner = lock(&self.inner);
        inner.expire(now);
        inner.open.len()
    }

    /// Whether there is room for one more at `now`; if not, for how long there will be none.
    ///
    /// # Errors
    /// The time until the oldest expires.
    pub(crate) fn room(&self, now: Micros) -> Result<(), Duration> {
        let mut inner = lock(&self.inner);
        inner.expire(now);
        if inner.open.len() < MAX_HOLDS {
            return Ok(());
        }
        Err(inner.expiring.front().map_or(HOLD_TTL, |(until, _)| now.until(*until)))
    }

    /// Keeps what was held under a new id. Requests that were promised room at the same time may make it a few
    /// more than [`MAX_HOLDS`].
    pub(crate) fn keep(&self, policy: Option<Name>, held: u64, taken: Taken, now: Micros) -> Id {
        if taken.is_nothing() {
            return NOTHING;
        }
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let digest = self.secret.digest(&[&b"hold"[..], &number.to_be_bytes()[..]]);
        let mut id = Id::default();
        let length = id.len();
        id.copy_from_slice(&digest[..length]);
        let mut inner = lock(&self.inner);
        let until = now.get().saturating_add(u64::try_from(HOLD_TTL.as_micros()).unwrap_or(u64::MAX));
        inner.open.insert(id, Open { policy, held, taken });
        inner.expiring.push_back((Micros::new(until), id));
        inner.forget_ended();
        id
    }

    /// Ends a reservation at `cost`. A second call with the same cost changes nothing and is answered the same. What
    /// lies in a shared store is ended by a task of its own, also if whoever asked does not wait for it.
    ///
    /// # Errors
    /// If there is no such reservation, or it has ended at another cost.
    pub(crate) fn end(&self, id: Id, cost: u64, now: Micros) -> Result<Ends, NotEnded> {
        if id == NOTHING {
            return Ok(Ends::Now(Ending { policy: None, held: 0, cost, charged: 0 }));
        }
        // Under the lock from beginning to end: of two calls that come together the second finds the first's end, or
        // that it is under way.
        let mut inner = lock(&self.inner);
        inner.expire(now);
        if let Some(ending) = inner.ended.get(&id) {
            return if ending.cost == cost {
                Ok(Ends::Now(ending.clone()))
            } else {
                Err(NotEnded::Otherwise(ending.cost))
            };
        }
        if let Some((at, soon)) = inner.under_way.get(&id) {
            return if *at == cost { Ok(Ends::Soon(soon.clone())) } else { Err(NotEnded::Otherwise(*at)) };
        }
        let Some(Open { policy, held, taken }) = inner.open.remove(&id) else {
            return Err(NotEnded::Unknown);
        };
        let ending = move |charged| Ending { policy, held, cost, charged };
        let taken = match taken.settle_now(cost) {
            Ok(charged) => {
                let ending = ending(charged);
                inner.has_ended(id, ending.clone());
                return Ok(Ends::Now(ending));
            }
            Err(taken) => taken,
        };
        let (tell, soon) = watch::channel(None);
        inner.under_way.insert(id, (cost, soon.clone()));
        let all = Arc::clone(&self.inner);
        tokio::spawn(async move {
            let ending = ending(taken.settle(cost).await);
            let mut inner = lock(&all);
            inner.under_way.remove(&id);
            inner.has_ended(id, ending.clone());
            drop(inner);
            // Nobody may be waiting any more.
            let _ = tell.send(Some(ending));
        });
        Ok(Ends::Soon(soon))
    }
}

impl Ends {
    /// Waits for the end.
    ///
    /// # Errors
    /// If the process ends before.
    pub(crate) async fn ending(self) -> Result<Ending, NotEnded> {
        match self {
            Self::Now(ending) => Ok(ending),
            Self::Soon(mut soon) => {
                let ended = soon.wait_for(Option::is_some).await.ok();
                ended.and_then(|ending| ending.clone()).ok_or(NotEnded::Cut)
            }
        }
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    // Nothing is left half done by a panic that could not be gone on from.
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    fn has_ended(&mut self, id: Id, ending: Ending) {
        if self.endings.len() == MAX_ENDINGS
            && let Some(oldest) = self.endings.pop_front()
        {
            self.ended.remove(&oldest);
        }
        self.ended.insert(id, ending);
        self.endings.push_back(id);
    }

    /// Forgets what can no longer be settled, and what has been settled at the front of the list: then its first
    /// entry is the oldest open one.
    fn expire(&mut self, now: Micros) {
        while let Some((until, id)) = self.expiring.front()
            && (*until <= now || !self.open.contains_key(id))
        {
            if let Some(open) = self.open.remove(id) {
                // Whoever held it may well have used it: the units come back with time, as if it had been kept.
                open.taken.keep();
            }
            self.expiring.pop_front();
        }
    }

    /// Keeps the list of expiries in proportion to what is open: whoever settles at once leaves entries behind.
    fn forget_ended(&mut self) {
        if self.expiring.len() > 2 * self.open.len() + 1_024 {
            self.expiring.retain(|(_, id)| self.open.contains_key(id));
        }
    }
}

/// An id as it is written: 32 hexadecimal digits.
pub(crate) fn written(id: Id) -> String {
    hex(&id)
}

/// The id that was written so, if it was one.
pub(crate) fn read(text: &str) -> Option<Id> {
    let mut id = Id::default();
    if text.len() != 2 * id.len() {
        return None;
    }
    for (byte, pair) in id.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
    }
    Some(id)
}

#[cfg(test)]
mod tests;
