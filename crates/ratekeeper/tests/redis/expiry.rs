//! How long states are kept, what writes them, and what does not.

use ratekeeper::{
    Algorithm, Decision, Limit, NamedLimit, OnStoreError, SharedStore, Source, hours, millis, seconds,
};
use ratekeeper_testkit::redis::{RedisServer, Reply, Ttl, is_left_out, wait_until};

use crate::subject::wait;
use crate::support::{PATIENT, ask, check, demand, each, long, named, pause, peek, shared, state};

/// F of a limit, by what it says: the server's time when it is fresh.
#[track_caller]
fn ends_when_fresh(server: &RedisServer, store: &SharedStore, limit: &NamedLimit, cost: u64) {
    let before = server.time_us();
    let decision = ask(store, limit, "k", cost);
    let after = server.time_us();
    assert!(decision.allowed && decision.source == Source::Exact, "{decision:?}");
    let reset_us = i64::try_from(decision.reset_after.as_micros()).unwrap();
    let (unix_ms, left_ms) = match server.ttl(&state(limit, "k")) {
        Ttl::At { unix_ms, left_ms } => (unix_ms, left_ms),
        // So short a state may have ended before we looked.
        Ttl::Missing if server.time_us() > before + reset_us => return,
        other => panic!("{limit:?}: {other:?}"),
    };
    let unix_ms = i64::try_from(unix_ms).unwrap();
    let (first, last) = ((before + reset_us) / 1_000 + 1, (after + reset_us) / 1_000 + 1);
    assert!((first..=last).contains(&unix_ms), "{limit:?}: {unix_ms} not in {first}..={last}");
    // B62: in the right unit.
    let reset_ms = u64::try_from(reset_us / 1_000).unwrap();
    assert!(left_ms <= reset_ms + 1_000, "{limit:?}: {left_ms} ms");
}

#[test]
fn b62_every_key_ends_in_the_millisecond_after_it_is_fresh() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    let shapes =
        [(7, millis(100)), (3, seconds(60)), (11, hours(24)), (13, hours(24 * 100)), (1_000, seconds(1))];
    for (amount, window) in shapes {
        for limit in each(amount, window) {
            for cost in [1, amount / 2] {
                ends_when_fresh(&server, &store, &limit, cost.max(1));
            }
            wait(store.reset(&[check(&limit, "k".into(), 0)], PATIENT)).unwrap();
        }
        assert_eq!(server.keys(), Vec::<String>::new());
    }
}

#[test]
fn an_ended_key_is_fresh_and_a_fresh_key_has_ended() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    let limits = each(10, millis(300));
    let longest = limits.iter().map(|limit| ask(&store, limit, "k", 10).reset_after).max().unwrap();
    // The server has a real clock, and expires keys by it.
    std::thread::sleep(longest + millis(3));
    assert_eq!(server.keys(), Vec::<String>::new());
    for limit in &limits {
        let decision = ask(&store, limit, "k", 10);
        assert!(decision.allowed && decision.source == Source::Exact, "{decision:?}");
    }
}

/// What is stored: bytes, and when it ends.
fn stored(server: &RedisServer) -> Vec<(String, Reply, u64)> {
    let one = |key: String| {
        let Ttl::At { unix_ms, .. } = server.ttl(&key) else { panic!("{key} has no end") };
        let dump = server.command(&["DUMP", &key]).good();
        (key, dump, unix_ms)
    };
    server.keys().into_iter().map(one).collect()
}

fn changes(server: &RedisServer) -> u64 {
    server.info("persistence")["rdb_changes_since_last_save"].parse().unwrap()
}

#[test]
fn b15_refusals_looks_and_requests_for_nothing_write_nothing() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let limits = each(10, hours(24));
    let asked = shared(&server.url(), PATIENT);
    for limit in &limits {
        assert!(ask(&asked, limit, "k", 8).allowed);
    }
    let (before, unchanged) = (stored(&server), changes(&server));
    assert_eq!(before.len(), limits.len());
    for _ in 0..3 {
        // A store that remembers nothing yet: each refusal is the server's.
        let store = shared(&server.url(), PATIENT);
        for limit in &limits {
            let refused = ask(&store, limit, "k", 3);
            assert!(!refused.allowed && refused.source == Source::Exact, "{refused:?}");
            assert!(peek(&store, limit, "k", 2).allowed && !peek(&store, limit, "k", 3).allowed);
            assert!(ask(&store, limit, "k", 0).allowed);
            let never = ask(&store, limit, "k", 11);
            assert_eq!((never.allowed, never.retry_after), (false, None));
            assert!(peek(&store, limit, "fresh", 1).allowed && ask(&store, limit, "fresh", 0).allowed);
        }
        let all: Vec<_> = limits.iter().map(|limit| check(limit, "k".into(), 1)).collect();
        let one_too_many = [&all[..], &[check(&limits[0], "k".into(), 2)]].concat();
        assert!(!wait(store.decide(demand(&one_too_many, &[]), PATIENT)).unwrap().allowed);
    }
    assert_eq!((stored(&server), changes(&server)), (before, unchanged));
}

