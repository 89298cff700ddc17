//! The clock that tests move by hand, and that wakes those who wait by it.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use ratekeeper_core::{Clock, Micros};

use crate::sync::{Mutex, lock};

/// A clock that stands still until it is told to move: for tests, simulation and replay. It drives decisions, and
/// those who wait for them.
///
/// Clones share the same hands. It may be set back, so stores heal under it as they do on a Redis server whose clock was
/// corrected. Moving it serves, before it returns, everybody whose turn has come by then: no timer runs.
///
/// ```
/// use ratekeeper::{Clock, ManualClock, Micros, seconds};
/// let clock = ManualClock::new();
/// clock.advance(seconds(1));
/// assert_eq!(clock.now(), Micros::new(1_000_000));
/// clock.step_back(seconds(1));
/// assert_eq!(clock.now(), Micros::ZERO);
/// ```
#[derive(Clone, Default)]
pub struct ManualClock {
    hands: ratekeeper_core::ManualClock,
    sleepers: Arc<Sleepers>,
    /// Moves with the hands, and is read with them, so that loom sees who does either; if that matters.
    #[cfg(loom)]
    shown: Option<Arc<crate::sync::AtomicUsize>>,
}

/// Who is to be woken, and when. A limiter is one sleeper, however many wait for it.
struct Sleepers(Mutex<Vec<(Micros, Waker)>>);

impl Default for Sleepers {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl ManualClock {
    /// A clock at the epoch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A clock whose hands loom sees.
    #[cfg(all(test, loom))]
    pub(crate) fn shown() -> Self {
        Self { shown: Some(Arc::new(crate::sync::AtomicUsize::new(0))), ..Self::default() }
    }

    /// A clock at `instant`.
    #[must_use]
    pub fn at(instant: Micros) -> Self {
        let clock = Self::new();
        clock.set(instant);
        clock
    }

    /// Moves the hands to `instant`, forwards or backwards.
    pub fn set(&self, instant: Micros) {
        self.show();
        let is_back = instant < self.hands.now();
        self.hands.set(instant);
        self.wake(is_back);
    }

    /// Moves the hands `by` forwards, at most to [`Micros::MAX`].
    pub fn advance(&self, by: Duration) {
        self.show();
        self.hands.advance(by);
        self.wake(false);
    }

    /// Moves the hands `by` backwards, at most to the epoch.
    pub fn step_back(&self, by: Duration) {
        self.show();
        self.hands.step_back(by);
        self.wake(true);
    }

    /// Says that the hands are about to move.
    #[inline(always)]
    fn show(&self) {
        #[cfg(loom)]
        self.shown.iter().for_each(|shown| drop(shown.fetch_add(1, std::sync::atomic::Ordering::SeqCst)));
    }

    /// Wakes those whose time has come, or everybody: in a clock that was set back nobody's time is known.
    fn wake(&self, everybody: bool) {
        let mut woken = Vec::new();
        {
            let mut sleepers = lock(&self.sleepers.0);
            let now = self.hands.now();
            let mut i = 0;
            while let Some((at, _)) = sleepers.get(i) {
                if everybody || *at <= now {
                    woken.push(sleepers.swap_remove(i).1);
                } else {
                    i += 1;
                }
            }
        }
        // Outside the lock: they look at the clock, and sleep again.
        woken.into_iter().for_each(Waker::wake);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Micros {
        #[cfg(loom)]
        self.shown.iter().for_each(|shown| drop(shown.load(std::sync::atomic::Ordering::SeqCst)));
        self.hands.now()
    }

    fn wake_at(&self, at: Micros, sleeper: &Waker) -> bool {
        {
            let mut sleepers = lock(&self.sleepers.0);
            match sleepers.iter_mut().find(|(_, known)| known.will_wake(sleeper)) {
                Some((known, _)) => *known = at.min(*known),
                None => sleepers.push((at, sleeper.clone())),
            }
        }
        // The hands may have moved past it before it lay down.
        if at <= self.now() {
            self.wake(false);
        }
        true
    }
}

/// The same hands without those who wait: moved by these, they wake nobody.
impl From<ManualClock> for ratekeeper_core::ManualClock {
    fn from(clock: ManualClock) -> Self {
        clock.hands
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock").field(&self.now()).finish()
    }
}
