//! A cluster: who has which slot, and how that is found out.

use std::collections::BTreeSet;
use std::time::Duration;

use ratekeeper_core::Trouble;
use redis::Value;
use tokio::time::{Instant, timeout};

use super::CONNECT_TIMEOUT;
use super::connect::{telling, words};
use super::hub::{Event, Hub};
use super::node::{Node, State};
use super::verdict::{presentable, trouble_of};

/// Slots of a cluster.
const SLOTS: usize = 16_384;
/// Nodes that are remembered; the largest clusters have a thousand.
const MAX_NODES: usize = 1_024;
/// The shortest time between two questions for the map: a flood of redirections is not a flood of questions.
const PAUSE: Duration = Duration::from_millis(50);
/// Nobody.
const NONE: u16 = u16::MAX;

/// Who has which slot.
pub(super) struct SlotMap {
    /// Numbers of nodes, by slot.
    owners: Vec<u16>,
    /// It was read at least once.
    is_known: bool,
    /// Something has happened since that makes it doubtful.
    is_stale: bool,
    is_asking: bool,
    next_at: Option<Instant>,
    /// Who is asked next.
    turn: usize,
}

impl SlotMap {
    pub(super) fn new() -> Self {
        let owners = vec![NONE; SLOTS];
        Self { owners, is_known: false, is_stale: true, is_asking: false, next_at: None, turn: 0 }
    }
}

/// One line of CLUSTER SLOTS: from, to, and the master.
struct Range {
    first: u16,
    last: u16,
    host: String,
    port: u16,
}

impl Hub {
    /// Whose slot it is. `Err(None)`: it will be known soon.
    pub(super) fn owner(&self, slot: u16) -> Result<usize, Option<Trouble>> {
        let Some(map) = &self.map else { return Ok(0) };
        match map.owners.get(usize::from(slot)) {
            Some(&owner) if owner != NONE => Ok(usize::from(owner)),
            Some(_) if map.is_stale => Err(None),
            Some(_) => Err(Some(Trouble::Loading)),
            None => Err(Some(Trouble::Other)),
        }
    }

    /// The servers that have the data; `None` while that is not known.
    pub(super) fn masters(&self) -> Option<Vec<usize>> {
        let Some(map) = &self.map else { return Some(vec![0]) };
        let owners: BTreeSet<u16> = map.owners.iter().copied().filter(|&owner| owner != NONE).collect();
        (map.is_known && !owners.is_empty()).then(|| owners.into_iter().map(usize::from).collect())
    }

    /// The number of a node; an empty host is that of the node which has named it. `None`: there are too many.
    pub(super) fn find_node(&mut self, teller: usize, host: String, port: u16) -> Option<usize> {
        let host = if host.is_empty() || host == "?" { self.nodes[teller].host.clone() } else { host };
        if let Some(at) = self.nodes.iter().position(|node| node.port == port && node.host == host) {
            return Some(at);
        }
        let node = Node::new(host, port, false);
        if self.nodes.len() < MAX_NODES {
            self.nodes.push(node);
            return Some(self.nodes.len() - 1);
        }
        // Nodes come and go over the years: the place of one that nobody needs is taken.
        let owners = self.map.as_ref().map_or(&[][..], |map| &map.owners);
        let asked = self.map.as_ref().filter(|map| map.is_asking).map(|map| map.turn);
        let mut is_owner = vec![false; self.nodes.len()];
        for owner in owners.iter().filter(|&&owner| owner != NONE) {
            is_owner[usize::from(*owner)] = true;
        }
        let is_free = |at: &usize| {
            *at != teller && Some(*at + 1) != asked && !is_owner[*at] && self.nodes[*at].is_forgettable()
        };
        let at = (0..self.nodes.len()).find(is_free)?;
        self.nodes[at] = node;
        Some(at)
    }

    /// A node has said whose a slot is now.
    pub(super) fn moved(
        &mut self,
        teller: usize,
        slot: u16,
        host: String,
        port: u16,
        now: Instant,
    ) -> Option<usize> {
        let to = self.find_node(teller, host, port)?;
        if let Some(map) = &mut self.map
            && let Some(owner) = map.owners.get_mut(usize::from(slot))
            && let Ok(number) = u16::try_from(to)
        {
            *owner = number;
        }
        self.stale_map(now);
        Some(to)
    }

