//! Refusals that are remembered: who is refused is not asked about again for a moment, and is never told to come too
//! early.

use std::future::Future as _;
use std::task::{Context, Waker};
use std::time::Duration;

use ratekeeper::{Algorithm, Limit, Source, hours, millis, seconds};
use ratekeeper_testkit::redis::{RedisServer, Stopwatch, is_left_out, wait_until};

use crate::subject::wait;
use crate::support::{LATE, PATIENT, ask, check, demand, each, long, named, pause, peek, shared};

#[test]
fn a_refusal_is_remembered_without_a_command_and_for_a_second_at_most() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    let limits = each(10, hours(24));
    let refuse = |limit| {
        assert!(ask(&store, limit, "k", 10).allowed);
        let watch = Stopwatch::start();
        let first = ask(&store, limit, "k", 1);
        assert!(!first.allowed && first.source == Source::Exact, "{first:?}");
        (watch, first)
    };
    let refused: Vec<_> = limits.iter().map(refuse).collect();
    let commands = store.counts().commands;
    for (limit, (watch, first)) in limits.iter().zip(&refused) {
        let first_wait = first.retry_after.unwrap();
        for _ in 0..50 {
            let before = watch.elapsed();
            let again = ask(&store, limit, "k", 1);
            if before > millis(900) {
                break;
            }
            assert_eq!((again.allowed, again.source, again.reason), (false, Source::Cached, first.reason));
            // The wait goes down as time passes, and is over no earlier than the first one said.
            let wait = again.retry_after.unwrap();
            assert!(wait <= first_wait, "{again:?}");
            assert!(before + wait + millis(1) >= first_wait, "{wait:?} at {before:?} of {first_wait:?}");
            assert_eq!((again.remaining, again.limits().len()), (first.remaining, 1));
        }
        assert!(store.counts().commands == commands || watch.elapsed() > millis(900), "{limit:?}");
    }
    for (limit, (watch, _)) in limits.iter().zip(&refused) {
        wait_until("the server is asked again", PATIENT, || {
            ask(&store, limit, "k", 1).source == Source::Exact
        });
        assert!(watch.elapsed() >= millis(900), "{:?}", watch.elapsed());
    }
    assert!(refused[0].0.elapsed() < millis(1_000) + LATE);
}

#[test]
fn a_remembered_refusal_is_forgotten_when_its_wait_is_over() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    for limit in &each(4, millis(400)) {
        // As many as fit, and one that is told to wait.
        while ask(&store, limit, "k", 1).allowed {}
        for _ in 0..2 {
            let refused = ask(&store, limit, "k", 1);
            if refused.allowed {
                continue;
            }
            // A refusal is remembered in real time.
            std::thread::sleep(refused.retry_after.unwrap() + Duration::from_micros(1));
            let decision = ask(&store, limit, "k", 1);
            assert!(decision.allowed && decision.source == Source::Exact, "told too early: {decision:?}");
            while ask(&store, limit, "k", 1).allowed {}
        }
    }
}

#[test]
fn another_cost_another_look_and_another_key_ask_again() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    let limit = named("tries", long(10));
    assert!(ask(&store, &limit, "k", 8).allowed);
    assert_eq!(ask(&store, &limit, "k", 3).source, Source::Exact);
    assert_eq!(ask(&store, &limit, "k", 3).source, Source::Cached);
    assert_eq!(peek(&store, &limit, "k", 3).source, Source::Exact);
    assert_eq!(ask(&store, &limit, "k", 4).source, Source::Exact);
    let less = ask(&store, &limit, "k", 2);
    assert!(less.allowed && less.source == Source::Exact, "{less:?}");
    assert!(ask(&store, &limit, "other", 3).allowed);
    // The same limit with other numbers.
    let raised = limit.with_limit(long(20));
    let decision = ask(&store, &raised, "k", 3);
    assert!(decision.allowed && decision.source == Source::Exact, "B102: {decision:?}");
}

#[test]
fn what_comes_back_through_this_store_is_seen_at_once() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    let limit = named("tries", long(5));
    let checks = [check(&limit, "k".into(), 3)];
    for round in 0..10 {
        let (_, held) = wait(store.reserve(demand(&checks, &[]), PATIENT)).unwrap();
        let held = held.expect("three of five");
        assert!(!ask(&store, &limit, "k", 3).allowed);
        assert_eq!(ask(&store, &limit, "k", 3).source, Source::Cached);
        match round % 3 {
            0 => wait(held.cancel(PATIENT)),
            1 => assert_eq!(wait(held.settle(1, PATIENT)), 1),
            _ => {
                held.keep();
                wait(store.reset(&checks, PATIENT)).unwrap();
            }
        }
        let decision = ask(&store, &limit, "k", 3);
        assert!(decision.allowed && decision.source == Source::Exact, "{round}: {decision:?}");
        wait(store.reset(&checks, PATIENT)).unwrap();
    }
}

#[test]
fn b109_a_reset_elsewhere_is_seen_within_a_second() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let (one, other) = (shared(&server.url(), PATIENT), shared(&server.url(), PATIENT));
    let limit = named("tries", long(5));
    assert!(ask(&one, &limit, "k", 5).allowed);
    for store in [&one, &other] {
        assert!(!ask(store, &limit, "k", 1).allowed);
        assert_eq!(ask(store, &limit, "k", 1).source, Source::Cached);
    }
    wait(one.reset(&[check(&limit, "k".into(), 0)], PATIENT)).unwrap();
    assert!(ask(&one, &limit, "k", 1).allowed);
    let took = wait_until("the reset is seen", seconds(2), || ask(&other, &limit, "k", 1).allowed);
    assert!(took < millis(1_250), "{took:?}");
}

/// What the numbers of a log's oldest entry say ends with it.
#[test]
fn a_remembered_refusal_of_a_log_says_what_the_server_would() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let (store, other) = (shared(&server.url(), PATIENT), shared(&server.url(), PATIENT));
    let limit = named("log", Limit::per(4, millis(600)).algorithm(Algorithm::SlidingWindowLog));
    assert!(ask(&store, &limit, "k", 1).allowed);
    pause(200);
    assert!(ask(&store, &limit, "k", 3).allowed);
    for _ in 0..80 {
        let before = peek(&other, &limit, "k", 4);
        let told = ask(&store, &limit, "k", 4);
        let after = peek(&other, &limit, "k", 4);
        if told.allowed {
            break;
        }
        // An entry may leave between two of them.
        let truth = before.remaining..=after.remaining;
        assert!(truth.contains(&told.remaining), "{told:?} is not in {truth:?}");
        pause(5);
    }
}

/// A refusal that comes from before a reset, and is looked at after it, says nothing of what is now.
#[test]
fn a_refusal_that_a_reset_has_overtaken_is_not_remembered() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    let limit = named("tries", long(5));
    for key in (0..50).map(|n| format!("k{n}")) {
        assert!(ask(&store, &limit, &key, 5).allowed);
        let checks = [check(&limit, key.as_str().into(), 1)];
        let mut refused = Box::pin(store.decide(demand(&checks, &[]), PATIENT));
        let answered = store.counts().requests;
        if refused.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            // The answer was quicker than we were: another try.
            continue;
        }
        wait_until("the server has refused", PATIENT, || store.counts().requests > answered);
        wait(store.reset(&checks, PATIENT)).unwrap();
        assert!(!wait(refused).unwrap().allowed);
        let decision = ask(&store, &limit, &key, 1);
        assert!(decision.allowed && decision.source == Source::Exact, "{decision:?}");
        return;
    }
    panic!("the answer is always quicker");
}
