//! What a key costs the server.

use ratekeeper::{Algorithm, Limit, days};
use tokio::runtime::Runtime;

use crate::Failed;
use crate::cases::{self, Stores, Subject};
use crate::load;
use crate::server::Server;

pub(crate) struct Footprint {
    pub(crate) name: &'static str,
    pub(crate) keys: u64,
    /// What the memory in use has grown by, for each key.
    pub(crate) bytes: f64,
    /// What `MEMORY USAGE` says of one.
    pub(crate) usage: f64,
    /// One of them.
    pub(crate) key: String,
}

const SMALL_LOG: &str = "sliding-window-log, 10 entries";
const LARGE_LOG: &str = "sliding-window-log, 1,000 entries";

/// A unit lasts for hours: no key goes away while others are made.
const fn yearly(algorithm: Algorithm) -> Limit {
    Limit::per(cases::AMOUNT, days(365)).algorithm(algorithm)
}

pub(crate) fn measure(
    runtime: &Runtime,
    server: &mut Server,
    stores: &Stores,
    keys: u64,
) -> Result<Vec<Footprint>, Failed> {
    let mut footprints = Vec::new();
    let mut note = |name, limit, policy, (keys, times): (u64, u64)| -> Result<(), Failed> {
        let subject = Subject::of_limit(&stores.shared, name, policy, limit)?;
        server.empty()?;
        // The scripts are there again, and what the connection keeps.
        load::fill(runtime, &subject, 1, 1)?;
        server.empty()?;
        load::fill(runtime, &subject, 1, 1)?;
        let before = server.used_memory()?;
        load::fill(runtime, &subject, keys, times)?;
        let bytes = (server.used_memory()? - before) / keys as f64;
        if server.count()? != keys {
            return Err(format!("{name}: {} keys instead of {keys}", server.count()?).into());
        }
        let (usage, key) = server.usage_of_any()?;
        footprints.push(Footprint { name, keys, bytes, usage, key });
        Ok(())
    };
    for algorithm in Algorithm::ALL {
        if algorithm != Algorithm::SlidingWindowLog {
            note(algorithm.name(), yearly(algorithm), algorithm.name(), (keys, 1))?;
        }
    }
    note(cases::QUEUE, yearly(Algorithm::LeakyBucket).queue(cases::AMOUNT - 1), "queue", (keys, 1))?;
    let log = yearly(Algorithm::SlidingWindowLog);
    note(SMALL_LOG, log, "log", (keys / 10, 10))?;
    note(LARGE_LOG, log, "log", (keys / 1_000, 1_000))?;
    Ok(footprints)
}
