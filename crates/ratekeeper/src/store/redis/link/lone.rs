//! The way of a lone caller: a connection on its own runtime. Nothing is gathered for one, so nothing is
//! gained by the link's thread, which has to be woken and to wake: that takes half as long as all else together.
//!
//! It leads to the address that the thread's connection leads to, and only while that one serves. What needs more than an answer (a
//! script that is not there, a server that has become a replica) is asked again by the thread: nothing of it has run.
//! After a failure the thread has everything to itself for a while, and finds out what is wrong.

use std::iter;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::select;
use ratekeeper_core::Trouble;
use redis::Value;
use redis::aio::MultiplexedConnection;
use tokio::runtime::{Handle, Id, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::command::{NOT_ASKED_FOR, encode, split};
use super::connect::{Connector, Ready, telling, words};
use super::ledger::Ledger;
use super::verdict::{Verdict, judge, presentable};
use super::{Answer, Failure, LinkEvents, Question, SILENT};

/// How long the thread has everything to itself after a connection here was lost or could not be had.
const PAUSE: Duration = Duration::from_secs(1);

/// Longer than processes live.
const FOR_GOOD: Duration = Duration::from_hours(100 * 366 * 24);

/// See the module.
pub(super) struct Lone {
    connector: Arc<Connector>,
    ledger: Arc<Ledger>,
    events: Arc<dyn LinkEvents>,
    state: Mutex<State>,
    /// How long it may say nothing when it is asked.
    patience: Duration,
    /// The last number given to a connection.
    last: AtomicU64,
}

enum State {
    /// There is none, and none is made before then.
    Shut {
        until: Option<Instant>,
    },
    /// With the number of the connection that is being made.
    Opening(u64),
    Open(Open),
}

struct Open {
    way: Way,
    /// On which its bytes are moved.
    runtime: Id,
    /// Of the thread's connection that it was made beside.
    generation: u64,
    /// Dropped, it ends the driver, and with it the connection.
    _end: oneshot::Sender<()>,
}

/// A connection that can be asked.
#[derive(Clone)]
pub(super) struct Way {
    connection: MultiplexedConnection,
    number: u64,
    /// Since when it has been asked and has said nothing: whoever asked may have gone before that became too long.
    silent_since: Arc<Mutex<Option<Instant>>>,
}

impl Way {
    fn asked(&self, now: Instant) {
        self.silence().get_or_insert(now);
    }

    fn heard(&self) {
        *self.silence() = None;
    }

    fn is_mute(&self, patience: Duration) -> bool {
        self.silence().is_some_and(|since| since.elapsed() >= patience)
    }

    fn silence(&self) -> MutexGuard<'_, Option<Instant>> {
        self.silent_since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lone {
    pub(super) fn new(
        connector: &Arc<Connector>,
        ledger: &Arc<Ledger>,
        events: &Arc<dyn LinkEvents>,
        patience: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            patience,
            connector: Arc::clone(connector),
            ledger: Arc::clone(ledger),
            events: Arc::clone(events),
            state: Mutex::new(State::Shut { until: None }),
            last: AtomicU64::new(0),
        })
    }

    /// The way, for a caller on its runtime. If there is none but could be, it is made on the caller's, for those who come
    /// later: on a runtime of several threads. On one of a single thread a caller may keep the connection from being served
    /// while it waits for it, and the clock may stand still.
    pub(super) fn way(self: &Arc<Self>) -> Option<Way> {
        let runtime = Handle::try_current().ok()?;
        if runtime.runtime_flavor() != RuntimeFlavor::MultiThread {
            return None;
        }
        let generation = self.ledger.serving()?;
        let mut state = self.lock();
        match &*state {
            State::Open(open) if open.generation == generation => {
                let way = open.way.clone();
                let is_ours = open.runtime == runtime.id();
                drop(state);
                if way.is_mute(self.patience) {
                    self.shut(way.number, PAUSE);
                    return None;
                }
                return is_ours.then_some(way);
            }
            State::Opening(_) => return None,
            State::Shut { until } if until.is_some_and(|until| Instant::now() < until) => return None,
            State::Open(_) | State::Shut { .. } => {}
        }
        let number = self.last.fetch_add(1, Relaxed) + 1;
        let before = std::mem::replace(&mut *state, State::Opening(number));
        drop(state);
        drop(before);
        let tending = Tending { lone: Arc::downgrade(self), runtime: runtime.id(), number };
        let (connector, ledger) = (Arc::clone(&self.connector), Arc::clone(&self.ledger));
        drop(runtime.spawn(tending.run(connector, ledger, generation)));
        None
    }

    /// Asks on it. `None`: nothing has run, and the thread may know what to do.
    pub(super) async fn ask(
        &self,
        mut way: Way,
        question: &Question,
        within: Duration,
    ) -> Option<Result<Answer, Failure>> {
        let begun = Instant::now();
        let cmd = encode(iter::once(question), self.connector.head(question.script, false));
        self.ledger.commands.fetch_add(1, Relaxed);
        way.asked(begun);
        let said = match timeout(within, way.connection.send_packed_command(&cmd)).await {
            Ok(Ok(said)) => said,
            Ok(Err(error)) => {
                self.shut(way.number, PAUSE);
                return Some(Err(self.failed(SILENT, &telling(&error))));
            }
            // Whether it is still a good one is not said by a caller that has little time.
            Err(_) => {
                let failure = Failure { trouble: Trouble::Timeout, may_have_run: true };
                return Some(Err(self.failed(failure, "nothing was said in time")));
            }
        };
        way.heard();
        let took = begun.elapsed();
        self.ledger.took(took);
        self.events.took(question.script, took, 1);
        if let Value::ServerError(error) = said {
            let text = words(&error);
            let Verdict::Final(failure) = judge(&text) else { return None };
            let keys = question.parts.iter().map(|part| &part.key[..]);
            return Some(Err(self.failed(failure, &presentable(&text, keys))));
        }
        let Some(answer) = read(question, said) else {
            let failure = Failure { trouble: Trouble::Corrupt, may_have_run: true };
            return Some(Err(self.failed(failure, NOT_ASKED_FOR)));
        };
        self.ledger.requests.fetch_add(1, Relaxed);
        Some(Ok(answer))
    }

    /// Writes a failure down.
    fn failed(&self, failure: Failure, text: &str) -> Failure {
        self.ledger.set_error(text);
        self.ledger.failed(failure.trouble);
        failure
    }

    /// Gives a connection up, if it is still the one that is used, and makes no other for so long.
    fn shut(&self, number: u64, pause: Duration) {
        let mut state = self.lock();
        let is_it = match &*state {
            State::Opening(it) => *it == number,
            State::Open(open) => open.way.number == number,
            State::Shut { .. } => false,
        };
        if is_it {
            let before = std::mem::replace(&mut *state, State::Shut { until: Some(Instant::now() + pause) });
            drop(state);
            drop(before);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(question: &Question, said: Value) -> Option<Answer> {
    let Value::Array(values) = said else { return None };
    let (now_us, mut answers) = split(iter::once(question), values)?;
    Some(Answer { now_us, numbers: answers.pop()? })
}

/// Makes a connection, and moves its bytes. However that ends, also with the runtime, the way is shut.
struct Tending {
    lone: Weak<Lone>,
    runtime: Id,
    number: u64,
}

impl Tending {
    async fn run(self, connector: Arc<Connector>, ledger: Arc<Ledger>, generation: u64) {
        let Some((host, address)) = ledger.place(generation) else { return };
        // The thread says what is wrong with a server.
        let Ok(Ready { connection, driver, .. }) = connector.beside(&host, address).await else { return };
        drop((connector, ledger));
        let (end, ended) = oneshot::channel();
        {
            let Some(lone) = self.lone.upgrade() else { return };
            let mut state = lone.lock();
            if !matches!(&*state, State::Opening(number) if *number == self.number) {
                return;
            }
            let way = Way { connection, number: self.number, silent_since: Arc::default() };
            *state = State::Open(Open { way, runtime: self.runtime, generation, _end: end });
        }
        select(driver, ended).await;
    }
}

impl Drop for Tending {
    fn drop(&mut self) {
        if let Some(lone) = self.lone.upgrade() {
            // A runtime without I/O or timers is not asked twice.
            lone.shut(self.number, if std::thread::panicking() { FOR_GOOD } else { PAUSE });
        }
    }
}
