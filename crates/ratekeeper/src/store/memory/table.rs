//! The table: buckets of one aligned pair of cache lines, each with its own small lock.
//!
//! A key has one bucket in the first array, where nearly all keys are; if that is full, one in the second; and
//! if that is full too, a row of buckets in the attic. Arrays are locked in this order and by index, so
//! that no two requests wait for each other. Whoever holds the lock of a key's first bucket owns the key's
//! state wherever it lies: every search begins there.

use ratekeeper_core::{Limit, Micros};

/// Buckets of the attic that a key may lie in: so many are examined at worst, and so many lie together.
pub(super) const ATTIC_ROW: usize = 16;
/// The attic of a small table, so that forty keys fit wherever they fall.
const LEAST_ATTIC: usize = 8;

/// Room in hundredths of `max_keys`: at 1.5 slots per key in the first array 6 % of the keys go on to the
/// second, which holds 0.2 per key; what that cannot take (2 in 10,000) fills 1.5 % of the attic.
const FIRST_PERCENT: u64 = 150;
const SECOND_PERCENT: u64 = 20;
const ATTIC_PER_KEYS: u64 = 64;

/// Whose place a slot is: 48 bits of the key's hash, 15 bits of shape (0: nobody's), and a flag of the bucket
/// that happens to live here.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Tag(u64);

const SHAPE_BITS: u32 = 15;
const FLAG: u64 = 1;

/// Index of the parameters that a state was written with; see [`super::shapes`].
pub(crate) type Shape = u16;
pub(super) const NO_SHAPE: Shape = 0;
/// The state is of two limits: see [`super::both`].
pub(super) const BOTH: Shape = (1 << SHAPE_BITS) - 1;

impl Tag {
    #[inline(always)]
    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    #[inline(always)]
    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    #[inline(always)]
    pub(super) const fn shape(self) -> Shape {
        ((self.0 >> 1) & ((1 << SHAPE_BITS) - 1)) as Shape
    }

    #[inline(always)]
    pub(super) const fn is_empty(self) -> bool {
        self.shape() == NO_SHAPE
    }

    #[inline(always)]
    const fn is_of(self, hash: Hash) -> bool {
        self.0 >> (SHAPE_BITS + 1) == hash.fingerprint() && !self.is_empty()
    }

    /// The same place in the hands of another key.
    #[inline(always)]
    const fn claimed(self, hash: Hash, shape: Shape) -> Self {
        Self(hash.fingerprint() << (SHAPE_BITS + 1) | (shape as u64) << 1 | self.0 & FLAG)
    }

    /// The owner without the bucket's flag, to be put back if a claim is given up.
    #[inline(always)]
    const fn owner(self) -> Self {
        Self(self.0 & !FLAG)
    }

    const fn owned_by(self, owner: Self) -> Self {
        Self(owner.0 | self.0 & FLAG)
    }

    const fn is_flagged(self) -> bool {
        self.0 & FLAG != 0
    }

    const fn flagged(self) -> Self {
        Self(self.0 | FLAG)
    }
}

/// What a bucket remembers besides its entries, in the flag bits of its first slots.
#[derive(Clone, Copy)]
pub(super) enum Spilled {
    /// Some key of this bucket was put into its second bucket.
    ToSecond = 0,
    /// Some key of this bucket was put into the attic.
    ToAttic = 1,
}

/// The places of a bucket, while its lock is held.
pub(super) trait Slots {
    /// What a place holds besides its tag; its default is a fresh state.
    type State: Default;
    /// Places of a bucket.
    const COUNT: usize;

    fn tag(&self, slot: usize) -> Tag;
    fn set_tag(&mut self, slot: usize, tag: Tag);
    /// Puts a state in and takes the former one out.
    fn replace(&mut self, slot: usize, state: Self::State) -> Self::State;
    /// The instant from which the state of a slot equals fresh; `limit` is that of its shape, if it has one.
    fn idle_at(&self, slot: usize, limit: Option<&Limit>) -> Option<Micros>;

    #[inline(always)]
    fn find(&self, hash: Hash) -> Option<usize> {
        (0..Self::COUNT).find(|slot| self.tag(*slot).is_of(hash))
    }

    /// The place of a key whose state was written with this shape. Looks at all places without a branch for each:
    /// which one it is cannot be foreseen, and a wrong guess costs more than the looks.
    #[inline(always)]
    fn find_exact(&self, hash: Hash, shape: Shape) -> Option<usize> {
        let wanted = Tag::default().claimed(hash, shape);
        let mut here = 0_u32;
        for slot in 0..Self::COUNT {
            here |= u32::from(self.tag(slot).owner() == wanted) << slot;
        }
        (here != 0).then(|| here.trailing_zeros() as usize)
    }

    #[inline(always)]
    fn find_empty(&self) -> Option<usize> {
        (0..Self::COUNT).find(|slot| self.tag(*slot).is_empty())
    }

    #[inline(always)]
    fn has_spilled(&self, to: Spilled) -> bool {
        self.tag(to as usize).is_flagged()
    }

    fn set_spilled(&mut self, to: Spilled) {
        self.set_tag(to as usize, self.tag(to as usize).flagged());
    }

    /// Names the owner of a place.
    #[inline(always)]
    fn claim(&mut self, slot: usize, hash: Hash, shape: Shape) {
        self.set_tag(slot, self.tag(slot).claimed(hash, shape));
    }

