//! Connections: how they are tried, come, and go.

use std::time::Duration;

use futures_util::future::{Either, select};
use ratekeeper_core::Trouble;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Topology;
use super::command::Pending;
use super::connect::{Ready, Refusal};
use super::hub::{Event, Hub, fail_ask};
use super::ledger::Serving;
use super::node::{Live, State};

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// The same while sentinels look for a master: within a second of its promotion it is to serve.
const LONGEST_PAUSE_SENTINEL: Duration = Duration::from_millis(500);
/// A connection that has lived so long was a good one: its loss is followed by an attempt at once.
const PROVEN: Duration = Duration::from_secs(1);

impl Hub {
    /// Begins to connect a node.
    pub(super) fn start_attempt(&mut self, at: usize) {
        let generation = self.next_id();
        let node = &mut self.nodes[at];
        node.generation = generation;
        node.state = State::Connecting;
        let (connector, host, port) = (self.connector.clone(), node.host.clone(), node.port);
        self.flights.push(Box::pin(async move {
            let result = connector.attempt(&host, port).await;
            Event::Attempt { node: at, generation, result }
        }));
    }

    /// A node serves from now on.
    pub(super) fn connected(&mut self, at: usize, ready: Ready, now: Instant) {
        let Ready { connection, driver, host, port, address, server } = ready;
        let node = &mut self.nodes[at];
        if self.map.is_none() {
            let (generation, host) = (node.generation, host.clone());
            self.ledger.set_serving(Some(Serving { generation, host, address }));
        }
        (node.host, node.port) = (host, port);
        let (end, ended) = oneshot::channel();
        let generation = node.generation;
        self.flights.push(Box::pin(async move {
            if let Either::Left(((), _)) = select(driver, ended).await {
                // Replies that came with the end are looked at first.
                tokio::task::yield_now().await;
                return Event::Ended { node: at, generation };
            }
            Event::Said
        }));
        node.state = State::Up(Live { connection, _end: end, since: now, heard_at: now, is_leaving: false });
        if let Some(server) = server {
            self.ledger.set_server(server);
        }
        self.note_connected();
        self.refresh_map(now);
        self.send_asks(at);
        self.flush(at, now);
    }

    /// An attempt has failed. Whoever has waited for it waits for one more, if there is time.
    pub(super) fn refused(&mut self, at: usize, refusal: Refusal, now: Instant) {
        let longest = self.longest_pause();
        let node = &mut self.nodes[at];
        let retry_at = now + node.next_pause(longest);
        let name = node.name();
        self.ledger.set_error(&format!("{name}: {}", refusal.text));
        if !node.is_wanted && node.queue.is_empty() && node.again.is_empty() {
            node.state = State::Idle;
        } else {
            node.state = State::Down { retry_at, trouble: refusal.trouble };
        }
        for ask in node.asks.drain(..) {
            fail_ask(ask, &name, refusal.trouble, &refusal.text);
        }
        let mut queue = std::mem::take(&mut node.queue);
        let mut again = std::mem::take(&mut node.again);
        let stays = |job: &mut Pending| {
            let has_time = !job.is_spurned && job.deadline.max(job.lasts_until) > retry_at;
            job.is_spurned = true;
            has_time
        };
        for mut job in queue.drain(..) {
            if stays(&mut job) {
                self.nodes[at].queue.push_back(job);
            } else {
                self.fail(job, refusal.trouble);
            }
        }
        for mut command in again.drain(..) {
            if command.jobs.iter_mut().all(&stays) {
                self.nodes[at].again.push_back(command);
            } else {
                self.fail_all(command, refusal.trouble, false);
            }
        }
        self.wake_by(retry_at);
        self.stale_map(now);
        if self.despair().is_some() {
            self.spurn_lobby(refusal.trouble);
        }
        self.note_connected();
    }

    /// A connection is gone, or given up. What was written on it has an unknown end: it is answered so, and never
    /// sent again. What was not waits for the next.
    pub(super) fn lost(&mut self, at: usize, trouble: Trouble, text: &str, now: Instant) {
        self.ledger.set_error(text);
        for command in std::mem::take(&mut self.nodes[at].in_flight) {
            self.fail_all(command, trouble, true);
        }
        self.replace(at, trouble, now);
    }

    /// Ends a connection that is to be left, once it has answered everything.
    pub(super) fn leave_if_done(&mut self, at: usize, now: Instant) {
        let node = &self.nodes[at];
        if node.in_flight.is_empty() && matches!(&node.state, State::Up(live) if live.is_leaving) {
            self.replace(at, Trouble::Readonly, now);
        }
    }

    /// Drops the connection and makes another: at once, unless the last one was short-lived.
    fn replace(&mut self, at: usize, trouble: Trouble, now: Instant) {
        let longest = self.longest_pause();
        self.ledger.set_serving(None);
        let node = &mut self.nodes[at];
        node.rounds.clear();
        let was_good = match &node.state {
            State::Up(live) => now.saturating_duration_since(live.since) >= PROVEN,
            _ => false,
        };
        if was_good {
            node.reset_pause();
        }
        if !node.is_wanted && node.queue.is_empty() && node.again.is_empty() {
            node.generation = 0;
            node.state = State::Idle;
        } else if was_good {
            self.start_attempt(at);
        } else {
            let retry_at = now + node.next_pause(longest);
            node.generation = 0;
            node.state = State::Down { retry_at, trouble };
            self.wake_by(retry_at);
        }
        self.stale_map(now);
        self.note_connected();
    }

    fn longest_pause(&self) -> Duration {
        match self.connector.endpoint.topology {
            Topology::Sentinel { .. } => LONGEST_PAUSE_SENTINEL,
            Topology::Standalone | Topology::Cluster => LONGEST_PAUSE,
        }
    }

    /// Writes down whether all are connected that are needed.
    pub(super) fn note_connected(&self) {
        let is_connected = match self.masters() {
            Some(masters) => masters.iter().all(|&at| self.nodes[at].is_up()),
            None => false,
        };
        self.ledger.set_connected(is_connected);
    }
}
