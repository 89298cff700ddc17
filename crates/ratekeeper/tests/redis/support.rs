//! A shared store on real servers, callers that load it, and what every history must keep.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratekeeper::{
    Algorithm, Arithmetic, Ask, Check, Decision, Limit, Name, NamedLimit, OnStoreError, RedisStore,
    SharedStore, Source, hours, millis,
};
use ratekeeper_testkit::redis::history::{Event, Outcome, Recorder, max_in_window};
use ratekeeper_testkit::redis::{RedisServer, Ttl, wait_until};

use crate::subject::wait;

/// For what must be answered by the servers: a busy machine takes its time.
pub(crate) const PATIENT: Duration = Duration::from_secs(5);
/// For what must be answered in time.
pub(crate) const STRICT: Duration = Duration::from_millis(200);
/// By how much a busy machine may wake a caller late, and what a decision takes besides.
pub(crate) const LATE: Duration = Duration::from_millis(700);
/// A window that is stored may lie so far ahead and be gone on with, at most.
pub(crate) const GUARD: Duration = Duration::from_secs(1);
/// The clocks of this process and of a server count the same seconds; a wall clock that is set right counts others.
const UNCERTAIN_US: u64 = 2_000;
/// What a server that has come back, an attempt of the breaker, and a busy machine take together.
pub(crate) const RECOVERY: Duration = Duration::from_secs(5);

/// A store that waits for its servers as long as `timeout`.
pub(crate) fn shared(url: &str, timeout: Duration) -> SharedStore {
    share_of(url, timeout, 1)
}

/// A store of one of so many instances, connected.
pub(crate) fn share_of(url: &str, timeout: Duration, instances: u32) -> SharedStore {
    let redis = RedisStore::builder(url.parse().unwrap()).timeout(timeout).build().unwrap();
    let store = SharedStore::builder(redis).instances(instances).build().unwrap();
    wait_until("the store is connected", Duration::from_secs(10), || store.status().is_up);
    store
}

pub(crate) fn named(name: &str, limit: Limit) -> NamedLimit {
    NamedLimit::new(&Name::new("p").unwrap(), Name::new(name).unwrap(), limit)
}

/// A limit of each arithmetic: `amount` per `window`, at most `amount` at once.
pub(crate) fn each(amount: u64, window: Duration) -> Vec<NamedLimit> {
    let limit = Limit::per(amount, window);
    vec![
        named("bucket", limit),
        named("fixed", limit.algorithm(Algorithm::FixedWindow)),
        named("log", limit.algorithm(Algorithm::SlidingWindowLog)),
        named("counter", limit.algorithm(Algorithm::SlidingWindowCounter)),
        named("queue", limit.algorithm(Algorithm::LeakyBucket).queue(amount - 1)),
    ]
}

/// Windows that do not end during a test: the epoch's first begin so long ago that none does now.
pub(crate) const fn long(amount: u64) -> Limit {
    Limit::per(amount, hours(24 * 366)).algorithm(Algorithm::FixedWindow)
}

/// What the state of a limit and a plain key is called.
pub(crate) fn state(limit: &NamedLimit, key: &str) -> String {
    let letter = match limit.limit().arithmetic() {
        Arithmetic::Meter => 'm',
        Arithmetic::Queue => 'q',
        Arithmetic::Fixed => 'f',
        Arithmetic::Counter => 's',
        Arithmetic::Log => 'l',
    };
    format!("rk1:{{{}:{key}}}:{}.{}:{letter}", key.len(), limit.policy().as_str(), limit.name().as_str())
}

/// The stored count of a fixed window.
#[track_caller]
pub(crate) fn count(server: &RedisServer, limit: &NamedLimit, key: &str) -> u64 {
    let value = server.command(&["GET", &state(limit, key)]).good().text();
    value.rsplit_once(':').map_or(0, |(_, count)| count.parse().expect("a count"))
}

pub(crate) const fn check<'a>(limit: &'a NamedLimit, key: ratekeeper::Key<'a>, cost: u64) -> Check<'a> {
    Check { limit, key, cost }
}

pub(crate) fn demand<'a>(checks: &'a [Check<'a>], on_error: &'a [OnStoreError]) -> ratekeeper::Demand<'a> {
    ratekeeper::Demand { checks, on_error, ask: Ask::Acquire }
}

/// One request of one limit.
pub(crate) fn ask(store: &SharedStore, limit: &NamedLimit, key: &str, cost: u64) -> Decision {
    wait(store.decide(demand(&[check(limit, key.into(), cost)], &[]), PATIENT)).unwrap()
}

