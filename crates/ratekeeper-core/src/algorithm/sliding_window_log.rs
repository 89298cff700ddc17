//! Sliding window log: every admitted request is remembered until it is one window old.
//!
//! An entry made at s counts while t − s < W. A request of cost n is admitted iff the live costs and n come to
//! at most N, so no window of any position ever holds more than N: the only one of the six with that property,
//! at the price of an entry per admitted request.

use alloc::collections::VecDeque;

use super::{Moment, State, Token};
use crate::elsewhere::LogReading;
use crate::limit::{Limit, MAX_LOG_AMOUNT, MAX_WINDOW_US};
use crate::time::Micros;

/// The admitted requests of one key, oldest first, each with the running total of costs: the live sum is a
/// subtraction and the wait a binary search.
///
/// Like every state it changes only by an admission, a refund, a reset or a healing write: entries that
/// have left the window are dropped by the next admission, not before, since a clock that steps back could
/// make them count again.
#[derive(Clone, Debug, Default)]
pub struct Log {
    entries: VecDeque<Entry>,
    /// The running total before the oldest entry.
    before: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    at: u64,
    total: u64,
}

impl Entry {
    /// Until it has left the window. One ahead of now counts as if it were made now.
    fn wait(self, limit: &Limit, now: u64) -> u64 {
        wait_of(self.at, limit, now)
    }
}

fn wait_of(at: u64, limit: &Limit, now: u64) -> u64 {
    (at.min(now) + limit.window_us()).saturating_sub(now)
}

/// Bytes of one entry, for stores that bound the memory of logs.
pub const LOG_ENTRY_BYTES: usize = size_of::<Entry>();

impl Log {
    /// A log without entries or memory.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: VecDeque::new(), before: 0 }
    }

    /// Entries that fit without growing.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    /// Entries held, live or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the log holds nothing at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Makes room for `entries` in all.
    pub fn reserve(&mut self, entries: usize) {
        self.entries.reserve_exact(entries.saturating_sub(self.entries.len()));
    }

    /// Gives memory back down to room for `entries`, or for what is held.
    pub fn shrink_to(&mut self, entries: usize) {
        self.entries.shrink_to(entries);
    }

    /// Whether an admission at `now` fits without growing, after what has left the window is dropped.
    #[must_use]
    pub fn has_room(&self, limit: &Limit, now: Micros) -> bool {
        self.entries.len() < self.entries.capacity() || self.first_live(limit, now.get()) > 0
    }

    /// The instant from which the log answers like a fresh one.
    #[must_use]
    pub fn idle_at(&self, limit: &Limit) -> Micros {
        Micros::new(self.entries.back().map_or(0, |newest| newest.at + limit.window_us()))
    }

    /// Forgets all entries; their memory stays with the log.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.before = 0;
    }

    /// Index of the oldest entry that still counts at `now`.
    fn first_live(&self, limit: &Limit, now: u64) -> usize {
        match now.checked_sub(limit.window_us()) {
            None => 0,
            Some(dead) => self.entries.partition_point(|e| e.at <= dead),
        }
    }

    fn total_before(&self, index: usize) -> u64 {
        match index.checked_sub(1) {
            None => self.before,
            Some(i) => self.entries[i].total,
        }
    }

    fn total(&self) -> u64 {
        self.total_before(self.entries.len())
    }

    /// What a look at the log sees: see [`State`]'s two words below.
    pub(crate) fn summary(&self, limit: &Limit, now: u64) -> State {
        let first = self.first_live(limit, now);
        let newest = self.entries.back().filter(|_| first < self.entries.len());
        let used = self.total() - self.total_before(first);
        let more = match self.entries.get(first) {
            // Without a live entry all that remains is taken now, and stays for a window.
            None => limit.window_us(),
            Some(oldest) if used <= limit.capacity() => oldest.wait(limit, now),
            // The limit was lowered: the end of the oldest entry need not be enough.
            Some(_) => self.retry_after(limit, now, 1),
        };
        summary_of(used, more, newest.map_or(0, |e| e.at))
    }

    /// What a look sees after an admission of `cost`, or `None` if the rule refuses it.
    pub(crate) fn admits(&self, limit: &Limit, view: State, at: &Moment, cost: u64) -> Option<State> {
        let used = used(view) + cost;
        // The oldest entry stays the oldest; if there was none, the wait is that of the new one.
        (used <= limit.capacity()).then(|| summary_of(used, more_after(view), self.time_of_next(at)))
    }

    /// Whether an entry lies ahead of `now`.
    pub(crate) fn is_ahead(&self, now: u64) -> bool {
        self.entries.back().is_some_and(|e| e.at > now)
    }

    /// The entry at which the running sum from the oldest makes enough room: its end is the wait.
    pub(crate) fn retry_after(&self, limit: &Limit, now: u64, cost: u64) -> u64 {
        let first = self.first_live(limit, now);
        let base = self.total_before(first);
        let needed = (self.total() - base + cost).saturating_sub(limit.capacity());
        let index = self.entries.partition_point(|e| e.total < base + needed);
        self.entries.get(index).map_or(0, |e| e.wait(limit, now))
    }

    /// Cuts entries from the future to `now`, if the clock may step back.
    pub fn heal(&mut self, at: &Moment) {
        if at.heals {
            for entry in self.entries.iter_mut().rev().take_while(|e| e.at > at.us()) {
                entry.at = at.us();
            }
        }
    }

    /// Records an admission of `cost`: heals, drops what has left the window, appends. The store has seen
    /// that there is room, or lets the log grow by itself.
    pub fn admit(&mut self, limit: &Limit, at: &Moment, cost: u64) {
        self.heal(at);
        let first = self.first_live(limit, at.us());
        self.before = self.total_before(first);
        self.entries.drain(..first);
        let total = self.total() + cost;
        self.entries.push_back(Entry { at: self.time_of_next(at), total });
    }

    /// Records an admission without memory for it: the newest entry takes the cost and moves to now, so its
    /// units count for longer than they should. Stricter, never looser. `false` if there is no entry.
    pub fn admit_coarsely(&mut self, at: &Moment, cost: u64) -> bool {
        self.heal(at);
        let next = self.time_of_next(at);
        let Some(newest) = self.entries.back_mut() else {
            return false;
        };
        newest.at = next;
        newest.total += cost;
        true
    }

    /// Now, or a little later if another thread has read the clock later: entries stay in order. Under a clock
    /// that heals nothing is later than now.
    fn time_of_next(&self, at: &Moment) -> u64 {
        match self.entries.back() {
            Some(newest) if !at.heals => newest.at.max(at.us()),
            _ => at.us(),
        }
    }

    /// Takes one entry of the token's time and cost out, or the token's units out of it. One whose time was healed
    /// is not found, and stays.
    pub fn refund(&mut self, token: &Token) {
        let [_, made_at] = token.state.words;
        let mut index = self.entries.partition_point(|e| e.at < made_at);
        while let Some(entry) = self.entries.get(index)
            && entry.at == made_at
        {
            if entry.total - self.total_before(index) == u64::from(token.to) {
                if token.from == 0 {
                    self.entries.remove(index);
                }
                for later in self.entries.range_mut(index..) {
                    later.total -= token.cost();
                }
                return;
            }
            index += 1;
        }
    }

    /// Takes up to `units` out of the newest entries that count at `now`.
    pub fn credit(&mut self, limit: &Limit, now: Micros, mut units: u64) {
        let live = self.first_live(limit, now.get());
        while units > 0
            && self.entries.len() > live
            && let Some(newest) = self.entries.pop_back()
        {
            let cost = newest.total - self.total();
            if cost > units {
                self.entries.push_back(Entry { total: newest.total - units, ..newest });
                return;
            }
            units -= cost;
        }
    }
}

