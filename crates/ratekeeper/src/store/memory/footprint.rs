//! How much memory a key takes.

use ratekeeper_core::{Algorithm, Limit};

use super::MemoryStore;
use super::buckets::WordBucket;
use super::logs::{self, LogTable};
use super::table::Table;

/// So many keys that the least size of the last array makes no difference.
const MANY_KEYS: u64 = 1 << 20;

/// Bytes that one key of a limit takes in a [`MemoryStore`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyBytes {
    /// Its place in the table: reserved for `max_keys` whether they come or not.
    pub table: u64,
    /// The most that its entries take on top, out of `max_bytes`: when a sliding-window log is full of requests
    /// of cost 1. 0 for all other limits.
    pub log: u64,
}

impl MemoryStore {
    /// Bytes that one key of `limit` takes, rounded up; of a store with room for thousands of keys or more.
    #[must_use]
    pub fn bytes_per_key(limit: &Limit) -> KeyBytes {
        if limit.kind() == Algorithm::SlidingWindowLog {
            let table = LogTable::bytes_for(MANY_KEYS).div_ceil(MANY_KEYS);
            // A log grows up to the N entries that can be live at once.
            let entries = usize::try_from(limit.amount()).unwrap_or(usize::MAX);
            KeyBytes { table, log: logs::bytes(entries) }
        } else {
            KeyBytes { table: Table::<WordBucket>::bytes_for(MANY_KEYS).div_ceil(MANY_KEYS), log: 0 }
        }
    }
}
