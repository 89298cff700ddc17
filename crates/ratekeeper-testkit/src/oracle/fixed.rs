//! The fixed window: its two ends and what was taken in it.

use super::{Align, Engine, GUARD_MAX_US, Place, Tick, Token, Units};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Window {
    start: Tick,
    end: Tick,
    taken: Units,
}

#[derive(Debug, Clone)]
pub(super) struct Fixed {
    amount: Units,
    length: Tick,
    align: Align,
    /// `None` is fresh; a window in which nothing is taken is never kept.
    stored: Option<Window>,
}

impl Fixed {
    pub(super) fn new(amount: u64, window_us: u64, align: Align) -> Self {
        Self { amount: amount.into(), length: window_us.into(), align, stored: None }
    }

    /// The window that a fresh key would open at `now`.
    fn opened_at(&self, now: Tick) -> Window {
        let (start, end) = match &self.align {
            Align::Epoch => {
                let start = now - now.rem_euclid(self.length);
                (start, start + self.length)
            }
            Align::FirstRequest => (now, now + self.length),
            Align::Periods(starts) => {
                let next = starts.partition_point(|&start| Tick::from(start) <= now);
                assert!(0 < next, "{now} lies before the first of the periods");
                // The last one has no end: whoever asks about it did not write enough of the calendar out.
                let end = starts.get(next).map_or(Tick::MAX, |&end| end.into());
                (starts[next - 1].into(), end)
            }
        };
        Window { start, end, taken: 0 }
    }

    /// The window that counts at `now`: the stored one until its end, also when it has not begun.
    fn current(&self, now: Tick) -> Window {
        match self.stored {
            Some(window) if now < window.end => window,
            _ => self.opened_at(now),
        }
    }

    fn keep(&mut self, window: Window) {
        self.stored = (window.taken > 0).then_some(window);
    }
}

impl Engine for Fixed {
    fn heal(&mut self, now: Tick) {
        let Some(window) = self.stored else { return };
        let guard = (window.end - window.start).min(GUARD_MAX_US.into());
        if window.start - now > guard {
            let taken = window.taken.min(self.amount);
            self.keep(Window { taken, ..self.opened_at(now) });
        }
    }

    fn read_at(&mut self, _now: Tick) {}

    fn admits(&self, now: Tick, cost: Units) -> Option<Tick> {
        (self.current(now).taken + cost <= self.amount).then_some(0)
    }

    fn commit(&mut self, now: Tick, cost: Units) -> Place {
        let window = self.current(now);
        self.keep(Window { taken: window.taken + cost, ..window });
        Place::Window(window.start)
    }

    fn give_back(&mut self, _now: Tick, token: &Token, units: Units) {
        let Some(window) = self.stored else { return };
        if token.place == Place::Window(window.start) {
            self.keep(Window { taken: (window.taken - units).max(0), ..window });
        }
    }

    fn credit(&mut self, now: Tick, units: Units) {
        let Some(window) = self.stored else { return };
        if now < window.end {
            self.keep(Window { taken: (window.taken - units).max(0), ..window });
        }
    }
}
