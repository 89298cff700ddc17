//! The queue: the end of the last slot that was given out.

use super::{Engine, Place, Tick, Token, Units, rounded_up};

#[derive(Debug, Clone)]
pub(super) struct Queue {
    amount: i128,
    window: i128,
    capacity: i128,
    max_wait: Option<i128>,
    /// The end of the last slot, times `amount`.
    taken_until: i128,
}

impl Queue {
    pub(super) fn new(amount: u64, window_us: u64, queue: u64, max_wait_us: Option<u64>) -> Self {
        Self {
            amount: amount.into(),
            window: window_us.into(),
            capacity: i128::from(queue) + 1,
            max_wait: max_wait_us.map(i128::from),
            taken_until: 0,
        }
    }

    fn start(&self, now: Tick) -> i128 {
        self.taken_until.max(now * self.amount)
    }

    fn limit(&self, now: Tick) -> i128 {
        now * self.amount + self.capacity * self.window
    }
}

impl Engine for Queue {
    fn heal(&mut self, now: Tick) {
        self.taken_until = self.taken_until.min(self.limit(now));
    }

    fn read_at(&mut self, _now: Tick) {}

    fn admits(&self, now: Tick, cost: Units) -> Option<Tick> {
        let start = self.start(now);
        let wait = start - now * self.amount;
        let has_room = start + cost * self.window <= self.limit(now);
        let is_soon = self.max_wait.is_none_or(|longest| wait <= longest * self.amount);
        (has_room && is_soon).then(|| rounded_up(wait, self.amount))
    }

    fn commit(&mut self, now: Tick, cost: Units) -> Place {
        let start = self.start(now);
        let end = start + cost * self.window;
        self.taken_until = end;
        Place::Slot { start, end }
    }

    fn give_back(&mut self, now: Tick, token: &Token, units: Units) {
        let Place::Slot { end, .. } = token.place else { return };
        let from = end - units * self.window;
        let still_waits = Tick::from(token.t_us) <= now && now * self.amount < from;
        // Slots behind this one are promised: only the last slot can be taken out without moving them.
        if still_waits && self.taken_until == end {
            self.taken_until = from;
        }
    }

    fn shortened(&self, place: Place, units: Units) -> Place {
        match place {
            Place::Slot { start, end } => Place::Slot { start, end: end - units * self.window },
            other => other,
        }
    }

    fn credit(&mut self, _now: Tick, _units: Units) {
        // Every slot is promised to somebody.
    }
}
