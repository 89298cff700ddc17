//! The registry of algorithms, and what they have in common.
//!
//! Six names, five arithmetics: `token-bucket`, `gcra` and `leaky-bucket` without a queue are the same
//! [`meter`]. Every arithmetic is a handful of pure functions over two words of [`State`] (the log: over a
//! ring of entries) with the same names: `view` (what the state means now, healed), `admit`, `remaining`,
//! `retry_after`, `more_after`, `reset_after`, `refund`, `credit`, `idle_at`.
//!
//! To add an algorithm: write such a module, add the variant here and follow the compiler.

pub(crate) mod fixed_window;
pub(crate) mod meter;
pub(crate) mod queue;
pub(crate) mod sliding_window_counter;
pub(crate) mod sliding_window_log;

use core::fmt;
use core::str::FromStr;

use crate::limit::Limit;
use crate::time::{Micros, Window};

/// How units are counted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Algorithm {
    /// A counter per window that starts again at each boundary. Cheap and easy to explain; two full windows
    /// can meet at a boundary: up to 2 N within an instant.
    FixedWindow,
    /// Every admitted request is remembered for one window: never more than N in any window, at the price
    /// of an entry per request.
    SlidingWindowLog,
    /// The last window's count, fading, plus this window's. Two numbers a key; up to 2 N − 1 in a window
    /// by its worst traffic, like a bucket of burst N.
    SlidingWindowCounter,
    /// Tokens flow in at the rate, up to the burst; a request takes as many as it costs.
    TokenBucket,
    /// As a meter: requests pour into a bucket that leaks at the rate and are refused if it would overflow;
    /// the same answers as a token bucket. With a queue: requests start evenly spaced and wait in between.
    LeakyBucket,
    /// The generic cell rate algorithm: one instant per key, the theoretical arrival time, and the same
    /// answers as a token bucket.
    Gcra,
}

impl Algorithm {
    /// All of them, in the order of the documentation. Tests and tables iterate this.
    pub const ALL: [Self; 6] = [
        Self::FixedWindow,
        Self::SlidingWindowLog,
        Self::SlidingWindowCounter,
        Self::TokenBucket,
        Self::LeakyBucket,
        Self::Gcra,
    ];

    /// The name in configuration, wire and documentation.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FixedWindow => "fixed-window",
            Self::SlidingWindowLog => "sliding-window-log",
            Self::SlidingWindowCounter => "sliding-window-counter",
            Self::TokenBucket => "token-bucket",
            Self::LeakyBucket => "leaky-bucket",
            Self::Gcra => "gcra",
        }
    }

    /// Whether `burst` is an option of it.
    #[must_use]
    pub const fn takes_burst(self) -> bool {
        matches!(self, Self::TokenBucket | Self::LeakyBucket | Self::Gcra)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is none of [`Algorithm::ALL`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownAlgorithm;

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an algorithm is one of")?;
        for (i, algorithm) in Algorithm::ALL.iter().enumerate() {
            write!(f, "{} {algorithm}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownAlgorithm {}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        Self::ALL.into_iter().find(|a| a.name() == name).ok_or(UnknownAlgorithm)
    }
}

/// Which arithmetic decides a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rule {
    Meter,
    Queue,
    Fixed,
    Counter,
    Log,
}

/// What a key is remembered by: two words, all zero when the key is fresh. Their meaning is the
/// algorithm's own affair; a sliding-window log keeps a [`Log`](crate::Log) instead.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct State {
    words: [u64; 2],
}

impl State {
    /// A key that has never been seen.
    pub const FRESH: Self = Self { words: [0, 0] };

    /// The state that [`State::words`] gave.
    #[must_use]
    pub const fn from_words(words: [u64; 2]) -> Self {
        Self { words }
    }

    /// The state as two words, to be stored.
    #[must_use]
    pub const fn words(self) -> [u64; 2] {
        self.words
    }
}

/// When a decision is made, and under what kind of clock.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The one reading of the clock that owns the state.
    pub now: Micros,
    /// Whether state from the future is cut to the fullest legal state ([`Clock::may_step_back`]).
    ///
    /// [`Clock::may_step_back`]: crate::Clock::may_step_back
    pub heals: bool,
    /// The calendar period that contains `now`, for limits aligned to a calendar. Without it the period
    /// is taken from UTC.
    pub period: Option<Window>,
}

impl Moment {
    /// A moment of a clock that may step back, without a calendar.
    #[must_use]
    pub const fn at(now: Micros) -> Self {
        Self { now, heals: true, period: None }
    }

    #[inline]
    pub(crate) const fn us(&self) -> u64 {
        self.now.get()
    }
}

/// What is needed to give an admission back: when it was made, what it cost, and the state it left.
///
/// It stands for some of the units of one admission in a row: all of them at first, fewer after
/// [`Token::split`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    pub(crate) at: u64,
    /// The state that the whole admission left.
    pub(crate) state: State,
    /// Units of the whole admission.
    pub(crate) taken: u32,
    /// The token stands for the units from here on,
    pub(crate) from: u32,
    /// up to here, not with it. Those beyond have a token of their own that is given back before this one.
    pub(crate) to: u32,
    pub(crate) overflow: bool,
}

