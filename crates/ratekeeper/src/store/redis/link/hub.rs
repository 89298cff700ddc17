//! The loop of the thread: what comes in, what comes back, and what time does.
//!
//! One task holds everything: callers' messages, the connections' drivers, the commands on their way. Nothing is
//! spawned, and no job has a timer of its own: there is one alarm, never later than the first thing that is due.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use ratekeeper_core::Trouble;
use redis::{RedisResult, Value};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::cluster::SlotMap;
use super::command::Pending;
use super::connect::{Connector, Ready, Refusal};
use super::inbox::{Inbox, Sleep};
use super::ledger::Ledger;
use super::node::{Ask, Node, State};
use super::{Answer, Failure, Job, LinkEvents, Said, Topology};

/// What callers say.
pub(super) enum Message {
    /// With the instant at which it must be answered.
    Job(Job, Instant),
    AskAll(AskAll),
}

/// A plain command to every master.
pub(super) struct AskAll {
    pub(super) command: Vec<Vec<u8>>,
    pub(super) deadline: Instant,
    /// One receiver for each node.
    pub(super) reply: oneshot::Sender<Vec<oneshot::Receiver<Said>>>,
}

/// What the thread waits for besides callers.
pub(super) enum Event {
    Reply {
        node: usize,
        generation: u64,
        id: u64,
        result: RedisResult<Value>,
    },
    Attempt {
        node: usize,
        generation: u64,
        result: Result<Ready, Refusal>,
    },
    /// A connection has ended.
    Ended {
        node: usize,
        generation: u64,
    },
    Slots {
        node: usize,
        result: Result<Vec<Value>, (Trouble, String)>,
    },
    /// A plain command was answered.
    Said,
}

pub(super) type Flight = Pin<Box<dyn Future<Output = Event>>>;

/// Everything the thread has.
pub(super) struct Hub {
    pub(super) connector: Arc<Connector>,
    pub(super) patience: Duration,
    pub(super) ledger: Arc<Ledger>,
    pub(super) events: Arc<dyn LinkEvents>,
    pub(super) nodes: Vec<Node>,
    /// Who has which slot, in a cluster.
    pub(super) map: Option<SlotMap>,
    /// Jobs whose slot's owner is not known yet.
    pub(super) lobby: VecDeque<Pending>,
    /// Jobs that are asked again a little later.
    pub(super) later: Vec<(Instant, Pending)>,
    /// Plain commands that wait for the map.
    pub(super) asks: Vec<AskAll>,
    pub(super) flights: FuturesUnordered<Flight>,
    /// The last number given to a command, a round or an attempt.
    pub(super) last_id: u64,
    alarm: Instant,
}

/// When nothing is due.
const IDLE: Duration = Duration::from_secs(3600);

impl Hub {
    pub(super) fn new(
        connector: Arc<Connector>,
        patience: Duration,
        ledger: Arc<Ledger>,
        events: Arc<dyn LinkEvents>,
    ) -> Self {
        let (mut nodes, mut map) = (Vec::new(), None);
        match &connector.endpoint.topology {
            Topology::Cluster => {
                let seeds = &connector.endpoint.hosts;
                nodes.extend(seeds.iter().map(|(host, port)| Node::new(host.clone(), *port, true)));
                map = Some(SlotMap::new());
            }
            // There is one server at a time; the attempt finds out which.
            _ => {
                let (host, port) = connector.endpoint.hosts.first().cloned().unwrap_or_default();
                nodes.push(Node::new(host, port, true));
            }
        }
        Self {
            connector,
            patience,
            ledger,
            events,
            nodes,
            map,
            lobby: VecDeque::new(),
            later: Vec::new(),
            asks: Vec::new(),
            flights: FuturesUnordered::new(),
            last_id: 0,
            alarm: Instant::now(),
        }
    }

    /// Serves until the inbox is closed.
    pub(super) async fn run(mut self, inbox: Arc<Inbox>) {
        let mut messages = Vec::new();
        let sleep = tokio::time::sleep_until(self.alarm);
        tokio::pin!(sleep);
        for node in 0..self.nodes.len() {
            self.nodes[node].is_wanted = true;
            self.start_attempt(node);
        }
        loop {
            if sleep.deadline() != self.alarm {
                sleep.as_mut().reset(self.alarm);
            }
            // By lot, so that a flood of one kind keeps none of the others waiting; for the same reason the alarm and
            // the inbox are looked at whatever has come.
            tokio::select! {
                () = inbox.slept(self.sleep()) => {}
                Some(event) = self.flights.next() => self.handle(event, Instant::now()),
                () = &mut sleep => {}
            }
            let now = Instant::now();
            if !inbox.take(&mut messages) {
                break;
            }
            if !messages.is_empty() {
                for message in messages.drain(..) {
                    self.admit(message, now);
                }
                self.flush_all(now);
            }
            if now >= self.alarm {
                self.tick(now);
            }
        }
        self.end();
    }

    /// What ends a sleep: what can be sent at once, or is due before anything else.
    fn sleep(&self) -> Sleep {
        let questions = match &self.nodes[..] {
            [only] => only.room().max(1),
            // It is not known which of them the next is for.
            _ => 1,
        };
        Sleep { questions, until: self.alarm }
    }

    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Makes sure that [`Hub::tick`] runs at that instant or before.
    pub(super) fn wake_by(&mut self, at: Instant) {
        self.alarm = self.alarm.min(at);
    }

