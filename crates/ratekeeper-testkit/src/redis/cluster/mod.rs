//! Several servers as a Redis Cluster.

mod slots;

use std::collections::BTreeMap;
use std::time::Duration;

use super::resp::Reply;
use super::server::{Builder, RedisServer, fields};
use super::wait::wait_until;

/// How long the nodes may take to agree.
const PATIENCE: Duration = Duration::from_secs(20);

/// The slots of a cluster.
const SLOTS: usize = 16_384;

/// A cluster of masters, each with the same number of replicas. A node that is silent for a second is taken for
/// failed by the others.
///
/// Nodes have numbers: first the masters as they were at the start, then the replicas of the first master, those
/// of the second, and so on. A number stays with its server when roles change.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<RedisServer>,
    ids: Vec<String>,
    masters: usize,
    replicas: usize,
}

impl Cluster {
    /// Starts it and waits until every node serves. The masters have equal ranges of the slots, in order.
    ///
    /// # Panics
    /// If the nodes do not agree within twenty seconds, or there is no master.
    #[must_use]
    #[track_caller]
    pub fn start(masters: usize, replicas: usize) -> Self {
        Self::start_with(masters, replicas, |builder| builder)
    }

    /// As [`start`](Self::start), with settings for every node.
    ///
    /// # Panics
    /// As there.
    #[must_use]
    #[track_caller]
    pub fn start_with(masters: usize, replicas: usize, settings: impl Fn(Builder) -> Builder) -> Self {
        assert!(masters > 0, "a cluster has a master");
        let node = || {
            // Replicas stay with their masters: a test says who follows whom.
            let builder = RedisServer::builder()
                .clustered()
                .config("cluster-node-timeout", "1000")
                .config("cluster-allow-replica-migration", "no");
            settings(builder).start()
        };
        let nodes: Vec<RedisServer> = (0..masters * (1 + replicas)).map(|_| node()).collect();
        let ids = nodes.iter().map(|node| node.command(&["CLUSTER", "MYID"]).good().text()).collect();
        let cluster = Self { nodes, ids, masters, replicas };
        cluster.share_slots();
        cluster.introduce();
        cluster.attach_replicas();
        cluster.wait_until_settled();
        cluster
    }

    fn share_slots(&self) {
        for (number, node) in self.nodes.iter().enumerate() {
            // Different from the start, or the nodes would settle it among themselves, which takes its time.
            let epoch = (number + 1).to_string();
            node.command(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).good();
        }
        for (number, node) in self.nodes[..self.masters].iter().enumerate() {
            let first = number * SLOTS / self.masters;
            let last = (number + 1) * SLOTS / self.masters - 1;
            node.command(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]).good();
        }
    }

    fn introduce(&self) {
        for (number, node) in self.nodes.iter().enumerate() {
            for other in &self.nodes[number + 1..] {
                let bus = other.command(&["CONFIG", "GET", "cluster-port"]).good().items()[1].text();
                let port = other.port().to_string();
                node.command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus]).good();
            }
        }
        wait_until("every node knows every other", PATIENCE, || {
            self.nodes.iter().all(|node| {
                let known = node.command(&["CLUSTER", "NODES"]).good().text();
                known.lines().count() == self.nodes.len() && !known.contains("handshake")
            })
        });
    }

    fn attach_replicas(&self) {
        for number in self.masters..self.nodes.len() {
            let master = (number - self.masters) / self.replicas;
            self.nodes[number].command(&["CLUSTER", "REPLICATE", &self.ids[master]]).good();
        }
        wait_until("every replica follows its master", PATIENCE, || {
            self.nodes[self.masters..].iter().all(RedisServer::is_linked)
        });
    }

    /// A node by its number.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn node(&self, number: usize) -> &RedisServer {
        &self.nodes[number]
    }

    /// How many nodes there are, running or not.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a cluster has a master")]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The name of a node in the cluster.
    ///
    /// # Panics
    /// As [`node`](Self::node).
    #[must_use]
    pub fn id(&self, number: usize) -> &str {
        &self.ids[number]
    }

    /// `redis+cluster://127.0.0.1:PORT,…` with all nodes.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port())).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// The numbers of the replicas that `master` had at the start.
    #[must_use]
    pub fn replicas_of(&self, master: usize) -> std::ops::Range<usize> {
        let first = self.masters + master * self.replicas;
        first..first + self.replicas
    }

    /// Makes the first replica of `master` the master by force, without asking anybody: its number. Works with
    /// the old master alive, dead or stopped; returns when the replica says it is one. Others learn of it
    /// shortly after: [`wait_until_settled`](Self::wait_until_settled).
    ///
    /// # Panics
    /// If the cluster was started without replicas.
    pub fn failover(&self, master: usize) -> usize {
        let number = self.replicas_of(master).next().expect("a failover needs a replica");
        let node = &self.nodes[number];
        node.command(&["CLUSTER", "FAILOVER", "TAKEOVER"]).good();
        wait_until("the replica is the master", PATIENCE, || {
            node.role().is_some_and(|role| role == "master")
        });
        number
    }

    /// Waits until all nodes that answer call the cluster's state good and agree about who owns which slot.
    ///
    /// # Panics
    /// If they do not within twenty seconds.
    #[track_caller]
    pub fn wait_until_settled(&self) {
        wait_until("the cluster agrees and serves", PATIENCE, || {
            let mut views = self.nodes.iter().filter_map(view);
            let Some(first) = views.next() else { return false };
            first.0 && views.all(|other| other == first)
        });
    }

    fn number_of(&self, id: &str) -> usize {
        self.ids.iter().position(|known| known == id).unwrap_or_else(|| panic!("no node is named {id}"))
    }
}

/// Whether a node serves, and who owns which slots in its eyes; nothing if it does not answer.
fn view(node: &RedisServer) -> Option<(bool, BTreeMap<String, String>)> {
    if !node.is_up() {
        return None;
    }
    let mut connection = node.connect().ok()?;
    let info = connection.call(&["CLUSTER", "INFO"]).ok()?.text();
    let serves = fields(&info).get("cluster_state").is_some_and(|state| state == "ok");
    Some((serves, owners(&connection.call(&["CLUSTER", "NODES"]).ok()?)))
}

/// The slots of each node that has some, as `CLUSTER NODES` writes them, without those that are on the move.
fn owners(nodes: &Reply) -> BTreeMap<String, String> {
    let text = nodes.text();
    let owner = |line: &str| {
        let mut words = line.split(' ');
        let id = words.next()?.to_owned();
        // Address, flags, master, two times, epoch and the link's state come before the slots.
        let slots: Vec<&str> = words.skip(7).filter(|range| !range.starts_with('[')).collect();
        (!slots.is_empty()).then(|| (id, slots.join(" ")))
    };
    text.lines().filter_map(owner).collect()
}
