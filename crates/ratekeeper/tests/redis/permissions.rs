//! What a user of the servers must be allowed: exactly what docs/redis.md says.

use std::time::Duration;

use ratekeeper::{Algorithm, Ask, Check, Demand, Limit, Name, NamedLimit, RedisStore, SharedStore, Source};
use ratekeeper_testkit::redis::{self, RedisServer, Stopwatch};

use crate::subject::wait;

const DOCUMENT: &str = include_str!("../../../../docs/redis.md");
const PATIENCE: Duration = Duration::from_secs(5);

/// What only saves the server work.
const SAVING: &str = "+mget";

/// The rules of the documented line, without the password.
fn documented() -> Vec<&'static str> {
    let line = DOCUMENT.lines().find_map(|line| line.strip_prefix("ACL SETUSER ratekeeper on "));
    let rules = line.expect("docs/redis.md has the line").split_ascii_whitespace();
    rules.filter(|rule| !rule.starts_with('>')).collect()
}

/// A store that comes as a user with these rules.
fn store_of(rules: &[&str]) -> (RedisServer, SharedStore) {
    let server =
        RedisServer::builder().user("ratekeeper", &format!("on >secret {}", rules.join(" "))).start();
    let redis = RedisStore::builder(server.url().parse().expect("a URL")).timeout(PATIENCE);
    let redis = redis.credentials(Some("ratekeeper"), Some("secret")).build().expect("a store");
    let store = SharedStore::builder(redis).build().expect("a store");
    let begun = Stopwatch::start();
    while !store.status().is_up && begun.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    (server, store)
}

#[test]
fn the_documented_permissions_are_enough_for_all_that_a_store_does() {
    if redis::is_left_out() {
        return;
    }
    let (server, store) = store_of(&documented());
    let probe = wait(store.probe(PATIENCE)).unwrap();
    assert!(probe.findings.is_empty(), "{:?}", probe.findings);
    let policy = Name::new("p").unwrap();
    for algorithm in Algorithm::ALL {
        let limit = Limit::per_hour(3).algorithm(algorithm);
        let limit = NamedLimit::new(&policy, Name::new(algorithm.name()).unwrap(), limit);
        let checks = [Check { limit: &limit, key: "k".into(), cost: 1 }];
        let demand = Demand { checks: &checks, on_error: &[], ask: Ask::Acquire };
        for turn in 0..5 {
            let (decision, held) = wait(store.reserve(demand, PATIENCE)).unwrap();
            assert!(matches!(decision.source, Source::Exact | Source::Cached), "{algorithm:?}: {decision:?}");
            assert_eq!(decision.allowed, turn < 3, "{algorithm:?}");
            held.into_iter().for_each(ratekeeper::SharedReservation::keep);
        }
        wait(store.reset(&checks, PATIENCE)).unwrap();
        let (_, held) = wait(store.reserve(demand, PATIENCE)).unwrap();
        wait(held.unwrap().cancel(PATIENCE));
    }
    server.flush_scripts();
    let probe = wait(store.probe(PATIENCE)).unwrap();
    assert!(probe.findings.is_empty(), "scripts may be sent again: {:?}", probe.findings);
    assert_eq!(store.counts().errors.iter().sum::<u64>(), 0, "{:?}", store.status());
}

#[test]
fn without_one_of_them_a_store_is_found_unable_to_serve() {
    if redis::is_left_out() {
        return;
    }
    let all = documented();
    // One of the two ways to bring a script is enough for a while.
    let ways = ["+eval", "+script|load"];
    let is_needed = |rule: &str| !ways.contains(&rule) && rule != SAVING;
    let each = all.iter().filter(|rule| is_needed(rule)).map(|rule| vec![*rule]);
    for missing in each.chain([ways.to_vec()]) {
        let rest: Vec<&str> = all.iter().copied().filter(|rule| !missing.contains(rule)).collect();
        let (_server, store) = store_of(&rest);
        let probe =
            wait(store.probe(PATIENCE)).unwrap_or_else(|wrong| panic!("without {missing:?}: {wrong:?}"));
        let finding = probe.findings.first().unwrap_or_else(|| panic!("{missing:?} is not needed"));
        assert!(finding.is_fatal, "without {missing:?}: {finding:?}");
        let hint = finding.hint.as_deref().unwrap_or_default();
        assert!(hint.contains("permissions"), "without {missing:?}: {finding:?}");
    }
}

#[test]
fn without_mget_each_key_is_read_by_itself() {
    if redis::is_left_out() {
        return;
    }
    let all = documented();
    assert!(all.contains(&SAVING));
    let rest: Vec<&str> = all.into_iter().filter(|rule| *rule != SAVING).collect();
    let (_server, store) = store_of(&rest);
    assert!(wait(store.probe(PATIENCE)).unwrap().findings.is_empty());
    let policy = Name::new("p").unwrap();
    let limits = ["one", "two"].map(|name| {
        let limit = Limit::per_hour(3).algorithm(Algorithm::Gcra);
        NamedLimit::new(&policy, Name::new(name).unwrap(), limit)
    });
    let checks = limits.each_ref().map(|limit| Check { limit, key: "k".into(), cost: 1 });
    let demand = Demand { checks: &checks, on_error: &[], ask: Ask::Acquire };
    for turn in 0..5 {
        let decision = wait(store.decide(demand, PATIENCE)).unwrap();
        assert!(matches!(decision.source, Source::Exact | Source::Cached), "{decision:?}");
        assert_eq!(decision.allowed, turn < 3);
    }
    assert_eq!(store.counts().errors.iter().sum::<u64>(), 0, "{:?}", store.status());
}
