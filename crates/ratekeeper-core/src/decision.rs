//! One limit's answer ([`Verdict`]), the question behind it ([`evaluate`]), and the fold of several into one
//! answer for a request ([`decide_all`], [`Decision`]).

use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::algorithm::sliding_window_log::{Log, remote_admits, remote_wait};
use crate::algorithm::{self, Moment, Rule, State, Token, queue};
use crate::elsewhere::LogReading;
use crate::limit::Limit;
use crate::words::{Reason, Source};

/// Whether the units are taken or only looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// Take the units if the request is allowed.
    Acquire,
    /// Say what [`Ask::Acquire`] would answer, with the numbers of now; write nothing.
    Peek,
}

/// What a refusal for want of a place says: ask again then. Which entry will become idle first is not known.
pub const NO_ROOM_RETRY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Allowed,
    Limited,
    TooLarge,
    NoRoom,
    /// Nobody has been asked: there is no state, and there are no numbers.
    Open,
    Closed,
}

/// One limit's answer: small, `Copy`, and nothing divided until a number is asked for.
///
/// The numbers are of one instant and one state: allowed never comes with a wait, and `remaining` is what is
/// left after this decision.
#[derive(Clone, Copy)]
#[must_use]
pub struct Verdict {
    pub(crate) limit: Limit,
    /// The state that is left: after the admission, or as it is (healed) if nothing was taken.
    pub(crate) state: State,
    pub(crate) now: u64,
    cost: u64,
    /// A log's wait, found while its entries were at hand.
    log_wait: u64,
    outcome: Outcome,
    taken: bool,
    with_twin: bool,
    source: Source,
}

impl Verdict {
    fn no_room(limit: &Limit, at: &Moment, cost: u64) -> Self {
        Self {
            limit: *limit,
            state: algorithm::fresh_view(limit, at),
            now: at.now.get(),
            cost,
            log_wait: 0,
            outcome: if cost > limit.capacity() { Outcome::TooLarge } else { Outcome::NoRoom },
            taken: false,
            with_twin: false,
            source: Source::Overflow,
        }
    }

    /// The answer of a limit whose store could not be asked, and that lets the request pass then. It has no
    /// numbers ([`Verdict::has_numbers`]): `remaining` is `u64::MAX` and every wait zero.
    pub fn failed_open(limit: &Limit, cost: u64) -> Self {
        Self::without_state(limit, cost, Outcome::Open, 0, Source::FailedOpen)
    }

    /// The answer of a limit whose store could not be asked, and that refuses the request then: it is worth
    /// asking again after `retry_after`.
    pub fn failed_closed(limit: &Limit, cost: u64, retry_after: Duration) -> Self {
        let wait = crate::time::whole_micros(retry_after);
        Self::without_state(limit, cost, Outcome::Closed, wait, Source::FailedClosed)
    }

    const fn without_state(limit: &Limit, cost: u64, outcome: Outcome, wait: u64, source: Source) -> Self {
        Self {
            limit: *limit,
            state: State::FRESH,
            now: 0,
            cost,
            log_wait: wait,
            outcome,
            taken: false,
            with_twin: false,
            source,
        }
    }

    /// Whether the limit was asked, so that its numbers mean something.
    #[must_use]
    pub const fn has_numbers(&self) -> bool {
        !matches!(self.outcome, Outcome::Open | Outcome::Closed)
    }

    /// The same answer, reached in another way.
    pub const fn with_source(mut self, source: Source) -> Self {
        self.source = source;
        self
    }

    /// Whether this limit lets the request pass. When several limits decide together, the request passes if
    /// all of them do.
    #[must_use]
    #[inline]
    pub const fn allowed(&self) -> bool {
        matches!(self.outcome, Outcome::Allowed | Outcome::Open)
    }

    /// Why not, when refused.
    #[must_use]
    pub const fn reason(&self) -> Option<Reason> {
        match self.outcome {
            Outcome::Allowed | Outcome::Open => None,
            Outcome::Limited => Some(Reason::Limited),
            Outcome::TooLarge => Some(Reason::CostExceedsCapacity),
            Outcome::NoRoom | Outcome::Closed => Some(Reason::StoreUnavailable),
        }
    }

    /// Whether the store had no place for the key.
    pub(crate) const fn has_no_room(&self) -> bool {
        matches!(self.outcome, Outcome::NoRoom)
    }

