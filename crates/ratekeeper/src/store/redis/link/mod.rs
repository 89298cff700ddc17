//! The way to the servers: one thread that holds the connections, gathers what many callers ask into few commands,
//! and says of every failure whether the question may have been answered.
//!
//! It knows scripts and bytes; what they mean is the affair of its callers.

mod cluster;
mod command;
mod connect;
mod flow;
mod hub;
mod inbox;
mod ledger;
mod life;
mod lone;
mod node;
#[cfg(test)]
mod tests;
mod verdict;

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ratekeeper_core::Trouble;
use smallvec::SmallVec;
use tokio::sync::oneshot;
use tokio::time::Instant;

pub(crate) use self::command::MAX_PARTS;
use self::connect::Connector;
use self::hub::{AskAll, Hub, Message};
use self::inbox::{Closing, Inbox};
use self::ledger::Ledger;
use self::lone::Lone;

/// How long a host may take to accept a connection.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_millis(250);

/// Jobs that may be without an answer at once. At 100,000 a second it is what gathers in two thirds of a second:
/// more could not be answered in time anyway.
pub(crate) const MAX_WAITING: usize = 65_536;

/// No caller waits longer; it keeps deadlines within what a clock can hold.
const LONGEST: Duration = Duration::from_secs(3600);

/// What is known of a question whose link, or connection, has ended.
pub(crate) const SILENT: Failure = Failure { trouble: Trouble::Connect, may_have_run: true };

/// Where the servers are.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) topology: Topology,
    /// The server; the sentinels; some nodes of the cluster.
    pub(crate) hosts: Vec<(String, u16)>,
    pub(crate) is_tls: bool,
    /// Certificates to be trusted besides those of the system, as PEM.
    pub(crate) root_pem: Option<Vec<u8>>,
    pub(crate) database: u32,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<String>,
}

/// What kind of servers they are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Topology {
    Standalone,
    Sentinel { master: String },
    Cluster,
}

/// The scripts that are called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ScriptKind {
    Decide,
    Amend,
}

/// The texts of the scripts.
pub(crate) struct Scripts {
    pub(crate) decide: String,
    pub(crate) amend: String,
}

/// One key and what is asked of it. The script has each key and each argument once, and before the arguments a plan
/// of bytes: up to which of the keys more than one part is about, then of each job how many parts it has, and of each
/// of them the numbers of its key and of its argument.
pub(crate) struct Part {
    pub(crate) key: Vec<u8>,
    pub(crate) arg: Vec<u8>,
}

/// What is asked: the keys of one slot together, at most [`MAX_PARTS`] of them.
pub(crate) struct Question {
    pub(crate) script: ScriptKind,
    /// In a cluster all keys are in this slot.
    pub(crate) slot: u16,
    pub(crate) parts: Vec<Part>,
    /// An argument behind all others. What has one is never put together with other questions.
    pub(crate) tail: Option<Vec<u8>>,
    /// How many whole numbers answer it, besides the time.
    pub(crate) numbers: usize,
    /// From this first number on, only one for each part follows.
    pub(crate) brief_from: Option<i64>,
}

/// A question, and who waits for its answer.
pub(crate) struct Job {
    pub(crate) question: Question,
    /// How long its caller waits, from now on.
    pub(crate) within: Duration,
    /// How long it is asked although nobody waits for it any more, from now on: what gives units back is not left out
    /// because its caller has gone.
    pub(crate) lasts: Duration,
    pub(crate) reply: oneshot::Sender<Result<Answer, Failure>>,
}

/// The numbers of one answer.
pub(crate) type Numbers = SmallVec<[i64; 4]>;

/// What the script said: the time of its server, and the numbers of the job.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) now_us: u64,
    pub(crate) numbers: Numbers,
}

/// Why there is no answer.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) trouble: Trouble,
    /// Whether the script may have run all the same.
    pub(crate) may_have_run: bool,
}

/// Where the servers are, and how patient we are.
#[derive(Clone)]
pub(crate) struct LinkConfig {
    pub(crate) endpoint: Endpoint,
    /// A connection on which something has been asked and nothing has come for so long is given up.
    pub(crate) timeout: Duration,
    /// Whether lone callers have a connection on their own runtime, if that has several threads.
    pub(crate) is_direct: bool,
}

/// Whoever is told what the link does. Called on its thread, or a caller's: it must not block.
pub(crate) trait LinkEvents: Send + Sync {
    /// A command with so many jobs was answered.
    fn took(&self, _script: ScriptKind, _took: Duration, _jobs: usize) {}
}

/// How the link is.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkStatus {
    /// Every server that is needed is connected.
    pub(crate) connected: bool,
    /// The last failure, never with a key or a password.
    pub(crate) last_error: Option<String>,
    /// How long a command takes there and back, smoothed.
    pub(crate) round_trip: Option<Duration>,
    /// `redis 7.0.15`, `valkey 8.0.1`.
    pub(crate) server: Option<String>,
}

/// What the link has counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkCounts {
    /// Jobs that failed, in the order of [`Trouble::ALL`].
    pub(crate) errors: [u64; Trouble::ALL.len()],
    /// Scripts that were sent again with their text.
    pub(crate) script_reloads: u64,
    /// Calls of scripts that were sent.
    pub(crate) commands: u64,
    /// Jobs that were answered.
    pub(crate) requests: u64,
}

/// What a node says to a plain command, behind its name `host:port`.
pub(crate) type Said = (String, Result<redis::Value, (Failure, String)>);

