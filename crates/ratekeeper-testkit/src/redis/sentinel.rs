//! A primary, its replicas, and the sentinels that watch them.

use std::time::Duration;

use super::resp::Reply;
use super::server::{Builder, PASSWORD, RedisServer, USER};
use super::wait::{Stopwatch, pause, wait_until};

/// How long finding each other, or a failover, may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Sentinels who take a primary for failed by majority: the first after half a second of silence, each further one
/// a fifth of a second later.
#[derive(Debug)]
pub struct Sentinels {
    /// Before the servers: nobody should see those go away one by one.
    sentinels: Vec<RedisServer>,
    servers: Vec<RedisServer>,
    name: String,
}

impl Sentinels {
    /// Starts a primary with `replicas` and so many sentinels (three are usual), and waits until all know all.
    ///
    /// # Panics
    /// If they do not within twenty seconds.
    #[must_use]
    #[track_caller]
    pub fn start(name: &str, replicas: usize, sentinels: usize) -> Self {
        Self::start_with(name, replicas, sentinels, |builder| builder)
    }

    /// As [`start`](Self::start), with settings for the primary and the replicas.
    ///
    /// # Panics
    /// As there.
    #[must_use]
    #[track_caller]
    pub fn start_with(
        name: &str,
        replicas: usize,
        sentinels: usize,
        settings: impl Fn(Builder) -> Builder,
    ) -> Self {
        let mut servers = vec![settings(RedisServer::builder()).start()];
        let primary_port = servers[0].port();
        for _ in 0..replicas {
            let follows = format!("127.0.0.1 {primary_port}");
            servers.push(settings(RedisServer::builder()).config("replicaof", &follows).start());
        }
        wait_until("every replica follows the primary", PATIENCE, || {
            servers[1..].iter().all(RedisServer::is_linked)
        });
        let quorum = sentinels / 2 + 1;
        let sentinel = |number: usize| {
            // One after the other, or all would ask for votes in the same moment, each would vote for itself, and
            // the next election would be seconds away.
            let down_after_ms = 500 + 200 * number;
            let of_this = |option: &str| format!("{option} {name}");
            RedisServer::builder()
                .sentinel()
                .config("sentinel", &format!("monitor {name} 127.0.0.1 {primary_port} {quorum}"))
                .config("sentinel", &format!("{} {USER}", of_this("auth-user")))
                .config("sentinel", &format!("{} {PASSWORD}", of_this("auth-pass")))
                .config("sentinel", &format!("{} {down_after_ms}", of_this("down-after-milliseconds")))
                .config("sentinel", &format!("{} 2000", of_this("failover-timeout")))
                .start()
        };
        let sentinels: Vec<RedisServer> = (0..sentinels).map(sentinel).collect();
        for sentinel in &sentinels {
            hurry(sentinel);
        }
        let all = Self { sentinels, servers, name: name.to_owned() };
        all.wait_until_complete();
        all
    }

