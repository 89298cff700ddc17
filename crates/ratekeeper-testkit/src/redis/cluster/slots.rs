//! Moving slots from one master to another, at once or step by step.

use super::super::resp::Reply;
use super::super::server::{PASSWORD, USER};
use super::{Cluster, owners};

/// How many keys one `MIGRATE` takes.
const BATCH: &str = "100";

impl Cluster {
    /// The slot of a key.
    #[must_use]
    #[track_caller]
    pub fn slot_of(&self, key: &str) -> u16 {
        let slot = self.running().command(&["CLUSTER", "KEYSLOT", key]).good().int();
        u16::try_from(slot).expect("slots end at 16,383")
    }

    /// The number of the node that owns a slot, by the first node that runs.
    ///
    /// # Panics
    /// If nobody owns it.
    #[must_use]
    #[track_caller]
    pub fn owner_of_slot(&self, slot: u16) -> usize {
        let owners = owners(&self.running().command(&["CLUSTER", "NODES"]).good());
        let owns = |ranges: &str| ranges.split(' ').any(|range| contains(range, slot));
        let owner = owners.iter().find(|(_, ranges)| owns(ranges));
        self.number_of(owner.unwrap_or_else(|| panic!("nobody owns slot {slot}")).0)
    }

    /// Moves a slot with its keys: begin, move all keys, finish.
    ///
    /// # Panics
    /// If a node refuses a step.
    #[track_caller]
    pub fn move_slot(&self, slot: u16, from: usize, to: usize) {
        self.begin_move(slot, from, to);
        self.move_keys(slot, from, to);
        self.finish_move(slot, to);
    }

    /// From now on `from` answers ASK for keys of the slot that it does not have, and `to` takes them after ASKING.
    /// A command on several keys that are not all in one place is answered TRYAGAIN.
    ///
    /// # Panics
    /// If a node refuses, for example because `from` does not own the slot.
    #[track_caller]
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let slot = slot.to_string();
        let set = |at: usize, state: &str, other: usize| {
            self.node(at).command(&["CLUSTER", "SETSLOT", &slot, state, self.id(other)]).good();
        };
        set(to, "IMPORTING", from);
        set(from, "MIGRATING", to);
    }

    /// Moves all keys of a slot that is on the move: how many there were.
    ///
    /// # Panics
    /// If a node refuses.
    #[track_caller]
    pub fn move_keys(&self, slot: u16, from: usize, to: usize) -> usize {
        let mut moved = 0;
        loop {
            let found = self.node(from).command(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), BATCH]);
            let keys: Vec<String> = found.good().items().iter().map(Reply::text).collect();
            if keys.is_empty() {
                return moved;
            }
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            self.move_these_keys(&keys, from, to);
            moved += keys.len();
        }
    }

    /// Moves some keys of a slot that is on the move, with their times to live. Keys that are not there are passed over.
    ///
    /// # Panics
    /// If a node refuses.
    #[track_caller]
    pub fn move_these_keys(&self, keys: &[&str], from: usize, to: usize) {
        let port = self.node(to).port().to_string();
        let mut command =
            vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "AUTH2", USER, PASSWORD, "KEYS"];
        command.extend(keys);
        self.node(from).command(&command).good();
    }

    /// Gives the slot to `to` and tells all masters that run; keys must have been moved. Waits until all agree.
    ///
    /// # Panics
    /// If a node refuses, for example because it still has keys of the slot, or they do not agree.
    #[track_caller]
    pub fn finish_move(&self, slot: u16, to: usize) {
        let slot_text = slot.to_string();
        let give = ["CLUSTER", "SETSLOT", &slot_text, "NODE", self.id(to)];
        // The new owner first: if somebody is told earlier, nobody may own the slot for a moment.
        self.node(to).command(&give).good();
        for number in (0..self.len()).filter(|number| *number != to) {
            let node = self.node(number);
            if node.is_up() && node.role().is_some_and(|role| role == "master") {
                node.command(&give).good();
            }
        }
        self.wait_until_settled();
    }

    #[track_caller]
    fn running(&self) -> &super::RedisServer {
        self.nodes.iter().find(|node| node.is_up()).expect("a node runs")
    }
}

/// Whether a range such as `0-5460` or `7` contains a slot.
fn contains(range: &str, slot: u16) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let number = |text: &str| text.parse::<u16>().unwrap_or_else(|_| panic!("not a slot: {text}"));
    (number(first)..=number(last)).contains(&slot)
}
