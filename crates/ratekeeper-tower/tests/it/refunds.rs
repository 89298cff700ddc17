//! What is taken comes back when the answer says so, or when nobody waits for it any more.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Empty, Full};
use ratekeeper::{Algorithm, KeyedLimiter, Limit, Limiter, ManualClock, seconds};
use ratekeeper_tower::{LimitBy as _, RateLimitLayer, client_ip, global};
use tower::{Layer as _, Service as _};

use crate::support::{Backend, empty, from};

/// A service that answers with the status in the path.
fn told() -> Backend {
    Backend::answering(|request| {
        let status = request.uri().path().trim_start_matches('/').parse::<u16>().expect("a status");
        Response::builder().status(status).body(Full::default()).expect("an answer")
    })
}

fn to(status: u16) -> Request<Empty<Bytes>> {
    empty(from("192.0.2.1").uri(format!("/{status}")))
}

#[tokio::test]
async fn an_answer_of_the_named_kind_is_free() {
    let clock = ManualClock::new();
    let users = KeyedLimiter::builder(Limit::per_minute(10)).clock(&clock).build().expect("small");
    let global = Limiter::builder(Limit::per_minute(100)).name("all").clock(&clock).build().expect("small");
    let layer = RateLimitLayer::builder()
        .limit(users.by(client_ip()))
        .limit(&global)
        .refund_if(|response| response.status().is_server_error())
        .build()
        .expect("good");
    let backend = told();
    for (status, left) in [(200, 99), (500, 99), (502, 99), (404, 98), (503, 98)] {
        assert_eq!(backend.ask(&layer, to(status)).await.status, status);
        assert_eq!(global.peek().remaining(), left, "after {status}");
    }
    let address = std::net::Ipv4Addr::new(192, 0, 2, 1);
    assert_eq!(users.peek(address).remaining(), 8, "every limit gets back what it gave");
}

#[tokio::test]
async fn a_late_refund_gives_back_what_time_has_not() {
    // Without the safe rule a bucket that has refilled meanwhile would hold more than if nothing had been asked.
    let clock = ManualClock::new();
    let bucket = Limiter::builder(Limit::per_minute(6)).clock(&clock).build().expect("small");
    let turning = clock.clone();
    let backend = Backend::answering(move |_| {
        turning.advance(seconds(25));
        Response::builder().status(500).body(Full::default()).expect("an answer")
    });
    let layer =
        RateLimitLayer::builder().limit(&bucket).refund_if(|_| true).cost(|_| 3).build().expect("good");
    assert_eq!(backend.ask(&layer, to(200)).await.status, 500);
    // Of 30 s that the three took 25 have drained, and the rest came back.
    assert_eq!(bucket.peek().remaining(), 6);
    assert!(bucket.try_acquire_n(6).allowed());
    assert!(!bucket.try_acquire().allowed(), "not more than full");
}

/// A service that never answers, and counts its calls.
#[derive(Clone, Default)]
struct Silent(Arc<AtomicUsize>);

impl tower::Service<Request<Empty<Bytes>>> for Silent {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = std::future::Pending<Result<Response<Full<Bytes>>, Infallible>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Empty<Bytes>>) -> Self::Future {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::future::pending()
    }
}

#[tokio::test(start_paused = true)]
async fn who_goes_away_before_the_service_was_called_has_taken_nothing() {
    let clock = ManualClock::new();
    let queue = Limit::per_second(1).algorithm(Algorithm::LeakyBucket).queue(5);
    let paced = Limiter::builder(queue).name("paced").clock(&clock).build().expect("small");
    let users = KeyedLimiter::builder(Limit::per_hour(10)).clock(&clock).build().expect("small");
    let layer = RateLimitLayer::builder().limit(&paced).limit(users.by(global())).build().expect("good");
    let silent = Silent::default();
    let mut service = layer.layer(silent.clone());
    let mut first = Box::pin(service.call(to(200)));
    assert!(futures_are_pending(&mut first));
    assert_eq!(silent.0.load(Ordering::SeqCst), 1, "the first one begins at once");
    let mut second = Box::pin(service.call(to(200)));
    assert!(futures_are_pending(&mut second));
    assert_eq!(silent.0.load(Ordering::SeqCst), 1, "the second one waits for its start");
    assert_eq!(paced.peek().remaining(), 4);
    drop(second);
    assert_eq!(paced.peek().remaining(), 5, "its place is free again");
    assert_eq!(silent.0.load(Ordering::SeqCst), 1);
    drop(first);
    assert_eq!(paced.peek().remaining(), 5, "what the service has begun stays charged");
}

fn futures_are_pending<T>(future: &mut std::pin::Pin<Box<impl Future<Output = T>>>) -> bool {
    future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())).is_pending()
}
