//! Many callers of several instances on one server, without a fault: as much as may be admitted, and no more.

use std::time::Duration;

use ratekeeper::{Algorithm, Limit, NamedLimit, OnStoreError, SharedStore, Source, millis};
use ratekeeper_testkit::redis::history::{Event, Outcome, Recorder, max_in_window};
use ratekeeper_testkit::redis::{RedisServer, is_left_out};

use crate::subject::wait;
use crate::support::{PATIENT, bound, check, count, demand, each, long, named, shared};

/// Four instances, each with eight callers, who ask for `costs` of `limit` in turn for so long.
fn hammer(server: &RedisServer, limit: &NamedLimit, span: Duration) -> Vec<Event> {
    let stores: Vec<SharedStore> = (0..4).map(|_| shared(&server.url(), PATIENT)).collect();
    let recorder = Recorder::new();
    std::thread::scope(|scope| {
        for caller in 0..32 {
            let (store, recorder) = (&stores[caller / 8], &recorder);
            scope.spawn(move || {
                let mut cost = 1 + caller as u64 % 3;
                while recorder.now_us() < u64::try_from(span.as_micros()).unwrap() {
                    recorder.call(caller, "hot", cost, || {
                        let checks = [check(limit, "hot".into(), cost)];
                        let decision =
                            wait(store.decide(demand(&checks, &[OnStoreError::Deny]), PATIENT)).unwrap();
                        assert!(matches!(decision.source, Source::Exact | Source::Cached), "{decision:?}");
                        if decision.allowed { Outcome::Allowed } else { Outcome::Denied }
                    });
                    cost = cost % 3 + 1;
                    // Real instances do not ask without a pause.
                    std::thread::sleep(millis(1));
                }
            });
        }
    });
    recorder.events()
}

#[test]
fn a_fleet_admits_what_the_theorem_says_and_nearly_all_of_it() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let window = millis(200);
    for limit in each(40, window) {
        let events = hammer(&server, &limit, 3 * window);
        let span_us = events.iter().map(|event| event.got_us).max().unwrap();
        for window_us in [1_000, 50_000, 199_999, 200_000, 600_000, span_us] {
            let most = max_in_window(&events, window_us, 0);
            assert!(most <= bound(limit.limit(), window_us), "{limit:?}: {most} in {window_us} us");
        }
        let admitted = ratekeeper_testkit::redis::history::admitted(&events);
        // Demand is without end: what a refill gives is taken, but for what the largest cost leaves, and the ends.
        let windows = span_us / 200_000 - 1;
        assert!(admitted >= windows * 40 / 2, "{limit:?}: {admitted} in {span_us} us");
    }
}

#[test]
fn b77_of_a_crowd_exactly_as_many_pass_as_may() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let stores: Vec<SharedStore> = (0..4).map(|_| shared(&server.url(), PATIENT)).collect();
    let window = Duration::from_hours(24 * 183);
    let limits = each(5, window);
    for limit in &limits {
        for round in 0..40 {
            let key = format!("round-{round}");
            let checks = [check(limit, key.as_str().into(), 1)];
            let demands = vec![demand(&checks, &[OnStoreError::Deny]); 25];
            let allowed: usize = std::thread::scope(|scope| {
                let callers: Vec<_> = stores
                    .iter()
                    .map(|store| scope.spawn(|| wait(store.decide_batch(&demands, PATIENT))))
                    .collect();
                let allowed = callers.into_iter().flat_map(|caller| caller.join().unwrap());
                allowed.filter(|decision| decision.as_ref().unwrap().allowed).count()
            });
            assert_eq!(allowed, 5, "{limit:?} {key}");
        }
    }
}

/// All instances together debit several limits at once, and the counts agree with what was admitted.
#[test]
fn p10_a_fleet_debits_all_limits_of_a_request_or_none() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let stores: Vec<SharedStore> = (0..4).map(|_| shared(&server.url(), PATIENT)).collect();
    let (own, all) = (named("own", long(70)), named("all", long(400)));
    let log = named("log", Limit::per(300, Duration::from_hours(24)).algorithm(Algorithm::SlidingWindowLog));
    let users: Vec<String> = (0..8).map(|n| format!("u{n}")).collect();
    let admitted: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..32)
            .map(|caller| {
                let (store, users, own, all, log) = (&stores[caller / 8], &users, &own, &all, &log);
                scope.spawn(move || {
                    let mut admitted = vec![0; users.len()];
                    for turn in 0..60 {
                        let user = (caller + turn) % users.len();
                        let checks = [
                            check(own, users[user].as_str().into(), 1),
                            check(all, "global".into(), 1),
                            check(log, "global".into(), 1),
                        ];
                        let decision =
                            wait(store.decide(demand(&checks, &[OnStoreError::Deny; 3]), PATIENT)).unwrap();
                        admitted[user] += u64::from(decision.allowed);
                    }
                    admitted
                })
            })
            .collect();
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    let total: u64 = admitted.iter().flatten().sum();
    assert_eq!(total, 300, "the least of them decides");
    for (number, user) in users.iter().enumerate() {
        let of_user: u64 = admitted.iter().map(|admitted| admitted[number]).sum();
        assert_eq!(count(&server, &own, user), of_user);
    }
    assert_eq!(count(&server, &all, "global"), 300);
    let members = server.command(&["ZCARD", &crate::support::state(&log, "global")]).good().int();
    assert_eq!(members, 300);
}
