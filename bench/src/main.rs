//! Measures ratekeeper beside governor: one run, one machine, cases interlaced, medians of rounds.
//!
//! `cargo run --release --manifest-path bench/Cargo.toml -- [--quick] [--rounds N]`: tables as markdown on
//! standard output, progress on standard error. `docs/benchmarks.md` says how to read them.

mod alternative;
mod cases;
mod keys;
mod latency;
mod machine;
mod measure;
mod memory;
mod report;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::machine::Machine;

const USAGE: &str = "usage: ratekeeper-bench [--quick] [--rounds N]";

/// How much is measured.
#[derive(Clone, Copy)]
struct Effort {
    rounds: usize,
    /// What a sample is to take.
    sample: Duration,
}

const FULL: Effort = Effort { rounds: 21, sample: Duration::from_millis(40) };
const QUICK: Effort = Effort { rounds: 3, sample: Duration::from_millis(25) };

enum Command {
    Run(Effort),
    Memory(String),
    Help,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Command, String> {
    let (mut effort, mut rounds) = (FULL, None);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => effort = QUICK,
            "--rounds" => {
                let number = args.next().and_then(|n| n.parse::<usize>().ok());
                rounds = Some(number.filter(|n| *n > 0).ok_or("--rounds takes a number above 0")?);
            }
            memory::SUBCOMMAND => {
                let subject = args.next().ok_or("the memory of what?")?;
                return Ok(Command::Memory(subject));
            }
            "--help" | "-h" => return Ok(Command::Help),
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    effort.rounds = rounds.unwrap_or(effort.rounds);
    Ok(Command::Run(effort))
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(Command::Run(effort)) => {
            run(effort);
            ExitCode::SUCCESS
        }
        Ok(Command::Memory(subject)) => match memory::grow(&subject) {
            Some(bytes) => {
                println!("{bytes}");
                ExitCode::SUCCESS
            }
            None => ExitCode::FAILURE,
        },
        Ok(Command::Help) => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn run(effort: Effort) {
    let (started, machine) = (Instant::now(), Machine::look());
    if cfg!(debug_assertions) {
        eprintln!("warning: not an optimised build; use cargo run --release");
    }
    machine.warn();
    eprintln!("memory: one process per map");
    let memory = memory::all();
    eprintln!("filling the maps");
    let (mut cases, probes) = cases::all();
    measure::calibrate(&mut cases, effort.sample);
    let mut latencies = latency::Latencies::new(probes);
    for round in 0..effort.rounds {
        eprintln!("round {} of {} ({:.0} s)", round + 1, effort.rounds, started.elapsed().as_secs_f64());
        measure::round(&mut cases, round);
        latencies.round(round);
    }
    let run = report::Run {
        cases: &cases,
        latencies: &latencies,
        memory: &memory,
        machine: &machine,
        effort,
        elapsed: started.elapsed(),
    };
    print!("{run}");
}
