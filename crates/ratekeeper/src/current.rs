//! The limit of a limiter, which may be another from one decision to the next.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use ratekeeper_core::Limit;

use crate::store::memory::Shape;
use crate::sync::{Mutex, lock};

/// Lists of 1, 2, 4, … limits: together no fewer than a store can tell apart.
const CHUNKS: usize = 15;

/// A limit, and its number in the store.
pub(crate) struct Numbers {
    pub(crate) limit: Limit,
    pub(crate) shape: Shape,
}

/// Places for some limits, made when the first of them comes.
type Chunk = OnceLock<Box<[OnceLock<Numbers>]>>;

/// The limit of now. Reading it takes no lock: a limit that has been set is never moved or dropped, and which one
/// holds is one word. Whoever never sets one pays for reading that word.
pub(crate) struct Current {
    first: Numbers,
    /// Which of the limits holds: 0 is the first one, the others lie in `later` in the order in which they came.
    index: AtomicUsize,
    later: [Chunk; CHUNKS],
    /// The shapes by index, to find those that were set before; held while one is set.
    known: Mutex<Vec<Shape>>,
}

impl Current {
    pub(crate) fn new(limit: Limit, shape: Shape) -> Self {
        Self {
            first: Numbers { limit, shape },
            index: AtomicUsize::new(0),
            later: [const { OnceLock::new() }; CHUNKS],
            known: Mutex::new(vec![shape]),
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> &Numbers {
        match self.index.load(Ordering::Acquire) {
            0 => &self.first,
            index => self.later(index),
        }
    }

    #[inline(never)]
    fn later(&self, index: usize) -> &Numbers {
        // What is not there yet was never named by `index`.
        self.place(index, |chunk, place| chunk.get()?.get(place)?.get()).unwrap_or(&self.first)
    }

    fn place<'s, T>(&'s self, index: usize, find: impl FnOnce(&'s Chunk, usize) -> Option<T>) -> Option<T> {
        let size = index.checked_ilog2()?;
        find(self.later.get(size as usize)?, index - (1 << size))
    }

    /// Makes it the limit of all decisions that begin from now on. Whether there was room for it, which there is
    /// for as many as a store gives shapes.
    #[must_use]
    pub(crate) fn set(&self, limit: Limit, shape: Shape) -> bool {
        let mut known = lock(&self.known);
        let index = match known.iter().position(|other| *other == shape) {
            Some(index) => index,
            None => {
                let index = known.len();
                let stored = self.place(index, |chunk, place| {
                    // The first of a list comes first: its index is the length of the list.
                    let places = || (0..index).map(|_| OnceLock::new()).collect();
                    chunk.get_or_init(places).get(place)?.set(Numbers { limit, shape }).ok()
                });
                if stored.is_none() {
                    return false;
                }
                known.push(shape);
                index
            }
        };
        self.index.store(index, Ordering::Release);
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
