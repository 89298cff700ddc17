//! The core as the testkit wants it: one key, or several limits of several keys, with the state beside it.

use std::collections::BTreeMap;

use ratekeeper_core::{
    Algorithm, Ask, Calendar, Decision, Evaluation, Limit, Log, Micros, Moment, State, StateRef, Step, Token,
    Verdict, decide_all, decide_one, evaluate,
};
use ratekeeper_testkit::oracle;
use ratekeeper_testkit::oracle::{Answer, GroupAnswer, GroupSubject, Rule, Subject};
use ratekeeper_testkit::product::{ListedPeriods, answer, calendar, group_answer, limit};

/// One key of one limit.
#[derive(Debug, Clone)]
pub(crate) struct Core {
    pub(crate) limit: Limit,
    pub(crate) state: State,
    pub(crate) log: Log,
    heals: bool,
    periods: Option<ListedPeriods>,
}

impl Core {
    pub(crate) fn new(rule: &Rule, heals: bool) -> Self {
        Self::named(rule, heals, Algorithm::TokenBucket)
    }

    pub(crate) fn named(rule: &Rule, heals: bool, meter: Algorithm) -> Self {
        Self {
            limit: limit(rule, meter),
            state: State::FRESH,
            log: Log::new(),
            heals,
            periods: calendar(rule),
        }
    }

    fn is_log(&self) -> bool {
        self.limit.kind() == Algorithm::SlidingWindowLog
    }

    /// All that is stored, to be compared.
    pub(crate) fn stored(&self) -> String {
        format!("{:?} {:?}", self.state, self.log)
    }

    pub(crate) fn moment(&self, t_us: u64) -> Moment {
        let mut at = Moment::at(Micros::new(t_us));
        at.heals = self.heals;
        at.period = self.periods.as_ref().map(|periods| periods.window(at.now));
        at
    }

    pub(crate) fn evaluate(&self, t_us: u64, cost: u64, ask: Ask) -> Evaluation {
        let state = if self.is_log() { StateRef::Log(&self.log) } else { StateRef::Words(self.state) };
        evaluate(&self.limit, state, &self.moment(t_us), cost, ask)
    }

    /// The state that `decide_one` leaves, and its verdict; logs have no short way.
    fn short_way(&self, t_us: u64, cost: u64, ask: Ask) -> Option<(State, Verdict)> {
        let at = self.moment(t_us);
        let decided = (!self.is_log()).then(|| decide_one(&self.limit, self.state, &at, cost, ask));
        decided.map(|(write, verdict)| (write.unwrap_or(self.state), verdict))
    }

    /// Writes what the step says, as a store does, and tells the verdict that goes with it.
    fn write(&mut self, t_us: u64, evaluation: &Evaluation, step: Step) -> Verdict {
        let at = self.moment(t_us);
        let cost = evaluation.untouched().cost();
        match step {
            Step::Take if cost == 0 => evaluation.untouched(),
            Step::Take if self.is_log() => {
                self.log.admit(&self.limit, &at, cost);
                evaluation.taken()
            }
            Step::Take => {
                self.state = evaluation.next();
                evaluation.taken()
            }
            Step::Heal => {
                match evaluation.healed() {
                    Some(_) if self.is_log() => self.log.heal(&at),
                    Some(healed) => self.state = healed,
                    None => {}
                }
                evaluation.untouched()
            }
            Step::Nothing => evaluation.untouched(),
        }
    }

    /// Decided the long way, as one of several limits would be; and the short way, which must say the same.
    pub(crate) fn decide(&mut self, t_us: u64, cost: u64) -> Verdict {
        let short = self.short_way(t_us, cost, Ask::Acquire);
        let evaluation = self.evaluate(t_us, cost, Ask::Acquire);
        let step = decide_all([&evaluation], Ask::Acquire);
        let verdict = self.write(t_us, &evaluation, step);
        if let Some((state, short)) = short {
            assert_eq!((answer(&short), short.token()), (answer(&verdict), verdict.token()));
            assert_eq!(state, self.state, "both leave the same state");
        }
        verdict
    }

    fn give_back(&mut self, t_us: u64, token: &Token) {
        if self.is_log() {
            self.log.refund(token);
        } else {
            self.state = self.limit.refund(self.state, Micros::new(t_us), token);
        }
    }

    fn add(&mut self, t_us: u64, units: u64) {
        if self.is_log() {
            self.log.credit(&self.limit, Micros::new(t_us), units);
        } else {
            self.state = self.limit.credit(self.state, Micros::new(t_us), units);
        }
    }

    fn forget(&mut self) {
        self.state = State::FRESH;
        self.log = Log::new();
    }
}

impl Subject for Core {
    type Receipt = Token;

