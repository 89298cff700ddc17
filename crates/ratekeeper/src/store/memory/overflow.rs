//! Where keys are decided that find no place: one state per limit, shared by all of them.
//!
//! Stricter than a key's own state, since strangers' units count too, and never looser: a key that took units
//! here stays here as long as those can matter, though a place may have become free.

use std::collections::HashMap;

use ratekeeper_core::{Ask, Evaluation, Limit, Log, Micros, Moment, Source, State, StateRef, evaluate};
use smallvec::SmallVec;

use super::query::Query;
use super::request::Found;
use super::table::{Hash, Shape};
use super::{Inner, OnFull};
use crate::sync::{MutexGuard, lock};

/// Words of a generation of marks: 64 Ki bits.
const MARK_WORDS: usize = 1_024;
/// States that one limit may have here. Its keys may have more different parameters (plans that change from
/// call to call); then the last state decides the rest, by its own parameters.
const MOST_STATES: usize = 4;
/// How often states of limits that nobody asks for any more are looked at, in microseconds.
const SWEEP_EVERY_US: u64 = 1_000_000;

/// The overflow states of a store.
#[derive(Default)]
pub(super) struct Overflow {
    /// By identity of the limit, so bounded by the configuration.
    limits: HashMap<u64, OfLimit, foldhash::fast::RandomState>,
    swept_at: u64,
}

/// The overflow states of one limit: one for each set of parameters that its keys have, but at most
/// [`MOST_STATES`].
#[derive(Default)]
struct OfLimit {
    states: Vec<Shared>,
    /// None before the first admission.
    marks: Option<Marks>,
    /// The longest full period of the limits that were met: how long a unit can matter to its key.
    period_us: u64,
}

struct Shared {
    shape: Shape,
    state: State,
    log: Log,
}

/// Remembers who took units here: may say yes too often, never no too often. A unit matters to its key for one
/// full period at most, so marks live for one to two of them, and a flood is forgotten.
struct Marks {
    generations: [Box<[u64; MARK_WORDS]>; 2],
    turned_at: u64,
}

impl Marks {
    fn new(now: Micros) -> Self {
        Self { generations: [(); 2].map(|()| Box::new([0; MARK_WORDS])), turned_at: now.get() }
    }

    fn bits(hash: Hash) -> [(usize, u64); 2] {
        [hash.0, hash.0.rotate_right(32)].map(|h| ((h >> 6) as usize % MARK_WORDS, 1 << (h & 63)))
    }

    fn turn(&mut self, period_us: u64, now: Micros) {
        // After a step back a period is counted from now on: marks live longer, not shorter.
        self.turned_at = self.turned_at.min(now.get());
        let age = now.get() - self.turned_at;
        for _ in 0..(age / period_us.max(1)).min(2) {
            self.generations.swap(0, 1);
            self.generations[0].fill(0);
            self.turned_at = now.get();
        }
    }

    fn set(&mut self, hash: Hash) {
        for (word, bit) in Self::bits(hash) {
            self.generations[0][word] |= bit;
        }
    }

    fn has(&self, hash: Hash) -> bool {
        self.generations.iter().any(|g| Self::bits(hash).iter().all(|(word, bit)| g[*word] & bit != 0))
    }
}

impl OfLimit {
    /// Forgets the states that equal fresh ones.
    fn forget_idle(&mut self, store: &Inner, now: Micros) {
        self.states.retain_mut(|shared| {
            let live = |limit: Limit| limit.idle_at(shared.state).max(shared.log.idle_at(&limit)) > now;
            let keep = store.shapes.limit(shared.shape).is_some_and(live);
            if !keep {
                store.log_memory.release(Some(Box::new(std::mem::take(&mut shared.log))));
            }
            keep
        });
    }

