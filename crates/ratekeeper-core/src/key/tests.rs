use super::*;
use alloc::vec::Vec;

/// Writes down what a key feeds its hasher.
#[derive(Default)]
struct Recorder(Vec<u8>);

impl Hasher for Recorder {
    fn finish(&self) -> u64 {
        0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

fn fed(key: Key<'_>) -> Vec<u8> {
    let mut recorder = Recorder::default();
    key.hash(&mut recorder);
    recorder.0
}

#[test]
fn parts_of_a_key_never_run_together() {
    let pairs = [
        (("aa", "b"), ("a", "ab")),
        (("a:b", "c"), ("a", "b:c")),
        (("a|b", ""), ("a", "|b")),
        (("1:a", "b"), ("1", ":ab")),
        (("", "ab"), ("ab", "")),
    ];
    for (left, right) in pairs {
        assert_ne!(Key::from(left), Key::from(right));
        assert_ne!(fed(left.into()), fed(right.into()), "{left:?} {right:?}");
    }
}

#[test]
fn kinds_of_parts_are_different_keys() {
    let text = u64::from_le_bytes(*b"12345678");
    assert_ne!(fed(text.into()), fed("12345678".into()));
    assert_ne!(fed(Ipv4Addr::new(49, 50, 51, 52).into()), fed("1234".into()));
    assert_ne!(fed(Ipv4Addr::LOCALHOST.into()), fed(Ipv4Addr::LOCALHOST.to_ipv6_mapped().into()));
}

#[test]
fn one_part_is_the_same_key_in_every_form() {
    let list = [Part::from("k")];
    assert_eq!(Key::from("k"), Key::from(&list[..]));
    assert_eq!(fed("k".into()), fed(Key::from(&list[..])));
    assert_eq!(Key::from(("ab", 7_u64, Ipv6Addr::LOCALHOST)).byte_len(), 2 + 8 + 16);
}
