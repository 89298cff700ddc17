//! What the states are called: `rk1:{TAG}:POLICY.LIMIT:a`.
//!
//! - `rk` is the prefix, 1 the format of the states: another format never meets these.
//! - TAG is the caller's key and nothing else, so all limits on one key share a slot of a cluster. It is the canonical
//!   key with all but plain characters escaped, so braces in it never come from a caller; a long one is its digest.
//! - `a` is the arithmetic: a limit with another algorithm never meets a value of a foreign type.

use ratekeeper_core::{Arithmetic, Key, NamedLimit};
use sha2::{Digest as _, Sha256};

/// The format of the states.
const FORMAT: char = '1';
/// The longest tag; a longer one is replaced by its digest.
const MAX_TAG_BYTES: usize = 200;
/// Slots of a cluster.
const SLOTS: u16 = 16_384;

/// The names of the states of one store.
#[derive(Clone, Debug)]
pub(super) struct Names {
    /// `rk1:`, or what stands for it.
    start: Box<str>,
}

impl Names {
    /// Names that begin with `prefix`.
    pub(super) fn new(prefix: &str) -> Self {
        Self { start: format!("{prefix}{FORMAT}:").into() }
    }

    /// The name of the state of `limit` and `key`.
    pub(super) fn of(&self, limit: &NamedLimit, key: &Key<'_>) -> Vec<u8> {
        let mut canonical = Vec::with_capacity(key.byte_len() + 16);
        key.write_canonical(&mut canonical);
        let mut name = Vec::with_capacity(canonical.len() + 64);
        name.extend_from_slice(self.start.as_bytes());
        name.push(b'{');
        let before = name.len();
        canonical.iter().for_each(|byte| push_escaped(&mut name, *byte));
        if name.len() - before > MAX_TAG_BYTES {
            name.truncate(before);
            name.push(b'#');
            push_base64url(&mut name, &Sha256::digest(&canonical));
        }
        name.extend_from_slice(b"}:");
        name.extend_from_slice(limit.policy().as_str().as_bytes());
        name.push(b'.');
        name.extend_from_slice(limit.name().as_str().as_bytes());
        name.push(b':');
        name.push(letter(limit.limit().arithmetic()));
        name
    }
}

/// The letter of an arithmetic.
pub(super) const fn letter(arithmetic: Arithmetic) -> u8 {
    match arithmetic {
        Arithmetic::Meter => b'm',
        Arithmetic::Queue => b'q',
        Arithmetic::Fixed => b'f',
        Arithmetic::Counter => b's',
        Arithmetic::Log => b'l',
    }
}

fn push_escaped(name: &mut Vec<u8>, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    if byte.is_ascii_alphanumeric() || b":._~@=/+-".contains(&byte) {
        name.push(byte);
    } else {
        name.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

fn push_base64url(name: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..=chunk.len() {
            name.push(DIGITS[(word >> (18 - 6 * digit) & 63) as usize]);
        }
    }
}

/// The slot of a cluster that a name falls into: the CRC-16 (XMODEM) of what stands between its first braces.
pub(super) fn slot_of(name: &[u8]) -> u16 {
    let tag = name.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = name.get(open + 1..)?;
        rest.get(..rest.iter().position(|byte| *byte == b'}')?)
    });
    tag.filter(|tag| !tag.is_empty()).unwrap_or(name).iter().fold(0, |crc, byte| step(crc, *byte)) % SLOTS
}

const fn step(crc: u16, byte: u8) -> u16 {
    let mut crc = crc ^ (byte as u16) << 8;
    let mut bit = 0;
    while bit < 8 {
        crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
        bit += 1;
    }
    crc
}

#[cfg(test)]
mod tests {
    use ratekeeper_core::{Algorithm, Key, Limit, Name, NamedLimit, Part};

    use super::{Names, slot_of};

    fn name(key: &Key<'_>) -> String {
        let limit = Limit::per_minute(10).algorithm(Algorithm::SlidingWindowLog);
        let limit = NamedLimit::new(&Name::new("login").unwrap(), Name::new("tries").unwrap(), limit);
        String::from_utf8(Names::new("rk").of(&limit, key)).expect("plain text")
    }

    #[test]
    fn names_are_as_documented() {
        let address = std::net::Ipv4Addr::new(203, 0, 113, 9);
        assert_eq!(name(&("ip", address).into()), "rk1:{2:ipa11:203.0.113.9}:login.tries:l");
        assert_eq!(name(&"a b{c}".into()), "rk1:{6:a%20b%7Bc%7D}:login.tries:l");
    }

    #[test]
    fn braces_in_a_key_choose_no_slot() {
        let (hostile, other) = (name(&"{x}".into()), name(&"}{x}".into()));
        assert_ne!(slot_of(hostile.as_bytes()), slot_of(b"{x}"));
        assert_ne!(slot_of(hostile.as_bytes()), slot_of(other.as_bytes()));
    }

    #[test]
    fn a_long_tag_is_replaced_by_a_digest_and_tells_keys_apart() {
        let long = |last: u8| [vec![b'a'; 300], vec![last]].concat();
        let [a, b] = [long(1), long(2)].map(|bytes| name(&Key::from(Part::Bytes(&bytes))));
        assert_ne!(a, b);
        let tag = a.split(['{', '}']).nth(1).expect("a tag");
        assert_eq!((tag.len(), &tag[..1]), (44, "#"));
        // 196 characters and their length are the longest tag that stays as it is.
        let longest = |n: usize| name(&"x".repeat(n).as_str().into());
        assert!(longest(196).contains("{196:x") && longest(197).contains("{#"));
    }

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot_of(b"123456789"), 0x31c3);
        assert_eq!(slot_of(b"foo{bar}baz"), slot_of(b"bar"));
        assert_eq!(slot_of(b"foo"), 12_182);
    }
}
