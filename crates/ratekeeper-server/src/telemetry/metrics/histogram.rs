//! A histogram of durations, on atomics: the one of `prometheus-client` takes a lock to observe.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A decision in memory takes less than a microsecond, one over a network up to its deadline of 50 ms.
const DECISION_BOUNDS: [Duration; 14] = [
    Duration::from_micros(10),
    Duration::from_micros(25),
    Duration::from_micros(50),
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(25),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
];

/// A queue's delays are what people wait for: from what nobody feels to what nobody bears.
const DELAY_BOUNDS: [Duration; 11] = [
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_millis(2_500),
    Duration::from_secs(5),
    Duration::from_secs(15),
    Duration::from_secs(60),
];

const NANOS: u64 = 1_000_000_000;

/// How many durations fell between which bounds, and their sum.
#[derive(Debug)]
pub(super) struct Histogram {
    bounds: &'static [Duration],
    /// Each counts what is at most its bound and above the one before; the last what is above all.
    counts: Box<[AtomicU64]>,
    /// In two words, so that neither nanoseconds are lost nor years run over.
    sum_seconds: AtomicU64,
    sum_nanos: AtomicU64,
}

impl Histogram {
    /// For how long a decision takes.
    pub(super) fn of_decisions() -> Self {
        Self::new(&DECISION_BOUNDS)
    }

    /// For how long the admitted are told to wait.
    pub(super) fn of_delays() -> Self {
        Self::new(&DELAY_BOUNDS)
    }

    fn new(bounds: &'static [Duration]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum_seconds: AtomicU64::new(0), sum_nanos: AtomicU64::new(0) }
    }

    /// Counts a duration.
    #[inline]
    pub(super) fn observe(&self, duration: Duration) {
        // Most are below the first bound or near it: a search from the front ends soonest.
        let bucket = self.bounds.iter().position(|bound| duration <= *bound).unwrap_or(self.bounds.len());
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        if duration.as_secs() > 0 {
            self.sum_seconds.fetch_add(duration.as_secs(), Ordering::Relaxed);
        }
        self.sum_nanos.fetch_add(u64::from(duration.subsec_nanos()), Ordering::Relaxed);
    }

    /// The sum in seconds.
    #[expect(
        clippy::float_arithmetic,
        reason = "the format writes seconds as decimals; nothing decides by them"
    )]
    pub(super) fn sum(&self) -> f64 {
        let nanos = self.sum_nanos.load(Ordering::Relaxed);
        let seconds = self.sum_seconds.load(Ordering::Relaxed).saturating_add(nanos / NANOS);
        seconds as f64 + (nanos % NANOS) as f64 / NANOS as f64
    }

    /// Each bound in seconds with what was counted up to it and above the one before, the last infinite.
    pub(super) fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = self.bounds.iter().map(Duration::as_secs_f64).chain([f64::INFINITY]);
        bounds.zip(self.counts.iter().map(|count| count.load(Ordering::Relaxed))).collect()
    }
}

#[cfg(test)]
mod tests;
