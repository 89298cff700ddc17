//! Servers whose replicas take over: by sentinels, and in a cluster.

use std::time::Duration;

use ratekeeper::{Source, hours, millis};
use ratekeeper_testkit::redis::{Cluster, RedisServer, Sentinels, is_left_out, wait_until};

use crate::support::{
    Load, RECOVERY, STRICT, all_end, ask, count, each, full_again, long, named, pause, shared, state,
};

#[test]
fn b85_a_failover_by_sentinels_forgets_one_capacity_at_most() {
    if is_left_out() {
        return;
    }
    let sentinels = Sentinels::start("rk", 1, 3);
    let store = shared(&sentinels.url(), STRICT);
    let limits = each(15, millis(400));
    let lasting = [named("lasting", long(1_000_000))];
    let both = [&limits[..], &lasting].concat();
    let (old, mut down_us, mut back_us) = (sentinels.primary_port(), 0, 0);
    let history = Load::new(&store, &both).during(|recorder| {
        pause(400);
        down_us = recorder.now_us();
        sentinels.primary().kill();
        sentinels.wait_for_other_primary(old);
        back_us = recorder.now_us();
        wait_until("it is asked again", RECOVERY, || store.status().is_up);
        pause(500);
    });
    history.keeps_the_theorem(1);
    history.is_in_time(STRICT);
    assert!(history.exact_after(back_us).is_some(), "{:?}", store.status());
    let primary = sentinels.primary();
    all_end(&[primary], hours(24 * 366));
    full_again(&sentinels.url(), &limits, "k");
    // What was not replicated is what was admitted in the last moment.
    let exact = history.admitted(&state(&lasting[0], "k"), |source| source == Source::Exact);
    let late =
        exact.iter().filter(|event| event.got_us + 300_000 > down_us && event.sent_us < down_us + 100_000);
    let stored = count(primary, &lasting[0], "k");
    assert!(stored + late.count() as u64 >= exact.len() as u64, "{stored} of {}", exact.len());
}

/// The primary is well and is told to step down: its last words are READONLY, and nobody restarts anything.
#[test]
fn a_primary_that_becomes_a_replica_is_left_for_the_new_one() {
    if is_left_out() {
        return;
    }
    let sentinels = Sentinels::start("rk", 1, 3);
    let store = shared(&sentinels.url(), STRICT);
    let limits = each(15, millis(400));
    let mut back_us = 0;
    let history = Load::new(&store, &limits).during(|recorder| {
        pause(300);
        sentinels.failover();
        back_us = recorder.now_us();
        wait_until("it is asked again", RECOVERY, || store.status().is_up);
        pause(1_500);
    });
    history.keeps_the_theorem(1);
    history.is_in_time(STRICT);
    let recovered_us = history.exact_after(back_us).expect("it answers again") - back_us;
    assert!(Duration::from_micros(recovered_us) < RECOVERY, "{recovered_us} us");
    full_again(&sentinels.url(), &limits, "k");
    all_end(&[sentinels.primary()], millis(800));
}

fn is_master(server: &RedisServer) -> bool {
    server.is_running() && server.role().is_some_and(|role| role == "master")
}

#[test]
fn b85_a_failover_in_a_cluster_forgets_one_capacity_at_most() {
    if is_left_out() {
        return;
    }
    let cluster = Cluster::start(3, 1);
    let store = shared(&cluster.url(), STRICT);
    let limits = each(15, millis(400));
    let lasting = [named("lasting", long(1_000_000))];
    let both = [&limits[..], &lasting].concat();
    let keys = ["k", "a", "b"];
    let master = cluster.owner_of_slot(cluster.slot_of(&state(&lasting[0], "k")));
    let mut back_us = 0;
    let history = Load { keys: &keys, ..Load::new(&store, &both) }.during(|recorder| {
        pause(400);
        cluster.node(master).kill();
        pause(100);
        cluster.failover(master);
        back_us = recorder.now_us();
        wait_until("all are asked again", RECOVERY, || {
            keys.iter().all(|key| ask(&store, &lasting[0], key, 0).source == Source::Exact)
        });
        pause(500);
    });
    history.keeps_the_theorem(1);
    history.is_in_time(STRICT);
    assert!(history.exact_after(back_us).is_some());
    for key in keys {
        full_again(&cluster.url(), &limits, key);
    }
    let masters: Vec<&RedisServer> =
        (0..cluster.len()).map(|node| cluster.node(node)).filter(|node| is_master(node)).collect();
    all_end(&masters, Duration::from_hours(24 * 366));
}
