//! Servers that answer with errors, are too old, or may evict; and two limits that never count together.

use std::time::Duration;

use ratekeeper::{
    Algorithm, Limit, Name, NamedLimit, OnStoreError, RedisStore, SharedStore, Source, Store as _,
    StoreError, Trouble, hours, minutes, seconds,
};
use ratekeeper_testkit::redis::{FakeRedis, RedisServer, Reply, Stopwatch, is_left_out, raw, wait_until};

use crate::subject::wait;
use crate::support::{
    LATE, PATIENT, STRICT, all_end, ask, ask_or, check, count, demand, each, long, named, peek, shared, state,
};

/// Each error that a server answers a script with, and its kind.
const ERRORS: [(&str, Trouble); 12] = [
    ("LOADING Redis is loading the dataset in memory", Trouble::Loading),
    ("CLUSTERDOWN The cluster is down", Trouble::Loading),
    ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", Trouble::Loading),
    (
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        Trouble::Other,
    ),
    (
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist",
        Trouble::Readonly,
    ),
    ("NOREPLICAS Not enough good replicas to write.", Trouble::Readonly),
    ("READONLY You can't write against a read only replica.", Trouble::Readonly),
    ("NOAUTH Authentication required.", Trouble::Auth),
    ("NOPERM this user has no permissions to run the 'evalsha' command", Trouble::Auth),
    ("OOM command not allowed when used memory > 'maxmemory'.", Trouble::Oom),
    ("WRONGTYPE Operation against a key holding the wrong kind of value", Trouble::Corrupt),
    ("ERR something nobody has thought of", Trouble::Other),
];

#[test]
fn b74_each_error_class_is_answered_by_the_policy_and_counted_as_its_kind() {
    if is_left_out() {
        return;
    }
    for (error, trouble) in ERRORS {
        let fake = FakeRedis::refusing_scripts(error);
        let store = shared(&fake.url(), STRICT);
        let limit = named("tries", long(5));
        let policies = [
            (OnStoreError::Local, Source::Local, true),
            (OnStoreError::Allow, Source::FailedOpen, true),
            (OnStoreError::Deny, Source::FailedClosed, false),
        ];
        for (otherwise, source, allowed) in policies {
            let watch = Stopwatch::start();
            let decision = ask_or(&store, &limit, "k", otherwise);
            assert!(watch.elapsed() < STRICT + LATE, "{error}: {:?}", watch.elapsed());
            assert_eq!((decision.source, decision.allowed), (source, allowed), "{error}");
        }
        let kind = Trouble::ALL.iter().position(|one| *one == trouble).unwrap();
        let counts = store.counts();
        // A replica is left: what comes later finds no connection.
        assert!(
            counts.errors[kind] >= 1 && (trouble == Trouble::Readonly || counts.errors[kind] >= 3),
            "{error}: {counts:?}"
        );
        let calls = fake.count("EVALSHA") + fake.count("EVAL");
        assert!(calls <= 6, "{error}: {calls} calls for three requests");
        let said = store.status().last_error.unwrap_or_default();
        let code = error.split(' ').next().unwrap();
        if matches!(trouble, Trouble::Auth | Trouble::Loading | Trouble::Oom) {
            assert!(said.contains(code), "{error}: {said}");
        }
        assert!(!said.contains("rk1:"), "{said}");
    }
}

#[test]
fn b74_a_server_that_is_well_again_is_asked_again() {
    if is_left_out() {
        return;
    }
    let fake = FakeRedis::refusing_scripts("LOADING Redis is loading the dataset in memory");
    let server = RedisServer::start();
    let proxy = ratekeeper_testkit::redis::FaultProxy::start(fake.port());
    let store = shared(&proxy.url(), STRICT);
    let limit = named("tries", long(50));
    wait_until("the breaker is open", seconds(2), || {
        let _ = ask(&store, &limit, "k", 1);
        store.status().breaker_is_open
    });
    proxy.set_target(server.port());
    proxy.cut(ratekeeper_testkit::redis::Close::Fin);
    wait_until("it is asked again", seconds(4), || ask(&store, &limit, "k", 1).source == Source::Exact);
    assert!(!store.status().breaker_is_open);
}

#[test]
fn b79_a_server_that_is_too_old_is_a_fatal_finding() {
    if is_left_out() {
        return;
    }
    let fake = FakeRedis::start(&["INFO", "EVAL", "EVALSHA", "SCRIPT"], |words| match &words[0][..] {
        b"INFO" => raw::bulk("# Server\r\nredis_version:6.0.16\r\nredis_mode:standalone\r\n"),
        b"SCRIPT" => raw::bulk("0000000000000000000000000000000000000000"),
        _ => raw::error("ERR Error running script (call to f_1): @user_script:1: ERR syntax error"),
    });
    let store = shared(&fake.url(), STRICT);
    let probe = wait(store.probe(PATIENT)).unwrap();
    assert_eq!(probe.server.as_deref(), Some("redis 6.0.16"));
    let old = probe.findings.iter().find(|finding| finding.message.contains("too old")).expect("it is said");
    assert!(old.is_fatal && old.hint.as_deref().is_some_and(|hint| hint.contains("6.2")), "{old:?}");
}

