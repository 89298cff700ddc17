//! The sliding log: a plain list of what was admitted.

use super::{Engine, Place, Tick, Token, Units};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    at: Tick,
    cost: Units,
}

#[derive(Debug, Clone)]
pub(super) struct Log {
    amount: Units,
    window: Tick,
    /// In the order of admission, which is the order of time.
    entries: Vec<Entry>,
}

impl Log {
    pub(super) fn new(amount: u64, window_us: u64) -> Self {
        Self { amount: amount.into(), window: window_us.into(), entries: Vec::new() }
    }

    /// An entry dies at the tick that is a window later; one from the future lives.
    fn lives(&self, entry: Entry, now: Tick) -> bool {
        now - entry.at < self.window
    }

    fn taken(&self, now: Tick) -> Units {
        self.entries.iter().filter(|entry| self.lives(**entry, now)).map(|entry| entry.cost).sum()
    }
}

impl Engine for Log {
    fn heal(&mut self, now: Tick) {
        for entry in &mut self.entries {
            entry.at = entry.at.min(now);
        }
    }

    fn read_at(&mut self, now: Tick) {
        // An entry that another thread made a moment later counts as if it were made now.
        self.heal(now);
    }

    fn admits(&self, now: Tick, cost: Units) -> Option<Tick> {
        (self.taken(now) + cost <= self.amount).then_some(0)
    }

    fn commit(&mut self, now: Tick, cost: Units) -> Place {
        let window = self.window;
        self.entries.retain(|entry| now - entry.at < window);
        // Entries stay in order, also when another thread has read the clock later.
        let at = self.entries.last().map_or(now, |last| last.at.max(now));
        self.entries.push(Entry { at, cost });
        Place::Entry(at)
    }

    fn give_back(&mut self, _now: Tick, token: &Token, units: Units) {
        let Place::Entry(at) = token.place else { return };
        let taken = Entry { at, cost: token.cost.into() };
        // Entries of one instant and cost are alike: any of them will do.
        if let Some(place) = self.entries.iter().rposition(|entry| *entry == taken) {
            self.entries[place].cost -= units;
            self.entries.retain(|entry| entry.cost > 0);
        }
    }

    fn credit(&mut self, now: Tick, units: Units) {
        let mut left = units;
        while left > 0 {
            // The newest of those that count; of one instant the one that came last.
            let newest = (0..self.entries.len())
                .filter(|&i| self.lives(self.entries[i], now))
                .max_by_key(|&i| (self.entries[i].at, i));
            let Some(newest) = newest else { return };
            let given = left.min(self.entries[newest].cost);
            left -= given;
            self.entries[newest].cost -= given;
            if self.entries[newest].cost == 0 {
                self.entries.remove(newest);
            }
        }
    }
}