    /// The shape whose state decides a key of this query's: its own, or the last one's if there are too many.
    fn shape_for(&mut self, query: &Query<'_>, at: &Moment) -> Shape {
        let known = self.states.iter().any(|shared| shared.shape == query.shape);
        match self.states.last() {
            Some(last) if !known && self.states.len() >= MOST_STATES => last.shape,
            _ => {
                if !known {
                    let shared = self.first_state_of(query, at);
                    self.states.push(shared);
                }
                query.shape
            }
        }
    }

    /// A new state, in which units that keys took under other parameters stay used: the key that comes now may
    /// be one of them.
    fn first_state_of(&self, query: &Query<'_>, at: &Moment) -> Shared {
        let used = |shared: &Shared, state: State| {
            let state = if query.is_log() { StateRef::Log(&shared.log) } else { StateRef::Words(state) };
            let capacity = query.limit.capacity();
            capacity - evaluate(query.limit, state, at, 0, Ask::Peek).untouched().remaining().min(capacity)
        };
        let converted = self.states.iter().map(|other| {
            let state = query.store.read(query, other.shape, other.state, *at).state;
            (used(other, state), state)
        });
        let (units, state) = converted.max_by_key(|(units, _)| *units).unwrap_or((0, State::FRESH));
        let mut log = Log::new();
        if query.is_log() && units > 0 {
            query.store.log_memory.make_first_room(&mut log);
            log.admit(query.limit, at, units);
        }
        Shared { shape: query.shape, state, log }
    }

    fn state_of(&mut self, shape: Shape) -> Option<&mut Shared> {
        self.states.iter_mut().find(|shared| shared.shape == shape)
    }
}

impl Overflow {
    fn of(&mut self, id: u64) -> &mut OfLimit {
        self.limits.entry(id).or_default()
    }

    /// Forgets what has become fresh: of this limit at once, of all others now and then.
    fn forget_idle(&mut self, id: u64, store: &Inner, now: Micros) {
        if now.get().abs_diff(self.swept_at) >= SWEEP_EVERY_US {
            self.swept_at = now.get();
            self.limits.retain(|_, of_limit| {
                of_limit.forget_idle(store, now);
                !of_limit.states.is_empty()
            });
        } else if let Some(of_limit) = self.limits.get_mut(&id) {
            of_limit.forget_idle(store, now);
            if of_limit.states.is_empty() {
                self.limits.remove(&id);
            }
        }
    }
}

