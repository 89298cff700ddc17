//! Policies: which limits decide a request, and by which keys.

use core::fmt;

use ratekeeper_core::{Check, Key, MAX_KEY_BYTES, Name, NamedLimit};

use crate::headers::Headers;
use crate::hints;
use crate::key::{self, KeySpec};
use crate::limit::BuiltLimit;
use crate::matcher::Match;

/// A named set of limits that are decided together.
#[derive(Clone, Debug)]
pub struct Policy {
    name: Name,
    store: Name,
    key: Option<KeySpec>,
    limits: Vec<PolicyLimit>,
    headers: Headers,
    conditions: Option<Match>,
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
    /// A policy with at least one limit. In a file a limit without a key of its own needs the policy's; where
    /// neither is said, the caller's value is the key as it stands.
    pub(crate) fn new(name: Name, store: Name, key: Option<KeySpec>, limits: Vec<PolicyLimit>) -> Self {
        Self { name, store, key, limits, headers: Headers::default(), conditions: None }
    }

    pub(crate) fn with_headers(self, headers: Headers) -> Self {
        Self { headers, ..self }
    }

    pub(crate) fn with_match(self, conditions: Option<Match>) -> Self {
        Self { conditions, ..self }
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

    /// The limits in the order of the file: 1 to 16, at most one of them a queue.
    #[must_use]
    pub fn limits(&self) -> &[PolicyLimit] {
        &self.limits
    }

    /// The header fields of answers: its own, else those of `defaults`.
    #[must_use]
    pub const fn headers(&self) -> Headers {
        self.headers
    }

    /// Which requests it is about; None if the file does not say, which is all of them ([`Match::any`]).
    #[must_use]
    pub const fn matches(&self) -> Option<&Match> {
        self.conditions.as_ref()
    }

    /// The questions of a request whose caller names this policy: one for each limit, in order.
    ///
    /// A limit counts by its entry in `keys` if there is one, else by the call's key; one with a key of its
    /// own needs its entry. A `global` limit has one counter whatever the call says. Values of different
    /// alternatives are different keys.
    ///
    /// # Errors
    /// If a key that is needed is absent, empty or longer than [`MAX_KEY_BYTES`] (bytes as given), or `keys`
    /// names a limit that the policy has not. Nobody is unlimited for want of a key.
    pub fn checks<'a>(&'a self, call: &Call<'a>) -> Result<Vec<Check<'a>>, CallError> {
        self.check_names(call)?;
        self.limits.iter().map(|limit| self.check(limit, call)).collect()
    }

    /// The limits that a reset by this call forgets: those that count by the policy's key, and those with a
    /// key of their own that `keys` names. A limit whose own key is `[global]` is never among them, so that
    /// no caller's reset clears what everybody shares.
    ///
    /// # Errors
    /// As for [`Policy::checks`], but a limit with a key of its own needs no entry in `keys`.
    pub fn reset_checks<'a>(&'a self, call: &Call<'a>) -> Result<Vec<Check<'a>>, CallError> {
        self.check_names(call)?;
        let meant = |limit: &&PolicyLimit| match &limit.key {
            None => true,
            Some(own) => !own.is_global() && entry(call, limit).is_some(),
        };
        self.limits.iter().filter(meant).map(|limit| self.check(limit, call)).collect()
    }

    /// The limits that a look by this call sees: those that count by the policy's key, those with a key of their own
    /// that `keys` names, and those that everybody shares.
    ///
    /// # Errors
    /// As for [`Policy::reset_checks`].
    pub fn seen_checks<'a>(&'a self, call: &Call<'a>) -> Result<Vec<Check<'a>>, CallError> {
        self.check_names(call)?;
        let seen = |limit: &&PolicyLimit| match &limit.key {
            None => true,
            Some(own) => own.is_global() || entry(call, limit).is_some(),
        };
        self.limits.iter().filter(seen).map(|limit| self.check(limit, call)).collect()
    }

    fn check_names(&self, call: &Call<'_>) -> Result<(), CallError> {
        let unknown =
            call.keys.iter().find(|(name, _)| self.limits.iter().all(|limit| limit.name() != *name));
        let Some((name, _)) = unknown else { return Ok(()) };
        let names = self.limits.iter().map(PolicyLimit::name);
        Err(CallError::UnknownLimit { name: (*name).into(), hint: hints::did_you_mean(name, names) })
    }

    fn check<'a>(&'a self, limit: &'a PolicyLimit, call: &Call<'a>) -> Result<Check<'a>, CallError> {
        Ok(Check { limit: &limit.named, key: self.key_of(limit, call)?, cost: call.cost })
    }

    fn key_of<'a>(&'a self, limit: &'a PolicyLimit, call: &Call<'a>) -> Result<Key<'a>, CallError> {
        let spec = limit.key.as_ref().or(self.key.as_ref());
        if spec.is_some_and(KeySpec::is_global) {
            return Ok(key::global());
        }
        let of_limit = || KeyField::Keys(limit.named.name().clone());
        let (field, value) = match (entry(call, limit), call.key) {
            (Some(value), _) => (of_limit(), value),
            (None, _) if limit.key.is_some() => return Err(CallError::Absent(of_limit())),
            (None, Some(value)) => (KeyField::Key, value),
            (None, None) => return Err(CallError::Absent(KeyField::Key)),
        };
        if value.len() > MAX_KEY_BYTES {
            return Err(CallError::TooLong(field));
        }
        let key = match spec {
            Some(spec) => spec.key(value),
            None => (!value.is_empty()).then(|| key::unnamed(value)),
        };
        key.ok_or(CallError::Empty(field))
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

    fn name(&self) -> &str {
        self.named.name().as_str()
    }
}

fn entry<'a>(call: &Call<'a>, limit: &PolicyLimit) -> Option<&'a str> {
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
            Self::Absent(field) | Self::Empty(field) | Self::TooLong(field) => field.to_string(),
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
            Self::UnknownLimit { name, hint } => {
                write!(f, "the policy has no limit `{}`: {hint}", hints::shown(name))
            }
        }
    }
}

impl core::error::Error for CallError {}

#[cfg(test)]
mod tests;
