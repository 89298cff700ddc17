//! What a store needs that decides in another place, by its own copy of the rules: the numbers of a question, states as
//! plain numbers, and an answer made of what was read there.
//!
//! The decision is the other place's; every number of the answer is worked out here, by the functions that serve
//! memory, so the two cannot say different things of one state.

use crate::algorithm::sliding_window_log::remote_view;
use crate::algorithm::{Moment, Rule, State, Token, fixed_window, queue, sliding_window_counter};
use crate::decision::{Ask, Evaluation, StateRef, evaluate};
use crate::limit::Limit;
use crate::time::Micros;

/// Which arithmetic decides a limit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Arithmetic {
    /// `token-bucket`, `gcra`, and `leaky-bucket` without a queue.
    Meter,
    /// `leaky-bucket` with a queue.
    Queue,
    /// `fixed-window`.
    Fixed,
    /// `sliding-window-counter`.
    Counter,
    /// `sliding-window-log`.
    Log,
}

/// A time as whole microseconds and the numerator of the rest, over the denominator of [`Limit::unit`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Span {
    /// Whole microseconds.
    pub us: u64,
    /// What is beyond them.
    pub part: u64,
}

/// What gives an admission back, in the numbers of its arithmetic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BackTerms {
    /// The units were admitted at `at`; `until` is the time of all of them up to the last that is given back, `span`
    /// the time of those that are, and `taken` how many were admitted.
    Meter {
        /// When they were admitted.
        at: u64,
        /// The time of all units up to the last that is given back.
        until: Span,
        /// The time of those that are given back.
        span: Span,
        /// How many were admitted.
        taken: u64,
    },
    /// The slot that is given back.
    Queue {
        /// When it was reserved.
        at: u64,
        /// Its end.
        end: Span,
        /// Its beginning.
        start: Span,
        /// How many units were admitted.
        taken: u64,
    },
    /// The window that the units were counted in.
    Fixed {
        /// Its first instant.
        start: u64,
        /// Its length.
        length: u64,
        /// The units.
        units: u64,
    },
    /// The window that the units were counted in.
    Counter {
        /// Its first instant.
        start: u64,
        /// The units.
        units: u64,
    },
    /// The entry that was made, and what of it is given back: all, if `units` is `entry`.
    Log {
        /// When it was made.
        at: u64,
        /// The units that it has.
        entry: u64,
        /// Those that are given back.
        units: u64,
    },
}

/// What was read of a log.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LogReading {
    /// Units of the entries that count.
    pub used: u64,
    /// The instant of the oldest of them; not looked at if there is none.
    pub oldest: u64,
    /// The instant of the newest of them; 0 if there is none.
    pub newest: u64,
    /// The instant of the entry with whose end one unit fits, if `used` is more than the limit.
    pub frees_one: u64,
    /// The instant of the entry with whose end the cost fits, if it is refused.
    pub frees_cost: u64,
}

impl Limit {
    /// Which arithmetic decides it.
    #[must_use]
    pub const fn arithmetic(&self) -> Arithmetic {
        match self.rule() {
            Rule::Meter => Arithmetic::Meter,
            Rule::Queue => Arithmetic::Queue,
            Rule::Fixed => Arithmetic::Fixed,
            Rule::Counter => Arithmetic::Counter,
            Rule::Log => Arithmetic::Log,
        }
    }

    /// What a unit takes in microseconds, as a reduced fraction: the window over N. Below 2^45 over at most 10^9.
    #[must_use]
    pub const fn unit(&self) -> (u64, u64) {
        let parts = self.parts as u64;
        (self.unit_us * parts + self.unit_part as u64, parts)
    }

    /// What `units` take; as many as fit at once, at most.
    #[must_use]
    pub fn span_of(&self, units: u64) -> Span {
        let span = self.units(units.min(self.capacity()));
        Span { us: span.us, part: span.part }
    }

    /// The longest that a queue lets anybody wait, if it has been told.
    #[must_use]
    pub const fn max_wait_us(&self) -> Option<u64> {
        if self.max_wait_us == u64::MAX { None } else { Some(self.max_wait_us) }
    }

    /// The state that these numbers describe: of buckets and queues the arrival time and its part; of fixed windows
    /// start, length and count; of counters start, previous and current count. `None` if no state has such numbers.
    #[must_use]
    pub fn state_of(&self, [a, b, c]: [u64; 3]) -> Option<State> {
        const INSTANT: u64 = Micros::MAX.get();
        const COUNT: u64 = (1 << 30) - 1;
        match self.rule() {
            // After an admission at the end of time an arrival time lies at most a span beyond it.
            Rule::Meter | Rule::Queue => {
                (a <= 2 * INSTANT && b < self.q()).then(|| State::from_words([a, b]))
            }
            Rule::Fixed if a <= INSTANT && b < 1 << 45 && c <= COUNT => Some(fixed_window::state_of(a, b, c)),
            Rule::Counter if a <= INSTANT && b <= COUNT && c <= COUNT => {
                Some(sliding_window_counter::state_of(a, b, c))
            }
            Rule::Fixed | Rule::Counter | Rule::Log => None,
        }
    }

    /// What gives the admission of `token` back.
    #[must_use]
    pub fn back_terms(&self, token: &Token) -> BackTerms {
        let span = |units: u64| self.span_of(units);
        let [first, second] = token.state.words();
        match self.rule() {
            Rule::Meter => BackTerms::Meter {
                at: token.at,
                until: span(token.to.into()),
                span: span(token.cost()),
                taken: token.taken.into(),
            },
            Rule::Queue => {
                let (start, end) = queue::slot(self, token);
                BackTerms::Queue { at: token.at, end, start, taken: token.taken.into() }
            }
            Rule::Fixed => {
                let [start, length] = fixed_window::window_of(token.state);
                BackTerms::Fixed { start, length, units: token.cost() }
            }
            Rule::Counter => BackTerms::Counter { start: first, units: token.cost() },
            Rule::Log => BackTerms::Log { at: second, entry: token.to.into(), units: token.cost() },
        }
    }
}

/// Asks one limit of a log that is elsewhere. `at` is the moment of the reading.
pub fn evaluate_log(limit: &Limit, reading: &LogReading, at: &Moment, cost: u64) -> Evaluation {
    let view = remote_view(limit, reading, at.us());
    Evaluation::of_log(limit, view, reading, at, cost)
}

/// Asks one limit for as many units as fit, at most `cost`, and at least one.
pub fn evaluate_up_to(limit: &Limit, state: StateRef<'_>, at: &Moment, cost: u64, ask: Ask) -> Evaluation {
    let evaluation = evaluate(limit, state, at, cost, ask);
    if evaluation.allowed() {
        return evaluation;
    }
    // With nothing left this is the refusal of one unit, whose wait is what the caller wants to know.
    evaluate(limit, state, at, evaluation.untouched().remaining().clamp(1, cost.max(1)), ask)
}
