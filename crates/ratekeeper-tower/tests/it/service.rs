//! The contract of a service: readiness, errors, clones, and what a builder refuses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Empty, Full};
use ratekeeper::{Algorithm, Limit, ManualClock};
use ratekeeper_tower::{LayerError, LimitBy as _, RateLimitLayer, client_ip, global, header};
use tower::{Layer as _, Service, ServiceExt as _};

use crate::support::{empty, from};

/// A service that insists on being called where it was ready, and fails every other call.
struct Strict {
    ready: bool,
    clones: Arc<AtomicUsize>,
    calls: Arc<AtomicUsize>,
}

impl Strict {
    fn new() -> Self {
        Self { ready: false, clones: Arc::default(), calls: Arc::default() }
    }
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        self.clones.fetch_add(1, Ordering::SeqCst);
        // Readiness is of one value: a clone has to become ready for itself.
        Self { ready: false, clones: self.clones.clone(), calls: self.calls.clone() }
    }
}

impl Service<Request<Empty<Bytes>>> for Strict {
    type Response = Response<Full<Bytes>>;
    type Error = String;
    type Future = std::future::Ready<Result<Response<Full<Bytes>>, String>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), String>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Empty<Bytes>>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without having been ready");
        let nth = self.calls.fetch_add(1, Ordering::SeqCst);
        std::future::ready(if nth.is_multiple_of(2) {
            Ok(Response::default())
        } else {
            Err(format!("call {nth}"))
        })
    }
}

#[tokio::test]
async fn the_service_that_was_ready_is_called_and_its_errors_pass_through() {
    let queue = Limit::per_second(1_000).algorithm(Algorithm::LeakyBucket).queue(100);
    for (limit, most_clones) in [(Limit::per_second(100), 0), (queue, 4)] {
        let strict = Strict::new();
        let (clones, calls) = (strict.clones.clone(), strict.calls.clone());
        let layer = RateLimitLayer::builder().limit(limit.by(global())).build().expect("good");
        let mut service = layer.layer(strict);
        for nth in 0..4 {
            let ready = service.ready().await.expect("it is ready");
            let answer = ready.call(empty(from("192.0.2.1"))).await;
            match answer {
                Ok(_) => assert_eq!(nth % 2, 0),
                Err(error) => assert_eq!(error, format!("call {nth}")),
            }
        }
        assert_eq!(calls.load(Ordering::SeqCst), 4);
        assert_eq!(clones.load(Ordering::SeqCst), most_clones, "who never waits needs no clone");
    }
}

#[tokio::test]
async fn clones_and_services_of_one_layer_count_together() {
    // Elsewhere the state is each clone's own, and 1,500 requests pass a limit of five.
    let layer = RateLimitLayer::builder().limit(Limit::per_hour(5).by(client_ip())).build().expect("good");
    let strict = Strict::new();
    let calls = strict.calls.clone();
    let mut refused = 0;
    for nth in 0..20 {
        let layer = layer.clone();
        let service = layer.layer(strict.clone());
        let service = if nth % 2 == 0 { service.clone() } else { service };
        if let Ok(answer) = service.oneshot(empty(from("192.0.2.1"))).await {
            refused += usize::from(answer.status() == 429);
        }
    }
    assert_eq!((calls.load(Ordering::SeqCst), refused), (5, 15));
}

#[test]
fn a_layer_that_cannot_be_is_refused_when_it_is_built() {
    let limit = Limit::per_minute(1);
    let queue = limit.algorithm(Algorithm::LeakyBucket).queue(3);
    let wrong =
        |builder: ratekeeper_tower::LayerBuilder| builder.build().expect_err("it cannot be").to_string();
    let builder = RateLimitLayer::builder;
    assert!(matches!(builder().build(), Err(LayerError::NoLimits)));
    let seventeen = (0..17).fold(builder(), |layer, _| layer.limit(limit.by(global())));
    assert!(wrong(seventeen).contains("16"));
    assert!(wrong(builder().limit(queue.by(global())).limit(queue.by(client_ip()))).contains("queue"));
    assert!(wrong(builder().name("a b").limit(limit.by(global()))).contains("\"a b\""));
    assert!(wrong(builder().limit(limit.by(global()).named("é"))).contains("\"é\""));
    let twice = builder().limit(limit.by(global()).named("x")).limit(limit.by(client_ip()).named("x"));
    assert!(wrong(twice).contains("\"x\""));
    assert!(wrong(builder().limit(limit.by(header("a b")))).contains("\"a b\""));
    assert!(
        wrong(builder().limit(limit.by(client_ip().behind(["10.0.0.0/40"])))).contains("trusted proxies")
    );
    assert!(wrong(builder().max_keys(0).limit(limit.by(client_ip()))).contains("max_keys"));
    let sixteen =
        (0..16).fold(builder().clock(ManualClock::new()), |layer, _| layer.limit(limit.by(global())));
    sixteen.build().expect("sixteen are few enough");
}
