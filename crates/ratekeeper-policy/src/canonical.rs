//! Keys as bytes: one text for each key, and one key for each text.

use ratekeeper_core::Key;

/// A key as bytes: its parts as `<length>:<bytes>`, one after another, the kind first and then the values. Numbers and
/// addresses are written as their text with `n` and `a` before the length, so that no text is taken for one. Two keys
/// have the same bytes only if they are the same.
///
/// ```
/// use ratekeeper_core::Key;
/// use ratekeeper_policy::canonical;
/// use std::net::Ipv4Addr;
/// assert_eq!(canonical(&Key::from(("header:x-api-key", "abc"))), b"16:header:x-api-key3:abc");
/// assert_eq!(canonical(&Key::from(("ip", Ipv4Addr::LOCALHOST))), b"2:ipa9:127.0.0.1");
/// ```
#[must_use]
pub fn canonical(key: &Key<'_>) -> Vec<u8> {
    let mut written = Vec::with_capacity(key.byte_len() + 8 * key.parts().len());
    key.write_canonical(&mut written);
    written
}

#[cfg(test)]
mod tests {
    use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use proptest::prelude::{Just, Strategy, any, prop, prop_assert_eq, prop_oneof, proptest};
    use ratekeeper_core::{Key, Part};

    use super::canonical;

    #[derive(Clone, PartialEq, Eq, Debug)]
    enum Owned {
        Bytes(Vec<u8>),
        Number(u64),
        Address(IpAddr),
    }

    fn part(part: &Owned) -> Part<'_> {
        match part {
            Owned::Bytes(bytes) => Part::Bytes(bytes),
            Owned::Number(number) => Part::Number(*number),
            Owned::Address(address) => Part::Address(*address),
        }
    }

    /// Short parts of few letters, among them those that are written between parts: what is alike comes up often.
    fn parts() -> impl Strategy<Value = Vec<Owned>> {
        let letters = prop::sample::select(b"1:an.".to_vec());
        let address = prop_oneof![
            any::<[u8; 4]>().prop_map(|octets| IpAddr::V4(Ipv4Addr::from(octets))),
            any::<[u16; 8]>().prop_map(|words| IpAddr::V6(Ipv6Addr::from(words))),
            Just(IpAddr::V4(Ipv4Addr::new(1, 1, 1, 1))),
        ];
        let one = prop_oneof![
            6 => prop::collection::vec(letters, 0..4).prop_map(Owned::Bytes),
            1 => Just(Owned::Bytes(b"1.1.1.1".to_vec())),
            1 => (0_u64..12).prop_map(Owned::Number),
            1 => address.prop_map(Owned::Address),
        ];
        prop::collection::vec(one, 0..4)
    }

    fn written(owned: &[Owned]) -> Vec<u8> {
        let parts: Vec<Part<'_>> = owned.iter().map(part).collect();
        canonical(&Key::from(parts.as_slice()))
    }

    proptest! {
        #[test]
        fn different_keys_are_written_differently_and_none_is_the_beginning_of_another(a in parts(), b in parts()) {
            prop_assert_eq!(written(&a) == written(&b), a == b);
            // What follows a key in a text can therefore not change whose key it is.
            prop_assert_eq!(written(&a).starts_with(&written(&b)), a.starts_with(&b));
        }
    }

    #[test]
    fn texts_that_look_like_other_parts_are_not_taken_for_them() {
        let address = Owned::Address(IpAddr::V4(Ipv4Addr::new(1, 1, 1, 1)));
        let [as_text, as_tag] = [b"1.1.1.1".to_vec(), b"a7:1.1.1.1".to_vec()].map(Owned::Bytes);
        for (a, b) in [
            (vec![address.clone()], vec![as_text]),
            (vec![address], vec![as_tag]),
            (vec![Owned::Number(1)], vec![Owned::Bytes(b"1".to_vec())]),
            (
                vec![Owned::Bytes(b"a1:b".to_vec())],
                vec![Owned::Bytes(b"a".to_vec()), Owned::Bytes(b"b".to_vec())],
            ),
        ] {
            assert_ne!(written(&a), written(&b), "{a:?} {b:?}");
        }
    }
}
