use std::net::{IpAddr, SocketAddr};

use http::Request;
use http::request::Parts;

use super::{Found, KeyBy, KeyValue, bearer, client_ip, header, key_fn, with_key};

fn head(lines: &[(&str, &str)]) -> Parts {
    let request =
        lines.iter().fold(Request::builder(), |request, (name, value)| request.header(*name, *value));
    request.body(()).expect("a request").into_parts().0
}

/// The key as bytes that no other key has.
fn key(key: &KeyBy, parts: &Parts, peer: Option<&str>) -> Option<String> {
    let peer: Option<IpAddr> = peer.map(|peer| peer.parse().expect("an address"));
    let Found::Key(pieces) = key.find(parts, peer) else { return None };
    let canonical = |key: ratekeeper::Key<'_>| {
        let mut bytes = Vec::new();
        key.write_canonical(&mut bytes);
        String::from_utf8(bytes).expect("text")
    };
    Some(with_key(&pieces, canonical).expect("short"))
}

#[test]
fn a_header_is_its_first_line_that_is_not_empty() {
    let of = |lines: &[(&str, &str)]| key(&header("X-Key"), &head(lines), None);
    assert_eq!(of(&[("x-key", " a ")]).as_deref(), Some("1:a"));
    assert_eq!(of(&[("x-key", ""), ("x-key", "b"), ("x-key", "c")]).as_deref(), Some("1:b"));
    assert_eq!(of(&[("x-key", "  ")]), None, "empty is nobody's key");
    assert_eq!(of(&[]), None);
}

#[test]
fn a_bearer_token_is_one_of_that_scheme() {
    let of = |value: &str| key(&bearer(), &head(&[("authorization", value)]), None);
    for value in ["Bearer abc", "bearer abc", "BEARER   abc "] {
        assert_eq!(of(value).as_deref(), Some("3:abc"), "{value}");
    }
    for value in ["Basic abc", "Bearer", "Bearer ", "Bearerabc", ""] {
        assert_eq!(of(value), None, "{value}");
    }
}

#[test]
fn an_address_is_the_peers_unless_a_trusted_proxy_says_another() {
    // B110: from the right, through trusted hops only.
    let trusting = client_ip().behind(["10.0.0.0/8"]);
    let of = |peer: &str, line: &[(&str, &str)]| key(&trusting, &head(line), Some(peer));
    for n in 1..=5 {
        let line = format!("198.51.100.{n}, 203.0.113.9");
        assert_eq!(of("10.0.0.5", &[("x-forwarded-for", &line)]).as_deref(), Some("a11:203.0.113.9"));
    }
    assert_eq!(of("203.0.113.50", &[("x-forwarded-for", "1.2.3.4")]).as_deref(), Some("a12:203.0.113.50"));
    assert_eq!(of("10.0.0.5", &[("x-forwarded-for", "garbage, 10.0.0.7")]).as_deref(), Some("a8:10.0.0.7"));
    assert_eq!(of("10.0.0.5", &[]).as_deref(), Some("a8:10.0.0.5"));
    let nobody = key(&client_ip(), &head(&[("x-forwarded-for", "1.2.3.4")]), Some("10.0.0.5"));
    assert_eq!(nobody.as_deref(), Some("a8:10.0.0.5"), "nobody's word is taken unless said so");
    let forwarded = client_ip().behind(["10.0.0.0/8"]).forwarded();
    let line = [("forwarded", "for=\"[2001:db8::1]:4711\";proto=https"), ("x-forwarded-for", "1.2.3.4")];
    assert_eq!(key(&forwarded, &head(&line), Some("10.0.0.5")).as_deref(), Some("a10:2001:db8::"));
}

