//! A configuration as the rest of ratekeeper uses it: nothing in it can be invalid.

use std::fmt;

use ratekeeper_core::Name;
use sha2::{Digest as _, Sha256};

use crate::client_ip::ClientIp;
use crate::cors::Cors;
use crate::fault::{Fault, code};
use crate::file;
use crate::file::{ConfigError, ConfigErrors, Content, Severity};
use crate::limit::{Given, LimitWords, Zones};
use crate::listen::Listen;
use crate::log::LogConfig;
use crate::plan::Policies;
use crate::policy::{Policy, PolicyLimit};
use crate::stores::{MemoryConfig, StoreConfig, StoreKind};

/// The store of a file without `stores`.
pub const DEFAULT_STORE: &str = "local";
/// What a file says, checked: limits that can be decided, names that are unique, stores that exist.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: Listen,
    /// What to log, and how.
    pub log: LogConfig,
    /// How the addresses of clients are found.
    pub client_ip: ClientIp,
    /// Which web pages may ask.
    pub cors: Cors,
    /// The stores, at least one, in the order of the file.
    pub stores: Vec<StoreConfig>,
    /// The policies in the order of the file; there may be none.
    pub policies: Policies,
    policies_json: String,
    policies_json_public: String,
    warnings: ConfigErrors,
    /// What messages call the file.
    file: Box<str>,
    /// All 64 digits.
    source_sha: String,
    from_flags: bool,
}

impl Config {
    /// Reads a configuration. `file` is its name in messages; `env` answers for `${VAR}`, and for
    /// [`ADMIN_TOKEN_VARIABLE`](crate::ADMIN_TOKEN_VARIABLE) where an admin listener names no token.
    ///
    /// A file without `stores` has one memory store called [`DEFAULT_STORE`]; without `listen` it has
    /// [`Listen::default`]. Messages never show the value of a `token`.
    ///
    /// # Errors
    /// Every mistake of the file, each with its place, or the first of its syntax. Files above
    /// [`MAX_FILE_BYTES`](crate::MAX_FILE_BYTES), deeper than [`MAX_DEPTH`](crate::MAX_DEPTH) or with more
    /// than [`MAX_POLICIES`](crate::MAX_POLICIES) policies are refused. No input panics.
    pub fn parse(
        file: &str,
        text: &[u8],
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigErrors> {
        Ok(Self::new(file::parse(file, text, env)?, file, text))
    }

    fn new(content: Content, file: &str, text: &[u8]) -> Self {
        let Content { listen, log, client_ip, cors, stores, policies, .. } = content;
        let Content { policies_json, policies_json_public, warnings, .. } = content;
        let source_sha = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        Self {
            listen,
            log,
            client_ip,
            cors,
            stores,
            policies,
            policies_json,
            policies_json_public,
            warnings,
            file: file.into(),
            source_sha,
            from_flags: false,
        }
    }

    /// What can be used, but is hardly meant so, in the order of the file.
    #[must_use]
    pub fn warnings(&self) -> Vec<ConfigError> {
        let nothing = self.policies.is_empty().then(|| ConfigError {
            line: 1,
            column: 1,
            severity: Severity::Warning,
            code: code::NO_POLICIES,
            message: "no policies: nobody is limited".to_owned(),
            hint: Some("add one below `policies:`".to_owned()),
            span: 0..0,
        });
        nothing.into_iter().chain(self.warnings.items.iter().cloned()).collect()
    }

    /// The same as plain text, each with its line, carets and remedy, as [`ConfigErrors::render`] shows errors.
    #[must_use]
    pub fn render_warnings(&self) -> String {
        let mut warnings = self.warnings.clone();
        warnings.items = self.warnings();
        warnings.render_items()
    }

    /// Whether it is one limit from the command line ([`Config::single`]): its policy has a name, but none that
    /// anybody has given it.
    #[must_use]
    pub const fn is_from_flags(&self) -> bool {
        self.from_flags
    }

    /// The policy of this name.
    #[must_use]
    pub fn policy(&self, name: &str) -> Option<&Policy> {
        self.policies.get(self.policy_index(name)?)
    }

    /// Where the policy of this name is in [`Config::policies`].
    #[must_use]
    pub fn policy_index(&self, name: &str) -> Option<usize> {
        self.policies.position(name)
    }

    /// What messages call the file.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The first 7 hexadecimal digits of the SHA-256 of the text, to tell one version of a file from another.
    #[must_use]
    pub fn source_sha(&self) -> &str {
        self.source_sha.get(..7).unwrap_or_default()
    }

    /// The whole SHA-256 of the text: 64 hexadecimal digits.
    #[must_use]
    pub fn source_sha256(&self) -> &str {
        &self.source_sha
    }

    /// The policies as they are written, as a JSON list: the same fields in the same order, with variables
    /// expanded. What YAML takes for a number or truth value is one, all else is text; fields that are left
    /// out stay out. For [`Config::single`] it is the policy that the flags stand for.
    #[must_use]
    pub fn policies_json(&self) -> &str {
        &self.policies_json
    }

    /// The same for everybody: each policy has the number of its `overrides` instead of their list, which names
    /// customers by their keys.
    #[must_use]
    pub fn policies_json_public(&self) -> &str {
        &self.policies_json_public
    }

    /// What the flags of `simulate --limit …` stand for: policy `policy`, keyed by whatever the caller gives,
    /// with one limit called `limit`, on one memory store of the default size.
    ///
    /// # Errors
    /// Every mistake, each naming its flag.
    pub fn single(flags: &LimitFlags<'_>) -> Result<Self, Vec<FlagError>> {
        let built = flags.words().build(&mut Zones::default()).map_err(|faults| {
            faults.into_iter().map(|fault| FlagError::new(fault.field, fault.fault)).collect::<Vec<_>>()
        })?;
        let name = |text: &'static str| {
            // Only a mistake in this file can make a word of it no name.
            Name::new(text).map_err(|_| vec![FlagError::new("limit", Fault::new(code::BAD_NAME, text))])
        };
        let (policy, store) = (name("policy")?, name(DEFAULT_STORE)?);
        let limits = vec![PolicyLimit::new(&policy, name("limit")?, built, None)];
        let policies = vec![Policy::new(policy, store.clone(), None, limits)];
        let policies = Policies::new(policies, ClientIp::default());
        let stores = vec![StoreConfig { name: store, kind: StoreKind::Memory(MemoryConfig::default()) }];
        let policies_json = file::of_single("policy", "limit", flags.options());
        let content = Content {
            listen: Listen { http: None, admin: None },
            log: LogConfig::default(),
            client_ip: ClientIp::default(),
            cors: Cors::default(),
            stores,
            policies,
            policies_json_public: policies_json.clone(),
            policies_json,
            warnings: ConfigErrors::none(),
        };
        let config = Self::new(content, "flags", flags.to_string().as_bytes());
        Ok(Self { from_flags: true, ..config })
    }
}

