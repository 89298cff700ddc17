//! [`KeyedLimiter`]: one limit, one state per key.

use std::sync::Arc;

use ratekeeper_core::{Ask, Calendar, Evaluation, Key, Limit, Name, Refused, Verdict};
use smallvec::SmallVec;

use crate::clock::IntoClock;
use crate::current::{Current, Numbers};
use crate::error::BuildError;
use crate::receipt::{Part, Receipt, Reservation};
use crate::store::memory::{CHUNK, Hash, Inner, MemoryStore, MemoryStoreBuilder, OnFull, Query};

/// Keys of a [`KeyedLimiter::new`].
const DEFAULT_KEYS: u64 = 100_000;

type LimitFor = Box<dyn Fn(&Key<'_>) -> Option<Limit> + Send + Sync>;

/// A limit that is counted per key, in a table of fixed size. Clones share the counts.
///
/// ```
/// use ratekeeper::{KeyedLimiter, Limit, ManualClock, millis};
///
/// let clock = ManualClock::new();
/// let users = KeyedLimiter::builder(Limit::per_second(10).burst(2)).max_keys(50_000).clock(&clock).build()?;
///
/// assert!(users.try_acquire("user:42").allowed());
/// assert!(users.try_acquire("user:42").allowed());
/// let refused = users.try_acquire("user:42");
/// assert_eq!(refused.retry_after(), Some(millis(100)));
/// assert!(users.try_acquire("user:43").allowed(), "another key has its own units");
///
/// clock.advance(millis(100));
/// assert!(users.try_acquire("user:42").allowed());
/// # Ok::<(), ratekeeper::BuildError>(())
/// ```
#[derive(Clone)]
pub struct KeyedLimiter {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) store: Arc<Inner>,
    current: Current,
    pub(crate) id: u64,
    pub(crate) calendar: Option<Arc<dyn Calendar>>,
    limit_for: Option<LimitFor>,
    name: Option<Name>,
}

/// How a [`KeyedLimiter`] is to be.
#[must_use]
pub struct KeyedLimiterBuilder {
    limit: Limit,
    store: MemoryStoreBuilder,
    name: Option<String>,
    calendar: Option<Arc<dyn Calendar>>,
    limit_for: Option<LimitFor>,
}

impl KeyedLimiterBuilder {
    /// A name for the limit, for people who read what it prints.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// How many keys are held exactly, at least; default 100,000, at about 44 bytes each (twice that, and
    /// the entries, for a sliding-window log).
    pub fn max_keys(mut self, max_keys: u64) -> Self {
        self.store = self.store.max_keys(max_keys);
        self
    }

    /// The most bytes that the entries of a sliding-window log take for all keys together; default 256 MiB.
    pub fn max_bytes(mut self, max_bytes: u64) -> Self {
        self.store = self.store.max_bytes(max_bytes);
        self
    }

    /// What happens to a key that finds no place; default [`OnFull::Share`].
    pub fn on_full(mut self, on_full: OnFull) -> Self {
        self.store = self.store.on_full(on_full);
        self
    }

    /// Another clock than the process's.
    pub fn clock(mut self, clock: impl IntoClock) -> Self {
        self.store = self.store.clock(clock);
        self
    }

    /// How many may wait for one key at a time; default 1,024. Whoever comes later is refused at once
    /// ([`Reason::QueueFull`](ratekeeper_core::Reason::QueueFull)).
    #[cfg(any(feature = "tokio", loom))]
    pub fn max_waiting(mut self, max_waiting: usize) -> Self {
        self.store = self.store.max_waiting(max_waiting);
        self
    }

    /// The calendar of a limit aligned to one; default [`UtcCalendar`](ratekeeper_core::UtcCalendar).
    pub fn calendar(mut self, calendar: impl Calendar + 'static) -> Self {
        self.calendar = Some(Arc::new(calendar));
        self
    }

