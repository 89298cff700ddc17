//! The memory of sliding-window logs: how much all of them may take together, and where more comes from.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use ratekeeper_core::{LOG_ENTRY_BYTES, Limit, Log, Micros};

use super::buckets::{LogBox, LogBucket, LogSlots};
use super::shapes::Shapes;
use super::table::{Bucket, Slots, Table};

pub(super) type LogTable = Table<LogBucket>;

/// What a log costs besides its entries: the box, and what the allocator keeps beside two allocations.
const LOG_OVERHEAD_BYTES: u64 = size_of::<Log>() as u64 + 32;
/// Entries of a log that grows for the first time.
const LEAST_ENTRIES: usize = 4;
/// Buckets that are searched for idle logs when memory has run out: bounded work for each decision.
const RECLAIM_BUCKETS: usize = 128;

/// Bytes that logs hold, at most `max_bytes` together.
pub(super) struct LogMemory {
    max_bytes: u64,
    used: AtomicU64,
    /// Where the search for idle logs goes on.
    hand: AtomicUsize,
}

/// Bytes that a log with room for so many entries takes.
pub(super) fn bytes(entries: usize) -> u64 {
    if entries == 0 { 0 } else { LOG_OVERHEAD_BYTES + (entries * LOG_ENTRY_BYTES) as u64 }
}

impl LogMemory {
    pub(super) fn new(max_bytes: u64) -> Self {
        Self { max_bytes, used: AtomicU64::new(0), hand: AtomicUsize::new(0) }
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64) -> bool {
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.max_bytes);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    fn give(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Makes room for one more entry if there is none. Logs double, up to the N that can be live at once.
    pub(super) fn make_room(
        &self,
        log: &mut Log,
        limit: &Limit,
        now: Micros,
        idle: impl Fn(&Self) -> bool,
    ) -> bool {
        if log.has_room(limit, now) {
            return true;
        }
        let most = usize::try_from(limit.amount()).unwrap_or(usize::MAX).max(log.len() + 1);
        let doubled = (log.capacity() * 2).clamp(LEAST_ENTRIES, most.max(LEAST_ENTRIES)).min(most);
        // If memory is short, the least that helps will do.
        for entries in [doubled, log.len() + 1] {
            let more = bytes(entries) - bytes(log.capacity());
            if self.take(more) || (idle(self) && self.take(more)) {
                let before = log.capacity();
                log.reserve(entries);
                // The allocator may have given more than was asked for.
                let granted = bytes(log.capacity()) - bytes(before);
                self.used.fetch_add(granted - more, Ordering::Relaxed);
                return true;
            }
        }
        false
    }

    /// Gives a log without memory its first, within the bound or not: for the few that all depend on.
    pub(super) fn make_first_room(&self, log: &mut Log) {
        if log.capacity() == 0 {
            log.reserve(LEAST_ENTRIES);
            self.used.fetch_add(bytes(log.capacity()), Ordering::Relaxed);
        }
    }

    /// Takes the memory of a log that is no longer needed.
    pub(super) fn release(&self, log: LogBox) {
        if let Some(log) = log {
            self.give(bytes(log.capacity()));
        }
    }

    /// Gives half of a log's memory back when three quarters of it lie idle.
    pub(super) fn trim(&self, log: &mut Log) {
        let before = log.capacity();
        if before > 4 * LEAST_ENTRIES && log.len() < before / 4 {
            log.shrink_to(before / 2);
            self.give(bytes(before) - bytes(log.capacity()));
        }
    }

    /// Looks at the next few buckets for logs that equal fresh ones and takes their memory; how many there
    /// were. Buckets that somebody holds are left alone.
    pub(super) fn reclaim(&self, table: &LogTable, shapes: &Shapes, now: Micros) -> u64 {
        let mut found = 0;
        for _ in 0..RECLAIM_BUCKETS.min(table.len()) {
            let n = self.hand.fetch_add(1, Ordering::Relaxed) % table.len();
            let Some(mut slots) = table.nth(n).try_lock() else {
                continue;
            };
            for slot in 0..LogSlots::COUNT {
                let limit = shapes.limit(slots.tag(slot).shape());
                if slots.idle_at(slot, limit.as_ref()).is_some_and(|idle_at| idle_at <= now) {
                    self.release(slots.vacate(slot));
                    found += 1;
                }
            }
        }
        found
    }
}
