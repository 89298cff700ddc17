use core::net::Ipv4Addr;

use ratekeeper_core::Part;

use super::*;
use crate::found::NotGiven;

fn parse(text: &str) -> Result<String, String> {
    KeyPart::parse(text).map(|part| part.to_string()).map_err(|fault| fault.message)
}

fn spec(alternatives: &[&[&str]]) -> KeySpec {
    let part = |text: &&str| KeyPart::parse(text).unwrap();
    KeySpec::new(
        alternatives.iter().map(|parts| Alternative::new(parts.iter().map(part).collect())).collect(),
    )
}

#[test]
fn kinds_are_read_and_written_back() {
    for text in [
        "ip",
        "header:x-api-key",
        "cookie:session",
        "query:api_key",
        "path:tenant",
        "path",
        "host",
        "method",
        "global",
        "descriptor",
        "descriptor:user",
        "descriptor:user#2",
        "descriptor:user#255",
        "cookie:SID",
        "query:schlüssel",
    ] {
        assert_eq!(parse(text).as_deref(), Ok(text));
    }
    assert_eq!(parse("header:X-Api-Key").as_deref(), Ok("header:x-api-key"), "fields of HTTP have no case");
    assert_eq!(parse("descriptor:user#1").as_deref(), Ok("descriptor:user"));
    assert!(parse(&format!("header:{}", "x".repeat(128))).is_ok());
}

