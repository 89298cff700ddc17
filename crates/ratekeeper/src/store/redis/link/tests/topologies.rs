//! Clusters whose slots move, and sentinels that promote.

use super::servers::cluster;
use super::*;

fn ports(nodes: &[Server]) -> Vec<u16> {
    nodes.iter().map(|node| node.port).collect()
}

#[tokio::test]
async fn cluster_serves_every_slot_from_one_host() {
    if is_left_out() {
        return;
    }
    let nodes = cluster();
    let link = link(Topology::Cluster, &ports(&nodes)[..1]);
    let replies: Vec<Reply> = (0..300)
        .map(|at| submit(&link, ScriptKind::Decide, &[&format!("k{}", at % 100)], "1", 5 * SECOND))
        .collect();
    for reply in replies {
        reply.await.unwrap().unwrap();
    }
    let sum: usize = nodes.iter().map(|node| node.cli(&["dbsize"]).parse::<usize>().unwrap()).sum();
    assert_eq!(sum, 100);
    assert!(link.status().connected);
    assert_eq!(link.ask_all(vec![b"PING".to_vec()], SECOND).await.len(), 3);
}

#[tokio::test]
async fn moving_slot_loses_and_doubles_nothing() {
    if is_left_out() {
        return;
    }
    let nodes = cluster();
    let link = link(Topology::Cluster, &ports(&nodes));
    // Slot 12182 is the third node's.
    let (from, to) = (&nodes[2], &nodes[0]);
    let number = slot("foo").to_string();
    let (old, new) = (from.cli(&["cluster", "myid"]), to.cli(&["cluster", "myid"]));
    assert_eq!(add(&link, &["{foo}1"], SECOND).await.unwrap().numbers[..], [1]);
    assert_eq!(to.cli(&["cluster", "setslot", &number, "importing", &old]), "OK");
    assert_eq!(from.cli(&["cluster", "setslot", &number, "migrating", &new]), "OK");
    // There: asked where it is. New: asked where it will be.
    assert_eq!(add(&link, &["{foo}1"], SECOND).await.unwrap().numbers[..], [2]);
    assert_eq!(add(&link, &["{foo}2"], SECOND).await.unwrap().numbers[..], [1]);
    assert_eq!(to.cli(&["cluster", "countkeysinslot", &number]), "1");
    // One on each side: nobody can serve both, and nothing runs.
    let failure = add(&link, &["{foo}1", "{foo}2"], SECOND).await.unwrap_err();
    assert_eq!((failure.trouble, failure.may_have_run), (Trouble::Loading, false));
    // Jobs of different callers are taken apart.
    let replies: Vec<Reply> = (0..100)
        .map(|at| submit(&link, ScriptKind::Decide, &[&format!("{{foo}}{}", 1 + at % 4)], "1", SECOND))
        .collect();
    for reply in replies {
        reply.await.unwrap().unwrap();
    }
    let port = to.port.to_string();
    let migrated = from.cli(&["migrate", "127.0.0.1", &port, "{foo}1", "0", "1000"]);
    assert_eq!(migrated, "OK");
    assert_eq!(add(&link, &["{foo}1", "{foo}2"], SECOND).await.unwrap().numbers[..], [28, 27]);
    for node in [to, from, &nodes[1]] {
        assert_eq!(node.cli(&["cluster", "setslot", &number, "node", &new]), "OK");
    }
    assert_eq!(add(&link, &["{foo}1"], SECOND).await.unwrap().numbers[..], [29]);
    let before = link.counts().commands;
    assert_eq!(add(&link, &["{foo}1"], SECOND).await.unwrap().numbers[..], [30]);
    assert_eq!(link.counts().commands - before, 1, "the new owner is remembered");
}

#[tokio::test]
async fn dead_node_of_a_cluster_stops_only_its_slots() {
    if is_left_out() {
        return;
    }
    let mut nodes = cluster();
    for node in &nodes {
        node.cli(&["config", "set", "cluster-require-full-coverage", "no"]);
    }
    let link = link(Topology::Cluster, &ports(&nodes));
    add(&link, &["foo"], SECOND).await.unwrap();
    nodes[2].kill();
    let failure = add(&link, &["foo"], Duration::from_millis(300)).await.unwrap_err();
    assert!(matches!(failure.trouble, Trouble::Connect | Trouble::Timeout), "{failure:?}");
    assert!(slot("b") < 5461);
    add(&link, &["b"], SECOND).await.unwrap();
    nodes[2].restart();
    recover(&link, "foo").await;
}

#[tokio::test]
async fn promoted_replica_serves_within_a_second() {
    if is_left_out() {
        return;
    }
    let mut master = Server::start(&["--repl-diskless-sync-delay", "0"]);
    let replica = Server::start(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    let sentinel = Server::sentinel(master.port);
    let end = Instant::now() + 20 * SECOND;
    while !sentinel.cli(&["sentinel", "replicas", "main"]).contains(&replica.port.to_string())
        || !replica.cli(&["info", "replication"]).contains("master_link_status:up")
    {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // A sentinel that is away is passed over.
    let link = link(Topology::Sentinel { master: "main".into() }, &[servers::free_port(), sentinel.port]);
    assert_eq!(add(&link, &["a"], SECOND).await.unwrap().numbers[..], [1]);
    master.kill();
    let end = Instant::now() + 30 * SECOND;
    while !replica.cli(&["role"]).starts_with("master") {
        assert!(Instant::now() < end);
        let _ = add(&link, &["a"], Duration::from_millis(50)).await;
    }
    let took = recover(&link, "a").await;
    assert!(took < 2 * SECOND, "{took:?}");
}

#[tokio::test]
async fn demoted_master_is_left() {
    if is_left_out() {
        return;
    }
    let master = Server::start(&[]);
    let replica = Server::start(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    let sentinel = Server::sentinel(master.port);
    let end = Instant::now() + 20 * SECOND;
    while !sentinel.cli(&["sentinel", "replicas", "main"]).contains(&replica.port.to_string())
        || !replica.cli(&["info", "replication"]).contains("master_link_status:up")
    {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let link = link(Topology::Sentinel { master: "main".into() }, &[sentinel.port]);
    add(&link, &["a"], SECOND).await.unwrap();
    while sentinel.cli(&["sentinel", "failover", "main"]) != "OK" {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Until it is told, the old master takes writes, and forgets them: that is Redis.
    while !master.cli(&["role"]).starts_with("slave") {
        assert!(Instant::now() < end);
        let _ = add(&link, &["a"], Duration::from_millis(50)).await;
    }
    let took = recover(&link, "b").await;
    assert!(took < 2 * SECOND, "{took:?}");
    assert_eq!(replica.cli(&["get", "b"]), "1");
}