/// Units in use take the low bits of their word: N is at most 100,000, and whatever is more says the same.
const USED_BITS: u32 = 19;
const MAX_USED: u64 = (1 << USED_BITS) - 1;
const _: () = assert!(MAX_LOG_AMOUNT < MAX_USED && MAX_WINDOW_US >> (u64::BITS - USED_BITS) == 0);

/// The words that stand for a log in a verdict, which is small and cannot ask the entries later: units in use
/// and the wait until more than the rest could be used, which is at most a window; the instant of the newest
/// live entry.
fn summary_of(used: u64, more_after: u64, newest: u64) -> State {
    State { words: [used.min(MAX_USED) | more_after << USED_BITS, newest] }
}

/// [`Log::summary`] of a log that is kept elsewhere.
pub(crate) fn remote_view(limit: &Limit, reading: &LogReading, now: u64) -> State {
    let more = match reading.used {
        0 => limit.window_us(),
        used if used <= limit.capacity() => wait_of(reading.oldest, limit, now),
        _ => wait_of(reading.frees_one, limit, now),
    };
    summary_of(reading.used, more.min(MAX_WINDOW_US), if reading.used == 0 { 0 } else { reading.newest })
}

/// What [`Log::admits`] says of a log that is kept elsewhere.
pub(crate) fn remote_admits(
    limit: &Limit,
    view: State,
    used_before: u64,
    now: u64,
    cost: u64,
) -> Option<State> {
    let used = used_before.saturating_add(cost);
    (used <= limit.capacity()).then(|| summary_of(used, more_after(view), now))
}

/// How long until the entry of instant `at` has left the window.
pub(crate) fn remote_wait(at: u64, limit: &Limit, now: u64) -> u64 {
    wait_of(at, limit, now)
}

const fn used(view: State) -> u64 {
    view.words[0] & MAX_USED
}

/// Units in use, and the instant of the newest of them.
pub(crate) const fn used_until(view: State) -> (u64, u64) {
    (used(view), view.words[1])
}

pub(crate) const fn more_after(view: State) -> u64 {
    view.words[0] >> USED_BITS
}

pub(crate) fn remaining(limit: &Limit, view: State) -> u64 {
    limit.capacity().saturating_sub(used(view))
}

/// An entry ahead of now counts as if it were made now.
pub(crate) fn reset_after(limit: &Limit, view: State, now: u64) -> u64 {
    let [_, newest] = view.words;
    if used(view) == 0 { 0 } else { (newest.min(now) + limit.window_us()).saturating_sub(now) }
}