impl Token {
    /// `cost` is within the capacity of a limit, or it would not have been admitted.
    pub(crate) const fn new(overflow: bool, at: u64, cost: u64, state: State) -> Self {
        let taken = cost as u32;
        Self { at, state, taken, from: 0, to: taken, overflow }
    }

    /// The admission without its last `last` units, and those alone; `None` for what would have no units.
    ///
    /// The admission of n units is one of n − d and then one of d at the same instant, so both can be given
    /// back, each at most once; but those that came last first, or more may come back than is safe.
    ///
    /// ```
    /// use ratekeeper_core::{Ask, Limit, Micros, Moment, State, StateRef, evaluate};
    /// let limit = Limit::per_second(10);
    /// let now = Micros::new(0);
    /// let held = evaluate(&limit, StateRef::Words(State::FRESH), &Moment::at(now), 8, Ask::Acquire);
    /// let token = held.taken().token().expect("eight of ten are there");
    /// // Three were enough.
    /// let (kept, unused) = token.split(5);
    /// let state = limit.refund(held.next(), now, &unused.expect("five"));
    /// let look = evaluate(&limit, StateRef::Words(state), &Moment::at(now), 0, Ask::Peek);
    /// assert_eq!(look.untouched().remaining(), 7);
    /// assert_eq!(kept.map(|kept| kept.cost()), Some(3));
    /// ```
    #[must_use]
    pub const fn split(self, last: u64) -> (Option<Self>, Option<Self>) {
        let middle = self.to - if last < self.cost() { last as u32 } else { self.to - self.from };
        let (mut first, mut second) = (self, self);
        (first.to, second.from) = (middle, middle);
        (
            if first.from < first.to { Some(first) } else { None },
            if second.from < second.to { Some(second) } else { None },
        )
    }

    /// Whether the units were taken on a state that is shared for want of a place ([`Source::Overflow`]), and
    /// so are not to be given back to a key's own.
    ///
    /// [`Source::Overflow`]: crate::Source::Overflow
    #[must_use]
    pub const fn is_of_overflow(&self) -> bool {
        self.overflow
    }

    /// The instant of the decision that admitted.
    #[must_use]
    pub const fn at(&self) -> Micros {
        Micros::new(self.at)
    }

    /// The units that were taken, or as many of them as the token stands for.
    #[must_use]
    pub const fn cost(&self) -> u64 {
        (self.to - self.from) as u64
    }
}

/// How far ahead of the clock a window may lie and still be gone on with: small steps back stay in the
/// newer window, so that they do not open the older one a second time.
pub(crate) const fn guard_us(window_us: u64) -> u64 {
    if window_us < 1_000_000 { window_us } else { 1_000_000 }
}

/// A state as it reads now, and whether reading it had to heal it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) state: State,
    pub(crate) healed: bool,
}

impl View {
    #[inline]
    pub(crate) const fn as_is(state: State) -> Self {
        Self { state, healed: false }
    }

    pub(crate) const fn healed(state: State) -> Self {
        Self { state, healed: true }
    }
}

/// The reading of a two-word state for its limit. Buckets are decided in line, the others by a call: together
/// they would be too much for the callers' registers.
#[inline(always)]
pub(crate) fn view(limit: &Limit, state: State, at: &Moment) -> View {
    match limit.rule() {
        Rule::Meter | Rule::Queue => meter::view(limit, state, at),
        Rule::Fixed => fixed_window::view(limit, state, at),
        Rule::Counter => sliding_window_counter::view(limit, state, at),
        Rule::Log => View::as_is(state),
    }
}

/// What a look at a key without state sees.
pub(crate) fn fresh_view(limit: &Limit, at: &Moment) -> State {
    match limit.rule() {
        Rule::Log => sliding_window_log::Log::new().summary(limit, at.us()),
        _ => view(limit, State::FRESH, at).state,
    }
}

/// The state after an admission of `cost` ≥ 1 within the capacity, or `None` if the rule refuses it.
#[inline(always)]
pub(crate) fn admit(limit: &Limit, view: State, now: u64, cost: u64) -> Option<State> {
    match limit.rule() {
        Rule::Meter => meter::admit(limit, view, now, cost),
        Rule::Queue => queue::admit(limit, view, now, cost),
        Rule::Fixed => fixed_window::admit(limit, view, cost),
        Rule::Counter => sliding_window_counter::admit(limit, view, now, cost),
        // A log is admitted where its entries are at hand: see `evaluate`.
        Rule::Log => None,
    }
}

/// The instant that an admission at `now` counts for: a window that another thread has opened a moment later
/// takes it as of its start.
pub(crate) const fn counted_at(limit: &Limit, state: State, now: u64) -> u64 {
    let start = match limit.rule() {
        Rule::Fixed => fixed_window::start(state),
        Rule::Counter => sliding_window_counter::start(state),
        Rule::Meter | Rule::Queue | Rule::Log => 0,
    };
    if start > now { start } else { now }
}

