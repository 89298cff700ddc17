//! Those who wait for a shared store: in line within this process, and for starts that were promised.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratekeeper_core::{
    Ask, Check, Clock as _, Decision, Key, Micros, NamedLimit, Part, Reason, Refused, Source, Verdict,
};

use super::{Demand, OnStoreError, SharedReservation, SharedStore};
use crate::clock::ProcessClock;
use crate::sync::{Mutex, lock};
use crate::waiting::{Admitted, Said};

/// How long an answer of the store is waited for at most; its own timeout is shorter.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// A key that outlives its caller.
struct OwnedKey(Vec<OwnedPart>);

enum OwnedPart {
    Bytes(Box<[u8]>),
    Number(u64),
    Address(IpAddr),
}

impl OwnedKey {
    fn of(key: &Key<'_>) -> Self {
        let own = |part: &Part<'_>| match part {
            Part::Bytes(bytes) => OwnedPart::Bytes((*bytes).into()),
            Part::Number(number) => OwnedPart::Number(*number),
            Part::Address(address) => OwnedPart::Address(*address),
        };
        Self(key.parts().iter().map(own).collect())
    }

    fn parts(&self) -> Vec<Part<'_>> {
        self.0.iter().map(OwnedPart::lend).collect()
    }
}

impl OwnedPart {
    fn lend(&self) -> Part<'_> {
        match self {
            Self::Bytes(bytes) => Part::Bytes(bytes),
            Self::Number(number) => Part::Number(*number),
            Self::Address(address) => Part::Address(*address),
        }
    }
}

/// What waits for one limit of a shared store, in this process.
pub(crate) struct Turns {
    pub(crate) store: SharedStore,
    pub(crate) limit: NamedLimit,
    pub(crate) on_error: OnStoreError,
    pub(crate) max_waiting: usize,
    is_closed: AtomicBool,
    /// Told when it is closed.
    closing: tokio::sync::Notify,
    /// By the canonical key: the line of each, while somebody stands in it.
    lines: Mutex<HashMap<Vec<u8>, Line>>,
}

/// Whoever holds the lock asks; the others stand behind it, in order.
#[derive(Default)]
struct Line {
    front: Arc<tokio::sync::Mutex<()>>,
    standing: usize,
}

/// A place in a line; given up when it is dropped.
struct Place {
    turns: Arc<Turns>,
    key: Vec<u8>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = lock(&self.turns.lines);
        if let Some(line) = lines.get_mut(&self.key) {
            line.standing -= 1;
            if line.standing == 0 {
                lines.remove(&self.key);
            }
        }
    }
}

/// One who waits.
#[derive(Clone)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    key: Arc<OwnedKey>,
    /// Whether it asks again when it is refused for now.
    pub(crate) stands_in_line: bool,
    pub(crate) cost: u64,
    pub(crate) within: Option<Duration>,
}

impl Turns {
    pub(crate) fn new(store: SharedStore, limit: NamedLimit, max_waiting: usize) -> Self {
        let (on_error, lines) = (OnStoreError::default(), Mutex::new(HashMap::new()));
        let (is_closed, closing) = (AtomicBool::new(false), tokio::sync::Notify::new());
        Self { store, limit, on_error, max_waiting, is_closed, closing, lines }
    }

    pub(crate) fn turn(self: &Arc<Self>, key: &Key<'_>, stands_in_line: bool) -> Turn {
        let (turns, key) = (Arc::clone(self), Arc::new(OwnedKey::of(key)));
        Turn { turns, key, stands_in_line, cost: 1, within: None }
    }

    /// Refuses all who stand in line, and whoever would have to.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.closing.notify_waiters();
    }

    /// Lets somebody wait unless it is closed.
    async fn unless_closed<T>(&self, cost: u64, wait: impl Future<Output = T>) -> Result<T, Refused> {
        let closing = std::pin::pin!(self.closing.notified());
        // From here on it is told.
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(self.refused(cost, Reason::Closed));
        }
        tokio::select! {
            biased;
            () = closing => Err(self.refused(cost, Reason::Closed)),
            done = wait => Ok(done),
        }
    }

    fn stand(self: &Arc<Self>, key: Vec<u8>) -> Option<(Place, Arc<tokio::sync::Mutex<()>>)> {
        let mut lines = lock(&self.lines);
        let line = lines.entry(key.clone()).or_default();
        // The first asks, and does not wait for anybody.
        if line.standing > self.max_waiting {
            return None;
        }
        line.standing += 1;
        let front = Arc::clone(&line.front);
        Some((Place { turns: Arc::clone(self), key }, front))
    }

    /// A refusal without an answer of the store.
    fn refused(&self, cost: u64, reason: Reason) -> Refused {
        let verdict = Verdict::failed_closed(self.limit.limit(), cost, Duration::ZERO);
        Decision::of(vec![verdict.with_source(Source::Local)]).refused_for(reason, None)
    }
}

