//! Who is refused most: a sketch of fixed size, however many keys there are.
//!
//! Space-Saving (Metwally, Agrawal and El Abbadi, 2005): so many counters; a key without one takes over the lowest, and
//! its count as its error. What is told of a key is never too low, and too high by its error at most; a key with more
//! than one in [`COUNTERS`] of the refusals has a counter. Time passes in two halves, the older of which is forgotten
//! whole, so that the last minutes are shown.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

use ratekeeper_core::{Key, Micros, Name};

/// How many keys are counted at once: more than a person reads, few enough to look through all for the lowest. With keys
/// in plain and as long as they may be, both halves are 1 MB.
pub(crate) const COUNTERS: usize = 256;
/// How long a half lasts: what is shown is of the last five to ten minutes.
pub(crate) const HALF: Duration = Duration::from_secs(300);

/// Counts refusals by policy, limit and key.
pub(crate) struct Sketch {
    /// Strangers choose keys: nobody can choose two that look alike.
    seed: RandomState,
    inner: Mutex<Inner>,
    /// Refusals of this half that found the lock taken.
    missed: AtomicU64,
}

struct Inner {
    now: Half,
    before: Half,
}

struct Half {
    began: Micros,
    counters: Vec<Counter>,
    by_id: HashMap<u64, usize>,
    /// The lowest count when the counters were last searched for it; counts only grow.
    lowest: u64,
    /// So many counters from the first are above it, so that a flood of keys is not a search for each of them.
    passed: usize,
    missed: u64,
}

struct Counter {
    id: u64,
    policy: Name,
    limit: Option<Name>,
    /// In plain: it is shown only when somebody looks. Under a flood hardly any ever is.
    key: Vec<u8>,
    count: u64,
    error: u64,
}

/// Who was refused most.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Top {
    /// Of how long a time this is.
    pub(crate) window: Duration,
    /// How many refusals were not counted, since two came at once and nobody waits to be counted.
    pub(crate) missed: u64,
    /// The most refused first.
    pub(crate) denied: Vec<Denied>,
}

/// How often a key was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Denied {
    pub(crate) policy: Name,
    /// The binding limit; none if the key was blocked.
    pub(crate) limit: Option<Name>,
    /// As the log shows it.
    pub(crate) key: Box<str>,
    /// Never too low.
    pub(crate) count: u64,
    /// By how much `count` may be too high.
    pub(crate) error: u64,
}

impl Sketch {
    /// An empty one that begins at `now`.
    pub(crate) fn new(now: Micros) -> Self {
        let inner = Mutex::new(Inner { now: Half::new(now), before: Half::new(now) });
        Self { seed: RandomState::new(), inner, missed: AtomicU64::new(0) }
    }

