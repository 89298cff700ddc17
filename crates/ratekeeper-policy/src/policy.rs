//! Policies: which limits decide a request, and by which keys.

use core::fmt;

use ratekeeper_core::{MAX_KEY_BYTES, Name, NamedLimit};

use crate::headers::Headers;
use crate::hints;
use crate::key::KeySpec;
use crate::limit::BuiltLimit;
use crate::matcher::Match;
use crate::options::Options;
use crate::overrides::Overrides;

/// A named set of limits that are decided together.
#[derive(Clone, Debug)]
pub struct Policy {
    name: Name,
    store: Name,
    key: Option<KeySpec>,
    limits: Vec<PolicyLimit>,
    matches: Option<Match>,
    options: Options,
    overrides: Overrides,
    /// The shortest window that its store can count.
    min_window_us: u64,
    /// The line of the file, from 1.
    line: usize,
}

/// A limit of a policy.
#[derive(Clone, Debug)]
pub struct PolicyLimit {
    /// Its name, numbers and calendar.
    pub named: NamedLimit,
    /// Its own key, if it has one; else the policy's counts.
    pub key: Option<KeySpec>,
    /// The time zone of its calendar, if it has one.
    pub zone: Option<Box<str>>,
}

/// What a caller says who names a policy.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Who is limited: a value of the policy's first alternative, or `alternative=value`.
    pub key: Option<&'a str>,
    /// Limit name → key, for limits that count by another key than the policy's.
    pub keys: &'a [(&'a str, &'a str)],
    /// Units to take; 0 looks.
    pub cost: u64,
}

impl Policy {
    /// A policy with limits, or one whose options say an action instead. In a file a limit without a key of its
    /// own needs the policy's; where neither is said, the caller's value is the key as it stands.
    pub(crate) fn new(name: Name, store: Name, key: Option<KeySpec>, limits: Vec<PolicyLimit>) -> Self {
        Self {
            name,
            store,
            key,
            limits,
            matches: None,
            options: Options::default(),
            overrides: Overrides::default(),
            min_window_us: 1,
            line: 1,
        }
    }

    pub(crate) fn with_match(self, matches: Option<Match>) -> Self {
        Self { matches, ..self }
    }

    pub(crate) fn with_options(self, options: Options) -> Self {
        Self { options, ..self }
    }

    pub(crate) fn with_overrides(self, overrides: Overrides) -> Self {
        Self { overrides, ..self }
    }

    pub(crate) fn with_min_window_us(self, min_window_us: u64) -> Self {
        Self { min_window_us, ..self }
    }

    pub(crate) const fn min_window_us(&self) -> u64 {
        self.min_window_us
    }

    pub(crate) fn on_line(self, line: usize) -> Self {
        Self { line, ..self }
    }

    /// The name, unique in its file.
    #[must_use]
    pub const fn name(&self) -> &Name {
        &self.name
    }

    /// The store that decides it.
    #[must_use]
    pub const fn store(&self) -> &Name {
        &self.store
    }

    /// The key of the limits that have none of their own, if the file says one.
    #[must_use]
    pub const fn key(&self) -> Option<&KeySpec> {
        self.key.as_ref()
    }

    /// The limits in the order of the file: 1 to 16, at most one of them a queue; none where there is an action
    /// instead.
    #[must_use]
    pub fn limits(&self) -> &[PolicyLimit] {
        &self.limits
    }

    /// The header fields of answers: its own, else those of `defaults`.
    #[must_use]
    pub const fn headers(&self) -> Headers {
        self.options.headers
    }

    /// Which requests it is about; None if it does not say: then it is about all.
    #[must_use]
    pub const fn matches(&self) -> Option<&Match> {
        self.matches.as_ref()
    }

    /// What it says beside its limits.
    #[must_use]
    pub const fn options(&self) -> &Options {
        &self.options
    }