    /// The map is doubtful: it is asked for again.
    pub(super) fn stale_map(&mut self, now: Instant) {
        if let Some(map) = &mut self.map {
            map.is_stale = true;
            self.refresh_map(now);
        }
    }

    /// Asks a connected node for the map, if that is due; if none is connected, the hosts of the configuration are.
    pub(super) fn refresh_map(&mut self, now: Instant) {
        let Some(map) = &mut self.map else { return };
        if !map.is_stale || map.is_asking {
            return;
        }
        if let Some(next_at) = map.next_at
            && next_at > now
        {
            return self.wake_by(next_at);
        }
        let turn = map.turn;
        let count = self.nodes.len();
        let up = (0..count).map(|step| (turn + step) % count);
        let up = up.filter_map(|at| match &self.nodes[at].state {
            State::Up(live) => Some((at, live.connection.clone())),
            _ => None,
        });
        let Some((at, mut connection)) = up.into_iter().next() else {
            for at in 0..count {
                if self.nodes[at].is_seed && matches!(self.nodes[at].state, State::Idle) {
                    self.nodes[at].is_wanted = true;
                    self.start_attempt(at);
                }
            }
            return;
        };
        if let Some(map) = &mut self.map {
            map.is_asking = true;
            map.turn = at + 1;
        }
        self.flights.push(Box::pin(async move {
            let mut question = redis::cmd("CLUSTER");
            question.arg("SLOTS");
            let result = match timeout(CONNECT_TIMEOUT, connection.send_packed_command(&question)).await {
                Ok(Ok(Value::Array(ranges))) => Ok(ranges),
                Ok(Ok(Value::ServerError(error))) => {
                    let text = words(&error);
                    Err((trouble_of(&text), presentable(&text, std::iter::empty())))
                }
                Ok(Ok(_)) => Err((Trouble::Other, "its slots are no list".to_owned())),
                Ok(Err(error)) => Err((Trouble::Connect, telling(&error))),
                Err(_) => Err((Trouble::Connect, "no answer in time".to_owned())),
            };
            Event::Slots { node: at, result }
        }));
    }

    /// The map has come, or not.
    pub(super) fn slots(
        &mut self,
        teller: usize,
        result: Result<Vec<Value>, (Trouble, String)>,
        now: Instant,
    ) {
        if let Some(map) = &mut self.map {
            map.is_asking = false;
            map.next_at = Some(now + PAUSE);
        }
        match result {
            Ok(ranges) => self.adopt(teller, &ranges, now),
            Err((trouble, text)) => {
                let name = self.nodes[teller].name();
                self.ledger.set_error(&format!("{name}: CLUSTER SLOTS: {text}"));
                self.wake_by(now + PAUSE);
                self.spurn_lobby(trouble);
            }
        }
    }

    /// Why nobody can be asked for the map: no node is connected, and none is being tried.
    pub(super) fn despair(&self) -> Option<Trouble> {
        let mut last = Trouble::Connect;
        for node in &self.nodes {
            match node.state {
                State::Up(_) | State::Connecting => return None,
                State::Down { trouble, .. } => last = trouble,
                State::Idle => {}
            }
        }
        Some(last)
    }

    /// The map did not come: whoever has waited for it once already waits no longer.
    pub(super) fn spurn_lobby(&mut self, trouble: Trouble) {
        for mut job in std::mem::take(&mut self.lobby) {
            if job.is_spurned {
                self.fail(job, trouble);
            } else {
                job.is_spurned = true;
                self.lobby.push_back(job);
            }
        }
    }

