//! The traffic of `demo`: bounded, the same for the same seed, and in part refused.
//!
//! Clients have addresses of 192.0.2.0/24 (RFC 5737), which nobody who tries things out has as a key.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use crate::client::{Address, Connection};
use crate::seeded::Seeded;

const CLIENTS: u64 = 40;
const PER_SECOND: u64 = 60;
const MINUTES: u64 = 10;
const REQUESTS: u64 = MINUTES * 60 * PER_SECOND;

/// What the banner says.
pub(super) fn line() -> String {
    format!(
        "demo traffic: {PER_SECOND} requests a second from {CLIENTS} clients for {MINUTES} minutes; Ctrl-C stops everything"
    )
}

/// Shares of the policies, in a hundred. So many that most is let in and something is refused by each but
/// `reports`, within the ten minutes.
type Shares = [(&'static str, u64); 5];
const OF_MOST: Shares = [("api", 60), ("reports", 22), ("exports", 15), ("login", 2), ("sms", 1)];
/// One client wants several times what its limits let it have, from the start.
const OF_GREEDY: Shares = [("api", 70), ("exports", 20), ("login", 5), ("sms", 5), ("reports", 0)];
const GREEDY: u64 = 1;

/// One request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Question {
    pub(super) policy: &'static str,
    pub(super) key: String,
    pub(super) cost: u64,
}

impl Question {
    fn body(&self) -> Vec<u8> {
        // Names, addresses and numbers need no escapes.
        format!(r#"{{"policy":"{}","key":"{}","cost":{}}}"#, self.policy, self.key, self.cost).into_bytes()
    }
}

/// All requests, one after another.
pub(super) fn questions(seed: u64) -> impl Iterator<Item = Question> {
    let mut random = Seeded::new(seed);
    (0..REQUESTS).map(move |_| {
        // A quarter comes from the greedy one, the rest from all others alike.
        let client = if random.below(4) == 0 { GREEDY } else { 2 + random.below(CLIENTS - 1) };
        let shares = if client == GREEDY { &OF_GREEDY } else { &OF_MOST };
        let policy = pick(shares, random.below(100));
        let key = match policy {
            "sms" => format!("demo-{client}"),
            _ => format!("ip=192.0.2.{client}"),
        };
        let cost = if policy == "api" && random.below(8) == 0 { 3 } else { 1 };
        Question { policy, key, cost }
    })
}

fn pick(shares: &Shares, mut drawn: u64) -> &'static str {
    for (policy, share) in shares {
        if drawn < *share {
            return policy;
        }
        drawn -= share;
    }
    shares[0].0
}

/// Sends it to a server, on one connection, and ends after ten minutes.
pub(super) async fn send(address: Address, seed: u64) {
    let sending = async {
        let mut connection: Option<Connection> = None;
        let mut paced = Paced::new(seed);
        while let Some(question) = paced.next().await {
            if connection.is_none() {
                connection = Connection::open(&address).await.ok();
            }
            // A request that cannot be sent is left out: the next one has a new connection.
            if let Some(open) = &mut connection
                && open.post("/v1/check", question.body()).await.is_err()
            {
                connection = None;
            }
        }
    };
    // However slow the server is.
    let _ = timeout(Duration::from_secs(MINUTES * 60 + 1), sending).await;
}

/// The requests, each when it is due.
struct Paced {
    ticks: Interval,
    questions: Box<dyn Iterator<Item = Question> + Send>,
}

impl Paced {
    fn new(seed: u64) -> Self {
        let mut ticks = interval(Duration::from_micros(1_000_000 / PER_SECOND));
        // What was not sent during a pause is not made up for.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Self { ticks, questions: Box::new(questions(seed)) }
    }

    async fn next(&mut self) -> Option<Question> {
        let question = self.questions.next()?;
        self.ticks.tick().await;
        Some(question)
    }
}

#[cfg(test)]
mod tests;
