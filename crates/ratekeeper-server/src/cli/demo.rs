//! `ratekeeper demo`: `serve` with a built-in configuration and some traffic, so that the first success takes one
//! command.

use clap::Args;

use crate::cli::{self, Failure};
use crate::input;
use crate::reload::Source;
use crate::server::{Addresses, Beside, Plan};
use crate::voice::Voice;

mod traffic;

/// The built-in configuration.
const FILE: &str = include_str!("demo.yaml");

/// Serve a built-in configuration with some traffic, to try things out: no file needed
#[derive(Args)]
pub(super) struct Demo {
    #[command(flatten)]
    addresses: Addresses,
    /// Send no requests of its own
    #[arg(long)]
    no_traffic: bool,
    /// Another seed gives other traffic, the same one the same
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "no_traffic")]
    seed: u64,
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
        let mut plan = Plan::new(&config, &Source::BuiltIn, self.addresses)?;
        if !self.no_traffic {
            let seed = self.seed;
            plan.beside = Some(Beside {
                line: traffic::line(),
                run: Box::new(move |address| {
                    Box::pin(async move {
                        traffic::send(address, seed).await;
                        if !voice.is_quiet() {
                            cli::tell("demo traffic has ended; the server goes on");
                        }
                    })
                }),
            });
        }
        plan.run(input::app(config)?, Source::BuiltIn, voice)
    }
}
