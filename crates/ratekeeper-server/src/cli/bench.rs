//! `ratekeeper bench`: what a decision costs on this machine.

use std::io::{self, IsTerminal as _, Write as _};

use clap::Args;
use ratekeeper_core::Algorithm;
use ratekeeper_policy::{Config, LimitFlags, StoreKind, nearest, thousands};
use ratekeeper_sim::hints::quoted;

use crate::cli::{self, Failure, Format};
use crate::voice::Voice;
use load::Case;
use report::{Report, Row};

mod load;
mod report;
mod spread;
mod wire;

/// More threads than this only wait for one another.
const MAX_THREADS: u64 = 256;
/// Keys take 44 bytes each, and their logs several times that.
const MAX_KEYS: u64 = 100_000_000;
/// An hour for each row.
const MAX_SECONDS: u64 = 3_600;
/// Bytes that logs may take for each key: ten entries and some room.
const LOG_BYTES_PER_KEY: u64 = 1_024;

/// Measure what a decision costs on this machine
///
/// Each row is measured for so many seconds: one in 64 decisions is timed by itself for p50, p99 and max. With
/// --wire http it is whole requests, each sent when the last one is answered, one connection a thread, to a
/// server in this process: clients and server share the cores.
#[derive(Args)]
pub(super) struct Bench {
    /// Where states are kept
    #[arg(long, value_name = "memory", default_value = "memory", value_parser = store)]
    store: String,
    /// How to count: names of algorithms, separated by commas, or all
    #[arg(long, value_name = "NAME", default_value = "all", value_parser = algorithms)]
    algorithm: Algorithms,
    /// How many threads ask at once
    #[arg(long, value_name = "N,…", default_value = "1", value_delimiter = ',', value_parser = threads)]
    threads: Vec<u64>,
    /// How many keys they ask about, in random order
    #[arg(long, value_name = "N,…", default_value = "1,1e6", value_delimiter = ',', value_parser = keys)]
    keys: Vec<u64>,
    /// What is between those who ask and the store: none or http
    #[arg(long, value_name = "WIRE", default_value = "none", value_parser = wire)]
    wire: Wire,
    /// How long each row is measured
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=MAX_SECONDS))]
    seconds: u64,
    /// How to say it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// A list as one value: clap would take a plain list for a flag that is repeated.
#[derive(Clone)]
struct Algorithms(Vec<Algorithm>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wire {
    None,
    Http,
}

impl Wire {
    const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Http => "http",
        }
    }
}

fn store(name: &str) -> Result<String, String> {
    match name {
        "memory" => Ok(name.to_owned()),
        _ if name.contains("://") => {
            Err("this store is not available in this version: use memory".to_owned())
        }
        _ => Err("unknown store: use memory".to_owned()),
    }
}

fn wire(name: &str) -> Result<Wire, String> {
    match name {
        "none" => Ok(Wire::None),
        "http" => Ok(Wire::Http),
        "grpc" | "resp" => Err("this wire is not available in this version: use none or http".to_owned()),
        _ => Err("unknown wire: use none or http".to_owned()),
    }
}

fn algorithms(names: &str) -> Result<Algorithms, String> {
    if names == "all" {
        return Ok(Algorithms(Algorithm::ALL.to_vec()));
    }
    let read = |name: &str| {
        name.parse::<Algorithm>().map_err(|_| {
            let known = Algorithm::ALL.map(Algorithm::name);
            match nearest(name, known) {
                Some(near) => format!("unknown algorithm {}: did you mean `{near}`?", quoted(name)),
                None => format!("unknown algorithm {}: all, or some of {}", quoted(name), known.join(", ")),
            }
        })
    };
    names.split(',').map(read).collect::<Result<_, _>>().map(Algorithms)
}

fn threads(text: &str) -> Result<u64, String> {
    whole(text).filter(|n| (1..=MAX_THREADS).contains(n)).ok_or_else(|| format!("1 to {MAX_THREADS} threads"))
}

fn keys(text: &str) -> Result<u64, String> {
    whole(text)
        .filter(|n| (1..=MAX_KEYS).contains(n))
        .ok_or_else(|| format!("1 to {} keys, for example 1000000 or 1e6", thousands(MAX_KEYS)))
}