    /// Another limit for some keys: asked at each decision, nothing is stored; `None` is the builder's limit.
    ///
    /// A key whose limit changes keeps its used units, capped by the new capacity, as long as the algorithm is
    /// the same. At most 32,766 different limits are told apart; further ones are refused.
    ///
    /// ```
    /// use ratekeeper::{Key, KeyedLimiter, Limit};
    /// let free = Limit::per_minute(60);
    /// let paid = Limit::per_minute(6_000);
    /// let users = KeyedLimiter::builder(free)
    ///     .limit_for(move |key| (*key == Key::from("acme")).then_some(paid))
    ///     .build()?;
    /// assert_eq!(users.try_acquire("acme").remaining(), 5_999);
    /// assert_eq!(users.try_acquire("somebody").remaining(), 59);
    /// # Ok::<(), ratekeeper::BuildError>(())
    /// ```
    pub fn limit_for(
        mut self,
        limit_for: impl Fn(&Key<'_>) -> Option<Limit> + Send + Sync + 'static,
    ) -> Self {
        self.limit_for = Some(Box::new(limit_for));
        self
    }

    /// Reserves the memory.
    ///
    /// # Errors
    /// If `max_keys` is out of range, its table does not fit into memory, or the name is no
    /// [`Name`](ratekeeper_core::Name).
    pub fn build(self) -> Result<KeyedLimiter, BuildError> {
        let name = self.name.as_deref().map(Name::new).transpose().map_err(BuildError::Name)?;
        let store: MemoryStore = self.store.build()?;
        let shape = store.inner().prepare(&self.limit).ok_or(BuildError::OutOfMemory)?;
        Ok(KeyedLimiter {
            shared: Arc::new(Shared {
                store: Arc::clone(store.inner()),
                current: Current::new(self.limit, shape),
                id: 0,
                calendar: self.calendar,
                limit_for: self.limit_for,
                name,
            }),
        })
    }
}

impl KeyedLimiter {
    /// A limiter with room for 100,000 keys (4.4 MB); see [`KeyedLimiter::builder`] for more.
    ///
    /// # Panics
    /// If those do not fit into memory.
    #[must_use]
    pub fn new(limit: Limit) -> Self {
        Self::builder(limit).build().expect("a table of a few megabytes fits into memory")
    }

    /// A limiter with options.
    pub fn builder(limit: Limit) -> KeyedLimiterBuilder {
        let store = MemoryStore::builder().max_keys(DEFAULT_KEYS);
        KeyedLimiterBuilder { limit, store, name: None, calendar: None, limit_for: None }
    }

    /// Takes one unit of the key's, or is refused.
    #[inline]
    pub fn try_acquire<'k>(&self, key: impl Into<Key<'k>>) -> Verdict {
        self.try_acquire_n(key, 1)
    }

