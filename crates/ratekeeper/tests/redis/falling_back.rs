//! What answers when the servers do not: a share, or nobody; and what the servers learn of it afterwards.

use std::time::Duration;

use ratekeeper::{Algorithm, OnStoreError, Reason, Source, Trouble, millis};
use ratekeeper_testkit::redis::{Close, FaultProxy, RedisServer, is_left_out, wait_until};

use crate::subject::wait;
use crate::support::{
    PATIENT, RECOVERY, STRICT, ask, ask_or, check, count, demand, long, named, peek, share_of, shared, state,
};

#[test]
fn a_share_is_debited_all_the_time_so_that_switching_to_it_does_not_start_full() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = share_of(&server.url(), STRICT, 2);
    let limit = named("tries", long(20));
    // Eight of this instance's share of ten are used while the servers answer.
    for _ in 0..8 {
        let decision = ask(&store, &limit, "k", 1);
        assert!(decision.allowed && decision.source == Source::Exact, "{decision:?}");
    }
    server.kill();
    let answers: Vec<_> = (0..6).map(|_| ask(&store, &limit, "k", 1)).collect();
    assert!(answers.iter().all(|answer| answer.source == Source::Local), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| answer.allowed).count(), 2, "{answers:?}");
    let refused = &answers[5];
    assert_eq!((refused.remaining, refused.reason), (0, Some(Reason::Limited)));
    assert_eq!(refused.limits()[0].limit().capacity(), 10, "what it says is of the share");
}

#[test]
fn what_was_admitted_alone_is_debited_when_the_servers_are_back() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port());
    let store = share_of(&proxy.url(), STRICT, 2);
    let limit = named("tries", long(20));
    assert!(ask(&store, &limit, "k", 1).allowed);
    proxy.refuse();
    proxy.cut(Close::Rst);
    wait_until("it is alone", RECOVERY, || ask(&store, &limit, "k", 0).source == Source::Local);
    let admitted = (0..20).filter(|_| ask(&store, &limit, "k", 1).allowed).count();
    assert_eq!(admitted, 9, "the rest of its share");
    assert_eq!(count(&server, &limit, "k"), 1);
    assert_eq!(store.status().owed, 1);
    proxy.accept();
    wait_until("the servers answer", RECOVERY, || peek(&store, &limit, "k", 0).source == Source::Exact);
    wait_until("the servers know", RECOVERY, || count(&server, &limit, "k") == 10);
    assert_eq!(store.status().owed, 0);
    // Another instance finds the rest.
    let other = shared(&server.url(), PATIENT);
    assert_eq!(ask(&other, &limit, "k", 0).remaining, 10);
    assert_eq!(count(&server, &limit, "k"), 10, "and it is debited once");
}

#[test]
fn more_than_fits_is_owed_and_takes_no_more_than_there_is() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port());
    let store = shared(&proxy.url(), STRICT);
    let other = shared(&server.url(), PATIENT);
    let limit = named("tries", long(10));
    proxy.refuse();
    proxy.cut(Close::Fin);
    wait_until("it is alone", RECOVERY, || ask(&store, &limit, "k", 0).source == Source::Local);
    assert_eq!((0..20).filter(|_| ask(&store, &limit, "k", 1).allowed).count(), 10);
    assert_eq!((0..7).filter(|_| ask(&other, &limit, "k", 1).allowed).count(), 7);
    proxy.accept();
    wait_until("the servers answer", RECOVERY, || peek(&store, &limit, "k", 0).source == Source::Exact);
    wait_until("the servers know", RECOVERY, || count(&server, &limit, "k") == 10);
}

#[test]
fn each_policy_says_what_becomes_of_it_without_the_servers() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), STRICT);
    let limit = named("tries", long(5));
    assert!(ask(&store, &limit, "k", 1).allowed);
    server.kill();
    for _ in 0..10 {
        let allowed = ask_or(&store, &limit, "k", OnStoreError::Allow);
        assert!(allowed.allowed && allowed.source == Source::FailedOpen, "{allowed:?}");
        assert!(!allowed.limits()[0].has_numbers() && allowed.remaining == u64::MAX);
        let denied = ask_or(&store, &limit, "k", OnStoreError::Deny);
        assert!(!denied.allowed && denied.source == Source::FailedClosed, "{denied:?}");
        assert_eq!(denied.reason, Some(Reason::StoreUnavailable));
        assert_eq!(denied.retry_after, Some(Duration::from_secs(1)));
    }
    assert_eq!((0..9).filter(|_| ask(&store, &limit, "k", 1).allowed).count(), 4);
}

#[test]
fn a_limit_that_denies_without_the_servers_keeps_the_others_untouched() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), STRICT);
    let (local, denying) = (named("local", long(5)), named("denying", long(5)));
    server.kill();
    let checks = [check(&local, "k".into(), 1), check(&denying, "k".into(), 1)];
    let otherwise = [OnStoreError::Local, OnStoreError::Deny];
    for _ in 0..8 {
        let decision = wait(store.decide(demand(&checks, &otherwise), STRICT)).unwrap();
        assert!(!decision.allowed && decision.limits()[0].allowed(), "{decision:?}");
    }
    assert_eq!(store.status().owed, 0);
    assert_eq!(ask(&store, &local, "k", 1).remaining, 4);
}

