//! The memory store is what the reference says, whatever else happens in its table: P1, P5 to P7 and P10 of the
//! core once more, through locks, places, fingerprints and conversions.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use ratekeeper::{
    Algorithm, Ask, Check, Clock, ManualClock, MemoryStore, Micros, Name, NamedLimit, Store, Token, Verdict,
};
use ratekeeper_testkit::claims;
use ratekeeper_testkit::generate::{
    anything, cases, changes, forward, group_cases, horizon_us, pairs, rules, start_us, turns,
};
use ratekeeper_testkit::oracle::{self, Answer, GroupAnswer, GroupSubject, Rule, Subject};
use ratekeeper_testkit::product::{answer, calendar, group_answer, limit};
use ratekeeper_testkit::property::check;
use ratekeeper_testkit::vector::{replay_on, vectors};

/// The futures of a memory store are ready at once.
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("memory makes nobody wait"),
    }
}

/// A clock that is set by hand, but that promises never to step back: its store does not heal.
struct Unhealed(ManualClock);

impl Clock for Unhealed {
    fn now(&self) -> Micros {
        self.0.now()
    }

    fn may_step_back(&self) -> bool {
        false
    }
}

/// A store of so few places that keys go to all three arrays, with strangers in most of them.
struct Memory {
    store: MemoryStore,
    clock: ManualClock,
    limits: Vec<NamedLimit>,
}

/// The receipt of a request: which limits and keys were charged, and what gives each back.
type Charged = Vec<(usize, String, Token)>;

impl Memory {
    fn new(rules: &[Rule], heals: bool) -> Self {
        Self::with_room(rules, heals, 40)
    }

    fn with_room(rules: &[Rule], heals: bool, max_keys: u64) -> Self {
        let clock = ManualClock::new();
        let builder = MemoryStore::builder().max_keys(max_keys);
        let store = if heals {
            builder.clock(&clock).build()
        } else {
            let clock: Arc<dyn Clock> = Arc::new(Unhealed(clock.clone()));
            builder.clock(clock).build()
        };
        let names = [Algorithm::TokenBucket, Algorithm::Gcra, Algorithm::LeakyBucket];
        let policy = Name::new("policy").unwrap();
        let limits = rules.iter().enumerate().map(|(i, rule)| {
            let name = Name::new(&format!("limit-{i}")).unwrap();
            let named = NamedLimit::new(&policy, name, limit(rule, names[i % names.len()]));
            match calendar(rule) {
                Some(calendar) => named.with_calendar(Arc::new(calendar)),
                None => named,
            }
        });
        let memory = Self { limits: limits.collect(), store: store.unwrap(), clock };
        memory.crowd();
        memory
    }

    /// Twenty-five keys that stay live for a year, from any instant.
    fn crowd(&self) {
        let name = Name::new("crowd").unwrap();
        let year = NamedLimit::new(&name, name.clone(), ratekeeper::Limit::per(1, ratekeeper::days(366)));
        self.clock.set(Micros::MAX);
        for key in 0..25_u64 {
            let check = Check { limit: &year, key: key.into(), cost: 1 };
            assert!(self.store.decide_now(&[check], Ask::Acquire).unwrap().allowed);
        }
        self.clock.set(Micros::ZERO);
    }

    fn check<'a>(&'a self, limit: usize, key: &'a str, cost: u64) -> Check<'a> {
        Check { limit: &self.limits[limit], key: key.into(), cost }
    }

    fn decide(&self, t_us: u64, asks: &[oracle::Ask<'_>], ask: Ask) -> (GroupAnswer, Option<Charged>) {
        self.clock.set(Micros::new(t_us));
        let checks: Vec<Check<'_>> = asks.iter().map(|a| self.check(a.limit, a.key, a.cost)).collect();
        let decision = now(self.store.decide(&checks, ask)).unwrap();
        let parts: Vec<(usize, String)> = asks.iter().map(|a| (a.limit, a.key.to_owned())).collect();
        let mut charged: Charged = Vec::new();
        for ((limit, key), token) in parts.iter().zip(decision.limits().iter().map(Verdict::token)) {
            let again = charged.iter().any(|(l, k, _)| (l, k) == (limit, key));
            charged.extend(token.filter(|_| !again).map(|token| (*limit, key.clone(), token)));
        }
        let receipt = (decision.allowed && !charged.is_empty()).then_some(charged);
        (group_answer(&decision, &parts), receipt)
    }
}

impl GroupSubject for Memory {
    type Receipt = Charged;

