//! By what requests are told apart: the `key` of a policy or limit.

use core::fmt;
use core::net::IpAddr;

use crate::client_ip;
use crate::fault::{Fault, code};
use crate::hints;

/// Longest name of a header, cookie, query parameter or descriptor: no real one is longer.
pub(crate) const MAX_ARGUMENT_BYTES: usize = 128;
/// Most alternatives of a key, and most parts of one alternative: far above what anybody can keep in mind.
pub(crate) const MAX_ALTERNATIVES: usize = 16;

/// What a request is told apart by: the first alternative that is present.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeySpec {
    alternatives: Vec<Alternative>,
    /// What of an IPv6 address tells clients apart.
    ipv6_prefix: u8,
}

/// One way to tell who asks: a part, or several together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alternative {
    text: Box<str>,
    parts: Vec<KeyPart>,
}

/// What of a request is looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KeyPart {
    /// `ip`: the client's address. Its spellings are one key, and so are all addresses of one IPv6
    /// network of `ipv6_prefix`; IPv4 within IPv6 is IPv4. A value that is no address is a key as it stands, spaces included.
    Ip,
    /// `header:NAME`, in lower case.
    Header(Box<str>),
    /// `cookie:NAME`.
    Cookie(Box<str>),
    /// `query:NAME`: a parameter of the query.
    Query(Box<str>),
    /// `path:ID`: what `{ID}` stands for in the path of the match.
    PathId(Box<str>),
    /// `path`: the whole path.
    Path,
    /// `host`.
    Host,
    /// `method`.
    Method,
    /// `global`: everybody together.
    Global,
    /// `descriptor`: all entries in order.
    Descriptor,
    /// `descriptor:KEY` or `descriptor:KEY#N`: the value of the Nth entry (from 1) with that key.
    DescriptorEntry {
        /// The key of the entry.
        key: Box<str>,
        /// Which of several entries with that key.
        nth: u8,
    },
}

impl KeySpec {
    /// At least one alternative; a `global` one is the last.
    pub(crate) const fn new(alternatives: Vec<Alternative>) -> Self {
        Self { alternatives, ipv6_prefix: client_ip::DEFAULT_IPV6_PREFIX }
    }

    /// With the prefix of the file, so that an address given by a caller is the key of one that is seen.
    pub(crate) fn with_ipv6_prefix(self, ipv6_prefix: u8) -> Self {
        Self { ipv6_prefix, ..self }
    }

    /// The alternatives in order, at least one.
    #[must_use]
    pub fn alternatives(&self) -> &[Alternative] {
        &self.alternatives
    }

    /// Whether everybody is counted together, so that no value is needed.
    #[must_use]
    pub fn is_global(&self) -> bool {
        self.alternatives.first().is_some_and(Alternative::is_global)
    }

    /// The alternative that a caller's text is of, by its place, and the value: of the first one, or of the one
    /// named before the first `=`.
    pub(crate) fn named<'a>(&'a self, text: &'a str) -> Option<(usize, &'a Alternative, &'a str)> {
        self.called(text).or_else(|| Some((0, self.alternatives.first()?, text)))
    }

    /// The alternative that a text names before its first `=`, by its place, and the value.
    pub(crate) fn called<'a>(&'a self, text: &'a str) -> Option<(usize, &'a Alternative, &'a str)> {
        let (name, value) = text.split_once('=')?;
        let place = self.alternatives.iter().position(|alternative| alternative.is_called(name))?;
        Some((place, self.alternatives.get(place)?, value))
    }

    /// What of an address a key holds.
    pub(crate) const fn masked(&self, address: IpAddr) -> IpAddr {
        client_ip::masked(address, self.ipv6_prefix)
    }
}

impl fmt::Display for KeySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, alternative) in self.alternatives.iter().enumerate() {
            let lead = if i == 0 { "[" } else { ", " };
            match alternative.parts.len() {
                1 => write!(f, "{lead}{}", alternative.text)?,
                _ => write!(f, "{lead}[{}]", alternative.text.replace(',', ", "))?,
            }
        }
        f.write_str("]")
    }
}

impl Alternative {
    pub(crate) fn new(parts: Vec<KeyPart>) -> Self {
        let texts: Vec<String> = parts.iter().map(ToString::to_string).collect();
        Self { text: texts.join(",").into(), parts }
    }

    /// The canonical text: `ip`, `header:x-api-key`; the parts of a compound joined by commas, which no part
    /// contains.
    #[must_use]
    pub const fn as_str(&self) -> &str {
        &self.text
    }

    /// What is looked at, in order; several parts are one key together.
    #[must_use]
    pub fn parts(&self) -> &[KeyPart] {
        &self.parts
    }

    pub(crate) fn is_global(&self) -> bool {
        self.parts == [KeyPart::Global]
    }

    /// Whether a caller means this alternative by `name`. Headers have no case.
    fn is_called(&self, name: &str) -> bool {
        match self.parts.as_slice() {
            [KeyPart::Header(_)] => self.text.eq_ignore_ascii_case(name),
            _ => &*self.text == name,
        }
    }
}

