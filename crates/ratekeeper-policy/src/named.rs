//! A policy whose caller names it, and says who is limited.

use core::fmt;
use core::net::IpAddr;

use crate::found::{FoundKey, NotGiven};
use crate::key::{KeyPart, KeySpec};
use crate::plan::Applied;
use crate::policy::{Call, CallError, KeyField, Policy, PolicyLimit, entry};

/// Which limits of a policy are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// All of them; each needs its key.
    All,
    /// Those that a look sees: those that count by the policy's key, those with a key of their own that the call
    /// gives, and those that everybody shares.
    Seen,
    /// Those that a reset forgets: as for a look, but not what everybody shares, so that no caller's reset clears
    /// that.
    Reset,
}

impl Policy {
    /// What this policy does with a request whose caller names it; its mode is for the caller to look at.
    ///
    /// A limit counts by its entry in `keys` if there is one, else by the call's key; one with a key of its own
    /// needs its entry. A `global` limit has one counter whatever the call says. Values of different alternatives
    /// are different keys. Overrides are those of the call's key.
    ///
    /// # Errors
    /// If a key that is needed is absent, empty or longer than [`MAX_KEY_BYTES`](ratekeeper_core::MAX_KEY_BYTES) (without the name of its alternative), or `keys` names
    /// a limit that the policy has not. Nobody is unlimited for want of a key.
    pub fn named<'a>(&'a self, call: &Call<'a>, which: Which) -> Result<Applied<'a>, CallError> {
        self.check_names(call)?;
        let mut applied = Applied::of(0, self, call.cost);
        let has_overrides = !self.overrides().as_slice().is_empty();
        let needs_key = self.limits().iter().any(|limit| limit.key.is_none() && entry(call, limit).is_none());
        if needs_key || (has_overrides && call.key.is_some()) {
            applied.key = Some(self.given(self.key(), call.key, KeyField::Key)?);
        } else if call.key.is_some() {
            // Nothing of the file needs it, so a wrong one is no error; but an exception may be meant for it.
            applied.key = self.given(self.key(), call.key, KeyField::Key).ok();
        }
        for (place, limit) in self.limits().iter().enumerate() {
            if !self.is_meant(limit, call, which) {
                continue;
            }
            if limit.key.is_some() || entry(call, limit).is_some() {
                let spec = limit.key.as_ref().or_else(|| self.key());
                let field = KeyField::Keys(limit.named.name().clone());
                applied.own.push((place, self.given(spec, entry(call, limit), field)?));
            }
            applied.taking_part |= 1 << place;
        }
        applied.decide(self, &());
        Ok(applied)
    }

    fn is_meant(&self, limit: &PolicyLimit, call: &Call<'_>, which: Which) -> bool {
        match (which, &limit.key) {
            (Which::All, _) | (_, None) => true,
            (Which::Seen, Some(own)) => own.is_global() || entry(call, limit).is_some(),
            (Which::Reset, Some(own)) => !own.is_global() && entry(call, limit).is_some(),
        }
    }

    fn given<'a>(
        &'a self,
        spec: Option<&'a KeySpec>,
        value: Option<&'a str>,
        field: KeyField,
    ) -> Result<FoundKey<'a>, CallError> {
        if spec.is_some_and(KeySpec::is_global) {
            return Ok(FoundKey::global());
        }
        let Some(value) = value else { return Err(CallError::Absent(field)) };
        let found = match spec {
            Some(spec) => spec.given(value),
            None if value.is_empty() => Err(NotGiven::Empty),
            None => Ok(FoundKey::unnamed(value)),
        };
        match found {
            Ok(key) if key.is_too_long() => Err(CallError::TooLong(field)),
            Ok(key) => Ok(key),
            Err(NotGiven::Empty) => Err(CallError::Empty(field)),
            Err(NotGiven::Parts(parts)) => Err(CallError::Parts(field, parts)),
        }
    }
}

/// Why a text is hardly the key that somebody means.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KeyDoubt {
    /// The key counts by an address here, and this is none.
    NoAddress,
    /// It names an alternative that the key has not: those that it has.
    NoAlternative(String),
    /// It is an address, and without a name it is a value of this alternative.
    Address(String),
    /// It has a `*`, and stands for one key all the same.
    Pattern,
}

impl fmt::Display for KeyDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress => f.write_str("this is no address; networks are overridden in the file"),
            Self::NoAlternative(spec) => write!(f, "the key {spec} has no such alternative"),
            Self::Address(first) => {
                write!(f, "say which is meant: `ip=ADDRESS`, or `{first}=ADDRESS` for the text")
            }
            Self::Pattern => f.write_str("this is for one key; patterns are overridden in the file"),
        }
    }
}

impl Policy {
    /// What speaks against a text that an operator means one key of this policy by. A caller's text is a key as it
    /// stands; what an operator does would have no effect on anybody.
    #[must_use]
    pub fn doubt(&self, text: &str) -> Option<KeyDoubt> {
        let spec = self.key()?;
        let is_named = spec.called(text).is_some();
        let (_, alternative, value) = spec.named(text)?;
        let mut values = value.splitn(alternative.parts().len(), ',').zip(alternative.parts());
        if values.any(|(value, part)| *part == KeyPart::Ip && value.parse::<IpAddr>().is_err()) {
            return Some(KeyDoubt::NoAddress);
        }
        if is_named {
            return None;
        }
        if text.split_once('=').is_some_and(|(name, _)| KeyPart::parse(name).is_ok()) {
            return Some(KeyDoubt::NoAlternative(spec.to_string()));
        }
        let has_address = spec.alternatives().iter().any(|other| other.parts() == [KeyPart::Ip]);
        if has_address && alternative.parts() != [KeyPart::Ip] && text.parse::<IpAddr>().is_ok() {
            return Some(KeyDoubt::Address(alternative.as_str().to_owned()));
        }
        text.contains('*').then_some(KeyDoubt::Pattern)
    }
}
