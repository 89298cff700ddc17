//! A state read by another limit than the one that wrote it; and what is kept when that other limit is too small
//! for it.
//!
//! A meter keeps its level in units, at most the new burst: a cut locks for no longer than the new limit takes to
//! refill. But the old limit may come back, by a change that is taken back or because two limits of one key take
//! turns, and then the units beyond must not have been forgotten. So a cut is written as a state of *both* limits,
//! each with a theoretical arrival time of its own, and what is admitted by one counts for the other, too. That
//! fills two words to the last bit, without parts of a microsecond: they are rounded up. It ends with
//! an admission after which the level by the one limit is no less than that by the other.

use ratekeeper_core::{Ask, Limit, Micros, Moment, State, StateRef, evaluate};

use super::Inner;
use super::query::Query;
use super::table::{BOTH, NO_SHAPE, Shape};

/// The arrival time of a key by one limit, in whole microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Side {
    pub(super) shape: Shape,
    pub(super) tat_us: u64,
}

impl Side {
    pub(super) const fn state(self) -> State {
        State::from_words([self.tat_us, 0])
    }
}

/// Two limits' arrival times, the earlier first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Both([Side; 2]);

const TAT_BITS: u32 = 53;
/// Limits refill within 366 days.
const APART_BITS: u32 = 45;
const SHAPE_BITS: u32 = 15;
/// What of the second shape is in the first word.
const LOW_BITS: u32 = 64 - TAT_BITS;

impl Both {
    /// `None` for times that no clock has.
    pub(super) fn new(a: Side, b: Side) -> Option<Self> {
        let sides = if a.tat_us <= b.tat_us { [a, b] } else { [b, a] };
        let fits = sides[0].tat_us >> TAT_BITS == 0 && (sides[1].tat_us - sides[0].tat_us) >> APART_BITS == 0;
        fits.then_some(Self(sides))
    }

    pub(super) const fn idle_at(self) -> Micros {
        Micros::new(self.0[1].tat_us)
    }
}

impl From<Both> for State {
    fn from(Both([first, last]): Both) -> Self {
        let (a, b) = (u64::from(first.shape), u64::from(last.shape));
        Self::from_words([
            first.tat_us | b << TAT_BITS,
            (last.tat_us - first.tat_us) | a << APART_BITS | (b >> LOW_BITS) << (APART_BITS + SHAPE_BITS),
        ])
    }
}

impl From<State> for Both {
    fn from(state: State) -> Self {
        let [one, two] = state.words();
        let low = |word: u64, bits: u32| word & ((1 << bits) - 1);
        let a = low(two >> APART_BITS, SHAPE_BITS) as Shape;
        let b = (one >> TAT_BITS | (two >> (APART_BITS + SHAPE_BITS)) << LOW_BITS) as Shape;
        let tat_us = low(one, TAT_BITS);
        Self([Side { shape: a, tat_us }, Side { shape: b, tat_us: tat_us + low(two, APART_BITS) }])
    }
}

/// What is to be written besides the state of the limit that asks.
#[derive(Clone, Copy)]
enum Rest {
    /// Nothing: `converted` if a refusal is to write it.
    None { converted: bool },
    /// A refusal leaves all as it is: what was promised by the old limit would not be legal under this one.
    Keep,
    /// The other limit, and its side; `is_new` if a refusal is to write both.
    Beside { limit: Limit, side: Side, is_new: bool },
}

/// A stored state as a limit reads it.
pub(super) struct Reading {
    pub(super) state: State,
    /// When, and whether there is anything left to heal.
    pub(super) at: Moment,
    rest: Rest,
}

impl Reading {
    pub(super) const fn fresh(at: Moment) -> Self {
        Self { state: State::FRESH, at, rest: Rest::None { converted: false } }
    }

    /// What an admission or a healing writes, that would leave `next` if there were this limit alone.
    pub(super) fn with(&self, query: &Query<'_>, next: State) -> (Shape, State) {
        let alone = (query.shape, next);
        let Rest::Beside { limit, side, .. } = self.rest else { return alone };
        let mine = Side { shape: query.shape, tat_us: up(next) };
        let side = raised(&limit, side, query.limit, self.state, mine.tat_us, &self.at);
        Both::new(mine, side).map_or(alone, |both| (BOTH, both.into()))
    }

    /// What a refusal writes, if anything.
    pub(super) fn refused(&self, query: &Query<'_>) -> Option<(Shape, State)> {
        match self.rest {
            Rest::None { converted } => converted.then_some((query.shape, self.state)),
            Rest::Beside { side, is_new: true, .. } => {
                let mine = Side { shape: query.shape, tat_us: up(self.state) };
                Both::new(mine, side).map(|both| (BOTH, both.into()))
            }
            Rest::Keep | Rest::Beside { .. } => None,
        }
    }
}