    /// What is different for some keys.
    #[must_use]
    pub const fn overrides(&self) -> &Overrides {
        &self.overrides
    }

    /// The line of the file that it begins on, from 1.
    #[must_use]
    pub const fn line(&self) -> usize {
        self.line
    }

    pub(crate) fn check_names(&self, call: &Call<'_>) -> Result<(), CallError> {
        let unknown =
            call.keys.iter().find(|(name, _)| self.limits.iter().all(|limit| limit.name() != *name));
        let Some((name, _)) = unknown else { return Ok(()) };
        let names = self.limits.iter().map(PolicyLimit::name);
        Err(CallError::UnknownLimit { name: (*name).into(), hint: hints::did_you_mean(name, names) })
    }
}

impl PolicyLimit {
    pub(crate) fn new(policy: &Name, name: Name, built: BuiltLimit, key: Option<KeySpec>) -> Self {
        let named = NamedLimit::new(policy, name, built.limit);
        match built.calendar {
            Some(calendar) => {
                let zone = Some(calendar.zone().into());
                Self { named: named.with_calendar(calendar), key, zone }
            }
            None => Self { named, key, zone: None },
        }
    }

    pub(crate) fn draining(self) -> Self {
        Self { named: self.named.draining(), ..self }
    }

    pub(crate) fn name(&self) -> &str {
        self.named.name().as_str()
    }
}

pub(crate) fn entry<'a>(call: &Call<'a>, limit: &PolicyLimit) -> Option<&'a str> {
    call.keys.iter().find(|(name, _)| *name == limit.name()).map(|(_, value)| *value)
}

/// A call that does not say who is limited.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CallError {
    /// A key that is needed is not there.
    Absent(KeyField),
    /// A key is the empty text, or nothing follows the `=` of `alternative=value`.
    Empty(KeyField),
    /// A key is longer than [`MAX_KEY_BYTES`].
    TooLong(KeyField),
    /// A key has several parts, and not so many values are given.
    Parts(KeyField, usize),
    /// `keys` names a limit that the policy has not.
    UnknownLimit {
        /// The name as given.
        name: String,
        /// The nearest name, or all of them.
        hint: String,
    },
}

/// Where in a call a key stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyField {
    /// `key`.
    Key,
    /// The entry of `keys` for this limit.
    Keys(Name),
}

impl CallError {
    /// The field at fault, as a JSON pointer without its first `/`: `key` or `keys/NAME`.
    #[must_use]
    pub fn field(&self) -> String {
        match self {
            Self::Absent(field) | Self::Empty(field) | Self::TooLong(field) | Self::Parts(field, _) => {
                field.to_string()
            }
            // RFC 6901: a name that no limit can have may contain anything.
            Self::UnknownLimit { name, .. } => {
                format!("keys/{}", name.replace('~', "~0").replace('/', "~1"))
            }
        }
    }
}

impl fmt::Display for KeyField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key => f.write_str("key"),
            Self::Keys(limit) => write!(f, "keys/{limit}"),
        }
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(KeyField::Key) => f.write_str("`key` is missing: it says who is limited"),
            Self::Absent(KeyField::Keys(limit)) => {
                write!(f, "limit `{limit}` has a key of its own: give its value as `keys.{limit}`")
            }
            Self::Empty(KeyField::Key) => f.write_str("`key` is empty"),
            Self::Empty(KeyField::Keys(limit)) => write!(f, "the key of limit `{limit}` is empty"),
            Self::TooLong(_) => write!(f, "a key is at most {MAX_KEY_BYTES} bytes"),
            Self::Parts(_, parts) => {
                write!(f, "this key has {parts} parts: give their values in order, joined by commas")
            }
            Self::UnknownLimit { name, hint } => {
                write!(f, "the policy has no limit `{}`: {hint}", hints::shown(name))
            }
        }
    }
}

impl core::error::Error for CallError {}

#[cfg(test)]
mod tests;
