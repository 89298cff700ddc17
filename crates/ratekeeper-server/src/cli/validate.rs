//! `ratekeeper validate`: is this file right? By the code that `serve` reads it with.

use std::path::PathBuf;

use clap::Args;
use ratekeeper_policy::{Config, ConfigErrors};

use crate::cli::{self, Failure, Format};
use crate::input::{self, ConfigArgs};
use crate::report::Report;
use crate::voice::Voice;

/// Check a configuration file and say all that is wrong with it
#[derive(Args)]
pub(super) struct Validate {
    #[command(flatten)]
    config: ConfigArgs,
    /// The configuration file, instead of --config
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    /// How to say it; as JSON, errors are said on stdout too
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl Validate {
    pub(super) fn run(self, voice: Voice) -> Result<(), Failure> {
        let file = self.file.unwrap_or_else(|| self.config.file());
        let name = input::shown(&file);
        let text = match (input::read(&file), self.format) {
            (Ok(text), _) => text,
            (Err(unreadable), Format::Text) => return Err(unreadable.into()),
            (Err(unreadable), Format::Json) => {
                print(&Report::unreadable(&name, &unreadable))?;
                return Err(unreadable.into());
            }
        };
        let config = input::parse(&name, &text);
        match self.format {
            Format::Text => match config {
                Ok(config) => {
                    input::warn(&config, voice);
                    cli::print(&summary(&name, &config))
                }
                Err(errors) => Err(Failure::BadInput(errors.to_string())),
            },
            Format::Json => {
                let warnings = config.as_ref().map(Config::warnings).unwrap_or_default();
                print(&Report::new(&name, config.as_ref(), &warnings))?;
                config.map(|_| ()).map_err(|errors| Failure::BadInput(told(&errors)))
            }
        }
    }
}

fn summary(file: &str, config: &Config) -> String {
    let warnings = match config.warnings().len() {
        1 => "1 warning".to_owned(),
        n => format!("{n} warnings"),
    };
    format!("{file}: {}, 0 errors, {warnings}\n", input::counts(config))
}

fn told(errors: &ConfigErrors) -> String {
    let n = errors.items.len();
    format!("{n} {} in {}", if n == 1 { "error" } else { "errors" }, errors.file)
}

fn print(report: &Report<'_>) -> Result<(), Failure> {
    cli::print(&(report.json() + "\n"))
}
