//! The arithmetic of `token-bucket`, `gcra` and `leaky-bucket` without a queue.
//!
//! One number per key: the *theoretical arrival time* TAT, the instant at which the bucket is full of
//! tokens (or empty of water) again. A unit takes T = window / N; a request of cost n moves TAT to
//! e = max(TAT, now) + n T and is admitted iff e ≤ now + D, with D = burst × T.
//!
//! With tokens = (now + D − TAT) / T, capped at the burst, the condition is tokens ≥ n: the token bucket.
//! With level = max(0, TAT − now) / T it is level + n ≤ burst: the leaky bucket as a meter (ITU-T I.371,
//! continuous-state leaky bucket; GCRA is the same recommendation's virtual scheduling).
//!
//! T is a fraction of a microsecond, so TAT is kept as whole microseconds and a numerator over
//! [`Limit::parts`]: nothing is rounded and 7/s does not drift.

use super::{Moment, State, Token, View};
use crate::limit::Limit;

/// An instant or a span, exact: `us + part / parts` microseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Exact {
    pub(crate) us: u64,
    pub(crate) part: u64,
}

impl Exact {
    pub(super) const fn whole(us: u64) -> Self {
        Self { us, part: 0 }
    }

    #[inline(always)]
    pub(super) const fn plus(self, other: Self, parts: u64) -> Self {
        let part = self.part + other.part;
        let carry = part >= parts;
        Self {
            us: self.us + other.us + if carry { 1 } else { 0 },
            part: if carry { part - parts } else { part },
        }
    }

    /// `self − other`, or zero if that is negative.
    #[inline(always)]
    pub(super) fn minus(self, other: Self, parts: u64) -> Self {
        if self <= other {
            return Self::whole(0);
        }
        let borrow = self.part < other.part;
        Self {
            us: self.us - other.us - u64::from(borrow),
            part: if borrow { self.part + parts - other.part } else { self.part - other.part },
        }
    }

    #[inline]
    pub(super) fn ceil(self) -> u64 {
        self.us + u64::from(self.part > 0)
    }
}

impl From<State> for Exact {
    #[inline]
    fn from(state: State) -> Self {
        Self { us: state.words[0], part: state.words[1] }
    }
}

impl From<Exact> for State {
    #[inline]
    fn from(tat: Exact) -> Self {
        Self { words: [tat.us, tat.part] }
    }
}

impl Limit {
    #[inline]
    pub(crate) const fn q(&self) -> u64 {
        self.parts as u64
    }

    /// n T. Products fit: n is at most the capacity, whose span is at most 366 days, and one unit more, which
    /// takes as long at most; and n × numerator is below 2 × 10^18.
    #[inline(always)]
    pub(crate) const fn units(&self, n: u64) -> Exact {
        if n == 1 {
            return Exact { us: self.unit_us, part: self.unit_part as u64 };
        }
        let part = n * self.unit_part as u64;
        Exact { us: n * self.unit_us + part / self.q(), part: part % self.q() }
    }

    /// D, the time to refill the whole bucket.
    #[inline(always)]
    pub(super) const fn span(&self) -> Exact {
        Exact { us: self.span_us, part: self.span_part as u64 }
    }

    /// ⌊span / T⌋.
    pub(super) fn units_in(&self, span: Exact) -> u64 {
        if self.parts == 1 {
            return span.us / self.unit_us;
        }
        // T = p / q with p < 2^45; the span in q-ths of a microsecond needs up to 75 bits.
        let p = self.unit_us * self.q() + u64::from(self.unit_part);
        match span.us.checked_mul(self.q()).and_then(|whole| whole.checked_add(span.part)) {
            Some(small) => small / p,
            None => {
                let wide = u128::from(span.us) * u128::from(self.parts) + u128::from(span.part);
                u64::try_from(wide / u128::from(p)).unwrap_or(u64::MAX)
            }
        }
    }
}

/// max(TAT, now): where the next unit is put.
#[inline(always)]
pub(super) const fn base(state: State, now: u64) -> Exact {
    if state.words[0] >= now { Exact { us: state.words[0], part: state.words[1] } } else { Exact::whole(now) }
}

/// A TAT beyond now + D is no state that a clock without steps could have reached: it heals to now + D.
#[inline(always)]
pub(crate) fn view(limit: &Limit, state: State, at: &Moment) -> View {
    if at.heals {
        let fullest = Exact::whole(at.us()).plus(limit.span(), limit.q());
        if Exact::from(state) > fullest {
            return View::healed(fullest.into());
        }
    }
    View::as_is(state)
}

#[inline(always)]
pub(crate) fn admit(limit: &Limit, view: State, now: u64, cost: u64) -> Option<State> {
    let end = base(view, now).plus(limit.units(cost), limit.q());
    (end <= Exact::whole(now).plus(limit.span(), limit.q())).then(|| end.into())
}

/// How much of the span D is free.
fn free(limit: &Limit, view: State, now: u64) -> Exact {
    let backlog = base(view, now).minus(Exact::whole(now), limit.q());
    limit.span().minus(backlog, limit.q())
}