#[test]
fn what_is_no_kind_is_refused() {
    for text in [
        "",
        "IP",
        "ip:",
        "ip:4",
        "header",
        "header:",
        "header:a b",
        "header:a:b",
        "cookie:a;b",
        "query:a=b",
        "query:a,b",
        "query:a b",
        "path:",
        "global:x",
        "descriptor:",
        "descriptor:#2",
        "descriptor:a#0",
        "descriptor:a#02",
        "descriptor:a#+2",
        "descriptor:a#256",
        "descriptor:a#",
        "user",
        "header:\u{7f}",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
    assert!(parse(&format!("header:{}", "x".repeat(129))).is_err());
}

/// The parts of the key that a caller's text stands for.
fn key<'a>(spec: &'a KeySpec, text: &'a str) -> Option<Vec<Part<'a>>> {
    spec.given(text).ok().map(|found| found.parts().to_vec())
}

#[test]
fn a_bare_key_is_a_value_of_the_first_alternative() {
    let spec = spec(&[&["header:x-api-key"], &["ip"]]);
    assert_eq!(key(&spec, "abc"), Some(vec!["header:x-api-key".into(), "abc".into()]));
    assert_eq!(key(&spec, "203.0.113.9"), Some(vec!["header:x-api-key".into(), "203.0.113.9".into()]));
    assert_eq!(key(&spec, "ip=203.0.113.9"), Some(vec!["ip".into(), Ipv4Addr::new(203, 0, 113, 9).into()]));
    assert_eq!(key(&spec, "header:x-api-key=abc"), key(&spec, "abc"));
    assert_eq!(key(&spec, "header:X-Api-Key=abc"), key(&spec, "abc"));
}

#[test]
fn only_an_alternative_before_the_first_equals_sign_is_a_name() {
    let spec = spec(&[&["header:x-api-key"], &["ip"]]);
    for value in ["a=b", "host=x", "IP=x", " ip=x", "=x", "ip", "a=ip=b", "ip:4=x"] {
        assert_eq!(key(&spec, value), Some(vec!["header:x-api-key".into(), value.into()]), "{value}");
    }
    assert_eq!(key(&spec, "ip=a=b"), Some(vec!["ip".into(), "a=b".into()]));
    assert_eq!(key(&spec, "ip=ip=a"), Some(vec!["ip".into(), "ip=a".into()]));
}

#[test]
fn spellings_of_an_address_and_addresses_of_one_network_are_one_key() {
    let spec = spec(&[&["ip"], &["header:x-user"]]);
    let same = |one: &str, other: &str| key(&spec, one) == key(&spec, other);
    for spelling in ["2001:DB8::1", "2001:db8:0:0::1", "2001:db8::2", "2001:db8::ffff:ffff:ffff:ffff"] {
        assert!(same("2001:db8::1", spelling), "{spelling}");
        assert!(same("ip=2001:db8::1", spelling), "{spelling}");
    }
    for (ours, other) in [
        ("2001:db8::1", "2001:db8:0:1::1"),
        ("1.2.3.4", "1.2.3.5"),
        ("::ffff:1.2.3.4", "::ffff:1.2.3.5"),
        ("64:ff9b::1.2.3.4", "64:ff9b::1.2.3.5"),
        ("::1", "127.0.0.1"),
        // Not IPv4 within IPv6, however it is written.
        ("2001:db8::192.0.2.1", "192.0.2.1"),
    ] {
        assert!(!same(ours, other), "{ours} {other}");
    }
    for (ours, other) in [
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("::FFFF:102:304", "1.2.3.4"),
        ("64:ff9b::1.2.3.4", "1.2.3.4"),
        ("2001:db8::192.0.2.1", "2001:db8::"),
    ] {
        assert!(same(ours, other), "{ours} {other}");
    }
    // What is no address is a key as it stands, and so is an address where no address is meant.
    for text in [" 1.2.3.4", "1.2.3.4 ", "1.2.3", "01.2.3.4", "1.2.3.4:80", "[::1]", "fe80::1%eth0", "user"] {
        assert_eq!(key(&spec, text), Some(vec!["ip".into(), text.into()]), "{text}");
    }
    assert_eq!(key(&spec, "header:x-user=1.2.3.4"), Some(vec!["header:x-user".into(), "1.2.3.4".into()]));
}

#[test]
fn values_of_different_alternatives_are_different_keys() {
    let spec = spec(&[&["header:x-user"], &["ip"], &["header:x-tenant", "ip"]]);
    let keys = [
        key(&spec, "203.0.113.9"),
        key(&spec, "ip=203.0.113.9"),
        key(&spec, "header:x-tenant,ip=t,203.0.113.9"),
    ];
    for (i, a) in keys.iter().enumerate() {
        for (j, b) in keys.iter().enumerate() {
            assert_eq!(a == b, i == j);
        }
    }
}

#[test]
fn no_value_is_no_key_and_global_needs_none() {
    let named = spec(&[&["header:x-user"], &["ip"], &["global"]]);
    assert_eq!(key(&named, ""), None);
    assert_eq!(key(&named, "ip="), None);
    assert_eq!(key(&named, "global="), Some(vec!["global".into(), "".into()]));
    assert_eq!(key(&named, "global=x"), Some(vec!["global".into(), "".into()]));
    assert!(!named.is_global());
    assert!(spec(&[&["global"]]).is_global());
    assert_eq!(named.to_string(), "[header:x-user, ip, global]");
    assert_eq!(spec(&[&["header:x-tenant", "ip"], &["ip"]]).to_string(), "[[header:x-tenant, ip], ip]");
}

#[test]
fn the_values_of_several_parts_are_joined_by_commas() {
    let spec = spec(&[&["header:x-tenant", "ip"], &["header:x-user"]]);
    let text = "header:x-tenant,ip";
    let address = Part::Address([203, 0, 113, 9].into());
    assert_eq!(key(&spec, "t,203.0.113.9"), Some(vec![text.into(), "t".into(), address]));
    // Only what separates is one: the last value may have commas.
    assert_eq!(key(&spec, "t,a,b"), Some(vec![text.into(), "t".into(), "a,b".into()]));
    assert_eq!(key(&spec, "header:x-user=t,u"), Some(vec!["header:x-user".into(), "t,u".into()]));
    for (text, wrong) in [
        ("t", NotGiven::Parts(2)),
        ("t,", NotGiven::Empty),
        (",203.0.113.9", NotGiven::Empty),
        ("", NotGiven::Empty),
    ] {
        assert_eq!(spec.given(text).unwrap_err(), wrong, "{text}");
    }
}

#[test]
fn the_prefix_of_the_file_is_the_prefix_of_addresses_that_callers_give() {
    for (prefix, same, other) in [
        (56, "2001:db8:0:ff::1", "2001:db8:0:100::"),
        (64, "2001:db8::ffff", "2001:db8:0:1::"),
        (128, "2001:DB8::", "2001:db8::1"),
        (1, "7fff::", "8000::"),
    ] {
        let spec = spec(&[&["ip"]]).with_ipv6_prefix(prefix);
        assert_eq!(key(&spec, "2001:db8::"), key(&spec, same), "/{prefix}");
        assert_ne!(key(&spec, "2001:db8::"), key(&spec, other), "/{prefix}");
        assert_ne!(key(&spec, "192.0.2.1"), key(&spec, "192.0.2.2"), "/{prefix}");
    }
}
