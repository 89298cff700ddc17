//! What the link has counted and how it is: written by its thread and by lone callers, read by anybody.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ratekeeper_core::Trouble;

use super::{LinkCounts, LinkStatus};

/// See the module.
#[derive(Default)]
pub(super) struct Ledger {
    /// Jobs that have no answer yet.
    pub(super) waiting: AtomicUsize,
    pub(super) reloads: AtomicU64,
    pub(super) commands: AtomicU64,
    pub(super) requests: AtomicU64,
    errors: [AtomicU64; Trouble::ALL.len()],
    /// Nanoseconds, smoothed; 0: none yet.
    round_trip: AtomicU64,
    status: Mutex<LinkStatus>,
    /// The generation of the only server's connection, and where it leads; `None`: there is none, or several servers.
    serving: Mutex<Option<Serving>>,
}

/// The connection of the thread that serves.
pub(super) struct Serving {
    pub(super) generation: u64,
    pub(super) host: String,
    pub(super) address: SocketAddr,
}

impl Ledger {
    pub(super) fn failed(&self, trouble: Trouble) {
        if let Some(at) = Trouble::ALL.iter().position(|&one| one == trouble) {
            self.errors[at].fetch_add(1, Relaxed);
        }
    }

    /// An eighth of what is new, as TCP smooths its own. Of two at once one may be lost.
    pub(super) fn took(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        let old = self.round_trip.load(Relaxed);
        let new = if old == 0 { took } else { old - old / 8 + took / 8 };
        self.round_trip.store(new.max(1), Relaxed);
    }

    /// Which connection of the thread serves, and where it leads: not in a cluster.
    pub(super) fn set_serving(&self, serving: Option<Serving>) {
        *self.lock_serving() = serving;
    }

    /// Which connection serves.
    pub(super) fn serving(&self) -> Option<u64> {
        self.lock_serving().as_ref().map(|serving| serving.generation)
    }

    /// Where that connection leads, while it serves.
    pub(super) fn place(&self, generation: u64) -> Option<(String, SocketAddr)> {
        let serving = self.lock_serving();
        let serving = serving.as_ref().filter(|serving| serving.generation == generation)?;
        Some((serving.host.clone(), serving.address))
    }

    fn lock_serving(&self) -> MutexGuard<'_, Option<Serving>> {
        self.serving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn status(&self) -> LinkStatus {
        let nanos = self.round_trip.load(Relaxed);
        let round_trip = (nanos > 0).then(|| Duration::from_nanos(nanos));
        LinkStatus { round_trip, ..self.lock().clone() }
    }

    pub(super) fn set_connected(&self, is_connected: bool) {
        self.lock().connected = is_connected;
    }

    pub(super) fn set_server(&self, server: String) {
        self.lock().server = Some(server);
    }

    pub(super) fn set_error(&self, text: &str) {
        let mut status = self.lock();
        if status.last_error.as_deref() != Some(text) {
            status.last_error = Some(text.to_owned());
        }
    }

    pub(super) fn counts(&self) -> LinkCounts {
        LinkCounts {
            errors: std::array::from_fn(|at| self.errors[at].load(Relaxed)),
            script_reloads: self.reloads.load(Relaxed),
            commands: self.commands.load(Relaxed),
            requests: self.requests.load(Relaxed),
        }
    }

    fn lock(&self) -> MutexGuard<'_, LinkStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
