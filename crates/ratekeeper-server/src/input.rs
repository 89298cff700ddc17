//! Where a configuration comes from: a file, stdin, or the program itself.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use ratekeeper_policy::{Config, ConfigErrors, MAX_FILE_BYTES};

use crate::app::App;
use crate::cli::{self, Failure};
use crate::voice::Voice;

/// The file that is read when none is named.
const DEFAULT_FILE: &str = "ratekeeper.yaml";

/// Where the configuration is.
#[derive(Args, Clone, Default)]
pub(crate) struct ConfigArgs {
    /// The configuration file; `-` is stdin [default: $RATEKEEPER_CONFIG or ratekeeper.yaml]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl ConfigArgs {
    /// The file meant: flag, environment, default.
    pub(crate) fn file(&self) -> PathBuf {
        self.named().unwrap_or_else(|| DEFAULT_FILE.into())
    }

    /// Whether somebody has named a file.
    pub(crate) fn is_named(&self) -> bool {
        self.named().is_some()
    }

    fn named(&self) -> Option<PathBuf> {
        let from_environment = || std::env::var_os("RATEKEEPER_CONFIG").filter(|file| !file.is_empty());
        self.config.clone().or_else(|| from_environment().map(PathBuf::from))
    }
}

/// What messages call a file.
pub(crate) fn shown(file: &Path) -> String {
    if is_stdin(file) { "<stdin>".to_owned() } else { file.display().to_string() }
}

/// Whether `-` was written.
pub(crate) fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// A file that cannot be read.
pub(crate) struct Unreadable {
    /// Which, and why.
    pub(crate) message: String,
    /// What to do instead.
    pub(crate) hint: Option<&'static str>,
}

impl From<Unreadable> for Failure {
    fn from(unreadable: Unreadable) -> Self {
        let hint = unreadable.hint.map_or_else(String::new, |hint| format!("; {hint}"));
        Self::BadInput(format!("error: {}{hint}", unreadable.message))
    }
}

/// A file's bytes.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn read(file: &Path) -> Result<Vec<u8>, Unreadable> {
    let cannot = |wrong: io::Error| Unreadable {
        message: format!("cannot read {}: {wrong}", shown(file)),
        hint: (wrong.kind() == io::ErrorKind::NotFound)
            .then_some("name one with `--config FILE`, or try `ratekeeper demo`, which needs none"),
    };
    let mut text = Vec::new();
    // One byte more than a configuration may have: the reader of the file says what is too long.
    let most = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    if is_stdin(file) {
        io::stdin().lock().take(most).read_to_end(&mut text).map_err(cannot)?;
    } else {
        File::open(file).and_then(|open| open.take(most).read_to_end(&mut text)).map_err(cannot)?;
    }
    Ok(text)
}

/// The configuration of a file.
///
/// # Errors
/// If it cannot be read, or is wrong: then all that is wrong with it.
pub(crate) fn config(file: &Path) -> Result<Config, Failure> {
    parse(&shown(file), &read(file)?).map_err(|errors| Failure::BadInput(errors.to_string()))
}

/// The configuration of a text that messages call `name`. Every command comes through here.
///
/// # Errors
/// All that is wrong with it.
pub(crate) fn parse(name: &str, text: &[u8]) -> Result<Config, ConfigErrors> {
    Config::parse(name, text, &|variable| std::env::var(variable).ok())
}

/// A configuration at work, with all the memory that its limits need.
///
/// # Errors
/// If a store cannot be built or hold a policy's limits, or the system has no random bytes.
pub(crate) fn app(config: Config) -> Result<App, Failure> {
    let failed = |wrong: String| Failure::Other(format!("error: {wrong}"));
    let app = App::new(config).map_err(failed)?;
    app.live().prepare().map_err(failed)?;
    Ok(app)
}

/// Says what is hardly meant as it is written, a line each on stderr; nothing to those who want it quiet.
pub(crate) fn warn(config: &Config, voice: Voice) {
    if voice.is_quiet() {
        return;
    }
    for warning in config.warnings() {
        cli::tell(&format!("{}: {}", warning.severity, warning.message));
    }
}

/// `5 policies, 7 limits`.
pub(crate) fn counts(config: &Config) -> String {
    let policies = config.policies.len();
    let limits: usize = config.policies.iter().map(|policy| policy.limits().len()).sum();
    let s = |n: usize, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
    format!("{}, {}", s(policies, "policy", "policies"), s(limits, "limit", "limits"))
}
