//! A cluster: limits of one request in several slots, and slots that move.

use std::future::Future as _;
use std::task::{Context, Waker};
use std::time::Duration;

use ratekeeper::{
    Key, ManualClock, NamedLimit, OnStoreError, Part, Reason, RedisStore, SharedStore, Source, millis,
};
use ratekeeper_testkit::claims;
use ratekeeper_testkit::generate::{GroupMove, group_cases, play_group, start_us};
use ratekeeper_testkit::oracle::Rule;
use ratekeeper_testkit::property::check as check_property;
use ratekeeper_testkit::redis::{Cluster, RedisServer, Stopwatch, is_left_out, wait_until};

use crate::agreement::LATEST_START_US;
use crate::subject::{Held, fresh_policy, limits, wait};
use crate::support::{
    LATE, PATIENT, STRICT, all_end, check, count, demand, long, named, pause, peek, shared, state,
};

#[test]
fn p10_requests_over_several_slots_are_answered_as_by_the_reference() {
    if is_left_out() {
        return;
    }
    let cluster = Cluster::start(3, 0);
    let clock = ManualClock::new();
    let store = RedisStore::builder(cluster.url().parse().unwrap()).simulated(clock.clone()).unwrap();
    let store = store.with_short_windows();
    check_property("cluster_groups", 300, (group_cases(), start_us()), |((mut rules, moves), start)| {
        // A slot of a queue that has begun is not given back, so what a request that is refused elsewhere has taken of
        // a queue passes only with time.
        rules.retain(|rule| !matches!(rule, Rule::Queue { .. }));
        if rules.is_empty() {
            return Ok(());
        }
        // A limit whose slot a refused request does not reach heals when one does, where the reference heals at once:
        // so time does not step back here.
        let moves: Vec<GroupMove> =
            moves.into_iter().map(|step| GroupMove { ticks: step.ticks.abs(), ..step }).collect();
        let start = start.min(LATEST_START_US);
        let times: Vec<u64> =
            play_group(&rules, true, start, &moves).iter().map(|played| played.step.t_us).collect();
        let forward = times.windows(2).take_while(|pair| pair[0] <= pair[1]).count() + 1;
        let limits = limits(&rules, &fresh_policy());
        let held = Held { store: store.clone(), clock: clock.clone(), limits };
        let moves = &moves[..forward.min(moves.len())];
        claims::groups_agree_with_reference(&rules, true, held, start, moves)
    });
}

/// A user's limit and everybody's, on different nodes.
struct Two {
    cluster: Cluster,
    user: NamedLimit,
    all: NamedLimit,
    /// A user whose state is not on the node of everybody's.
    name: String,
}

impl Two {
    fn start(user: u64, all: u64) -> Self {
        // Nodes that are stopped for a while are not taken for failed.
        let cluster = Cluster::start_with(3, 0, |builder| builder.config("cluster-node-timeout", "15000"));
        let (user, all) = (named("user", long(user)), named("all", long(all)));
        let home = cluster.owner_of_slot(cluster.slot_of(&state(&all, "global")));
        let names = (0..100).map(|n| format!("u{n}"));
        let elsewhere = |name: &String| cluster.owner_of_slot(cluster.slot_of(&state(&user, name))) != home;
        let name = names.into_iter().find(elsewhere).expect("two thirds are");
        Self { cluster, user, all, name }
    }

    fn node_of(&self, limit: &NamedLimit, key: &str) -> &RedisServer {
        self.cluster.node(self.cluster.owner_of_slot(self.cluster.slot_of(&state(limit, key))))
    }

    fn user_node(&self) -> &RedisServer {
        self.node_of(&self.user, &self.name)
    }

    fn all_node(&self) -> &RedisServer {
        self.node_of(&self.all, "global")
    }

    /// Everybody's is named first, and is taken last.
    fn checks(&self) -> [ratekeeper::Check<'_>; 2] {
        [check(&self.all, "global".into(), 1), check(&self.user, self.name.as_str().into(), 1)]
    }

    fn ask(&self, store: &SharedStore, within: Duration) -> ratekeeper::Decision {
        wait(store.decide(demand(&self.checks(), &[OnStoreError::Deny; 2]), within)).unwrap()
    }

    fn used(&self) -> (u64, u64) {
        (count(self.user_node(), &self.user, &self.name), count(self.all_node(), &self.all, "global"))
    }
}

fn changes(server: &RedisServer) -> u64 {
    server.info("persistence")["rdb_changes_since_last_save"].parse().unwrap()
}

