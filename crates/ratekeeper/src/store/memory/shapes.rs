//! The parameters that states were written with, by number, so that a slot names them in 15 bits.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use ratekeeper_core::Limit;

use super::table::{NO_SHAPE, Shape};

/// The most different limits that one store can meet: what 15 bits can name besides "empty" and "two limits".
pub(crate) const MAX_SHAPES: usize = (1 << 15) - 2;

#[derive(Default)]
pub(super) struct Shapes {
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    limits: Vec<Limit>,
    numbers: HashMap<Limit, Shape, foldhash::fast::RandomState>,
}

impl Shapes {
    /// The number of these parameters; `None` when [`MAX_SHAPES`] others are known already.
    pub(super) fn number(&self, limit: &Limit) -> Option<Shape> {
        if let Some(number) = self.known.read().unwrap_or_else(PoisonError::into_inner).numbers.get(limit) {
            return Some(*number);
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = known.numbers.get(limit) {
            return Some(*number);
        }
        if known.limits.len() >= MAX_SHAPES {
            return None;
        }
        known.limits.push(*limit);
        let number = Shape::try_from(known.limits.len()).ok()?;
        known.numbers.insert(*limit, number);
        Some(number)
    }

    /// How many other parameters there is a number for.
    pub(super) fn left(&self) -> usize {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        MAX_SHAPES.saturating_sub(known.limits.len())
    }

    /// The parameters of a number that [`Shapes::number`] gave.
    pub(super) fn limit(&self, shape: Shape) -> Option<Limit> {
        let index = usize::from(shape.checked_sub(NO_SHAPE + 1)?);
        self.known.read().unwrap_or_else(PoisonError::into_inner).limits.get(index).copied()
    }
}
