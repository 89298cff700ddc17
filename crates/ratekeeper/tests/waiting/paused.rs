//! Waiting on a runtime: one timer task, tokio's paused time, runtimes that end.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ratekeeper::{Algorithm, Clock as _, KeyedLimiter, Limit, Micros, Reason, TokioClock, millis, seconds};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::crowd::Flag;

fn users(limit: Limit) -> (KeyedLimiter, TokioClock) {
    let clock = TokioClock::new();
    (KeyedLimiter::builder(limit).max_keys(100).clock(clock).build().unwrap(), clock)
}

/// How many tasks live on this runtime.
fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

#[tokio::test(start_paused = true)]
async fn paused_time_drives_decisions_and_those_who_wait() {
    let (users, clock) = users(Limit::per_second(1));
    let waits: Vec<_> = (0..5)
        .map(|_| {
            let users = users.clone();
            tokio::spawn(async move {
                users.acquire("k").await.unwrap();
                clock.now()
            })
        })
        .collect();
    let mut times = Vec::new();
    for wait in waits {
        times.push(wait.await.unwrap().get() / 1_000);
    }
    assert_eq!(times, [0, 1_000, 2_000, 3_000, 4_000]);
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_waiting_takes_no_time_and_a_deadline_is_kept_to_the_millisecond() {
    let (users, clock) = users(Limit::per_hour(1));
    users.acquire("k").await.unwrap();
    let refused = users.acquire("k").within(seconds(10)).await.unwrap_err();
    assert_eq!(refused.reason(), Some(Reason::TooLate));
    assert_eq!(clock.now(), Micros::ZERO, "at once");
    let behind = tokio::spawn(users.acquire("k"));
    tokio::task::yield_now().await;
    // Those ahead may leave, so this one waits for as long as it may.
    let patient = tokio::spawn(users.acquire("k").within(seconds(7_200)));
    tokio::task::yield_now().await;
    assert!(users.acquire("k").within(seconds(7_200)).await.is_err());
    assert!(behind.await.unwrap().is_ok() && patient.await.unwrap().is_ok());
    assert_eq!(clock.now(), Micros::new(7_200_000_000));
}

#[tokio::test(start_paused = true)]
async fn one_timer_serves_all_and_ends_with_the_last() {
    let (users, _) = users(Limit::per_second(1));
    for key in 0..100_u64 {
        assert!(users.try_acquire(key).allowed());
    }
    let mut waits: Vec<_> = (0..300_u64).map(|i| Box::pin(users.acquire(i % 100))).collect();
    let mut context = Context::from_waker(Waker::noop());
    for wait in &mut waits {
        assert!(wait.as_mut().poll(&mut context).is_pending());
    }
    assert_eq!(tasks(), 1, "one timer for three hundred");
    for wait in waits.split_off(100) {
        drop(wait);
    }
    for wait in waits {
        wait.await.unwrap();
    }
    tokio::time::sleep(millis(1)).await;
    assert_eq!(tasks(), 0, "nobody waits");
    drop(pin!(users.acquire(0_u64)).poll(&mut context));
    tokio::time::sleep(millis(1)).await;
    assert_eq!(tasks(), 0, "nor after one who has gone away");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_not_polled_holds_up_nobody() {
    let (users, clock) = users(Limit::per_second(1));
    users.acquire("k").await.unwrap();
    let mut idle = Box::pin(users.acquire("k"));
    assert!(idle.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    users.acquire("k").await.unwrap();
    assert_eq!(clock.now(), Micros::new(2_000_000), "the idle one was served in its turn");
    idle.await.unwrap();
    assert_eq!(clock.now(), Micros::new(2_000_000));
}

#[tokio::test(start_paused = true)]
async fn an_earlier_turn_shortens_the_timers_sleep() {
    let (users, clock) = users(Limit::per_minute(1));
    users.acquire("slow").await.unwrap();
    let slow = tokio::spawn(users.acquire("slow"));
    tokio::task::yield_now().await;
    let (fast, _) = (KeyedLimiter::clone(&users), ());
    let job = fast.reserve("fast", 1).unwrap();
    let waits = tokio::spawn(fast.acquire("fast"));
    tokio::time::sleep(seconds(5)).await;
    drop(job);
    waits.await.unwrap().unwrap();
    assert_eq!(clock.now(), Micros::new(5_000_000));
    slow.await.unwrap().unwrap();
    assert_eq!(clock.now(), Micros::new(60_000_000));
}

#[tokio::test(start_paused = true)]
async fn starts_of_a_queue_are_paced_and_lateness_is_not_added_up() {
    // A third of a second is no whole number of the timer's milliseconds.
    let limit = Limit::per_second(3).algorithm(Algorithm::LeakyBucket).queue(100);
    let (users, clock) = users(limit);
    for i in 0..=30_u64 {
        users.acquire("k").await.unwrap();
        let (at, due) = (clock.now().get(), i * 1_000_000 / 3);
        assert!(at >= due && at < due + 2_000, "start {i} at {at}");
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

#[test]
fn those_on_another_runtime_are_served_when_the_timers_runtime_ends() {
    let users = KeyedLimiter::new(Limit::per_second(20).burst(1));
    assert!(users.try_acquire("k").allowed());
    let (first, second) = (runtime(), runtime());
    let flag = Flag::new();
    let mut waits = Box::pin(users.acquire("k"));
    {
        let _inside = first.enter();
        let waker = Waker::from(Arc::clone(&flag));
        assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    drop(first);
    assert!(flag.take(), "it is told that its timer is gone");
    second.block_on(async {
        let verdict = tokio::time::timeout(seconds(10), waits).await.expect("another timer serves it");
        assert_eq!(verdict.unwrap().remaining(), 0);
    });
}

#[test]
#[should_panic(expected = "there is no reactor running")]
fn waiting_outside_a_runtime_panics_as_timers_do() {
    let users = KeyedLimiter::new(Limit::per_hour(1));
    assert!(users.try_acquire("k").allowed());
    let _ = pin!(users.acquire("k")).poll(&mut Context::from_waker(Waker::noop()));
}

#[test]
#[should_panic(expected = "timers are disabled")]
fn waiting_on_a_runtime_without_timers_panics_as_timers_do() {
    let users = KeyedLimiter::new(Limit::per_hour(1));
    assert!(users.try_acquire("k").allowed());
    let without_timers = Builder::new_current_thread().build().unwrap();
    let _inside = without_timers.enter();
    let _ = pin!(users.acquire("k")).poll(&mut Context::from_waker(Waker::noop()));
}

#[test]
fn a_runtime_that_stands_still_holds_up_nobody_on_another() {
    let users = KeyedLimiter::new(Limit::per_second(20).burst(1));
    assert!(users.try_acquire("k").allowed());
    let (idle, driven) = (runtime(), runtime());
    let mut first = Box::pin(users.acquire("k"));
    idle.block_on(async {
        assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // The timer runs, and sleeps; from here on nobody drives it.
        tokio::task::yield_now().await;
    });
    driven.block_on(async {
        let second = tokio::time::timeout(seconds(10), users.acquire("k")).await;
        second.expect("it has a timer of its own").unwrap();
        assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready(), "that serves all");
    });
}

#[test]
fn who_need_not_wait_needs_no_runtime() {
    let users = KeyedLimiter::new(Limit::per_hour(1));
    let mut context = Context::from_waker(Waker::noop());
    assert!(matches!(pin!(users.acquire("k")).poll(&mut context), Poll::Ready(Ok(_))));
    assert!(matches!(
        pin!(users.acquire("k").within(Duration::ZERO)).poll(&mut context),
        Poll::Ready(Err(_))
    ));
}

#[test]
fn the_process_clock_and_real_timers_are_never_early() {
    let users = KeyedLimiter::new(Limit::per_second(100).burst(1));
    runtime().block_on(async {
        let started = tokio::time::Instant::now();
        for _ in 0..=10 {
            users.acquire("k").await.unwrap();
        }
        assert!(started.elapsed() >= millis(99), "{:?}", started.elapsed());
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_threads_are_served_exactly_what_there_is() {
    let limit = Limit::per_second(1_000).burst(10);
    let users = KeyedLimiter::builder(limit).max_waiting(10_000).build().unwrap();
    let started = tokio::time::Instant::now();
    let waits: Vec<_> = (0..300_u64).map(|_| tokio::spawn(users.acquire("k"))).collect();
    for wait in waits {
        wait.await.unwrap().unwrap();
    }
    assert!(started.elapsed() >= millis(285), "{:?}", started.elapsed());
}
