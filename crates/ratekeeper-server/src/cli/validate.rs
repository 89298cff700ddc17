//! `ratekeeper validate`: is this file right? By the code that `serve` reads it with.

use std::path::PathBuf;

use clap::Args;
use ratekeeper_policy::{Config, ConfigError, ConfigErrors};
use serde::Serialize;

use crate::cli::{self, Failure, Format};
use crate::input::{self, ConfigArgs, Unreadable};
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
                Report::unreadable(&name, &unreadable).print()?;
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
                Report::new(&name, config.as_ref(), &warnings).print()?;
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

/// What is said of a file, as JSON.
#[derive(Serialize)]
struct Report<'a> {
    file: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    policies: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<usize>,
    errors: Vec<Mistake<'a>>,
    warnings: Vec<Mistake<'a>>,
}

#[derive(Serialize)]
struct Mistake<'a> {
    file: &'a str,
    line: usize,
    column: usize,
    severity: &'static str,
    code: &'static str,
    message: &'a str,
    hint: Option<&'a str>,
}

impl<'a> Report<'a> {
    fn new(file: &'a str, config: Result<&Config, &'a ConfigErrors>, warnings: &'a [ConfigError]) -> Self {
        let mistakes = |items: &'a [ConfigError]| items.iter().map(|item| Mistake::new(file, item)).collect();
        let warnings = mistakes(warnings);
        match config {
            Ok(config) => Self {
                file,
                policies: Some(config.policies.len()),
                limits: Some(config.policies.iter().map(|policy| policy.limits().len()).sum()),
                errors: Vec::new(),
                warnings,
            },
            Err(errors) => Self {
                file,
                policies: errors.policies,
                limits: errors.limits,
                errors: mistakes(&errors.items),
                warnings,
            },
        }
    }

    /// Of a file that could not be read: like a mistake at its beginning.
    fn unreadable(file: &'a str, why: &'a Unreadable) -> Self {
        let (code, message, hint) = ("unreadable", why.message.as_str(), why.hint);
        let mistake = Mistake { file, line: 1, column: 1, severity: "error", code, message, hint };
        Self { file, policies: None, limits: None, errors: vec![mistake], warnings: Vec::new() }
    }

    fn print(&self) -> Result<(), Failure> {
        // Texts and numbers alone cannot fail to be written.
        cli::print(&(serde_json::to_string(self).unwrap_or_default() + "\n"))
    }
}

impl<'a> Mistake<'a> {
    fn new(file: &'a str, item: &'a ConfigError) -> Self {
        Self {
            file,
            line: item.line,
            column: item.column,
            severity: item.severity.as_str(),
            code: item.code,
            message: &item.message,
            hint: item.hint.as_deref(),
        }
    }
}
