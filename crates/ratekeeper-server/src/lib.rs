//! The `ratekeeper` binary: rate limiting as a server, and the tools around it.
//!
//! # What this crate does not do
//! It decides nothing (`ratekeeper-core`), keeps no states (`ratekeeper`) and knows no rules of the configuration
//! file (`ratekeeper-policy`); traces in virtual time are `ratekeeper-sim`'s. Here are arguments, sockets and
//! wires.

use std::process::ExitCode;

mod app;
mod asking;
mod banner;
mod cli;
mod client;
mod digits;
mod exceptions;
mod explained;
mod holds;
mod human;
mod input;
mod live;
mod manager;
mod reload;
mod report;
mod seeded;
mod server;
mod signals;
mod telemetry;
mod transport;
mod voice;

#[cfg(fuzzing)]
#[doc(hidden)]
pub use transport::http::fuzzing;

/// Runs the command that was typed; the result is the exit code of the process.
#[must_use]
pub fn run() -> ExitCode {
    cli::run()
}
