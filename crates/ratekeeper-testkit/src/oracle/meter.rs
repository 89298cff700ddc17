//! The bucket: one number, the instant at which it will be full again.

use super::{Engine, Place, Tick, Token, Units};

#[derive(Debug, Clone)]
pub(super) struct Meter {
    amount: i128,
    window: i128,
    burst: i128,
    /// When the bucket will be full again, times `amount`: a unit is worth `window` of these.
    full_at: i128,
}

impl Meter {
    pub(super) fn new(amount: u64, window_us: u64, burst: u64) -> Self {
        Self { amount: amount.into(), window: window_us.into(), burst: burst.into(), full_at: 0 }
    }

    fn base(&self, now: Tick) -> i128 {
        self.full_at.max(now * self.amount)
    }

    /// When an empty bucket would be full again.
    fn limit(&self, now: Tick) -> i128 {
        now * self.amount + self.burst * self.window
    }
}

impl Engine for Meter {
    fn heal(&mut self, now: Tick) {
        self.full_at = self.full_at.min(self.limit(now));
    }

    fn read_at(&mut self, _now: Tick) {}

    fn admits(&self, now: Tick, cost: Units) -> Option<Tick> {
        (self.base(now) + cost * self.window <= self.limit(now)).then_some(0)
    }

    fn commit(&mut self, now: Tick, cost: Units) -> Place {
        self.full_at = self.base(now) + cost * self.window;
        Place::Level
    }

    fn give_back(&mut self, now: Tick, token: &Token, units: Units) {
        let taken_at = Tick::from(token.t_us);
        let taken = Units::from(token.cost) * self.window;
        // An admission never drains before it arrives; if the level says otherwise, it was lost or healed.
        if now < taken_at || self.full_at < taken_at * self.amount + taken {
            return;
        }
        // What is left of the admission is its end: the units that came first drain first.
        let left = (taken - (now - taken_at) * self.amount).max(0);
        self.full_at -= left.min(units * self.window);
    }

    fn credit(&mut self, now: Tick, units: Units) {
        let full = now * self.amount;
        if self.full_at > full {
            self.full_at = (self.full_at - units * self.window).max(full);
        }
    }
}
