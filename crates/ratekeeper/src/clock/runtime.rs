//! The time of a tokio runtime, which its tests can pause.

use ratekeeper_core::{Clock, Micros};
use tokio::time::Instant;

/// The time of tokio's timers, for tests that pause it: decisions and sleepers then go by the same hands, and
/// [`tokio::time::advance`](https://docs.rs/tokio/latest/tokio/time/fn.advance.html) moves both.
///
/// The [`ProcessClock`](crate::ProcessClock) reads the machine and knows nothing of paused time; a limiter with it, in such
/// a test, waits in real time. This clock begins where it is told and is read inside the runtime. tokio's
/// timers go by whole milliseconds: a waiter is served up to one after its time, never before it.
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
/// # runtime.block_on(async {
/// // #[tokio::test(start_paused = true)]
/// use ratekeeper::{KeyedLimiter, Limit, TokioClock};
/// let users = KeyedLimiter::builder(Limit::per_hour(1)).clock(TokioClock::new()).build()?;
/// for _ in 0..3 {
///     users.acquire("user:42").await?;
/// } // two hours, in no time
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    start: Instant,
    origin: Micros,
}

impl TokioClock {
    /// A clock that is at the epoch now.
    #[must_use]
    pub fn new() -> Self {
        Self::at(Micros::ZERO)
    }

    /// A clock that is at `instant` now.
    #[must_use]
    pub fn at(instant: Micros) -> Self {
        Self { start: Instant::now(), origin: instant }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Micros {
        self.origin.saturating_add(Instant::now().saturating_duration_since(self.start))
    }
}