    /// How many requests of cost 1 would be admitted right now, one after another, after this decision.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        match self.outcome {
            Outcome::NoRoom | Outcome::Closed => return 0,
            Outcome::Open => return u64::MAX,
            _ => {}
        }
        algorithm::remaining(&self.limit, self.state, self.now)
    }

    /// The least time after which the same request, alone, is admitted: zero when allowed, `None` when never.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self.outcome {
            Outcome::Allowed | Outcome::Open => Some(Duration::ZERO),
            Outcome::TooLarge => None,
            Outcome::Closed => Some(Duration::from_micros(self.log_wait)),
            Outcome::NoRoom => Some(NO_ROOM_RETRY),
            Outcome::Limited if self.limit.rule() == Rule::Log => Some(Duration::from_micros(self.log_wait)),
            Outcome::Limited => Some(Duration::from_micros(algorithm::retry_after(
                &self.limit,
                self.state,
                self.now,
                self.cost,
            ))),
        }
    }

    /// The least time after which more than [`remaining`](Self::remaining) requests of cost 1 could have been
    /// admitted since this decision: a microsecond earlier none of their patterns gets more, and at it some
    /// pattern does. Never zero.
    ///
    /// On a refusal it is at most `retry_after`, but for a queue with `max_wait` that refuses a cost above 1:
    /// in one large request more units can find a place than in many small ones, each of which waits for its
    /// own start.
    #[must_use]
    pub fn more_after(&self) -> Duration {
        match self.outcome {
            Outcome::NoRoom => return NO_ROOM_RETRY,
            Outcome::Open | Outcome::Closed => return Duration::from_micros(self.log_wait),
            _ => {}
        }
        Duration::from_micros(algorithm::more_after(&self.limit, self.state, self.now))
    }

    /// The time after which the key cannot be told from a fresh one, if nothing else happens.
    #[must_use]
    pub fn reset_after(&self) -> Duration {
        match self.outcome {
            Outcome::NoRoom => return NO_ROOM_RETRY,
            Outcome::Open | Outcome::Closed => return Duration::from_micros(self.log_wait),
            _ => {}
        }
        Duration::from_micros(algorithm::reset_after(&self.limit, self.state, self.now))
    }

    /// Leaky bucket with a queue: how long the admitted request must wait before it starts. Zero otherwise.
    #[must_use]
    pub fn delay(&self) -> Duration {
        if self.limit.rule() != Rule::Queue || !self.allowed() || self.cost == 0 {
            return Duration::ZERO;
        }
        Duration::from_micros(if self.taken {
            queue::delay(&self.limit, self.state, self.now, self.cost)
        } else {
            queue::delay_ahead(&self.limit, self.state, self.now)
        })
    }

    /// The same answer for a part of the request that was decided together with another on one state: it took
    /// its units with that one, so only that one's token gives them back.
    pub const fn of_twin(mut self) -> Self {
        self.with_twin = self.taken;
        self
    }

    /// The limit that answered.
    #[must_use]
    pub const fn limit(&self) -> &Limit {
        &self.limit
    }

    /// The units that were asked for.
    #[must_use]
    pub const fn cost(&self) -> u64 {
        self.cost
    }

    /// How the answer was reached.
    #[must_use]
    pub const fn source(&self) -> Source {
        self.source
    }

    /// What gives this admission back ([`Limit::refund`]); `None` if nothing was taken. Use it at most once.
    #[must_use]
    pub const fn token(&self) -> Option<Token> {
        if !self.taken || self.with_twin {
            return None;
        }
        let at = algorithm::counted_at(&self.limit, self.state, self.now);
        let overflow = matches!(self.source, Source::Overflow);
        Some(Token::new(overflow, at, self.cost, self.state))
    }
}

impl fmt::Debug for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verdict")
            .field("allowed", &self.allowed())
            .field("reason", &self.reason())
            .field("remaining", &self.remaining())
            .field("retry_after", &self.retry_after())
            .field("more_after", &self.more_after())
            .field("reset_after", &self.reset_after())
            .field("delay", &self.delay())
            .field("cost", &self.cost)
            .field("limit", &self.limit)
            .field("source", &self.source)
            .finish()
    }
}

/// The state a question is asked of.
#[derive(Clone, Copy, Debug)]
pub enum StateRef<'a> {
    /// The two words of every algorithm but the log.
    Words(State),
    /// The entries of a sliding-window log.
    Log(&'a Log),
}

/// What a limit says of a request, and what is to be written if it is taken. Nothing has been written.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Evaluation {
    verdict: Verdict,
    next: State,
    healed: bool,
}

