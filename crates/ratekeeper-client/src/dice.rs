//! Jitter has to differ between processes, not to be secret.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::draw::Draw;

/// The odd constant of SplitMix64, whose steps visit every number of 64 bits.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Numbers at random, from the seed that the standard library gives every hash map.
#[derive(Debug)]
pub(crate) struct Dice(AtomicU64);

impl Dice {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(RandomState::new().hash_one(STEP)))
    }

    pub(crate) fn draw(&self) -> Draw {
        let z = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Draw(z ^ (z >> 31))
    }
}
