//! The leaky bucket as a queue: requests start evenly spaced, and wait in between.
//!
//! The state is the end of the last reserved slot, with the arithmetic of [`meter`](super::meter). A request
//! of cost n starts at max(TAT, now) and reserves n T from there. It is admitted iff the reservations end
//! within (queue + 1) T from now and its wait is at most `max_wait`. Starts are in the order of admission,
//! and two of them are never closer than the cost of the first allows.

use super::meter::{Exact, base};
use super::{State, Token};
use crate::elsewhere::Span;
use crate::limit::Limit;

/// How long a request admitted now would wait.
fn wait(limit: &Limit, view: State, now: u64) -> Exact {
    base(view, now).minus(Exact::whole(now), limit.q())
}

#[inline(never)]
pub(crate) fn admit(limit: &Limit, view: State, now: u64, cost: u64) -> Option<State> {
    if wait(limit, view, now) > Exact::whole(limit.max_wait_us) {
        return None;
    }
    super::meter::admit(limit, view, now, cost)
}

/// As many as fit the room and, one starting T after another, still start within `max_wait`.
pub(crate) fn remaining(limit: &Limit, view: State, now: u64) -> u64 {
    let wait = wait(limit, view, now);
    let longest = Exact::whole(limit.max_wait_us);
    if wait > longest {
        return 0;
    }
    let room = super::meter::remaining(limit, view, now);
    if limit.max_wait_us == u64::MAX {
        return room;
    }
    room.min(limit.units_in(longest.minus(wait, limit.q())).saturating_add(1))
}

pub(crate) fn retry_after(limit: &Limit, view: State, now: u64, cost: u64) -> u64 {
    let for_room = super::meter::retry_after(limit, view, now, cost);
    let for_wait = wait(limit, view, now).minus(Exact::whole(limit.max_wait_us), limit.q()).ceil();
    for_room.max(for_wait)
}

/// All that remains is taken now, one by one; the next finds room when a unit has drained, and a start soon
/// enough when what was taken is short enough.
pub(crate) fn more_after(limit: &Limit, view: State, now: u64) -> u64 {
    let taken = remaining(limit, view, now);
    let for_room = super::meter::retry_after(limit, view, now, taken + 1);
    if limit.max_wait_us == u64::MAX {
        return for_room;
    }
    let line = wait(limit, view, now).plus(limit.units(taken), limit.q());
    for_room.max(line.minus(Exact::whole(limit.max_wait_us), limit.q()).ceil())
}

/// The start of the slot that ends at `end` and was reserved by `cost`.
fn start(limit: &Limit, end: State, cost: u64) -> Exact {
    Exact::from(end).minus(limit.units(cost), limit.q())
}

/// How long the admitted request must wait, given the state it left behind.
pub(crate) fn delay(limit: &Limit, end: State, now: u64, cost: u64) -> u64 {
    start(limit, end, cost).minus(Exact::whole(now), limit.q()).ceil()
}

/// How long a request would wait if it were admitted now.
pub(crate) fn delay_ahead(limit: &Limit, view: State, now: u64) -> u64 {
    wait(limit, view, now).ceil()
}

/// Units that have a slot which has not begun: of those whose slot has not ended, all but the first.
pub(crate) fn waiting(limit: &Limit, view: State, now: u64) -> u64 {
    super::meter::thousandths(limit, view, now).div_ceil(1_000).saturating_sub(1)
}

/// Slots promised to others never move, so only the last reserved slot comes back, and only before its
/// start. A slot given up earlier in the line stays as a hole: capacity lost, the spacing never violated.
///
/// The last units of a slot are a slot of their own behind the rest of it: they come back as long as nobody has
/// reserved behind them and their turn has not come, also when the request itself has started.
pub(crate) fn refund(limit: &Limit, state: State, now: u64, token: &Token) -> State {
    let (start, end) = slot_of(limit, token);
    if Exact::from(state) == end && token.at <= now && start > Exact::whole(now) {
        return start.into();
    }
    state
}

/// Beginning and end of the slot that a token stands for.
fn slot_of(limit: &Limit, token: &Token) -> (Exact, Exact) {
    let end = start(limit, token.state, u64::from(token.taken - token.to));
    (start(limit, token.state, u64::from(token.taken - token.from)), end)
}

/// The same in plain numbers.
pub(crate) fn slot(limit: &Limit, token: &Token) -> (Span, Span) {
    let (start, end) = slot_of(limit, token);
    let span = |exact: Exact| Span { us: exact.us, part: exact.part };
    (span(start), span(end))
}
