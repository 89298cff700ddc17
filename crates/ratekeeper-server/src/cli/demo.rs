//! `ratekeeper demo`: `serve` with a built-in configuration, so that the first success takes one command.

use clap::Args;

use crate::cli::{self, Failure};
use crate::input;
use crate::server::{Addresses, Plan};
use crate::voice::Voice;

/// The built-in configuration.
const FILE: &str = include_str!("demo.yaml");

/// Serve a built-in configuration, to try things out: no file needed
#[derive(Args)]
pub(super) struct Demo {
    #[command(flatten)]
    addresses: Addresses,
    /// Print the built-in configuration and end
    #[arg(long)]
    print_config: bool,
}

impl Demo {
    pub(super) fn run(self, voice: Voice) -> Result<(), Failure> {
        if self.print_config {
            return cli::print(FILE);
        }
        let mut config =
            input::parse("built in", FILE.as_bytes()).map_err(|errors| Failure::Other(errors.to_string()))?;
        voice.tune(&mut config)?;
        let app = input::app(config)?;
        Plan::new(&app, "built in", self.addresses)?.run(app, "built in", voice)
    }
}