/// One request, and what becomes of it without the servers.
pub(crate) fn ask_or(
    store: &SharedStore,
    limit: &NamedLimit,
    key: &str,
    otherwise: OnStoreError,
) -> Decision {
    wait(store.decide(demand(&[check(limit, key.into(), 1)], &[otherwise]), PATIENT)).unwrap()
}

pub(crate) fn peek(store: &SharedStore, limit: &NamedLimit, key: &str, cost: u64) -> Decision {
    let checks = [check(limit, key.into(), cost)];
    wait(store.decide(ratekeeper::Demand { ask: Ask::Peek, ..demand(&checks, &[]) }, PATIENT)).unwrap()
}

/// Gives other processes time: they have real clocks.
pub(crate) fn pause(ms: u64) {
    std::thread::sleep(millis(ms));
}

/// One answer, with what the history keeps of it.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    pub(crate) event: Event,
    pub(crate) source: Source,
    pub(crate) remaining: u64,
    limit: Limit,
}

/// Callers that ask one limit after another, as fast as they are answered.
pub(crate) struct Load<'a> {
    pub(crate) store: &'a SharedStore,
    pub(crate) limits: &'a [NamedLimit],
    pub(crate) keys: &'a [&'a str],
    pub(crate) callers: usize,
    /// How long each of them waits.
    pub(crate) within: Duration,
    pub(crate) otherwise: OnStoreError,
    /// Between two requests of a caller.
    pub(crate) pace: Duration,
}

impl<'a> Load<'a> {
    pub(crate) const fn new(store: &'a SharedStore, limits: &'a [NamedLimit]) -> Self {
        Self {
            store,
            limits,
            keys: &["k"],
            callers: 4,
            within: STRICT,
            otherwise: OnStoreError::Local,
            pace: millis(1),
        }
    }

    /// Loads while `meanwhile` runs.
    pub(crate) fn during(&self, meanwhile: impl FnOnce(&Recorder)) -> History {
        let (recorder, is_over) = (Recorder::new(), AtomicBool::new(false));
        let answers = std::thread::scope(|scope| {
            let (recorder, is_over) = (&recorder, &is_over);
            let callers: Vec<_> = (0..self.callers)
                .map(|caller| scope.spawn(move || self.call(caller, recorder, is_over)))
                .collect();
            let ending = Ending(is_over);
            meanwhile(recorder);
            drop(ending);
            callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
        });
        History { answers }
    }

    fn call(&self, caller: usize, recorder: &Recorder, is_over: &AtomicBool) -> Vec<Answered> {
        let mut answers = Vec::new();
        for turn in caller.. {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            let limit = &self.limits[turn % self.limits.len()];
            let key = self.keys[turn / self.limits.len() % self.keys.len()];
            let checks = [check(limit, key.into(), 1)];
            let sent_us = recorder.now_us();
            let decision = wait(self.store.decide(demand(&checks, &[self.otherwise]), self.within)).unwrap();
            let event = Event {
                caller,
                sent_us,
                got_us: recorder.now_us(),
                key: state(limit, key),
                cost: 1,
                outcome: if decision.allowed { Outcome::Allowed } else { Outcome::Denied },
            };
            let Decision { remaining, source, .. } = decision;
            answers.push(Answered { event, source, remaining, limit: *limit.limit() });
            // The pace of real callers.
            std::thread::sleep(self.pace);
        }
        answers
    }
}

/// Ends a load, also when what happens meanwhile fails: a test is not to wait for its callers for ever.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What callers were answered.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) answers: Vec<Answered>,
}

impl History {
    /// Admissions of a state by one kind of answer.
    pub(crate) fn admitted(&self, key: &str, by: impl Fn(Source) -> bool) -> Vec<Event> {
        let is_it = |answered: &&Answered| {
            answered.event.key == key && by(answered.source) && answered.event.outcome == Outcome::Allowed
        };
        self.answers.iter().filter(is_it).map(|answered| answered.event.clone()).collect()
    }

    pub(crate) fn by(&self, source: Source) -> impl Iterator<Item = &Answered> {
        self.answers.iter().filter(move |answered| answered.source == source)
    }

    /// When the first exact answer came that was asked for after `since_us`.
    pub(crate) fn exact_after(&self, since_us: u64) -> Option<u64> {
        let after = self.by(Source::Exact).filter(|answered| answered.event.sent_us >= since_us);
        after.map(|answered| answered.event.got_us).min()
    }

