//! One limit and one key: the decision rule, and answers found by asking it.

use super::counter::Counter;
use super::fixed::Fixed;
use super::log::Log;
use super::meter::Meter;
use super::queue::Queue;
use super::{Answer, Engine, Place, Reason, Rule, Subject, Tick, Token, Units};

/// Up to this capacity `remaining` is counted out one by one, and a fresh key is compared cost by cost.
const SMALL_CAPACITY: u64 = 32;
/// The wait for the end of the last period of a written-out calendar, which has none. A trace never gets there;
/// who looks ahead may.
const ENDLESS_US: u64 = 1 << 61;

/// What a limiter of one key must answer.
///
/// `heals` says whose clock it is: one that may step back (Redis, `simulate`, a manual clock) heals at once;
/// the process's clock never does, a state from its future is a newer reading and is taken as it is.
#[derive(Debug, Clone)]
pub struct Reference {
    rule: Rule,
    heals: bool,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Meter(Meter),
    Queue(Queue),
    Fixed(Fixed),
    Log(Log),
    Counter(Counter),
}

impl State {
    fn fresh(rule: &Rule) -> Self {
        match *rule {
            Rule::Meter { amount, window_us, burst } => Self::Meter(Meter::new(amount, window_us, burst)),
            Rule::Queue { amount, window_us, queue, max_wait_us } => {
                Self::Queue(Queue::new(amount, window_us, queue, max_wait_us))
            }
            Rule::Fixed { amount, window_us, ref align } => {
                Self::Fixed(Fixed::new(amount, window_us, align.clone()))
            }
            Rule::Log { amount, window_us } => Self::Log(Log::new(amount, window_us)),
            Rule::Counter { amount, window_us } => Self::Counter(Counter::new(amount, window_us)),
        }
    }

    fn engine(&self) -> &dyn Engine {
        match self {
            Self::Meter(engine) => engine,
            Self::Queue(engine) => engine,
            Self::Fixed(engine) => engine,
            Self::Log(engine) => engine,
            Self::Counter(engine) => engine,
        }
    }

    fn engine_mut(&mut self) -> &mut dyn Engine {
        match self {
            Self::Meter(engine) => engine,
            Self::Queue(engine) => engine,
            Self::Fixed(engine) => engine,
            Self::Log(engine) => engine,
            Self::Counter(engine) => engine,
        }
    }
}

impl Reference {
    /// A fresh key.
    #[must_use]
    pub fn new(rule: Rule, heals: bool) -> Self {
        let state = State::fresh(&rule);
        Self { rule, heals, state }
    }

    /// The limit.
    #[must_use]
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Takes `cost` units at `now_us`, or nothing. Cost 0 is a look.
    pub fn acquire(&mut self, now_us: u64, cost: u64) -> (Answer, Option<Token>) {
        if cost == 0 || cost > self.rule.capacity() {
            return (self.peek(now_us, cost), None);
        }
        self.heal(now_us);
        let answer = self.peek(now_us, cost);
        if !answer.allowed {
            return (answer, None);
        }
        let token = self.commit(now_us, cost);
        let Answer { remaining, more_after_us, reset_after_us, .. } = self.peek(now_us, 0);
        (Answer { remaining, more_after_us, reset_after_us, ..answer }, Some(token))
    }

    /// What [`acquire`](Self::acquire) would answer, with the numbers of now; writes nothing.
    #[must_use]
    pub fn peek(&self, now_us: u64, cost: u64) -> Answer {
        let now = Tick::from(now_us);
        // A check would heal first, so the numbers are those of the healed state.
        let mut healed = self.clone();
        if self.heals {
            healed.heal(now_us);
        } else {
            healed.state.engine_mut().read_at(now);
        }
        let remaining = healed.remaining(now);
        let numbers = Answer {
            allowed: true,
            reason: None,
            remaining,
            retry_after_us: Some(0),
            more_after_us: healed.more_after(now, remaining),
            reset_after_us: healed.reset_after(now),
            delay_us: 0,
        };
        if cost == 0 {
            return numbers;
        }
        let refused = |reason, retry_after_us| Answer {
            allowed: false,
            reason: Some(reason),
            retry_after_us,
            ..numbers
        };
        if cost > self.rule.capacity() {
            return refused(Reason::CostExceedsCapacity, None);
        }
        match healed.admits(now, cost) {
            Some(delay) => Answer { delay_us: whole(delay), ..numbers },
            None => refused(Reason::Limited, Some(healed.retry_after(now, cost))),
        }
    }

    /// Forgets the key.
    pub fn reset(&mut self) {
        self.state = State::fresh(&self.rule);
    }

    /// Gives one admission back as far as that is safe. Never heals.
    pub fn refund(&mut self, now_us: u64, token: &Token) {
        self.refund_last(now_us, token, token.cost);
    }

