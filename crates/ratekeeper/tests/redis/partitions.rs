//! Networks that are late, silent, refusing, or short of a reply: what a proxy can do between us and a server.

use std::time::Duration;

use ratekeeper::{NamedLimit, OnStoreError, SharedStore, Source, millis};
use ratekeeper_testkit::redis::{Close, FaultProxy, RedisServer, Stopwatch, is_left_out, wait_until};

use crate::subject::wait;
use crate::support::{
    LATE, Load, PATIENT, RECOVERY, STRICT, all_end, ask, check, count, demand, each, full_again, long, named,
    pause, peek, shared, state,
};

/// A server behind a proxy, and a store behind that.
fn behind_proxy() -> (RedisServer, FaultProxy, SharedStore) {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port());
    let store = shared(&proxy.url(), STRICT);
    (server, proxy, store)
}

/// Parts the store from its server for a while: everybody is answered in time, at once as soon as the breaker is
/// open, and exactly again soon after.
fn partition(part: impl FnOnce(&FaultProxy), join: impl FnOnce(&FaultProxy)) {
    let (server, proxy, store) = behind_proxy();
    let limits: Vec<NamedLimit> = each(15, millis(400));
    let mut back_us = 0;
    let history = Load::new(&store, &limits).during(|recorder| {
        pause(400);
        part(&proxy);
        wait_until("the breaker is open", Duration::from_secs(2), || store.status().breaker_is_open);
        let watch = Stopwatch::start();
        for _ in 0..20 {
            let decision = ask(&store, &limits[0], "other", 0);
            assert_eq!(decision.source, Source::Local);
        }
        assert!(watch.elapsed() < 5 * STRICT, "who is not asked is not waited for: {:?}", watch.elapsed());
        pause(400);
        join(&proxy);
        back_us = recorder.now_us();
        wait_until("it is asked again", RECOVERY, || store.status().is_up);
        pause(400);
    });
    history.keeps_the_theorem(0);
    history.is_in_time(STRICT);
    assert!(history.by(Source::Local).count() > 100);
    assert!(history.exact_after(back_us).is_some());
    all_end(&[&server], millis(800));
    full_again(&server.url(), &limits, "k");
}

#[test]
fn a_network_that_loses_everything_opens_the_breaker_and_is_found_again() {
    if is_left_out() {
        return;
    }
    partition(
        |proxy| {
            proxy.black_hole();
            proxy.cut(Close::Fin);
        },
        FaultProxy::accept,
    );
}

#[test]
fn a_network_that_refuses_opens_the_breaker_and_is_found_again() {
    if is_left_out() {
        return;
    }
    partition(
        |proxy| {
            proxy.refuse();
            proxy.cut(Close::Rst);
        },
        FaultProxy::accept,
    );
}

#[test]
fn a_network_that_stalls_opens_the_breaker_and_is_found_again() {
    if is_left_out() {
        return;
    }
    partition(FaultProxy::stall, FaultProxy::resume);
}

#[test]
fn a_network_that_stalls_in_one_direction_opens_the_breaker_and_is_found_again() {
    if is_left_out() {
        return;
    }
    partition(FaultProxy::stall_replies, FaultProxy::resume);
}

#[test]
fn b80_answers_come_by_the_deadline_however_late_the_replies_are() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port());
    // A store that would wait longer than its callers.
    let store = shared(&proxy.url(), millis(400));
    let lasting = [named("lasting", long(1_000_000))];
    for delay in [0, 15, 30, 100, 500] {
        proxy.set_reply_delay(millis(delay));
        wait_until("it is asked again", RECOVERY, || {
            delay >= 100 || ask(&store, &lasting[0], "other", 1).source == Source::Exact
        });
        for otherwise in [OnStoreError::Local, OnStoreError::Allow, OnStoreError::Deny] {
            let load = Load { within: millis(60), otherwise, ..Load::new(&store, &lasting) };
            let history = load.during(|_| pause(150));
            history.is_in_time(millis(60));
            let exact = history.by(Source::Exact).count();
            if delay <= 15 {
                assert!(exact > 0, "{delay} ms: {:?}", store.status());
            } else if delay >= 100 {
                assert_eq!(exact, 0, "{delay} ms");
            }
            let alone = match otherwise {
                OnStoreError::Local => Source::Local,
                OnStoreError::Allow => Source::FailedOpen,
                OnStoreError::Deny => Source::FailedClosed,
            };
            let is_told = |source| source == Source::Exact || source == alone;
            assert!(history.answers.iter().all(|answered| is_told(answered.source)));
        }
    }
}

