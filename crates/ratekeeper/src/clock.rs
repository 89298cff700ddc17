//! The machine's clock: the only file that reads it. The clocks of tests are beside it.

mod manual;
#[cfg(feature = "tokio")]
mod runtime;

use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use ratekeeper_core::{Clock, Micros};

pub use manual::ManualClock;
#[cfg(feature = "tokio")]
pub use runtime::TokioClock;

/// The clock of this process: monotonic, in microseconds since the Unix epoch.
///
/// It starts at the wall clock's time, so that epoch and calendar windows have their origin, and then counts
/// by the processor's time stamp counter where that is invariant, else by the system's monotonic clock. It
/// follows the wall clock by at most 100 ms a minute and never goes back: where the wall clock is behind, it
/// pauses. So a wall clock set forwards or back by an hour moves no bucket and opens no window twice.
///
/// Time that a suspended machine sleeps counts only as far as the monotonic clock counts it (on Linux it does
/// not); the rest is caught up by those 100 ms a minute. A wait is therefore never longer than it was when
/// the machine went to sleep, and calendar windows may change late after a long sleep.
///
/// All values share one set of hands.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessClock;

/// A correction is at most this share of the time between two.
const FOLLOW_PER: u64 = 600;
/// How long after it was found a correction begins. By then every reader has seen it.
const LEAD_US: u64 = 1_000_000;

/// The hands of the clock. A reading is a pure function of the counter:
///
/// - before the pivot: `before + elapsed`;
/// - from the pivot on: the later of `before + pivot` and `after + elapsed`.
///
/// The second never lies below the first, so readings never go back. A correction backwards is a pause.
pub(crate) struct Hands {
    counter: quanta::Clock,
    /// Microseconds of one step of the counter, as a fraction of 2^64.
    us_per_step: u64,
    /// The counter when the hands were set.
    start: u64,
    before_us: AtomicU64,
    after_us: AtomicU64,
    /// In microseconds since the start.
    pivot_us: AtomicU64,
    /// One reader at a time looks at the wall clock.
    following: AtomicBool,
}

static HANDS: LazyLock<Hands> = LazyLock::new(|| Hands::new(quanta::Clock::new(), wall_us()));

#[expect(clippy::disallowed_methods, reason = "this is the one reader of the machine's clock")]
fn wall_us() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
}

impl Hands {
    fn new(counter: quanta::Clock, wall_us: u64) -> Self {
        // What many steps of the counter come to says what one is, without a division at each reading.
        const MANY: u32 = 48;
        let nanos = u128::from(counter.delta_as_nanos(0, 1 << MANY));
        let us_per_step = u64::try_from((nanos << (64 - MANY)) / 1_000).unwrap_or(u64::MAX);
        Self {
            us_per_step,
            start: counter.raw(),
            before_us: AtomicU64::new(wall_us),
            after_us: AtomicU64::new(wall_us),
            pivot_us: AtomicU64::new(0),
            following: AtomicBool::new(false),
            counter,
        }
    }

    #[inline(always)]
    fn elapsed_us(&self) -> u64 {
        let steps = self.counter.raw().saturating_sub(self.start);
        ((u128::from(steps) * u128::from(self.us_per_step)) >> 64) as u64
    }

    #[inline(always)]
    fn now_us(&self) -> u64 {
        // The counter first: hands that are read later than it can only be newer, and agree about the past.
        let elapsed = self.elapsed_us();
        if elapsed >= self.pivot_us.load(Ordering::Relaxed).saturating_add(LEAD_US) {
            self.follow(elapsed, wall_us());
        }
        self.reading(elapsed)
    }

    #[inline(always)]
    fn reading(&self, elapsed: u64) -> u64 {
        // Who sees a new `after` sees the pivot that was written before it.
        let after = self.after_us.load(Ordering::Acquire);
        let pivot = self.pivot_us.load(Ordering::Acquire);
        let before = self.before_us.load(Ordering::Relaxed);
        if elapsed < pivot { before + elapsed } else { (before + pivot).max(after + elapsed) }
    }

