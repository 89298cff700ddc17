//! `ratekeeper demo`: `serve` with a built-in configuration, so that the first success takes one command.

use clap::Args;

use crate::app;
use crate::cli::{self, Failure};
use crate::input;

/// The built-in configuration.
const FILE: &str = include_str!("demo.yaml");

/// Serve a built-in configuration, to try things out: no file needed
#[derive(Args)]
pub(super) struct Demo {
    /// Listen for HTTP here instead of at 127.0.0.1:8080
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// Print the built-in configuration and end
    #[arg(long)]
    print_config: bool,
}

impl Demo {
    pub(super) fn run(self) -> Result<(), Failure> {
        if self.print_config {
            return cli::print(FILE);
        }
        let config =
            input::parse("built in", FILE.as_bytes()).map_err(|errors| Failure::Other(errors.to_string()))?;
        app::run(config, "built in", self.http)
    }
}
