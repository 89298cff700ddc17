//! Sliding window counter: the count of this window plus the previous one's, fading with time.
//!
//! Windows begin at multiples of W since the epoch. With p units in the previous window, c in this one and
//! e the time since it began, a request of cost n is admitted iff ⌈p (W − e) / W⌉ + c + n ≤ N, which is
//! the exact inequality p (W − e) / W + c + n ≤ N in integers. The state is the window's start (53 bits), p
//! and c (30 bits each).
//!
//! Its worst case equals that of a bucket with burst N and rate N / W: up to 2 N − 1 units in one window, and
//! after a burst it can refuse although the last window holds less than N. That is the price of two numbers.

use super::{Moment, State, Token, View, guard_us};
use crate::limit::Limit;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Counts {
    start: u64,
    previous: u64,
    current: u64,
}

const COUNT_BITS: u32 = 30;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;

impl From<State> for Counts {
    #[inline]
    fn from(state: State) -> Self {
        let [start, counts] = state.words;
        Self { start, previous: counts >> COUNT_BITS, current: counts & COUNT_MASK }
    }
}

impl From<Counts> for State {
    #[inline]
    fn from(c: Counts) -> Self {
        if c.previous == 0 && c.current == 0 {
            return Self::FRESH;
        }
        Self { words: [c.start, (c.previous << COUNT_BITS) | c.current] }
    }
}

/// ⌊a b / w⌋ and whether something was left over; a < 2^30, b ≤ w ≤ 2^45.
fn mul_div(a: u64, b: u64, w: u64) -> (u64, bool) {
    match a.checked_mul(b) {
        Some(product) => (product / w, !product.is_multiple_of(w)),
        None => {
            let (product, w) = (u128::from(a) * u128::from(b), u128::from(w));
            ((product / w) as u64, !product.is_multiple_of(w))
        }
    }
}

impl Counts {
    /// ⌈p (W − e) / W⌉: what of the previous window still counts. A window ahead of the clock (within the
    /// guard) is at its beginning.
    fn faded(self, now: u64, width: u64) -> u64 {
        let elapsed = now.saturating_sub(self.start).min(width);
        let (whole, rest) = mul_div(self.previous, width - elapsed, width);
        whole + u64::from(rest)
    }

    fn is_fresh(self) -> bool {
        self.previous == 0 && self.current == 0
    }
}

fn read(limit: &Limit, state: State, at: &Moment) -> (Counts, bool) {
    let stored = Counts::from(state);
    let (now, width) = (at.us(), limit.window_us());
    let start = now - now % width;
    if stored.is_fresh() || stored.start == start {
        return (Counts { start, ..stored }, false);
    }
    if stored.start > start {
        if !at.heals || stored.start - now <= guard_us(width) {
            return (stored, false);
        }
        let kept = (stored.previous + stored.current).min(limit.capacity());
        return (Counts { start, previous: 0, current: kept }, true);
    }
    let previous = if start - stored.start == width { stored.current } else { 0 };
    (Counts { start, previous, current: 0 }, false)
}

/// The view of a key without counts still carries the window, so that an admission knows where to go.
#[inline(never)]
pub(crate) fn view(limit: &Limit, state: State, at: &Moment) -> View {
    let (c, healed) = read(limit, state, at);
    View { state: State { words: [c.start, (c.previous << COUNT_BITS) | c.current] }, healed }
}

/// The state of counts, as another place has kept them.
pub(crate) fn state_of(start: u64, previous: u64, current: u64) -> State {
    Counts { start, previous, current }.into()
}

/// First instant of the stored window.
pub(crate) const fn start(state: State) -> u64 {
    state.words[0]
}

#[inline(never)]
pub(crate) fn admit(limit: &Limit, view: State, now: u64, cost: u64) -> Option<State> {
    let mut counts = Counts::from(view);
    if cost > room(limit, counts, now) {
        return None;
    }
    counts.current += cost;
    Some(counts.into())
}

fn room(limit: &Limit, counts: Counts, now: u64) -> u64 {
    limit.capacity().saturating_sub(counts.current + counts.faded(now, limit.window_us()))
}

