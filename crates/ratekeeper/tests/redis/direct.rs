//! Stores whose lone callers ask on a connection of their own runtime.

use std::time::Duration;

use ratekeeper::{Algorithm, Ask, Check, Demand, Limit, Name, NamedLimit, RedisStore, SharedStore, Source};
use ratekeeper_testkit::redis::{RedisServer, is_left_out};

const PATIENCE: Duration = Duration::from_secs(5);

/// Asks until there are two connections: that of the thread, and that of those who are alone.
async fn opened(server: &RedisServer, limit: &NamedLimit) -> SharedStore {
    let redis =
        RedisStore::builder(server.url().parse().unwrap()).timeout(PATIENCE).direct(true).build().unwrap();
    let store = SharedStore::builder(redis).build().unwrap();
    for _ in 0..10_000 {
        let checks = [Check { limit, key: "first".into(), cost: 1 }];
        let peek = Demand { checks: &checks, on_error: &[], ask: Ask::Peek };
        assert!(store.decide(peek, PATIENCE).await.unwrap().allowed);
        let clients = server.command(&["CLIENT", "LIST", "TYPE", "normal"]).text();
        if clients.matches("name=ratekeeper").count() == 2 {
            return store;
        }
    }
    panic!("{:?}", store.status());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_decided_in_its_order() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let limit = Limit::per_hour(10).algorithm(Algorithm::Gcra);
    let limit = NamedLimit::new(&Name::new("p").unwrap(), Name::new("l").unwrap(), limit);
    let store = opened(&server, &limit).await;
    for round in 0..200 {
        let key = format!("k{round}");
        let checks = [6, 5, 4, 1].map(|cost| [Check { limit: &limit, key: key.as_str().into(), cost }]);
        let demands = checks.each_ref().map(|checks| Demand { checks, on_error: &[], ask: Ask::Acquire });
        let decisions = store.decide_batch(&demands, PATIENCE).await;
        let allowed: Vec<bool> = decisions
            .into_iter()
            .map(|decision| {
                let decision = decision.unwrap();
                assert_eq!(decision.source, Source::Exact);
                decision.allowed
            })
            .collect();
        assert_eq!(allowed, [true, false, true, false], "{round}");
    }
}