/// The options of one limit as a command line gives them, unread.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitFlags<'a> {
    /// `--limit`, required.
    pub limit: &'a str,
    /// `--algorithm`, required.
    pub algorithm: &'a str,
    /// `--burst`.
    pub burst: Option<&'a str>,
    /// `--queue`.
    pub queue: Option<&'a str>,
    /// `--max-wait`.
    pub max_wait: Option<&'a str>,
    /// `--align`.
    pub align: Option<&'a str>,
    /// `--timezone`.
    pub timezone: Option<&'a str>,
}

impl<'a> LimitFlags<'a> {
    fn words(&self) -> LimitWords<'a> {
        let given = |option: Option<&'a str>| option.map_or(Given::Absent, Given::Text);
        LimitWords {
            algorithm: Given::Text(self.algorithm),
            limit: Given::Text(self.limit),
            burst: given(self.burst),
            queue: given(self.queue),
            max_wait: given(self.max_wait),
            align: given(self.align),
            timezone: given(self.timezone),
        }
    }

    /// What is given, by its name in a file.
    fn options(&self) -> impl Iterator<Item = (&'static str, &'a str)> {
        let values = [
            Some(self.algorithm),
            Some(self.limit),
            self.burst,
            self.queue,
            self.max_wait,
            self.align,
            self.timezone,
        ];
        OPTIONS.into_iter().zip(values).filter_map(|(name, value)| Some((name, value?)))
    }
}

impl fmt::Display for LimitFlags<'_> {
    /// The flags as they are typed, in a fixed order.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--limit '{}' --algorithm {}", self.limit, self.algorithm)?;
        let options = [
            ("burst", self.burst),
            ("queue", self.queue),
            ("max-wait", self.max_wait),
            ("align", self.align),
            ("timezone", self.timezone),
        ];
        for (flag, value) in options {
            if let Some(value) = value {
                write!(f, " --{flag} {value}")?;
            }
        }
        Ok(())
    }
}

/// A flag that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlagError {
    /// The flag as it is typed, such as `--max-wait`.
    pub flag: String,
    /// Stable, kebab-case; the same as in a file.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl FlagError {
    fn new(field: &str, fault: Fault) -> Self {
        let Fault { code, message, hint } = fault;
        // What was typed is repeated as it was typed: only words of ours become flags.
        let repeats = matches!(code, code::UNKNOWN_WORD | code::UNKNOWN_ZONE);
        let message = if repeats { message } else { in_flags(&message) };
        Self { flag: flag(field), code, message, hint: hint.as_deref().map(in_flags) }
    }
}

/// The options of a limit, as a file calls them.
const OPTIONS: [&str; 7] = ["algorithm", "limit", "burst", "queue", "max_wait", "align", "timezone"];

fn flag(field: &str) -> String {
    format!("--{}", field.replace('_', "-"))
}

/// A text about a file as one about flags: `` `queue: N` `` is `` `--queue N` ``.
fn in_flags(text: &str) -> String {
    let piece = |(i, piece): (usize, &str)| {
        let (name, value) = piece.split_once(": ").map_or((piece, None), |(name, value)| (name, Some(value)));
        // Every other piece stands between backticks.
        match value {
            _ if i % 2 == 0 || !OPTIONS.contains(&name) => piece.to_owned(),
            None => flag(name),
            Some(value) if value.contains(' ') => format!("{} '{value}'", flag(name)),
            Some(value) => format!("{} {value}", flag(name)),
        }
    };
    text.split('`').enumerate().map(piece).collect::<Vec<_>>().join("`")
}

impl fmt::Display for FlagError {
    /// `--burst: a burst is 1 to 1,000,000,000 (…)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.flag, self.message)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for FlagError {}

#[cfg(test)]
mod tests;
