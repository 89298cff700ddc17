//! Slots that move while they are asked.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratekeeper::{NamedLimit, OnStoreError, SharedStore, Source, hours};
use ratekeeper_testkit::redis::{Cluster, RedisServer, is_left_out, wait_until};

use crate::subject::wait;
use crate::support::{PATIENT, all_end, check, count, demand, long, named, pause, shared, state};

const AMOUNT: u64 = 60;

/// A cluster whose keys are asked for two limits each while slots move.
struct Moving {
    cluster: Cluster,
    store: SharedStore,
    limits: [NamedLimit; 2],
    keys: Vec<String>,
}

impl Moving {
    fn start() -> Self {
        let cluster = Cluster::start(3, 0);
        let store = shared(&cluster.url(), PATIENT);
        let limits = [named("one", long(AMOUNT)), named("two", long(AMOUNT))];
        let keys = (0..12).map(|n| format!("user-{n}")).collect();
        Self { cluster, store, limits, keys }
    }

    /// Asks until every key is used up, while `moves` runs: how often each key was admitted, and the sources of all
    /// answers.
    fn ask_all(&self, moves: impl FnOnce()) -> (BTreeMap<String, u64>, Vec<Source>) {
        let (admitted, sources) = (Mutex::new(BTreeMap::new()), Mutex::new(Vec::new()));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for caller in 0..3 {
                let (admitted, sources, is_over) = (&admitted, &sources, &is_over);
                scope.spawn(move || {
                    for turn in caller.. {
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                        let key = &self.keys[turn % self.keys.len()];
                        let checks = [&self.limits[0], &self.limits[1]]
                            .map(|limit| check(limit, key.as_str().into(), 1));
                        let asked = self.store.decide(demand(&checks, &[OnStoreError::Deny; 2]), PATIENT);
                        let decision = wait(asked).unwrap();
                        if decision.allowed {
                            *admitted.lock().unwrap().entry(key.clone()).or_default() += 1;
                        }
                        sources.lock().unwrap().push(decision.source);
                        pause(2);
                    }
                });
            }
            moves();
            let all_used = || {
                let admitted = admitted.lock().unwrap();
                self.keys.iter().all(|key| admitted.get(key).copied().unwrap_or(0) >= AMOUNT)
            };
            let patience = Duration::from_secs(20);
            let used = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                wait_until("every key is used up", patience, all_used);
            }));
            is_over.store(true, Ordering::Relaxed);
            used.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
        (admitted.into_inner().unwrap(), sources.into_inner().unwrap())
    }

    fn slot(&self, key: &str) -> (u16, usize) {
        let slot = self.cluster.slot_of(&state(&self.limits[0], key));
        (slot, self.cluster.owner_of_slot(slot))
    }

    #[track_caller]
    fn is_exact(&self, admitted: &BTreeMap<String, u64>) {
        for key in &self.keys {
            let node = self.cluster.node(self.slot(key).1);
            let counts = self.limits.each_ref().map(|limit| count(node, limit, key));
            assert_eq!((admitted[key], counts), (AMOUNT, [AMOUNT; 2]), "{key}");
        }
        let nodes: Vec<&RedisServer> = (0..3).map(|node| self.cluster.node(node)).collect();
        all_end(&nodes, hours(24 * 366));
        assert_eq!(nodes.iter().map(|node| node.keys().len()).sum::<usize>(), 2 * self.keys.len());
    }
}

#[test]
fn b73_slots_that_move_under_load_fail_no_answer_and_charge_nothing_twice() {
    if is_left_out() {
        return;
    }
    let moving = Moving::start();
    let (admitted, sources) = moving.ask_all(|| {
        for key in &moving.keys[..6] {
            let (slot, from) = moving.slot(key);
            moving.cluster.move_slot(slot, from, (from + 1) % 3);
        }
    });
    assert!(sources.iter().all(|source| matches!(source, Source::Exact | Source::Cached)));
    moving.is_exact(&admitted);
}

/// Both keys of a request are parted for a while: the nodes say TRYAGAIN, and nothing is taken from either.
#[test]
fn keys_that_are_parted_on_their_way_are_debited_together_or_not_at_all() {
    if is_left_out() {
        return;
    }
    let moving = Moving::start();
    let (admitted, sources) = moving.ask_all(|| {
        for key in &moving.keys[..4] {
            let (slot, from) = moving.slot(key);
            let to = (from + 1) % 3;
            moving.cluster.begin_move(slot, from, to);
            pause(30);
            moving.cluster.move_these_keys(&[&state(&moving.limits[0], key)], from, to);
            pause(60);
            moving.cluster.move_keys(slot, from, to);
            pause(10);
            moving.cluster.finish_move(slot, to);
        }
    });
    let mut failed = sources.iter().filter(|source| **source == Source::FailedClosed);
    assert!(failed.next().is_some(), "the keys were parted long enough");
    moving.is_exact(&admitted);
}