    /// Takes `cost` units of the key's, all or none. A cost above the capacity is refused for ever; a cost of
    /// 0 looks.
    #[inline]
    pub fn try_acquire_n<'k>(&self, key: impl Into<Key<'k>>, cost: u64) -> Verdict {
        self.decide(&key.into(), cost, false, Ask::Acquire)
    }

    /// Takes as many units as there are, at most `most`: [`Verdict::cost`] says how many. Refused if there is
    /// none.
    ///
    /// ```
    /// # use ratekeeper::{KeyedLimiter, Limit};
    /// let bytes = KeyedLimiter::new(Limit::per_second(1_000));
    /// let verdict = bytes.try_acquire_up_to("upload", 1_500);
    /// assert_eq!((verdict.allowed(), verdict.cost()), (true, 1_000));
    /// assert!(!bytes.try_acquire_up_to("upload", 1_500).allowed());
    /// ```
    pub fn try_acquire_up_to<'k>(&self, key: impl Into<Key<'k>>, most: u64) -> Verdict {
        self.decide(&key.into(), most, true, Ask::Acquire)
    }

    /// Takes one unit of each key's, in order and each for itself, and appends a verdict for each: the answers
    /// of [`KeyedLimiter::try_acquire`] one after another, but the misses of a large table overlap.
    ///
    /// For who has many questions at hand: what was read from a connection, a page of records. The process clock
    /// is read once for 32 keys; other clocks at each decision. Nothing is allocated but room for the verdicts.
    ///
    /// ```
    /// # use ratekeeper::{KeyedLimiter, Limit};
    /// let users = KeyedLimiter::new(Limit::per_minute(2));
    /// let mut verdicts = Vec::new();
    /// for page in [["ann", "bob"], ["ann", "ann"]] {
    ///     users.try_acquire_batch(page, &mut verdicts);
    /// }
    /// let allowed: Vec<bool> = verdicts.iter().map(|verdict| verdict.allowed()).collect();
    /// assert_eq!(allowed, [true, true, true, false]);
    /// ```
    #[inline]
    pub fn try_acquire_batch<'k, K: Into<Key<'k>>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        verdicts: &mut Vec<Verdict>,
    ) {
        self.try_acquire_batch_n(keys.into_iter().map(|key| (key, 1)), verdicts);
    }

    /// The same with a cost for each key, taken all or none; see [`KeyedLimiter::try_acquire_n`].
    ///
    /// ```
    /// # use ratekeeper::{KeyedLimiter, Limit};
    /// let bytes = KeyedLimiter::new(Limit::per_second(1_000));
    /// let mut verdicts = Vec::new();
    /// bytes.try_acquire_batch_n([("ann", 600), ("bob", 900), ("ann", 600)], &mut verdicts);
    /// assert!(verdicts[0].allowed() && verdicts[1].allowed() && !verdicts[2].allowed());
    /// ```
    pub fn try_acquire_batch_n<'k, K: Into<Key<'k>>>(
        &self,
        asks: impl IntoIterator<Item = (K, u64)>,
        verdicts: &mut Vec<Verdict>,
    ) {
        let mut asks = asks.into_iter();
        verdicts.reserve(asks.size_hint().0);
        let (mut hashed, mut limits) = (SmallVec::<[(Hash, u64); CHUNK]>::new(), SmallVec::new());
        loop {
            for (key, cost) in asks.by_ref().take(CHUNK) {
                let key = key.into();
                hashed.push((self.hash(&key), cost));
                if self.shared.limit_for.is_some() {
                    limits.push(self.limit_of(&key));
                }
            }
            if hashed.is_empty() {
                return;
            }
            self.shared.decide_chunk(&hashed, &limits, verdicts);
            hashed.clear();
            limits.clear();
        }
    }

    /// How much is left; never writes.
    pub fn peek<'k>(&self, key: impl Into<Key<'k>>) -> Verdict {
        self.peek_n(key, 0)
    }

    /// Would `cost` units pass, and if not, when? Never writes.
    ///
    /// ```
    /// # use ratekeeper::{KeyedLimiter, Limit, ManualClock, seconds};
    /// let users = KeyedLimiter::builder(Limit::per_second(1).burst(5)).clock(ManualClock::new()).build()?;
    /// let _ = users.try_acquire_n("user:42", 4);
    /// let look = users.peek_n("user:42", 3);
    /// assert_eq!((look.allowed(), look.retry_after()), (false, Some(seconds(2))));
    /// assert_eq!(users.peek_n("user:42", 6).retry_after(), None, "six never fit into five");
    /// assert_eq!(users.peek("user:42").remaining(), 1);
    /// # Ok::<(), ratekeeper::BuildError>(())
    /// ```
    pub fn peek_n<'k>(&self, key: impl Into<Key<'k>>, cost: u64) -> Verdict {
        self.decide(&key.into(), cost, false, Ask::Peek)
    }

    /// Forgets the key: it answers like one that has never been seen. What it took without a place of its own
    /// ([`OnFull::Share`]) stays, since that state is everybody's.
    ///
    /// ```
    /// # use ratekeeper::{KeyedLimiter, Limit};
    /// let logins = KeyedLimiter::new(Limit::per_hour(1));
    /// assert!(logins.try_acquire("u1").allowed());
    /// logins.reset("u1"); // the password was right after all
    /// assert!(logins.try_acquire("u1").allowed());
    /// ```
    pub fn reset<'k>(&self, key: impl Into<Key<'k>>) {
        let key = key.into();
        let limit = self.limit_of(&key);
        if let Some(query) = self.query(&key, &limit, 0, false) {
            Inner::reset(&[query]);
        }
    }

    /// Takes `cost` units that may yet be given back: dropping the [`Reservation`] gives them back,
    /// [`Reservation::keep`] makes the admission final and returns its receipt.
    ///
    /// # Errors
    /// [`Refused`] if the units are not there.
    ///
    /// ```
    /// # use ratekeeper::{KeyedLimiter, Limit};
    /// let jobs = KeyedLimiter::new(Limit::per_hour(5));
    /// let receipt = jobs.reserve("tenant-7", 2)?.keep();
    /// assert_eq!(jobs.peek("tenant-7").remaining(), 3);
    /// jobs.refund(receipt); // the job could not start
    /// assert_eq!(jobs.peek("tenant-7").remaining(), 5);
    /// # Ok::<(), ratekeeper::Refused>(())
    /// ```
    pub fn reserve<'k>(&self, key: impl Into<Key<'k>>, cost: u64) -> Result<Reservation, Refused> {
        let key = key.into();
        let verdict = self.decide(&key, cost, false, Ask::Acquire).into_result()?;
        // By the limit that was charged: `limit_for` may say another by now.
        let query = self.query(&key, verdict.limit(), cost, false);
        let part = query.map(|query| Part::of(&self.shared.store, self.shared.calendar.as_ref(), &query));
        Ok(Reservation::new(part.into_iter().collect(), &[verdict]))
    }

    /// Waits in line until it is its turn to take one unit of the key's: `.await` it, with another
    /// [cost](crate::Acquire::cost) or a time that it may take at most ([within](crate::Acquire::within)).
    ///
    /// - **In order.** Whoever came first to a key is served first, whatever its cost: small ones do not starve a large one. `try_acquire`
    ///   does not look at the line, and takes units that others wait for; `acquire(key).within(Duration::ZERO)` does not wait
    ///   either, and goes past nobody.
    /// - **Refused at once** if the wait is foreseen to be longer than `within`, if the cost never fits, or if
    ///   1,024 others ([`max_waiting`](KeyedLimiterBuilder::max_waiting)) wait for the key.
    /// - **May be dropped** at any time: its place is free, and what it has been given meanwhile comes back as a
    ///   [refund](KeyedLimiter::refund) would.
    /// - A leaky bucket with a queue has its own waiting room: it waits there until its start, and is refused at once if
    ///   there is no room.
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    /// # runtime.block_on(async {
    /// # use ratekeeper::TokioClock;
    /// use ratekeeper::{KeyedLimiter, Limit, Reason, seconds};
    /// let users = KeyedLimiter::new(Limit::per_second(1).burst(5));
    /// # let users = KeyedLimiter::builder(Limit::per_second(1).burst(5)).clock(TokioClock::new()).build()?;
    /// users.acquire("user:42").cost(5).await?; // there are five
    /// let admitted = users.acquire("user:42").within(seconds(2)).await?;
    /// assert_eq!(admitted.waited(), seconds(1));
    ///
    /// let refused = users.acquire("user:42").cost(4).within(seconds(2)).await.expect_err("four take longer");
    /// assert_eq!(refused.reason(), Some(Reason::TooLate));
    /// assert!(refused.retry_after() > Some(seconds(3)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// The future owns what it needs and can be spawned. Its key's limit is the one of now, if it comes from
    /// [`limit_for`](KeyedLimiterBuilder::limit_for).
    ///
    /// # Errors
    /// [`Refused`], with a [`Reason`](ratekeeper_core::Reason), and the wait that it would have taken.
    ///
    /// # Panics
    /// The future, if it has to wait outside a tokio runtime with timers (under a [`ManualClock`](crate::ManualClock) it
    /// needs none).
    #[cfg(any(feature = "tokio", loom))]
    pub fn acquire<'k>(&self, key: impl Into<Key<'k>>) -> crate::Acquire {
        let key = key.into();
        let limit = self.shared.limit_for.as_ref().map(|_| self.limit_of(&key));
        crate::Acquire::new(crate::waiting::One::of_limiter(&self.shared, self.hash(&key), limit, 1))
    }

    /// The same with another cost: [`Acquire::cost`](crate::Acquire::cost).
    #[cfg(any(feature = "tokio", loom))]
    pub fn acquire_n<'k>(&self, key: impl Into<Key<'k>>, cost: u64) -> crate::Acquire {
        self.acquire(key).cost(cost)
    }

    /// Refuses all who wait, and from now on all who would have to
    /// ([`Reason::Closed`](ratekeeper_core::Reason::Closed)). Whoever need not wait is served as before; a start that is
    /// promised is kept.
    #[cfg(any(feature = "tokio", loom))]
    pub fn close(&self) {
        self.shared.store.lines().close();
    }

    /// Gives an admission back, as far as that can be done without ever admitting more than if it had not been
    /// made: a bucket gives back what cannot have drained yet, a window what it still counts, a queue its
    /// last place.
    pub fn refund(&self, receipt: Receipt) {
        receipt.give_back();
    }

    /// A question for [`all`](crate::all): one unit of this key's, or another [cost](LimiterCheck::cost).
    pub fn check<'k>(&self, key: impl Into<Key<'k>>) -> LimiterCheck<'_> {
        let key = key.into();
        LimiterCheck { limiter: &self.shared, hash: self.hash(&key), limit: self.limit_of(&key), cost: 1 }
    }

    /// The limit of now, for keys that have no other.
    #[must_use]
    pub fn limit(&self) -> &Limit {
        &self.shared.current.get().limit
    }

    /// Another limit from the next decision on, for keys that have been seen and for those that have not; clones
    /// take it too. Nobody waits meanwhile, and a decision that has begun goes by the limit before.
    ///
    /// Used units stay used, at most the new capacity: a raise gives the difference at once, and a cut locks no key
    /// for longer than the new limit takes to refill. Another algorithm counts afresh; token bucket, GCRA and leaky bucket
    /// without a queue are one in this. Keys whose limit comes from
    /// [`limit_for`](KeyedLimiterBuilder::limit_for) keep that.
    ///
    /// ```
    /// # use ratekeeper::{KeyedLimiter, Limit};
    /// let users = KeyedLimiter::new(Limit::per_hour(5));
    /// assert!(users.try_acquire_n("user:42", 4).allowed());
    /// users.set_limit(Limit::per_hour(10))?;
    /// assert_eq!(users.peek("user:42").remaining(), 6);
    /// users.set_limit(Limit::per_hour(3))?;
    /// assert_eq!(users.peek("user:42").remaining(), 0);
    /// # Ok::<(), ratekeeper::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// [`BuildError::TooManyLimits`] if 32,766 different ones have been met, and
    /// [`BuildError::OutOfMemory`] if the limit is the first sliding-window log and there is no memory for its table. The limit
    /// stays what it was.
    pub fn set_limit(&self, limit: Limit) -> Result<(), BuildError> {
        let Shared { store, current, .. } = &*self.shared;
        let shape = store.prepare(&limit).ok_or_else(|| store.why_unprepared(&limit))?;
        if !current.set(limit, shape) {
            return Err(BuildError::TooManyLimits);
        }
        #[cfg(any(feature = "tokio", loom))]
        store.ask_again(None);
        Ok(())
    }

    /// The name, if one was given.
    #[must_use]
    pub fn name(&self) -> Option<&Name> {
        self.shared.name.as_ref()
    }

    #[inline(always)]
    pub(crate) fn hash(&self, key: &Key<'_>) -> Hash {
        self.shared.store.hash(self.shared.id, key)
    }

    #[inline]
    fn limit_of(&self, key: &Key<'_>) -> Limit {
        let other = self.shared.limit_for.as_ref().and_then(|limit_for| limit_for(key));
        other.unwrap_or_else(|| self.shared.current.get().limit)
    }

    #[inline(always)]
    fn decide(&self, key: &Key<'_>, cost: u64, up_to: bool, ask: Ask) -> Verdict {
        let hash = self.hash(key);
        match &self.shared.limit_for {
            None => self.shared.decide(hash, cost, up_to, ask),
            Some(_) => {
                let limit = self.limit_of(key);
                match self.shared.query(&limit, hash, cost, up_to) {
                    Some(query) => self.shared.store.decide_one(&query, ask),
                    None => no_room(&limit, cost),
                }
            }
        }
    }

    fn query<'q>(&'q self, key: &Key<'_>, limit: &'q Limit, cost: u64, up_to: bool) -> Option<Query<'q>> {
        self.shared.query(limit, self.hash(key), cost, up_to)
    }
}

