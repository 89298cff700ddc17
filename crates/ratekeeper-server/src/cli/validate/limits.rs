//! `validate --explain-limits`: what each limit comes to at worst, and what a key of it costs.

use std::time::Duration;

use ratekeeper::{KeyBytes, MemoryStore};
use ratekeeper_core::Limit;
use ratekeeper_policy::{Config, Policy, PolicyLimit, thousands};
use serde::Serialize;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A limit, explained.
#[derive(Serialize)]
pub(crate) struct Explained {
    policy: String,
    limit: String,
    algorithm: &'static str,
    /// As the file writes it.
    rate: String,
    window_us: u64,
    /// The largest cost that can be admitted at once.
    capacity: u64,
    /// `units`, or `starts` of a queue: the requests of cost 1 that begin.
    counts: &'static str,
    worst_case: WorstCase,
    bytes_per_key: Bytes,
}

/// The most that any span admits which begins with one moment and ends before another.
#[derive(Serialize)]
struct WorstCase {
    second: u64,
    window: u64,
    day: u64,
}

#[derive(Serialize)]
struct Bytes {
    table: u64,
    log: u64,
}

impl Explained {
    /// Every limit of a configuration, in the order of the file.
    pub(super) fn of(config: &Config) -> Vec<Self> {
        let policies = config.policies.iter();
        policies.flat_map(|policy| policy.limits().iter().map(|limit| Self::new(policy, limit))).collect()
    }

    fn new(policy: &Policy, limit: &PolicyLimit) -> Self {
        let numbers = limit.named.limit();
        let KeyBytes { table, log } = MemoryStore::bytes_per_key(numbers);
        Self {
            policy: policy.name().to_string(),
            limit: limit.named.name().to_string(),
            algorithm: numbers.kind().name(),
            rate: numbers.to_string(),
            window_us: u64::try_from(numbers.window().as_micros()).unwrap_or(u64::MAX),
            capacity: numbers.capacity(),
            counts: if numbers.is_queue() { "starts" } else { "units" },
            worst_case: WorstCase {
                second: most_within(numbers, SECOND),
                window: most_within(numbers, numbers.window()),
                day: most_within(numbers, DAY),
            },
            bytes_per_key: Bytes { table, log },
        }
    }
}

/// The most in a span that does not contain its end, as people count "in a minute"; [`Limit::worst_case`] counts
/// both ends, and time is whole microseconds.
const fn most_within(limit: &Limit, span: Duration) -> u64 {
    limit.worst_case(span.saturating_sub(Duration::from_micros(1)))
}

const HEADS: [&str; 9] =
    ["policy", "limit", "algorithm", "rate", "at once", "any 1 s", "its window", "any day", "bytes a key"];
/// Columns of words, which begin at one place; numbers end at one.
const WORDS: usize = 4;
const NOTE: &str = "\
any 1 s, its window, any day: the most that a span of that length can admit, wherever it begins and whatever the traffic
";
const QUEUE_NOTE: &str = "starts: of a queue, the requests of cost 1 that begin; more may be waiting\n";
const LOG_NOTE: &str = "bytes + log: entries of a full log, out of max_bytes of its store\n";

/// The limits as a table for people.
pub(super) fn table(limits: &[Explained]) -> String {
    let rows: Vec<[String; 9]> = limits.iter().map(row).collect();
    let mut widths = HEADS.map(str::len);
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.len());
        }
    }
    let mut text = String::new();
    for row in std::iter::once(HEADS.map(str::to_owned)).chain(rows) {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            if column < WORDS { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text.push_str(NOTE);
    if limits.iter().any(|limit| limit.counts == "starts") {
        text.push_str(QUEUE_NOTE);
    }
    if limits.iter().any(|limit| limit.bytes_per_key.log > 0) {
        text.push_str(LOG_NOTE);
    }
    text
}

fn row(limit: &Explained) -> [String; 9] {
    let of = |n: u64| match limit.counts {
        "starts" => format!("{} starts", thousands(n)),
        _ => thousands(n),
    };
    let Bytes { table, log } = limit.bytes_per_key;
    let bytes = if log == 0 { table.to_string() } else { format!("{table} + log {}", thousands(log)) };
    [
        limit.policy.clone(),
        limit.limit.clone(),
        limit.algorithm.to_owned(),
        limit.rate.clone(),
        thousands(limit.capacity),
        of(limit.worst_case.second),
        of(limit.worst_case.window),
        of(limit.worst_case.day),
        bytes,
    ]
}
