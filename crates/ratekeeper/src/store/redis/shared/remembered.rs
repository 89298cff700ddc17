//! Refusals of a moment ago. Until its wait is over, a request that was refused would be refused again: the store need
//! not be asked. That is exact as long as nobody gives units back or raises the limit, so it is kept for a second at
//! most, and forgotten when this instance gives back or forgets anything of the same key.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ratekeeper_core::{Ask, Clock as _, Decision, Micros, Reason, Source, Verdict, write_decimal};

use super::super::exact::{Decided, Layout, Reading, Seat};
use crate::clock::ProcessClock;

/// The longest that a refusal is remembered: so a reset, a refund or a raise elsewhere is seen within a second.
const MAX_AGE: Duration = Duration::from_secs(1);
/// A shorter wait is over before it would be worth remembering.
const MIN_WAIT: Duration = Duration::from_millis(2);
const SHARDS: usize = 16;
/// Refusals of a shard: in all about 16 MB. A full shard drops those that are over, and if there are none, all.
const MAX_OF_SHARD: usize = 4_096;
const GENERATIONS: usize = 1_024;

type Map = HashMap<Box<[u8]>, Refusal, foldhash::quality::RandomState>;

pub(super) struct Remembered {
    shards: [Mutex<Map>; SHARDS],
    seed: foldhash::quality::RandomState,
    /// How often units came back to keys of this hash.
    generations: Box<[AtomicU32]>,
}

struct Refusal {
    /// When it was received, by our clock.
    received: Micros,
    /// What the server's clock said.
    now: Micros,
    until: Micros,
    readings: Vec<Reading>,
    generation: u32,
}

/// When a request was sent, and of which generation its keys were then.
pub(super) struct Asked {
    pub(super) at: Micros,
    pub(super) generation: u32,
}

impl Default for Remembered {
    fn default() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            seed: foldhash::quality::RandomState::default(),
            generations: (0..GENERATIONS).map(|_| AtomicU32::new(0)).collect(),
        }
    }
}

impl Remembered {
    fn shard(&self, signature: &[u8]) -> MutexGuard<'_, Map> {
        let shard = self.seed.hash_one(signature) as usize % SHARDS;
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn generation_of(&self, name: &[u8]) -> &AtomicU32 {
        &self.generations[self.seed.hash_one(name) as usize % GENERATIONS]
    }

    /// How often units came back to these keys.
    pub(super) fn generation(&self, seats: &[Seat<'_>]) -> u32 {
        let of = |seat: &Seat<'_>| self.generation_of(&seat.name).load(Ordering::Acquire);
        seats.iter().map(of).fold(0, u32::wrapping_add)
    }

    /// Notes that units may have come back to a key.
    pub(super) fn forget(&self, name: &[u8]) {
        self.generation_of(name).fetch_add(1, Ordering::AcqRel);
    }

    /// What a request would be answered, if the same one was refused and still would be.
    pub(super) fn find(&self, layout: &Layout<'_>) -> Option<Decision> {
        let signature = signature(layout);
        let shard = self.shard(&signature);
        let refusal = shard.get(&*signature)?;
        let now = ProcessClock.now();
        if now >= refusal.until || refusal.generation != self.generation(&layout.seats) {
            return None;
        }
        // No more has passed since the server read its clock than since its answer came: no wait is told too short.
        let passed = refusal.received.until(now);
        let then = refusal.now.saturating_add(passed);
        let verdict = |(seat, reading): (&Seat<'_>, &Reading)| {
            let evaluation = reading.evaluate(seat, then, Ask::Acquire)?;
            Some(evaluation.untouched().with_source(Source::Cached))
        };
        let verdicts: Option<Vec<Verdict>> =
            layout.seats.iter().zip(&refusal.readings).map(verdict).collect();
        let decision = Decision::of(layout.of_checks(&verdicts?));
        (!decision.allowed).then_some(decision)
    }

    /// Remembers a refusal of a request that was sent at `asked`: the server has read its clock later, and what came
    /// back meanwhile may have come after it.
    pub(super) fn note(&self, layout: &Layout<'_>, decided: &Decided, decision: &Decision, asked: &Asked) {
        let Some(wait) = decision.retry_after.filter(|wait| *wait >= MIN_WAIT) else { return };
        if decision.reason != Some(Reason::Limited) || decided.readings.len() != layout.seats.len() {
            return;
        }
        // What is told of a log changes when its oldest entry leaves.
        let is_log =
            |verdict: &&Verdict| verdict.limit().kind() == ratekeeper_core::Algorithm::SlidingWindowLog;
        let steady = decision.limits().iter().filter(is_log).map(|verdict| verdict.more_after()).min();
        let age = wait.min(MAX_AGE).min(steady.unwrap_or(MAX_AGE));
        let refusal = Refusal {
            received: ProcessClock.now(),
            now: decided.now,
            until: asked.at.saturating_add(age),
            readings: decided.readings.to_vec(),
            generation: asked.generation,
        };
        let signature = signature(layout);
        let mut shard = self.shard(&signature);
        if shard.len() >= MAX_OF_SHARD {
            let now = refusal.received;
            shard.retain(|_, refusal| now < refusal.until);
            if shard.len() >= MAX_OF_SHARD {
                shard.clear();
            }
        }
        shard.insert(signature.into(), refusal);
    }
}

/// What tells requests apart: of every limit the state, the cost, and the numbers.
fn signature(layout: &Layout<'_>) -> Vec<u8> {
    let mut signature = Vec::with_capacity(128);
    for seat in &layout.seats {
        signature.extend_from_slice(&seat.name);
        signature.push(0);
        write_decimal(&mut signature, seat.cost);
        signature.push(u8::from(seat.limit.is_draining()));
        let (p, q) = seat.limit.limit().unit();
        for number in [p, q, seat.limit.limit().capacity()] {
            write_decimal(&mut signature, number);
            signature.push(0);
        }
    }
    signature
}