#[test]
fn b79_a_server_that_lets_nobody_in_is_a_fatal_finding() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::builder().user("limited", "on >secret ~other:* +@all").start();
    let url = server.url().replace("redis://", "redis://limited:secret@");
    let store = shared(&url, PATIENT);
    let probe = wait(store.probe(PATIENT)).unwrap();
    let first = &probe.findings[0];
    assert!(first.is_fatal && first.message.contains("NOPERM"), "{first:?}");
    assert_eq!(server.keys(), Vec::<String>::new());
}

#[test]
fn b89_a_server_that_may_evict_is_found_and_serves_all_the_same() {
    if is_left_out() {
        return;
    }
    for (policy, is_told) in
        [("allkeys-lru", true), ("volatile-lru", true), ("noeviction", false), ("volatile-ttl", false)]
    {
        let server = RedisServer::builder().config("maxmemory-policy", policy).start();
        let store = shared(&server.url(), PATIENT);
        let probe = wait(store.probe(PATIENT)).unwrap();
        assert_eq!(probe.maxmemory_policy.as_deref(), Some(policy));
        assert_eq!(probe.findings.len(), usize::from(is_told), "{:?}", probe.findings);
        assert!(probe.findings.iter().all(|finding| !finding.is_fatal && finding.message.contains(policy)));
        assert!(
            probe.server.is_some_and(|server| server.starts_with("redis ") || server.starts_with("valkey "))
        );
        assert_eq!(server.keys(), Vec::<String>::new(), "a probe leaves nothing behind");
        assert!(ask(&store, &named("tries", long(5)), "k", 1).allowed);
    }
}

#[test]
fn b86_two_policies_never_count_together() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    let of = |policy: &str, amount| {
        NamedLimit::new(
            &Name::new(policy).unwrap(),
            Name::new("minute").unwrap(),
            Limit::per(amount, hours(24)),
        )
    };
    let (small, large) = (of("p1", 2), of("p2", 200));
    for _ in 0..3 {
        assert!(ask(&store, &large, "k", 1).allowed);
    }
    let decision = ask(&store, &small, "k", 1);
    assert_eq!((decision.allowed, decision.remaining), (true, 1));
}

/// W6: windows of two lengths on one key are two counts, and one key twice in a request counts twice.
#[test]
fn limits_of_one_key_count_apart_and_a_limit_that_is_named_twice_counts_both() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    let fixed =
        |name, amount, window| named(name, Limit::per(amount, window).algorithm(Algorithm::FixedWindow));
    let (minute, hour) = (fixed("minute", 5, minutes(24 * 60)), fixed("hour", 50, hours(24 * 100)));
    let checks = [check(&minute, "k".into(), 2), check(&hour, "k".into(), 2), check(&minute, "k".into(), 1)];
    let decision = wait(store.decide(demand(&checks, &[]), PATIENT)).unwrap();
    assert!(decision.allowed);
    assert_eq!((count(&server, &minute, "k"), count(&server, &hour, "k")), (3, 2));
    let decision = wait(store.decide(demand(&checks, &[]), PATIENT)).unwrap();
    assert!(!decision.allowed, "two are left, and three are asked for: {decision:?}");
    assert_eq!((count(&server, &minute, "k"), count(&server, &hour, "k")), (3, 2));
}

#[test]
fn b116_parts_of_a_key_never_run_together() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    let limit = named("tries", long(5));
    let keys: [ratekeeper::Key<'_>; 6] =
        [("aa", "b").into(), ("a", "ab").into(), "aab".into(), "7".into(), 7_u64.into(), "2:aa1:b".into()];
    for key in keys {
        let decision = wait(store.decide(demand(&[check(&limit, key, 1)], &[]), PATIENT)).unwrap();
        assert_eq!((decision.allowed, decision.remaining), (true, 4), "{key:?}");
    }
    assert_eq!(server.keys().len(), keys.len());
}

