//! Paths as they are compared, and the patterns they are compared with.

mod pattern;

use core::fmt;
use std::borrow::Cow;

pub use pattern::{MAX_PATTERN_BYTES, MAX_PATTERN_SEGMENTS, PathPattern};

/// The path of a request in the one spelling of all that mean the same.
///
/// Unreserved characters that are written as `%XX` are decoded, what cannot stand in a path is written as `%XX`, hexadecimal
/// digits are upper case, empty segments and `.` are left out, `..` is resolved, and a slash at the end counts for
/// nothing. Case, `;params` and `%2F` stay as they are, and so does a `%` that begins no `%XX`. So it is ASCII, begins with
/// `/`, and is its own normal form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NormalPath<'a> {
    path: Cow<'a, str>,
    query: Option<&'a str>,
    authority: Option<&'a str>,
}

/// Longest target of a request: twice what servers commonly take.
pub const MAX_TARGET_BYTES: usize = 16 * 1024;

/// A target of which nobody can say what it is for. It is bad input: taken for a path that no policy is about, it would
/// be unlimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BadTarget {
    /// It leads out of what it is a path of: `/a/../..`.
    AboveRoot,
    /// It is longer than [`MAX_TARGET_BYTES`].
    TooLong,
    /// It has none of the forms of RFC 9112, 3.2: `api/x`, and the empty text.
    NoTarget,
}

impl fmt::Display for BadTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AboveRoot => f.write_str("the path leads above its root"),
            Self::TooLong => write!(f, "the path is longer than {MAX_TARGET_BYTES} bytes"),
            Self::NoTarget => f.write_str("a path begins with `/`"),
        }
    }
}

impl core::error::Error for BadTarget {}

impl<'a> NormalPath<'a> {
    /// The path of a request target: `/path?query`, or with `http://host` or `https://host` before it. None for a
    /// target without a path: `*` and `host:port`. A fragment, which no client should send, is dropped:
    /// applications would drop it too.
    ///
    /// # Errors
    /// If a `..` has no segment before it, and if it is no target at all or a very long one.
    pub fn new(target: &'a str) -> Result<Option<Self>, BadTarget> {
        if target.len() > MAX_TARGET_BYTES {
            return Err(BadTarget::TooLong);
        }
        let (authority, target) = split_authority(target);
        let target = target.split_once('#').map_or(target, |(before, _)| before);
        let (path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let path = match path {
            "" if authority.is_some() => Cow::Borrowed("/"),
            path if path.starts_with('/') => normal(path)?,
            "*" => return Ok(None),
            other if is_authority(other) => return Ok(None),
            _ => return Err(BadTarget::NoTarget),
        };
        Ok(Some(Self { path, query, authority }))
    }

    /// The path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.path
    }

    /// What follows the first `?`, as it was sent.
    #[must_use]
    pub const fn query(&self) -> Option<&'a str> {
        self.query
    }

    /// The host and port of a target that names them, which count for more than a field `Host` (RFC 9112, 3.2.2).
    #[must_use]
    pub const fn authority(&self) -> Option<&'a str> {
        self.authority
    }

    /// The segments in order; none of them is empty, and `/` has none.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        segments(&self.path)
    }
}

impl fmt::Display for NormalPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

/// The segments of a normal path.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    let path = path.strip_prefix('/').unwrap_or(path);
    path.split('/').filter(|segment| !segment.is_empty())
}

/// Host and port of a target in absolute form, and what follows them.
fn split_authority(target: &str) -> (Option<&str>, &str) {
    if target.starts_with('/') {
        return (None, target);
    }
    let Some((scheme, rest)) = target.split_once("://") else { return (None, target) };
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return (None, target);
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at(end);
    (Some(authority.rsplit_once('@').map_or(authority, |(_, host)| host)), rest)
}

/// Whether this is `host:port`, the target of `CONNECT`.
fn is_authority(target: &str) -> bool {
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let is_host = |host: &str| !host.is_empty() && host.bytes().all(|b| b.is_ascii_graphic() && b != b'/');
    target.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && is_port(port))
}

fn normal(path: &str) -> Result<Cow<'_, str>, BadTarget> {
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() {
        return Ok(Cow::Borrowed("/"));
    }
    if is_normal(trimmed.as_bytes()) {
        return Ok(Cow::Borrowed(trimmed));
    }
    let mut out = String::with_capacity(trimmed.len());
    for segment in segments(trimmed) {
        match &*normal_segment(segment) {
            "." => {}
            ".." => {
                let parent = out.rfind('/').ok_or(BadTarget::AboveRoot)?;
                out.truncate(parent);
            }
            segment => {
                out.push('/');
                out.push_str(segment);
            }
        }
    }
    Ok(Cow::Owned(if out.is_empty() { String::from("/") } else { out }))
}

/// Whether a path that does not end with a slash is surely its own normal form: a short look that spares most
/// requests a copy.
fn is_normal(path: &[u8]) -> bool {
    let mut last = 0;
    path.iter().all(|&byte| {
        let begins = last == b'/' && matches!(byte, b'/' | b'.');
        last = byte;
        !begins && (byte == b'/' || is_plain(byte))
    })
}

/// One segment, or a part of one, in its normal form. Dots are not resolved.
fn normal_segment(segment: &str) -> Cow<'_, str> {
    if segment.bytes().all(is_plain) {
        return Cow::Borrowed(segment);
    }
    let mut out = String::with_capacity(segment.len() + 8);
    let mut rest = segment.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        match (*byte, after) {
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                rest = after;
                let decoded = hex(*high) << 4 | hex(*low);
                if is_unreserved(decoded) && !completes(&out, decoded) {
                    out.push(char::from(decoded));
                } else {
                    escape(&mut out, decoded);
                }
            }
            (b'%', _) => out.push('%'),
            (byte, _) if is_plain(byte) => out.push(char::from(byte)),
            (byte, _) => escape(&mut out, byte),
        }
    }
    Cow::Owned(out)
}

/// Whether a digit would make a `%XX` of a `%` that began none: what was sent as `%%34%31` is not `%41`.
fn completes(out: &str, digit: u8) -> bool {
    if !digit.is_ascii_hexdigit() {
        return false;
    }
    match out.as_bytes() {
        [.., b'%'] => true,
        [.., b'%', high] => high.is_ascii_hexdigit(),
        _ => false,
    }
}

fn escape(out: &mut String, byte: u8) {
    let digit = |value: u8| char::from(if value < 10 { b'0' + value } else { b'A' + value - 10 });
    out.push('%');
    out.push(digit(byte >> 4));
    out.push(digit(byte & 15));
}

/// The value of a hexadecimal digit.
const fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        b'A'..=b'F' => digit - b'A' + 10,
        _ => 0,
    }
}

/// RFC 3986, 2.3: these mean the same in both spellings.
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// RFC 3986, 3.3: what stands in a segment as it is.
const fn is_plain(byte: u8) -> bool {
    PLAIN[byte as usize]
}

const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        let sub_delim =
            matches!(b, b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=');
        plain[byte] = is_unreserved(b) || sub_delim || matches!(b, b':' | b'@');
        byte += 1;
    }
    plain
};

#[cfg(test)]
mod tests;