/// What is to be written for a request once all its limits have been evaluated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Every limit takes its cost: write [`Evaluation::next`], or [`Log::admit`].
    Take,
    /// Some limit refuses: write nothing but what had to be healed ([`Evaluation::healed`], [`Log::heal`]).
    Heal,
    /// A peek, a cost of 0, or a cost that can never pass: write nothing at all.
    Nothing,
}

impl Evaluation {
    /// A refusal for want of a place in the store.
    pub fn no_room(limit: &Limit, at: &Moment, cost: u64) -> Self {
        Self { verdict: Verdict::no_room(limit, at, cost), next: State::FRESH, healed: false }
    }

    /// The evaluation of a log that is kept elsewhere, by what was read of it.
    pub(crate) fn of_log(limit: &Limit, view: State, reading: &LogReading, at: &Moment, cost: u64) -> Self {
        let now = at.us();
        let admitted = remote_admits(limit, view, reading.used, now, cost).filter(|_| cost > 0);
        let outcome = match admitted {
            _ if cost > limit.capacity() => Outcome::TooLarge,
            None if cost > 0 => Outcome::Limited,
            _ => Outcome::Allowed,
        };
        let log_wait =
            if outcome == Outcome::Limited { remote_wait(reading.frees_cost, limit, now) } else { 0 };
        let verdict = Verdict {
            limit: *limit,
            state: view,
            now,
            cost,
            log_wait,
            outcome,
            taken: false,
            with_twin: false,
            source: Source::Exact,
        };
        Self { verdict, next: admitted.unwrap_or(view), healed: false }
    }

    /// The units that are asked for.
    #[inline]
    #[must_use]
    pub const fn cost(&self) -> u64 {
        self.verdict.cost
    }

    /// Whether this limit lets the request pass.
    #[inline]
    pub const fn allowed(&self) -> bool {
        self.verdict.allowed()
    }

    /// The state after the admission. Meaningful for an allowed request; logs record the admission themselves.
    #[inline]
    #[must_use]
    pub const fn next(&self) -> State {
        self.next
    }

    /// The healed state, if reading the stored one had to heal it.
    #[inline]
    #[must_use]
    pub const fn healed(&self) -> Option<State> {
        if self.healed { Some(self.verdict.state) } else { None }
    }

    /// The answer when nothing is taken.
    #[inline]
    pub const fn untouched(&self) -> Verdict {
        self.verdict
    }

    /// The answer when the units are taken.
    #[inline]
    pub const fn taken(&self) -> Verdict {
        let mut verdict = self.verdict;
        verdict.state = self.next;
        verdict.taken = true;
        verdict
    }

    /// The same evaluation, reached in another way.
    pub const fn with_source(mut self, source: Source) -> Self {
        self.verdict.source = source;
        self
    }
}

/// Decides one limit that is alone on its request: the answer, and the state to be written, if any.
///
/// The same as [`evaluate`] and [`decide_all`] for one limit with two words of state, without what several need:
/// the hot path of every store.
#[inline(always)]
pub fn decide_one(limit: &Limit, state: State, at: &Moment, cost: u64, ask: Ask) -> (Option<State>, Verdict) {
    let now = at.us();
    let view = algorithm::view(limit, state, at);
    let next = if cost > limit.capacity() { None } else { algorithm::admit(limit, view.state, now, cost) };
    let outcome = match next {
        _ if cost == 0 => Outcome::Allowed,
        Some(_) => Outcome::Allowed,
        None if cost > limit.capacity() => Outcome::TooLarge,
        None => Outcome::Limited,
    };
    let asks_for_units = cost > 0 && ask == Ask::Acquire;
    let taken = next.is_some() && asks_for_units;
    let left = match next {
        Some(next) if taken => next,
        _ => view.state,
    };
    let heals = view.healed && asks_for_units && outcome != Outcome::TooLarge;
    let verdict = Verdict {
        limit: *limit,
        state: left,
        now,
        cost,
        log_wait: 0,
        outcome,
        taken,
        with_twin: false,
        source: Source::Exact,
    };
    ((taken || heals).then_some(left), verdict)
}

