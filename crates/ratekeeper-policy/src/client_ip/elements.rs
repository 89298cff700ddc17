//! The elements of a forwarding header, read from the right.
//!
//! What stands on the left was written by strangers. So nothing of it takes part in telling where an element on
//! the right begins: also the quotes of `forwarded` are paired from the right, where trusted proxies append.

use core::net::IpAddr;

use super::Forwarding;
use super::address::{MAX_ADDRESS_BYTES, read_address, read_unquoted, trimmed};

/// The elements of all lines joined, the last one first.
pub(super) struct Elements<'a, L> {
    header: Forwarding,
    /// Lines that have not been begun.
    lines: L,
    /// What is left of the line that has.
    rest: Option<&'a [u8]>,
}

/// An element as it stands.
pub(super) struct Element<'a> {
    header: Forwarding,
    pub(super) text: &'a [u8],
}

impl<L> Elements<'_, L> {
    /// `lines` in their order.
    pub(super) const fn new(header: Forwarding, lines: L) -> Self {
        Self { header, lines, rest: None }
    }
}

impl<'a, L: DoubleEndedIterator<Item = &'a [u8]>> Iterator for Elements<'a, L> {
    type Item = Element<'a>;

    fn next(&mut self) -> Option<Element<'a>> {
        let line = self.rest.take().or_else(|| self.lines.next_back())?;
        let comma = match self.header {
            Forwarding::XForwardedFor => line.iter().rposition(|byte| *byte == b','),
            Forwarding::Forwarded => last_comma(line),
        };
        let parts = comma.and_then(|at| line.split_at_checked(at));
        let (rest, text) = parts.map_or((None, line), |(rest, text)| (Some(rest), text));
        self.rest = rest;
        // The comma belongs to neither.
        let text = if rest.is_some() { text.strip_prefix(b",").unwrap_or(text) } else { text };
        Some(Element { header: self.header, text })
    }
}

/// Where the last comma outside quotes is.
///
/// A string is opened by a quote without a backslash before it, so it can be found from its end as well. A quote
/// that opens nothing makes one element of all on its left, which then is no address, unless whoever wrote it
/// prepared for just that: a proxy that is trusted is trusted to close its quotes.
fn last_comma(line: &[u8]) -> Option<usize> {
    let mut quoted = false;
    for (at, byte) in line.iter().enumerate().rev() {
        match byte {
            b'"' if quoted => quoted = is_escaped(line, at),
            b'"' => quoted = true,
            b',' if !quoted => return Some(at),
            _ => {}
        }
    }
    None
}

/// Whether an odd number of backslashes stands before a byte: those in pairs stand for themselves.
fn is_escaped(line: &[u8], at: usize) -> bool {
    let before = line.iter().take(at).rev();
    before.take_while(|byte| **byte == b'\\').count() % 2 == 1
}

impl Element<'_> {
    /// The address that it names, in its canonical form.
    pub(super) fn address(&self) -> Option<IpAddr> {
        match self.header {
            Forwarding::XForwardedFor => read_address(self.text),
            Forwarding::Forwarded => match for_value(self.text)? {
                Value::Bare(text) => read_unquoted(text),
                Value::Quoted(text) => read_string(text),
            },
        }
    }
}

/// The value of a parameter.
#[derive(Clone, Copy)]
enum Value<'a> {
    Bare(&'a [u8]),
    /// What is between the quotes, escapes and all.
    Quoted(&'a [u8]),
}

/// The value of `for` in an element of `forwarded` (RFC 7239, 4); its name has no case. None if it is not there,
/// if it is there twice, and if the element is not well formed: then nobody can tell who wrote which part of it.
fn for_value(element: &[u8]) -> Option<Value<'_>> {
    let mut found = None;
    let mut rest = trimmed(element);
    while !rest.is_empty() {
        if let Some(next) = rest.strip_prefix(b";") {
            rest = trimmed(next);
            continue;
        }
        let (name, value, next) = parameter(rest)?;
        rest = trimmed(next);
        if !rest.is_empty() && !rest.starts_with(b";") {
            return None;
        }
        if name.eq_ignore_ascii_case(b"for") && found.replace(value).is_some() {
            return None;
        }
    }
    found
}

/// Name and value at the beginning of a text, and what comes behind. Values without quotes may hold what should be
/// in quotes, since proxies write `for=192.0.2.1:80` and `host=a:80`.
fn parameter(text: &[u8]) -> Option<(&[u8], Value<'_>, &[u8])> {
    let equals = text.iter().position(|byte| !is_token(*byte))?;
    let (name, rest) = text.split_at_checked(equals)?;
    let rest = rest.strip_prefix(b"=")?;
    if name.is_empty() {
        return None;
    }
    if let Some(string) = rest.strip_prefix(b"\"") {
        let end = end_of_string(string)?;
        let (inside, rest) = string.split_at_checked(end)?;
        return Some((name, Value::Quoted(inside), rest.strip_prefix(b"\"")?));
    }
    let bare = |byte: &u8| byte.is_ascii_graphic() && !b"\",;\\".contains(byte);
    let end = rest.iter().position(|byte| !bare(byte)).unwrap_or(rest.len());
    let (value, rest) = rest.split_at_checked(end)?;
    Some((name, Value::Bare(value), rest))
}

/// Where the closing quote of a string is that begins here.
fn end_of_string(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    text.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    })
}

/// A character of a token (RFC 9110, 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The address in the inside of a string, whose spaces count for its length.
fn read_string(text: &[u8]) -> Option<IpAddr> {
    let mut plain = [0; MAX_ADDRESS_BYTES];
    let mut len = 0;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        let byte = if *byte == b'\\' { bytes.next()? } else { byte };
        *plain.get_mut(len)? = *byte;
        len += 1;
    }
    read_unquoted(plain.get(..len)?)
}