    /// Counts a refusal, if that can be done at once. `write` writes the key, as `show` of [`Sketch::top`] takes it; it is
    /// asked for only if the key has no counter yet.
    pub(crate) fn refused(
        &self,
        now: Micros,
        (policy, limit): (&Name, Option<&Name>),
        key: &Key<'_>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let id = self.seed.hash_one((policy, limit, key));
        let mut inner = match self.inner.try_lock() {
            Ok(inner) => inner,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                self.missed.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        inner.turn(now, &self.missed);
        inner.now.count(id, (policy, limit), write);
    }

    /// The `most` that were refused most in the last minutes, their keys as `show` shows them.
    pub(crate) fn top(&self, now: Micros, most: usize, show: impl Fn(&[u8]) -> String) -> Top {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.turn(now, &self.missed);
        let (new, old) = (&inner.now, &inner.before);
        // Who has no counter in a half may have been refused as often there as the lowest that has one.
        let (floor_of_new, floor_of_old) = (new.floor(), old.floor());
        let of_new = new.counters.iter().map(|counter| match old.get(counter.id) {
            Some(other) => counter.told(other.count, other.error, &show),
            None => counter.told(floor_of_old, floor_of_old, &show),
        });
        let only_old = old.counters.iter().filter(|counter| new.get(counter.id).is_none());
        let of_old = only_old.map(|counter| counter.told(floor_of_new, floor_of_new, &show));
        let mut denied: Vec<Denied> = of_new.chain(of_old).collect();
        // By what is certain first: under a flood of keys all counters are high that came late.
        denied.sort_by_key(|denied| std::cmp::Reverse((denied.count - denied.error, denied.count)));
        denied.truncate(most);
        Top {
            window: old.began.until(now),
            missed: old.missed.saturating_add(self.missed.load(Ordering::Relaxed)),
            denied,
        }
    }
}

impl Inner {
    /// Forgets the older half when the newer has lasted its time.
    fn turn(&mut self, now: Micros, missed: &AtomicU64) {
        let half = u64::try_from(HALF.as_micros()).unwrap_or(u64::MAX);
        let lasted = now.get().saturating_sub(self.now.began.get());
        if lasted < half {
            return;
        }
        self.now.missed = missed.swap(0, Ordering::Relaxed);
        std::mem::swap(&mut self.now, &mut self.before);
        self.now.clear(now);
        if lasted >= 2 * half {
            // Nobody was refused for a whole half: what is shown begins now less that.
            self.before.clear(now.saturating_sub(HALF));
        }
    }
}

impl Half {
    fn new(began: Micros) -> Self {
        let counters = Vec::with_capacity(COUNTERS);
        // With as much room again for what has left, the table is never made anew.
        Self { began, counters, by_id: HashMap::with_capacity(2 * COUNTERS), lowest: 0, passed: 0, missed: 0 }
    }

    fn clear(&mut self, began: Micros) {
        self.counters.clear();
        self.by_id.clear();
        (self.began, self.lowest, self.passed, self.missed) = (began, 0, 0, 0);
    }

    fn get(&self, id: u64) -> Option<&Counter> {
        self.counters.get(*self.by_id.get(&id)?)
    }

    /// How often a key may have been refused that has no counter.
    fn floor(&self) -> u64 {
        if self.counters.len() < COUNTERS {
            return 0;
        }
        self.counters.iter().map(|counter| counter.count).min().unwrap_or(0)
    }

    fn count(&mut self, id: u64, (policy, limit): (&Name, Option<&Name>), write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(counter) = self.by_id.get(&id).and_then(|place| self.counters.get_mut(*place)) {
            counter.count += 1;
            return;
        }
        let place = if self.counters.len() < COUNTERS {
            let (policy, limit) = (policy.clone(), limit.cloned());
            self.counters.push(Counter { id, policy, limit, key: Vec::new(), count: 0, error: 0 });
            self.counters.len() - 1
        } else {
            self.find_lowest()
        };
        let Some(counter) = self.counters.get_mut(place) else { return };
        self.by_id.remove(&counter.id);
        (counter.id, counter.error) = (id, counter.count);
        counter.count += 1;
        counter.policy.clone_from(policy);
        counter.limit = limit.cloned();
        counter.key.clear();
        write(&mut counter.key);
        self.by_id.insert(id, place);
    }

    /// The first of the counters with the lowest count.
    fn find_lowest(&mut self) -> usize {
        let next = |half: &Self| {
            let rest = half.counters.get(half.passed..).unwrap_or_default();
            Some(half.passed + rest.iter().position(|counter| counter.count == half.lowest)?)
        };
        let place = next(self).or_else(|| {
            (self.lowest, self.passed) = (self.floor(), 0);
            next(self)
        });
        self.passed = place.unwrap_or(0);
        self.passed
    }
}

impl Counter {
    fn told(&self, more: u64, more_error: u64, show: impl Fn(&[u8]) -> String) -> Denied {
        Denied {
            policy: self.policy.clone(),
            limit: self.limit.clone(),
            key: show(&self.key).into(),
            count: self.count.saturating_add(more),
            error: self.error.saturating_add(more_error),
        }
    }
}

#[cfg(test)]
mod tests;
