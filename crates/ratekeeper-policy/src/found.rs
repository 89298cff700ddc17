//! A key that was found: which alternative it is of, and its values.

use core::net::IpAddr;

use ratekeeper_core::{Key, MAX_KEY_BYTES, Part};

use crate::client_ip::canonical;
use crate::key::{Alternative, KeyPart, KeySpec};
use crate::matcher::Match;
use crate::request::Request;

/// A key with the alternative that it is of.
#[derive(Clone, Debug)]
pub(crate) struct FoundKey<'a> {
    /// Which alternative of its specification.
    pub(crate) alternative: usize,
    /// The whole address, where a value is one: the key holds only its network.
    pub(crate) address: Option<IpAddr>,
    /// The text of the alternative, and then its values.
    parts: Parts<'a>,
}

/// The place of keys that nobody chose a value of, so that no override is about them.
const NO_ALTERNATIVE: usize = usize::MAX;

/// Most keys have one value, and hardly any more than two.
#[derive(Clone, Debug)]
enum Parts<'a> {
    Two([Part<'a>; 2]),
    Three([Part<'a>; 3]),
    Many(Vec<Part<'a>>),
}

impl<'a> Parts<'a> {
    fn as_slice(&self) -> &[Part<'a>] {
        match self {
            Self::Two(parts) => parts,
            Self::Three(parts) => parts,
            Self::Many(parts) => parts,
        }
    }

    fn with(self, part: Part<'a>) -> Self {
        match self {
            Self::Two([a, b]) => Self::Three([a, b, part]),
            Self::Three([a, b, c]) => Self::Many(vec![a, b, c, part]),
            Self::Many(mut parts) => {
                parts.push(part);
                Self::Many(parts)
            }
        }
    }
}

impl<'a> FoundKey<'a> {
    /// The key of everybody together.
    pub(crate) fn global() -> Self {
        Self::of(NO_ALTERNATIVE, "global", Part::Bytes(b""), None)
    }

    /// The key of those who have none. No alternative is written so.
    pub(crate) fn missing() -> Self {
        Self::of(NO_ALTERNATIVE, "missing", Part::Bytes(b""), None)
    }

    /// A key where nobody said what kind of value it is: the text as it stands.
    pub(crate) fn unnamed(value: &'a str) -> Self {
        Self::of(0, "", Part::Bytes(value.as_bytes()), None)
    }

    fn of(alternative: usize, text: &'a str, value: Part<'a>, address: Option<IpAddr>) -> Self {
        Self { alternative, address, parts: Parts::Two([Part::Bytes(text.as_bytes()), value]) }
    }

    /// The values of the parts, in their order.
    pub(crate) fn values(&self) -> &[Part<'a>] {
        self.parts.as_slice().get(1..).unwrap_or_default()
    }

    /// The text of the alternative; empty where nobody said what kind of value it is.
    pub(crate) fn kind(&self) -> &str {
        match self.parts.as_slice().first() {
            Some(Part::Bytes(text)) => str::from_utf8(text).unwrap_or_default(),
            _ => "",
        }
    }

    /// The text of the alternative and the values.
    #[cfg(test)]
    pub(crate) fn parts(&self) -> &[Part<'a>] {
        self.parts.as_slice()
    }

    /// The key as stores take it.
    pub(crate) fn key(&self) -> Key<'_> {
        match self.parts.as_slice() {
            // The same words for the hash, without a list to walk.
            [a, b] => (*a, *b).into(),
            [a, b, c] => (*a, *b, *c).into(),
            parts => parts.into(),
        }
    }

    /// Whether it stands for a value, so that overrides can be about it: not for everybody, or all without a key.
    pub(crate) const fn has_value(&self) -> bool {
        self.alternative != NO_ALTERNATIVE
    }

    /// Whether the values are longer than a key may be.
    pub(crate) fn is_too_long(&self) -> bool {
        let length = |part: &Part<'_>| if let Part::Bytes(bytes) = part { bytes.len() } else { 0 };
        self.values().iter().map(length).sum::<usize>() > MAX_KEY_BYTES
    }
}

impl KeySpec {
    /// The first alternative of which a request has all parts.
    pub(crate) fn find<'a>(&'a self, request: &'a Request<'_>, of: Option<&Match>) -> Option<FoundKey<'a>> {
        let mut alternatives = self.alternatives().iter().enumerate();
        alternatives.find_map(|(index, alternative)| alternative.find(index, request, of))
    }

    /// The key that a caller's text stands for: a value of the first alternative, or of the one named before the
    /// first `=`. The values of several parts are joined by commas.
    pub(crate) fn given<'a>(&'a self, text: &'a str) -> Result<FoundKey<'a>, NotGiven> {
        let (index, alternative, value) = self.named(text).ok_or(NotGiven::Empty)?;
        if alternative.is_global() {
            return Ok(FoundKey::global());
        }
        let mut address = None;
        let mut found: Option<Parts<'a>> = None;
        let parts = alternative.parts();
        let mut rest = Some(value);
        for (nth, part) in parts.iter().enumerate() {
            let text = rest.ok_or(NotGiven::Parts(parts.len()))?;
            let (value, after) = match text.split_once(',') {
                Some((value, after)) if nth + 1 < parts.len() => (value, Some(after)),
                _ => (text, None),
            };
            rest = after;
            if value.is_empty() {
                return Err(NotGiven::Empty);
            }
            let given = if *part == KeyPart::Ip { value.parse().ok().map(canonical) } else { None };
            address = address.or(given);
            let part = given.map_or(Part::Bytes(value.as_bytes()), |given| Part::Address(self.masked(given)));
            found = Some(match found {
                None => Parts::Two([Part::Bytes(alternative.as_str().as_bytes()), part]),
                Some(before) => before.with(part),
            });
        }
        let parts = found.ok_or(NotGiven::Empty)?;
        Ok(FoundKey { alternative: index, address, parts })
    }
}

impl Alternative {
    fn find<'a>(
        &'a self,
        index: usize,
        request: &'a Request<'_>,
        of: Option<&Match>,
    ) -> Option<FoundKey<'a>> {
        if self.is_global() {
            return Some(FoundKey::global());
        }
        let mut parts: Option<Parts<'a>> = None;
        for part in self.parts() {
            let value = request.value(part, of)?;
            parts = Some(match parts {
                None => Parts::Two([Part::Bytes(self.as_str().as_bytes()), value]),
                Some(before) => before.with(value),
            });
        }
        let has_address = self.parts().contains(&KeyPart::Ip);
        Some(FoundKey {
            alternative: index,
            address: if has_address { request.client() } else { None },
            parts: parts?,
        })
    }
}

/// Why a caller's text is no key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotGiven {
    /// A value is the empty text.
    Empty,
    /// So many values are needed.
    Parts(usize),
}
