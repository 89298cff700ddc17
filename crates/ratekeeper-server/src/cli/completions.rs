//! `ratekeeper completions`: what a shell has to know to complete our commands.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::cli::{self, Failure};

/// Print what makes a shell complete our commands and flags
///
/// For example: ratekeeper completions bash > /etc/bash_completion.d/ratekeeper
#[derive(Args)]
pub(super) struct Completions {
    /// The shell that is to complete
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// `command` is the whole command line.
    pub(super) fn run(self, mut command: Command) -> Result<(), Failure> {
        let name = command.get_name().to_owned();
        let mut script = Vec::new();
        // Into memory, since it takes a pipe that is closed for a reason to panic.
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        cli::print(&String::from_utf8_lossy(&script))
    }
}