/// B88: tokens that are used by several callers at once give back no more than was taken.
#[test]
fn b88_concurrent_refunds_bring_no_count_below_nothing() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let redis = RedisStore::builder(server.url().parse().unwrap()).timeout(PATIENT).build().unwrap();
    for limit in each(5, hours(24)) {
        let one = || [check(&limit, "k".into(), 1)];
        let decided: Vec<_> =
            (0..5).map(|_| wait(redis.decide(&one(), ratekeeper::Ask::Acquire)).unwrap()).collect();
        assert!(decided.iter().all(|decision| decision.allowed));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for decision in &decided {
                        let token = decision.limits()[0].token().unwrap();
                        wait(redis.refund(&[(check(&limit, "k".into(), 1), token)])).unwrap();
                    }
                });
            }
        });
        let admitted =
            (0..10).filter(|_| wait(redis.decide(&one(), ratekeeper::Ask::Acquire)).unwrap().allowed);
        assert!(admitted.count() <= 5, "{limit:?}");
        all_end(&[&server], Duration::from_hours(48));
        wait(redis.reset(&one())).unwrap();
    }
}

/// B57: numbers whose product passes 2^53 are exact in scripts.
/// More than one command has room for.
#[test]
fn three_hundred_keys_are_reset_at_once() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let redis = RedisStore::builder(server.url().parse().unwrap()).timeout(PATIENT).build().unwrap();
    let limit = named("tries", long(5));
    let keys: Vec<String> = (0..300).map(|n| format!("k{n}")).collect();
    let one = |key: &'static str| [check(&limit, key.into(), 1)];
    let _ = wait(redis.decide(&one("k0"), ratekeeper::Ask::Acquire)).unwrap();
    let _ = wait(redis.decide(&one("k299"), ratekeeper::Ask::Acquire)).unwrap();
    let all: Vec<_> = keys.iter().map(|key| check(&limit, key.as_str().into(), 1)).collect();
    wait(redis.reset(&all)).unwrap();
    assert!(server.keys().is_empty());
}

#[test]
fn b57_the_largest_limits_count_to_the_unit() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    let year = hours(24 * 366);
    let most = ratekeeper::MAX_AMOUNT;
    for algorithm in [Algorithm::TokenBucket, Algorithm::FixedWindow, Algorithm::SlidingWindowCounter] {
        let limit = named(algorithm.name(), Limit::per(most, year).algorithm(algorithm));
        let first = ask(&store, &limit, "k", most - 2);
        // A bucket refills a unit in 32 ms.
        assert!(first.allowed && (2..=4).contains(&first.remaining), "{first:?}");
        let rest = first.remaining;
        let second = ask(&store, &limit, "k", rest);
        assert!(second.allowed && second.remaining <= 2, "{second:?}");
        // A bucket's instant is eight bytes, its numbers are text.
        let Reply::Bulk(mut value) = server.command(&["GET", &state(&limit, "k")]).good() else { panic!() };
        let text = if algorithm == Algorithm::TokenBucket { value.split_off(8) } else { value };
        let value = String::from_utf8(text).expect("numbers are digits");
        assert!(value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":/|".contains(&byte)), "{value}");
        assert!(!value.contains("e+") && !value.contains("inf") && !value.contains("nan"), "{value}");
    }
}

/// Windows that no network can decide, and more limits than there may be, are refused before anybody is asked.
#[test]
fn b60_what_cannot_be_asked_is_refused_without_a_command() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store: SharedStore = shared(&server.url(), PATIENT);
    let commands = store.counts().commands;
    let short = named("short", Limit::per(1, Duration::from_micros(999)));
    let refused = wait(store.decide(demand(&[check(&short, "k".into(), 1)], &[]), PATIENT));
    assert!(matches!(refused, Err(StoreError::WindowTooShort)));
    let limit = named("tries", long(5));
    let many = vec![check(&limit, "k".into(), 1); ratekeeper::MAX_LIMITS + 1];
    assert!(matches!(wait(store.decide(demand(&many, &[]), PATIENT)), Err(StoreError::TooManyLimits)));
    assert_eq!(store.counts().commands, commands);
    let half = named("half", Limit::per(2, Duration::from_millis(500)));
    assert!(ask(&store, &half, "k", 1).allowed);
    assert!(peek(&store, &half, "k", 0).remaining >= 1);
}

/// B45: what a script is asked says nothing of the caller's clock, so wrong ones do no harm.
#[test]
fn b45_no_clock_of_a_caller_takes_part_in_a_decision() {
    if is_left_out() {
        return;
    }
    let fake = FakeRedis::refusing_scripts("OOM command not allowed when used memory > 'maxmemory'.");
    let limits = each(10, minutes(1));
    let checks: Vec<_> = limits.iter().map(|limit| check(limit, "k".into(), 1)).collect();
    for _ in 0..2 {
        let store = shared(&fake.url(), PATIENT);
        let decision = wait(store.decide(demand(&checks, &[]), PATIENT)).unwrap();
        assert_eq!(decision.source, Source::Local);
        crate::support::pause(30);
    }
    let asked: Vec<_> = fake.commands().into_iter().filter(|words| words[0] == b"EVALSHA").collect();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0], asked[1]);
}
