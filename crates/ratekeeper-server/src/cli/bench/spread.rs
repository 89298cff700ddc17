//! How long single decisions took: counts by length, to three hundredths.

/// Lengths from 2^n on are told apart in steps of 2^(n − STEP_BITS).
const STEP_BITS: u32 = 5;
const STEPS: u64 = 1 << STEP_BITS;
const BUCKETS: usize = ((64 - STEP_BITS as usize) + 1) << STEP_BITS;

/// Lengths that have been counted, in nanoseconds.
pub(super) struct Spread {
    counts: Vec<u64>,
    total: u64,
    most: u64,
}

impl Spread {
    pub(super) fn new() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0, most: 0 }
    }

    #[inline]
    pub(super) fn add(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.total += 1;
        self.most = self.most.max(ns);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.most = self.most.max(other.most);
    }

    /// The longest.
    pub(super) const fn most(&self) -> u64 {
        self.most
    }

    /// What so many in a hundred did not exceed, rounded up by a thirty-second at most; 0 if there are none.
    pub(super) fn percentile(&self, percent: u64) -> u64 {
        let rank = u128::from(self.total) * u128::from(percent);
        let mut below = 0_u128;
        for (index, count) in self.counts.iter().enumerate() {
            below += u128::from(*count) * 100;
            if *count > 0 && below >= rank {
                return last_of(index).min(self.most);
            }
        }
        self.most
    }
}

/// Short lengths one by one, others by their leading bits.
fn bucket(ns: u64) -> usize {
    let shift = (64 - STEP_BITS - 1).saturating_sub(ns.leading_zeros());
    // Below 2 · STEPS once shifted, so below BUCKETS.
    (u64::from(shift) * STEPS + (ns >> shift)) as usize
}

/// The longest length of a bucket.
fn last_of(index: usize) -> u64 {
    let index = index as u64;
    let shift = (index / STEPS).saturating_sub(1);
    let lead = index - shift * STEPS;
    u64::try_from(((u128::from(lead) + 1) << shift) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_lies_in_its_bucket_and_not_above_its_last() {
        let lengths = (0..200).chain((0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1]));
        for ns in lengths.chain([u64::MAX, u64::MAX - 1]) {
            let index = bucket(ns);
            assert!(index < BUCKETS, "{ns}");
            let last = last_of(index);
            assert!(last >= ns && last - ns <= ns / STEPS, "{ns}: {last}");
            assert!(index == 0 || last_of(index - 1) < ns, "{ns}");
        }
    }

    #[test]
    fn percentiles_are_what_so_many_did_not_exceed() {
        let mut spread = Spread::new();
        assert_eq!(spread.percentile(50), 0);
        for ns in 1..=100 {
            spread.add(ns);
        }
        let mut other = Spread::new();
        other.add(1_000_000);
        spread.merge(&other);
        assert_eq!((spread.percentile(1), spread.percentile(50)), (2, 51));
        assert_eq!(
            (spread.percentile(99), spread.percentile(100)),
            (101, 1_000_000),
            "100 and 101 are not told apart"
        );
        assert_eq!(spread.most(), 1_000_000);
    }
}
