//! `ratekeeper schema`: what a configuration file may say, for editors.

use std::fs;
use std::path::PathBuf;

use clap::Args;

use crate::cli::{self, Failure};

/// Print the JSON Schema of the configuration file, by which editors complete and check it
///
/// For example: ratekeeper schema ratekeeper.schema.json, and as the first line of a file:
/// # yaml-language-server: $schema=ratekeeper.schema.json
#[derive(Args)]
pub(super) struct Schema {
    /// The file to write it to; `-` prints it
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
}

impl Schema {
    pub(super) fn run(self) -> Result<(), Failure> {
        let schema = ratekeeper_policy::json_schema();
        if self.file.as_os_str() == "-" {
            return cli::print(&schema);
        }
        fs::write(&self.file, schema)
            .map_err(|wrong| Failure::Other(format!("error: cannot write {}: {wrong}", self.file.display())))
    }
}
