//! How much is said on stderr: flag, environment, file, default.

use clap::Args;
use ratekeeper_policy::{Config, LogLevel, nearest};
use ratekeeper_sim::hints::quoted;

use crate::cli::Failure;

/// The least urgent log lines that are written, instead of the file's `log.level`.
const LEVEL_VARIABLE: &str = "RATEKEEPER_LOG";

const LEVELS: [(&str, LogLevel); 4] = [
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
];

/// How much a command is to say.
#[derive(Args, Clone, Copy, Default)]
pub(crate) struct Voice {
    /// Say nothing but errors: no banner, no warnings, log lines of level error only
    #[arg(short, long, global = true, display_order = 900, conflicts_with = "verbose")]
    quiet: bool,
    /// Say more: log lines from level debug on
    #[arg(short, long, global = true, display_order = 901)]
    verbose: bool,
}

impl Voice {
    /// Whether only errors are to be said.
    pub(crate) const fn is_quiet(self) -> bool {
        self.quiet
    }

    /// Whether more than usual is to be said.
    pub(crate) const fn is_verbose(self) -> bool {
        self.verbose && !self.quiet
    }

    /// Sets the level of a server's lines: by `-q` or `-v`, else by `RATEKEEPER_LOG`, else as the file has it.
    ///
    /// # Errors
    /// If the variable holds no level, whether a flag overrides it or not.
    pub(crate) fn tune(self, config: &mut Config) -> Result<(), Failure> {
        let of_environment = std::env::var_os(LEVEL_VARIABLE).filter(|word| !word.is_empty());
        let of_environment = of_environment.map(|word| level(&word.to_string_lossy())).transpose()?;
        let of_flag = match self {
            Self { quiet: true, .. } => Some(LogLevel::Error),
            Self { verbose: true, .. } => Some(LogLevel::Debug),
            _ => None,
        };
        if let Some(level) = of_flag.or(of_environment) {
            config.log.level = level;
        }
        Ok(())
    }
}

fn level(word: &str) -> Result<LogLevel, Failure> {
    let found = LEVELS.iter().find(|(name, _)| *name == word);
    found.map(|(_, level)| *level).ok_or_else(|| {
        let hint = match nearest(word, LEVELS.iter().map(|(name, _)| *name)) {
            Some(name) => format!("did you mean `{name}`?"),
            None => "write error, warn, info or debug".to_owned(),
        };
        Failure::BadInput(format!("error: {LEVEL_VARIABLE}: {} is no level: {hint}", quoted(word)))
    })
}
