//! What a request asks of one limit, and where that is answered.

use ratekeeper_core::{Ask, Calendar, Evaluation, Limit, Moment, StateRef, evaluate, evaluate_up_to};
use smallvec::{SmallVec, smallvec};

use super::Inner;
use super::rows::Rows;
use super::table::{Array, Bucket, Hash, Shape};

/// One limit's question, with everything that finding and deciding its state takes.
#[derive(Clone, Copy)]
pub(crate) struct Query<'q> {
    pub(crate) store: &'q Inner,
    pub(crate) limit: &'q Limit,
    pub(crate) shape: Shape,
    /// Identity of the limit.
    pub(crate) id: u64,
    /// Hash of the key and the identity.
    pub(crate) hash: Hash,
    pub(crate) cost: u64,
    /// Take as many as fit, at most `cost`.
    pub(crate) up_to: bool,
    pub(crate) calendar: Option<&'q dyn Calendar>,
}

impl<'q> Query<'q> {
    #[inline]
    pub(super) fn is_log(&self) -> bool {
        self.limit.kind() == ratekeeper_core::Algorithm::SlidingWindowLog
    }

    #[inline]
    pub(super) fn evaluate(&self, state: StateRef<'_>, at: &Moment, cost: u64, ask: Ask) -> Evaluation {
        if self.up_to {
            evaluate_up_to(self.limit, state, at, cost, ask)
        } else {
            evaluate(self.limit, state, at, cost, ask)
        }
    }

    pub(super) fn index(&self, array: Array) -> usize {
        let (first, hash) = (array == Array::First, self.hash);
        match self.store.logs_of(self) {
            Some(table) if first => table.first_index(hash),
            Some(table) => table.second_index(hash),
            None if first => self.store.words.first_index(hash),
            None => self.store.words.second_index(hash),
        }
    }

    pub(super) fn place(&self, array: Array, index: usize) -> Place {
        Place { array, store: self.store.serial, is_log: self.is_log(), index }
    }

    pub(super) fn lock(&self, place: Place) -> Rows<'q> {
        match self.store.logs_of(self) {
            Some(table) => Rows::Logs(table.bucket(place.array, place.index).lock()),
            None => Rows::Words(self.store.words.bucket(place.array, place.index).lock()),
        }
    }

    pub(super) fn places(&self, array: Array) -> SmallVec<[Place; 1]> {
        match (array, self.store.logs_of(self)) {
            (Array::Attic, Some(table)) => table.attic_row(self.hash).map(|i| self.place(array, i)).collect(),
            (Array::Attic, None) => {
                self.store.words.attic_row(self.hash).map(|i| self.place(array, i)).collect()
            }
            _ => smallvec![self.place(array, self.index(array))],
        }
    }

    /// A refusal for want of a place.
    pub(super) fn no_room(&self, at: &Moment, cost: u64) -> Evaluation {
        let most = if self.up_to { self.limit.capacity() } else { u64::MAX };
        Evaluation::no_room(self.limit, at, cost.min(most))
    }
}

/// A bucket, in the order in which locks are taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) array: Array,
    store: u64,
    is_log: bool,
    index: usize,
}