#[test]
fn b93_a_user_over_its_own_limit_leaves_everybodys_untouched() {
    if is_left_out() {
        return;
    }
    let two = Two::start(1, 10);
    let store = shared(&two.cluster.url(), PATIENT);
    assert!(two.ask(&store, PATIENT).allowed);
    assert_eq!(two.used(), (1, 1));
    let key = state(&two.all, "global");
    let look = || {
        let dump = two.all_node().command(&["DUMP", &key]).good();
        let changes = changes(two.all_node());
        let writes = two.all_node().info("commandstats").get("cmdstat_set").cloned();
        (dump, changes, writes)
    };
    let before = look();
    for _ in 0..19 {
        let refused = two.ask(&store, PATIENT);
        assert_eq!((refused.allowed, refused.reason), (false, Some(Reason::Limited)));
        assert_eq!((refused.limits()[0].remaining(), refused.limits()[1].remaining()), (9, 0));
    }
    assert_eq!(look(), before, "nobody else's was written, or undone");
    assert_eq!(store.counts().undone, [0, 0]);
}

#[test]
fn what_was_taken_comes_back_when_a_later_slot_refuses() {
    if is_left_out() {
        return;
    }
    let two = Two::start(10, 2);
    let store = shared(&two.cluster.url(), PATIENT);
    assert!(two.ask(&store, PATIENT).allowed && two.ask(&store, PATIENT).allowed);
    for undone in 1..=5 {
        let refused = two.ask(&store, PATIENT);
        assert!(!refused.allowed && refused.source == Source::Exact, "{refused:?}");
        assert_eq!((refused.limits()[0].remaining(), refused.limits()[1].remaining()), (0, 8));
        assert_eq!(two.used(), (2, 2));
        assert_eq!(store.counts().undone, [undone, 0]);
    }
    let servers: Vec<_> = (0..3).map(|node| two.cluster.node(node)).collect();
    all_end(&servers, Duration::from_hours(24 * 366));
}

#[test]
fn a_request_that_is_dropped_between_two_slots_takes_nothing() {
    if is_left_out() {
        return;
    }
    let two = Two::start(10, 10);
    let store = shared(&two.cluster.url(), PATIENT);
    assert!(two.ask(&store, PATIENT).allowed);
    two.all_node().stop();
    for _ in 0..5 {
        let checks = two.checks();
        let mut request = Box::pin(store.decide(demand(&checks, &[]), PATIENT));
        wait_until("the user's is taken", PATIENT, || {
            assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            count(two.user_node(), &two.user, &two.name) == 2
        });
        // The answer to that is there, and everybody's node is asked. Had it been dropped before, the units would be
        // gone until they decay, like all that is on its way when a caller dies.
        pause(50);
        assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(request);
        wait_until("it is given back", PATIENT, || count(two.user_node(), &two.user, &two.name) == 1);
    }
    two.all_node().cont();
    wait_until("what was on its way has run", PATIENT, || {
        peek(&store, &two.all, "global", 0).source == Source::Exact
    });
    let (user, all) = two.used();
    // One debit of everybody's for each that was on its way: too few are admitted then, never too many.
    assert!(user == 1 && (1..=6).contains(&all), "{user} {all}");
    let left = (0..10).filter(|_| two.ask(&store, PATIENT).allowed).count() as u64;
    assert_eq!(left, 10 - all);
}

#[test]
fn a_silent_slot_undoes_the_others_and_is_waited_for_no_longer_than_the_deadline() {
    if is_left_out() {
        return;
    }
    let two = Two::start(10, 10);
    let store = shared(&two.cluster.url(), millis(200));
    assert!(two.ask(&store, PATIENT).allowed);
    two.all_node().stop();
    for _ in 0..3 {
        let watch = Stopwatch::start();
        let denied = two.ask(&store, millis(200));
        assert!(watch.elapsed() < millis(200) + LATE, "{:?}", watch.elapsed());
        assert_eq!((denied.allowed, denied.source), (false, Source::FailedClosed));
        wait_until("the user's is given back", PATIENT, || count(two.user_node(), &two.user, &two.name) == 1);
    }
    two.all_node().cont();
}

/// The undo goes on behind the back of a caller whose time is up.
#[test]
fn an_undo_on_a_silent_slot_is_waited_for_no_longer_than_the_deadline() {
    if is_left_out() {
        return;
    }
    let two = Two::start(10, 1);
    let timeout = millis(1_000);
    let store = shared(&two.cluster.url(), timeout);
    assert!(two.ask(&store, PATIENT).allowed);
    two.all_node().stop();
    let took = std::thread::scope(|scope| {
        let caller = scope.spawn(|| {
            let watch = Stopwatch::start();
            let refused = two.ask(&store, timeout);
            assert!(!refused.allowed, "{refused:?}");
            watch.elapsed()
        });
        wait_until("the user's is taken", timeout, || count(two.user_node(), &two.user, &two.name) == 2);
        // The request waits for a real server that is stopped.
        std::thread::sleep(millis(900));
        two.user_node().stop();
        two.all_node().cont();
        caller.join().unwrap()
    });
    assert!(took < timeout + LATE, "{took:?}");
    two.user_node().cont();
    wait_until("the user's is given back", PATIENT, || count(two.user_node(), &two.user, &two.name) == 1);
}