    fn acquire(&mut self, t_us: u64, cost: u64) -> (Answer, Option<Token>) {
        let verdict = self.decide(t_us, cost);
        (answer(&verdict), verdict.token())
    }

    fn peek(&mut self, t_us: u64, cost: u64) -> Answer {
        let evaluation = self.evaluate(t_us, cost, Ask::Peek);
        assert_eq!(decide_all([&evaluation], Ask::Peek), Step::Nothing, "a peek writes nothing");
        if let Some((state, short)) = self.short_way(t_us, cost, Ask::Peek) {
            assert_eq!(answer(&short), answer(&evaluation.untouched()));
            assert_eq!(state, self.state, "a peek writes nothing");
        }
        answer(&evaluation.untouched())
    }

    fn reset(&mut self) {
        self.forget();
    }

    fn refund(&mut self, t_us: u64, receipt: &Token) {
        self.give_back(t_us, receipt);
    }

    fn refund_last(&mut self, t_us: u64, receipt: &Token, units: u64) -> Option<Token> {
        let (rest, last) = receipt.split(units);
        last.iter().for_each(|last| self.give_back(t_us, last));
        rest
    }

    fn credit(&mut self, t_us: u64, units: u64) {
        self.add(t_us, units);
    }
}

/// Several limits of several keys: the fold, and what a store does with it.
#[derive(Debug, Clone)]
pub(crate) struct CoreGroup {
    rules: Vec<Rule>,
    heals: bool,
    states: BTreeMap<(usize, String), Core>,
}

impl CoreGroup {
    pub(crate) fn new(rules: Vec<Rule>, heals: bool) -> Self {
        Self { rules, heals, states: BTreeMap::new() }
    }

    fn state(&mut self, limit: usize, key: &str) -> &mut Core {
        let (rule, heals) = (&self.rules[limit], self.heals);
        let names = [Algorithm::TokenBucket, Algorithm::Gcra, Algorithm::LeakyBucket];
        let named = || Core::named(rule, heals, names[limit % names.len()]);
        self.states.entry((limit, key.to_owned())).or_insert_with(named)
    }

    fn decide(
        &mut self,
        t_us: u64,
        asks: &[oracle::Ask<'_>],
        ask: Ask,
    ) -> (GroupAnswer, Vec<(usize, String, Token)>) {
        // Parts on one state come to the fold as one: that is the store's affair, and it is the store here.
        let mut parts: Vec<(usize, String, u64)> = Vec::new();
        for ask in asks {
            match parts.iter_mut().find(|(limit, key, _)| *limit == ask.limit && key == ask.key) {
                Some((_, _, cost)) => *cost = cost.saturating_add(ask.cost),
                None => parts.push((ask.limit, ask.key.to_owned(), ask.cost)),
            }
        }
        let evaluations: Vec<Evaluation> = parts
            .iter()
            .map(|(limit, key, cost)| self.state(*limit, key).evaluate(t_us, *cost, ask))
            .collect();
        let step = decide_all(&evaluations, ask);
        let mut verdicts = Vec::new();
        let mut tokens = Vec::new();
        for ((limit, key, _), evaluation) in parts.iter().zip(&evaluations) {
            let verdict = self.state(*limit, key).write(t_us, evaluation, step);
            tokens.extend(verdict.token().map(|token| (*limit, key.clone(), token)));
            verdicts.push(verdict);
        }
        let names: Vec<(usize, String)> = parts.iter().map(|(limit, key, _)| (*limit, key.clone())).collect();
        (group_answer(&Decision::of(verdicts), &names), tokens)
    }
}

impl GroupSubject for CoreGroup {
    type Receipt = Vec<(usize, String, Token)>;

    fn acquire(&mut self, t_us: u64, asks: &[oracle::Ask<'_>]) -> (GroupAnswer, Option<Self::Receipt>) {
        let (answer, tokens) = self.decide(t_us, asks, Ask::Acquire);
        let receipt = (answer.headline.allowed && !tokens.is_empty()).then_some(tokens);
        (answer, receipt)
    }

    fn peek(&mut self, t_us: u64, asks: &[oracle::Ask<'_>]) -> GroupAnswer {
        self.decide(t_us, asks, Ask::Peek).0
    }

    fn reset(&mut self, limit: usize, key: &str) {
        self.state(limit, key).forget();
    }

    fn refund(&mut self, t_us: u64, receipt: Self::Receipt) {
        for (limit, key, token) in receipt {
            self.state(limit, &key).give_back(t_us, &token);
        }
    }

    fn credit(&mut self, t_us: u64, ask: oracle::Ask<'_>) {
        self.state(ask.limit, ask.key).add(t_us, ask.cost);
    }
}
