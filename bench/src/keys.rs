//! Ready streams of keys in random order.

/// Keys of a stream that is not a single key.
const STREAM: usize = 1 << 20;

/// SplitMix64: good enough to draw keys, and the same in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) const fn below(&mut self, n: u64) -> u64 {
        ((self.next() as u128 * n as u128) >> 64) as u64
    }
}

/// The text of a key: 12 bytes.
pub(crate) fn text(number: u64) -> String {
    format!("user:{number:07}")
}

/// Random draws from the keys 0 to `keys − 1`, as texts and as numbers. The texts lie in memory in the order
/// in which they are drawn, so that reading them costs everybody the same little; the maps are filled in
/// another order (0, 1, 2 …) and cannot profit from it.
pub(crate) struct Stream {
    pub(crate) texts: Vec<String>,
    pub(crate) numbers: Vec<u64>,
}

impl Stream {
    pub(crate) fn new(keys: u64) -> Self {
        let mut random = Random::new(keys);
        let length = if keys == 1 { 1 } else { STREAM };
        let numbers: Vec<u64> = (0..length).map(|_| random.below(keys)).collect();
        let texts = numbers.iter().map(|n| text(*n)).collect();
        Self { texts, numbers }
    }
}
