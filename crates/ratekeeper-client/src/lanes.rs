//! One lane per key: its gate, its balance, and the line before it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore};

use crate::budget::{Balance, Budget};
use crate::gate::{Gate, Send};

/// Keys that are remembered. Of more, those that were not used for longest are forgotten, and what they learned.
pub const MAX_KEYS: usize = 10_000;
/// This part of the keys is forgotten at once, so that not every new key looks for the oldest.
const FORGOTTEN_AT_ONCE: usize = MAX_KEYS / 16;
/// Calls that wait before one gate: each holds a request, and the last would wait for long.
pub const MAX_WAITING: usize = 10_000;

/// What changes about a key.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) gate: Gate,
    pub(crate) balance: Balance,
}

/// A key. Whoever holds it keeps what it has learned.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) key: Arc<str>,
    kept: Mutex<Kept>,
    /// One permit: who has it is the head of the line, and the only one that looks at the gate.
    pub(crate) line: Semaphore,
    pub(crate) waiting: AtomicUsize,
    /// Something has changed that the head of the line should look at.
    pub(crate) changed: Notify,
    used: AtomicU64,
}

impl Lane {
    fn new(key: Arc<str>, budget: &Budget) -> Self {
        Self {
            key,
            kept: Mutex::new(Kept { gate: Gate::new(), balance: Balance::new(budget) }),
            line: Semaphore::new(1),
            waiting: AtomicUsize::new(0),
            changed: Notify::new(),
            used: AtomicU64::new(0),
        }
    }

    /// What is written under it is whole at every step, so a panic elsewhere leaves nothing half done.
    pub(crate) fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among those that wait; given up when it is dropped.
pub(crate) struct Place<'a>(&'a Lane);

impl<'a> Place<'a> {
    pub(crate) fn take(lane: &'a Lane) -> Option<Self> {
        let before = lane.waiting.fetch_add(1, Ordering::Relaxed);
        let place = Self(lane);
        (before < MAX_WAITING).then_some(place)
    }

    /// Calls that wait beside this one.
    pub(crate) fn others(&self) -> usize {
        self.0.waiting.load(Ordering::Relaxed).saturating_sub(1)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A call on its way: its answer ends it, and so does dropping it.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) lane: Arc<Lane>,
    pub(crate) send: Send,
    /// Whether the gate has been told of its answer.
    pub(crate) heard: bool,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.heard {
            self.lane.kept().gate.lost();
        }
        self.lane.changed.notify_waiters();
    }
}

/// All keys.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    all: Mutex<HashMap<Arc<str>, Arc<Lane>>>,
    uses: AtomicU64,
}

impl Lanes {
    /// The lane of a key, the same for all who ask while it is remembered.
    pub(crate) fn of(&self, key: String, budget: &Budget) -> Arc<Lane> {
        let use_number = self.uses.fetch_add(1, Ordering::Relaxed);
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = match all.get(key.as_str()) {
            Some(lane) => Arc::clone(lane),
            None => {
                if all.len() >= MAX_KEYS {
                    forget_some(&mut all);
                }
                let key: Arc<str> = key.into();
                let lane = Arc::new(Lane::new(Arc::clone(&key), budget));
                all.insert(key, Arc::clone(&lane));
                lane
            }
        };
        lane.used.store(use_number, Ordering::Relaxed);
        lane
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// Forgets the keys that were not used for longest. Calls that are on their way keep theirs.
fn forget_some(all: &mut HashMap<Arc<str>, Arc<Lane>>) {
    let mut used: Vec<u64> = all.values().map(|lane| lane.used.load(Ordering::Relaxed)).collect();
    let (_, youngest_to_go, _) = used.select_nth_unstable(FORGOTTEN_AT_ONCE - 1);
    let last = *youngest_to_go;
    all.retain(|_, lane| lane.used.load(Ordering::Relaxed) > last);
}

#[cfg(test)]
mod tests;
