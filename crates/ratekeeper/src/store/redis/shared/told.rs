//! What a shared store tells of itself.

use std::time::Duration;

use ratekeeper_core::Trouble;

/// How a shared store is.
#[derive(Clone, Debug, Default)]
pub struct StoreStatus {
    /// It is connected, and is asked.
    pub is_up: bool,
    /// It has failed so often that it is not asked for a moment.
    pub breaker_is_open: bool,
    /// The last failure, in the words of the server or of the system; never a key or a password.
    pub last_error: Option<String>,
    /// How long a question takes there and back, as of late.
    pub round_trip: Option<Duration>,
    /// What answers: `redis 7.0.15`, `valkey 8.1.0`.
    pub server: Option<String>,
    /// Keys whose units, admitted alone, are still to be debited.
    pub owed: usize,
}

/// What a shared store has counted since it was made.
#[derive(Clone, Debug, Default)]
pub struct StoreCounts {
    /// Failures by kind, in the order of [`Trouble::ALL`].
    pub errors: [u64; Trouble::ALL.len()],
    /// Scripts that had to be sent again.
    pub script_reloads: u64,
    /// Undos that succeeded, and that did not.
    pub undone: [u64; 2],
    /// Calls of scripts that were sent.
    pub commands: u64,
    /// Questions that were answered by them.
    pub requests: u64,
}

/// Whoever is told what happens to a shared store. Called where it happens, on the thread of its connections or of a
/// caller: it must not block.
pub trait StoreObserver: Send + Sync {
    /// A command was answered. `op` is `decide` (or a look), or `amend`: a refund, a reset, a settlement.
    fn took(&self, _op: &'static str, _took: Duration) {}
    /// The store is left alone from now on, because of this.
    fn went_down(&self, _why: &str) {}
    /// It answers again, after so long.
    fn came_back(&self, _after: Duration) {}
}
