//! The memory store: a table of fixed size whose entries never leave while they matter.
//!
//! - Memory is reserved at the start and does not grow: no sweeper, no timer, no allocation per key (but the
//!   entries of sliding-window logs, bounded together by `max_bytes`).
//! - An entry leaves only when it equals a fresh one and somebody needs its place.
//! - A decision locks the buckets of its keys in one order, reads the clock once, decides, writes, unlocks:
//!   it is linearizable also for several keys and several stores.
//! - Keys are kept as fingerprints under a random seed; strangers cannot choose where theirs fall.

mod amend;
mod batch;
mod both;
mod buckets;
mod builder;
mod footprint;
mod logs;
mod overflow;
mod query;
mod request;
mod rows;
mod shapes;
mod table;
mod together;
#[cfg(any(feature = "tokio", loom))]
mod waiting;

use std::hash::{BuildHasher, Hash as _, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ratekeeper_core::{
    Align, Ask, Check, Decision, Key, Limit, Log, MAX_LIMITS, Micros, Moment, NamedLimit, Store, StoreError,
    Token, Verdict, decide_one,
};

use self::both::Reading;
use self::buckets::{WordBucket, WordSlots};
use self::logs::{LogMemory, LogTable};
use self::overflow::Overflow;
use self::shapes::Shapes;
use self::table::{Array, Bucket, Slots, Spilled, Table};
use crate::clock::StoreClock;
use crate::error::BuildError;
use crate::sync::Mutex;

pub(crate) use self::batch::CHUNK;
pub use self::batch::Question;
pub use self::builder::{MemoryStoreBuilder, OnFull};
pub use self::footprint::KeyBytes;
pub(crate) use self::query::Query;
#[cfg(test)]
pub(crate) use self::shapes::MAX_SHAPES;
pub(crate) use self::table::{Hash, Shape};

/// Random per store, so that strangers cannot choose where their keys fall. Where all interleavings are tried,
/// every run must be the same.
#[cfg(not(loom))]
type Seed = foldhash::quality::RandomState;
#[cfg(loom)]
type Seed = foldhash::quality::FixedState;

/// States in this process's memory, for any number of limits. Clones share them.
///
/// Most programs use a [`KeyedLimiter`](crate::KeyedLimiter) or a [`Limiter`](crate::Limiter), which have a
/// store of their own. What all of them promise:
///
/// - Memory is reserved at the start and does not grow, but for the entries of sliding-window logs, which
///   `max_bytes` bounds. There is no sweeper and no timer.
/// - At least `max_keys` live pairs of key and limit are held exactly. An entry leaves only when it equals a fresh
///   one and somebody needs its place, so a flood of made-up keys frees no key that is limited.
/// - Decisions are linearizable, also for several keys and several stores at once.
/// - Keys are kept as fingerprints under a random seed: strangers cannot choose where theirs fall, and two keys
///   share a state with odds below 2^-47.
#[derive(Clone)]
pub struct MemoryStore {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    words: Table<WordBucket>,
    clock: StoreClock,
    seed: Seed,
    serial: u64,
    /// Some key may be decided on an overflow state: newcomers must ask.
    overflowing: AtomicBool,
    on_full: OnFull,
    max_keys: u64,
    /// Places that are not empty, live or idle.
    occupied: AtomicU64,
    /// Reserved when the first log limit is met.
    logs: OnceLock<Option<LogTable>>,
    log_memory: LogMemory,
    shapes: Shapes,
    overflow: Mutex<Overflow>,
    overflow_decisions: AtomicU64,
    /// Made when the first has to wait.
    #[cfg(any(feature = "tokio", loom))]
    lines: OnceLock<Arc<crate::waiting::Lines>>,
    #[cfg(any(feature = "tokio", loom))]
    max_waiting: usize,
}

impl Inner {
    /// The number of a limit's parameters, reserving what they need.
    pub(crate) fn prepare(&self, limit: &Limit) -> Option<Shape> {
        if limit.kind() == ratekeeper_core::Algorithm::SlidingWindowLog {
            self.logs.get_or_init(|| Table::new(self.max_keys).ok()).as_ref()?;
        }
        self.shapes.number(limit)
    }

    /// Why [`Inner::prepare`] has no number for a limit.
    pub(crate) fn why_unprepared(&self, limit: &Limit) -> BuildError {
        let is_log = limit.kind() == ratekeeper_core::Algorithm::SlidingWindowLog;
        let has_table = self.logs.get().is_some_and(Option::is_some);
        if is_log && !has_table { BuildError::OutOfMemory } else { BuildError::TooManyLimits }
    }

    /// The parameters of a number that [`Inner::prepare`] gave.
    pub(crate) fn limit_of(&self, shape: Shape) -> Option<Limit> {
        self.shapes.limit(shape)
    }

    /// A store that is one limiter's own has one limit, without an identity to tell it from others.
    #[inline(always)]
    pub(crate) fn hash(&self, id: u64, key: &Key<'_>) -> Hash {
        let mut hasher = self.seed.build_hasher();
        if id != 0 {
            hasher.write_u64(id);
        }
        key.hash(&mut hasher);
        Hash(hasher.finish())
    }

    fn logs_of(&self, query: &Query<'_>) -> Option<&LogTable> {
        if query.is_log() { self.logs.get()?.as_ref() } else { None }
    }

    #[inline(always)]
    fn moment(&self, query: &Query<'_>, now: Micros) -> Moment {
        let mut moment = Moment { now, heals: self.clock.heals(), period: None };
        if matches!(query.limit.alignment(), Align::Calendar(_)) {
            moment.period = query.calendar.map(|calendar| calendar.window(now));
        }
        moment
    }

    fn is_overflowing(&self) -> bool {
        self.overflowing.load(Ordering::Relaxed)
    }

    fn set_overflowing(&self, overflowing: bool) {
        self.overflowing.store(overflowing, Ordering::Relaxed);
    }

    /// Counts a place that was empty.
    fn occupy(&self) {
        self.occupied.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts places that have become empty.
    fn vacated(&self, places: u64) {
        self.occupied.fetch_sub(places, Ordering::Relaxed);
    }

    /// Whether all keys that are held, live or not, are within what was promised.
    fn is_within_max_keys(&self) -> bool {
        self.occupied.load(Ordering::Relaxed) <= self.max_keys
    }

    fn count_overflow(&self) {
        self.overflow_decisions.fetch_add(1, Ordering::Relaxed);
    }

    fn make_room(&self, query: &Query<'_>, log: &mut Log, now: Micros) -> bool {
        self.log_memory.make_room(log, query.limit, now, |memory| {
            let freed = self.logs_of(query).map_or(0, |table| memory.reclaim(table, &self.shapes, now));
            self.vacated(freed);
            freed > 0
        })
    }

    /// Records an admission in a log for which [`Inner::make_room`] was asked.
    fn record(&self, query: &Query<'_>, log: &mut Log, at: &Moment, cost: u64) {
        if log.has_room(query.limit, at.now) {
            log.admit(query.limit, at, cost);
            self.log_memory.trim(log);
        } else {
            log.admit_coarsely(at, cost);
        }
    }

    /// Decides one limit. Nearly all keys are in their first bucket, and are decided here; [`request`] does the
    /// rest, by the same rules.
    #[inline(always)]
    pub(crate) fn decide_one(&self, query: &Query<'_>, ask: Ask) -> Verdict {
        if query.is_log() || query.up_to {
            return decide_general(query, ask);
        }
        self.touch([query.hash]);
        // The clock is read while the bucket is on its way.
        self.decide_one_at(query, ask, self.reading_ahead(), || {})
    }

    /// The same with a [reading](Inner::reading_ahead) that was made before, of a key whose bucket was touched.
    /// `read_again` is called if the clock was read again for this decision: by what it wrote, the reading that
    /// was made before is of the past.
    #[inline(always)]
    pub(crate) fn decide_one_at(
        &self,
        query: &Query<'_>,
        ask: Ask,
        early: Option<Micros>,
        read_again: impl FnOnce(),
    ) -> Verdict {
        if query.is_log() || query.up_to {
            let verdict = decide_general(query, ask);
            read_again();
            return verdict;
        }
        let mut slots = self.words.first(self.words.first_index(query.hash)).lock();
        let Some(slot) = slots.find_exact(query.hash, query.shape) else {
            let verdict = self.decide_elsewhere(query, ask, early, slots);
            read_again();
            return verdict;
        };
        let at = self.moment(query, early.unwrap_or_else(|| self.clock.now()));
        let (write, verdict) = decide_one(query.limit, slots.state(slot), &at, query.cost, ask);
        if let Some(state) = write {
            slots.set_state(slot, state);
        }
        verdict
    }

    /// Decides a key that is not, or not as it should be, in its first bucket: still without the general path,
    /// if it lies in its second bucket or there is a place for it in one of the two.
    #[cold]
    #[inline(never)]
    fn decide_elsewhere(
        &self,
        query: &Query<'_>,
        ask: Ask,
        early: Option<Micros>,
        mut first: WordSlots<'_>,
    ) -> Verdict {
        // From here on the clock is read under the locks. A reading from before could be older than one by which
        // somebody has just converted this state, or has seen this very key idle and taken its place.
        let hash = query.hash;
        if let Some(slot) = first.find(hash) {
            return self.decide_in(query, ask, &mut first, slot);
        }
        let second = || self.words.bucket(Array::Second, self.words.second_index(hash)).lock();
        let mut locked = first.has_spilled(Spilled::ToSecond).then(second);
        if let Some(slots) = &mut locked
            && let Some(slot) = slots.find(hash)
        {
            return self.decide_in(query, ask, slots, slot);
        }
        if first.has_spilled(Spilled::ToAttic) || self.is_overflowing() {
            drop((first, locked));
            return request::decide_alone(query, ask);
        }
        if let Some(slot) = first.find_empty().filter(|_| locked.is_none()) {
            return self.decide_in(query, ask, &mut first, slot);
        }
        // It takes an idle place where nobody can tell that from an empty one: see `Request::claim`.
        if let Some(early) = early {
            let free = |slots: &WordSlots<'_>| {
                slots.find_empty().or_else(|| rows::find_idle(slots, early, &self.shapes, |_| false))
            };
            if let Some(slot) = free(&first) {
                return self.decide_in(query, ask, &mut first, slot);
            }
            let slots = locked.get_or_insert_with(second);
            if let Some(slot) = free(slots) {
                let verdict = self.decide_in(query, ask, slots, slot);
                if verdict.token().is_some() {
                    first.set_spilled(Spilled::ToSecond);
                }
                return verdict;
            }
        }
        drop((first, locked));
        request::decide_alone(query, ask)
    }

    /// Decides a key in the slot where it lies, whatever its state was written with; or a newcomer in a place
    /// that is free.
    fn decide_in(&self, query: &Query<'_>, ask: Ask, slots: &mut WordSlots<'_>, slot: usize) -> Verdict {
        let at = self.moment(query, self.clock.now());
        let tag = slots.tag(slot);
        let is_here = slots.find(query.hash) == Some(slot);
        let reading =
            if is_here { self.read(query, tag.shape(), slots.state(slot), at) } else { Reading::fresh(at) };
        let (next, verdict) = decide_one(query.limit, reading.state, &reading.at, query.cost, ask);
        let is_asked = ask == Ask::Acquire && query.cost > 0 && query.cost <= query.limit.capacity();
        let write = match next {
            Some(next) => Some(reading.with(query, next)),
            // A refusal converts, too: what is in use is to drain by the limit of now, or whoever only asks in vain
            // would wait for as long as the limit before had it.
            None if is_here && is_asked => reading.refused(query),
            None => None,
        };
        if let Some((shape, state)) = write {
            if tag.is_empty() {
                self.occupy();
            }
            slots.claim(slot, query.hash, shape);
            slots.set_state(slot, state);
        }
        verdict
    }
}

#[cold]
#[inline(never)]
fn decide_general(query: &Query<'_>, ask: Ask) -> Verdict {
    request::decide_alone(query, ask)
}

/// Decides all of them at once. One verdict per query, in order.
pub(crate) fn decide_queries(queries: &[Query<'_>], ask: Ask) -> Vec<Verdict> {
    together::decide(queries, ask).unwrap_or_else(|| request::decide(queries, ask))
}

impl MemoryStore {
    /// A store with a million keys, unless said otherwise.
    pub fn builder() -> MemoryStoreBuilder {
        MemoryStoreBuilder::default()
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Decides a request from all its limits, all or nothing, as [`Store::decide`] does; a plain function,
    /// since memory never makes anyone wait.
    ///
    /// ```
    /// use ratekeeper::{Ask, Check, Limit, MemoryStore, Name, NamedLimit};
    /// let policy = Name::new("api")?;
    /// let minute = NamedLimit::new(&policy, Name::new("minute")?, Limit::per_minute(300));
    /// let global = NamedLimit::new(&policy, Name::new("global")?, Limit::per_minute(10_000));
    /// let store = MemoryStore::builder().max_keys(100_000).build()?;
    /// let request = [
    ///     Check { limit: &minute, key: "user:42".into(), cost: 1 },
    ///     Check { limit: &global, key: "everybody".into(), cost: 1 },
    /// ];
    /// let decision = store.decide_now(&request, Ask::Acquire)?;
    /// assert!(decision.allowed);
    /// assert_eq!((decision.binding, decision.remaining), (0, 299));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::TooManyLimits`] for more than [`MAX_LIMITS`] checks, [`StoreError::TooManyShapes`] if the
    /// store has met more different limits than it can tell apart.
    pub fn decide_now(&self, checks: &[Check<'_>], ask: Ask) -> Result<Decision, StoreError> {
        if let [check] = checks {
            return Ok(Decision::of(vec![self.inner.decide_one(&self.query(check)?, ask)]));
        }
        let queries = self.queries(checks)?;
        // All buckets are asked for before the first is waited for.
        queries.iter().for_each(|query| self.inner.touch_for(query));
        Ok(Decision::of(decide_queries(&queries, ask)))
    }

    /// Decides a request whose limits lie in several stores, as [`MemoryStore::decide_now`] does within one: all
    /// states are locked before the clock is read, so it is one step for all threads.
    ///
    /// # Errors
    /// Those of [`MemoryStore::decide_now`].
    pub fn decide_across(parts: &[(&Self, Check<'_>)], ask: Ask) -> Result<Decision, StoreError> {
        Ok(Decision::of(decide_queries(&Self::queries_across(parts)?, ask)))
    }

    pub(crate) fn queries_across<'q>(parts: &[(&'q Self, Check<'q>)]) -> Result<Vec<Query<'q>>, StoreError> {
        if parts.len() > MAX_LIMITS {
            return Err(StoreError::TooManyLimits);
        }
        parts.iter().map(|(store, check)| store.query(check)).collect()
    }

    fn queries<'q>(&'q self, checks: &[Check<'q>]) -> Result<Vec<Query<'q>>, StoreError> {
        if checks.len() > MAX_LIMITS {
            return Err(StoreError::TooManyLimits);
        }
        checks.iter().map(|check| self.query(check)).collect()
    }

    fn query<'q>(&'q self, check: &Check<'q>) -> Result<Query<'q>, StoreError> {
        let shape = self.inner.prepare(check.limit.limit()).ok_or(StoreError::TooManyShapes)?;
        Ok(self.query_of(check, shape))
    }

    fn query_of<'q>(&'q self, check: &Check<'q>, shape: Shape) -> Query<'q> {
        let named: &'q NamedLimit = check.limit;
        Query {
            store: &self.inner,
            limit: named.limit(),
            shape,
            id: named.id(),
            hash: self.inner.hash(named.id(), &check.key),
            cost: check.cost,
            up_to: named.is_draining(),
            calendar: named.calendar(),
        }
    }

    /// Bytes that are reserved for entries of fixed size. Logs come on top, at most `max_bytes`, and with the
    /// first log limit a second table of about the same size.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let words = Table::<WordBucket>::bytes_for(self.inner.max_keys);
        let logs = self.inner.logs.get().map_or(0, |_| LogTable::bytes_for(self.inner.max_keys));
        words + logs
    }

    /// Keys that have a place now, whether their state still matters or not.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.inner.occupied.load(Ordering::Relaxed)
    }

    /// Bytes that sliding-window logs hold now.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.inner.log_memory.used()
    }

    /// How many more different limits the store can meet before it answers [`StoreError::TooManyShapes`]: 32,767 at
    /// first. It forgets none.
    #[must_use]
    pub fn distinct_limits_left(&self) -> usize {
        self.inner.shapes.left()
    }

    /// Decisions so far that were made on an overflow state, or coarsely, or refused for want of a place.
    #[must_use]
    pub fn overflow_decisions(&self) -> u64 {
        self.inner.overflow_decisions.load(Ordering::Relaxed)
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemoryStore({} keys, {} bytes)", self.inner.max_keys, self.memory_bytes())
    }
}

impl Store for MemoryStore {
    async fn decide(&self, checks: &[Check<'_>], ask: Ask) -> Result<Decision, StoreError> {
        self.decide_now(checks, ask)
    }

    async fn refund(&self, admitted: &[(Check<'_>, Token)]) -> Result<(), StoreError> {
        self.refund_now(admitted)
    }

    async fn credit(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
        Inner::credit(&self.queries(checks)?);
        Ok(())
    }

    async fn reset(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
        Inner::reset(&self.queries(checks)?);
        Ok(())
    }
}

#[cfg(all(test, loom))]
mod interleavings;
#[cfg(all(test, not(loom)))]
mod tests;