/// The way to the servers. Clones share it; with the last of them its thread ends.
#[derive(Clone)]
pub(crate) struct Link {
    shared: Arc<Shared>,
}

struct Shared {
    ledger: Arc<Ledger>,
    is_cluster: bool,
    inbox: Arc<Inbox>,
    lone: Option<Arc<Lone>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Link {
    /// Starts the thread that holds the connections. It does not wait for one.
    ///
    /// # Errors
    /// If a certificate cannot be read, or the system has no thread or no timer to give.
    pub(crate) fn start(
        config: LinkConfig,
        scripts: Scripts,
        events: Arc<dyn LinkEvents>,
    ) -> io::Result<Self> {
        let is_cluster = config.endpoint.topology == Topology::Cluster;
        let connector = Arc::new(Connector::new(config.endpoint, scripts, config.timeout)?);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let inbox = Arc::new(Inbox::default());
        let messages = Arc::clone(&inbox);
        let ledger = Arc::new(Ledger::default());
        let theirs = Arc::clone(&ledger);
        let lone = config.is_direct.then(|| Lone::new(&connector, &ledger, &events, config.timeout));
        let thread = std::thread::Builder::new().name("ratekeeper-redis".into()).spawn(move || {
            // Also when the thread ends as it should not: nobody is to wait for an answer that cannot come.
            let _closing = Closing(Arc::clone(&messages));
            let _leaving = Leaving(Arc::clone(&theirs));
            runtime.block_on(Hub::new(connector, config.timeout, theirs, events).run(messages));
            // A name that is still being resolved keeps a thread of the runtime: nobody waits for it.
            runtime.shutdown_background();
        })?;
        let thread = Mutex::new(Some(thread));
        Ok(Self { shared: Arc::new(Shared { ledger, is_cluster, inbox, lone, thread }) })
    }

    /// Asks, and waits for the answer: on the caller's own runtime if nobody else is waiting and there is a way.
    pub(crate) async fn ask(&self, question: Question, within: Duration) -> Result<Answer, Failure> {
        let shared = &*self.shared;
        let mut within = within;
        if let Some(lone) = &shared.lone
            && question.tail.is_none()
            && let Some(alone) = Together::alone(&shared.ledger)
            && let Some(way) = lone.way()
        {
            let begun = Instant::now();
            let answer = lone.ask(way, &question, within.min(LONGEST)).await;
            drop(alone);
            if let Some(answer) = answer {
                return answer;
            }
            within = within.saturating_sub(begun.elapsed());
        }
        let (reply, answer) = oneshot::channel();
        self.submit(Job { question, within, lasts: Duration::ZERO, reply });
        answer.await.unwrap_or(Err(SILENT))
    }

    /// Keeps everybody off their own ways while it is held: what is asked together goes in its order.
    pub(crate) fn together(&self) -> Together<'_> {
        self.shared.ledger.waiting.fetch_add(1, Relaxed);
        Together(&self.shared.ledger)
    }

    /// Asks. Never blocks; the reply comes in time whatever happens.
    pub(crate) fn submit(&self, job: Job) {
        let shared = &*self.shared;
        if shared.ledger.waiting.fetch_add(1, Relaxed) >= MAX_WAITING {
            shared.refuse(job, Trouble::Full);
            return;
        }
        let deadline = Instant::now() + job.within.min(LONGEST);
        if let Some(Message::Job(job, _)) = shared.inbox.send(Message::Job(job, deadline)) {
            shared.refuse(job, Trouble::Connect);
        }
    }

    /// Asks every master, or the only server, by a command without keys.
    pub(crate) async fn ask_all(&self, command: Vec<Vec<u8>>, within: Duration) -> Vec<Said> {
        let (reply, nodes) = oneshot::channel();
        let ask = AskAll { command, deadline: Instant::now() + within.min(LONGEST), reply };
        // Whoever is not there any more says nothing.
        let _ = self.shared.inbox.send(Message::AskAll(ask));
        let mut said = Vec::new();
        for node in nodes.await.unwrap_or_default() {
            if let Ok(one) = node.await {
                said.push(one);
            }
        }
        said
    }

    /// How it is.
    pub(crate) fn status(&self) -> LinkStatus {
        self.shared.ledger.status()
    }

    /// What it has counted.
    pub(crate) fn counts(&self) -> LinkCounts {
        self.shared.ledger.counts()
    }

    /// Whether keys have slots.
    pub(crate) fn is_cluster(&self) -> bool {
        self.shared.is_cluster
    }
}

/// Somebody who waits: nobody else is alone meanwhile.
pub(crate) struct Together<'a>(&'a Ledger);

impl<'a> Together<'a> {
    /// If nobody else waits.
    fn alone(ledger: &'a Ledger) -> Option<Self> {
        ledger.waiting.compare_exchange(0, 1, Relaxed, Relaxed).is_ok().then(|| Self(ledger))
    }
}

/// Says that no connection of the thread serves any more, however it ends.
struct Leaving(Arc<Ledger>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.set_serving(None);
    }
}

impl Drop for Together<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

impl Shared {
    fn refuse(&self, job: Job, trouble: Trouble) {
        self.ledger.waiting.fetch_sub(1, Relaxed);
        self.ledger.failed(trouble);
        let _ = job.reply.send(Err(Failure { trouble, may_have_run: false }));
    }
}

impl Drop for Shared {
    /// Closes the inbox, at which the thread answers what it has and ends, and waits for that: so that nothing
    /// outlives the link. The thread itself may drop the last clone, in what a caller left it to wake.
    fn drop(&mut self) {
        self.inbox.close();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}