#[test]
fn b68_a_reply_that_is_lost_is_not_asked_for_again() {
    if is_left_out() {
        return;
    }
    let sources = [
        (OnStoreError::Local, Source::Local),
        (OnStoreError::Allow, Source::FailedOpen),
        (OnStoreError::Deny, Source::FailedClosed),
    ];
    for (otherwise, source) in sources {
        let (server, proxy, store) = behind_proxy();
        let limit = named("tries", long(5));
        wait(store.probe(PATIENT)).unwrap();
        let calls = proxy.script_calls();
        proxy.drop_next_script_reply();
        let watch = Stopwatch::start();
        let checks = [check(&limit, "k".into(), 1)];
        let decision = wait(store.decide(demand(&checks, &[otherwise]), STRICT)).unwrap();
        assert!(watch.elapsed() < STRICT + LATE);
        assert!(proxy.has_dropped());
        assert_eq!((decision.source, decision.allowed), (source, otherwise != OnStoreError::Deny));
        wait_until("the server has counted", PATIENT, || count(&server, &limit, "k") == 1);
        assert_eq!(proxy.script_calls(), calls + 1);
        assert_eq!(store.status().owed, 0);
        // Back, it is not debited again.
        wait_until("the servers answer", RECOVERY, || peek(&store, &limit, "k", 0).source == Source::Exact);
        assert_eq!(ask(&store, &limit, "other", 1).source, Source::Exact);
        pause(50);
        assert_eq!(count(&server, &limit, "k"), 1);
    }
}

/// The same for what gives back: a reply that is lost gives back once.
#[test]
fn b68_a_lost_reply_to_a_reset_resets_once() {
    if is_left_out() {
        return;
    }
    let (server, proxy, store) = behind_proxy();
    let limit = named("tries", long(5));
    let checks = [check(&limit, "k".into(), 2)];
    assert!(wait(store.decide(demand(&checks, &[]), PATIENT)).unwrap().allowed);
    proxy.drop_next_script_reply();
    let calls = proxy.script_calls();
    assert!(wait(store.reset(&checks, STRICT)).is_err(), "nobody can say that it is done");
    wait_until("it is", PATIENT, || !server.keys().contains(&state(&limit, "k")));
    assert_eq!(proxy.script_calls(), calls + 1);
}

/// B63 (a): connections that end in the middle of whatever is on them leave no key without an end.
#[test]
fn b63_connections_that_end_at_any_byte_leave_no_key_without_an_end() {
    if is_left_out() {
        return;
    }
    let (server, proxy, store) = behind_proxy();
    let limits = each(15, millis(400));
    let load = Load { pace: Duration::ZERO, ..Load::new(&store, &limits) };
    let history = load.during(|_| {
        for round in 0..12_u64 {
            pause(60 + 7 * round);
            proxy.cut(if round % 2 == 0 { Close::Rst } else { Close::Fin });
            all_end(&[&server], millis(800));
        }
    });
    history.keeps_the_theorem(0);
    history.is_in_time(STRICT);
    wait_until("it is asked again", RECOVERY, || peek(&store, &limits[0], "k", 0).source == Source::Exact);
    all_end(&[&server], millis(800));
    full_again(&server.url(), &limits, "k");
}