    fn admit(&mut self, message: Message, now: Instant) {
        match message {
            Message::Job(job, deadline) => {
                self.wake_by(deadline);
                let job = Pending::new(job, now, deadline, self.map.is_some());
                self.route(job, now);
            }
            Message::AskAll(ask) => {
                self.wake_by(ask.deadline);
                self.ask_all(ask, now);
            }
        }
    }

    fn handle(&mut self, event: Event, now: Instant) {
        match event {
            Event::Reply { node, generation, id, result } => self.replied(node, generation, id, result, now),
            Event::Attempt { node, generation, result } => {
                if self.nodes[node].generation == generation {
                    match result {
                        Ok(ready) => self.connected(node, ready, now),
                        Err(refusal) => self.refused(node, refusal, now),
                    }
                }
            }
            Event::Ended { node, generation } => {
                if self.nodes[node].generation == generation {
                    let name = self.nodes[node].name();
                    self.lost(node, Trouble::Connect, &format!("{name} has closed the connection"), now);
                }
            }
            Event::Slots { node, result } => self.slots(node, result, now),
            Event::Said => {}
        }
    }

    /// Does what is due, and finds out when something is next.
    fn tick(&mut self, now: Instant) {
        self.alarm = now + IDLE;
        self.expire(now);
        for at in 0..self.nodes.len() {
            match self.nodes[at].state {
                State::Down { retry_at, .. } if retry_at <= now => self.start_attempt(at),
                State::Down { retry_at, .. } => self.wake_by(retry_at),
                _ => {}
            }
            if let Some(suspect_at) = self.nodes[at].suspect_at(self.patience) {
                if suspect_at <= now {
                    let name = self.nodes[at].name();
                    let text = format!("{name} has said nothing for {:?}", self.patience);
                    self.lost(at, Trouble::Timeout, &text, now);
                } else {
                    self.wake_by(suspect_at);
                }
            }
        }
        let (due, rest) = std::mem::take(&mut self.later).into_iter().partition(|(at, _)| *at <= now);
        self.later = rest;
        if let Some(first) = self.later.iter().map(|(at, _)| *at).min() {
            self.wake_by(first);
        }
        let due: Vec<(Instant, Pending)> = due;
        for (_, job) in due {
            self.route(job, now);
        }
        self.refresh_map(now);
        self.flush_all(now);
    }

    /// Answers whatever has no time left, wherever it waits.
    fn expire(&mut self, now: Instant) {
        let (ledger, first) = (&self.ledger, Cell::new(now + IDLE));
        let stays = |job: &mut Pending, may_have_run: bool| {
            if job.deadline > now {
                first.set(first.get().min(job.deadline));
                return true;
            }
            answer(ledger, job, Err(Failure { trouble: Trouble::Timeout, may_have_run }));
            let lasts = job.lasts_until > now;
            if lasts {
                first.set(first.get().min(job.lasts_until));
            }
            lasts
        };
        self.lobby.retain_mut(|job| stays(job, false));
        self.later.retain_mut(|(_, job)| stays(job, false));
        for node in &mut self.nodes {
            node.queue.retain_mut(|job| stays(job, false));
            node.again.retain_mut(|command| {
                command.jobs.retain_mut(|job| stays(job, false));
                command.keys = command.jobs.iter().map(|job| job.question.parts.len()).sum();
                !command.jobs.is_empty()
            });
            // Those on their way keep their places: the reply counts them.
            for job in node.in_flight.iter_mut().flat_map(|command| &mut command.jobs) {
                if job.reply.is_some() {
                    stays(job, true);
                }
            }
            let name = node.name();
            for ask in node.asks.extract_if(.., |ask| ask.deadline <= now) {
                fail_ask(ask, &name, Trouble::Timeout, "no connection came in time");
            }
            first.set(node.asks.iter().map(|ask| ask.deadline).fold(first.get(), Instant::min));
        }
        for ask in self.asks.extract_if(.., |ask| ask.deadline <= now) {
            let _ = ask.reply.send(Vec::new());
        }
        let first = self.asks.iter().map(|ask| ask.deadline).fold(first.get(), Instant::min);
        self.wake_by(first);
    }

    /// Answers everything, because nobody is left who could ask.
    fn end(mut self) {
        let ledger = &self.ledger;
        let fail = |job: &mut Pending, may_have_run| {
            answer(ledger, job, Err(Failure { trouble: Trouble::Connect, may_have_run }));
        };
        self.lobby.iter_mut().for_each(|job| fail(job, false));
        self.later.iter_mut().for_each(|(_, job)| fail(job, false));
        for node in &mut self.nodes {
            node.queue.iter_mut().for_each(|job| fail(job, false));
            node.again.iter_mut().flat_map(|command| &mut command.jobs).for_each(|job| fail(job, false));
            node.in_flight.iter_mut().flat_map(|command| &mut command.jobs).for_each(|job| fail(job, true));
        }
    }
}

/// Answers a job, once.
pub(super) fn answer(ledger: &Ledger, job: &mut Pending, result: Result<Answer, Failure>) {
    let Some(reply) = job.reply.take() else { return };
    ledger.waiting.fetch_sub(1, Relaxed);
    match &result {
        Ok(_) => {
            ledger.requests.fetch_add(1, Relaxed);
        }
        Err(failure) => ledger.failed(failure.trouble),
    }
    let _ = reply.send(result);
}

/// Answers a plain command that was never sent.
pub(super) fn fail_ask(ask: Ask, name: &str, trouble: Trouble, text: &str) {
    let failure = Failure { trouble, may_have_run: false };
    let _ = ask.reply.send((name.to_owned(), Err((failure, text.to_owned()))));
}
