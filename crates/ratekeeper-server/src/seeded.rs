//! Numbers that look like chance and are the same for the same seed.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// SplitMix64 (Steele, Lea and Flood, 2014): one addition and some mixing a number.
#[derive(Clone, Debug)]
pub(crate) struct Seeded(u64);

impl Seeded {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; none is preferred by more than n in 2^64.
    #[inline]
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        // The upper half of a product is below its second factor.
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

/// Numbers that nobody expects, for all threads: for spreading what would otherwise come together, not for secrets.
pub(crate) struct Chance(AtomicU64);

impl Chance {
    /// Begins somewhere else in each process.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(RandomState::new().hash_one(0)))
    }

    /// A number from 0 to `most`.
    pub(crate) fn up_to(&self, most: u16) -> u16 {
        let nth = self.0.fetch_add(1, Ordering::Relaxed);
        let drawn = Seeded::new(nth.wrapping_mul(0x9e37_79b9_7f4a_7c15)).below(u64::from(most) + 1);
        u16::try_from(drawn).unwrap_or(most)
    }
}

#[cfg(test)]
mod tests {
    use super::{Chance, Seeded};

    #[test]
    fn chance_draws_every_number_up_to_the_most_and_no_other() {
        let chance = Chance::new();
        let drawn: Vec<u16> = (0..1_000).map(|_| chance.up_to(4)).collect();
        for n in 0..=4 {
            assert!((100..300).contains(&drawn.iter().filter(|drawn| **drawn == n).count()), "{n}");
        }
        assert!(drawn.iter().all(|drawn| *drawn <= 4));
        assert_eq!(chance.up_to(0), 0);
    }

    #[test]
    fn a_seed_gives_its_numbers_and_all_that_are_below_come() {
        let draw = |seed| {
            let mut random = Seeded::new(seed);
            (0..1_000).map(|_| random.below(7)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        for n in 0..7 {
            assert!((100..200).contains(&draw(3).iter().filter(|drawn| **drawn == n).count()), "{n}");
        }
        // The first number of the published generator for seed 0, by its upper bits.
        assert_eq!(Seeded::new(0).below(1 << 32), 0xe220_a839);
    }
}
