//! The two kinds of buckets: of two-word states, and of logs.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper_core::{Limit, Log, Micros, State};

use super::both::Both;
use super::table::{BOTH, Bucket, Slots, Tag};
use crate::sync::{Mutex, MutexGuard, lock, try_lock};

/// Places of a bucket of two-word states: with the lock they fill 128 bytes.
const WORD_SLOTS: usize = 5;
/// Places of a bucket of logs.
const LOG_SLOTS: usize = 7;

/// Five keys' states.
///
/// The words are atomics beside the lock rather than plain integers inside it, so that both cache lines can be
/// asked for before the lock is taken. They are written, and read for a decision, under the lock only.
#[repr(align(128))]
pub(super) struct WordBucket {
    lock: Mutex<()>,
    slots: [WordSlot; WORD_SLOTS],
}

#[derive(Default)]
struct WordSlot {
    tag: AtomicU64,
    words: [AtomicU64; 2],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<WordBucket>() == 128);

impl Bucket for WordBucket {
    type Slots<'b> = WordSlots<'b>;

    fn empty() -> Self {
        Self { lock: Mutex::new(()), slots: Default::default() }
    }

    #[inline(always)]
    fn touch(&self) {
        black_box(self.slots[0].tag.load(Ordering::Relaxed));
        black_box(self.slots[WORD_SLOTS - 1].tag.load(Ordering::Relaxed));
    }

    #[inline(always)]
    fn lock(&self) -> WordSlots<'_> {
        WordSlots { _guard: lock(&self.lock), slots: &self.slots }
    }

    fn try_lock(&self) -> Option<WordSlots<'_>> {
        Some(WordSlots { _guard: try_lock(&self.lock)?, slots: &self.slots })
    }
}

/// A bucket of two-word states that is held.
pub(super) struct WordSlots<'b> {
    _guard: MutexGuard<'b, ()>,
    slots: &'b [WordSlot; WORD_SLOTS],
}

impl WordSlots<'_> {
    #[inline(always)]
    pub(super) fn state(&self, slot: usize) -> State {
        State::from_words(self.slots[slot].words.each_ref().map(|word| word.load(Ordering::Relaxed)))
    }

    #[inline(always)]
    pub(super) fn set_state(&mut self, slot: usize, state: State) {
        let [first, second] = state.words();
        self.slots[slot].words[0].store(first, Ordering::Relaxed);
        self.slots[slot].words[1].store(second, Ordering::Relaxed);
    }
}

impl Slots for WordSlots<'_> {
    type State = State;
    const COUNT: usize = WORD_SLOTS;

    #[inline(always)]
    fn tag(&self, slot: usize) -> Tag {
        Tag::from_bits(self.slots[slot].tag.load(Ordering::Relaxed))
    }

    #[inline(always)]
    fn set_tag(&mut self, slot: usize, tag: Tag) {
        self.slots[slot].tag.store(tag.bits(), Ordering::Relaxed);
    }

    fn replace(&mut self, slot: usize, state: State) -> State {
        let before = self.state(slot);
        self.set_state(slot, state);
        before
    }

    fn idle_at(&self, slot: usize, limit: Option<&Limit>) -> Option<Micros> {
        if self.tag(slot).shape() == BOTH {
            return Some(Both::from(self.state(slot)).idle_at());
        }
        limit.map(|limit| limit.idle_at(self.state(slot)))
    }
}

/// A slot's log; none until its first entry.
pub(super) type LogBox = Option<Box<Log>>;

/// Seven keys' logs.
#[repr(align(128))]
pub(super) struct LogBucket {
    slots: Mutex<[LogSlot; LOG_SLOTS]>,
}

#[derive(Default)]
pub(super) struct LogSlot {
    tag: Tag,
    log: LogBox,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<LogBucket>() == 128);

impl Bucket for LogBucket {
    type Slots<'b> = LogSlots<'b>;

    fn empty() -> Self {
        Self { slots: Mutex::new(Default::default()) }
    }

    fn touch(&self) {
        #[cfg(not(loom))]
        black_box(self.slots.is_poisoned());
    }

    fn lock(&self) -> LogSlots<'_> {
        LogSlots { slots: lock(&self.slots) }
    }

    fn try_lock(&self) -> Option<LogSlots<'_>> {
        Some(LogSlots { slots: try_lock(&self.slots)? })
    }
}

/// A bucket of logs that is held.
pub(super) struct LogSlots<'b> {
    slots: MutexGuard<'b, [LogSlot; LOG_SLOTS]>,
}

impl LogSlots<'_> {
    pub(super) fn log(&self, slot: usize) -> Option<&Log> {
        self.slots[slot].log.as_deref()
    }

    /// The log of a place, made if there is none yet.
    pub(super) fn log_mut(&mut self, slot: usize) -> &mut Log {
        self.slots[slot].log.get_or_insert_default()
    }
}

impl Slots for LogSlots<'_> {
    type State = LogBox;
    const COUNT: usize = LOG_SLOTS;

    fn tag(&self, slot: usize) -> Tag {
        self.slots[slot].tag
    }

    fn set_tag(&mut self, slot: usize, tag: Tag) {
        self.slots[slot].tag = tag;
    }

    fn replace(&mut self, slot: usize, log: LogBox) -> LogBox {
        std::mem::replace(&mut self.slots[slot].log, log)
    }

    fn idle_at(&self, slot: usize, limit: Option<&Limit>) -> Option<Micros> {
        let log = &self.slots[slot].log;
        limit.map(|limit| log.as_ref().map_or(Micros::ZERO, |log| log.idle_at(limit)))
    }
}