    /// Plans a correction towards the wall clock.
    #[cold]
    #[inline(never)]
    fn follow(&self, elapsed: u64, wall: u64) {
        if self.following.swap(true, Ordering::Acquire) {
            return;
        }
        let pivot = self.pivot_us.load(Ordering::Relaxed);
        // Long enough after the pivot no pause is left: readings are `after + elapsed`.
        if elapsed >= pivot.saturating_add(LEAD_US) {
            let origin = self.after_us.load(Ordering::Relaxed);
            let now = origin + elapsed;
            let most = (elapsed - pivot).saturating_add(LEAD_US) / FOLLOW_PER;
            let corrected = if wall >= now {
                origin + (wall - now).min(most.min(LEAD_US / 2))
            } else {
                origin.saturating_sub((now - wall).min(most.min(LEAD_US / 2)))
            };
            // Each of these alone changes no reading of this instant.
            self.before_us.store(origin, Ordering::Release);
            self.pivot_us.store(elapsed + LEAD_US, Ordering::Release);
            self.after_us.store(corrected, Ordering::Release);
        }
        self.following.store(false, Ordering::Release);
    }
}

impl ProcessClock {
    /// How far the wall clock is ahead of this clock, in microseconds; negative if it is behind.
    #[must_use]
    pub fn offset_us(self) -> i64 {
        let now = i64::try_from(HANDS.now_us()).unwrap_or(i64::MAX);
        i64::try_from(wall_us()).unwrap_or(i64::MAX).saturating_sub(now)
    }
}

/// Measures how long something takes, by the counter of the process clock: in nanoseconds, and never slowed or
/// hurried towards wall time. For measuring only; decisions are timed by [`ProcessClock`].
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    start: u64,
}

impl Stopwatch {
    /// Starts to measure.
    #[inline]
    #[must_use]
    pub fn start() -> Self {
        Self { start: HANDS.counter.raw() }
    }

    /// Nanoseconds since the start, in steps of the counter; what reading it costs is in them.
    #[inline]
    #[must_use]
    pub fn elapsed_ns(&self) -> u64 {
        // A counter that another core reads a step earlier is no time at all.
        HANDS.counter.delta_as_nanos(self.start, HANDS.counter.raw().max(self.start))
    }
}

impl Clock for ProcessClock {
    #[inline]
    fn now(&self) -> Micros {
        Micros::new(HANDS.now_us())
    }

    fn may_step_back(&self) -> bool {
        false
    }
}

/// The clock of a store: the process's without a virtual call, or one that was given.
#[derive(Clone)]
pub(crate) enum StoreClock {
    Process(&'static Hands),
    Given(Arc<dyn Clock>),
}

impl Default for StoreClock {
    fn default() -> Self {
        Self::Process(&HANDS)
    }
}

impl StoreClock {
    #[inline(always)]
    pub(crate) fn now(&self) -> Micros {
        match self {
            Self::Process(hands) => Micros::new(hands.now_us()),
            Self::Given(clock) => clock.now(),
        }
    }

    #[inline(always)]
    pub(crate) fn heals(&self) -> bool {
        match self {
            Self::Process(_) => false,
            Self::Given(clock) => clock.may_step_back(),
        }
    }

    /// Wakes the sleeper at that time, if it can: see [`Clock::wake_at`].
    #[cfg(any(feature = "tokio", loom))]
    pub(crate) fn wake_at(&self, at: Micros, sleeper: &std::task::Waker) -> bool {
        match self {
            Self::Process(_) => false,
            Self::Given(clock) => clock.wake_at(at, sleeper),
        }
    }

    /// Whether one reading serves both.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Process(_), Self::Process(_)) => true,
            (Self::Given(a), Self::Given(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// What a store can be given as its clock.
pub trait IntoClock {
    /// The clock, shared.
    fn into_clock(self) -> Arc<dyn Clock>;
}

impl IntoClock for ManualClock {
    fn into_clock(self) -> Arc<dyn Clock> {
        Arc::new(self)
    }
}

impl IntoClock for &ManualClock {
    fn into_clock(self) -> Arc<dyn Clock> {
        Arc::new(self.clone())
    }
}

impl IntoClock for ratekeeper_core::ManualClock {
    fn into_clock(self) -> Arc<dyn Clock> {
        Arc::new(self)
    }
}

impl IntoClock for &ratekeeper_core::ManualClock {
    fn into_clock(self) -> Arc<dyn Clock> {
        Arc::new(self.clone())
    }
}

#[cfg(feature = "tokio")]
impl IntoClock for TokioClock {
    fn into_clock(self) -> Arc<dyn Clock> {
        Arc::new(self)
    }
}

impl IntoClock for ProcessClock {
    fn into_clock(self) -> Arc<dyn Clock> {
        Arc::new(self)
    }
}

impl IntoClock for Arc<dyn Clock> {
    fn into_clock(self) -> Arc<dyn Clock> {
        self
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
