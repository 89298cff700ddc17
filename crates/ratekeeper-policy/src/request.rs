//! A request as policies look at it: its facts, and what is made of them once and looked at by many.

use core::net::IpAddr;
use std::borrow::Cow;
use std::sync::OnceLock;

use ratekeeper_core::Part;

use crate::client_ip::ClientIp;
use crate::facts::Facts;
use crate::key::KeyPart;
use crate::matcher::{Match, Seen};
use crate::path::{BadTarget, NormalPath};

/// A request as policies look at it.
#[derive(Debug)]
pub struct Request<'a> {
    pub(crate) seen: Seen<'a>,
    /// The client's whole address.
    client: Option<IpAddr>,
    /// What of it a key holds.
    masked: Option<IpAddr>,
    query: OnceLock<Vec<Parameter<'a>>>,
}

/// A name of the query and its value, decoded.
type Parameter<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

impl<'a> Request<'a> {
    /// What is known of a request, its client found as `client_ip` says.
    ///
    /// # Errors
    /// If its target is a [`BadTarget`].
    pub fn new(facts: &Facts<'a>, client_ip: &ClientIp) -> Result<Self, BadTarget> {
        let client = client_ip.find(facts.source, facts.headers);
        Ok(Self {
            seen: Seen::new(facts)?,
            client,
            masked: client.map(|address| client_ip.masked(address)),
            query: OnceLock::new(),
        })
    }

    /// The client's whole address, if it is known.
    #[must_use]
    pub const fn client(&self) -> Option<IpAddr> {
        self.client
    }

    /// The value of a part of a key; None if it is absent or empty. `of` is the match that path parameters are
    /// named in.
    pub(crate) fn value(&self, part: &KeyPart, of: Option<&Match>) -> Option<Part<'_>> {
        let facts = self.seen.facts();
        let bytes = match part {
            KeyPart::Ip => return self.masked.map(Part::Address),
            KeyPart::Global => return Some(Part::Bytes(b"")),
            KeyPart::Header(name) => facts.header(name)?.trim_ascii(),
            KeyPart::Cookie(name) => self.cookie(name.as_bytes())?,
            KeyPart::Query(name) => self.parameter(name.as_bytes())?,
            KeyPart::PathId(id) => of?.path()?.parameter(self.seen.path()?, id)?.as_bytes(),
            KeyPart::Path => self.seen.path()?.as_str().as_bytes(),
            KeyPart::Host => self.seen.host()?.as_bytes(),
            KeyPart::Method => facts.method?.as_bytes(),
            // Those are of another protocol.
            KeyPart::Descriptor | KeyPart::DescriptorEntry { .. } => return None,
        };
        (!bytes.is_empty()).then_some(Part::Bytes(bytes))
    }

    /// The first cookie of this name that is not empty (RFC 6265, 4.2).
    fn cookie(&self, name: &[u8]) -> Option<&'a [u8]> {
        let pairs =
            self.seen.facts().header_lines("cookie").flat_map(|line| line.split(|byte| *byte == b';'));
        let values = pairs.filter_map(|pair| {
            let at = pair.iter().position(|byte| *byte == b'=')?;
            let (called, value) = pair.split_at_checked(at)?;
            let value = value.get(1..)?.trim_ascii();
            let value = value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\"")).unwrap_or(value);
            (called.trim_ascii() == name).then_some(value)
        });
        values.into_iter().find(|value| !value.is_empty())
    }

    /// The first parameter of this name that is not empty, as forms write them: `+` is a space.
    fn parameter(&self, name: &[u8]) -> Option<&[u8]> {
        let parameters = self.query.get_or_init(|| {
            let query = self.seen.path().and_then(NormalPath::query).unwrap_or_default();
            // How many there are is bound by the length of a target.
            let pairs = query.split('&').filter(|pair| !pair.is_empty());
            let pair = |pair: &'a str| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                (form_decoded(name), form_decoded(value))
            };
            pairs.map(pair).collect()
        });
        let called = parameters.iter().filter(|(other, _)| other.as_ref() == name);
        called.map(|(_, value)| value.as_ref()).find(|value| !value.is_empty())
    }
}

/// A name or value of a form: what is no percent sequence stays as it is, so that one value has few spellings
/// and none is lost.
fn form_decoded(text: &str) -> Cow<'_, [u8]> {
    let bytes = text.as_bytes();
    if !bytes.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Cow::Borrowed(bytes);
    }
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'+' => decoded.push(b' '),
            b'%' => match (digit(after.first()), digit(after.get(1))) {
                (Some(high), Some(low)) => {
                    // Two digits of 4 bits each.
                    decoded.push((high << 4 | low) as u8);
                    rest = after.get(2..).unwrap_or_default();
                }
                _ => decoded.push(b'%'),
            },
            other => decoded.push(*other),
        }
    }
    Cow::Owned(decoded)
}
