//! Patterns of hosts, values and keys: `*` is any run of characters.

use core::fmt;

use crate::fault::{Fault, code};
use crate::hints::shown;

/// Longest pattern: as long as a key may be.
pub const MAX_GLOB_BYTES: usize = 1_024;
/// Most `*` in one pattern: nobody needs as many, and each is a search.
pub const MAX_GLOB_STARS: usize = 16;

/// A pattern in which `*` is any run of bytes, also none, and everything else stands for itself.
///
/// A match takes time in proportion to the text, whatever the pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Glob {
    text: Box<str>,
    /// What comes before the first `*`; all, if there is none.
    prefix: Box<str>,
    /// What stands between two `*`, in order.
    middle: Box<[Piece]>,
    /// What comes after the last `*`; None if there is none.
    suffix: Option<Box<str>>,
}

/// Something to be found, with what a search has to know of it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Piece {
    bytes: Box<[u8]>,
    /// For each of its beginnings the length of the longest shorter one that it ends with.
    borders: Box<[u16]>,
}

impl Glob {
    /// Reads a pattern that is compared as it stands.
    ///
    /// # Errors
    /// If it is too long, or has too many `*` or two in a row.
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        Self::compile(text, text)
    }

    /// Reads a pattern of hosts, which is compared with [`normal_host`](crate::matcher::normal_host): in lower case.
    ///
    /// # Errors
    /// As [`Glob::parse`], and if it has what no host has: a scheme, a path, a port, a dot at its end.
    pub(crate) fn parse_host(text: &str) -> Result<Self, Fault> {
        let refused = |message: &str| Fault::new(code::BAD_PATTERN, message);
        if let Some((_, host)) = text.split_once("://") {
            let host = host.split('/').next().unwrap_or_default();
            return Err(refused("a host has no scheme").hint(format!("write `{}`", shown(host))));
        }
        if let Some((host, _)) = text.split_once('/') {
            let fault = refused("a host has no path");
            return Err(fault.hint(format!("write `{}`; the path has a field of its own", shown(host))));
        }
        let address = text.starts_with('[');
        let port = if address { text.split_once("]:") } else { text.split_once(':') };
        if let Some((host, _)) = port {
            let host = if address { format!("{host}]") } else { host.to_owned() };
            let fault = refused("hosts are compared without their port");
            return Err(fault.hint(format!("write `{}`", shown(&host))));
        }
        if let Some(host) = text.strip_suffix('.') {
            let fault = refused("hosts are compared without a dot at their end");
            return Err(fault.hint(format!("write `{}`", shown(host))));
        }
        if !text.is_ascii() {
            return Err(refused("a host is ASCII").hint("write it as browsers send it: `xn--…`"));
        }
        if text.bytes().any(|b| b.is_ascii_whitespace() || b.is_ascii_control()) {
            return Err(refused("a host has no spaces").hint("one pattern is one host"));
        }
        Self::compile(text, &text.to_ascii_lowercase())
    }

    fn compile(text: &str, compared: &str) -> Result<Self, Fault> {
        let refused = |message: String| Err(Fault::new(code::BAD_PATTERN, message));
        if text.len() > MAX_GLOB_BYTES {
            return refused(format!("a pattern has at most {MAX_GLOB_BYTES} bytes"));
        }
        let stars = text.bytes().filter(|b| *b == b'*').count();
        if stars > MAX_GLOB_STARS {
            return refused(format!("a pattern has at most {MAX_GLOB_STARS} `*`"));
        }
        if text.contains("**") {
            let fault = Fault::new(code::BAD_PATTERN, "`**` says no more than `*`");
            return Err(fault.hint(format!("write `{}`", shown(&single_stars(text)))));
        }
        let mut pieces = compared.split('*');
        let prefix = pieces.next().unwrap_or_default().into();
        let suffix = pieces.next_back().map(Into::into);
        let middle = pieces.map(|piece| Piece::new(piece.as_bytes())).collect();
        Ok(Self { text: text.into(), prefix, middle, suffix })
    }

    /// Whether a text fits.
    #[must_use]
    pub fn matches(&self, text: &[u8]) -> bool {
        let Some(suffix) = &self.suffix else { return *text == *self.prefix.as_bytes() };
        let Some(rest) = text.strip_prefix(self.prefix.as_bytes()) else { return false };
        let Some(mut rest) = rest.strip_suffix(suffix.as_bytes()) else { return false };
        // The first place of each leaves most room for those behind it.
        self.middle.iter().all(|piece| match piece.find(rest).and_then(|end| rest.get(end..)) {
            Some(after) => {
                rest = after;
                true
            }
            None => false,
        })
    }

    /// Whether one text alone fits.
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        self.suffix.is_none()
    }

    /// What every text that fits begins with: all of it, if there is no `*`.
    #[must_use]
    pub const fn literal_prefix(&self) -> &str {
        &self.prefix
    }

    /// The pattern as it is written.
    #[must_use]
    pub const fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether some text could fit both.
    pub(crate) fn can_meet(&self, other: &Self) -> bool {
        match (&self.suffix, &other.suffix) {
            (None, _) => other.matches(self.prefix.as_bytes()),
            (_, None) => self.matches(other.prefix.as_bytes()),
            (Some(a), Some(b)) => {
                let begin =
                    self.prefix.starts_with(&*other.prefix) || other.prefix.starts_with(&*self.prefix);
                begin && (a.ends_with(&**b) || b.ends_with(&**a))
            }
        }
    }
}

/// A text with one `*` for several in a row.
fn single_stars(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '*' || !out.ends_with('*') {
            out.push(c);
        }
    }
    out
}

impl fmt::Display for Glob {
    /// As it is written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Piece {
    /// At most [`MAX_GLOB_BYTES`].
    fn new(bytes: &[u8]) -> Self {
        let mut borders: Vec<u16> = Vec::with_capacity(bytes.len());
        let mut length = 0;
        for (i, byte) in bytes.iter().enumerate() {
            if i > 0 {
                length = step(bytes, &borders, length, *byte);
            }
            borders.push(u16::try_from(length).unwrap_or_default());
        }
        Self { bytes: bytes.into(), borders: borders.into() }
    }

    /// Where its first occurrence ends (Knuth, Morris and Pratt).
    fn find(&self, text: &[u8]) -> Option<usize> {
        if self.bytes.is_empty() {
            return Some(0);
        }
        let mut length = 0;
        for (i, byte) in text.iter().enumerate() {
            length = step(&self.bytes, &self.borders, length, *byte);
            if length == self.bytes.len() {
                return Some(i + 1);
            }
        }
        None
    }
}

/// How much of a piece is there after one more byte, if `length` of it were there before.
fn step(piece: &[u8], borders: &[u16], mut length: usize, byte: u8) -> usize {
    loop {
        if piece.get(length) == Some(&byte) {
            return length + 1;
        }
        match length.checked_sub(1).and_then(|last| borders.get(last)) {
            Some(shorter) => length = usize::from(*shorter),
            None => return 0,
        }
    }
}

#[cfg(test)]
mod tests;
