//! How a [`MemoryStore`] is to be.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::logs::LogMemory;
use super::overflow::Overflow;
use super::shapes::Shapes;
use super::table::Table;
use super::{Inner, MemoryStore, Seed};
use crate::clock::{IntoClock, StoreClock};
use crate::error::BuildError;
use crate::sync::Mutex;

/// What happens to a key that finds no place because `max_keys` others are live.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFull {
    /// It is decided together with others in its position on one state of the limit: stricter than it should
    /// be, never looser.
    #[default]
    Share,
    /// It is refused with [`Reason::StoreUnavailable`](ratekeeper_core::Reason::StoreUnavailable).
    Deny,
}

/// Fewest and most keys of a store.
const MAX_KEYS: std::ops::RangeInclusive<u64> = 1..=1_000_000_000;

/// Keys of a store, unless said otherwise.
const DEFAULT_KEYS: u64 = 1_000_000;

/// The bound on all sliding-window logs of a store together, unless said otherwise.
const DEFAULT_LOG_BYTES: u64 = 256 << 20;

/// How a [`MemoryStore`] is to be.
#[derive(Clone)]
#[must_use]
pub struct MemoryStoreBuilder {
    max_keys: u64,
    max_bytes: u64,
    on_full: OnFull,
    clock: StoreClock,
    #[cfg(any(feature = "tokio", loom))]
    max_waiting: usize,
}

impl Default for MemoryStoreBuilder {
    fn default() -> Self {
        Self {
            max_keys: DEFAULT_KEYS,
            max_bytes: DEFAULT_LOG_BYTES,
            on_full: OnFull::default(),
            clock: StoreClock::default(),
            #[cfg(any(feature = "tokio", loom))]
            max_waiting: crate::waiting::DEFAULT_MAX_WAITING,
        }
    }
}

impl MemoryStoreBuilder {
    /// How many live pairs of key and limit are held exactly, at least. Default 1,000,000, which is 44 MB.
    pub const fn max_keys(mut self, max_keys: u64) -> Self {
        self.max_keys = max_keys;
        self
    }

    /// The most bytes that all sliding-window logs take together. Default 256 MiB. A log that cannot
    /// grow is kept coarsely: its newest units count for longer than they should.
    pub const fn max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// What happens to a key that finds no place. Default [`OnFull::Share`].
    pub const fn on_full(mut self, on_full: OnFull) -> Self {
        self.on_full = on_full;
        self
    }

    /// Another clock than the process's.
    pub fn clock(mut self, clock: impl IntoClock) -> Self {
        self.clock = StoreClock::Given(clock.into_clock());
        self
    }

    /// How many may wait for one key at a time; default 1,024. Whoever comes later is refused at once.
    #[cfg(any(feature = "tokio", loom))]
    pub const fn max_waiting(mut self, max_waiting: usize) -> Self {
        self.max_waiting = max_waiting;
        self
    }

    /// Reserves the memory.
    ///
    /// # Errors
    /// If `max_keys` is not 1 to 10^9, or its table does not fit into memory.
    pub fn build(self) -> Result<MemoryStore, BuildError> {
        /// Numbers the stores, to lock them in one order.
        static SERIALS: AtomicU64 = AtomicU64::new(0);
        if !MAX_KEYS.contains(&self.max_keys) {
            return Err(BuildError::MaxKeysOutOfRange);
        }
        let inner = Inner {
            words: Table::new(self.max_keys).map_err(|_| BuildError::OutOfMemory)?,
            clock: self.clock,
            seed: Seed::default(),
            serial: SERIALS.fetch_add(1, Ordering::Relaxed),
            overflowing: AtomicBool::new(false),
            on_full: self.on_full,
            max_keys: self.max_keys,
            occupied: AtomicU64::new(0),
            logs: OnceLock::new(),
            log_memory: LogMemory::new(self.max_bytes),
            shapes: Shapes::default(),
            overflow: Mutex::new(Overflow::default()),
            overflow_decisions: AtomicU64::new(0),
            #[cfg(any(feature = "tokio", loom))]
            lines: OnceLock::new(),
            #[cfg(any(feature = "tokio", loom))]
            max_waiting: self.max_waiting,
        };
        Ok(MemoryStore { inner: Arc::new(inner) })
    }
}