/// The refusal when a limiter has met more different limits than it can tell apart.
pub(crate) fn no_room(limit: &Limit, cost: u64) -> Verdict {
    let at = ratekeeper_core::Moment::at(ratekeeper_core::Micros::ZERO);
    Evaluation::no_room(limit, &at, cost).untouched()
}

impl Shared {
    /// Decides by the limiter's own limit.
    #[inline(always)]
    pub(crate) fn decide(&self, hash: Hash, cost: u64, up_to: bool, ask: Ask) -> Verdict {
        self.store.decide_one(&self.own_query(hash, cost, up_to), ask)
    }

    /// Decides a few keys whose buckets are fetched together; each by a limit of its own, if there are any.
    #[inline(never)]
    fn decide_chunk(
        &self,
        hashed: &[(Hash, u64)],
        limits: &SmallVec<[Limit; CHUNK]>,
        verdicts: &mut Vec<Verdict>,
    ) {
        self.store.touch(hashed.iter().map(|(hash, _)| *hash));
        let mut early = self.store.reading_ahead();
        if limits.is_empty() {
            verdicts.extend(hashed.iter().map(|(hash, cost)| {
                self.store.decide_in_turn(&self.own_query(*hash, *cost, false), Ask::Acquire, &mut early)
            }));
            return;
        }
        verdicts.extend(hashed.iter().zip(limits).map(|((hash, cost), limit)| {
            match self.query(limit, *hash, *cost, false) {
                Some(query) => self.store.decide_in_turn(&query, Ask::Acquire, &mut early),
                None => no_room(limit, *cost),
            }
        }));
    }

