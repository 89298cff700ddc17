//! [`Limiter`]: one limit, one state.

use ratekeeper_core::{Ask, Calendar, Limit, Name, Refused, Verdict};

use crate::clock::IntoClock;
use crate::error::BuildError;
use crate::keyed::{KeyedLimiter, KeyedLimiterBuilder, LimiterCheck};
use crate::receipt::{Receipt, Reservation};
use crate::store::memory::Hash;

/// A limit without keys: what everybody shares. Clones share the count.
///
/// ```
/// use ratekeeper::{Limit, Limiter, ManualClock, seconds};
///
/// let clock = ManualClock::new();
/// let global = Limiter::builder(Limit::per_second(2)).clock(&clock).build()?;
/// assert!(global.try_acquire_n(2).allowed());
/// assert!(!global.try_acquire().allowed());
/// clock.advance(seconds(1));
/// assert_eq!(global.peek().remaining(), 2);
/// # Ok::<(), ratekeeper::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Limiter {
    keyed: KeyedLimiter,
    hash: Hash,
}

/// How a [`Limiter`] is to be.
#[must_use]
pub struct LimiterBuilder {
    keyed: KeyedLimiterBuilder,
}

/// The one key of a limiter without keys.
const THE_KEY: u64 = 0;

impl LimiterBuilder {
    /// A name for the limit, for people who read what it prints.
    pub fn name(self, name: &str) -> Self {
        Self { keyed: self.keyed.name(name) }
    }

    /// Another clock than the process's.
    pub fn clock(self, clock: impl IntoClock) -> Self {
        Self { keyed: self.keyed.clock(clock) }
    }

    /// How many may wait at a time; default 1,024. Whoever comes later is refused at once.
    #[cfg(any(feature = "tokio", loom))]
    pub fn max_waiting(self, max_waiting: usize) -> Self {
        Self { keyed: self.keyed.max_waiting(max_waiting) }
    }

    /// The calendar of a limit aligned to one; default [`UtcCalendar`](ratekeeper_core::UtcCalendar).
    pub fn calendar(self, calendar: impl Calendar + 'static) -> Self {
        Self { keyed: self.keyed.calendar(calendar) }
    }

    /// Makes it.
    ///
    /// # Errors
    /// If the name is no [`Name`](ratekeeper_core::Name), or there is no memory at all.
    pub fn build(self) -> Result<Limiter, BuildError> {
        let keyed = self.keyed.build()?;
        Ok(Limiter { hash: keyed.hash(&THE_KEY.into()), keyed })
    }
}

impl Limiter {
    /// A limiter on the process's clock.
    ///
    /// # Panics
    /// If there is no memory for one state.
    #[must_use]
    pub fn new(limit: Limit) -> Self {
        Self::builder(limit).build().expect("one state fits into memory")
    }

    /// A limiter with options.
    pub fn builder(limit: Limit) -> LimiterBuilder {
        LimiterBuilder { keyed: KeyedLimiter::builder(limit).max_keys(1) }
    }

    /// Takes one unit, or is refused.
    #[inline]
    pub fn try_acquire(&self) -> Verdict {
        self.try_acquire_n(1)
    }

    /// Takes `cost` units, all or none. A cost above the capacity is refused for ever; a cost of 0 looks.
    #[inline]
    pub fn try_acquire_n(&self, cost: u64) -> Verdict {
        self.keyed.shared.decide(self.hash, cost, false, Ask::Acquire)
    }

    /// Takes as many units as there are, at most `most`: [`Verdict::cost`] says how many.
    pub fn try_acquire_up_to(&self, most: u64) -> Verdict {
        self.keyed.shared.decide(self.hash, most, true, Ask::Acquire)
    }

    /// How much is left; never writes.
    pub fn peek(&self) -> Verdict {
        self.peek_n(0)
    }

    /// Would `cost` units pass, and if not, when? Never writes.
    pub fn peek_n(&self, cost: u64) -> Verdict {
        self.keyed.shared.decide(self.hash, cost, false, Ask::Peek)
    }

    /// Forgets what was used.
    pub fn reset(&self) {
        self.keyed.reset(THE_KEY);
    }

    /// Takes `cost` units that may yet be given back: see [`KeyedLimiter::reserve`].
    ///
    /// # Errors
    /// [`Refused`] if the units are not there.
    pub fn reserve(&self, cost: u64) -> Result<Reservation, Refused> {
        self.keyed.reserve(THE_KEY, cost)
    }

    /// Waits in line until it is its turn to take one unit: see [`KeyedLimiter::acquire`].
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    /// # runtime.block_on(async {
    /// use ratekeeper::{Limit, Limiter, seconds};
    /// let global = Limiter::new(Limit::per_second(100).burst(2));
    /// for _ in 0..3 {
    ///     global.acquire().within(seconds(1)).await?;
    /// }
    /// # Ok::<(), ratekeeper::Refused>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Panics
    /// The future, as there.
    #[cfg(any(feature = "tokio", loom))]
    pub fn acquire(&self) -> crate::Acquire {
        self.keyed.acquire(THE_KEY)
    }

    /// The same with another cost: [`Acquire::cost`](crate::Acquire::cost).
    #[cfg(any(feature = "tokio", loom))]
    pub fn acquire_n(&self, cost: u64) -> crate::Acquire {
        self.acquire().cost(cost)
    }

    /// Refuses all who wait, and from now on all who would have to: see [`KeyedLimiter::close`].
    #[cfg(any(feature = "tokio", loom))]
    pub fn close(&self) {
        self.keyed.close();
    }

    /// Gives an admission back: see [`KeyedLimiter::refund`].
    pub fn refund(&self, receipt: Receipt) {
        receipt.give_back();
    }

    /// A question for [`all`](crate::all).
    pub fn check(&self) -> LimiterCheck<'_> {
        self.keyed.check(THE_KEY)
    }

    /// The limit.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        self.keyed.limit()
    }

    /// Another limit from the next decision on; see [`KeyedLimiter::set_limit`].
    ///
    /// # Errors
    /// As there.
    pub fn set_limit(&self, limit: Limit) -> Result<(), BuildError> {
        self.keyed.set_limit(limit)
    }

    /// The name, if one was given.
    #[must_use]
    pub fn name(&self) -> Option<&Name> {
        self.keyed.name()
    }
}
