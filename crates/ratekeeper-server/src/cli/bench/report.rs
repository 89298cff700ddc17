//! What was measured, as a table or as JSON. Rates are rounded down, times up.

use std::thread::available_parallelism;

use ratekeeper_policy::thousands;
use serde::Serialize;

use crate::cli::bench::load::{Case, Measured};
use crate::cli::bench::spread::Spread;
use crate::cli::bench::{Bench, Wire, limit_of};
use crate::human;

/// All that does not change from row to row.
#[derive(Serialize)]
pub(super) struct Report {
    version: &'static str,
    build: &'static str,
    cores: usize,
    wire: &'static str,
    /// Of each row.
    seconds: u64,
    command: String,
    #[serde(skip)]
    width: usize,
}

/// One row.
#[derive(Serialize)]
pub(super) struct Row {
    store: &'static str,
    algorithm: &'static str,
    limit: &'static str,
    threads: u64,
    keys: u64,
    decisions: u64,
    allowed: u64,
    decisions_per_second: u64,
    /// Of one thread: from one decision to its next.
    ns_per_decision: u64,
    p50_ns: u64,
    p99_ns: u64,
    max_ns: u64,
    bytes_per_key: u64,
}

impl Row {
    pub(super) fn new(case: &Case, measured: &Measured) -> Self {
        let mut spread = Spread::new();
        let (mut decisions, mut allowed, mut took_ns, mut per_second) = (0, 0, 0, 0);
        for share in &measured.shares {
            spread.merge(&share.spread);
            decisions += share.decisions;
            allowed += share.allowed;
            took_ns += share.took_ns;
            let rate = u128::from(share.decisions) * 1_000_000_000 / u128::from(share.took_ns.max(1));
            per_second += u64::try_from(rate).unwrap_or(u64::MAX);
        }
        Self {
            store: "memory",
            algorithm: case.algorithm.name(),
            limit: limit_of(case.algorithm),
            threads: case.threads,
            keys: case.keys,
            decisions,
            allowed,
            decisions_per_second: per_second,
            ns_per_decision: took_ns.div_ceil(decisions.max(1)),
            p50_ns: spread.percentile(50),
            p99_ns: spread.percentile(99),
            max_ns: spread.most(),
            bytes_per_key: measured.bytes.div_ceil(case.keys),
        }
    }

    /// So many in a hundred were let in.
    fn percent_allowed(&self) -> u64 {
        self.allowed.saturating_mul(100).checked_div(self.decisions).unwrap_or(100)
    }
}

impl Report {
    pub(super) fn new(bench: &Bench) -> Self {
        let width = bench.algorithm.0.iter().map(|algorithm| algorithm.name().len()).max();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
            cores: available_parallelism().map_or(1, usize::from),
            wire: bench.wire.name(),
            seconds: bench.seconds,
            command: bench.command(),
            width: width.unwrap_or(0).max("algorithm".len()),
        }
    }

    /// The names of the columns, and what was measured on.
    pub(super) fn head(&self) -> String {
        let names = self.columns(
            ["store", "algorithm", "threads", "keys", "decisions/s", "ns/decision", "p50", "p99", "max"],
            "bytes/key",
        );
        let Self { cores, version, seconds, .. } = self;
        let cores = if *cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") };
        let wire = if self.wire == Wire::None.name() { "" } else { ", over HTTP on loopback" };
        // Without optimisation the figures say nothing about a server.
        let build = if self.build == "debug" { ", a DEBUG build" } else { "" };
        format!("{names}     ({cores}, ratekeeper {version}{build}, {seconds} s{wire})\n")
    }

    pub(super) fn line(&self, row: &Row) -> String {
        let texts = [
            row.store.to_owned(),
            row.algorithm.to_owned(),
            row.threads.to_string(),
            row.keys.to_string(),
            thousands(row.decisions_per_second),
            thousands(row.ns_per_decision),
            human::nanos(row.p50_ns),
            human::nanos(row.p99_ns),
            human::nanos(row.max_ns),
        ];
        self.columns(texts.each_ref().map(String::as_str), &row.bytes_per_key.to_string()) + "\n"
    }

    fn columns(&self, texts: [&str; 9], bytes: &str) -> String {
        let [store, algorithm, threads, keys, rate, ns, p50, p99, max] = texts;
        let width = self.width;
        format!(
            "{store:<9}{algorithm:<width$}{threads:>9}{keys:>10}{rate:>15}{ns:>15}{p50:>10}{p99:>10}{max:>10}{bytes:>13}"
        )
    }

    /// What the figures are not, and how to see them again.
    pub(super) fn foot(&self, rows: &[Row]) -> String {
        let mut text = String::new();
        for row in rows.iter().filter(|row| row.percent_allowed() < 99) {
            text.push_str(&format!(
                "{}, threads {}, keys {}: {} % allowed by {}\n",
                row.algorithm,
                row.threads,
                row.keys,
                row.percent_allowed(),
                row.limit
            ));
        }
        text + &format!("again: {}\n", self.command)
    }

    pub(super) fn json(&self, rows: &[Row]) -> String {
        #[derive(Serialize)]
        struct Whole<'r> {
            #[serde(flatten)]
            report: &'r Report,
            rows: &'r [Row],
        }
        // Texts and numbers alone cannot fail to be written.
        serde_json::to_string(&Whole { report: self, rows }).unwrap_or_default() + "\n"
    }
}
