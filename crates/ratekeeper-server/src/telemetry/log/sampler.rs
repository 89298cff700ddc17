//! So many a second, and how many not.

use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper_core::Micros;

/// Counts what is written in the present second and what is not. No lock, and what is over the bound costs one
/// addition.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    /// The second in the upper half, how many were written in it in the lower.
    window: AtomicU64,
    /// Not written since the last that was.
    dropped: AtomicU64,
}

const LOW: u64 = u32::MAX as u64;

impl Sampler {
    /// Whether one more is written at `now`: then how many were not before it.
    pub(super) fn take(&self, now: Micros, most: u32) -> Option<u64> {
        // Seconds since the epoch fit until 2106; then they begin anew.
        let second = (now.get() / 1_000_000) & LOW;
        let mut window = self.window.load(Ordering::Relaxed);
        loop {
            let (of, written) = (window >> 32, window & LOW);
            // Another thread may have read the clock a moment later: it does not begin a second anew.
            let is_same = of == second || of == second + 1;
            let written = if is_same { written } else { 0 };
            if written >= u64::from(most) {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return None;
            }
            let next = if is_same { window + 1 } else { (second << 32) | 1 };
            match self.window.compare_exchange_weak(window, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(self.dropped.swap(0, Ordering::Relaxed)),
                Err(now) => window = now,
            }
        }
    }

    /// What was taken could not be written, nor what it would have told.
    pub(super) fn give_back(&self, dropped: u64) {
        self.dropped.fetch_add(dropped.saturating_add(1), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