    /// Gives a place to a newcomer, fresh; says who had it and with what.
    fn take_over(&mut self, slot: usize, hash: Hash, shape: Shape) -> (Tag, Self::State) {
        let owner = self.tag(slot).owner();
        self.claim(slot, hash, shape);
        (owner, self.replace(slot, Self::State::default()))
    }

    /// Puts back who had a place; what the newcomer held is returned.
    fn put_back(&mut self, slot: usize, owner: Tag, state: Self::State) -> Self::State {
        self.set_tag(slot, self.tag(slot).owned_by(owner));
        self.replace(slot, state)
    }

    /// Empties a place; what it held is returned.
    fn vacate(&mut self, slot: usize) -> Self::State {
        self.put_back(slot, Tag::default(), Self::State::default())
    }
}

/// The hash of a key and the identity of its limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hash(pub(crate) u64);

impl Hash {
    const fn fingerprint(self) -> u64 {
        self.0 & ((1 << 48) - 1)
    }

    /// The bucket among `buckets`: a multiply-shift, so that any number of buckets will do.
    #[inline]
    const fn index(self, mix: u64, buckets: usize) -> usize {
        let mixed = self.0.wrapping_mul(mix);
        ((mixed as u128 * buckets as u128) >> 64) as usize
    }
}

/// Odd multipliers: keys that share a fingerprint and one bucket do not share the others.
const SECOND_MIX: u64 = 0x9e37_79b9_7f4a_7c15;
const ATTIC_MIX: u64 = 0xc2b2_ae3d_27d4_eb4f;

/// A lock and the places that it guards, in one aligned pair of cache lines.
pub(super) trait Bucket: Sized {
    type Slots<'b>: Slots
    where
        Self: 'b;

    fn empty() -> Self;
    /// Asks memory for the bucket, without waiting for it and without locking.
    fn touch(&self);
    fn lock(&self) -> Self::Slots<'_>;
    fn try_lock(&self) -> Option<Self::Slots<'_>>;
}

/// The three arrays.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Array {
    First,
    Second,
    Attic,
}

pub(super) struct Table<B> {
    first: Box<[B]>,
    second: Box<[B]>,
    attic: Box<[B]>,
}

/// The table does not fit into memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OutOfMemory;

impl<B: Bucket> Table<B> {
    /// A table that holds at least `max_keys` live keys.
    pub(super) fn new(max_keys: u64) -> Result<Self, OutOfMemory> {
        let [first, second, attic] = Self::buckets_for(max_keys);
        Ok(Self { first: empty(first)?, second: empty(second)?, attic: empty(attic)? })
    }

    fn buckets_for(max_keys: u64) -> [u64; 3] {
        let slots = <B::Slots<'_> as Slots>::COUNT as u64;
        let share = |percent: u64| max_keys.saturating_mul(percent).div_ceil(100 * slots).max(1);
        let attic = max_keys.div_ceil(ATTIC_PER_KEYS * slots).max(LEAST_ATTIC as u64);
        [share(FIRST_PERCENT), share(SECOND_PERCENT), attic]
    }

    /// Bytes of a table for `max_keys`.
    pub(super) fn bytes_for(max_keys: u64) -> u64 {
        let buckets: u64 = Self::buckets_for(max_keys).iter().sum();
        buckets.saturating_mul(size_of::<B>() as u64)
    }

    #[inline(always)]
    pub(super) fn first_index(&self, hash: Hash) -> usize {
        hash.index(1, self.first.len())
    }

    pub(super) fn second_index(&self, hash: Hash) -> usize {
        hash.index(SECOND_MIX, self.second.len())
    }

    /// The buckets of the attic where a key may lie.
    pub(super) fn attic_row(&self, hash: Hash) -> impl Iterator<Item = usize> + use<B> {
        let (start, len) = (hash.index(ATTIC_MIX, self.attic.len()), self.attic.len());
        (0..ATTIC_ROW.min(len)).map(move |i| (start + i) % len)
    }

    #[inline(always)]
    pub(super) fn first(&self, index: usize) -> &B {
        &self.first[index]
    }

    pub(super) fn bucket(&self, array: Array, index: usize) -> &B {
        match array {
            Array::First => &self.first[index],
            Array::Second => &self.second[index],
            Array::Attic => &self.attic[index],
        }
    }

    /// Buckets in all three arrays.
    pub(super) fn len(&self) -> usize {
        self.first.len() + self.second.len() + self.attic.len()
    }

    /// The bucket at a running number below [`Table::len`].
    pub(super) fn nth(&self, n: usize) -> &B {
        let (first, second) = (self.first.len(), self.second.len());
        match n {
            n if n < first => &self.first[n],
            n if n < first + second => &self.second[n - first],
            n => &self.attic[n - first - second],
        }
    }
}

fn empty<B: Bucket>(buckets: u64) -> Result<Box<[B]>, OutOfMemory> {
    let buckets = usize::try_from(buckets).map_err(|_| OutOfMemory)?;
    let mut array = Vec::new();
    array.try_reserve_exact(buckets).map_err(|_| OutOfMemory)?;
    array.extend((0..buckets).map(|_| B::empty()));
    Ok(array.into_boxed_slice())
}
