//! The load on a store in this process, and what was measured of it.

use std::thread;

use ratekeeper::{MemoryStore, Stopwatch};
use ratekeeper_core::{Algorithm, Ask, Check, NamedLimit, StoreError};
use ratekeeper_policy::Config;

use crate::cli::Failure;
use crate::cli::bench::spread::Spread;
use crate::live::build_stores;
use crate::seeded::Seeded;

/// One in so many decisions is timed by itself: reading the counter takes about as long as a decision.
const TIMED_ONE_IN: u64 = 64;
/// How long a thread decides before it is measured.
const WARM_UP_NS: u64 = 100_000_000;

/// One row.
pub(super) struct Case {
    pub(super) algorithm: Algorithm,
    pub(super) threads: u64,
    pub(super) keys: u64,
    pub(super) seconds: u64,
}

impl Case {
    pub(super) const fn length_ns(&self) -> u64 {
        self.seconds * 1_000_000_000
    }
}

/// What one thread has done.
pub(super) struct Share {
    pub(super) decisions: u64,
    pub(super) allowed: u64,
    pub(super) took_ns: u64,
    pub(super) spread: Spread,
}

/// What all have done.
pub(super) struct Measured {
    pub(super) shares: Vec<Share>,
    /// What the store holds at the end.
    pub(super) bytes: u64,
}

/// The texts of keys, in random order; one for each thread.
pub(super) struct Keys {
    random: Seeded,
    n: u64,
    text: [u8; Self::LEN],
}

impl Keys {
    const LEN: usize = 13;

    pub(super) fn new(n: u64, seed: u64) -> Self {
        Self { random: Seeded::new(seed), n, text: *b"user:00000000" }
    }

    #[inline]
    pub(super) fn random(&mut self) -> &[u8] {
        let index = self.random.below(self.n);
        self.numbered(index)
    }

    #[inline]
    pub(super) fn numbered(&mut self, index: u64) -> &[u8] {
        let mut rest = index;
        for digit in self.text[5..].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        &self.text
    }
}

/// Lets every key be there before anything is measured.
pub(super) fn fill(store: &MemoryStore, limit: &NamedLimit, keys: u64) -> Result<(), Failure> {
    let mut texts = Keys::new(keys, 0);
    (0..keys).try_for_each(|index| decide(store, limit, texts.numbered(index)).map(drop).map_err(failed))
}

#[inline]
fn decide(store: &MemoryStore, limit: &NamedLimit, key: &[u8]) -> Result<bool, StoreError> {
    let check = Check { limit, key: key.into(), cost: 1 };
    store.decide_now(&[check], Ask::Acquire).map(|decision| decision.allowed)
}

fn failed(wrong: StoreError) -> Failure {
    Failure::Other(format!("error: the store cannot decide: {wrong}"))
}

/// Measures decisions in this process.
pub(super) fn measure(case: &Case, config: &Config) -> Result<Measured, Failure> {
    let stores = build_stores(config, None);
    let stores = stores.map_err(|wrong| Failure::Other(format!("error: cannot build the store: {wrong}")))?;
    let (Some((_, store)), Some(policy)) = (stores.first(), config.policies.first()) else {
        return Err(Failure::Other("error: nothing to measure".to_owned()));
    };
    let Some(limit) = policy.limits().first().map(|limit| &limit.named) else {
        return Err(Failure::Other("error: nothing to measure".to_owned()));
    };
    fill(store, limit, case.keys)?;
    let shares = on_threads(case, |thread| {
        let mut keys = Keys::new(case.keys, thread);
        worker(case, || decide(store, limit, keys.random()).map_err(failed))
    })?;
    Ok(Measured { shares, bytes: store.memory_bytes() + store.log_bytes() })
}

/// Runs a share on each thread. Each measures its own time, so it does not matter which begins first.
pub(super) fn on_threads(
    case: &Case,
    share: impl Fn(u64) -> Result<Share, Failure> + Sync,
) -> Result<Vec<Share>, Failure> {
    let share = &share;
    thread::scope(|scope| {
        let start = |thread| thread::Builder::new().spawn_scoped(scope, move || share(thread));
        let threads: Vec<_> = (1..=case.threads).map(start).collect();
        let join = |started: std::io::Result<thread::ScopedJoinHandle<'_, _>>| match started {
            Ok(thread) => {
                thread.join().unwrap_or_else(|_| Err(Failure::Other("error: a thread failed".to_owned())))
            }
            Err(wrong) => Err(Failure::Other(format!("error: cannot start a thread: {wrong}"))),
        };
        threads.into_iter().map(join).collect()
    })
}

fn worker(case: &Case, mut decide: impl FnMut() -> Result<bool, Failure>) -> Result<Share, Failure> {
    let warming = Stopwatch::start();
    while warming.elapsed_ns() < WARM_UP_NS {
        for _ in 0..TIMED_ONE_IN {
            decide()?;
        }
    }
    let mut share = Share { decisions: 0, allowed: 0, took_ns: 0, spread: Spread::new() };
    let all = Stopwatch::start();
    while share.took_ns < case.length_ns() {
        for _ in 1..TIMED_ONE_IN {
            share.allowed += u64::from(decide()?);
        }
        let one = Stopwatch::start();
        let allowed = decide()?;
        share.spread.add(one.elapsed_ns());
        share.allowed += u64::from(allowed);
        share.decisions += TIMED_ONE_IN;
        share.took_ns = all.elapsed_ns();
    }
    Ok(share)
}
