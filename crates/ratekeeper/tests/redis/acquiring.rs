//! Units that several processes share, and callers that wait for them: in order within a process, refused at once where a
//! wait cannot help, and nothing is kept by whoever leaves.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratekeeper::{
    Admitted, Check, Limit, NamedLimit, Reason, RedisStore, Refused, SharedStore, hours, millis, seconds,
};
use ratekeeper_testkit::redis::{RedisServer, is_left_out, wait_until};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::support::{PATIENT, named, peek, shared};

fn on_a_runtime(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future);
}

fn one(limit: &NamedLimit, cost: u64) -> [Check<'_>; 1] {
    [Check { limit, key: "k".into(), cost }]
}

/// Waits on its own, as far as it comes without time.
async fn start(
    store: &SharedStore,
    limit: &NamedLimit,
    cost: u64,
    within: Duration,
) -> JoinHandle<Result<Admitted, Refused>> {
    let waits = tokio::spawn(store.acquire(&one(limit, cost)).unwrap().within(within));
    tokio::task::yield_now().await;
    waits
}

#[test]
fn callers_of_a_process_are_served_in_order_whatever_they_cost() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    let limit = named("units", Limit::per(1, millis(20)).burst(5));
    on_a_runtime(async {
        let (order, started) = (Arc::new(Mutex::new(Vec::new())), Instant::now());
        let costs = [5, 5, 1, 4, 1, 2, 1];
        let callers: Vec<_> = (0..costs.len())
            .map(|i| {
                let (acquire, order) = (store.acquire(&one(&limit, costs[i])).unwrap(), Arc::clone(&order));
                tokio::spawn(async move {
                    acquire.await.unwrap();
                    order.lock().unwrap().push(i);
                })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4, 5, 6]);
        // Five were there; the other fourteen have come, by the server's clock.
        assert!(started.elapsed() >= millis(14 * 20), "{:?}", started.elapsed());
    });
}

#[test]
fn two_processes_that_wait_never_take_more_than_there_is() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let stores = [shared(&server.url(), PATIENT), shared(&server.url(), PATIENT)];
    let limit = named("units", Limit::per(1, millis(30)).burst(2));
    on_a_runtime(async {
        let started = Instant::now();
        let callers: Vec<_> = (0..12)
            .map(|i| {
                let acquire = stores[i % 2].acquire(&one(&limit, 1)).unwrap();
                tokio::spawn(async move {
                    acquire.await.unwrap();
                    started.elapsed()
                })
            })
            .collect();
        let mut times = Vec::new();
        for caller in callers {
            times.push(caller.await.unwrap());
        }
        times.sort_unstable();
        for (i, time) in times.iter().enumerate().skip(1) {
            assert!(*time >= millis(30) * (u32::try_from(i).unwrap() - 1), "{times:?}");
        }
    });
}

#[test]
fn who_would_be_too_late_is_refused_at_once_also_behind_others() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    let limit = named("units", Limit::per_hour(1));
    on_a_runtime(async {
        start(&store, &limit, 1, hours(1)).await.await.unwrap().unwrap();
        let began = Instant::now();
        let alone = start(&store, &limit, 1, seconds(30)).await.await.unwrap().unwrap_err();
        assert_eq!(alone.reason(), Some(Reason::TooLate));
        assert!(alone.retry_after() > Some(seconds(3_000)), "{alone}");
        let never = start(&store, &limit, 2, hours(9)).await.await.unwrap().unwrap_err();
        assert_eq!(never.reason(), Some(Reason::CostExceedsCapacity));
        let waits = start(&store, &limit, 1, hours(2)).await;
        let behind = loop {
            // Until the one in front has been told its wait, nobody can know.
            let behind = start(&store, &limit, 1, millis(100)).await.await.unwrap().unwrap_err();
            if behind.retry_after().is_some() {
                break behind;
            }
        };
        assert_eq!(behind.reason(), Some(Reason::TooLate));
        assert!(behind.retry_after() > Some(seconds(3_000)), "{behind}");
        let hasty = start(&store, &limit, 1, Duration::ZERO).await.await.unwrap().unwrap_err();
        assert_eq!(hasty.reason(), Some(Reason::TooLate));
        assert!(began.elapsed() < seconds(30), "nobody was refused at the deadline");
        waits.abort();
        assert!(waits.await.is_err());
    });
}

