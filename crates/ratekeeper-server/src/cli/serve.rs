//! `ratekeeper serve`: answer over the network.

use clap::Args;

use crate::app;
use crate::cli::Failure;
use crate::input::{self, ConfigArgs};

/// Serve the configuration's policies: POST /v1/check decides
///
/// SIGTERM and Ctrl-C end it when the requests under way are answered, a second one at once. SIGHUP changes
/// nothing: reload is not available in this version.
#[derive(Args)]
pub(super) struct Serve {
    #[command(flatten)]
    config: ConfigArgs,
    /// Listen for HTTP here instead of at the file's address
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
}

impl Serve {
    pub(super) fn run(self) -> Result<(), Failure> {
        let file = self.config.file();
        let config = input::config(&file)?;
        input::warn(&config);
        app::run(config, &input::shown(&file), self.http)
    }
}