#[test]
fn b15_an_emptied_bucket_is_remembered_until_it_is_full() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    let limit = named("bucket", Limit::per(1, millis(400)).burst(3));
    for _ in 0..3 {
        assert!(ask(&store, &limit, "k", 1).allowed);
    }
    let Ttl::At { unix_ms, left_ms } = server.ttl(&state(&limit, "k")) else { panic!("it has an end") };
    assert!(left_ms > 900, "{left_ms}");
    let refused = ask(&store, &limit, "k", 1);
    for _ in 0..10 {
        assert!(!ask(&store, &limit, "k", 1).allowed);
    }
    assert!(matches!(server.ttl(&state(&limit, "k")), Ttl::At { unix_ms: now, .. } if now == unix_ms));
    // The server has a real clock.
    std::thread::sleep(refused.retry_after.unwrap() + millis(1));
    let decision = ask(&store, &limit, "k", 1);
    assert!(decision.allowed && decision.remaining == 0, "{decision:?}");
}

#[test]
fn b84_a_reset_leaves_nothing_behind() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    let limits = each(10, millis(500));
    for _ in 0..2 {
        for limit in &limits {
            while ask(&store, limit, "k", 1).allowed {}
        }
        pause(500);
    }
    for limit in &limits {
        let _ = ask(&store, limit, "k", 5);
    }
    let checks: Vec<_> = limits.iter().map(|limit| check(limit, "k".into(), 0)).collect();
    wait(store.reset(&checks, PATIENT)).unwrap();
    assert_eq!(server.keys(), Vec::<String>::new());
    for limit in &limits {
        let decision = ask(&store, limit, "k", 1);
        assert_eq!(
            (decision.allowed, decision.remaining, decision.source),
            (true, 9, Source::Exact),
            "{limit:?}"
        );
    }
}

/// B63 (b): a key whose end was taken away has one again after its next change, and is read by what it says itself.
#[test]
fn b63_a_key_that_was_persisted_is_read_by_its_own_times_and_ends_again() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    let limits = each(10, millis(300));
    for limit in &limits {
        assert!(ask(&store, limit, "k", 10).allowed);
        server.command(&["PERSIST", &state(limit, "k")]).good();
    }
    pause(650);
    assert_eq!(server.keys().len(), limits.len(), "they are there");
    for limit in &limits {
        let decision = ask(&store, limit, "k", 10);
        assert!(decision.allowed && decision.source == Source::Exact, "{decision:?}");
        assert!(matches!(server.ttl(&state(limit, "k")), Ttl::At { .. }), "{limit:?}");
    }
}

/// B59: what cannot be read is not taken for nothing, and not overwritten.
#[test]
fn b59_a_value_that_is_not_ours_is_an_error_and_is_left_alone() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    let other = named("other", long(1_000));
    let corrupt =
        ratekeeper::Trouble::ALL.iter().position(|trouble| *trouble == ratekeeper::Trouble::Corrupt);
    let mut others = 0;
    for limit in &each(10, hours(24)) {
        let key = state(limit, "k");
        let mut bad: Vec<Vec<&str>> = Vec::new();
        if limit.limit().kind() == Algorithm::SlidingWindowLog {
            bad.extend([vec!["ZADD", &key, "1e+30", "inf"], vec!["ZADD", &key, "5", "-nan"]]);
            bad.extend([vec!["ZADD", &key, "5", ""], vec!["SET", &key, "1"]]);
        } else {
            let values = ["inf", "-nan", "1e+30", "", "-0", "12", "99999999999999999999", "0000000000000001"];
            bad.extend(values.map(|value| vec!["SET", &key, value]));
            bad.push(vec!["ZADD", &key, "1", "x"]);
        }
        bad.extend([vec!["HSET", &key, "a", "1"], vec!["RPUSH", &key, "1"]]);
        for words in bad {
            server.command(&["DEL", &key]).good();
            server.command(&words).good();
            let value = server.command(&["DUMP", &key]).good();
            let before = store.counts().errors[corrupt.unwrap()];
            let broken = [check(limit, "k".into(), 1)];
            let well = [check(&other, "well".into(), 1)];
            let both = [check(limit, "k".into(), 1), check(&other, "well".into(), 1)];
            let (allow, deny) = ([OnStoreError::Allow; 2], [OnStoreError::Deny; 2]);
            let demands = [
                demand(&broken, &allow),
                demand(&well, &allow),
                demand(&both, &deny),
                demand(&broken, &deny),
            ];
            let answers = wait(store.decide_batch(&demands, PATIENT));
            let answers: Vec<&Decision> = answers.iter().map(|answer| answer.as_ref().unwrap()).collect();
            others += 1;
            assert_eq!((answers[0].source, answers[0].allowed), (Source::FailedOpen, true), "{words:?}");
            assert_eq!(
                (answers[1].source, answers[1].remaining),
                (Source::Exact, 1_000 - others),
                "{words:?}"
            );
            for denied in &answers[2..] {
                assert_eq!((denied.source, denied.allowed), (Source::FailedClosed, false), "{words:?}");
            }
            assert_eq!(ask(&store, limit, "k", 1).source, Source::Local, "{words:?}");
            assert_eq!(server.command(&["DUMP", &key]).good(), value, "{words:?}");
            assert!(store.counts().errors[corrupt.unwrap()] >= before + 3, "{words:?}");
            assert!(!store.status().breaker_is_open, "one bad key is no bad store");
        }
        // Forgetting it is how it is repaired.
        wait(store.reset(&[check(limit, "k".into(), 0)], PATIENT)).unwrap();
        wait_until("it is counted again", PATIENT, || ask(&store, limit, "k", 1).source == Source::Exact);
    }
}
