//! Several limiters' answer to one request: all or nothing.

use ratekeeper_core::{Decision, MAX_LIMITS, Refused};

use crate::all_of::AllOf;
use crate::keyed::LimiterCheck;
use crate::receipt::Reservation;

/// Puts several limits to one request: see [`all`].
#[must_use]
pub struct All<'a, const N: usize> {
    checks: [LimiterCheck<'a>; N],
}

/// Several limits on one request, decided together: every one of them takes its cost, or none does.
///
/// All states are locked before the clock is read, so the answer is one step for all threads. A key that is
/// named twice is asked once, with the sum of the costs. More than 16 limits do not compile. At most one of them
/// should be a leaky bucket with a queue: a request has one start.
///
/// ```
/// use ratekeeper::{KeyedLimiter, Limit, Limiter, all};
/// let users = KeyedLimiter::new(Limit::per_minute(1));
/// let global = Limiter::new(Limit::per_minute(10));
/// for _ in 0..20 {
///     let _ = all([users.check("u1"), global.check()]).try_acquire();
/// }
/// assert_eq!(global.peek().remaining(), 9, "nineteen refusals took nothing");
/// ```
pub const fn all<const N: usize>(checks: [LimiterCheck<'_>; N]) -> All<'_, N> {
    const { assert!(N <= MAX_LIMITS, "at most 16 limits decide one request") };
    All { checks }
}

impl<const N: usize> All<'_, N> {
    /// Takes the cost of every limit, or nothing.
    pub fn try_acquire(&self) -> Decision {
        AllOf::new(&self.checks).try_acquire()
    }

    /// Would [`All::try_acquire`] take them? Never writes.
    pub fn peek(&self) -> Decision {
        AllOf::new(&self.checks).peek()
    }

    /// Takes the cost of every limit in a way that can be given back.
    ///
    /// # Errors
    /// [`Refused`] if some limit refuses; then nothing is taken.
    pub fn reserve(&self) -> Result<Reservation, Refused> {
        let (decision, reservation) = AllOf::new(&self.checks).reserve();
        let _ = decision.into_result()?;
        Ok(reservation.unwrap_or_else(Reservation::of_nothing))
    }

    /// Waits until all limits let the request pass, and takes the cost of each.
    ///
    /// It waits in the line of the first check's key: put the narrowest first, a user before what all users share. Who
    /// waits for the same first key is served in order; between different ones goes first whoever asks first when
    /// units are there.
    ///
    /// It is refused at once if the first limit alone, behind those in line, or all of them together, without a line,
    /// would take longer than [`within`](crate::AcquireAll::within). Units that come back to the first limit's key are
    /// given out at once; those of the others are found when the wait that was foreseen is over.
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    /// # runtime.block_on(async {
    /// use ratekeeper::{KeyedLimiter, Limit, Limiter, all, seconds};
    /// let users = KeyedLimiter::new(Limit::per_second(50).burst(1));
    /// let global = Limiter::new(Limit::per_second(1_000));
    /// for _ in 0..2 {
    ///     all([users.check("u1"), global.check()]).acquire().within(seconds(1)).await?;
    /// }
    /// # Ok::<(), ratekeeper::Refused>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Panics
    /// The future, as [`KeyedLimiter::acquire`](crate::KeyedLimiter::acquire)'s.
    #[cfg(any(feature = "tokio", loom))]
    pub fn acquire(&self) -> crate::AcquireAll {
        AllOf::new(&self.checks).acquire()
    }
}
