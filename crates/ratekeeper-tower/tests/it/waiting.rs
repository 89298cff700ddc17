//! Requests that wait: for their start in a queue, or for their turn. Time is the runtime's, paused.

use std::sync::Arc;
use std::time::Duration;

use ratekeeper::{Algorithm, Clock, Limit, Micros, millis, seconds};
use ratekeeper_tower::{LimitBy as _, Mode, RateLimitLayer, global};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::support::{Backend, empty, from};

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
async fn shadow_never_waits() {
    let queue = Limit::per_second(1).algorithm(Algorithm::LeakyBucket).queue(5);
    let layer = RateLimitLayer::builder().limit(queue.by(global())).clock(clock()).mode(Mode::Shadow);
    let layer = layer.wait_within(seconds(60)).build().expect("good");
    assert_eq!(ask_at_once(&layer, 10).await, [(200, 0); 10]);
}
