//! Counts in a store that a fleet shares.

use ratekeeper::{
    Algorithm, KeyedLimiter, Limit, OnStoreError, RedisStore, SharedStore, StoreUrl, millis, seconds,
};
use ratekeeper_testkit::redis::{self, RedisServer};
use ratekeeper_tower::{Config, LayerError, LimitBy as _, RateLimitLayer, header};

use crate::support::{Answer, Backend, empty, from};

fn store(url: &str) -> SharedStore {
    let url = StoreUrl::parse(url).expect("a URL");
    let redis = RedisStore::builder(url).timeout(seconds(5)).build().expect("a thread");
    SharedStore::builder(redis).instances(2).build().expect("small")
}

/// Asks until the connection is there: what is asked before is answered by nobody.
async fn connected(url: &str) -> SharedStore {
    let store = store(url);
    while !store.status().is_up {
        let _ = store.probe(seconds(1)).await;
        // A real connection is waited for.
        tokio::time::sleep(millis(5)).await;
    }
    store
}

async fn ask(layer: &RateLimitLayer, backend: &Backend, user: &str) -> Answer {
    backend.ask(layer, empty(from("192.0.2.1").header("x-user", user))).await
}

#[tokio::test]
async fn two_layers_on_one_redis_count_together() {
    if redis::is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let layer = || async {
        let limit = Limit::per_hour(3).by(header("x-user")).named("hour");
        RateLimitLayer::builder().limit(limit).store(&connected(&server.url()).await).build().expect("good")
    };
    let (a, b, backend) = (layer().await, layer().await, Backend::default());
    for (layer, status, told) in [(&a, 200, 2), (&b, 200, 1), (&a, 200, 0), (&b, 429, 0), (&a, 429, 0)] {
        let answer = ask(layer, &backend, "ann").await;
        assert_eq!(answer.status, status);
        let field = answer.field("ratelimit").expect("its numbers");
        assert!(field.starts_with(&format!("\"default.hour\";r={told};t=")), "{field}");
    }
    assert_eq!(ask(&b, &backend, "bob").await.status, 200);
}

#[tokio::test]
async fn a_refusal_there_takes_nothing_here_and_the_other_way_round() {
    if redis::is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let shared = connected(&server.url()).await;
    let own = KeyedLimiter::new(Limit::per_hour(4));
    let layer = RateLimitLayer::builder()
        .limit(own.by(header("x-user")).named("own"))
        .limit(Limit::per_hour(2).by(header("x-tenant")).named("tenant"))
        .store(&shared)
        .build()
        .expect("good");
    let backend = Backend::default();
    let ask = |user: &'static str, tenant: &'static str| {
        backend.ask(&layer, empty(from("192.0.2.1").header("x-user", user).header("x-tenant", tenant)))
    };
    for _ in 0..2 {
        assert_eq!(ask("ann", "t1").await.status, 200);
    }
    for _ in 0..3 {
        let refused = ask("ann", "t1").await;
        assert_eq!(refused.status, 429, "the tenant has no more");
        let field = refused.field("ratelimit").expect("its numbers");
        assert!(field.starts_with("\"default.tenant\";r=0;t="), "{field}");
    }
    assert_eq!(own.peek("ann").remaining(), 2, "what refuses there takes nothing here");
    let other = ask("ann", "t2").await;
    let field = other.field("ratelimit").expect("its numbers");
    assert!(
        field.starts_with("\"default.own\";r=1;t=") && field.contains("\"default.tenant\";r=1;t="),
        "{field}"
    );
    assert_eq!(ask("ann", "t3").await.status, 200);
    let refused = ask("ann", "t4").await;
    assert_eq!(refused.status, 429, "the user has no more");
    let untouched = ask("bob", "t4").await;
    let field = untouched.field("ratelimit").expect("its numbers");
    assert!(field.contains("\"default.tenant\";r=1;t="), "what refuses here takes nothing there: {field}");
}

#[tokio::test]
async fn who_leaves_while_the_store_is_asked_has_taken_nothing() {
    if redis::is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let shared = connected(&server.url()).await;
    let layer = |cost| {
        let limit = Limit::per_hour(20).algorithm(Algorithm::FixedWindow).by(header("x-user"));
        RateLimitLayer::builder().limit(limit).store(&shared).cost(move |_| cost).build().expect("good")
    };
    let (takes, looks, backend) = (layer(1), layer(0), Backend::default());
    let left = async || {
        let answer = ask(&looks, &backend, "ann").await;
        answer.field("ratelimit").map(str::to_owned).expect("its numbers")
    };
    for _ in 0..20 {
        let mut asked = Box::pin(ask(&takes, &backend, "ann"));
        let once = std::future::poll_fn(|cx| std::task::Poll::Ready(asked.as_mut().poll(cx).is_pending()));
        assert!(once.await, "a store is not so fast");
        tokio::task::yield_now().await;
        // The answer comes from another thread, and this one leaves without having looked at it.
        std::thread::sleep(millis(2));
    }
    assert_eq!(backend.calls(), 0);
    // What is asked and given back is on its way, through a real connection.
    tokio::time::sleep(millis(100)).await;
    let deadline = tokio::time::Instant::now() + seconds(5);
    while !left().await.contains(";r=20;") {
        assert!(tokio::time::Instant::now() < deadline, "what was taken for nobody stays: {}", left().await);
        // As above.
        tokio::time::sleep(millis(20)).await;
    }
}

