//! Requests that wait: for their start in a queue, or for their turn. Time is the runtime's, paused.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use ratekeeper::{Algorithm, Clock, KeyedLimiter, Limit, Limiter, Micros, millis, seconds};
use ratekeeper_tower::{Config, LimitBy as _, Mode, RateLimitLayer, global, header};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::support::{Answer, Backend, empty, from};

/// Decides by the runtime's clock, which a paused one moves on when everybody sleeps.
struct RuntimeClock(Instant);

impl Clock for RuntimeClock {
    fn now(&self) -> Micros {
        let elapsed = u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX);
        // Not at the very beginning of all time.
        Micros::new(1_000_000_000 + elapsed)
    }

    fn may_step_back(&self) -> bool {
        false
    }
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(RuntimeClock(Instant::now()))
}

/// Asks so often at once; status and time of each answer, in the order of the answers.
async fn ask_at_once(layer: &RateLimitLayer, count: usize) -> Vec<(u16, u128)> {
    let (backend, started) = (Backend::default(), Instant::now());
    let mut asked = JoinSet::new();
    for _ in 0..count {
        let (backend, layer) = (backend.clone(), layer.clone());
        asked.spawn(async move {
            let answer = backend.ask(&layer, empty(from("192.0.2.1"))).await;
            (answer.status.as_u16(), started.elapsed().as_millis())
        });
    }
    let mut answers = asked.join_all().await;
    answers.sort_by_key(|(status, at)| (*at, *status));
    answers
}

#[tokio::test(start_paused = true)]
async fn a_queue_spaces_starts_and_answers_the_rest_at_once() {
    // B101r, and B100r without a real clock.
    let queue = Limit::per_second(10).algorithm(Algorithm::LeakyBucket).queue(5);
    let layer = RateLimitLayer::builder().limit(queue.by(global())).clock(clock()).build().expect("good");
    let answers = ask_at_once(&layer, 1_000).await;
    let served: Vec<u128> = answers.iter().filter(|(status, _)| *status == 200).map(|(_, at)| *at).collect();
    assert_eq!(served.len(), 6);
    for (nth, at) in served.iter().enumerate() {
        let start = nth as u128 * 100;
        // The runtime's timers count whole milliseconds, rounded up.
        assert!((start..=start + 2).contains(at), "start {nth} at {at} ms");
    }
    let refused: Vec<_> = answers.iter().filter(|(status, _)| *status == 429).collect();
    assert_eq!(refused.len(), 994);
    assert!(refused.iter().all(|(_, at)| *at <= 1), "nobody is refused after having waited");
}

