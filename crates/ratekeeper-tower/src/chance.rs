//! Numbers that nobody expects, for spreading what would otherwise come together.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter whose values are hashed under a seed of its own.
pub(crate) struct Chance {
    seed: RandomState,
    next: AtomicU64,
}

impl Chance {
    pub(crate) fn new() -> Self {
        Self { seed: RandomState::new(), next: AtomicU64::new(0) }
    }

    /// A number from 0 to `most`.
    pub(crate) fn up_to(&self, most: u16) -> u16 {
        let drawn = self.seed.hash_one(self.next.fetch_add(1, Ordering::Relaxed));
        u16::try_from(drawn % (u64::from(most) + 1)).unwrap_or(most)
    }
}