#[test]
fn a_reservation_that_is_dropped_gives_its_units_back() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    for limit in [named("fixed", long(5)), named("log", long(5).algorithm(Algorithm::SlidingWindowLog))] {
        let checks = [check(&limit, "k".into(), 3)];
        for _ in 0..20 {
            let (decision, held) = wait(store.reserve(demand(&checks, &[]), PATIENT)).unwrap();
            assert!(decision.allowed && decision.source == Source::Exact, "{decision:?}");
            drop(held);
            wait_until("the units are back", PATIENT, || peek(&store, &limit, "k", 0).remaining == 5);
        }
        assert_eq!(server.keys(), Vec::<String>::new());
    }
}

#[test]
fn a_reservation_settles_for_what_it_has_cost() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    let limit = named("fixed", long(10));
    let checks = [check(&limit, "k".into(), 4)];
    for (actual, charged, stored) in [(1, 1, 1), (6, 6, 7), (9, 4, 10)] {
        let (decision, held) = wait(store.reserve(demand(&checks, &[]), PATIENT)).unwrap();
        // The third finds three only.
        let Some(held) = held else {
            assert!(!decision.allowed && decision.remaining == 3);
            continue;
        };
        assert_eq!(wait(held.settle(actual, PATIENT)), charged);
        assert_eq!(count(&server, &limit, "k"), stored);
    }
    let checks = [check(&limit, "other".into(), 4)];
    let (_, held) = wait(store.reserve(demand(&checks, &[]), PATIENT)).unwrap();
    wait(held.expect("it is allowed").cancel(PATIENT));
    assert_eq!(server.keys(), [state(&limit, "k")]);
    let (_, held) = wait(store.reserve(demand(&checks, &[]), PATIENT)).unwrap();
    held.expect("it is allowed").keep();
    // What would be debited wrongly takes its way to the server and back.
    std::thread::sleep(millis(20));
    assert_eq!(count(&server, &limit, "other"), 4);
}

/// One key that cannot be read says that the server answers: nobody else is kept from asking it.
#[test]
fn a_server_that_answers_of_a_bad_key_is_a_server_that_is_back() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port());
    let store = shared(&proxy.url(), STRICT);
    let limit = named("tries", long(5));
    server.command(&["SET", &state(&limit, "bad"), "inf"]).good();
    proxy.refuse();
    proxy.cut(Close::Fin);
    wait_until("the breaker is open", RECOVERY, || {
        let _ = ask(&store, &limit, "bad", 1);
        store.status().breaker_is_open
    });
    proxy.accept();
    wait_until("it is asked again", RECOVERY, || {
        assert_eq!(ask(&store, &limit, "bad", 1).source, Source::Local);
        !store.status().breaker_is_open
    });
    let open = Trouble::ALL.iter().position(|trouble| *trouble == Trouble::Open);
    assert!(store.counts().errors[open.unwrap()] > 0, "it was not asked for a while, and that is counted");
    assert_eq!(ask(&store, &limit, "k", 1).source, Source::Exact);
}

/// What was taken alone and given back is not debited afterwards.
#[test]
fn what_was_given_back_alone_is_not_owed() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port());
    let store = shared(&proxy.url(), STRICT);
    let limit = named("tries", long(10));
    proxy.refuse();
    proxy.cut(Close::Fin);
    wait_until("it is alone", RECOVERY, || ask(&store, &limit, "k", 0).source == Source::Local);
    let checks = [check(&limit, "k".into(), 4)];
    for round in 0..3 {
        let (decision, held) = wait(store.reserve(demand(&checks, &[]), STRICT)).unwrap();
        assert!(decision.allowed && decision.source == Source::Local, "{round}: {decision:?}");
        let held = held.expect("it is allowed");
        match round {
            0 => drop(held),
            1 => wait(held.cancel(STRICT)),
            _ => assert_eq!(wait(held.settle(1, STRICT)), 1),
        }
    }
    proxy.accept();
    wait_until("the servers answer", RECOVERY, || peek(&store, &limit, "k", 0).source == Source::Exact);
    wait_until("the servers know", RECOVERY, || store.status().owed == 0);
    // A second debit, if there is one, is on its way.
    std::thread::sleep(millis(50));
    assert_eq!(count(&server, &limit, "k"), 1);
}

#[test]
fn a_reset_forgets_what_is_owed_and_what_the_share_has_taken() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port());
    let store = shared(&proxy.url(), STRICT);
    let limit = named("tries", long(10));
    proxy.refuse();
    proxy.cut(Close::Fin);
    wait_until("it is alone", RECOVERY, || ask(&store, &limit, "k", 0).source == Source::Local);
    assert!(ask(&store, &limit, "k", 10).allowed && ask(&store, &limit, "other", 3).allowed);
    assert_eq!(store.status().owed, 2);
    proxy.accept();
    let checks = [check(&limit, "k".into(), 0)];
    wait_until("it is reset", RECOVERY, || wait(store.reset(&checks, STRICT)).is_ok());
    wait_until("the servers know the rest", RECOVERY, || count(&server, &limit, "other") == 3);
    // A debt that was not forgotten would be paid by now.
    std::thread::sleep(millis(50));
    assert_eq!(server.keys(), [state(&limit, "other")]);
    server.kill();
    wait_until("it is alone again", RECOVERY, || ask(&store, &limit, "k", 0).source == Source::Local);
    assert_eq!(ask(&store, &limit, "k", 1).remaining, 9);
}