#[tokio::test(start_paused = true)]
async fn who_may_wait_is_let_in_when_its_turn_comes() {
    let limit = Limit::per_second(10).burst(1);
    let layer = RateLimitLayer::builder().limit(limit.by(global())).clock(clock()).wait_within(millis(250));
    let layer = layer.build().expect("good");
    let backend = Backend::default();
    let started = Instant::now();
    for nth in 0..5 {
        assert_eq!(backend.ask(&layer, empty(from("192.0.2.1"))).await.status, 200);
        let at = started.elapsed().as_millis();
        assert!((nth * 100..=nth * 100 + 10).contains(&at), "request {nth} at {at} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_cannot_help_in_time_is_refused_at_once() {
    // B23.
    let limit = Limit::per_minute(1);
    let layer = RateLimitLayer::builder().limit(limit.by(global())).clock(clock()).wait_within(seconds(5));
    let layer = layer.build().expect("good");
    assert_eq!(ask_at_once(&layer, 1).await, [(200, 0)]);
    let (backend, started) = (Backend::default(), Instant::now());
    let refused = backend.ask(&layer, empty(from("192.0.2.1"))).await;
    assert_eq!((refused.status.as_u16(), refused.field("retry-after")), (429, Some("60")));
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn only_so_many_wait() {
    let limit = Limit::per_second(1).burst(1);
    let layer = RateLimitLayer::builder().limit(limit.by(global())).clock(clock()).wait_within(seconds(60));
    let layer = layer.max_waiting(3).build().expect("good");
    let answers = ask_at_once(&layer, 10).await;
    let refused = answers.iter().filter(|(status, at)| *status == 429 && *at <= 1).count();
    assert_eq!(refused, 6, "{answers:?}");
    assert_eq!(answers.iter().filter(|(status, _)| *status == 200).count(), 4);
    assert!(answers.iter().all(|(_, at)| *at < 4_000), "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn a_queue_has_no_more_who_wait_for_their_start_than_may() {
    let queue = Limit::per_second(10).algorithm(Algorithm::LeakyBucket).queue(500);
    let layer = RateLimitLayer::builder().limit(queue.by(global())).clock(clock()).max_waiting(2);
    let layer = layer.build().expect("good");
    for round in 0..2 {
        let answers = ask_at_once(&layer, 100).await;
        let served: Vec<u128> =
            answers.iter().filter(|(status, _)| *status == 200).map(|(_, at)| *at).collect();
        assert_eq!(served.len(), 3, "round {round}: {answers:?}");
        assert!(served[2] < 205, "{served:?}");
        assert!(answers.iter().all(|(status, at)| *status == 200 || (*status, *at) == (429, 0)));
        // The slot of the last one served is over.
        tokio::time::sleep(millis(100)).await;
    }
    let backend = Backend::default();
    let ask = || backend.ask(&layer, empty(from("192.0.2.1")));
    let (first, second, third, refused) = tokio::join!(ask(), ask(), ask(), ask());
    assert_eq!([&first, &second, &third].map(|answer| answer.status.as_u16()), [200; 3]);
    assert_eq!((refused.status.as_u16(), refused.field("retry-after")), (429, Some("1")));
    let told = refused.json();
    assert_eq!((&told["reason"], told["retry_after_ms"].as_u64()), (&"queue_full".into(), Some(300)));
    assert_eq!(backend.calls(), 3);
}

#[tokio::test(start_paused = true)]
async fn who_may_wait_for_ever_does() {
    for limit in [
        Limit::per_hour(1),
        Limit::per_hour(1).algorithm(Algorithm::FixedWindow),
        Limit::per_hour(1).algorithm(Algorithm::LeakyBucket).queue(5),
    ] {
        let layer = RateLimitLayer::builder().limit(limit.by(global())).clock(clock());
        let layer = layer.wait_within(Duration::MAX).build().expect("good");
        let answers = ask_at_once(&layer, 4).await;
        assert!(answers.iter().all(|(status, _)| *status == 200), "{answers:?}");
        assert!(answers[3].1 >= 2 * 3_600_000, "{answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn shadow_never_waits() {
    let queue = Limit::per_second(1).algorithm(Algorithm::LeakyBucket).queue(5);
    let layer = RateLimitLayer::builder().limit(queue.by(global())).clock(clock()).mode(Mode::Shadow);
    let layer = layer.wait_within(seconds(60)).build().expect("good");
    assert_eq!(ask_at_once(&layer, 10).await, [(200, 0); 10]);
}

/// Which requests the service has been called for, in its order, and when.
#[derive(Clone)]
struct Calls(Arc<Mutex<Vec<(String, u128)>>>, Instant);

impl Calls {
    fn new() -> (Self, Backend) {
        let calls = Self(Arc::default(), Instant::now());
        let told = calls.clone();
        let backend = Backend::answering(move |request| {
            let name = request.headers()["x-name"].to_str().expect("text").to_owned();
            told.0.lock().expect("no panic").push((name, told.1.elapsed().as_millis()));
            Response::new(Full::<Bytes>::from("ok"))
        });
        (calls, backend)
    }

    fn names(&self) -> Vec<String> {
        self.0.lock().expect("no panic").iter().map(|(name, _)| name.clone()).collect()
    }

    /// When it was called for this request, in milliseconds; timers are late by a few at most.
    fn at(&self, name: &str) -> Option<u128> {
        self.0.lock().expect("no panic").iter().find(|(other, _)| other == name).map(|(_, at)| *at)
    }
}

/// A request by this user, on its way as far as it comes without time.
async fn send(
    (layer, backend): (&RateLimitLayer, &Backend),
    user: &str,
    name: &str,
    cost: u64,
) -> tokio::task::JoinHandle<Answer> {
    let (layer, backend) = (layer.clone(), backend.clone());
    let request = from("192.0.2.1").header("x-user", user).header("x-name", name).header("x-cost", cost);
    let sent = tokio::spawn(async move { backend.ask(&layer, empty(request)).await });
    tokio::task::yield_now().await;
    sent
}

fn cost_of(parts: &http::request::Parts) -> u64 {
    parts.headers["x-cost"].to_str().ok().and_then(|cost| cost.parse().ok()).unwrap_or(1)
}

const FILE: &str = r#"
version: 1
policies:
  - { name: api, key: [header:x-user], limits: [{ name: second, algorithm: gcra, limit: 10/second, burst: 5 }] }
  - { name: trial, mode: shadow, key: [global], limits: [{ name: hour, algorithm: gcra, limit: 1/hour }] }
"#;

#[tokio::test(start_paused = true)]
async fn requests_of_one_key_are_served_in_the_order_in_which_they_came_whatever_they_cost() {
    let limit = Limit::per_second(10).burst(5);
    let of_code = RateLimitLayer::builder().limit(limit.by(header("x-user")));
    let config = Config::parse("ratekeeper.yaml", FILE.as_bytes(), &|_| None).expect("no mistake");
    for builder in [of_code, RateLimitLayer::from_config(config)] {
        let layer = builder.clock(clock()).cost(cost_of).wait_within(seconds(10)).build().expect("good");
        let (calls, backend) = Calls::new();
        let mut sent = Vec::new();
        for (name, cost) in [("a", 5), ("b", 4), ("c", 1), ("d", 5), ("e", 1), ("f", 1)] {
            sent.push(send((&layer, &backend), "ann", name, cost).await);
        }
        for answer in sent {
            assert_eq!(answer.await.expect("no panic").status, 200);
        }
        // 100 ms a unit, one after another; the units of one are never lent to another behind it.
        assert_eq!(calls.names(), ["a", "b", "c", "d", "e", "f"]);
        for (name, due) in [("a", 0), ("b", 400), ("c", 500), ("d", 1_000), ("e", 1_100), ("f", 1_200)] {
            let at = calls.at(name).expect("served");
            assert!((due..due + 5).contains(&at), "{name} at {at} ms");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_its_own_units_holds_up_nobody_else() {
    let clock = clock();
    let shared = Limiter::builder(Limit::per_second(1_000)).name("shared").clock(Arc::clone(&clock));
    let shared = shared.build().expect("small");
    let users = Limit::per_second(1).burst(1).by(header("x-user")).named("user");
    // Whichever is written first.
    let layer = RateLimitLayer::builder().limit(&shared).limit(users).clock(clock);
    let layer = layer.wait_within(seconds(10)).build().expect("good");
    let (calls, backend) = Calls::new();
    let mut sent = Vec::new();
    for (user, name) in [("ann", "a1"), ("ann", "a2"), ("bob", "b1"), ("bob", "b2")] {
        sent.push(send((&layer, &backend), user, name, 1).await);
    }
    assert_eq!(calls.names(), ["a1", "b1"]);
    for answer in sent {
        let answer = answer.await.expect("no panic");
        assert_eq!(
            answer.field("ratelimit-policy"),
            Some("\"default.shared\";q=1000;w=1, \"default.user\";q=1;w=1")
        );
    }
    assert!(calls.at("b2").is_some_and(|at| (1_000..1_010).contains(&at)));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_goes_away_gives_its_place_up() {
    let users = KeyedLimiter::builder(Limit::per_second(1).burst(1)).clock(clock()).build().expect("small");
    let layer = RateLimitLayer::builder().limit(users.by(header("x-user"))).wait_within(millis(2_500));
    let layer = layer.build().expect("good");
    let (calls, backend) = Calls::new();
    send((&layer, &backend), "ann", "first", 1).await.await.expect("no panic");
    let leaves = send((&layer, &backend), "ann", "leaves", 1).await;
    let stays = send((&layer, &backend), "ann", "stays", 1).await;
    let late = send((&layer, &backend), "ann", "late", 1).await;
    let late = late.await.expect("no panic");
    assert_eq!((late.status.as_u16(), late.field("retry-after")), (429, Some("3")), "behind two others");
    leaves.abort();
    assert!(leaves.await.is_err());
    let next = send((&layer, &backend), "ann", "next", 1).await;
    for answer in [stays, next] {
        assert_eq!(answer.await.expect("no panic").status, 200);
    }
    assert_eq!(calls.names(), ["first", "stays", "next"]);
    for (name, due) in [("stays", 1_000), ("next", 2_000)] {
        assert!(calls.at(name).is_some_and(|at| (due..due + 5).contains(&at)), "{calls:?}", calls = calls.0);
    }
    assert_eq!(users.peek("ann").remaining(), 0, "nobody has more");
}

#[tokio::test(start_paused = true)]
async fn who_would_be_too_late_behind_the_others_is_refused_at_once() {
    // B23, in line.
    let limit = Limit::per_second(1).burst(1);
    let layer = RateLimitLayer::builder().limit(limit.by(global())).clock(clock()).wait_within(millis(2_500));
    let layer = layer.build().expect("good");
    let answers = ask_at_once(&layer, 6).await;
    let statuses: Vec<u16> = answers.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [200, 429, 429, 429, 200, 200], "{answers:?}");
    assert!(answers[..4].iter().all(|(_, at)| *at == 0), "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn where_too_many_wait_the_next_is_told_when_its_turn_would_be() {
    let limit = Limit::per_second(1).burst(1);
    let layer = RateLimitLayer::builder().limit(limit.by(header("x-user")).named("user")).clock(clock());
    let layer = layer.wait_within(seconds(60)).max_waiting(2).build().expect("good");
    let (calls, backend) = Calls::new();
    let mut sent = Vec::new();
    for name in ["a", "b", "c"] {
        sent.push(send((&layer, &backend), "ann", name, 1).await);
    }
    let full = send((&layer, &backend), "ann", "d", 1).await.await.expect("no panic");
    assert_eq!((full.status.as_u16(), full.field("retry-after")), (429, Some("3")), "{}", full.body);
    assert_eq!(full.json()["violated-policies"], serde_json::json!(["default.user"]));
    let other = send((&layer, &backend), "bob", "e", 1).await.await.expect("no panic");
    assert_eq!(other.status, 200, "who need not wait needs no place");
    for answer in sent {
        assert_eq!(answer.await.expect("no panic").status, 200);
    }
    let again = send((&layer, &backend), "ann", "f", 1).await.await.expect("no panic");
    assert_eq!(again.status, 200, "places come free");
    assert_eq!(calls.names(), ["a", "e", "b", "c", "f"]);
}

#[tokio::test(start_paused = true)]
async fn units_that_come_back_go_to_the_first_in_line_at_once() {
    let users = KeyedLimiter::builder(Limit::per_hour(1)).clock(clock()).build().expect("small");
    let layer = RateLimitLayer::builder().limit(users.by(header("x-user"))).wait_within(seconds(9_000));
    let layer = layer.build().expect("good");
    let (calls, backend) = Calls::new();
    let held = users.reserve("ann", 1).expect("there is one");
    let waits = send((&layer, &backend), "ann", "waits", 1).await;
    assert!(calls.names().is_empty());
    held.cancel();
    assert_eq!(waits.await.expect("no panic").status, 200);
    assert_eq!(calls.at("waits"), Some(0));
}

#[tokio::test(start_paused = true)]
async fn when_the_line_is_closed_those_in_it_are_told_a_wait() {
    let users = KeyedLimiter::builder(Limit::per_hour(1)).clock(clock()).build().expect("small");
    let layer = RateLimitLayer::builder().limit(users.by(header("x-user"))).wait_within(seconds(9_000));
    let layer = layer.build().expect("good");
    let (_, backend) = Calls::new();
    send((&layer, &backend), "ann", "first", 1).await.await.expect("no panic");
    let waits = send((&layer, &backend), "ann", "waits", 1).await;
    users.close();
    let refused = waits.await.expect("no panic");
    assert_eq!(
        (refused.status.as_u16(), refused.field("retry-after")),
        (503, Some("3600")),
        "{}",
        refused.body
    );
}

#[tokio::test(start_paused = true)]
async fn who_may_wait_stands_in_line_for_a_full_queue() {
    let queue = Limit::per_second(10).algorithm(Algorithm::LeakyBucket).queue(1);
    let layer = RateLimitLayer::builder().limit(queue.by(global())).clock(clock()).wait_within(millis(450));
    let answers = ask_at_once(&layer.build().expect("good"), 8).await;
    let served: Vec<u128> = answers.iter().filter(|(status, _)| *status == 200).map(|(_, at)| *at).collect();
    assert_eq!(served.len(), 5, "{answers:?}");
    for (nth, at) in served.iter().enumerate() {
        let start = nth as u128 * 100;
        assert!((start..start + 5).contains(at), "start {nth} at {at} ms");
    }
    assert!(answers.iter().all(|(status, at)| *status == 200 || *at == 0), "{answers:?}");
}
