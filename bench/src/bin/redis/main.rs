//! Measures the way to Redis: decisions of many callers, of one, of every algorithm, and the memory of a key,
//! beside a client that asks a plain script on the same library and the same server.
//!
//! `cargo run --release --manifest-path bench/Cargo.toml --bin redis -- [--quick] [--rounds N] [--threads N]
//! [--json PATH]`: tables as markdown on standard output, progress on standard error, with `--json` every
//! sample into a file. It starts a `redis-server` of its own on a free port.

mod cases;
mod latency;
mod load;
mod memory;
mod plain;
mod report;
mod server;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::cases::Case;
use crate::report::Report;
use crate::server::Server;

const USAGE: &str = "usage: redis [--quick] [--rounds N] [--threads N] [--json PATH]";

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// How much is measured.
struct Effort {
    rounds: usize,
    /// How long a sample takes.
    sample: Duration,
    /// Threads of the callers. Ours has one more, for its connections; the plain client's are on these.
    threads: usize,
    /// Single decisions of each side.
    singles: usize,
    /// Keys whose memory is measured.
    keys: u64,
    json: Option<PathBuf>,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Effort>, String> {
    let mut effort = Effort {
        // Short and many: what is compared is measured within half a second, and machines change their speed.
        rounds: 20,
        sample: Duration::from_millis(250),
        threads: 1,
        singles: 40_000,
        keys: 100_000,
        json: None,
    };
    let mut rounds = None;
    while let Some(arg) = args.next() {
        let mut number = |name: &str| {
            let number = args.next().and_then(|n| n.parse::<usize>().ok()).filter(|n| *n > 0);
            number.ok_or_else(|| format!("{name} takes a number above 0"))
        };
        match arg.as_str() {
            "--quick" => {
                (effort.rounds, effort.sample) = (5, Duration::from_millis(200));
                (effort.singles, effort.keys) = (4_000, 20_000);
            }
            "--rounds" => rounds = Some(number("--rounds")?),
            "--threads" => effort.threads = number("--threads")?,
            "--json" => effort.json = Some(args.next().ok_or("--json takes a path")?.into()),
            "--help" | "-h" => return Ok(None),
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    effort.rounds = rounds.unwrap_or(effort.rounds);
    Ok(Some(effort))
}

fn main() -> ExitCode {
    let effort = match parse(std::env::args().skip(1)) {
        Ok(Some(effort)) => effort,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            eprintln!("{wrong}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match measure(&effort) {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("error: {wrong}");
            ExitCode::FAILURE
        }
    }
}

fn measure(effort: &Effort) -> Result<(), Failed> {
    if cfg!(debug_assertions) {
        eprintln!("warning: not an optimised build; use cargo run --release");
    }
    let mut server = Server::start()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(effort.threads).enable_all().build()?;
    let (subjects, stores) = runtime.block_on(cases::subjects(&server))?;
    let mut cases: Vec<Case> = subjects.into_iter().map(Case::new).collect();
    for case in &cases {
        eprintln!("warming up: {}", case.name());
        load::sample(&runtime, &mut server, &case.subject, effort.sample / 4)?;
    }
    let started = Instant::now();
    for round in 0..effort.rounds {
        eprintln!("round {} of {} ({:.0} s)", round + 1, effort.rounds, started.elapsed().as_secs_f64());
        let count = cases.len();
        for i in 0..count {
            // There and back, so that none always comes first.
            let case = &mut cases[if round % 2 == 0 { i } else { count - 1 - i }];
            let sample = load::sample(&runtime, &mut server, &case.subject, effort.sample)?;
            case.samples.push(sample);
        }
    }
    eprintln!("single decisions ({:.0} s)", started.elapsed().as_secs_f64());
    let alone = [cases::PLAIN, cases::OURS, cases::TWO_OF_A_KEY];
    let of_alone = |case: &&Case| alone.contains(&case.name());
    let alone = cases.iter().filter(of_alone).map(|case| case.subject.clone()).collect();
    let singles = latency::measure(&runtime, alone, effort.rounds, effort.singles)?;
    eprintln!("memory ({:.0} s)", started.elapsed().as_secs_f64());
    let memory = memory::measure(&runtime, &mut server, &stores, effort.keys)?;
    let report = Report {
        cases: &cases,
        singles: &singles,
        memory: &memory,
        server: &server.version,
        effort,
        elapsed: started.elapsed(),
    };
    print!("{report}");
    if let Some(path) = &effort.json {
        std::fs::write(path, report.json())?;
    }
    Ok(())
}
