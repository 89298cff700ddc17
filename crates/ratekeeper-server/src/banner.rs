//! What a server says when it begins.

use std::time::Duration;

use ratekeeper::MemoryStore;
use ratekeeper_core::{Algorithm, Align};
use ratekeeper_policy::{Config, Policy, PolicyLimit, StoreConfig, thousands};

use crate::input;
use crate::live::{AnyStore, Live};
use crate::telemetry::Listener;

/// What is said at the start: what is served, from where, each policy on a line, and how to stop it, with what
/// runs beside it if something does.
pub(crate) fn banner(live: &Live, origin: &str, urls: &[(Listener, String)], beside: Option<&str>) -> String {
    let config = live.config();
    let mut text = format!(
        "ratekeeper {}   configuration {origin} (sha {})   {}",
        env!("CARGO_PKG_VERSION"),
        config.source_sha(),
        input::counts(config)
    );
    for (store, (_, at_work)) in config.stores.iter().zip(live.stores()) {
        text.push_str(&format!("   store {}: ", store.name));
        match at_work {
            AnyStore::Memory(memory) => text.push_str(&in_memory(config, store, memory)),
            AnyStore::Shared(shared) => text.push_str(shared.place()),
        }
    }
    text.push('\n');
    for (name, url) in urls {
        text.push_str(&match name {
            Listener::Http => format!("  check  {url}/v1/check\n"),
            Listener::Admin => format!("  admin  {url}/metrics\n"),
        });
    }
    let width = config.policies.iter().map(|policy| policy.name().as_str().len()).max().unwrap_or(0);
    for policy in &config.policies {
        let limits: Vec<String> = policy.limits().iter().map(described).collect();
        let key = policy.key().map_or_else(String::new, |key| format!("key {key}   "));
        text.push_str(&format!("  policy {:width$}   {key}{}\n", policy.name().as_str(), limits.join(", ")));
    }
    // Last, how to stop it.
    text.push_str(&format!("  {}\n", beside.unwrap_or("Ctrl-C stops the server")));
    text
}

/// `memory, 1,000,000 keys, 185 MiB`.
fn in_memory(config: &Config, store: &StoreConfig, memory: &MemoryStore) -> String {
    let sizes = store.memory().copied().unwrap_or_default();
    let keys = thousands(sizes.max_keys);
    let mib = memory.memory_bytes().div_ceil(1_024 * 1_024);
    let mut text = format!("memory, {keys} keys, {} MiB", thousands(mib));
    let of_store = config.policies.iter().filter(|policy| *policy.store() == store.name);
    let is_log = |limit: &PolicyLimit| limit.named.limit().kind() == Algorithm::SlidingWindowLog;
    if of_store.flat_map(Policy::limits).any(is_log) {
        text.push_str(&format!(" + logs up to {}", size(sizes.max_bytes)));
    }
    text
}

/// `burst: token-bucket 10/s burst 20`, in the words of the file.
fn described(limit: &PolicyLimit) -> String {
    let mut text = format!("{}: {} {}", limit.named.name(), limit.named.limit().kind(), in_numbers(limit));
    if let Some(key) = &limit.key {
        text.push_str(&format!(" key {key}"));
    }
    text
}

/// `10/s burst 20`: the numbers of a limit in the words of the file.
pub(crate) fn in_numbers(limit: &PolicyLimit) -> String {
    let numbers = limit.named.limit();
    let spec = numbers.spec();
    let mut text = numbers.to_string();
    if let Some(burst) = spec.burst {
        text.push_str(&format!(" burst {burst}"));
    }
    if let Some(queue) = spec.queue {
        text.push_str(&format!(" queue {queue}"));
    }
    if let Some(wait) = spec.max_wait_us {
        text.push_str(&format!(" max_wait {:?}", Duration::from_micros(wait)));
    }
    match numbers.alignment() {
        Align::Epoch => {}
        Align::FirstRequest => text.push_str(" from the first request"),
        Align::Calendar(_) => {
            text.push_str(" by the calendar");
            if let Some(zone) = &limit.zone {
                text.push_str(&format!(" of {zone}"));
            }
        }
    }
    text
}

/// `256 MiB`: bytes in the largest unit that leaves a whole number.
fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| bytes.is_multiple_of(*unit)).unwrap_or((1, "B"));
    format!("{} {name}", thousands(bytes / unit))
}