impl Inner {
    /// A stored state as this query's limit reads it: converted, if it was written with other parameters.
    pub(super) fn read(&self, query: &Query<'_>, shape: Shape, state: State, at: Moment) -> Reading {
        let plain = Reading { state, at, rest: Rest::None { converted: false } };
        if shape == query.shape || shape == NO_SHAPE {
            return plain;
        }
        if shape != BOTH {
            return self.read_other(query, shape, state, at);
        }
        let Some((mine, other)) = self.sides(query.shape, state, &at) else { return Reading::fresh(at) };
        if mine.shape != query.shape {
            return self.read_other(query, mine.shape, mine.state(), at);
        }
        let quiet = Moment { heals: false, ..at };
        let Some(limit) = self.shapes.limit(other.shape) else { return plain };
        let stored = (mine, other);
        let (mine, side) = (healed(query.limit, mine, &at), healed(&limit, other, &at));
        // After a step back a refusal must write what it healed.
        let is_new = (mine, side) != stored;
        let rest = if !is_new && is_fuller(query.limit, mine, &limit, side, &at) {
            // An admission ends it; a refusal leaves the other side what it has.
            Rest::None { converted: false }
        } else {
            Rest::Beside { limit, side, is_new }
        };
        Reading { state: mine.state(), at: quiet, rest }
    }

    fn read_other(&self, query: &Query<'_>, shape: Shape, state: State, at: Moment) -> Reading {
        let Some(old) = self.shapes.limit(shape) else { return Reading::fresh(at) };
        let converted = query.limit.convert(&old, state, &at);
        if !query.limit.cuts(&old, state, &at) {
            return Reading { state: converted, at, rest: Rest::None { converted: true } };
        }
        let quiet = Moment { heals: false, ..at };
        // Healed by the limit that it was written with: by this one it would lose what is beyond.
        let state = evaluate(&old, StateRef::Words(state), &at, 0, Ask::Peek).next();
        if old.is_queue() {
            let converted = query.limit.convert(&old, state, &at);
            return Reading { state: converted, at: quiet, rest: Rest::Keep };
        }
        let side = Side { shape, tat_us: up(state) };
        let state = State::from_words([up(converted), 0]);
        Reading { state, at: quiet, rest: Rest::Beside { limit: old, side, is_new: true } }
    }

    /// The two sides of a state of both: first the one of this shape, or else the one by which more is in use.
    pub(super) fn sides(&self, shape: Shape, state: State, at: &Moment) -> Option<(Side, Side)> {
        let Both([a, b]) = state.into();
        if a.shape == shape || b.shape == shape {
            return Some(if a.shape == shape { (a, b) } else { (b, a) });
        }
        let (of_a, of_b) = (self.shapes.limit(a.shape)?, self.shapes.limit(b.shape)?);
        Some(if is_fuller(&of_a, a, &of_b, b, at) { (a, b) } else { (b, a) })
    }

    /// A state of both after `mine` has become `next`; what was taken counts for the other side, and what was given
    /// back is not given to it.
    pub(super) fn amended(
        &self,
        limit: &Limit,
        (mine, other): (Side, Side),
        next: State,
        at: &Moment,
    ) -> (Shape, State) {
        let alone = (mine.shape, next);
        let Some(of_other) = self.shapes.limit(other.shape) else { return alone };
        let changed = Side { tat_us: up(next), ..mine };
        let other = raised(&of_other, other, limit, mine.state(), changed.tat_us, at);
        Both::new(changed, other).map_or(alone, |both| (BOTH, both.into()))
    }
}

/// The arrival time in whole microseconds.
fn up(state: State) -> u64 {
    let [us, part] = state.words();
    us + u64::from(part > 0)
}

/// The latest arrival time that a clock without steps could have reached, rounded up.
fn fullest(limit: &Limit, at: &Moment) -> u64 {
    at.now.get().saturating_add(u64::try_from(limit.refill().as_micros()).unwrap_or(u64::MAX))
}

/// A side that may lie ahead of a clock that has stepped back.
fn healed(limit: &Limit, side: Side, at: &Moment) -> Side {
    if at.heals { Side { tat_us: side.tat_us.min(fullest(limit, at)), ..side } } else { side }
}

/// Whether no fewer units are in use by the first limit than by the second.
fn is_fuller(limit: &Limit, side: Side, other: &Limit, than: Side, at: &Moment) -> bool {
    !limit.cuts(other, than.state(), at)
        && up(limit.convert(other, than.state(), at)) <= side.tat_us.max(at.now.get())
}

/// A side after its key went from `before` to `tat_us` by another limit: that much more, in its own units.
fn raised(limit: &Limit, side: Side, by: &Limit, before: State, tat_us: u64, at: &Moment) -> Side {
    let now = at.now.get();
    let taken = tat_us.saturating_sub(before.words()[0].max(now));
    let taken = limit.convert(by, State::from_words([now + taken, 0]), at);
    let taken = up(taken).saturating_sub(now);
    if taken == 0 {
        return side;
    }
    // A full one counts no more: from here on it lets in what drains, and no more.
    Side { tat_us: (side.tat_us.max(now) + taken).min(fullest(limit, at).max(side.tat_us)), ..side }
}

#[cfg(test)]
mod tests;
