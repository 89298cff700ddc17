//! The sliding counter: what was taken in each window, by its number since the epoch.

use std::collections::BTreeMap;

use super::{Engine, GUARD_MAX_US, Place, Tick, Token, Units};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Counter {
    amount: Units,
    window: Tick,
    /// The last window that was written to, and what was taken in it and in the one before; `None` is fresh.
    last: Option<i128>,
    taken: BTreeMap<i128, Units>,
}

impl Counter {
    pub(super) fn new(amount: u64, window_us: u64) -> Self {
        Self { amount: amount.into(), window: window_us.into(), last: None, taken: BTreeMap::new() }
    }

    fn number(&self, now: Tick) -> i128 {
        now.div_euclid(self.window)
    }

    /// The window that counts at `now`: that of the clock, but never one before the last that was written.
    fn current(&self, now: Tick) -> i128 {
        let own = self.number(now);
        self.last.map_or(own, |last| last.max(own))
    }

    fn taken_in(&self, number: i128) -> Units {
        self.taken.get(&number).copied().unwrap_or(0)
    }

    fn give(&mut self, number: i128, units: Units) -> Units {
        let Some(taken) = self.taken.get_mut(&number) else { return 0 };
        let given = units.min(*taken);
        *taken -= given;
        if self.taken.values().all(|&taken| taken == 0) {
            self.taken.clear();
            self.last = None;
        }
        given
    }
}

impl Engine for Counter {
    fn heal(&mut self, now: Tick) {
        let Some(last) = self.last else { return };
        let guard = self.window.min(GUARD_MAX_US.into());
        if last * self.window - now > guard {
            let all = (self.taken_in(last - 1) + self.taken_in(last)).min(self.amount);
            let own = self.number(now);
            self.taken = BTreeMap::from([(own, all)]);
            self.last = Some(own);
        }
    }

    fn read_at(&mut self, _now: Tick) {}

    fn admits(&self, now: Tick, cost: Units) -> Option<Tick> {
        let number = self.current(now);
        // A window that has not begun is taken at its beginning.
        let elapsed = (now - number * self.window).max(0);
        let weighted = self.taken_in(number - 1) * (self.window - elapsed);
        let estimate = weighted + self.taken_in(number) * self.window;
        (estimate + cost * self.window <= self.amount * self.window).then_some(0)
    }

    fn commit(&mut self, now: Tick, cost: Units) -> Place {
        let number = self.current(now);
        self.last = Some(number);
        self.taken.retain(|&window, _| window + 1 >= number);
        *self.taken.entry(number).or_insert(0) += cost;
        Place::Window(number)
    }

    fn give_back(&mut self, _now: Tick, token: &Token, units: Units) {
        if let Place::Window(number) = token.place {
            self.give(number, units);
        }
    }

    fn credit(&mut self, now: Tick, units: Units) {
        let number = self.current(now);
        let given = self.give(number, units);
        self.give(number - 1, units - given);
    }
}
