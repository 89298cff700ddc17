//! Real time, for what really takes some.

use std::time::{Duration, Instant};

/// How long a condition is given before it is looked at again.
const PAUSE: Duration = Duration::from_millis(10);

/// A monotonic clock that starts with it: the one place of the testkit that reads time.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts at zero.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "servers under test have the real clock")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// Whole microseconds since the start, rounded down.
    #[must_use]
    pub fn elapsed_us(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// Looks until `is_so`; the time it took.
///
/// # Panics
/// If it is not so within `patience`; the message names `what` was waited for.
#[track_caller]
pub fn wait_until(what: &str, patience: Duration, mut is_so: impl FnMut() -> bool) -> Duration {
    let watch = Stopwatch::start();
    while !is_so() {
        assert!(watch.elapsed() < patience, "{what}: not within {patience:?}");
        pause();
    }
    watch.elapsed()
}

/// Gives another process a moment.
pub(crate) fn pause() {
    // Another process is at work and tells nobody when it is done.
    std::thread::sleep(PAUSE);
}
