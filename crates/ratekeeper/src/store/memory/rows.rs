//! A held bucket of either kind, for requests that meet both.

use ratekeeper_core::{Log, Micros, State};

use super::buckets::{LogBox, LogSlots, WordSlots};
use super::shapes::Shapes;
use super::table::{Hash, Shape, Slots, Spilled, Tag};

/// A bucket that is held.
pub(super) enum Rows<'q> {
    Words(WordSlots<'q>),
    Logs(LogSlots<'q>),
}

/// Who was in a place before it was claimed, and with what state.
pub(super) enum Before {
    Words(Tag, State),
    Log(Tag, LogBox),
}

impl Before {
    /// The log that was there.
    pub(super) fn into_log(self) -> LogBox {
        match self {
            Self::Words(..) => None,
            Self::Log(_, log) => log,
        }
    }

    /// Whether nobody had the place.
    pub(super) const fn was_empty(&self) -> bool {
        match self {
            Self::Words(owner, _) | Self::Log(owner, _) => owner.is_empty(),
        }
    }
}

/// The same expression for both kinds of rows.
macro_rules! on_rows {
    ($rows:expr, $slots:ident => $do:expr) => {
        match $rows {
            Rows::Words($slots) => $do,
            Rows::Logs($slots) => $do,
        }
    };
}

/// A place whose entry equals fresh at `now`; never one of `taken`.
pub(super) fn find_idle<S: Slots>(
    slots: &S,
    now: Micros,
    shapes: &Shapes,
    taken: impl Fn(usize) -> bool,
) -> Option<usize> {
    (0..S::COUNT).find(|slot| {
        let limit = shapes.limit(slots.tag(*slot).shape());
        !taken(*slot) && slots.idle_at(*slot, limit.as_ref()).is_some_and(|idle_at| idle_at <= now)
    })
}

impl Rows<'_> {
    pub(super) fn find(&self, hash: Hash) -> Option<usize> {
        on_rows!(self, slots => slots.find(hash))
    }

    pub(super) fn has_spilled(&self, to: Spilled) -> bool {
        on_rows!(self, slots => slots.has_spilled(to))
    }

    pub(super) fn set_spilled(&mut self, to: Spilled) {
        on_rows!(self, slots => slots.set_spilled(to));
    }

    /// A place that nobody has.
    pub(super) fn find_empty(&self) -> Option<usize> {
        on_rows!(self, slots => slots.find_empty())
    }

    /// A place whose entry equals fresh at `now`; never one of `taken`.
    pub(super) fn find_idle(
        &self,
        now: Micros,
        shapes: &Shapes,
        taken: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        on_rows!(self, slots => find_idle(slots, now, shapes, taken))
    }

    /// Gives a place to a newcomer, fresh; says who had it.
    pub(super) fn take_over(&mut self, slot: usize, hash: Hash, shape: Shape) -> Before {
        match self {
            Self::Words(slots) => {
                let (owner, state) = slots.take_over(slot, hash, shape);
                Before::Words(owner, state)
            }
            Self::Logs(slots) => {
                let (owner, log) = slots.take_over(slot, hash, shape);
                Before::Log(owner, log)
            }
        }
    }

    /// Gives a claimed place back to who had it; what the newcomer held is returned.
    pub(super) fn put_back(&mut self, slot: usize, before: Before) -> LogBox {
        match (self, before) {
            (Self::Words(slots), Before::Words(owner, state)) => {
                slots.put_back(slot, owner, state);
                None
            }
            (Self::Logs(slots), Before::Log(owner, log)) => slots.put_back(slot, owner, log),
            // A claim is given up in the row it was made in.
            _ => None,
        }
    }

    pub(super) fn shape(&self, slot: usize) -> Shape {
        on_rows!(self, slots => slots.tag(slot).shape())
    }

    pub(super) fn state(&self, slot: usize) -> State {
        match self {
            Self::Words(slots) => slots.state(slot),
            Self::Logs(_) => State::FRESH,
        }
    }

    pub(super) fn log(&self, slot: usize) -> Option<&Log> {
        match self {
            Self::Words(_) => None,
            Self::Logs(slots) => slots.log(slot),
        }
    }

    /// The log of a place, made if there is none yet.
    pub(super) fn log_mut(&mut self, slot: usize) -> Option<&mut Log> {
        match self {
            Self::Words(_) => None,
            Self::Logs(slots) => Some(slots.log_mut(slot)),
        }
    }

    /// Writes words (logs record by themselves) and the shape they were written with.
    pub(super) fn write(&mut self, slot: usize, hash: Hash, shape: Shape, state: State) {
        if let Self::Words(slots) = self {
            slots.set_state(slot, state);
        }
        on_rows!(self, slots => slots.claim(slot, hash, shape));
    }

    /// Empties a place; what it held is returned if it was a log.
    pub(super) fn vacate(&mut self, slot: usize) -> LogBox {
        match self {
            Self::Words(slots) => {
                slots.vacate(slot);
                None
            }
            Self::Logs(slots) => slots.vacate(slot),
        }
    }
}
