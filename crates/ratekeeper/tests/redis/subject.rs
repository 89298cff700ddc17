//! A Redis store in virtual time, as the claims ask it.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use ratekeeper::{
    Algorithm, Ask, Check, ManualClock, MemoryStore, Micros, Name, NamedLimit, RedisStore, Store, Token,
    Verdict,
};
use ratekeeper_testkit::oracle::{self, Answer, GroupAnswer, GroupSubject, Rule, Subject};
use ratekeeper_testkit::product::{answer, calendar, group_answer, limit};
use ratekeeper_testkit::redis::RedisServer;

/// Runs a future on this thread: the store has a thread of its own for what moves it on.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// The server of this test, which ends with it.
fn server() -> &'static RedisServer {
    thread_local! {
        static SERVER: &'static RedisServer = Box::leak(Box::new(RedisServer::start()));
    }
    SERVER.with(|server| *server)
}

thread_local! {
    /// One store for all cases of a test: each case has a policy of its own.
    static STORE: (RedisStore, ManualClock) = {
        let clock = ManualClock::new();
        (RedisStore::builder(server().url().parse().unwrap()).simulated(clock.clone()).unwrap().with_short_windows(), clock)
    };
}

pub(crate) type Charged = Vec<(usize, String, Token)>;

pub(crate) struct Held<S> {
    pub(crate) store: S,
    pub(crate) clock: ManualClock,
    pub(crate) limits: Vec<NamedLimit>,
}

pub(crate) fn limits(rules: &[Rule], policy: &str) -> Vec<NamedLimit> {
    let names = [Algorithm::TokenBucket, Algorithm::Gcra, Algorithm::LeakyBucket];
    let policy = Name::new(policy).unwrap();
    let limits = rules.iter().enumerate().map(|(i, rule)| {
        let name = Name::new(&format!("limit-{i}")).unwrap();
        let named = NamedLimit::new(&policy, name, limit(rule, names[i % names.len()]));
        match calendar(rule) {
            Some(calendar) => named.with_calendar(Arc::new(calendar)),
            None => named,
        }
    });
    limits.collect()
}

/// A policy that no other case has.
pub(crate) fn fresh_policy() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("p{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl Held<RedisStore> {
    pub(crate) fn redis(rules: &[Rule]) -> Self {
        let (store, clock) = STORE.with(Clone::clone);
        Self { store, clock, limits: limits(rules, &fresh_policy()) }
    }
}

impl Held<MemoryStore> {
    pub(crate) fn memory(rules: &[Rule]) -> Self {
        let clock = ManualClock::new();
        let store = MemoryStore::builder().max_keys(1_000).clock(&clock).build().unwrap();
        Self { store, clock, limits: limits(rules, &fresh_policy()) }
    }
}

impl<S: Store> Held<S> {
    pub(crate) fn check<'a>(&'a self, limit: usize, key: &'a str, cost: u64) -> Check<'a> {
        Check { limit: &self.limits[limit], key: key.into(), cost }
    }

    pub(crate) fn decide(
        &self,
        t_us: u64,
        asks: &[oracle::Ask<'_>],
        ask: Ask,
    ) -> (GroupAnswer, Option<Charged>) {
        self.clock.set(Micros::new(t_us));
        let checks: Vec<Check<'_>> = asks.iter().map(|a| self.check(a.limit, a.key, a.cost)).collect();
        let decision = wait(self.store.decide(&checks, ask)).unwrap();
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

impl<S: Store> GroupSubject for Held<S> {
    type Receipt = Charged;

    fn acquire(&mut self, t_us: u64, asks: &[oracle::Ask<'_>]) -> (GroupAnswer, Option<Charged>) {
        self.decide(t_us, asks, Ask::Acquire)
    }

    fn peek(&mut self, t_us: u64, asks: &[oracle::Ask<'_>]) -> GroupAnswer {
        self.decide(t_us, asks, Ask::Peek).0
    }

    fn reset(&mut self, limit: usize, key: &str) {
        wait(self.store.reset(&[self.check(limit, key, 0)])).unwrap();
    }

    fn refund(&mut self, t_us: u64, receipt: Charged) {
        self.clock.set(Micros::new(t_us));
        let charged: Vec<_> =
            receipt.iter().map(|(l, key, token)| (self.check(*l, key, 0), *token)).collect();
        wait(self.store.refund(&charged)).unwrap();
    }

    fn credit(&mut self, t_us: u64, ask: oracle::Ask<'_>) {
        self.clock.set(Micros::new(t_us));
        wait(self.store.credit(&[self.check(ask.limit, ask.key, ask.cost)])).unwrap();
    }
}

/// One key of one limit.
pub(crate) struct OneKey<S>(pub(crate) Held<S>);

impl<S: Store> OneKey<S> {
    fn decide(&self, t_us: u64, cost: u64, ask: Ask) -> Verdict {
        self.0.clock.set(Micros::new(t_us));
        wait(self.0.store.decide(&[self.0.check(0, "k", cost)], ask)).unwrap().limits()[0]
    }
}

impl<S: Store> Subject for OneKey<S> {
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
