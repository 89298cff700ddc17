//! Servers that die, stop, forget and are full: the fault table, row by row.

use std::time::Duration;

use ratekeeper::{Algorithm, Limit, NamedLimit, OnStoreError, Source, Trouble, millis, seconds};
use ratekeeper_testkit::redis::history::Outcome;
use ratekeeper_testkit::redis::{AppendFsync, RedisServer, is_left_out, wait_until};

use crate::subject::wait;
use crate::support::{
    Load, PATIENT, RECOVERY, STRICT, all_end, ask, ask_or, check, count, demand, each, full_again, long,
    named, pause, peek, shared,
};

/// Short enough that a test sees windows pass, long enough that they are used up.
fn busy() -> Vec<NamedLimit> {
    each(15, millis(400))
}

const LONGEST: Duration = Duration::from_millis(800);

#[test]
fn a_killed_server_without_a_log_forgets_one_capacity_at_most() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), STRICT);
    let limits = busy();
    let mut back_us = 0;
    let history = Load::new(&store, &limits).during(|recorder| {
        pause(500);
        server.kill();
        pause(300);
        server.restart();
        back_us = recorder.now_us();
        wait_until("it is asked again", RECOVERY, || store.status().is_up);
        pause(500);
    });
    history.keeps_the_theorem(1);
    history.is_in_time(STRICT);
    assert!(history.by(Source::Local).count() > 0);
    let recovered_us = history.exact_after(back_us).expect("it answers again") - back_us;
    assert!(Duration::from_micros(recovered_us) < RECOVERY, "{recovered_us} us");
    all_end(&[&server], LONGEST);
    full_again(&server.url(), &limits, "k");
}

#[test]
fn a_killed_server_with_a_log_that_is_always_written_forgets_nothing() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::builder().appendonly(AppendFsync::Always).start();
    let store = shared(&server.url(), STRICT);
    let limits = busy();
    let lasting = [named("lasting", long(1_000_000))];
    let both = [&limits[..], &lasting].concat();
    let history = Load::new(&store, &both).during(|_| {
        pause(400);
        server.kill();
        server.restart();
        wait_until("it is asked again", RECOVERY, || store.status().is_up);
        pause(400);
    });
    history.keeps_the_theorem(0);
    history.is_in_time(STRICT);
    let key = crate::support::state(&lasting[0], "k");
    let exact = history.admitted(&key, |source| source == Source::Exact).len() as u64;
    let all = history.admitted(&key, |_| true).len() as u64;
    let stored = count(&server, &lasting[0], "k");
    // Nothing that was told is forgotten; what was not is at most what was on its way when the server died.
    assert!(exact <= stored && stored <= all, "{exact} <= {stored} <= {all}");
    all_end(&[&server], Duration::from_hours(24 * 366));
    full_again(&server.url(), &limits, "k");
}

#[test]
fn a_stopped_server_costs_what_was_on_its_way_and_nobody_waits_for_it() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), STRICT);
    let limits = busy();
    let lasting = [named("lasting", long(1_000_000))];
    let both = [&limits[..], &lasting].concat();
    let mut back_us = 0;
    let history = Load::new(&store, &both).during(|recorder| {
        pause(400);
        server.stop();
        pause(1_500);
        server.cont();
        back_us = recorder.now_us();
        wait_until("it is asked again", RECOVERY, || store.status().is_up);
        pause(400);
    });
    history.keeps_the_theorem(0);
    history.is_in_time(STRICT);
    assert!(history.exact_after(back_us).is_some());
    let key = crate::support::state(&lasting[0], "k");
    wait_until("what is owed is paid", RECOVERY, || {
        let _ = ask(&store, &lasting[0], "other", 1);
        store.status().owed == 0
    });
    pause(50);
    let all = history.admitted(&key, |_| true).len() as u64;
    let stored = count(&server, &lasting[0], "k");
    // What was under way when it stopped runs when it goes on, and is not debited a second time: between none and
    // all of those have run. Each caller had at most five on the way until the breaker opened.
    let exact = history.admitted(&key, |source| source == Source::Exact).len() as u64;
    assert!(exact <= stored && stored <= all, "{exact} <= {stored} <= {all}");
    assert!(all - stored <= 4 * 5, "{stored} of {all}");
    all_end(&[&server], Duration::from_hours(24 * 366));
    full_again(&server.url(), &limits, "k");
}

#[test]
fn b67_scripts_that_are_flushed_all_the_time_change_no_count() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    let limits = [named("one", long(1_000_000)), named("two", long(1_000_000))];
    let load = Load { within: PATIENT, pace: Duration::ZERO, ..Load::new(&store, &limits) };
    let history = load.during(|_| {
        for _ in 0..150 {
            server.flush_scripts();
            pause(2);
        }
    });
    assert!(history.answers.iter().all(|answered| answered.source == Source::Exact));
    for limit in &limits {
        let admitted = history.admitted(&crate::support::state(limit, "k"), |_| true).len() as u64;
        assert_eq!(count(&server, limit, "k"), admitted);
    }
    assert!(store.counts().script_reloads > 0);
    assert_eq!(store.counts().errors.iter().sum::<u64>(), 0);
    // Each kind of call, right after a flush, and after a restart.
    let (decided, checks) =
        (&limits[0], [check(&limits[0], "x".into(), 2), check(&limits[1], "y".into(), 3)]);
    for _ in 0..2 {
        server.flush_scripts();
        let (decision, held) = wait(store.reserve(demand(&checks, &[]), PATIENT)).unwrap();
        assert!(decision.allowed && decision.source == Source::Exact);
        server.flush_scripts();
        assert_eq!(wait(held.unwrap().settle(1, PATIENT)), 1);
        server.flush_scripts();
        assert_eq!(peek(&store, decided, "x", 0).remaining, 999_999);
        server.flush_scripts();
        wait(store.reset(&checks, PATIENT)).unwrap();
        assert_eq!(peek(&store, decided, "x", 0).remaining, 1_000_000);
        server.restart();
        wait_until("it is asked again", RECOVERY, || peek(&store, decided, "x", 0).source == Source::Exact);
    }
}

