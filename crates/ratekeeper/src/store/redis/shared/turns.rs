//! Those who wait for a shared store: in line within this process, and for starts that were promised.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use ratekeeper_core::{
    Ask, Check, Clock as _, Decision, Key, Micros, Part, Reason, Refused, Source, Verdict,
};

use super::super::exact::since;
use super::owned::OwnedCheck;
use super::{Demand, OnStoreError, SharedReservation, SharedStore};
use crate::clock::ProcessClock;
use crate::sync::{Mutex, lock};
use crate::waiting::{Admitted, MAX_WAITING_IN_ALL, Said};

/// How long an answer of the store is waited for at most; its own timeout is shorter.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Those of this process who stand in line for a shared store, a line per key.
pub(crate) struct Room {
    /// The most behind the one who asks, in one line.
    max_waiting: usize,
    is_closed: AtomicBool,
    /// Told when it is closed.
    closing: tokio::sync::Notify,
    lines: Mutex<Lines>,
}

/// By limit and canonical key: the line of each, while somebody stands in it.
#[derive(Default)]
struct Lines {
    of: HashMap<Vec<u8>, Line>,
    /// How many stand in all of them.
    standing: usize,
}

/// Whoever holds the lock asks; the others stand behind it, in order.
#[derive(Default)]
struct Line {
    front: Arc<tokio::sync::Mutex<()>>,
    standing: usize,
    /// When the one in front asks again: nobody behind it is served before.
    due: Option<Micros>,
}

/// A place in a line; given up when it is dropped.
struct Place {
    room: Arc<Room>,
    line: Vec<u8>,
    is_front: bool,
}

impl Place {
    /// It has come to the front, and asks again then.
    fn asks_at(&mut self, due: Micros) {
        self.is_front = true;
        if let Some(line) = lock(&self.room.lines).of.get_mut(&self.line) {
            line.due = Some(due);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = lock(&self.room.lines);
        lines.standing -= 1;
        if let Some(line) = lines.of.get_mut(&self.line) {
            line.standing -= 1;
            if self.is_front {
                line.due = None;
            }
            if line.standing == 0 {
                lines.of.remove(&self.line);
            }
        }
    }
}

/// What came of the wish to stand in a line.
enum Stood {
    Place(Place, Arc<tokio::sync::Mutex<()>>),
    /// The one in front waits longer than there is time.
    TooLate(Duration),
    Full,
}

impl Room {
    pub(crate) fn new(max_waiting: usize) -> Self {
        let closing = tokio::sync::Notify::new();
        Self { max_waiting, is_closed: AtomicBool::new(false), closing, lines: Mutex::default() }
    }

    /// Refuses all who stand in line, and whoever would have to.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.closing.notify_waiters();
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Lets somebody wait unless it is closed: `None` if it is.
    async fn unless_closed<T>(&self, wait: impl Future<Output = T>) -> Option<T> {
        let closing = std::pin::pin!(self.closing.notified());
        // From here on it is told.
        if self.is_closed() {
            return None;
        }
        tokio::select! {
            biased;
            () = closing => None,
            done = wait => Some(done),
        }
    }