    /// The name that the primary goes by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `redis+sentinel://127.0.0.1:PORT,…/NAME` with all sentinels.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<String> =
            self.sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port())).collect();
        format!("redis+sentinel://{}/{}", hosts.join(","), self.name)
    }

    /// A sentinel.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn sentinel(&self, number: usize) -> &RedisServer {
        &self.sentinels[number]
    }

    /// A server: 0 was the primary at the start, the others its replicas. A number stays with its server.
    ///
    /// # Panics
    /// If there are fewer.
    #[must_use]
    pub fn server(&self, number: usize) -> &RedisServer {
        &self.servers[number]
    }

    /// The port of the primary, as the first sentinel that runs has it.
    ///
    /// # Panics
    /// If none runs.
    #[must_use]
    #[track_caller]
    pub fn primary_port(&self) -> u16 {
        let sentinel = self.sentinels.iter().find(|sentinel| sentinel.is_up()).expect("a sentinel runs");
        self.primary_port_by(sentinel)
    }

    /// The server that the sentinels call the primary.
    ///
    /// # Panics
    /// As [`primary_port`](Self::primary_port).
    #[must_use]
    #[track_caller]
    pub fn primary(&self) -> &RedisServer {
        let port = self.primary_port();
        self.servers.iter().find(|server| server.port() == port).expect("the primary is one of the servers")
    }

    /// Has the sentinels promote a replica although the primary is well, and waits for it: the new port.
    ///
    /// # Panics
    /// If it does not happen within twenty seconds.
    #[track_caller]
    pub fn failover(&self) -> u16 {
        let old = self.primary_port();
        // A sentinel refuses while it still has an earlier failover to finish, or sees no replica fit for it.
        self.wait("a sentinel begins a failover", || {
            self.sentinels[0].command(&["SENTINEL", "FAILOVER", &self.name]).error().is_none()
        });
        self.wait_for_other_primary(old)
    }

    /// Waits until all sentinels that run agree on another primary than `old`, and it says that it is one: its
    /// port.
    ///
    /// # Panics
    /// If it does not happen within twenty seconds.
    #[track_caller]
    pub fn wait_for_other_primary(&self, old: u16) -> u16 {
        self.wait("the sentinels agree on another primary", || {
            let new = self.primary_port();
            let agree = self.running().all(|sentinel| self.primary_port_by(sentinel) == new);
            agree && new != old && self.primary().role().is_some_and(|role| role == "master")
        });
        self.primary_port()
    }

    /// Waits until every sentinel that runs knows all others, dead or not, and every replica, and none of the
    /// servers is down in its eyes.
    ///
    /// # Panics
    /// If it does not happen within twenty seconds.
    #[track_caller]
    pub fn wait_until_complete(&self) {
        self.wait("the sentinels know each other and the replicas", || {
            self.running().all(|sentinel| {
                let primary = pairs(sentinel.command(&["SENTINEL", "MASTER", &self.name]).good());
                let is = |name: &str, value: &str| primary.iter().any(|(n, v)| n == name && v == value);
                let replicas = sentinel.command(&["SENTINEL", "REPLICAS", &self.name]).good().items();
                let are_well = replicas.into_iter().map(pairs).all(|replica| {
                    let is = |name: &str, value: &str| replica.iter().any(|(n, v)| n == name && v == value);
                    is("flags", "slave") && is("master-link-status", "ok")
                });
                is("num-other-sentinels", &(self.sentinels.len() - 1).to_string())
                    && is("num-slaves", &(self.servers.len() - 1).to_string())
                    && is("flags", "master")
                    && are_well
            })
        });
    }

    /// Waits; a failure comes with what the sentinels have to say.
    #[track_caller]
    fn wait(&self, what: &str, is_so: impl Fn() -> bool) {
        let watch = Stopwatch::start();
        while !is_so() {
            if watch.elapsed() > PATIENCE {
                let logs: Vec<String> = self.sentinels.iter().map(RedisServer::log).collect();
                panic!("{what}: not within {PATIENCE:?}; the sentinels' logs:\n{}", logs.join("\n"));
            }
            pause();
        }
    }

    fn running(&self) -> impl Iterator<Item = &RedisServer> {
        self.sentinels.iter().filter(|sentinel| sentinel.is_up())
    }

    #[track_caller]
    fn primary_port_by(&self, sentinel: &RedisServer) -> u16 {
        let address = sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", &self.name]).good().items();
        u16::try_from(address[1].int()).expect("ports have 16 bits")
    }
}

/// Has a sentinel look and tell more often than every ten and every two seconds: it then finds the others, and
/// what has come back, as much sooner. When it takes a server for down is not touched.
fn hurry(sentinel: &RedisServer) {
    // A new link is pinged after one period, and counts as silent from its beginning: the period must be well below
    // the silence that means down, or a primary would be down when it has just been promoted. Five periods are how
    // old a replica's state may be for it to be promoted, and that state is asked for once a second.
    let periods = ["ping-period", "300", "info-period", "500", "publish-period", "200"];
    // A server that does not know the command is slower, and right all the same.
    sentinel.command(&[["SENTINEL", "DEBUG"].as_slice(), &periods].concat());
}

/// Names and values that follow each other in a list.
fn pairs(list: Reply) -> Vec<(String, String)> {
    let texts: Vec<String> = list.items().iter().map(Reply::text).collect();
    texts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}