#[tokio::test]
async fn a_start_in_a_store_that_is_too_far_ahead_is_given_back() {
    if redis::is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let shared = connected(&server.url()).await;
    let queue = |name: &str| {
        let queue = Limit::per_minute(2).algorithm(Algorithm::LeakyBucket).queue(5);
        RateLimitLayer::builder().limit(queue.by(header("x-user")).named(name)).store(&shared)
    };
    let backend = Backend::default();
    for (layer, reason) in
        [(queue("late").wait_within(seconds(5)), "too_late"), (queue("full").max_waiting(0), "queue_full")]
    {
        let layer = layer.build().expect("good");
        assert_eq!(ask(&layer, &backend, "ann").await.status, 200);
        for _ in 0..3 {
            let refused = ask(&layer, &backend, "ann").await;
            assert_eq!((refused.status.as_u16(), refused.json()["reason"].as_str()), (429, Some(reason)));
            let wait = refused.json()["retry_after_ms"].as_u64().expect("a wait");
            assert!((20_000..=30_000).contains(&wait), "{wait} ms: the slot before was given back");
            // What is given back is on its way, through a real connection.
            tokio::time::sleep(millis(50)).await;
        }
    }
}

#[tokio::test]
async fn who_may_wait_for_a_store_for_ever_does() {
    if redis::is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let shared = connected(&server.url()).await;
    let limit = Limit::per_second(20).burst(1).by(header("x-user"));
    let layer = RateLimitLayer::builder().limit(limit).store(&shared).wait_within(std::time::Duration::MAX);
    let (layer, backend) = (layer.build().expect("good"), Backend::default());
    for _ in 0..3 {
        assert_eq!(ask(&layer, &backend, "ann").await.status, 200);
    }
}

#[tokio::test]
async fn without_the_store_its_share_decides_or_all_pass_or_none_does() {
    // B132. Nobody listens at this port.
    let layer = |on_error| {
        let limit = Limit::per_hour(4).by(header("x-user"));
        let url = format!("redis://127.0.0.1:{}", closed_port());
        RateLimitLayer::builder()
            .limit(limit)
            .store(&store(&url))
            .on_store_error(on_error)
            .build()
            .expect("good")
    };
    let backend = Backend::default();
    let local = layer(OnStoreError::Local);
    for status in [200, 200, 429] {
        let answer = ask(&local, &backend, "ann").await;
        assert_eq!(answer.status, status, "the half of four is two");
        assert!(answer.field("ratelimit").is_some(), "real numbers, of the share");
    }
    let open = layer(OnStoreError::Allow);
    for _ in 0..6 {
        let answer = ask(&open, &backend, "ann").await;
        assert_eq!((answer.status.as_u16(), answer.field("ratelimit")), (200, None), "no invented numbers");
        assert_eq!(answer.field("ratelimit-policy"), None);
    }
    let closed = ask(&layer(OnStoreError::Deny), &backend, "ann").await;
    assert_eq!(closed.status, 503);
    assert!(closed.field("retry-after").is_some_and(|wait| wait.parse::<u64>().is_ok_and(|wait| wait >= 1)));
    assert_eq!(closed.json()["reason"], "store_unavailable");
}

fn closed_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound").port()
}

#[tokio::test]
async fn a_file_names_stores_and_a_refund_reaches_all_of_them() {
    if redis::is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let text = format!(
        "
version: 1
stores:
  near: {{ memory: {{ max_keys: 100 }} }}
  far: {{ redis: {{ url: {}, timeout: 5s }} }}
policies:
  - {{ name: user, store: near, key: [header:x-user], limits: [{{ name: l, algorithm: gcra, limit: 9/hour, burst: 9 }}] }}
  - {{ name: all, store: far, key: [global], limits: [{{ name: l, algorithm: fixed-window, limit: 5/hour, align: first-request }}] }}
  - {{ name: try, store: far, mode: shadow, key: [global], limits: [{{ name: l, algorithm: gcra, limit: 1/hour }}] }}
",
        server.url()
    );
    let config = Config::parse("test.yaml", text.as_bytes(), &|_| None)
        .unwrap_or_else(|wrong| panic!("{}", wrong.render()));
    let layer =
        RateLimitLayer::from_config(config).refund_if(|answer| answer.status() == 404).build().expect("good");
    let backend = Backend::answering(|request| {
        let status = if request.headers().contains_key("x-fail") { 404 } else { 200 };
        http::Response::builder().status(status).body(http_body_util::Full::default()).expect("an answer")
    });
    // The share decides until the connection is there; its numbers are those of one instance, the same.
    let left = |answer: &Answer| answer.field("ratelimit").map(|field| field.matches(";r=").count());
    for _ in 0..8 {
        let answer =
            backend.ask(&layer, empty(from("192.0.2.1").header("x-user", "ann").header("x-fail", "1"))).await;
        assert_eq!((answer.status.as_u16(), left(&answer)), (404, Some(2)), "what fails is free");
        // What is given back is on its way.
        tokio::time::sleep(millis(20)).await;
    }
    for nth in 0..6 {
        let answer = ask(&layer, &backend, "ann").await;
        assert_eq!(answer.status == 200, nth < 5, "request {nth}");
    }
}

#[tokio::test]
async fn a_file_takes_no_store_beside_its_own() {
    let text = "{ version: 1, policies: [{ name: a, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 1/minute }] }] }";
    let file = || RateLimitLayer::from_config(Config::parse("t", text.as_bytes(), &|_| None).expect("good"));
    let shared = store(&format!("redis://127.0.0.1:{}", closed_port()));
    for (builder, option) in
        [(file().store(&shared), "store"), (file().on_store_error(OnStoreError::Deny), "on_store_error")]
    {
        let wrong = builder.build().expect_err(option);
        assert!(matches!(wrong, LayerError::RuledByFile(named) if named == option), "{option}: {wrong}");
    }
}