    fn stand(self: &Arc<Self>, name: Vec<u8>, within: Option<Duration>) -> Stood {
        let now = ProcessClock.now();
        let mut lines = lock(&self.lines);
        if lines.standing >= MAX_WAITING_IN_ALL {
            return Stood::Full;
        }
        if let Some(line) = lines.of.get(&name) {
            let wait = line.due.map_or(Duration::ZERO, |due| now.until(due));
            if within.is_some_and(|within| wait > within) {
                return Stood::TooLate(wait);
            }
            // The first asks, and does not wait for anybody.
            if line.standing > self.max_waiting {
                return Stood::Full;
            }
        }
        lines.standing += 1;
        let line = lines.of.entry(name.clone()).or_default();
        line.standing += 1;
        let front = Arc::clone(&line.front);
        Stood::Place(Place { room: Arc::clone(self), line: name, is_front: false }, front)
    }
}

fn late(decision: Decision, wait: Option<Duration>) -> Refused {
    decision.refused_for(Reason::TooLate, wait)
}

/// One who waits.
#[derive(Clone)]
pub(crate) struct Turn {
    store: SharedStore,
    room: Arc<Room>,
    wanted: Arc<[OwnedCheck]>,
    /// Whether it asks again when it is refused for now.
    stands_in_line: bool,
    on_error: OnStoreError,
    /// Of each limit, if it is another than was said.
    cost: Option<u64>,
    within: Option<Duration>,
}

/// What was taken, and what gives it back.
type Came = Result<(Admitted, Option<SharedReservation>), Refused>;

impl Turn {
    pub(crate) fn new(
        store: &SharedStore,
        room: &Arc<Room>,
        checks: &[Check<'_>],
        stands_in_line: bool,
    ) -> Self {
        Self {
            store: store.clone(),
            room: Arc::clone(room),
            wanted: checks.iter().map(OwnedCheck::of).collect(),
            stands_in_line,
            on_error: OnStoreError::default(),
            cost: None,
            within: None,
        }
    }

    /// Which line.
    fn line(&self) -> Vec<u8> {
        let mut line = Vec::new();
        if let Some(first) = self.wanted.first() {
            line.extend_from_slice(&first.limit.id().to_le_bytes());
            Key::from(&first.parts()[..]).write_canonical(&mut line);
        }
        line
    }

    fn has_queue(&self) -> bool {
        self.wanted.iter().any(|wanted| wanted.limit.limit().is_queue())
    }

    /// A refusal without an answer of the store.
    fn refused(&self, reason: Reason, wait: Option<Duration>) -> Refused {
        let verdict = |wanted: &OwnedCheck| {
            let cost = self.cost.unwrap_or(wanted.cost);
            Verdict::failed_closed(wanted.limit.limit(), cost, Duration::ZERO).with_source(Source::Local)
        };
        Decision::of(self.wanted.iter().map(verdict).collect()).refused_for(reason, wait)
    }

    /// Waits until it is in front.
    async fn come_to_front(&self) -> Result<(tokio::sync::OwnedMutexGuard<()>, Place), Refused> {
        let (place, front) = match self.room.stand(self.line(), self.within) {
            Stood::Place(place, front) => (place, front),
            _ if self.room.is_closed() => return Err(self.refused(Reason::Closed, None)),
            Stood::TooLate(wait) => return Err(self.refused(Reason::TooLate, Some(wait))),
            Stood::Full => return Err(self.refused(Reason::QueueFull, None)),
        };
        // Nobody is ahead: it need not wait, and is not refused for that even if it is closed.
        if let Ok(guard) = Arc::clone(&front).try_lock_owned() {
            return Ok((guard, place));
        }
        let at_front = self.room.unless_closed(front.lock_owned());
        let guard = match self.within {
            None => at_front.await,
            Some(within) => tokio::time::timeout(within, at_front)
                .await
                .map_err(|_| self.refused(Reason::TooLate, None))?,
        };
        Ok((guard.ok_or_else(|| self.refused(Reason::Closed, None))?, place))
    }

    /// Waits for the turn, and of a queue for the start.
    async fn come(self) -> Came {
        let began = ProcessClock.now();
        let left = |within: Duration| within.saturating_sub(since(began));
        // The lock is let go before the place is.
        let mut place = if self.stands_in_line { Some(self.come_to_front().await?) } else { None };
        loop {
            if self.has_queue() && (self.within.is_some() || self.room.is_closed()) {
                // A slot that is not to be had is not taken: given back later, it might stay as a hole.
                let (look, _) = self.ask(Ask::Peek).await?;
                if look.allowed
                    && let Some((reason, wait)) = self.why_not(look.delay, began)
                {
                    return Err(look.refused_for(reason, wait));
                }
            }
            let (decision, held) = self.ask(Ask::Acquire).await?;
            if decision.allowed {
                drop(place);
                return self.start(decision, held, began).await;
            }
            let wait = decision.retry_after.filter(|_| decision.reason == Some(Reason::Limited));
            let Some(wait) = wait else { return Err(own(decision)) };
            if self.room.is_closed() {
                return Err(decision.refused_for(Reason::Closed, None));
            }
            let Some((_, place)) = &mut place else { return Err(full_or_own(decision, wait)) };
            if self.within.is_some_and(|within| wait > left(within)) {
                return Err(late(decision, Some(wait)));
            }
            place.asks_at(ProcessClock.now().saturating_add(wait));
            // A refusal that is remembered says no wait below a microsecond.
            let sleep = tokio::time::sleep(wait.max(Duration::from_micros(1)));
            let slept = self.room.unless_closed(sleep).await;
            slept.ok_or_else(|| self.refused(Reason::Closed, Some(wait)))?;
        }
    }

    /// Why it is not to wait so long for a start, and the wait that it is told.
    fn why_not(&self, delay: Duration, began: Micros) -> Option<(Reason, Option<Duration>)> {
        let is_late = |within: Duration| delay > within.saturating_sub(since(began));
        if self.room.is_closed() && !delay.is_zero() {
            Some((Reason::Closed, None))
        } else {
            self.within.is_some_and(is_late).then_some((Reason::TooLate, Some(delay)))
        }
    }

    /// Waits for the start. By the time since the answer was there: never before the start by the store's clock, and later
    /// by one way of the network at most.
    async fn start(&self, decision: Decision, held: Option<SharedReservation>, began: Micros) -> Came {
        let delay = decision.delay;
        if let Some((reason, wait)) = self.why_not(delay, began) {
            // Somebody came between the look and the slot. What was taken is dropped, and so given back.
            return Err(decision.refused_for(reason, wait));
        }
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        Ok((Admitted::new(Said::All(decision), since(began)), held))
    }

    /// Asks the store. What is taken for one who goes away meanwhile comes back.
    async fn ask(&self, ask: Ask) -> Result<(Decision, Option<SharedReservation>), Refused> {
        let keys: Vec<Vec<Part<'_>>> = self.wanted.iter().map(OwnedCheck::parts).collect();
        let both = self.wanted.iter().zip(&keys);
        let mut checks: Vec<Check<'_>> = both.map(|(wanted, parts)| wanted.lend(parts)).collect();
        checks.iter_mut().for_each(|check| check.cost = self.cost.unwrap_or(check.cost));
        let on_error = vec![self.on_error; checks.len()];
        let demand = Demand { checks: &checks, on_error: &on_error, ask };
        let asked = match ask {
            Ask::Acquire => self.store.reserve(demand, ANSWER_WITHIN).await,
            Ask::Peek => self.store.decide(demand, ANSWER_WITHIN).await.map(|look| (look, None)),
        };
        // A limit that no shared store can hold, or a runtime that ends.
        asked.map_err(|_| self.refused(Reason::StoreUnavailable, None))
    }
}

/// One who has not begun to wait, or is on its way.
pub(crate) enum Coming {
    Not(Turn),
    On(Pin<Box<dyn Future<Output = Came> + Send>>),
}

impl Coming {
    /// Changes what it waits for, as long as it has not begun.
    fn change(&mut self, change: impl FnOnce(&mut Turn)) {
        if let Self::Not(turn) = self {
            change(turn);
        }
    }

    pub(crate) fn set_cost(&mut self, cost: u64) {
        self.change(|turn| turn.cost = Some(cost));
    }

    pub(crate) fn set_within(&mut self, within: Duration) {
        self.change(|turn| turn.within = Some(within));
    }

    pub(crate) fn set_on_error(&mut self, on_error: OnStoreError) {
        self.change(|turn| turn.on_error = on_error);
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Came> {
        if let Self::Not(turn) = self {
            *self = Self::On(Box::pin(turn.clone().come()));
        }
        match self {
            Self::On(coming) => coming.as_mut().poll(cx),
            Self::Not(_) => Poll::Pending,
        }
    }
}

/// The refusal of one who does not stand in line: by a queue that is full, or by another limit.
fn full_or_own(decision: Decision, wait: Duration) -> Refused {
    let binding = decision.limits().get(decision.binding);
    if binding.is_some_and(|verdict| verdict.limit().is_queue()) {
        return decision.refused_for(Reason::QueueFull, Some(wait));
    }
    own(decision)
}

/// The limit's own refusal.
fn own(decision: Decision) -> Refused {
    Said::All(decision).refused(None)
}
