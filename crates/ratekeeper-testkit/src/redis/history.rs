//! Who asked for what and when, and what may have been admitted in a window.
//!
//! A caller knows when it sent a request and when it had the answer; the store decided somewhere in between, by
//! a clock of its own. So a history can prove that a bound was broken, and the functions here count only what
//! is proven: they never blame a store for a slow network.

use std::sync::{Mutex, PoisonError};

use super::wait::Stopwatch;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The store admitted it.
    Allowed,
    /// The store refused it.
    Denied,
    /// The store was asked and did not answer: it may have taken the cost.
    Unknown,
    /// The store was not asked, or said that it did nothing.
    Failed,
}

/// One request of one caller. Times are microseconds of the recorder's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// A number that the test gives.
    pub caller: usize,
    /// Before the request was sent.
    pub sent_us: u64,
    /// After the answer was there.
    pub got_us: u64,
    /// The key that was asked for.
    pub key: String,
    /// The units that were asked for.
    pub cost: u64,
    /// What became of it.
    pub outcome: Outcome,
}

/// Collects the events of several threads on one monotonic clock.
#[derive(Debug)]
pub struct Recorder {
    clock: Stopwatch,
    events: Mutex<Vec<Event>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// Its clock starts at zero.
    #[must_use]
    pub fn new() -> Self {
        Self { clock: Stopwatch::start(), events: Mutex::default() }
    }

    /// Its clock, in microseconds.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        self.clock.elapsed_us()
    }

    /// Asks, and notes when and with which outcome.
    pub fn call(&self, caller: usize, key: &str, cost: u64, ask: impl FnOnce() -> Outcome) -> Outcome {
        let sent_us = self.now_us();
        let outcome = ask();
        let got_us = self.now_us();
        self.note(Event { caller, sent_us, got_us, key: key.to_owned(), cost, outcome });
        outcome
    }

    /// Notes an event whose times were read elsewhere.
    pub fn note(&self, event: Event) {
        // A caller that panicked elsewhere has not left half an event.
        self.events.lock().unwrap_or_else(PoisonError::into_inner).push(event);
    }

    /// All events so far.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The cost of all admitted events.
#[must_use]
pub fn admitted(events: &[Event]) -> u64 {
    events.iter().filter(|event| event.outcome == Outcome::Allowed).map(|event| event.cost).sum()
}

/// The most cost that was certainly admitted in one closed interval of `window_us` of the store's clock, to be
/// compared with `Limit::worst_case` of that window; events of one key, in any order.
///
/// An admission counts for an interval if its request was sent and its answer had within it. `uncertainty_us`
/// says by how much the store's clock may have run ahead of the recorder's in such an interval; it is taken off
/// the window, which costs sharpness and never blames wrongly. Replies that were lost count for nothing.
#[must_use]
pub fn max_in_window(events: &[Event], window_us: u64, uncertainty_us: u64) -> u64 {
    let Some(length) = window_us.checked_sub(uncertainty_us) else { return 0 };
    // An event that took longer fits into no interval. Without those, one that began before an interval did also
    // ends before the interval does, and a difference of two running sums counts what lies inside.
    let fits = |event: &&Event| {
        event.outcome == Outcome::Allowed && event.got_us.saturating_sub(event.sent_us) <= length
    };
    let mut by_start: Vec<(u64, u64)> =
        events.iter().filter(fits).map(|event| (event.sent_us, event.cost)).collect();
    let mut by_end: Vec<(u64, u64)> =
        events.iter().filter(fits).map(|event| (event.got_us, event.cost)).collect();
    by_start.sort_unstable();
    by_end.sort_unstable();
    let (mut most, mut before, mut ended, mut next_end) = (0, 0, 0, 0);
    // An interval that begins when some event does holds as much as any.
    for (start, cost) in by_start {
        let last = start.saturating_add(length);
        while let Some((_, cost)) = by_end.get(next_end).filter(|(end, _)| *end <= last) {
            ended += cost;
            next_end += 1;
        }
        // Of several events with one start the first sees all of them: `before` lacks them still.
        most = most.max(ended - before);
        before += cost;
    }
    most
}
