//! Starts that several processes share: spaced by the server, in order within a process, given up by whoever leaves.

use std::sync::Arc;
use std::time::Duration;

use ratekeeper::{Algorithm, Limit, Overflow, Reason, Shaper, SharedStore, millis, seconds};
use ratekeeper_testkit::redis::{RedisServer, is_left_out};
use tokio::time::Instant;

use crate::support::{PATIENT, named, peek, shared};

fn paced(ms: u64, queue: u64) -> Limit {
    Limit::per(1, millis(ms)).algorithm(Algorithm::LeakyBucket).queue(queue)
}

fn shaper(store: &SharedStore, limit: Limit, overflow: Overflow) -> Shaper {
    Shaper::shared(store.clone(), named("pace", limit), overflow).unwrap()
}

fn on_a_runtime(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future);
}

#[test]
fn starts_of_two_instances_are_spaced_by_the_server() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let stores = [shared(&server.url(), PATIENT), shared(&server.url(), PATIENT)];
    on_a_runtime(async {
        let started = Instant::now();
        let starts = (0..8).map(|i| {
            let shaper = shaper(&stores[i % 2], paced(50, 20), Overflow::Refuse);
            tokio::spawn(async move { shaper.run("host", async { started.elapsed() }).await.unwrap() })
        });
        let mut times = Vec::new();
        for start in starts.collect::<Vec<_>>() {
            times.push(start.await.unwrap());
        }
        times.sort_unstable();
        // None before its slot by the server's clock, the first of which began after we did.
        for (i, time) in times.iter().enumerate() {
            assert!(*time >= millis(50) * u32::try_from(i).unwrap(), "{times:?}");
        }
        assert!(times[7] < millis(350) + seconds(1), "{times:?}");
    });
}

#[test]
fn a_caller_that_leaves_gives_its_slot_up_in_the_store() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    let limit = paced(60_000, 1);
    let pace = named("pace", limit);
    on_a_runtime(async {
        let shaper = shaper(&store, limit, Overflow::Refuse);
        shaper.ready("k").await.unwrap();
        let waits = tokio::spawn(shaper.ready("k"));
        while peek_delay(&store, &pace) < seconds(61) {
            tokio::task::yield_now().await;
        }
        let refused = shaper.ready("k").await.unwrap_err();
        assert_eq!(refused.reason(), Some(Reason::QueueFull));
        assert!(refused.retry_after() <= Some(seconds(60)));
        waits.abort();
        assert!(waits.await.is_err());
        // What is given back goes to the server without anybody waiting for it.
        while peek_delay(&store, &pace) > seconds(60) {
            tokio::task::yield_now().await;
        }
        let late = shaper.ready("k").within(seconds(1)).await.unwrap_err();
        assert_eq!(late.reason(), Some(Reason::TooLate));
        assert!(peek_delay(&store, &pace) <= seconds(60), "a slot that would begin too late is not taken");
    });
}

fn peek_delay(store: &SharedStore, limit: &ratekeeper::NamedLimit) -> Duration {
    peek(store, limit, "k", 0).reset_after
}

#[test]
fn with_overflow_wait_the_callers_of_a_process_start_in_order() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    on_a_runtime(async {
        let shaper = shaper(&store, paced(20, 1), Overflow::Wait);
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let callers: Vec<_> = (0..10)
            .map(|i| {
                let (shaper, order) = (shaper.clone(), Arc::clone(&order));
                tokio::spawn(async move {
                    shaper.run("k", async { order.lock().unwrap().push(i) }).await.unwrap();
                })
            })
            .collect();
        for (i, caller) in callers.into_iter().enumerate() {
            if i == 3 {
                // Somebody in the middle of the line goes away.
                caller.abort();
            }
            let _ = caller.await;
        }
        let order = order.lock().unwrap().clone();
        assert!(order.is_sorted() && order.len() >= 9, "{order:?}");
        let slow = Shaper::shared(store.clone(), named("slow", paced(60_000, 1)), Overflow::Wait).unwrap();
        slow.ready("k").await.unwrap();
        let hasty = slow.ready("k").within(Duration::ZERO).await.unwrap_err();
        assert_eq!((hasty.reason(), hasty.retry_after() > Some(seconds(50))), (Some(Reason::TooLate), true));
    });
}

#[test]
fn a_closed_shaper_promises_no_more_starts_but_serves_who_need_not_wait() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    on_a_runtime(async {
        for (name, overflow) in [("refuse", Overflow::Refuse), ("wait", Overflow::Wait)] {
            let pace = named(name, paced(60_000, 1));
            let shaper = Shaper::shared(store.clone(), pace.clone(), overflow).unwrap();
            shaper.ready("k").await.unwrap();
            shaper.close();
            assert_eq!(shaper.ready("k").await.unwrap_err().reason(), Some(Reason::Closed), "{name}");
            assert!(peek_delay(&store, &pace) <= seconds(60), "{name}: no slot was taken");
            shaper.ready("another").await.unwrap();
        }
    });
}

#[test]
fn closing_a_shaper_refuses_those_who_stand_in_line_for_a_full_queue() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    on_a_runtime(async {
        let shaper = shaper(&store, paced(60_000, 0), Overflow::Wait);
        shaper.ready("k").await.unwrap();
        let waits: Vec<_> = (0..3).map(|_| tokio::spawn(shaper.ready("k"))).collect();
        tokio::task::yield_now().await;
        shaper.close();
        for wait in waits {
            assert_eq!(wait.await.unwrap().unwrap_err().reason(), Some(Reason::Closed));
        }
    });
}