/// The overflow states that a request holds, locked after all buckets, in the order of the stores.
#[derive(Default)]
pub(super) struct Overflows<'q> {
    held: SmallVec<[(u64, MutexGuard<'q, Overflow>); 1]>,
}

impl<'q> Overflows<'q> {
    /// Locks those of these stores.
    pub(super) fn lock(stores: impl IntoIterator<Item = &'q Inner>) -> Self {
        let mut stores: SmallVec<[&'q Inner; 2]> = stores.into_iter().collect();
        stores.sort_unstable_by_key(|store| store.serial);
        stores.dedup_by_key(|store| store.serial);
        let held = stores.into_iter().map(|store| (store.serial, lock(&store.overflow)));
        Self { held: held.collect() }
    }

    pub(super) fn has(&self, store: &Inner) -> bool {
        self.held.iter().any(|(serial, _)| *serial == store.serial)
    }

    fn of(&mut self, query: &Query<'_>) -> Option<&mut Overflow> {
        let serial = query.store.serial;
        self.held.iter_mut().find(|(held, _)| *held == serial).map(|(_, overflow)| &mut **overflow)
    }

    /// Whether this key has taken units here that can still matter.
    pub(super) fn hold(&mut self, query: &Query<'_>, at: &Moment) -> bool {
        let Some(overflow) = self.of(query) else { return false };
        overflow.forget_idle(query.id, query.store, at.now);
        query.store.set_overflowing(!overflow.limits.is_empty());
        let Some(of_limit) = overflow.limits.get_mut(&query.id) else { return false };
        let period_us = of_limit.period_us;
        of_limit.marks.as_mut().is_some_and(|marks| {
            marks.turn(period_us, at.now);
            marks.has(query.hash)
        })
    }

    /// The shape whose state decides this query's key.
    pub(super) fn shape_for(&mut self, query: &Query<'_>, at: &Moment) -> Shape {
        self.of(query).map_or(query.shape, |overflow| overflow.of(query.id).shape_for(query, at))
    }

    pub(super) fn evaluate(
        &mut self,
        query: &Query<'_>,
        shape: Shape,
        at: &Moment,
        cost: u64,
        ask: Ask,
    ) -> Evaluation {
        let denies = query.store.on_full == OnFull::Deny && cost > 0;
        // A state that is not of the query's own shape is decided by the limit that it belongs to.
        let limit = if shape == query.shape { Some(*query.limit) } else { query.store.shapes.limit(shape) };
        let shared = self.of(query).filter(|_| !denies).and_then(|o| o.of(query.id).state_of(shape));
        let (Some(shared), Some(limit)) = (shared, limit) else { return query.no_room(at, cost) };
        let query = Query { limit: &limit, ..*query };
        let state = if query.is_log() { StateRef::Log(&shared.log) } else { StateRef::Words(shared.state) };
        query.evaluate(state, at, cost, ask).with_source(Source::Overflow)
    }

    /// The shared log, with room for its first entries: those are not counted against `max_bytes`, or there
    /// would be nothing to decide on when it is used up.
    pub(super) fn log_mut(&mut self, query: &Query<'_>, shape: Shape) -> Option<&mut Log> {
        let log = &mut self.of(query)?.limits.get_mut(&query.id)?.state_of(shape)?.log;
        query.store.log_memory.make_first_room(log);
        Some(log)
    }

    /// Remembers that this key takes units here.
    pub(super) fn mark(&mut self, query: &Query<'_>, at: &Moment) {
        let Some(overflow) = self.of(query) else { return };
        let of_limit = overflow.of(query.id);
        let period = u64::try_from(query.limit.full_period().as_micros()).unwrap_or(u64::MAX);
        of_limit.period_us = of_limit.period_us.max(period);
        let marks = of_limit.marks.get_or_insert_with(|| Marks::new(at.now));
        marks.turn(of_limit.period_us, at.now);
        marks.set(query.hash);
        query.store.set_overflowing(true);
    }

    pub(super) fn take(&mut self, query: &Query<'_>, shape: Shape, at: &Moment, evaluation: &Evaluation) {
        let Some(shared) = self.of(query).and_then(|o| o.of(query.id).state_of(shape)) else { return };
        if query.is_log() {
            query.store.record(query, &mut shared.log, at, evaluation.cost());
        } else {
            shared.state = evaluation.next();
        }
    }

    pub(super) fn heal(&mut self, query: &Query<'_>, shape: Shape, at: &Moment, healed: State) {
        let Some(shared) = self.of(query).and_then(|o| o.of(query.id).state_of(shape)) else { return };
        if query.is_log() {
            shared.log.heal(at);
        } else {
            shared.state = healed;
        }
    }

    /// Amends the shared state for a key that has taken units on it.
    pub(super) fn amend(
        &mut self,
        index: usize,
        query: &Query<'_>,
        at: &Moment,
        amend: &mut dyn FnMut(Moment, Found<'_>),
    ) {
        if !self.hold(query, at) {
            return;
        }
        let of_limit = self.of(query).and_then(|overflow| overflow.limits.get_mut(&query.id));
        let Some(shared) = of_limit.and_then(|of_limit| of_limit.state_of(query.shape)) else { return };
        let (limit, shared_state) = (query.limit, true);
        if query.is_log() {
            amend(*at, Found::Log { query: index, limit, log: &mut shared.log, shared: shared_state });
        } else {
            amend(*at, Found::Words { query: index, limit, state: &mut shared.state, shared: shared_state });
        }
    }
}
