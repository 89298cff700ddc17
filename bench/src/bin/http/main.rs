//! Measures the server beside a bare hyper service that reads the same bodies and answers a constant of the same
//! length with the same fields: both pinned to one core, loaded in turns by `wrk` from the other.
//!
//! `cargo run --release --manifest-path bench/Cargo.toml --bin http -- [--quick] [--rounds N] [--max-keys N]
//! [--server PATH]`:
//! a table as markdown on standard output, progress on standard error. Without `--server` the server is built first.

mod bare;
mod build;
mod load;
#[path = "../../common/median.rs"]
mod median;
mod process;
mod report;
mod rows;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use crate::load::Wrk;
use crate::process::{Files, Server};
use crate::report::Table;
use crate::rows::{Measured, ROWS};

const USAGE: &str = "usage: http [--quick] [--rounds N] [--max-keys N] [--server PATH]";

/// What the server takes when its file does not say.
const SERVERS_DEFAULT_KEYS: u64 = 1_000_000;

/// How much is measured.
struct Effort {
    rounds: usize,
    /// Seconds of each load: `wrk` takes whole ones.
    seconds: u64,
    /// For how many keys our table has room: its memory is what a key's first look waits for.
    max_keys: u64,
    server: Option<PathBuf>,
}

enum Task {
    Measure(Effort),
    Bare,
    Help,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Task, String> {
    let mut effort = Effort { rounds: 5, seconds: 4, max_keys: SERVERS_DEFAULT_KEYS, server: None };
    let mut rounds = None;
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => (effort.rounds, effort.seconds) = (3, 2),
            "--rounds" => {
                let number = args.next().and_then(|n| n.parse::<usize>().ok());
                rounds = Some(number.filter(|n| *n > 0).ok_or("--rounds takes a number above 0")?);
            }
            "--max-keys" => {
                let number = args.next().and_then(|n| n.parse().ok());
                effort.max_keys = number.filter(|n| *n > 0).ok_or("--max-keys takes a number above 0")?;
            }
            "--server" => effort.server = Some(args.next().ok_or("--server takes a path")?.into()),
            bare::SUBCOMMAND => return Ok(Task::Bare),
            "--help" | "-h" => return Ok(Task::Help),
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    effort.rounds = rounds.unwrap_or(effort.rounds);
    Ok(Task::Measure(effort))
}

fn main() -> ExitCode {
    let done = match parse(std::env::args().skip(1)) {
        Ok(Task::Measure(effort)) => measure(&effort),
        Ok(Task::Bare) => bare::serve().map_err(|wrong| format!("the bare service: {wrong}")),
        Ok(Task::Help) => {
            println!("{USAGE}");
            Ok(())
        }
        Err(wrong) => {
            eprintln!("{wrong}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(wrong) => {
            eprintln!("error: {wrong}");
            ExitCode::FAILURE
        }
    }
}

fn measure(effort: &Effort) -> Result<(), String> {
    if cfg!(debug_assertions) {
        eprintln!("warning: not an optimised build; use cargo run --release");
    }
    let wrk = Wrk::find()?;
    let binary = effort.server.clone().map_or_else(build::server, Ok)?;
    let files = Files::new()?;
    let ours = Server::ours(&binary, &files, effort.max_keys)?;
    let mut rows = Vec::new();
    for row in &ROWS {
        eprintln!("warming up: {}", row.name);
        let script = files.write(&format!("{}.lua", row.file), &row.script())?;
        // All keys are there, and those that are to be refused have used up what they may have.
        wrk.load(&ours, row, &script, 1)?;
        let answer = load::ask(ours.port, &row.request(0))?;
        row.check(&answer)?;
        let bare = Server::bare(&answer)?;
        load::ask(bare.port, &row.request(0))?;
        wrk.load(&bare, row, &script, 1)?;
        rows.push(Measured { row, script, bare, ours_at: Vec::new(), bare_at: Vec::new() });
    }
    let started = Instant::now();
    for round in 0..effort.rounds {
        eprintln!("round {} of {} ({:.0} s)", round + 1, effort.rounds, started.elapsed().as_secs_f64());
        for measured in &mut rows {
            let load = |server| wrk.load(server, measured.row, &measured.script, effort.seconds);
            // There and back, so that neither always comes first.
            let (ours_at, bare_at) = if round % 2 == 0 {
                let ours_at = load(&ours)?;
                (ours_at, load(&measured.bare)?)
            } else {
                let bare_at = load(&measured.bare)?;
                (load(&ours)?, bare_at)
            };
            measured.ours_at.push(ours_at);
            measured.bare_at.push(bare_at);
        }
    }
    print!(
        "{}",
        Table { rows: &rows, rounds: effort.rounds, seconds: effort.seconds, max_keys: effort.max_keys }
    );
    Ok(())
}
