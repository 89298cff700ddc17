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
#[cfg(all(feature = "redis", feature = "tokio"))]
use crate::store::redis::Coming;

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
#[derive(Clone)]
pub struct Shaper {
    slots: Slots,
    overflow: Overflow,
}

/// Where the slots are counted.
#[derive(Clone)]
enum Slots {
    Here(KeyedLimiter),
    #[cfg(all(feature = "redis", feature = "tokio"))]
    Shared(std::sync::Arc<Shared>),
}

/// Slots in a shared store, and those of this process who wait for them.
#[cfg(all(feature = "redis", feature = "tokio"))]
struct Shared {
    store: crate::SharedStore,
    limit: ratekeeper_core::NamedLimit,
    room: std::sync::Arc<crate::store::redis::Room>,
}

#[cfg(all(feature = "redis", feature = "tokio"))]
impl Shared {
    fn turn(&self, key: Key<'_>, stands_in_line: bool) -> crate::store::redis::Turn {
        let check = ratekeeper_core::Check { limit: &self.limit, key, cost: 1 };
        crate::store::redis::Turn::new(&self.store, &self.room, &[check], stands_in_line)
    }
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
        Ok(Shaper { slots: Slots::Here(self.limiter.build()?), overflow: self.overflow })
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
        self.starts(&key.into(), self.overflow)()
    }

    /// One start of the key's after another.
    pub(super) fn starts(
        &self,
        key: &Key<'_>,
        overflow: Overflow,
    ) -> impl Fn() -> Ready + Send + Sync + use<> {
        let stands_in_line = overflow == Overflow::Wait;
        let slots = match &self.slots {
            Slots::Here(limiter) => SlotsOf::Here(limiter.clone(), limiter.hash(key)),
            #[cfg(all(feature = "redis", feature = "tokio"))]
            Slots::Shared(shared) => SlotsOf::Shared(shared.turn(*key, stands_in_line)),
        };
        move || match &slots {
            SlotsOf::Here(limiter, hash) => {
                let one = One::of_limiter(&limiter.shared, *hash, None, 1);
                let mut waiter = Waiter::new(SmallVec::from_buf([one]));
                waiter.change(|wanted| wanted.stands_in_line_for_a_queue = stands_in_line);
                Ready { way: Way::Here(waiter) }
            }
            #[cfg(all(feature = "redis", feature = "tokio"))]
            SlotsOf::Shared(turn) => Ready { way: Way::Shared(Coming::Not(turn.clone())) },
        }
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

    /// How many more may come now, and how long the next would wait ([`Verdict::delay`]); never writes. `None` if the
    /// slots are in a shared store: ask that.
    pub fn peek<'k>(&self, key: impl Into<Key<'k>>) -> Option<Verdict> {
        match &self.slots {
            Slots::Here(limiter) => Some(limiter.peek_n(key, 1)),
            #[cfg(all(feature = "redis", feature = "tokio"))]
            Slots::Shared(_) => None,
        }
    }

    /// Refuses all who wait in line, and all who would have to; promised starts are kept. See [`KeyedLimiter::close`].
    pub fn close(&self) {
        match &self.slots {
            Slots::Here(limiter) => limiter.close(),
            #[cfg(all(feature = "redis", feature = "tokio"))]
            Slots::Shared(shared) => shared.room.close(),
        }
    }

    /// The limit.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        match &self.slots {
            Slots::Here(limiter) => limiter.limit(),
            #[cfg(all(feature = "redis", feature = "tokio"))]
            Slots::Shared(shared) => shared.limit.limit(),
        }
    }
}