    /// The theorem of each limit and key, with so many losses of the state: of what the servers have admitted, and of
    /// what they and this instance's own share, a whole limit, have admitted together.
    #[track_caller]
    pub(crate) fn keeps_the_theorem(&self, losses: u64) {
        self.keeps_it_on_a_clock(losses, UNCERTAIN_US);
    }

    /// The same when the servers' clock was ahead by so much at times.
    #[track_caller]
    pub(crate) fn keeps_it_on_a_clock(&self, losses: u64, uncertain_us: u64) {
        let limits: BTreeMap<&str, Limit> =
            self.answers.iter().map(|answered| (&*answered.event.key, answered.limit)).collect();
        for (key, limit) in limits {
            let exact = self.admitted(key, |source| source == Source::Exact);
            let all = self.admitted(key, |source| source != Source::FailedOpen);
            let window_us = u64::try_from(limit.window().as_micros()).unwrap();
            let windows = [1_000, window_us / 10, window_us - 1, window_us, 3 * window_us, u64::MAX / 4];
            for window in windows {
                let window = window.max(uncertain_us).min(self.span_us());
                let lost = losses * limit.capacity();
                let by_servers = max_in_window(&exact, window, uncertain_us);
                let most = bound(&limit, window) + lost;
                assert!(by_servers <= most, "{key}: {by_servers} > {most} in {window} us by the servers");
                let by_both = max_in_window(&all, window, uncertain_us);
                let most = 2 * bound(&limit, window) + lost;
                assert!(by_both <= most, "{key}: {by_both} > {most} in {window} us by all");
            }
        }
    }

    fn span_us(&self) -> u64 {
        self.answers.iter().map(|answered| answered.event.got_us).max().unwrap_or(1) + UNCERTAIN_US
    }

    /// Nobody waited past the deadline: most not at all, and none longer than a busy machine takes to wake a caller. And
    /// no number is impossible.
    #[track_caller]
    pub(crate) fn is_in_time(&self, within: Duration) {
        let most = u64::try_from((within + LATE).as_micros()).unwrap();
        let soon = u64::try_from((within + millis(50)).as_micros()).unwrap();
        let mut late = 0;
        for answered in &self.answers {
            let took = answered.event.got_us - answered.event.sent_us;
            assert!(took <= most, "{took} us for {answered:?}");
            late += usize::from(took > soon);
            let has_numbers = answered.source != Source::FailedOpen;
            assert!(!has_numbers || answered.remaining <= answered.limit.capacity(), "{answered:?}");
        }
        assert!(late * 2 <= self.answers.len(), "{late} of {} answers were late", self.answers.len());
    }
}

/// What a closed span can admit: of a queue its admissions, not its starts.
pub(crate) fn bound(limit: &Limit, span_us: u64) -> u64 {
    let span = Duration::from_micros(span_us);
    if limit.is_queue() { limit.worst_case(span) + limit.capacity() } else { limit.worst_case(span) }
}

/// Every key ends, and none later than a limit can matter.
#[track_caller]
pub(crate) fn all_end(servers: &[&RedisServer], longest: Duration) {
    let most = u64::try_from(longest.as_millis()).unwrap() + 1_000;
    for server in servers {
        for key in server.keys() {
            match server.ttl(&key) {
                Ttl::Never => panic!("{key} never ends"),
                Ttl::At { left_ms, .. } => assert!(left_ms <= most, "{key} ends in {left_ms} ms"),
                Ttl::Missing => {}
            }
        }
    }
}

/// After what they say it takes, the limits of a key have all of their units again; asked by another instance.
#[track_caller]
pub(crate) fn full_again(url: &str, limits: &[NamedLimit], key: &str) {
    let store = &shared(url, PATIENT);
    let rest = |limit: &NamedLimit| {
        let rest = peek(store, limit, key, 0);
        assert_eq!(rest.source, Source::Exact, "{:?}", store.status());
        assert!(rest.reset_after <= limit.limit().full_period() + GUARD, "{rest:?}");
        rest.reset_after
    };
    let longest = limits.iter().map(rest).max().unwrap_or_default();
    // The server has a real clock, and expires keys by it.
    std::thread::sleep(longest + millis(1));
    for limit in limits {
        let taken = ask(store, limit, key, limit.limit().capacity());
        assert!(taken.allowed && taken.source == Source::Exact, "{taken:?} {:?}", store.status());
    }
}