    fn acquire(&mut self, t_us: u64, asks: &[oracle::Ask<'_>]) -> (GroupAnswer, Option<Charged>) {
        self.decide(t_us, asks, Ask::Acquire)
    }

    fn peek(&mut self, t_us: u64, asks: &[oracle::Ask<'_>]) -> GroupAnswer {
        self.decide(t_us, asks, Ask::Peek).0
    }

    fn reset(&mut self, limit: usize, key: &str) {
        now(self.store.reset(&[self.check(limit, key, 0)])).unwrap();
    }

    fn refund(&mut self, t_us: u64, receipt: Charged) {
        self.clock.set(Micros::new(t_us));
        let charged: Vec<_> =
            receipt.iter().map(|(l, key, token)| (self.check(*l, key, 0), *token)).collect();
        now(self.store.refund(&charged)).unwrap();
    }

    fn credit(&mut self, t_us: u64, ask: oracle::Ask<'_>) {
        self.clock.set(Micros::new(t_us));
        now(self.store.credit(&[self.check(ask.limit, ask.key, ask.cost)])).unwrap();
    }
}

/// One key of one limit.
struct OneKey(Memory);

impl OneKey {
    fn decide(&self, t_us: u64, cost: u64, ask: Ask) -> Verdict {
        self.0.clock.set(Micros::new(t_us));
        self.0.store.decide_now(&[self.0.check(0, "k", cost)], ask).unwrap().limits()[0]
    }
}

impl Subject for OneKey {
    type Receipt = Token;

    fn acquire(&mut self, t_us: u64, cost: u64) -> (Answer, Option<Token>) {
        let verdict = self.decide(t_us, cost, Ask::Acquire);
        (answer(&verdict), verdict.token())
    }

    fn peek(&mut self, t_us: u64, cost: u64) -> Answer {
        answer(&self.decide(t_us, cost, Ask::Peek))
    }

    fn reset(&mut self) {
        GroupSubject::reset(&mut self.0, 0, "k");
    }

    fn refund(&mut self, t_us: u64, receipt: &Token) {
        GroupSubject::refund(&mut self.0, t_us, vec![(0, "k".to_owned(), *receipt)]);
    }

    fn refund_last(&mut self, t_us: u64, receipt: &Token, units: u64) -> Option<Token> {
        let (rest, last) = receipt.split(units);
        last.iter().for_each(|last| self.refund(t_us, last));
        rest
    }

    fn credit(&mut self, t_us: u64, units: u64) {
        GroupSubject::credit(&mut self.0, t_us, oracle::Ask { limit: 0, key: "k", cost: units });
    }
}

#[test]
fn p01_one_key_in_a_crowded_table_is_answered_as_by_the_reference() {
    check("memory_reference", 2_000, cases(rules(), anything()), |(rule, start, moves)| {
        for heals in [true, false] {
            let subject = OneKey(Memory::new(std::slice::from_ref(&rule), heals));
            claims::agrees_with_reference(&rule, heals, subject, start, &moves)?;
        }
        Ok(())
    });
}

#[test]
fn p14_a_change_keeps_what_is_used_in_a_crowded_table_too() {
    let strategy = (changes(rules()), start_us(), forward(), forward());
    check("memory_changes", 2_000, strategy, |((old, new), start, before, after)| {
        let start = start.min(horizon_us(&old));
        let subject = OneKey(Memory::new(std::slice::from_ref(&old), false));
        let change = |subject: &mut OneKey, _| {
            subject.0.limits = Memory::new(std::slice::from_ref(&new), false).limits;
        };
        claims::changes_keep_what_is_used((&old, &new), subject, change, start, (&before, &after))
    });
}

/// One key whose limit changes from question to question; asked `with_others`, beside a limit that is ample.
struct InTurn {
    memory: Memory,
    with_others: bool,
}

impl InTurn {
    fn decide(&self, t_us: u64, cost: u64, ask: Ask) -> Verdict {
        self.memory.clock.set(Micros::new(t_us));
        let checks = [self.memory.check(0, "k", cost), self.memory.check(1, "all", 0)];
        let checks = if self.with_others { &checks[..] } else { &checks[..1] };
        self.memory.store.decide_now(checks, ask).unwrap().limits()[0]
    }
}

impl Subject for InTurn {
    type Receipt = Token;

    fn acquire(&mut self, t_us: u64, cost: u64) -> (Answer, Option<Token>) {
        let verdict = self.decide(t_us, cost, Ask::Acquire);
        (answer(&verdict), verdict.token())
    }

    fn peek(&mut self, t_us: u64, cost: u64) -> Answer {
        answer(&self.decide(t_us, cost, Ask::Peek))
    }

    fn reset(&mut self) {
        GroupSubject::reset(&mut self.memory, 0, "k");
    }

    fn refund(&mut self, t_us: u64, receipt: &Token) {
        GroupSubject::refund(&mut self.memory, t_us, vec![(0, "k".to_owned(), *receipt)]);
    }

    fn refund_last(&mut self, t_us: u64, receipt: &Token, units: u64) -> Option<Token> {
        let (rest, last) = receipt.split(units);
        last.iter().for_each(|last| self.refund(t_us, last));
        rest
    }

    fn credit(&mut self, t_us: u64, units: u64) {
        GroupSubject::credit(&mut self.memory, t_us, oracle::Ask { limit: 0, key: "k", cost: units });
    }
}

#[test]
fn p14_two_limits_that_take_turns_on_a_key_admit_no_more_than_the_larger_one() {
    let strategy = (pairs(rules()), start_us(), turns());
    check("memory_turns", 4_000, strategy, |((one, two), start, turns)| {
        let start = start.min(horizon_us(&one)).min(horizon_us(&two));
        let ample = Rule::Fixed { amount: 9, window_us: 1_000, align: oracle::Align::Epoch };
        let limits = [&one, &two].map(|rule| Memory::new(&[rule.clone(), ample.clone()], false).limits);
        for (heals, with_others) in [(false, false), (true, false), (false, true), (true, true)] {
            let memory = Memory::new(&[one.clone(), ample.clone()], heals);
            let change = |subject: &mut InTurn, rule: &Rule| {
                subject.memory.limits.clone_from(&limits[usize::from(*rule == two)]);
            };
            let subject = InTurn { memory, with_others };
            claims::turns_give_nothing_away((&one, &two), subject, change, start, &turns)
                .map_err(|what| format!("heals {heals}, with others {with_others}: {what}"))?;
        }
        Ok(())
    });
}

#[test]
fn p10_requests_of_several_limits_are_answered_as_by_the_reference() {
    check("memory_groups", 3_000, (group_cases(), start_us()), |((rules, moves), start)| {
        claims::groups_agree_with_reference(&rules, true, Memory::new(&rules, true), start, &moves)
    });
}

#[test]
fn p10_a_store_that_does_not_heal_answers_as_the_reference_while_its_clock_keeps_its_promise() {
    check("memory_unhealed", 2_000, (group_cases(), start_us()), |((rules, mut moves), start)| {
        moves.iter_mut().for_each(|next| {
            next.ticks = next.ticks.abs();
            // A retry may fall before the request that came last.
            next.retry = None;
        });
        claims::groups_agree_with_reference(&rules, false, Memory::new(&rules, false), start, &moves)
    });
}

#[test]
fn every_decision_vector_is_answered_as_worked_out() {
    let mut wrong = Vec::new();
    for vector in vectors() {
        let (first, last) = vector.instants_us();
        let rules: Vec<Rule> = vector.limits().iter().map(|limit| limit.rule(first, last)).collect();
        let mut memory = Memory::with_room(&rules, true, 2_000);
        for (step, outcome) in replay_on(&vector, &mut memory).iter().enumerate() {
            wrong.extend(vector.mismatches(step, outcome));
        }
    }
    assert!(wrong.is_empty(), "{} mismatches:\n{}", wrong.len(), wrong.join("\n"));
}