/// Asks one limit. Pure: the state is not written, and nothing but the arguments is read.
#[inline]
pub fn evaluate(limit: &Limit, state: StateRef<'_>, at: &Moment, cost: u64, ask: Ask) -> Evaluation {
    let now = at.us();
    let (view, healed) = match state {
        StateRef::Words(state) => {
            let view = algorithm::view(limit, state, at);
            (view.state, view.healed)
        }
        StateRef::Log(log) => (log.summary(limit, now), at.heals && log.is_ahead(now)),
    };
    let mut evaluation = Evaluation {
        verdict: Verdict {
            limit: *limit,
            state: view,
            now,
            cost,
            log_wait: 0,
            outcome: Outcome::Allowed,
            taken: false,
            with_twin: false,
            source: Source::Exact,
        },
        next: view,
        // A part that asks for nothing, like a look, writes nothing.
        healed: healed && ask == Ask::Acquire && cost > 0,
    };
    if cost > limit.capacity() {
        evaluation.verdict.outcome = Outcome::TooLarge;
    } else if cost > 0 {
        let next = match state {
            StateRef::Words(_) => algorithm::admit(limit, view, now, cost),
            StateRef::Log(log) => log.admits(limit, view, at, cost),
        };
        match next {
            Some(next) => evaluation.next = next,
            None => {
                evaluation.verdict.outcome = Outcome::Limited;
                if let StateRef::Log(log) = state {
                    evaluation.verdict.log_wait = log.retry_after(limit, now, cost);
                }
            }
        }
    }
    evaluation
}

/// Decides a request from the evaluations of all its limits, made at one moment: all or nothing.
///
/// A limit asked twice for one key must come here once, with the sum of its costs; otherwise each would pass
/// alone.
#[inline]
pub fn decide_all<'a>(evaluations: impl IntoIterator<Item = &'a Evaluation>, ask: Ask) -> Step {
    let mut step = if ask == Ask::Peek { Step::Nothing } else { Step::Take };
    let mut asks_for_units = false;
    for evaluation in evaluations {
        asks_for_units |= evaluation.verdict.cost > 0;
        match evaluation.verdict.outcome {
            Outcome::Allowed => {}
            Outcome::TooLarge => step = Step::Nothing,
            Outcome::Open => {}
            Outcome::Limited | Outcome::NoRoom | Outcome::Closed if step == Step::Take => step = Step::Heal,
            Outcome::Limited | Outcome::NoRoom | Outcome::Closed => {}
        }
    }
    if asks_for_units { step } else { Step::Nothing }
}

/// The answer to a request that one or several limits have decided together.
///
/// `remaining` is the least and `reset_after` the greatest of the limits; `retry_after` is the longest of
/// the refusing ones, which is exact: at that time all of them admit, and a microsecond earlier one does not.
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub struct Decision {
    /// Whether the request may proceed.
    pub allowed: bool,
    /// Why not, when refused.
    pub reason: Option<Reason>,
    /// Index of the binding limit in [`Decision::limits`]: refused, the one with the longest wait (or the
    /// first that can never hold the cost); allowed, the one with the least remaining. Ties: the first.
    pub binding: usize,
    /// How many requests of cost 1 would be admitted right now, after this decision.
    pub remaining: u64,
    /// Zero when allowed, the longest of the refusing limits, or `None`: never.
    pub retry_after: Option<Duration>,
    /// The time until no limit can be told from a fresh one.
    pub reset_after: Duration,
    /// How long an admitted request must wait before it starts (a queue among the limits).
    pub delay: Duration,
    /// How the answer was reached: the first limit's that was not exact.
    pub source: Source,
    limits: Vec<Verdict>,
}

impl Decision {
    /// The answer that follows from the verdicts, in the order of the limits. Without any it is allowed.
    pub fn of(limits: Vec<Verdict>) -> Self {
        let mut decision = Self {
            allowed: limits.iter().all(Verdict::allowed),
            reason: None,
            binding: 0,
            remaining: u64::MAX,
            retry_after: Some(Duration::ZERO),
            reset_after: Duration::ZERO,
            delay: Duration::ZERO,
            source: Source::Exact,
            limits,
        };
        for (index, verdict) in decision.limits.iter().enumerate() {
            let remaining = verdict.remaining();
            if remaining < decision.remaining {
                decision.remaining = remaining;
                if decision.allowed {
                    decision.binding = index;
                }
            }
            decision.reset_after = decision.reset_after.max(verdict.reset_after());
            if decision.source == Source::Exact {
                decision.source = verdict.source();
            }
            let wait = verdict.retry_after();
            // None, never, is longer than any wait.
            let longer = match (decision.retry_after, wait) {
                (None, _) => false,
                (Some(_), None) => true,
                (Some(longest), Some(wait)) => wait > longest,
            };
            if !verdict.allowed() && (longer || decision.reason.is_none()) {
                (decision.retry_after, decision.reason, decision.binding) = (wait, verdict.reason(), index);
            }
            if decision.allowed {
                decision.delay = decision.delay.max(verdict.delay());
            }
        }
        decision
    }

    /// Every limit's own answer, in order.
    pub fn limits(&self) -> &[Verdict] {
        &self.limits
    }
}