    #[inline(always)]
    pub(crate) fn own_query(&self, hash: Hash, cost: u64, up_to: bool) -> Query<'_> {
        let Numbers { limit, shape } = self.current.get();
        Query {
            store: &self.store,
            limit,
            shape: *shape,
            id: self.id,
            hash,
            cost,
            up_to,
            calendar: self.calendar.as_deref(),
        }
    }

    #[cfg(any(feature = "tokio", loom))]
    pub(crate) fn own_limit(&self) -> &Limit {
        &self.current.get().limit
    }

    #[cfg(any(feature = "tokio", loom))]
    pub(crate) fn has_limits_of_keys(&self) -> bool {
        self.limit_for.is_some()
    }

    /// A query by any limit; `None` if it is one too many.
    pub(crate) fn query<'q>(
        &'q self,
        limit: &'q Limit,
        hash: Hash,
        cost: u64,
        up_to: bool,
    ) -> Option<Query<'q>> {
        let own = self.current.get();
        let shape = if *limit == own.limit { own.shape } else { self.store.prepare(limit)? };
        let calendar = self.calendar.as_deref();
        Some(Query { store: &self.store, limit, shape, id: self.id, hash, cost, up_to, calendar })
    }
}

/// One limiter's part of a request that several decide together.
#[must_use]
pub struct LimiterCheck<'a> {
    pub(crate) limiter: &'a Arc<Shared>,
    pub(crate) hash: Hash,
    pub(crate) limit: Limit,
    pub(crate) cost: u64,
}

impl LimiterCheck<'_> {
    /// Another cost than 1; 0 looks.
    pub const fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    pub(crate) fn query(&self) -> Option<Query<'_>> {
        self.limiter.query(&self.limit, self.hash, self.cost, false)
    }

    pub(crate) fn no_room(&self) -> Verdict {
        no_room(&self.limit, self.cost)
    }
}

impl std::fmt::Debug for KeyedLimiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("KeyedLimiter");
        text.field("limit", self.limit());
        if let Some(name) = &self.shared.name {
            text.field("name", name);
        }
        text.finish_non_exhaustive()
    }
}