#[test]
fn a_server_without_memory_writes_nothing_and_the_policy_answers() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    let limits = each(10, seconds(3_600));
    let before: Vec<_> = limits.iter().map(|limit| ask(&store, limit, "k", 1)).collect();
    assert!(before.iter().all(|decision| decision.source == Source::Exact));
    let changes = || server.info("persistence")["rdb_changes_since_last_save"].clone();
    let unchanged = changes();
    server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).good();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).good();
    let checks: Vec<_> = limits.iter().map(|limit| check(limit, "k".into(), 1)).collect();
    let one_queue: Vec<_> = checks.clone();
    let decision = wait(store.decide(demand(&one_queue, &[]), PATIENT)).unwrap();
    assert!(decision.allowed && decision.source == Source::Local, "{decision:?}");
    let denied = ask_or(&store, &limits[0], "k", OnStoreError::Deny);
    assert_eq!(denied.source, Source::FailedClosed);
    assert!(store.status().last_error.is_some_and(|error| error.contains("OOM")), "{:?}", store.status());
    let oom = Trouble::ALL.iter().position(|trouble| *trouble == Trouble::Oom).unwrap();
    assert!(store.counts().errors[oom] >= 2, "{:?}", store.counts());
    assert_eq!(changes(), unchanged, "nothing is written in part");
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).good();
    for limit in &limits {
        wait_until("what is owed is paid", RECOVERY, || {
            peek(&store, limit, "k", 0).source == Source::Exact && store.status().owed == 0
        });
    }
    wait_until("the servers know", RECOVERY, || {
        limits.iter().all(|limit| peek(&store, limit, "k", 0).remaining == 8)
    });
    all_end(&[&server], Duration::from_hours(2));
}

#[test]
fn each_evicted_key_costs_one_capacity_at_most() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::builder().config("maxmemory-policy", "allkeys-random").start();
    let store = shared(&server.url(), PATIENT);
    let limits = [named("bucket", Limit::per(5, seconds(600)))];
    let mut evicted = 0;
    let history = Load { within: PATIENT, ..Load::new(&store, &limits) }.during(|_| {
        pause(100);
        for _ in 0..3 {
            // Everything that is there goes at once.
            server.command(&["CONFIG", "SET", "maxmemory", "1"]).good();
            server.command(&["CONFIG", "SET", "maxmemory", "0"]).good();
            pause(1_100);
        }
        evicted = server.info("stats")["evicted_keys"].parse().unwrap();
    });
    assert!(evicted > 0, "the server has evicted");
    history.keeps_the_theorem(evicted);
    let admitted = history.answers.iter().filter(|answered| answered.event.outcome == Outcome::Allowed);
    assert!(admitted.count() as u64 >= 10, "what was forgotten is given anew");
    all_end(&[&server], Duration::from_mins(10));
}

#[test]
fn cut_connections_leave_no_key_without_an_end_and_debit_nothing_twice() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), STRICT);
    let limits = busy();
    let lasting = [named("lasting", long(1_000_000))];
    let both = [&limits[..], &lasting].concat();
    let history = Load { pace: millis(1), ..Load::new(&store, &both) }.during(|_| {
        for _ in 0..8 {
            pause(150);
            server.command(&["CLIENT", "KILL", "TYPE", "normal"]).good();
        }
        wait_until("it is asked again", RECOVERY, || store.status().is_up);
        pause(300);
    });
    history.keeps_the_theorem(0);
    history.is_in_time(STRICT);
    wait_until("what is owed is paid", RECOVERY, || {
        let _ = ask(&store, &lasting[0], "other", 1);
        store.status().owed == 0
    });
    pause(50);
    let key = crate::support::state(&lasting[0], "k");
    let all = history.admitted(&key, |_| true).len() as u64;
    let exact = history.admitted(&key, |source| source == Source::Exact).len() as u64;
    let stored = count(&server, &lasting[0], "k");
    assert!(exact <= stored && stored <= all, "{exact} <= {stored} <= {all}");
    all_end(&[&server], Duration::from_hours(24 * 366));
    full_again(&server.url(), &limits, "k");
}

/// B81: a paused server is not asked by a growing crowd.
#[test]
fn b81_two_thousand_callers_of_a_paused_server_are_answered_in_time() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), STRICT);
    let limit = named("tries", Limit::per_second(1_000).algorithm(Algorithm::FixedWindow));
    assert!(ask(&store, &limit, "k", 1).allowed);
    server.stop();
    let keys: Vec<String> = (0..2_000).map(|n| format!("user-{n}")).collect();
    let checks: Vec<_> = keys.iter().map(|key| [check(&limit, key.as_str().into(), 1)]).collect();
    let demands: Vec<_> = checks.iter().map(|checks| demand(checks, &[])).collect();
    let watch = ratekeeper_testkit::redis::Stopwatch::start();
    let answers = wait(store.decide_batch(&demands, STRICT));
    assert!(watch.elapsed() < STRICT + crate::support::LATE, "{:?}", watch.elapsed());
    assert!(answers.iter().all(|answer| answer.as_ref().unwrap().source == Source::Local));
    server.cont();
    let took =
        wait_until("the servers answer", RECOVERY, || ask(&store, &limit, "k", 1).source == Source::Exact);
    assert!(took < RECOVERY);
    let clients: u64 = server.info("clients")["connected_clients"].parse().unwrap();
    assert!(clients < 10, "{clients} connections");
}
