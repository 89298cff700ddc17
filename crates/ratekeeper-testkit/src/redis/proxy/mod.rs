//! TCP that is late, silent, cut, or short of one reply.

mod commands;
mod link;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use link::{Direction, Link, set_reset};

use super::ports;
use super::wait::{Stopwatch, wait_until};

/// How long the target may take to accept.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);

/// How long the threads of ended connections may take to let go of them.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// In order: the peer reads the end of the stream.
    Fin,
    /// With a reset: the peer's next read or write fails.
    Rst,
}

/// What happens to new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    Refuse,
    BlackHole,
}

/// Which request has its reply dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drops {
    Nothing,
    NextReply,
    NextScriptReply,
}

#[derive(Debug)]
struct State {
    target: u16,
    gate: Gate,
    drops: Drops,
    delay: [Duration; 2],
    is_stalled: [bool; 2],
    bytes: [u64; 2],
    requests: BTreeMap<String, u64>,
    links: Vec<Weak<Link>>,
    /// Accepted, and never read from.
    swallowed: Vec<TcpStream>,
    live: usize,
    total: u64,
    is_over: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    clock: Stopwatch,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No step below leaves the state halfway when it panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

/// A proxy on loopback in front of a port of loopback. It ends, with its connections, on drop.
///
/// What is set holds at once for all connections, but for [`refuse`](Self::refuse) and
/// [`black_hole`](Self::black_hole), which are about new ones.
#[derive(Debug)]
pub struct FaultProxy {
    port: u16,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl FaultProxy {
    /// Copies both ways between a new port and `target_port`, without faults.
    ///
    /// # Panics
    /// If no thread can be started.
    #[must_use]
    pub fn start(target_port: u16) -> Self {
        let listener = ports::listen();
        let port = ports::port_of(&listener);
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                target: target_port,
                gate: Gate::Open,
                drops: Drops::Nothing,
                delay: [Duration::ZERO; 2],
                is_stalled: [false; 2],
                bytes: [0; 2],
                requests: BTreeMap::new(),
                links: Vec::new(),
                swallowed: Vec::new(),
                live: 0,
                total: 0,
                is_over: false,
            }),
            changed: Condvar::new(),
            clock: Stopwatch::start(),
        });
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("fault-proxy".into())
            .spawn(move || accept_all(&listener, &for_thread))
            .expect("a thread can be started");
        Self { port, shared, thread: Some(thread) }
    }

    /// The port on 127.0.0.1 that clients connect to.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:PORT`
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// New connections go to this port from now on.
    pub fn set_target(&self, target_port: u16) {
        self.shared.change(|state| state.target = target_port);
    }

    /// Every byte takes so long each way, so an answer takes twice as long. Order is kept, and any number of
    /// packets is on the way at a time. What is already on the way keeps its time.
    pub fn set_delay(&self, delay: Duration) {
        self.shared.change(|state| state.delay = [delay; 2]);
    }

    /// Only replies take so long; requests arrive at once.
    pub fn set_reply_delay(&self, delay: Duration) {
        self.shared.change(|state| state.delay = [Duration::ZERO, delay]);
    }

    /// Copies nothing either way; connections stay, new ones are accepted and connected.
    pub fn stall(&self) {
        self.shared.change(|state| state.is_stalled = [true; 2]);
    }

    /// Requests arrive and are executed, replies wait: the network fails in one direction.
    pub fn stall_replies(&self) {
        self.shared.change(|state| state.is_stalled = [false, true]);
    }

    /// Copies again, first what has waited.
    pub fn resume(&self) {
        self.shared.change(|state| state.is_stalled = [false; 2]);
    }

    /// Ends all connections, on both sides; what was on the way is lost. New ones are accepted as before.
    ///
    /// # Panics
    /// If they do not end within five seconds.
    pub fn cut(&self, how: Close) {
        let links: Vec<Arc<Link>> = {
            let mut state = self.shared.lock();
            for stream in state.swallowed.drain(..) {
                if how == Close::Rst {
                    set_reset(&stream);
                }
            }
            state.links.drain(..).filter_map(|link| link.upgrade()).collect()
        };
        let watched: Vec<Weak<Link>> = links.iter().map(Arc::downgrade).collect();
        for link in links {
            link.close(how);
        }
        wait_until("connections end", CLOSE_PATIENCE, || watched.iter().all(|link| link.strong_count() == 0));
    }

    /// New connections are closed at once; those that are there stay.
    pub fn refuse(&self) {
        self.shared.change(|state| state.gate = Gate::Refuse);
    }

    /// New connections are accepted, and nothing is copied for them, ever; those that are there stay.
    pub fn black_hole(&self) {
        self.shared.change(|state| state.gate = Gate::BlackHole);
    }

    /// New connections are served again.
    pub fn accept(&self) {
        self.shared.change(|state| state.gate = Gate::Open);
    }

    /// The next request that passes is executed and its reply is lost: the first bytes that come back on that
    /// connection are dropped, and the connection is closed in order. Once.
    pub fn drop_next_reply(&self) {
        self.shared.change(|state| state.drops = Drops::NextReply);
    }

    /// As [`drop_next_reply`](Self::drop_next_reply), for the next request that is a script's call: what clients
    /// say when they connect passes.
    pub fn drop_next_script_reply(&self) {
        self.shared.change(|state| state.drops = Drops::NextScriptReply);
    }

    /// Whether a reply that was to be dropped has found its request.
    #[must_use]
    pub fn has_dropped(&self) -> bool {
        self.shared.lock().drops == Drops::Nothing
    }

    /// Connections that are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        let state = self.shared.lock();
        state.live + state.swallowed.len()
    }

    /// Connections that were ever accepted, refused ones included.
    #[must_use]
    pub fn connections_total(&self) -> u64 {
        self.shared.lock().total
    }

    /// Bytes of requests that were passed on.
    #[must_use]
    pub fn request_bytes(&self) -> u64 {
        self.shared.lock().bytes[Direction::Requests.index()]
    }

    /// Bytes of replies that were passed on.
    #[must_use]
    pub fn reply_bytes(&self) -> u64 {
        self.shared.lock().bytes[Direction::Replies.index()]
    }

    /// Commands of this name that were passed on to the server, in any case.
    #[must_use]
    pub fn requests(&self, name: &str) -> u64 {
        self.shared.lock().requests.get(&name.to_ascii_uppercase()).copied().unwrap_or(0)
    }

    /// `EVAL` and `EVALSHA` that were passed on.
    #[must_use]
    pub fn script_calls(&self) -> u64 {
        scripts(&self.shared.lock().requests)
    }
}

/// How many of the requests call a script.
fn scripts(requests: &BTreeMap<String, u64>) -> u64 {
    ["EVAL", "EVALSHA"].iter().filter_map(|name| requests.get(*name)).sum()
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.change(|state| state.is_over = true);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let links: Vec<Weak<Link>> = self.shared.lock().links.drain(..).collect();
        for link in links.iter().filter_map(Weak::upgrade) {
            link.close(Close::Fin);
        }
    }
}

fn accept_all(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        let (gate, target) = {
            let mut state = shared.lock();
            if state.is_over {
                return ports::close(listener);
            }
            state.total += 1;
            (state.gate, state.target)
        };
        let Ok(client) = client else { continue };
        match gate {
            Gate::Refuse => drop(client),
            Gate::BlackHole => shared.lock().swallowed.push(client),
            Gate::Open => {
                let target = SocketAddr::from((Ipv4Addr::LOCALHOST, target));
                // Nobody listens: the client sees its connection end, as behind any proxy.
                let Ok(server) = TcpStream::connect_timeout(&target, CONNECT_PATIENCE) else { continue };
                link::start(client, server, shared);
            }
        }
    }
}
