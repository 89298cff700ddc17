//! Keys: who is limited, as bytes in parts that never run together.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt::Display;
use core::hash::{Hash, Hasher};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::headers::write_decimal;

/// The longest key, counted in the bytes of its parts: longer ones are bad input at every wire. The library
/// itself takes longer ones, since it keeps a fingerprint only.
pub const MAX_KEY_BYTES: usize = 1_024;

/// One part of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part<'a> {
    /// Any bytes.
    Bytes(&'a [u8]),
    /// A number: another key than its digits as text. Negative ones are their two's complement.
    Number(u64),
    /// An address: another key than its text. IPv4-mapped IPv6 addresses are not folded here.
    Address(IpAddr),
}

/// Who is limited: one part or several, borrowed.
///
/// Parts are hashed with their kind and length, never joined, so `("aa", "b")` and `("a", "ab")` are
/// different keys.
///
/// ```
/// use ratekeeper_core::{Key, Part};
/// use std::net::Ipv4Addr;
/// let _: Key = "user:42".into();
/// let _: Key = 42_u64.into();
/// let _: Key = ("tenant-7", Ipv4Addr::LOCALHOST).into();
/// assert_ne!(Key::from(("aa", "b")), Key::from(("a", "ab")));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    parts: Parts<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Parts<'a> {
    One(Part<'a>),
    Two([Part<'a>; 2]),
    Three([Part<'a>; 3]),
    Many(&'a [Part<'a>]),
}

impl<'a> Key<'a> {
    /// The parts, in order.
    #[must_use]
    pub fn parts(&self) -> &[Part<'a>] {
        match &self.parts {
            Parts::One(part) => core::slice::from_ref(part),
            Parts::Two(parts) => parts,
            Parts::Three(parts) => parts,
            Parts::Many(parts) => parts,
        }
    }

    /// Writes the key as bytes: its parts as `<length>:<bytes>`, one after another, numbers and addresses as their text
    /// with `n` and `a` before the length, so that no text is taken for one. Two keys have the same bytes only if they
    /// are the same, and none is the beginning of another.
    pub fn write_canonical(&self, out: &mut Vec<u8>) {
        for part in self.parts() {
            match part {
                Part::Bytes(bytes) => {
                    write_decimal(out, bytes.len() as u64);
                    out.push(b':');
                    out.extend_from_slice(bytes);
                }
                Part::Number(number) => write_text(out, b'n', *number),
                Part::Address(IpAddr::V4(address)) => write_text(out, b'a', *address),
                Part::Address(IpAddr::V6(address)) => write_text(out, b'a', *address),
            }
        }
    }

    /// The bytes of all parts together, as the caller gave them.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.parts().iter().map(|part| part.byte_len()).sum()
    }
}

fn write_text(out: &mut Vec<u8>, kind: u8, value: impl Display) {
    let text = value.to_string();
    out.push(kind);
    write_decimal(out, text.len() as u64);
    out.push(b':');
    out.extend_from_slice(text.as_bytes());
}

impl Part<'_> {
    const fn byte_len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Number(_) => 8,
            Self::Address(IpAddr::V4(_)) => 4,
            Self::Address(IpAddr::V6(_)) => 16,
        }
    }
}

impl Hash for Part<'_> {
    /// Kind and length first, in one word: no two lists of parts feed the hasher alike.
    #[inline(always)]
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        let head = |kind: u64, len: usize| (len as u64) << 2 | kind;
        match self {
            Part::Bytes(bytes) => {
                hasher.write_u64(head(0, bytes.len()));
                hasher.write(bytes);
            }
            Part::Number(number) => {
                hasher.write_u64(head(1, 8));
                hasher.write_u64(*number);
            }
            Part::Address(IpAddr::V4(address)) => {
                hasher.write_u64(head(2, 4));
                hasher.write_u32(address.to_bits());
            }
            Part::Address(IpAddr::V6(address)) => {
                hasher.write_u64(head(2, 16));
                hasher.write_u128(address.to_bits());
            }
        }
    }
}

impl Hash for Key<'_> {
    #[inline(always)]
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        match &self.parts {
            // The common case without a loop. A list of one part feeds the same words.
            Parts::One(part) => part.hash(hasher),
            _ => self.parts().iter().for_each(|part| part.hash(hasher)),
        }
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Key<'_> {}

impl<'a, P: Into<Part<'a>>> From<P> for Key<'a> {
    #[inline]
    fn from(part: P) -> Self {
        Self { parts: Parts::One(part.into()) }
    }
}

impl<'a, A: Into<Part<'a>>, B: Into<Part<'a>>> From<(A, B)> for Key<'a> {
    fn from((a, b): (A, B)) -> Self {
        Self { parts: Parts::Two([a.into(), b.into()]) }
    }
}

impl<'a, A: Into<Part<'a>>, B: Into<Part<'a>>, C: Into<Part<'a>>> From<(A, B, C)> for Key<'a> {
    fn from((a, b, c): (A, B, C)) -> Self {
        Self { parts: Parts::Three([a.into(), b.into(), c.into()]) }
    }
}

impl<'a> From<&'a [Part<'a>]> for Key<'a> {
    fn from(parts: &'a [Part<'a>]) -> Self {
        Self { parts: Parts::Many(parts) }
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Part<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Bytes(bytes)
    }
}

macro_rules! part_from {
    ($($from:ty => |$value:ident| $part:expr),+ $(,)?) => {
        $(impl<'a> From<$from> for Part<'a> {
            #[inline]
            fn from($value: $from) -> Self {
                $part
            }
        })+
    };
}

part_from! {
    &'a str => |text| Self::Bytes(text.as_bytes()),
    &'a alloc::string::String => |text| Self::Bytes(text.as_bytes()),
    &'a [u8] => |bytes| Self::Bytes(bytes),
    &'a alloc::vec::Vec<u8> => |bytes| Self::Bytes(bytes),
    u64 => |number| Self::Number(number),
    u32 => |number| Self::Number(u64::from(number)),
    usize => |number| Self::Number(number as u64),
    i32 => |number| Self::Number(i64::from(number) as u64),
    i64 => |number| Self::Number(number as u64),
    IpAddr => |address| Self::Address(address),
    Ipv4Addr => |address| Self::Address(address.into()),
    Ipv6Addr => |address| Self::Address(address.into()),
}

#[cfg(test)]
mod tests;
