//! Measures an application of axum with our layer beside the same with `tower_governor`, and beside one without limits:
//! each a process of its own on one core, loaded in turns by `wrk` from the other.
//!
//! `cargo run --release --manifest-path bench/Cargo.toml --bin tower -- [--quick] [--rounds N]`: tables as markdown on
//! standard output, progress on standard error.

mod apps;
mod load;
#[path = "../../common/median.rs"]
mod median;
mod report;

use std::process::ExitCode;

use crate::apps::App;
use crate::load::{Sample, Server};

const USAGE: &str = "usage: tower [--quick] [--rounds N]";

/// A path of the applications, and what its limits do.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) path: &'static str,
    pub(crate) refuses: bool,
}

pub(crate) const ROWS: [Row; 3] = [
    Row { name: "a limit per key", path: "/key", refuses: false },
    Row { name: "a limit per key, and one for all", path: "/both", refuses: false },
    Row { name: "the same, refused", path: "/none", refuses: true },
];

/// What was measured of an application.
pub(crate) struct Measured {
    pub(crate) app: App,
    pub(crate) server: Server,
    /// By row.
    pub(crate) samples: [Vec<Sample>; ROWS.len()],
}

struct Effort {
    rounds: usize,
    /// Seconds of each load: `wrk` takes whole ones.
    seconds: u64,
    /// Seconds of new keys only.
    flood: u64,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Effort, String> {
    let mut effort = Effort { rounds: 5, seconds: 4, flood: 10 };
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--quick" => effort = Effort { rounds: 3, seconds: 2, flood: 5 },
            "--rounds" => {
                let number = args.next().and_then(|n| n.parse().ok()).filter(|n| *n > 0);
                effort.rounds = number.ok_or("--rounds takes a number above 0")?;
            }
            other => return Err(format!("unknown argument {other:?}")),
        }
    }
    Ok(effort)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.as_slice() {
        [first, app, rest @ ..] if first == apps::SUBCOMMAND => match App::of(app) {
            Some(app) => {
                apps::serve(app, rest == [apps::FOR_FLOOD]).map_err(|wrong| format!("{app:?}: {wrong}"))
            }
            None => Err(format!("no application {app:?}")),
        },
        _ => match parse(args.into_iter()) {
            Ok(effort) => measure(&effort),
            Err(wrong) => {
                eprintln!("{wrong}\n{USAGE}");
                return ExitCode::from(2);
            }
        },
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
    let mut measured = Vec::new();
    for app in App::ALL {
        let server = Server::start(app, &[])?;
        for row in &ROWS {
            load::check(&server, row)?;
            server.load(row, 1)?;
        }
        measured.push(Measured { app, server, samples: Default::default() });
    }
    for round in 0..effort.rounds {
        eprintln!("round {} of {}", round + 1, effort.rounds);
        for (number, row) in ROWS.iter().enumerate() {
            let load = |measured: &mut Measured| {
                let sample = measured.server.load(row, effort.seconds)?;
                measured.samples[number].push(sample);
                Ok::<(), String>(())
            };
            // There and back, so that neither always comes first.
            if round % 2 == 0 {
                measured.iter_mut().try_for_each(load)?;
            } else {
                measured.iter_mut().rev().try_for_each(load)?;
            }
        }
    }
    print!("{}", report::Table { measured: &measured, rounds: effort.rounds, seconds: effort.seconds });
    let mut floods = Vec::new();
    for Measured { app, .. } in &measured {
        eprintln!("new keys only: {}", app.name());
        // A process that has met no key yet.
        let server = Server::start(*app, &[apps::FOR_FLOOD])?;
        floods.push((*app, server.flood(effort.flood)?));
    }
    let refusals: Result<Vec<_>, String> =
        measured.iter().map(|measured| Ok((measured.app, load::refusal(&measured.server)?))).collect();
    print!("{}", report::Rest { floods: &floods, refusals: &refusals? });
    Ok(())
}