impl fmt::Display for KeyPart {
    /// As the configuration writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip => f.write_str("ip"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Cookie(name) => write!(f, "cookie:{name}"),
            Self::Query(name) => write!(f, "query:{name}"),
            Self::PathId(id) => write!(f, "path:{id}"),
            Self::Path => f.write_str("path"),
            Self::Host => f.write_str("host"),
            Self::Method => f.write_str("method"),
            Self::Global => f.write_str("global"),
            Self::Descriptor => f.write_str("descriptor"),
            Self::DescriptorEntry { key, nth: 1 } => write!(f, "descriptor:{key}"),
            Self::DescriptorEntry { key, nth } => write!(f, "descriptor:{key}#{nth}"),
        }
    }
}

/// How a kind of part is written.
enum Argument {
    None(KeyPart),
    Needed { example: &'static str, make: fn(&str) -> Option<KeyPart> },
    Optional { without: KeyPart, make: fn(&str) -> Option<KeyPart> },
}

const KINDS: [(&str, Argument); 9] = [
    ("ip", Argument::None(KeyPart::Ip)),
    ("header", Argument::Needed { example: "x-api-key", make: header }),
    ("cookie", Argument::Needed { example: "session", make: |name| token(name).map(KeyPart::Cookie) }),
    ("query", Argument::Needed { example: "api_key", make: |name| word(name).map(KeyPart::Query) }),
    ("path", Argument::Optional { without: KeyPart::Path, make: |id| word(id).map(KeyPart::PathId) }),
    ("host", Argument::None(KeyPart::Host)),
    ("method", Argument::None(KeyPart::Method)),
    ("global", Argument::None(KeyPart::Global)),
    ("descriptor", Argument::Optional { without: KeyPart::Descriptor, make: descriptor }),
];

impl KeyPart {
    /// All kinds, and whether they take a name: None if it can be left out.
    pub(crate) fn kinds() -> impl Iterator<Item = (&'static str, Option<bool>)> {
        KINDS.iter().map(|(kind, takes)| match takes {
            Argument::None(_) => (*kind, Some(false)),
            Argument::Needed { .. } => (*kind, Some(true)),
            Argument::Optional { .. } => (*kind, None),
        })
    }

    /// Reads `ip`, `header:NAME` and so on.
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        let (kind, argument) = match text.split_once(':') {
            Some((kind, argument)) => (kind, Some(argument)),
            None => (text, None),
        };
        let Some((_, takes)) = KINDS.iter().find(|(name, _)| *name == kind) else {
            let fault = Fault::new(code::BAD_KEY, format!("unknown kind of key `{}`", hints::shown(text)));
            // No kind has a dash, and most headers have one.
            let is_header = argument.is_none() && kind.contains('-') && header_name(kind).is_some();
            return Err(fault.hint(match is_header {
                true => format!("did you mean `header:{}`?", kind.to_ascii_lowercase()),
                false => hints::did_you_mean(kind, KINDS.iter().map(|(name, _)| *name)),
            }));
        };
        let refused = |message: String| Fault::new(code::BAD_KEY, message);
        match (takes, argument) {
            (Argument::None(part), None) | (Argument::Optional { without: part, .. }, None) => {
                Ok(part.clone())
            }
            (Argument::None(_), Some(_)) => {
                Err(refused(format!("`{kind}` takes no name")).hint(format!("write `{kind}`")))
            }
            (Argument::Needed { example, .. }, None | Some("")) => {
                Err(refused(format!("`{kind}` needs a name")).hint(format!("for example `{kind}:{example}`")))
            }
            (Argument::Optional { .. }, Some("")) => {
                Err(refused(format!("`{kind}:` has no name"))
                    .hint(format!("write `{kind}` or `{kind}:NAME`")))
            }
            (Argument::Needed { make, .. } | Argument::Optional { make, .. }, Some(name)) => {
                let short = name.len() <= MAX_ARGUMENT_BYTES;
                short.then(|| make(name)).flatten().ok_or_else(|| {
                    refused(format!("`{}` is no name of a {kind}", hints::shown(name))).hint(format!(
                        "at most {MAX_ARGUMENT_BYTES} bytes, without spaces, `,` and `=`{}",
                        if kind == "descriptor" { "; the second of several is `KEY#2`" } else { "" }
                    ))
                })
            }
        }
    }
}

fn header(name: &str) -> Option<KeyPart> {
    token(&name.to_ascii_lowercase()).map(KeyPart::Header)
}

/// A field name as HTTP defines it (RFC 9110, 5.6.2), in lower case.
pub(crate) fn header_name(name: &str) -> Option<Box<str>> {
    let short = (1..=MAX_ARGUMENT_BYTES).contains(&name.len());
    short.then(|| token(&name.to_ascii_lowercase())).flatten()
}

fn token(name: &str) -> Option<Box<str>> {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    name.bytes().all(good).then(|| name.into())
}

/// Anything that can be written in a key without ending it.
fn word(name: &str) -> Option<Box<str>> {
    let good = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, ',' | '=');
    name.chars().all(good).then(|| name.into())
}

fn descriptor(name: &str) -> Option<KeyPart> {
    let (key, nth) = match name.split_once('#') {
        Some((key, nth)) => (key, nth.parse().ok().filter(|n| *n >= 1 && !nth.starts_with(['0', '+']))?),
        None => (name, 1),
    };
    if key.is_empty() {
        return None;
    }
    Some(KeyPart::DescriptorEntry { key: word(key)?, nth })
}

#[cfg(test)]
mod tests;