fn late(decision: Decision, wait: Option<Duration>) -> Refused {
    decision.refused_for(Reason::TooLate, wait)
}

impl Turn {
    /// Waits for the turn, and of a queue for the start.
    pub(crate) async fn come(self) -> Result<Admitted, Refused> {
        let began = ProcessClock.now();
        let left = |within: Duration| within.saturating_sub(since(began));
        let it = Arc::new(self);
        let mut place = None;
        if it.stands_in_line {
            let mut key = Vec::new();
            Key::from(&it.key.parts()[..]).write_canonical(&mut key);
            let stood = it.turns.stand(key);
            let (stood, front) = stood.ok_or_else(|| it.turns.refused(it.cost, Reason::QueueFull))?;
            let at_front = front.lock_owned();
            let at_front = it.turns.unless_closed(it.cost, at_front);
            let guard = match it.within {
                None => at_front.await?,
                Some(within) => tokio::time::timeout(within, at_front)
                    .await
                    .map_err(|_| it.turns.refused(it.cost, Reason::TooLate))??,
            };
            // The lock is let go before the place is.
            place = Some((guard, stood));
        }
        loop {
            if let Some(within) = it.within.filter(|_| it.turns.limit.limit().is_queue()) {
                // A slot that would begin too late is not taken: given back later, it might stay as a hole.
                let (look, _) = it.ask(Ask::Peek).await?;
                if look.allowed && look.delay > left(within) {
                    let delay = look.delay;
                    return Err(late(look, Some(delay)));
                }
            }
            let (decision, held) = it.ask(Ask::Acquire).await?;
            if decision.allowed {
                drop(place);
                return it.start(decision, held, began).await;
            }
            let wait = decision.retry_after.filter(|_| decision.reason == Some(Reason::Limited));
            let Some(wait) = wait else { return Err(own(decision)) };
            if !it.stands_in_line {
                return Err(if it.turns.limit.limit().is_queue() {
                    decision.refused_for(Reason::QueueFull, Some(wait))
                } else {
                    own(decision)
                });
            }
            if it.within.is_some_and(|within| wait > left(within)) {
                return Err(late(decision, Some(wait)));
            }
            // A refusal that is remembered says no wait below a microsecond.
            let sleep = tokio::time::sleep(wait.max(Duration::from_micros(1)));
            it.turns.unless_closed(it.cost, sleep).await?;
        }
    }

    /// Waits for the start. By the time since the answer was there: never before the start by the store's clock, and later
    /// by one way of the network at most.
    async fn start(
        &self,
        decision: Decision,
        held: Option<SharedReservation>,
        began: Micros,
    ) -> Result<Admitted, Refused> {
        let delay = decision.delay;
        if !delay.is_zero() {
            if self.within.is_some_and(|within| delay > within.saturating_sub(since(began))) {
                // Somebody came between the look and the slot. What was taken is dropped, and so given back.
                return Err(late(decision, Some(delay)));
            }
            tokio::time::sleep(delay).await;
        }
        if let Some(held) = held {
            held.keep();
        }
        Ok(Admitted::new(Said::All(decision), since(began)))
    }

    /// Asks the store. Whoever goes away meanwhile has asked all the same: what is taken for nobody is given back.
    async fn ask(self: &Arc<Self>, ask: Ask) -> Result<(Decision, Option<SharedReservation>), Refused> {
        let it = Arc::clone(self);
        let asked = tokio::spawn(async move {
            let parts = it.key.parts();
            let checks = [Check { limit: &it.turns.limit, key: Key::from(&parts[..]), cost: it.cost }];
            let on_error = [it.turns.on_error];
            let demand = Demand { checks: &checks, on_error: &on_error, ask };
            match ask {
                Ask::Acquire => it.turns.store.reserve(demand, ANSWER_WITHIN).await,
                Ask::Peek => it.turns.store.decide(demand, ANSWER_WITHIN).await.map(|look| (look, None)),
            }
        });
        match asked.await {
            Ok(Ok(answer)) => Ok(answer),
            // A limit that no shared store can hold, or a runtime that ends.
            _ => Err(self.turns.refused(self.cost, Reason::StoreUnavailable)),
        }
    }
}

fn since(began: Micros) -> Duration {
    Duration::from_micros(ProcessClock.now().get().saturating_sub(began.get()))
}

/// The limit's own refusal.
fn own(decision: Decision) -> Refused {
    let (reason, wait) = (decision.reason.unwrap_or(Reason::Limited), decision.retry_after);
    decision.refused_for(reason, wait)
}