#[cfg(all(feature = "redis", feature = "tokio"))]
impl Shaper {
    /// A shaper whose slots are counted in Redis or Valkey: starts are spaced over all processes that share the store and
    /// the limit, in the order in which the store was asked, by its clock.
    ///
    /// A start is never before its slot by the store's clock, and at most one round trip after it. With
    /// [`Overflow::Wait`] the callers of one process stand in line for it, in order, and one of them asks; between processes
    /// goes first whoever asks first when there is room. While the store does not answer, this instance's share of the
    /// limit paces its own callers ([`OnStoreError::Local`](crate::OnStoreError::Local)).
    ///
    /// ```no_run
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// use ratekeeper::{Algorithm, Limit, Name, NamedLimit, Overflow, RedisStore, Shaper, SharedStore};
    /// let redis = RedisStore::builder("redis://127.0.0.1:6379".parse()?).build()?;
    /// let store = SharedStore::builder(redis).instances(3).build()?;
    /// let paced = Limit::per_second(10).algorithm(Algorithm::LeakyBucket).queue(100);
    /// let limit = NamedLimit::new(&Name::new("outgoing")?, Name::new("pace")?, paced);
    /// let shaper = Shaper::shared(store, limit, Overflow::Refuse)?;
    /// shaper.run("example.org", async { /* the request */ }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`BuildError::NotAQueue`] if the limit is no leaky bucket with a queue.
    pub fn shared(
        store: crate::SharedStore,
        limit: ratekeeper_core::NamedLimit,
        overflow: Overflow,
    ) -> Result<Self, BuildError> {
        if !limit.limit().is_queue() {
            return Err(BuildError::NotAQueue);
        }
        let room = std::sync::Arc::new(crate::store::redis::Room::new(super::DEFAULT_MAX_WAITING));
        Ok(Self { slots: Slots::Shared(std::sync::Arc::new(Shared { store, limit, room })), overflow })
    }
}

/// The slots of one key.
enum SlotsOf {
    Here(KeyedLimiter, Hash),
    #[cfg(all(feature = "redis", feature = "tokio"))]
    Shared(crate::store::redis::Turn),
}

/// The next start: see [`Shaper::ready`].
#[must_use = "it has no slot until it is awaited"]
pub struct Ready {
    way: Way,
}

enum Way {
    Here(Waiter),
    #[cfg(all(feature = "redis", feature = "tokio"))]
    Shared(Coming),
}

impl Ready {
    /// Work as long as `cost` units: the start after it comes so much later.
    pub fn cost(mut self, cost: u64) -> Self {
        match &mut self.way {
            Way::Here(waiter) => waiter.change(|wanted| wanted.set_cost(cost)),
            #[cfg(all(feature = "redis", feature = "tokio"))]
            Way::Shared(coming) => coming.set_cost(cost),
        }
        self
    }

    /// How long it may wait at most: see [`Acquire::within`](crate::Acquire::within). A slot that would begin later is
    /// not taken.
    ///
    /// Of a [shared](Shaper::shared) shaper less is known beforehand: whoever stands in line may be refused only when its
    /// time is over, and answers of the store, which take no longer than its timeouts, are waited for beyond it.
    pub fn within(mut self, within: Duration) -> Self {
        match &mut self.way {
            Way::Here(waiter) => waiter.set_within(within),
            #[cfg(all(feature = "redis", feature = "tokio"))]
            Way::Shared(coming) => coming.set_within(within),
        }
        self
    }
}

impl Future for Ready {
    type Output = Result<Admitted, Refused>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.way {
            Way::Here(waiter) => waiter.poll(cx),
            #[cfg(all(feature = "redis", feature = "tokio"))]
            Way::Shared(coming) => coming.poll(cx).map_ok(|(admitted, held)| {
                if let Some(held) = held {
                    held.keep();
                }
                admitted
            }),
        }
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.way {
            Way::Here(waiter) => f.debug_tuple("Ready").field(waiter).finish(),
            #[cfg(all(feature = "redis", feature = "tokio"))]
            Way::Shared(_) => f.write_str("Ready"),
        }
    }
}

impl fmt::Debug for Shaper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Shaper");
        text.field("limit", self.limit()).field("overflow", &self.overflow).finish_non_exhaustive()
    }
}

impl fmt::Debug for ShaperBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShaperBuilder").field("limit", &self.limit).finish_non_exhaustive()
    }
}