    /// Takes a map over: connects its masters, lets go of others, and routes anew what waits.
    fn adopt(&mut self, teller: usize, ranges: &[Value], now: Instant) {
        let mut owners = vec![NONE; SLOTS];
        for range in ranges.iter().filter_map(range) {
            let Some(at) = self.find_node(teller, range.host, range.port) else { continue };
            let Ok(number) = u16::try_from(at) else { continue };
            self.nodes[at].is_wanted = true;
            let (first, last) = (usize::from(range.first), usize::from(range.last));
            if let Some(slots) = owners.get_mut(first..=last) {
                slots.fill(number);
            }
        }
        if let Some(map) = &mut self.map {
            map.owners = owners;
            map.is_known = true;
            map.is_stale = false;
        }
        let masters = self.masters().unwrap_or_default();
        for at in 0..self.nodes.len() {
            let node = &mut self.nodes[at];
            node.is_wanted = masters.contains(&at);
            match node.state {
                State::Idle if node.is_wanted => self.start_attempt(at),
                State::Down { .. } if !node.is_wanted => node.state = State::Idle,
                // It is not needed, except while nobody else could be asked for the map.
                State::Up(_) if !node.is_wanted && !masters.is_empty() && node.in_flight.is_empty() => {
                    node.generation = 0;
                    node.state = State::Idle;
                }
                _ => {}
            }
        }
        let mut waiting: Vec<_> = self.lobby.drain(..).collect();
        for node in &mut self.nodes {
            if !node.is_up() {
                waiting.extend(node.queue.drain(..));
            }
        }
        for job in waiting {
            self.route(job, now);
        }
        for ask in std::mem::take(&mut self.asks) {
            self.ask_all(ask, now);
        }
        self.note_connected();
        self.flush_all(now);
    }
}

fn range(line: &Value) -> Option<Range> {
    let Value::Array(parts) = line else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = &parts[..] else { return None };
    let [host, Value::Int(port), ..] = &master[..] else { return None };
    let host = match host {
        Value::BulkString(host) => String::from_utf8(host.clone()).ok()?,
        Value::SimpleString(host) => host.clone(),
        Value::Nil => String::new(),
        _ => return None,
    };
    let (first, last) = (u16::try_from(*first).ok()?, u16::try_from(*last).ok()?);
    if first > last || usize::from(last) >= SLOTS {
        return None;
    }
    Some(Range { first, last, host, port: u16::try_from(*port).ok()? })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::super::connect::Connector;
    use super::super::ledger::Ledger;
    use super::super::tests::{Quiet, endpoint, scripts};
    use super::super::{Endpoint, Topology};
    use super::*;

    fn hub() -> Hub {
        let hosts = vec![("seed".to_owned(), 6379)];
        let endpoint = Endpoint { hosts, ..endpoint(Topology::Cluster, &[]) };
        let connector =
            Connector::new(endpoint, scripts(""), Duration::from_secs(1)).expect("no certificate");
        Hub::new(Arc::new(connector), Duration::from_secs(1), Arc::new(Ledger::default()), Arc::new(Quiet))
    }

    #[tokio::test]
    async fn addresses_that_nobody_needs_any_more_make_room() {
        let mut hub = hub();
        let owner = hub.find_node(0, "owner".to_owned(), 6379).expect("a place");
        if let Some(map) = &mut hub.map {
            map.owners[7] = u16::try_from(owner).expect("a small number");
        }
        for number in 0..3 * MAX_NODES {
            let at = hub.find_node(0, format!("10.0.{}.{}", number / 256, number % 256), 6379);
            let at = at.unwrap_or_else(|| panic!("no place for address {number}"));
            assert!(at != 0 && at != owner, "{number}");
        }
        assert_eq!(hub.nodes.len(), MAX_NODES);
        assert_eq!((&hub.nodes[0].host[..], &hub.nodes[owner].host[..]), ("seed", "owner"));
    }

    #[tokio::test]
    async fn all_masters_of_one_map_have_places_of_their_own() {
        let mut hub = hub();
        for number in 0..MAX_NODES {
            hub.find_node(0, format!("old{number}"), 6379);
        }
        let line = |at: usize| {
            let slot = i64::try_from(at).expect("a small number");
            let master = vec![Value::SimpleString(format!("new{at}")), Value::Int(6379)];
            Value::Array(vec![Value::Int(slot), Value::Int(slot), Value::Array(master)])
        };
        let ranges: Vec<Value> = (0..900).map(line).collect();
        hub.slots(0, Ok(ranges), Instant::now());
        for slot in 0..900 {
            let at = hub.owner(slot).expect("it has an owner");
            assert_eq!(hub.nodes[at].host, format!("new{slot}"));
        }
        assert_eq!(hub.nodes.len(), MAX_NODES);
    }
}
