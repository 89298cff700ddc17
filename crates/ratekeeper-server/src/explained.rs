//! What is told of a request and why: the object of `POST /v1/explain`. The text of `ratekeeper explain` is made of the
//! same, wherever it comes from.

mod of;
pub(crate) mod words;

use serde::{Deserialize, Serialize};

/// Why a request is decided as it is.
#[derive(Serialize, Deserialize)]
pub(crate) struct Explained {
    /// Whether it would be allowed now; null if it cannot be decided.
    pub(crate) allowed: Option<bool>,
    /// Why it cannot.
    pub(crate) error: Option<String>,
    /// Null where a policy and its key are named.
    pub(crate) client: Option<Client>,
    /// All policies of the file in its order, or the one that is named.
    pub(crate) policies: Vec<Policy>,
}

/// Whose request it is.
#[derive(Serialize, Deserialize)]
pub(crate) struct Client {
    /// Null if nobody can tell.
    pub(crate) ip: Option<String>,
    pub(crate) why: String,
    /// The trusted addresses in the order of the walk.
    pub(crate) hops: Vec<Hop>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Hop {
    pub(crate) ip: String,
    /// Which of `client_ip.trusted_proxies` trusts it, from 0.
    pub(crate) trusted_proxy: usize,
}

/// What becomes of a policy.
#[derive(Serialize, Deserialize)]
pub(crate) struct Policy {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) outcome: String,
    pub(crate) why: String,
    /// What it does, if it applies.
    #[serde(flatten)]
    pub(crate) applied: Option<Applied>,
}

/// What a policy does that applies.
#[derive(Serialize, Deserialize)]
pub(crate) struct Applied {
    pub(crate) mode: String,
    /// Instead of asking limits.
    pub(crate) action: Option<String>,
    pub(crate) key: Option<String>,
    #[serde(rename = "override")]
    pub(crate) by_override: Option<Override>,
    pub(crate) store: String,
    /// How that is, if a fleet shares it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shared_store: Option<SharedStore>,
    pub(crate) on_store_error: String,
    pub(crate) cost: u64,
    pub(crate) cost_from: String,
    pub(crate) limits: Vec<Limit>,
}

/// How a store is that a fleet shares.
#[derive(Serialize, Deserialize)]
pub(crate) struct SharedStore {
    /// What it is: `redis`.
    pub(crate) kind: String,
    pub(crate) up: bool,
    /// It has failed so often that it is not asked for a moment.
    pub(crate) breaker_open: bool,
    /// How long it takes, in microseconds; null if it has not been asked yet.
    pub(crate) round_trip_us: Option<u64>,
    /// All of that in words, and where it is.
    pub(crate) state: String,
}

/// What is different for a key.
#[derive(Serialize, Deserialize)]
pub(crate) struct Override {
    /// As the file says it; `None` if it is a temporary one.
    pub(crate) key: Option<String>,
    pub(crate) line: Option<usize>,
}

/// What a limit says now.
#[derive(Serialize, Deserialize)]
pub(crate) struct Limit {
    pub(crate) name: String,
    pub(crate) algorithm: String,
    /// As the file says it, with its options.
    pub(crate) limit: String,
    /// Its own key, if it does not count by the policy's.
    pub(crate) key: Option<String>,
    pub(crate) window_ms: u64,
    pub(crate) capacity: u64,
    /// How it is reckoned, in words; times of day are UTC.
    pub(crate) arithmetic: String,
    /// What it says, if it takes part.
    #[serde(flatten)]
    pub(crate) now: Option<Now>,
}

/// The answer of a limit to a look.
#[derive(Serialize, Deserialize)]
pub(crate) struct Now {
    /// The moment of the answer, in milliseconds since the epoch.
    pub(crate) at_ms: u64,
    pub(crate) allowed: bool,
    pub(crate) reason: Option<String>,
    pub(crate) cost: u64,
    pub(crate) used: u64,
    pub(crate) remaining: u64,
    /// Null if waiting does not help.
    pub(crate) retry_after_ms: Option<u64>,
    /// The moment when that is over, in milliseconds since the epoch; null if it is never or now.
    pub(crate) retry_at_ms: Option<u64>,
    pub(crate) reset_after_ms: u64,
    pub(crate) delay_ms: u64,
    /// What it is reckoned from; null if there is no place for the key.
    pub(crate) state: Option<State>,
}

/// What a key has used, as the algorithm counts it.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum State {
    /// Buckets.
    Level { level_thousandths: u64 },
    /// A leaky bucket with a queue.
    Line { waiting: u64, start_after_ms: u64 },
    /// A fixed window.
    Window { count: u64, ends_after_ms: u64 },
    /// A sliding window counter.
    Fading { previous: u64, share_thousandths: u64, current: u64 },
    /// A sliding window log.
    Log { used: u64, oldest_ms: Option<u64>, newest_ms: Option<u64> },
}
