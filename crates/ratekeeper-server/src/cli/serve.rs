//! `ratekeeper serve`: answer over the network.

use clap::Args;

use crate::cli::Failure;
use crate::input::{self, ConfigArgs};
use crate::reload::Source;
use crate::server::{Addresses, Plan};
use crate::voice::Voice;

/// Serve the configuration's policies: POST /v1/check decides
///
/// A change of the file is taken within a few seconds, at SIGHUP at once; a file that is wrong changes nothing.
/// SIGTERM and Ctrl-C end it when the requests under way are answered, a second one at once.
#[derive(Args)]
pub(super) struct Serve {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    addresses: Addresses,
}

impl Serve {
    pub(super) fn run(self, voice: Voice) -> Result<(), Failure> {
        let file = self.config.file();
        let mut config = input::config(&file)?;
        voice.tune(&mut config)?;
        input::warn(&config, voice);
        let source = Source::of(file);
        let plan = Plan::new(&config, &source, self.addresses)?;
        plan.run(input::app(config)?, source, voice)
    }
}
