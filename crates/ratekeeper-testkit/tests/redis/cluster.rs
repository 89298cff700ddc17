//! A cluster whose slots move and whose masters change.

use ratekeeper_testkit::redis::{Cluster, Reply, Ttl, is_left_out};

use super::{bulk, status};

#[test]
fn slots_move_with_their_keys_and_in_steps() {
    if is_left_out() {
        return;
    }
    let cluster = Cluster::start(3, 0);
    let ports: Vec<String> = (0..3).map(|n| format!("127.0.0.1:{}", cluster.node(n).port())).collect();
    assert_eq!(cluster.url(), format!("redis+cluster://{}", ports.join(",")));
    assert_eq!(cluster.slot_of("foo"), 12_182);
    assert_eq!(
        [0, 5_460, 5_461, 10_921, 10_922, 16_383].map(|s| cluster.owner_of_slot(s)),
        [0, 0, 1, 1, 2, 2]
    );

    let slot = cluster.slot_of("{foo}1");
    let (old, new) = (cluster.node(2), cluster.node(0));
    for key in ["{foo}1", "{foo}2"] {
        assert_eq!(old.command(&["SET", key, "v", "PXAT", "4102444800000"]), status("OK"));
    }
    let moved = format!("MOVED 12182 {}", ports[2]);
    assert_eq!(new.command(&["GET", "{foo}1"]).error(), Some(moved.as_str()));

    cluster.begin_move(slot, 2, 0);
    assert_eq!(old.command(&["GET", "{foo}1"]), bulk("v"), "it has not moved");
    cluster.move_these_keys(&["{foo}1"], 2, 0);
    let ask = format!("ASK 12182 {}", ports[0]);
    assert_eq!(old.command(&["GET", "{foo}1"]).error(), Some(ask.as_str()));
    let mut asking = new.connect().unwrap();
    asking.call(&["ASKING"]).unwrap();
    assert_eq!(asking.call(&["GET", "{foo}1"]).unwrap(), bulk("v"));
    let both = old.command(&["MGET", "{foo}1", "{foo}2"]);
    assert!(both.text().starts_with("TRYAGAIN"), "{both:?}");

    assert_eq!(cluster.move_keys(slot, 2, 0), 1);
    cluster.finish_move(slot, 0);
    assert_eq!(cluster.owner_of_slot(slot), 0);
    assert_eq!(new.command(&["MGET", "{foo}1", "{foo}2"]), Reply::Array(vec![bulk("v"), bulk("v")]));
    // MIGRATE sends what is left of it, so the way is added to it.
    let Ttl::At { unix_ms, .. } = new.ttl("{foo}2") else { panic!("it goes") };
    assert!((4_102_444_800_000..4_102_444_805_000).contains(&unix_ms), "{unix_ms}");
    assert!(cluster.node(1).command(&["GET", "{foo}1"]).text().ends_with(&ports[0]));

    cluster.move_slot(slot, 0, 1);
    assert_eq!(cluster.owner_of_slot(slot), 1);
    assert_eq!(cluster.node(1).keys(), ["{foo}1", "{foo}2"]);
}

#[test]
fn replica_takes_over_from_a_dead_master_that_comes_back_as_replica() {
    if is_left_out() {
        return;
    }
    let cluster = Cluster::start(3, 1);
    assert_eq!(cluster.len(), 6);
    let slot = cluster.slot_of("bar");
    let owner = cluster.owner_of_slot(slot);
    cluster.node(owner).command(&["SET", "bar", "v"]).good();
    assert_eq!(cluster.node(owner).command(&["WAIT", "1", "5000"]), Reply::Int(1));
    cluster.node(owner).kill();
    let new = cluster.failover(owner);
    assert!(cluster.replicas_of(owner).contains(&new));
    cluster.wait_until_settled();
    assert_eq!(cluster.owner_of_slot(slot), new);
    assert_eq!(cluster.node(new).command(&["GET", "bar"]), bulk("v"));
    cluster.node(owner).restart();
    ratekeeper_testkit::redis::wait_until("it follows", 4 * super::PATIENCE, || {
        cluster.node(owner).role().is_some_and(|role| role == "slave")
    });
    cluster.wait_until_settled();
}
