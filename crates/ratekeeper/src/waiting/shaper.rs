//! Starts that are evenly spaced: a leaky bucket as a queue, whose callers are made to wait.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use ratekeeper_core::{Key, Limit, Refused, Verdict};
use smallvec::SmallVec;

use super::acquire::{Admitted, Waiter};
use super::wanted::One;
use crate::clock::IntoClock;
use crate::error::BuildError;
use crate::keyed::{KeyedLimiter, KeyedLimiterBuilder};
use crate::store::memory::Hash;

/// What becomes of a request that finds no place in the queue.
///
/// Nobody who waits is turned away for a newcomer: a slot that was promised is kept, and one that is given up in the
/// middle could not be given to another without moving those behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Overflow {
    /// It is refused at once.
    #[default]
    Refuse,
    /// It waits in line, in order, for a place in the queue.
    Wait,
}

/// Starts work at an even pace: one at once, then one per unit of the limit's time, for each key. What comes faster waits, in
/// order, for the start it was promised; what would wait too long, by the limit's `queue` and `max_wait`, is
/// refused at once. Clones share the queues.
///
/// Starts are never closer than the limit says, whoever leaves: a promised start never moves. A late timer delays one
/// start and none after it.
///
/// ```
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
/// # runtime.block_on(async {
/// use ratekeeper::{Algorithm, Limit, Shaper, seconds};
/// const PACED: Limit = Limit::per_second(10).algorithm(Algorithm::LeakyBucket).queue(20).max_wait(seconds(3));
/// let shaper = Shaper::new(PACED);
/// # let shaper = Shaper::builder(PACED).clock(ratekeeper::TokioClock::new()).build().unwrap();
/// for page in 0..3 {
///     let fetched = shaper.run("example.org", async move { page * 2 }).await?; // 100 ms apart
///     assert_eq!(fetched, page * 2);
/// }
/// # Ok::<(), ratekeeper::Refused>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Shaper {
    limiter: KeyedLimiter,
    overflow: Overflow,
}

/// How a [`Shaper`] is to be.
#[must_use]
pub struct ShaperBuilder {
    limiter: KeyedLimiterBuilder,
    limit: Limit,
    overflow: Overflow,
}

impl ShaperBuilder {
    /// What becomes of a request that finds no place; default [`Overflow::Refuse`].
    pub const fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }

    /// How many may wait in line for a place in the queue of one key, with [`Overflow::Wait`]; default 1,024.
    pub fn max_waiting(mut self, max_waiting: usize) -> Self {
        self.limiter = self.limiter.max_waiting(max_waiting);
        self
    }

    /// How many keys have a queue of their own, at least; default 100,000.
    pub fn max_keys(mut self, max_keys: u64) -> Self {
        self.limiter = self.limiter.max_keys(max_keys);
        self
    }

    /// Another clock than the process's.
    pub fn clock(mut self, clock: impl IntoClock) -> Self {
        self.limiter = self.limiter.clock(clock);
        self
    }

    /// Makes it.
    ///
    /// # Errors
    /// [`BuildError::NotAQueue`] if the limit is no leaky bucket with a queue, and those of
    /// [`KeyedLimiterBuilder::build`].
    pub fn build(self) -> Result<Shaper, BuildError> {
        if !self.limit.is_queue() {
            return Err(BuildError::NotAQueue);
        }
        Ok(Shaper { limiter: self.limiter.build()?, overflow: self.overflow })
    }
}

impl Shaper {
    /// A shaper on the process's clock, with room for 100,000 keys.
    ///
    /// # Panics
    /// If the limit is no leaky bucket with a [queue](Limit::queue), or there is no memory for the keys.
    #[must_use]
    pub fn new(limit: Limit) -> Self {
        Self::builder(limit).build().expect("a leaky bucket with a queue, and a few megabytes")
    }

    /// A shaper with options.
    pub fn builder(limit: Limit) -> ShaperBuilder {
        ShaperBuilder { limiter: KeyedLimiter::builder(limit), limit, overflow: Overflow::Refuse }
    }

    /// Waits for the key's next start: `.await` it, and then begin.
    ///
    /// It has its slot from the first poll on. Dropped before its start, it gives the slot back if nobody has one
    /// behind it; else the slot passes unused.
    ///
    /// # Errors
    /// [`Refused`]: [`QueueFull`](ratekeeper_core::Reason::QueueFull),
    /// [`TooLate`](ratekeeper_core::Reason::TooLate), [`Closed`](ratekeeper_core::Reason::Closed), or a cost that never fits.
    ///
    /// # Panics
    /// The future, if it has to wait outside a tokio runtime with timers.
    pub fn ready<'k>(&self, key: impl Into<Key<'k>>) -> Ready {
        self.start_of(self.limiter.hash(&key.into()), self.overflow)
    }

    fn start_of(&self, hash: Hash, overflow: Overflow) -> Ready {
        let one = One::of_limiter(&self.limiter.shared, hash, None, 1);
        let mut waiter = Waiter::new(SmallVec::from_buf([one]));
        waiter.change(|wanted| wanted.stands_in_line_for_a_queue = overflow == Overflow::Wait);
        Ready { waiter }
    }

    /// One start of the key's after another. Whoever wants them has something that can wait, so they wait in line.
    #[cfg(feature = "tokio")]
    pub(super) fn starts(&self, key: &Key<'_>) -> impl Fn() -> Ready + Send + Sync + use<> {
        let (shaper, hash) = (self.clone(), self.limiter.hash(key));
        move || shaper.start_of(hash, Overflow::Wait)
    }

    /// Runs a future from the key's next start on; refused, it is dropped without having been polled.
    ///
    /// # Errors
    /// [`Refused`], as [`Shaper::ready`].
    ///
    /// # Panics
    /// As [`Shaper::ready`].
    pub async fn run<'k, F: Future>(&self, key: impl Into<Key<'k>>, future: F) -> Result<F::Output, Refused> {
        self.ready(key).await?;
        Ok(future.await)
    }

    /// How many more may come now, and how long the next would wait ([`Verdict::delay`]); never writes.
    pub fn peek<'k>(&self, key: impl Into<Key<'k>>) -> Verdict {
        self.limiter.peek_n(key, 1)
    }

    /// Refuses all who wait in line, and all who would have to; promised starts are kept. See [`KeyedLimiter::close`].
    pub fn close(&self) {
        self.limiter.close();
    }

    /// The limit.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        self.limiter.limit()
    }
}

/// The next start: see [`Shaper::ready`].
#[derive(Debug)]
#[must_use = "it has no slot until it is awaited"]
pub struct Ready {
    waiter: Waiter,
}

impl Ready {
    /// Work as long as `cost` units: the start after it comes so much later.
    pub fn cost(mut self, cost: u64) -> Self {
        self.waiter.change(|wanted| wanted.set_cost(cost));
        self
    }

    /// How long it may wait at most: see [`Acquire::within`](crate::Acquire::within). A slot that would begin later is
    /// not taken.
    pub fn within(mut self, within: Duration) -> Self {
        self.waiter.set_within(within);
        self
    }
}

impl Future for Ready {
    type Output = Result<Admitted, Refused>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.waiter.poll(cx)
    }
}

impl fmt::Debug for ShaperBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShaperBuilder").field("limit", &self.limit).finish_non_exhaustive()
    }
}