pub(crate) fn remaining(limit: &Limit, view: State, now: u64) -> u64 {
    room(limit, Counts::from(view), now)
}

/// The previous count, how much of it still counts in thousandths (rounded up), the current one, and what counts of
/// both.
pub(crate) fn counts(limit: &Limit, view: State, now: u64) -> [u64; 4] {
    let (counts, width) = (Counts::from(view), limit.window_us());
    let left = width - now.saturating_sub(counts.start).min(width);
    let (share, rest) = mul_div(1_000, left, width);
    let used = counts.current + counts.faded(now, width);
    [counts.previous, share + u64::from(rest), counts.current, used]
}

pub(crate) fn retry_after(limit: &Limit, view: State, now: u64, cost: u64) -> u64 {
    wait_for(limit, Counts::from(view), now, cost)
}

/// In this window the previous count must fade to N − c − n; if this window alone is too full, its own count
/// must fade in the next one.
fn wait_for(limit: &Limit, counts: Counts, now: u64, cost: u64) -> u64 {
    let (width, capacity) = (limit.window_us(), limit.capacity());
    let admitted_at = if counts.current + cost <= capacity {
        let may_stay = capacity - counts.current - cost;
        // The previous count exceeds what may stay, or the request would have been admitted.
        counts.start + width - mul_div(may_stay, width, counts.previous.max(1)).0.min(width)
    } else {
        counts.start + 2 * width - mul_div(capacity - cost, width, counts.current).0.min(width)
    };
    admitted_at.saturating_sub(now)
}

/// All that remains is taken now, and the wait is that of one unit more. Nothing comes sooner: in this window
/// a unit taken early hinders no later one, and in the next what was taken here counts as less than it was.
/// So leaving the room unused and waiting until all fits at once can take longer, by up to a window.
pub(crate) fn more_after(limit: &Limit, view: State, now: u64) -> u64 {
    let mut counts = Counts::from(view);
    counts.current += room(limit, counts, now);
    wait_for(limit, counts, now, 1)
}

pub(crate) fn reset_after(limit: &Limit, view: State, now: u64) -> u64 {
    idle_at(limit, view).saturating_sub(now)
}

pub(crate) fn idle_at(limit: &Limit, state: State) -> u64 {
    let counts = Counts::from(state);
    match (counts.current, counts.previous) {
        (0, 0) => 0,
        (0, _) => counts.start + limit.window_us(),
        _ => counts.start + 2 * limit.window_us(),
    }
}

/// Gives back to the window that the request was counted in, whether it is the current or by now the
/// previous one.
pub(crate) fn refund(limit: &Limit, state: State, token: &Token) -> State {
    let mut stored = Counts::from(state);
    let taken = Counts::from(token.state).start;
    if stored.is_fresh() {
        return state;
    }
    if stored.start == taken {
        stored.current = stored.current.saturating_sub(token.cost());
    } else if stored.start == taken.saturating_add(limit.window_us()) {
        stored.previous = stored.previous.saturating_sub(token.cost());
    }
    stored.into()
}

/// Takes from the current count, then from the previous one.
pub(crate) fn credit(limit: &Limit, state: State, now: u64, units: u64) -> State {
    let mut stored = Counts::from(state);
    let width = limit.window_us();
    let start = now - now % width;
    if stored.is_fresh() || start > stored.start + width {
        return state;
    }
    let from_current = units.min(stored.current);
    stored.current -= from_current;
    // One window on, what was counted as current is the previous one, and what was previous is gone.
    if start <= stored.start {
        stored.previous = stored.previous.saturating_sub(units - from_current);
    }
    stored.into()
}

/// The state under another limit: kept if the window is the same, else all that still counts moves into the
/// new window of now: at most the new N, but no less than is in use, since it may go on under a larger one.
pub(crate) fn convert(new: &Limit, old: &Limit, state: State, at: &Moment) -> State {
    if new.window_us() == old.window_us() {
        return state;
    }
    let (counts, _) = read(old, state, at);
    let still = counts.current + counts.faded(at.us(), old.window_us());
    let current = (counts.previous + counts.current).min(still.max(new.capacity()));
    let start = at.us() - at.us() % new.window_us();
    Counts { start, previous: 0, current }.into()
}
