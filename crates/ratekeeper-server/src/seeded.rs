//! Numbers that look like chance and are the same for the same seed.

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

#[cfg(test)]
mod tests {
    use super::Seeded;

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
