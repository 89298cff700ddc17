//! `ratekeeper validate`: is this file right? By the code that `serve` reads it with.

use std::path::PathBuf;

use clap::Args;
use ratekeeper_policy::{Config, ConfigError};

use crate::cli::{self, Failure, Format};
use crate::input::{self, ConfigArgs};
use crate::report::Report;
use crate::voice::Voice;
use limits::Explained;

pub(crate) mod limits;
pub(crate) mod stores;

/// Check a configuration file and say all that is wrong with it
#[derive(Args)]
pub(super) struct Validate {
    #[command(flatten)]
    config: ConfigArgs,
    /// The configuration file, instead of --config
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    /// Take warnings for errors
    #[arg(long)]
    strict: bool,
    /// Say of each limit the most that it can let in, whatever the traffic, and the memory of a key
    #[arg(long)]
    explain_limits: bool,
    /// Ask each Redis store of the file whether it can serve; nobody is asked without this
    #[arg(long)]
    check_store: bool,
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
                cli::print(&(Report::unreadable(&name, &unreadable).json() + "\n"))?;
                return Err(unreadable.into());
            }
        };
        let config = input::parse(&name, &text);
        let warnings = config.as_ref().map(Config::warnings).unwrap_or_default();
        let is_strict = self.strict && !warnings.is_empty();
        let explained = config.as_ref().ok().filter(|_| self.explain_limits && !is_strict);
        let explained = explained.map(Explained::of);
        let asked = config.as_ref().ok().filter(|_| self.check_store && !is_strict);
        let found = asked.map(stores::probe).transpose()?;
        match (self.format, config) {
            (Format::Text, Err(errors)) => Err(Failure::BadInput(errors.to_string())),
            (Format::Text, Ok(config)) if is_strict => {
                Err(Failure::BadInput(strictly(&name, &config, &warnings)))
            }
            (Format::Text, Ok(config)) => {
                if !voice.is_quiet() && !warnings.is_empty() {
                    cli::tell(config.render_warnings().trim_end());
                }
                let table = explained.map(|limits| limits::table(&limits)).unwrap_or_default();
                let stores = found.as_deref().map(stores::lines).unwrap_or_default();
                cli::print(&(summary(&name, &config) + &stores + &table))?;
                stores::done(found.as_deref())
            }
            (Format::Json, config) => {
                let mut report = Report::new(&name, config.as_ref(), &warnings);
                if is_strict {
                    report.be_strict();
                }
                report.explain_limits = explained;
                let done = stores::done(found.as_deref());
                report.stores = found;
                cli::print(&(report.json() + "\n"))?;
                config.map_err(|errors| Failure::BadInput(told(&name, errors.items.len())))?;
                if is_strict { Err(Failure::BadInput(told(&name, warnings.len()))) } else { done }
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

/// What `--strict` says of a file that has only warnings.
fn strictly(file: &str, config: &Config, warnings: &[ConfigError]) -> String {
    let (shown, counts) = (config.render_warnings(), input::counts(config));
    shown + &format!("{file}: {counts}, {}, since --strict takes warnings for errors", errors(warnings.len()))
}

fn told(file: &str, n: usize) -> String {
    format!("{} in {file}", errors(n))
}

fn errors(n: usize) -> String {
    format!("{n} {}", if n == 1 { "error" } else { "errors" })
}
