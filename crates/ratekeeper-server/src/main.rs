//! The `ratekeeper` binary: rate limiting as a server, and the tools around it.
//!
//! # What this crate does not do
//! It decides nothing (`ratekeeper-core`), keeps no states (`ratekeeper`) and knows no rules of the configuration
//! file (`ratekeeper-policy`); traces in virtual time are `ratekeeper-sim`'s. Here are arguments, sockets and
//! wires.

use std::process::ExitCode;

mod app;
mod cli;
mod input;
mod telemetry;
mod transport;

fn main() -> ExitCode {
    cli::run()
}