    /// Gives back the last `units` of one admission, as if they had been an admission of their own at the same
    /// instant; the token of the rest.
    pub fn refund_last(&mut self, now_us: u64, token: &Token, units: u64) -> Option<Token> {
        let units = units.min(token.cost);
        if units > 0 {
            self.state.engine_mut().give_back(now_us.into(), token, units.into());
        }
        let place = self.state.engine().shortened(token.place, units.into());
        let rest = Token { cost: token.cost - units, place, ..token.clone() };
        (rest.cost > 0).then_some(rest)
    }

    /// Gives `units` back without a token, at most up to full. Never heals.
    pub fn credit(&mut self, now_us: u64, units: u64) {
        self.state.engine_mut().credit(now_us.into(), units.into());
    }

    /// The healing write, where the clock calls for one.
    pub(super) fn heal(&mut self, now_us: u64) {
        if self.heals {
            self.state.engine_mut().heal(now_us.into());
        }
    }

    /// Enters an admission that was decided.
    pub(super) fn commit(&mut self, now_us: u64, cost: u64) -> Token {
        let place: Place = self.state.engine_mut().commit(now_us.into(), cost.into());
        Token { t_us: now_us, cost, place }
    }

    /// The wait of a check that is admitted at `now`. The state is healed: a later `now` cannot undo that.
    fn admits(&self, now: Tick, cost: u64) -> Option<Tick> {
        self.state.engine().admits(now, cost.into())
    }

    /// How many checks of cost 1 pass, one after another.
    fn remaining(&self, now: Tick) -> u64 {
        let capacity = self.rule.capacity();
        if capacity <= SMALL_CAPACITY { self.remaining_counted(now) } else { self.remaining_bisected(now) }
    }

    pub(super) fn remaining_bisected(&self, now: Tick) -> u64 {
        let capacity = self.rule.capacity();
        // k - 1 checks of cost 1 leave what one of cost k - 1 leaves; the k-th is tried.
        let fits = |units: u64| {
            let mut taken = self.state.clone();
            if units > 1 {
                taken.engine_mut().commit(now, Units::from(units) - 1);
            }
            taken.engine().admits(now, 1).is_some()
        };
        least(|d| d >= capacity || !fits(d + 1))
    }

    pub(super) fn remaining_counted(&self, now: Tick) -> u64 {
        let mut taken = self.state.clone();
        let mut count = 0;
        while taken.engine().admits(now, 1).is_some() {
            taken.engine_mut().commit(now, 1);
            count += 1;
        }
        count
    }

    fn retry_after(&self, now: Tick, cost: u64) -> u64 {
        least(|d| self.admits(now + Tick::from(d), cost).is_some())
    }

    /// Who takes all that remains at once hinders nobody later; `claims::no_spending_gets_more` tries the rest.
    fn more_after(&self, now: Tick, remaining: u64) -> u64 {
        let mut taken = self.state.clone();
        if remaining > 0 {
            taken.engine_mut().commit(now, remaining.into());
        }
        least(|d| d >= ENDLESS_US || taken.engine().admits(now + Tick::from(d), 1).is_some())
    }

    fn reset_after(&self, now: Tick) -> u64 {
        let fresh = State::fresh(&self.rule);
        let capacity = self.rule.capacity();
        let probes: Vec<u64> = if capacity <= SMALL_CAPACITY {
            (1..=capacity).collect()
        } else {
            vec![1, capacity / 2, capacity]
        };
        least(|d| {
            let then = now + Tick::from(d);
            // The largest first: it tells the most.
            probes
                .iter()
                .rev()
                .all(|&cost| self.admits(then, cost) == fresh.engine().admits(then, cost.into()))
        })
    }
}

impl Subject for Reference {
    type Receipt = Token;

    fn acquire(&mut self, t_us: u64, cost: u64) -> (Answer, Option<Token>) {
        Self::acquire(self, t_us, cost)
    }

    fn peek(&mut self, t_us: u64, cost: u64) -> Answer {
        Self::peek(self, t_us, cost)
    }

    fn reset(&mut self) {
        Self::reset(self);
    }

    fn refund(&mut self, t_us: u64, receipt: &Token) {
        Self::refund(self, t_us, receipt);
    }

    fn refund_last(&mut self, t_us: u64, receipt: &Token, units: u64) -> Option<Token> {
        Self::refund_last(self, t_us, receipt, units)
    }

    fn credit(&mut self, t_us: u64, units: u64) {
        Self::credit(self, t_us, units);
    }
}

fn whole(ticks: Tick) -> u64 {
    u64::try_from(ticks).expect("a wait is not negative and fits 64 bits")
}

/// The least `d` for which `holds`, which stays true once it is (Lemma M).
///
/// # Panics
/// If it holds for no `d` that fits 63 bits.
pub(super) fn least(holds: impl Fn(u64) -> bool) -> u64 {
    if holds(0) {
        return 0;
    }
    let mut high: u64 = 1;
    while !holds(high) {
        assert!(high < 1 << 62, "an answer that no wait changes");
        high *= 2;
    }
    // It does not hold at `high / 2` (which is 0 for the first), it does at `high`.
    let mut low = high / 2;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle }
    }
    high
}