#[test]
fn only_so_many_wait_for_a_key_and_places_come_free() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let redis = RedisStore::builder(server.url().parse().unwrap()).timeout(PATIENT).build().unwrap();
    let store = SharedStore::builder(redis).max_waiting(1).build().unwrap();
    wait_until("the store is connected", seconds(10), || store.status().is_up);
    let limit = named("units", Limit::per_hour(1));
    on_a_runtime(async {
        start(&store, &limit, 1, hours(9)).await.await.unwrap().unwrap();
        let asks = start(&store, &limit, 1, hours(9)).await;
        let behind = start(&store, &limit, 1, hours(9)).await;
        let full = start(&store, &limit, 1, hours(9)).await.await.unwrap().unwrap_err();
        assert_eq!(full.reason(), Some(Reason::QueueFull));
        let other = [Check { limit: &limit, key: "other".into(), cost: 1 }];
        store.acquire(&other).unwrap().await.unwrap();
        behind.abort();
        assert!(behind.await.is_err());
        let again = start(&store, &limit, 1, hours(9)).await;
        assert!(!again.is_finished(), "it has the place of the one that left");
        for waits in [asks, again] {
            waits.abort();
            assert!(waits.await.is_err());
        }
    });
}

#[test]
fn who_leaves_keeps_nothing_and_what_is_reserved_comes_back() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    on_a_runtime(async {
        // It has asked, and leaves before it knows the answer; where that was faster, another one tries.
        let mut limit = named("units", Limit::per_hour(3));
        for attempt in 0.. {
            assert!(attempt < 100, "the answer is always there first");
            limit = named(&format!("units-{attempt}"), Limit::per_hour(3));
            let leaves = start(&store, &limit, 2, hours(9)).await;
            while peek(&store, &limit, "k", 0).remaining == 3 {
                tokio::task::yield_now().await;
            }
            leaves.abort();
            if leaves.await.is_err() {
                break;
            }
        }
        let began = Instant::now();
        while peek(&store, &limit, "k", 0).remaining < 3 {
            assert!(began.elapsed() < seconds(10), "what nobody holds comes back");
            tokio::task::yield_now().await;
        }
        let (admitted, held) = store.acquire(&one(&limit, 2)).unwrap().reserve().await.unwrap();
        assert_eq!(admitted.remaining(), 1);
        let waits = start(&store, &limit, 3, hours(9)).await;
        assert!(!waits.is_finished());
        waits.abort();
        assert!(waits.await.is_err());
        held.cancel(PATIENT).await;
        assert_eq!(peek(&store, &limit, "k", 0).remaining, 3);
    });
}

#[test]
fn several_limits_are_waited_for_together() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let store = shared(&server.url(), PATIENT);
    let (user, all) = (named("user", Limit::per_hour(9)), named("all", Limit::per(1, millis(300))));
    on_a_runtime(async {
        let both = || {
            let user = Check { limit: &user, key: "ann".into(), cost: 1 };
            let all = Check { limit: &all, key: "".into(), cost: 1 };
            store.acquire(&[user, all]).unwrap()
        };
        both().await.unwrap();
        let began = Instant::now();
        let refused = both().within(Duration::ZERO).await.unwrap_err();
        assert_eq!((refused.reason(), refused.decision().binding), (Some(Reason::TooLate), 1));
        let admitted = both().await.unwrap();
        assert!(admitted.waited() > Duration::ZERO && began.elapsed() < seconds(10));
        assert_eq!(peek(&store, &user, "ann", 0).remaining, 7, "the refusal took nothing");
        let too_many = vec![Check { limit: &user, key: "ann".into(), cost: 1 }; 17];
        assert!(store.acquire(&too_many).is_err());
    });
}