pub(crate) fn remaining(limit: &Limit, view: State, now: u64) -> u64 {
    limit.units_in(free(limit, view, now))
}

/// What is in use, in thousandths of a unit, rounded up.
pub(crate) fn thousandths(limit: &Limit, view: State, now: u64) -> u64 {
    let backlog = base(view, now).minus(Exact::whole(now), limit.q());
    // As in `units_in`, with a thousand times as many units.
    let p = u128::from(limit.unit_us) * u128::from(limit.parts) + u128::from(limit.unit_part);
    let wide = u128::from(backlog.us) * u128::from(limit.parts) + u128::from(backlog.part);
    u64::try_from((wide * 1_000).div_ceil(p)).unwrap_or(u64::MAX)
}

/// The admission condition solved for time: e − D, where e is the end of what is asked for.
pub(crate) fn retry_after(limit: &Limit, view: State, now: u64, cost: u64) -> u64 {
    let end = base(view, now).plus(limit.units(cost), limit.q());
    end.minus(limit.span(), limit.q()).ceil().saturating_sub(now)
}

/// All that remains is taken now, and the wait is that of one unit more: a bucket fills no faster for being
/// left alone.
pub(crate) fn more_after(limit: &Limit, view: State, now: u64) -> u64 {
    retry_after(limit, view, now, remaining(limit, view, now) + 1)
}

pub(crate) fn reset_after(view: State, now: u64) -> u64 {
    idle_at(view).saturating_sub(now)
}

pub(crate) fn idle_at(state: State) -> u64 {
    Exact::from(state).ceil()
}

/// Gives back what cannot have drained yet, however the admissions since then are arranged:
/// max(0, n T − (now − t)), and nothing if the state was lost or healed since. Of the last d of n units that
/// is at most d T: they drain after the others.
pub(crate) fn refund(limit: &Limit, state: State, now: u64, token: &Token) -> State {
    let taken = limit.units(token.to.into());
    let tat = Exact::from(state);
    if now < token.at || tat < Exact::whole(token.at).plus(taken, limit.q()) {
        return state;
    }
    let undrained = taken.minus(Exact::whole(now - token.at), limit.q());
    tat.minus(undrained.min(limit.units(token.cost())), limit.q()).into()
}

/// TAT − n T, but not below now: a credit fills the bucket at most. It may be far larger than the bucket.
pub(crate) fn credit(limit: &Limit, state: State, now: u64, units: u64) -> State {
    let tat = Exact::from(state);
    if tat <= Exact::whole(now) {
        return state;
    }
    let parts = u128::from(limit.parts);
    let given = u128::from(units) * (u128::from(limit.unit_us) * parts + u128::from(limit.unit_part));
    let Ok(us) = u64::try_from(given / parts) else { return Exact::whole(now).into() };
    let given = Exact { us, part: (given % parts) as u64 };
    tat.minus(given, limit.q()).max(Exact::whole(now)).into()
}

/// The state under another limit: the level in units is kept, rounded up to a microsecond when T changes,
/// and at most the new burst.
pub(crate) fn in_units_of(new: &Limit, old: &Limit, state: State, now: u64) -> State {
    let fullest = Exact::whole(now).plus(new.span(), new.q());
    kept_in_units_of(new, old, state, now).min(fullest).into()
}

/// Whether more units are in use than the new burst, so that [`in_units_of`] cuts some.
pub(crate) fn is_cut(new: &Limit, old: &Limit, state: State, now: u64) -> bool {
    kept_in_units_of(new, old, state, now) > Exact::whole(now).plus(new.span(), new.q())
}

/// Whether a state is beyond the fullest legal one.
pub(crate) fn is_beyond(limit: &Limit, state: State, now: u64) -> bool {
    Exact::from(state) > Exact::whole(now).plus(limit.span(), limit.q())
}

/// The level in units, rounded up to a microsecond when T changes; whatever is beyond the new burst counts as a
/// microsecond beyond.
fn kept_in_units_of(new: &Limit, old: &Limit, state: State, now: u64) -> Exact {
    let same_rate = (new.unit_us, new.unit_part, new.parts) == (old.unit_us, old.unit_part, old.parts);
    if same_rate || Exact::from(state) <= Exact::whole(now) {
        // A TAT that has passed may carry parts of another denominator: they are over, too.
        if same_rate { Exact::from(state) } else { Exact::whole(state.words[0]) }
    } else {
        let backlog = Exact::from(state).minus(Exact::whole(now), old.q()).min(old.span());
        let backlog = u128::from(backlog.us) * u128::from(old.parts) + u128::from(backlog.part);
        let p =
            |limit: &Limit| u128::from(limit.unit_us) * u128::from(limit.parts) + u128::from(limit.unit_part);
        let kept = (backlog * p(new)).div_ceil(p(old) * u128::from(new.parts));
        Exact::whole(now + u64::try_from(kept).unwrap_or(u64::MAX).min(new.span_us + 1))
    }
}