/// The most requests of cost 1 that would be admitted at `now`, one after another.
pub(crate) fn remaining(limit: &Limit, view: State, now: u64) -> u64 {
    match limit.rule() {
        Rule::Meter => meter::remaining(limit, view, now),
        Rule::Queue => queue::remaining(limit, view, now),
        Rule::Fixed => fixed_window::remaining(limit, view),
        Rule::Counter => sliding_window_counter::remaining(limit, view, now),
        Rule::Log => sliding_window_log::remaining(limit, view),
    }
}

/// The least wait after which a refused `cost` within the capacity is admitted. A log's wait is found when
/// it is decided, since it needs the entries.
pub(crate) fn retry_after(limit: &Limit, view: State, now: u64, cost: u64) -> u64 {
    match limit.rule() {
        Rule::Meter => meter::retry_after(limit, view, now, cost),
        Rule::Queue => queue::retry_after(limit, view, now, cost),
        Rule::Fixed => fixed_window::retry_after(view, now),
        Rule::Counter => sliding_window_counter::retry_after(limit, view, now, cost),
        Rule::Log => 0,
    }
}

/// The least wait after which more than `remaining` requests of cost 1 could have been admitted, however they
/// are spread over it.
pub(crate) fn more_after(limit: &Limit, view: State, now: u64) -> u64 {
    match limit.rule() {
        Rule::Meter => meter::more_after(limit, view, now),
        Rule::Queue => queue::more_after(limit, view, now),
        Rule::Fixed => fixed_window::retry_after(view, now),
        Rule::Counter => sliding_window_counter::more_after(limit, view, now),
        Rule::Log => sliding_window_log::more_after(view),
    }
}

/// The time after which the key cannot be told from a fresh one.
pub(crate) fn reset_after(limit: &Limit, view: State, now: u64) -> u64 {
    match limit.rule() {
        Rule::Meter | Rule::Queue => meter::reset_after(view, now),
        Rule::Fixed => fixed_window::reset_after(view, now),
        Rule::Counter => sliding_window_counter::reset_after(limit, view, now),
        Rule::Log => sliding_window_log::reset_after(limit, view, now),
    }
}

impl Limit {
    /// Whether a state counts the same under both limits, whatever their capacities: the same rule, rate and
    /// windows. Then a token of one can be given back under the other.
    #[must_use]
    pub fn counts_like(&self, other: &Self) -> bool {
        let unit = |limit: &Self| (limit.unit_us, limit.unit_part, limit.parts);
        self.rule() == other.rule()
            && match self.rule() {
                Rule::Meter | Rule::Queue => unit(self) == unit(other),
                Rule::Fixed => (self.window(), self.alignment()) == (other.window(), other.alignment()),
                Rule::Counter | Rule::Log => self.window() == other.window(),
            }
    }

    /// The instant from which `state` answers like a fresh one, if nothing else happens: when its place
    /// may be given to another key, and when a shared store may let it expire.
    #[must_use]
    pub fn idle_at(&self, state: State) -> Micros {
        Micros::new(match self.rule() {
            Rule::Meter | Rule::Queue => meter::idle_at(state),
            Rule::Fixed => fixed_window::idle_at(state),
            Rule::Counter => sliding_window_counter::idle_at(self, state),
            // A log says it itself: `Log::idle_at`.
            Rule::Log => 0,
        })
    }

    /// The state after the admission of `token` is given back by the safe rule: the key never holds more
    /// than if the request had not been made, and never admits more than its theorem for the net trace.
    /// Gives back nothing where that would not be safe. Never heals. Each token at most once.
    ///
    /// Logs are given back by [`Log::refund`](crate::Log::refund).
    #[must_use]
    pub fn refund(&self, state: State, now: Micros, token: &Token) -> State {
        if u64::from(token.taken) > self.capacity() {
            // It was never admitted under this limit.
            return state;
        }
        match self.rule() {
            Rule::Meter => meter::refund(self, state, now.get(), token),
            Rule::Queue => queue::refund(self, state, now.get(), token),
            Rule::Fixed => fixed_window::refund(state, token),
            Rule::Counter => sliding_window_counter::refund(self, state, token),
            Rule::Log => state,
        }
    }

    /// The state after a plain credit of `units`, at most up to full: what an operator grants, without
    /// knowing which request took them. A queue takes no credit, since its slots are promised. Never heals.
    #[must_use]
    pub fn credit(&self, state: State, now: Micros, units: u64) -> State {
        match self.rule() {
            Rule::Meter => meter::credit(self, state, now.get(), units),
            Rule::Fixed => fixed_window::credit(state, now.get(), units),
            Rule::Counter => sliding_window_counter::credit(self, state, now.get(), units),
            Rule::Queue | Rule::Log => state,
        }
    }
}