#[test]
fn an_address_has_many_spellings_and_a_client_its_network() {
    // B112, B114, B115.
    let of = |peer: &str| key(&client_ip(), &head(&[]), Some(peer)).expect("an address");
    for same in ["::ffff:192.0.2.1", "::ffff:c000:201", "64:ff9b::c000:201", "64:ff9b::192.0.2.1"] {
        assert_eq!(of(same), of("192.0.2.1"), "{same}");
    }
    assert_ne!(of("::ffff:192.0.2.2"), of("192.0.2.1"));
    assert_eq!(of("2001:db8:1234:5678::192.0.2.1"), of("2001:db8:1234:5678:ffff::"));
    assert_ne!(of("2001:db8:1234:5678::1"), of("2001:db8:1234:5679::1"));
    let wide = client_ip().ipv6_prefix(48);
    let of_wide = |peer: &str| key(&wide, &head(&[]), Some(peer));
    assert_eq!(of_wide("2001:db8:1234:5678::1"), of_wide("2001:db8:1234:5679::1"));
}

#[test]
fn values_of_two_alternatives_are_never_the_same_key() {
    // B117: a user who is called like an address.
    let either = header("x-user").or(client_ip());
    let of = |user: Option<&str>, peer: &str| {
        let lines: Vec<(&str, &str)> = user.into_iter().map(|user| ("x-user", user)).collect();
        key(&either, &head(&lines), Some(peer)).expect("a key")
    };
    let anonymous = of(None, "203.0.113.9");
    for user in ["203.0.113.9", "global", "overflow", "*", "n1:1a11:203.0.113.9", "ip=203.0.113.9"] {
        assert_ne!(of(Some(user), "203.0.113.9"), anonymous, "{user}");
    }
    assert_ne!(of(None, "203.0.113.10"), anonymous);
    assert!(matches!(either.find(&head(&[]), None), Found::NoPeer));
}

#[test]
fn parts_of_a_key_never_run_together() {
    // B116r.
    let both = header("x-a").and(header("x-b"));
    let of = |a: &str, b: &str| key(&both, &head(&[("x-a", a), ("x-b", b)]), None);
    assert_ne!(of("aa", "b"), of("a", "ab"));
    assert_eq!(key(&both, &head(&[("x-a", "a")]), None), None, "one of them alone is no key");
    let values = |value: KeyValue| key(&key_fn(move |_| Some(value.clone())), &head(&[]), None);
    assert_ne!(values(("aa", "b").into()), values(("a", "ab").into()));
    assert_ne!(values(("", "a").into()), values(("a", "").into()));
    assert_ne!(values(7_u64.into()), values("7".into()));
    let several = |list: &[KeyValue]| KeyValue::Several(list.to_vec());
    let (a, b, c): (KeyValue, KeyValue, KeyValue) = ("a".into(), "b".into(), "c".into());
    let shapes = [
        several(&[a.clone(), b.clone(), c.clone()]),
        several(&[several(&[a.clone(), b.clone()]), c.clone()]),
        several(&[a.clone(), several(&[b.clone(), c.clone()])]),
        several(&[several(std::slice::from_ref(&a)), b.clone(), c.clone()]),
        several(&[several(&[several(&[a.clone(), b.clone()])]), c.clone()]),
        several(&[2_u64.into(), a.clone(), b.clone(), c.clone()]),
        several(&[3_u64.into(), a.clone(), b.clone(), c.clone()]),
        several(&[0_u64.into(), 3_u64.into(), a, b, c]),
    ];
    let keys: std::collections::HashSet<_> = shapes.iter().map(|shape| values(shape.clone())).collect();
    assert_eq!(keys.len(), shapes.len(), "a list within a list is not its parts");
    assert_eq!(values("".into()), None, "empty is nobody's key");
}

#[test]
fn a_handler_finds_the_same_key_as_the_layer() {
    let mut parts = head(&[]);
    parts.extensions.insert(SocketAddr::from(([192, 0, 2, 1], 7)));
    let found = client_ip()
        .with_key(&parts, |key| key == ratekeeper::Key::from(std::net::Ipv4Addr::new(192, 0, 2, 1)));
    assert_eq!(found, Some(true));
    assert_eq!(header("x-user").with_key(&parts, |_| ()), None);
}

#[test]
fn mistakes_of_a_key_are_kept_for_the_builder() {
    for key in [
        header("x key"),
        client_ip().behind(["10.0.0.0/33"]),
        client_ip().ipv6_prefix(0),
        header("x-a").or(client_ip().ipv6_prefix(129)),
        client_ip().behind(["proxy"]).and(header("x-a")),
    ] {
        assert!(key.wrong().is_some(), "{key}");
    }
}