/// `1000000` or `1e6`.
fn whole(text: &str) -> Option<u64> {
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    match text.split_once(['e', 'E']) {
        None => digits(text),
        Some((n, zeros)) => {
            let zeros: u64 = digits(zeros)?;
            digits(n)?.checked_mul(10_u64.checked_pow(u32::try_from(zeros).ok()?)?)
        }
    }
}

impl Bench {
    pub(super) fn run(self, voice: Voice) -> Result<(), Failure> {
        let cases = self.cases();
        let report = Report::new(&self);
        let progress = Progress { wanted: io::stderr().is_terminal() && !voice.is_quiet(), of: cases.len() };
        if self.format == Format::Text {
            cli::print(&report.head())?;
        }
        let mut rows = Vec::new();
        for (index, case) in cases.into_iter().enumerate() {
            progress.tell(index, &case);
            let config = configuration(&case)?;
            let measured = match self.wire {
                Wire::None => load::measure(&case, &config),
                Wire::Http => wire::measure(&case, config),
            };
            progress.clear();
            let row = Row::new(&case, &measured?);
            if self.format == Format::Text {
                cli::print(&report.line(&row))?;
            }
            rows.push(row);
        }
        match self.format {
            Format::Text => cli::print(&report.foot(&rows)),
            Format::Json => cli::print(&report.json(&rows)),
        }
    }

    fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for &algorithm in &self.algorithm.0 {
            for &threads in &self.threads {
                for &keys in &self.keys {
                    cases.push(Case { algorithm, threads, keys, seconds: self.seconds });
                }
            }
        }
        cases
    }

    /// The command line that measures the same again.
    fn command(&self) -> String {
        let list = |numbers: &[u64]| numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let names: Vec<&str> = self.algorithm.0.iter().map(|algorithm| algorithm.name()).collect();
        let names = if self.algorithm.0 == Algorithm::ALL { "all".to_owned() } else { names.join(",") };
        format!(
            "ratekeeper bench --store {} --algorithm {names} --threads {} --keys {} --wire {} --seconds {}",
            self.store,
            list(&self.threads),
            list(&self.keys),
            self.wire.name(),
            self.seconds
        )
    }
}

/// A limit that lets nearly everything in; a log has an entry for each that is let in, so its own is small.
const fn limit_of(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::SlidingWindowLog => "10 per 10ms",
        _ => "1000000000/s",
    }
}

/// What is decided: one limit, on a store with room for just the keys.
fn configuration(case: &Case) -> Result<Config, Failure> {
    let (limit, algorithm) = (limit_of(case.algorithm), case.algorithm.name());
    let mut config =
        Config::single(&LimitFlags { limit, algorithm, ..LimitFlags::default() }).map_err(|wrong| {
            let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
            Failure::Other(format!("error: {}", wrong.join("; ")))
        })?;
    for store in &mut config.stores {
        let StoreKind::Memory(memory) = &mut store.kind else { continue };
        memory.max_keys = case.keys;
        memory.max_bytes = memory.max_bytes.max(case.keys.saturating_mul(LOG_BYTES_PER_KEY));
    }
    // Nobody is told of single decisions.
    config.log.denied_per_second = 0;
    Ok(config)
}

/// Which row is being measured, on a terminal: a line that the next one overwrites.
struct Progress {
    wanted: bool,
    of: usize,
}

impl Progress {
    const WIDTH: usize = 78;

    fn tell(&self, index: usize, case: &Case) {
        let Case { algorithm, threads, keys, .. } = case;
        self.write(&format!(
            "{} of {}: {}, threads {threads}, keys {keys} …",
            index + 1,
            self.of,
            algorithm.name()
        ));
    }

    fn clear(&self) {
        self.write("");
        self.write_raw("\r");
    }

    fn write(&self, text: &str) {
        self.write_raw(&format!("\r{text:<width$}", width = Self::WIDTH));
    }

    fn write_raw(&self, text: &str) {
        if self.wanted {
            let mut stderr = io::stderr().lock();
            // What cannot be shown is no reason to stop measuring.
            let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
        }
    }
}

#[cfg(test)]
mod tests;
