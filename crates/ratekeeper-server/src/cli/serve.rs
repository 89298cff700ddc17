//! `ratekeeper serve`: answer over the network.

use clap::Args;

use crate::cli::Failure;
use crate::input::{self, ConfigArgs};
use crate::server::{Addresses, Plan};
use crate::voice::Voice;

/// Serve the configuration's policies: POST /v1/check decides
///
/// SIGTERM and Ctrl-C end it when the requests under way are answered, a second one at once. SIGHUP changes
/// nothing: reload is not available in this version.
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
        let origin = input::shown(&file);
        let app = input::app(config)?;
        Plan::new(&app, &origin, self.addresses)?.run(app, &origin, voice)
    }
}
