//! A flood of made-up keys: a hundred million of them, each asked about once, through `decide_batch`.
//!
//! `cargo run --release --manifest-path bench/Cargo.toml --bin flood -- [--keys N] [--max-keys N,N]` shows how
//! memory, the slowest decision and the decisions without a place of their own go, for a table of 100,000 keys and
//! one of a million. Each takes some minutes: most keys find no place, and such a decision takes a few
//! microseconds. It ends with 1 if one of a thousand keys that were limited before is not at any time of the flood,
//! or if memory grows once the table is full.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use ratekeeper::{Ask, Check, Limit, MemoryStore, Name, NamedLimit, Question, Source, hours};

const KEYS: u64 = 100_000_000;
const TABLES: [u64; 2] = [100_000, 1_000_000];
/// How many are limited before the flood begins.
const LIMITED: u64 = 1_000;
/// How many are asked about together, as a batch over the network has them.
const BATCH: u64 = 1_000;
/// How often the flood is looked at.
const LOOKS: u64 = 20;
/// What a process may grow by while a table that is full stays full.
const GROWTH: u64 = 4 << 20;
/// Strangers' numbers begin here.
const STRANGERS: u64 = 1 << 32;

const USAGE: &str = "usage: flood [--keys N] [--max-keys N,N]";

type Failed = Box<dyn std::error::Error>;

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    1_024 * kilobytes.unwrap_or(0)
}

/// What a batch came to.
#[derive(Default)]
struct Sum {
    allowed: u64,
    overflow: u64,
}

/// Asks about keys once each, together.
fn ask(store: &MemoryStore, limit: &NamedLimit, keys: std::ops::Range<u64>) -> Result<Sum, Failed> {
    let checks: Vec<[Check<'_>; 1]> = keys.map(|key| [Check { limit, key: key.into(), cost: 1 }]).collect();
    let questions: Vec<Question<'_>> =
        checks.iter().map(|checks| Question { checks, ask: Ask::Acquire }).collect();
    let mut sum = Sum::default();
    for decision in store.decide_batch(&questions) {
        let decision = decision?;
        sum.allowed += u64::from(decision.allowed);
        sum.overflow += u64::from(decision.source == Source::Overflow);
    }
    Ok(sum)
}

/// Floods one table; whether all held.
fn flood(max_keys: u64, keys: u64) -> Result<bool, Failed> {
    let limit = NamedLimit::new(&Name::new("flood")?, Name::new("hour")?, Limit::per(3, hours(1)));
    let store = MemoryStore::builder().max_keys(max_keys).build()?;
    for _ in 0..3 {
        let all = ask(&store, &limit, 0..LIMITED)?;
        if (all.allowed, all.overflow) != (LIMITED, 0) {
            return Err("a fresh key was refused".into());
        }
    }
    println!("\nmax_keys {max_keys}, {} MiB reserved, {keys} strangers", store.memory_bytes() >> 20);
    println!(
        "{:>12} {:>9} {:>10} {:>12} {:>14} {:>9}",
        "strangers", "seconds", "RSS MiB", "without", "slowest", "limited"
    );
    let begun = Instant::now();
    let (mut slowest, mut slowest_since) = (Duration::ZERO, Duration::ZERO);
    let (mut overflow, mut full_at, mut held) = (0, None, true);
    let every = (keys / LOOKS).next_multiple_of(BATCH);
    let mut asked = 0;
    while asked < keys {
        let first = STRANGERS + asked;
        overflow += ask(&store, &limit, first..first + BATCH - 1)?.overflow;
        // The last of them alone, so that one decision can be timed.
        let check = [Check { limit: &limit, key: (first + BATCH - 1).into(), cost: 1 }];
        let started = Instant::now();
        let decision = store.decide_now(&check, Ask::Acquire)?;
        slowest_since = slowest_since.max(started.elapsed());
        overflow += u64::from(decision.source == Source::Overflow);
        asked += BATCH;
        if asked % every != 0 && asked < keys {
            continue;
        }
        let again = ask(&store, &limit, 0..LIMITED)?;
        let limited = LIMITED - again.allowed;
        let resident = resident();
        let seconds = begun.elapsed().as_secs_f64();
        println!(
            "{asked:>12} {seconds:>9.1} {:>10.1} {overflow:>12} {:>11} µs {limited:>9}",
            resident as f64 / f64::from(1 << 20),
            slowest_since.as_micros(),
        );
        held &= (limited, again.overflow) == (LIMITED, 0);
        slowest = slowest.max(slowest_since);
        slowest_since = Duration::ZERO;
        if overflow > 0 {
            let full = *full_at.get_or_insert(resident);
            held &= resident < full + GROWTH;
        }
    }
    let each = begun.elapsed().as_nanos() / u128::from(keys);
    println!(
        "{each} ns a key; slowest of one in {BATCH}: {} µs; {overflow} decided without a place of their own, as the store counts {}; {} keys held",
        slowest.as_micros(),
        store.overflow_decisions(),
        store.keys(),
    );
    Ok(held)
}

/// Floods all tables; whether all held.
fn run(mut args: impl Iterator<Item = String>) -> Result<bool, Failed> {
    let (mut keys, mut tables) = (KEYS, TABLES.to_vec());
    while let Some(arg) = args.next() {
        let value = args.next().ok_or(USAGE)?;
        match arg.as_str() {
            "--keys" => keys = value.parse()?,
            "--max-keys" => tables = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
            _ => return Err(USAGE.into()),
        }
    }
    let mut held = true;
    for max_keys in tables {
        held &= flood(max_keys, keys)?;
    }
    Ok(held)
}

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => {
            eprintln!("a key that was limited was let in, or memory grew");
            ExitCode::FAILURE
        }
        Err(wrong) => {
            eprintln!("{wrong}");
            ExitCode::FAILURE
        }
    }
}
