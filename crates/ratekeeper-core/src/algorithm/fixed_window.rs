//! Fixed window: a count that starts again with every window.
//!
//! The state is the window's start (53 bits), its length (45 bits) and the count (30 bits); a count of 0
//! is fresh, whatever window it belongs to. A request of cost n is admitted iff count + n ≤ N.
//!
//! Windows begin at multiples of W since the epoch, at the first admitted request, or with a calendar
//! period. An interval that meets m windows admits at most m N: N in the last instant of one window and N
//! in the first of the next are the trade-off of this algorithm.

use super::{Moment, State, Token, View, guard_us};
use crate::limit::{Align, Limit};
use crate::time::{Calendar, Micros, UtcCalendar};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Counted {
    start: u64,
    length: u64,
    count: u64,
}

const START_BITS: u32 = 53;
const LENGTH_HIGH_BITS: u32 = 34;
const MAX_LENGTH: u64 = (1 << 45) - 1;
const LOW_LENGTH: u64 = (1 << (64 - START_BITS)) - 1;

impl Counted {
    const fn end(self) -> u64 {
        self.start + self.length
    }
}

impl From<State> for Counted {
    #[inline]
    fn from(state: State) -> Self {
        let [first, second] = state.words;
        Self {
            start: first & Micros::MAX.get(),
            length: (first >> START_BITS) | ((second & ((1 << LENGTH_HIGH_BITS) - 1)) << (64 - START_BITS)),
            count: second >> LENGTH_HIGH_BITS,
        }
    }
}

impl From<Counted> for State {
    #[inline]
    fn from(c: Counted) -> Self {
        if c.count == 0 {
            return Self::FRESH;
        }
        Self {
            words: [
                c.start | ((c.length & LOW_LENGTH) << START_BITS),
                (c.length >> (64 - START_BITS)) | (c.count << LENGTH_HIGH_BITS),
            ],
        }
    }
}

/// The window that a key without state would be counted in, with `count` in it.
#[inline]
fn window_of_now(limit: &Limit, at: &Moment, count: u64) -> Counted {
    let (now, width) = (at.us(), limit.window_us());
    match limit.alignment() {
        Align::Epoch => Counted { start: now - now % width, length: width, count },
        Align::FirstRequest => Counted { start: now, length: width, count },
        Align::Calendar(period) => {
            let given = at.period.filter(|window| window.start <= at.now && at.now < window.end);
            let window = given.unwrap_or_else(|| UtcCalendar(period).window(at.now));
            let length = (window.end.get() - window.start.get()).min(MAX_LENGTH);
            Counted { start: window.start.get(), length, count }
        }
    }
}

/// The counted window as it is at `at`. A window that lies ahead by more than the guard heals: its count
/// moves to the window of now.
#[inline]
fn read(limit: &Limit, state: State, at: &Moment) -> (Counted, bool) {
    let stored = Counted::from(state);
    let now = at.us();
    if stored.count == 0 || now >= stored.end() {
        return (window_of_now(limit, at, 0), false);
    }
    if stored.start > now && at.heals && stored.start - now > guard_us(stored.length) {
        return (window_of_now(limit, at, stored.count.min(limit.capacity())), true);
    }
    (stored, false)
}

/// The view of a window without a count still carries the window, so that an admission knows where to go.
#[inline(never)]
pub(crate) fn view(limit: &Limit, state: State, at: &Moment) -> View {
    let (counted, healed) = read(limit, state, at);
    let state = State {
        words: [
            counted.start | ((counted.length & LOW_LENGTH) << START_BITS),
            (counted.length >> (64 - START_BITS)) | (counted.count << LENGTH_HIGH_BITS),
        ],
    };
    View { state, healed }
}

/// First instant of the stored window.
pub(crate) const fn start(state: State) -> u64 {
    state.words[0] & Micros::MAX.get()
}

/// The state of a window with a count, as another place has kept it.
pub(crate) fn state_of(start: u64, length: u64, count: u64) -> State {
    Counted { start, length, count }.into()
}

/// Start and length of the stored window.
pub(crate) fn window_of(state: State) -> [u64; 2] {
    let counted = Counted::from(state);
    [counted.start, counted.length]
}

/// Units that the window has admitted.
pub(crate) fn count(view: State) -> u64 {
    Counted::from(view).count
}

#[inline(never)]
pub(crate) fn admit(limit: &Limit, view: State, cost: u64) -> Option<State> {
    let mut counted = Counted::from(view);
    if cost > limit.capacity().saturating_sub(counted.count) {
        return None;
    }
    counted.count += cost;
    Some(counted.into())
}

pub(crate) fn remaining(limit: &Limit, view: State) -> u64 {
    limit.capacity().saturating_sub(Counted::from(view).count)
}

/// One tick before the end the count is unchanged, so the wait is the rest of the window. So is that for more
/// than remains: what is taken now fills this window, and one that begins with a request begins now.
pub(crate) fn retry_after(view: State, now: u64) -> u64 {
    Counted::from(view).end().saturating_sub(now)
}

pub(crate) fn reset_after(view: State, now: u64) -> u64 {
    idle_at(view).saturating_sub(now)
}

pub(crate) fn idle_at(state: State) -> u64 {
    let counted = Counted::from(state);
    if counted.count == 0 { 0 } else { counted.end() }
}

/// Gives back to the window that the request was counted in, if it is still the stored one.
pub(crate) fn refund(state: State, token: &Token) -> State {
    let mut stored = Counted::from(state);
    let taken = Counted::from(token.state);
    if stored.count > 0 && (stored.start, stored.length) == (taken.start, taken.length) {
        stored.count = stored.count.saturating_sub(token.cost());
        return stored.into();
    }
    state
}

pub(crate) fn credit(state: State, now: u64, units: u64) -> State {
    let mut stored = Counted::from(state);
    if stored.count == 0 || now >= stored.end() {
        return state;
    }
    stored.count = stored.count.saturating_sub(units);
    stored.into()
}

/// The state under another limit: kept if the windows are the same, else moved into the new window of now
/// unless the old one is over. A count above the new N is kept: it may go on under
/// a larger one.
pub(crate) fn convert(new: &Limit, old: &Limit, state: State, at: &Moment) -> State {
    if (new.window_us(), new.alignment()) == (old.window_us(), old.alignment()) {
        return state;
    }
    let (counted, _) = read(old, state, at);
    window_of_now(new, at, counted.count).into()
}
