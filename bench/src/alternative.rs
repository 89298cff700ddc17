//! The design that ratekeeper's table must not be much slower than: a sharded hash map that keeps fingerprints
//! beside the states. Same hash, same clock, same arithmetic. It leaves out what the table is there for: it
//! grows without bound, never gives a place away and knows one limit only.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::{Mutex, PoisonError};

use ratekeeper::{
    Ask, Clock, Key, Limit, Moment, ProcessClock, State, StateRef, Step, Verdict, decide_all, evaluate,
};

const SHARDS: usize = 64;

/// Fingerprints are hashes already.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("fingerprints are hashed as one word");
    }

    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }
}

type Map = HashMap<u64, [u64; 2], BuildHasherDefault<AsIs>>;

/// A shard has its cache lines for itself.
#[repr(align(128))]
struct Shard(Mutex<Map>);

pub(crate) struct Sharded {
    shards: Vec<Shard>,
    seed: foldhash::quality::RandomState,
    limit: Limit,
}

impl Sharded {
    pub(crate) fn new(limit: Limit, keys: usize) -> Self {
        let room = keys / SHARDS + keys / SHARDS / 16;
        let map = || Map::with_capacity_and_hasher(room, BuildHasherDefault::default());
        Self {
            shards: (0..SHARDS).map(|_| Shard(Mutex::new(map()))).collect(),
            seed: foldhash::quality::RandomState::default(),
            limit,
        }
    }

    #[inline]
    pub(crate) fn try_acquire(&self, key: &str) -> Verdict {
        let fingerprint = self.seed.hash_one(Key::from(key));
        // hashbrown takes its bits from both ends.
        let shard = (fingerprint >> 32) as usize % SHARDS;
        let mut map = self.shards[shard].0.lock().unwrap_or_else(PoisonError::into_inner);
        let words = map.entry(fingerprint).or_default();
        let at = Moment { now: ProcessClock.now(), heals: false, period: None };
        let state = StateRef::Words(State::from_words(*words));
        let evaluation = evaluate(&self.limit, state, &at, 1, Ask::Acquire);
        match decide_all([&evaluation], Ask::Acquire) {
            Step::Take => {
                *words = evaluation.next().words();
                evaluation.taken()
            }
            Step::Heal | Step::Nothing => evaluation.untouched(),
        }
    }
}