/// A node that dies with an undo on its way to it: what was in flight is lost until it decays, and nothing more.
#[test]
fn a_lost_undo_charges_what_was_in_flight_until_it_decays() {
    if is_left_out() {
        return;
    }
    let two = Two::start(10, 1);
    let brief = named("brief", ratekeeper::Limit::per(10, millis(900)));
    let store = shared(&two.cluster.url(), millis(300));
    assert!(two.ask(&store, PATIENT).allowed);
    let checks = [check(&two.all, "global".into(), 1), check(&brief, two.name.as_str().into(), 1)];
    let before = changes(two.user_node());
    two.all_node().stop();
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..4)
            .map(|_| {
                scope
                    .spawn(|| wait(store.decide(demand(&checks, &[OnStoreError::Deny; 2]), PATIENT)).unwrap())
            })
            .collect();
        wait_until("the user's are taken", PATIENT, || changes(two.user_node()) > before);
        pause(50);
        two.user_node().stop();
        two.all_node().cont();
        assert!(callers.into_iter().all(|caller| !caller.join().unwrap().allowed));
    });
    two.user_node().cont();
    wait_until("it answers", PATIENT, || peek(&store, &brief, &two.name, 0).source == Source::Exact);
    assert!(peek(&store, &brief, &two.name, 0).remaining >= 6, "at most what was in flight");
    crate::support::full_again(&two.cluster.url(), std::slice::from_ref(&brief), &two.name);
}

#[test]
fn braces_in_keys_choose_no_slot_and_meet_nobody() {
    if is_left_out() {
        return;
    }
    let cluster = Cluster::start(3, 0);
    let store = shared(&cluster.url(), PATIENT);
    let (one, two) = (named("one", long(3)), named("two", long(3)));
    let hostile = ["{x}", "x", "}{x}", "{", "}", "{}", "{}x", "a}b{c", "", "{x}{y}", "1:x}:p.one:f"];
    for key in hostile {
        let checks = [check(&one, key.into(), 1), check(&two, key.into(), 1)];
        for left in [2, 1, 0] {
            let decision = wait(store.decide(demand(&checks, &[]), PATIENT)).unwrap();
            assert_eq!(
                (decision.allowed, decision.remaining, decision.source),
                (true, left, Source::Exact),
                "{key}"
            );
        }
        assert!(!wait(store.decide(demand(&checks, &[]), PATIENT)).unwrap().allowed);
        assert_eq!(store.counts().undone, [0, 0], "limits on one key share a slot: {key}");
    }
    let parts = [Part::Bytes(b"x}"), Part::Bytes(b"{y")];
    let checks = [check(&one, Key::from(("x}", "{y")), 1)];
    assert!(wait(store.decide(demand(&checks, &[]), PATIENT)).unwrap().allowed, "{parts:?}");
    let keys: usize = (0..3).map(|node| cluster.node(node).keys().len()).sum();
    assert_eq!(keys, 2 * hostile.len() + 1);
    let slots: std::collections::BTreeSet<i64> = (0..3)
        .flat_map(|node| cluster.node(node).keys())
        .map(|key| cluster.node(0).command(&["CLUSTER", "KEYSLOT", &key]).good().int())
        .collect();
    assert!(slots.len() > hostile.len() / 2, "{slots:?}");
}

/// One limit has refused: no policy for another's silence lets the request pass.
#[test]
fn a_refusal_by_one_slot_stands_though_another_is_silent() {
    if is_left_out() {
        return;
    }
    let two = Two::start(1, 10);
    let store = shared(&two.cluster.url(), STRICT);
    assert!(two.ask(&shared(&two.cluster.url(), PATIENT), PATIENT).allowed);
    two.all_node().stop();
    for _ in 0..3 {
        let watch = Stopwatch::start();
        let refused = wait(store.decide(demand(&two.checks(), &[OnStoreError::Allow; 2]), STRICT)).unwrap();
        assert!(watch.elapsed() < STRICT + LATE, "{:?}", watch.elapsed());
        assert_eq!((refused.allowed, refused.reason), (false, Some(Reason::Limited)), "{refused:?}");
        assert!(refused.retry_after.is_some_and(|wait| wait > STRICT));
        let [all, user] = refused.limits() else { panic!("two limits") };
        assert!(!all.has_numbers() && user.has_numbers() && !user.allowed());
    }
    two.all_node().cont();
}
