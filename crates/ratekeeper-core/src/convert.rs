//! What becomes of a key's state when its limit changes: consumed units stay consumed, capped by the new
//! capacity. A raise gives the difference at once; a cut never locks longer than the new period.

use crate::algorithm::meter::{in_units_of, is_beyond, is_cut};
use crate::algorithm::{Moment, Rule, State, fixed_window, sliding_window_counter};
use crate::limit::Limit;

impl Limit {
    /// The state of a key under this limit, when `state` was written under `old`. Another rule is another
    /// count, and starts afresh. Logs need no conversion: their entries are filtered by the new window.
    #[must_use]
    pub fn convert(&self, old: &Self, state: State, at: &Moment) -> State {
        match (self.rule(), old.rule()) {
            (Rule::Meter, Rule::Meter) => in_units_of(self, old, state, at.us()),
            // Promised slots stay where they are.
            (Rule::Queue, Rule::Queue) => in_whole_parts(self, old, state),
            (Rule::Fixed, Rule::Fixed) => fixed_window::convert(self, old, state, at),
            (Rule::Counter, Rule::Counter) => sliding_window_counter::convert(self, old, state, at),
            _ => State::FRESH,
        }
    }

    /// Whether [`Limit::convert`] could not keep all units in use: there are more than this limit holds. Whoever may
    /// yet decide by the old limit again must keep the old state, too. Windows keep their counts, and are never cut;
    /// of a queue it is the slots that end later than any of its own could.
    #[must_use]
    pub fn cuts(&self, old: &Self, state: State, at: &Moment) -> bool {
        match (self.rule(), old.rule()) {
            (Rule::Meter, Rule::Meter) => is_cut(self, old, state, at.us()),
            (Rule::Queue, Rule::Queue) => is_beyond(self, in_whole_parts(self, old, state), at.us()),
            _ => false,
        }
    }
}

/// The same instant over another denominator, rounded up to a whole microsecond if it changes.
fn in_whole_parts(new: &Limit, old: &Limit, state: State) -> State {
    let [us, part] = state.words();
    if new.parts == old.parts || part == 0 { state } else { State::from_words([us + 1, 0]) }
}

#[cfg(test)]
mod tests;
