//! Whose address a request has, as it goes wrong elsewhere, and what the file says about it.

use std::net::IpAddr;

use ratekeeper_policy::{
    Call, ClientIp, Config, Forwarding, MAX_TRUSTED_PROXIES, Network, Source, WalkEnd, Which,
};

use crate::{codes, limits, parse};

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

/// What a file says in `client_ip`.
fn client_ip(fields: &str) -> ClientIp {
    parse(&format!("version: 1\nclient_ip: {{ {fields} }}\n")).expect(fields).client_ip
}

/// The address that is found for a peer that sends these lines of the file's header.
fn found(client_ip: &ClientIp, peer: &str, lines: &[&str]) -> String {
    let headers: Vec<(&str, &[u8])> =
        lines.iter().map(|line| (client_ip.header.as_str(), line.as_bytes())).collect();
    let source = Source::Peer(ip(peer));
    let client = client_ip.find(source, &headers).expect("a peer is somebody");
    assert_eq!(client_ip.walk(source, &headers).client, Some(client));
    client.to_string()
}

const XFF: &str = "trusted_proxies: [10.0.0.0/8]";
const FORWARDED: &str = "trusted_proxies: [10.0.0.0/8], header: forwarded";

#[test]
fn b110_the_client_is_the_first_untrusted_address_from_the_right() {
    let client_ip = client_ip(XFF);
    for n in 1..=5 {
        let line = format!("198.51.100.{n}, 203.0.113.9");
        assert_eq!(found(&client_ip, "10.0.0.5", &[&line]), "203.0.113.9");
    }
    for (peer, lines, client) in [
        // An untrusted peer invents what it likes.
        ("203.0.113.50", ["198.51.100.1"].as_slice(), "203.0.113.50"),
        ("203.0.113.50", &["10.0.0.1"], "203.0.113.50"),
        // Garbage ends the walk, and nothing left of it counts.
        ("10.0.0.5", &["garbage, 10.0.0.7"], "10.0.0.7"),
        ("10.0.0.5", &["198.51.100.1, garbage, 10.0.0.7"], "10.0.0.7"),
        ("10.0.0.5", &["198.51.100.1, garbage"], "10.0.0.5"),
        ("10.0.0.5", &[], "10.0.0.5"),
        ("10.0.0.5", &["10.0.0.7, 10.0.0.6"], "10.0.0.7"),
        ("10.0.0.5", &["203.0.113.9, 10.0.0.7, 10.0.0.6"], "203.0.113.9"),
        ("::ffff:10.0.0.5", &["203.0.113.9, ::ffff:10.0.0.6"], "203.0.113.9"),
    ] {
        assert_eq!(found(&client_ip, peer, lines), client, "{peer} {lines:?}");
    }
}

#[test]
fn b110_a_client_that_is_named_is_taken_at_its_word_and_a_socket_needs_the_header() {
    let client_ip = client_ip(XFF);
    let headers: &[(&str, &[u8])] = &[("X-Forwarded-For", b"198.51.100.1, 203.0.113.9")];
    assert_eq!(client_ip.find(Source::Client(ip("10.0.0.5")), headers), Some(ip("10.0.0.5")));
    assert_eq!(client_ip.find(Source::Client(ip("::ffff:10.0.0.5")), headers), Some(ip("10.0.0.5")));
    assert_eq!(client_ip.find(Source::Unknown, headers), None);
    assert_eq!(client_ip.find(Source::Local, headers), Some(ip("203.0.113.9")));
    assert_eq!(client_ip.find(Source::Local, &[]), None);
    assert_eq!(client_ip.find(Source::Local, &[("x-forwarded-for", b"203.0.113.9, _hidden")]), None);
    // Nobody is trusted until the file says so.
    let default = ClientIp::default();
    assert_eq!(default.find(Source::Peer(ip("10.0.0.5")), headers), Some(ip("10.0.0.5")));
    assert_eq!(default.find(Source::Local, headers), Some(ip("203.0.113.9")));
}

#[test]
fn b110_only_the_header_of_the_file_counts() {
    let headers: &[(&str, &[u8])] =
        &[("forwarded", b"for=203.0.113.1"), ("x-forwarded-for", b"203.0.113.2"), ("x-real-ip", b"1.1.1.1")];
    let peer = Source::Peer(ip("10.0.0.5"));
    assert_eq!(client_ip(XFF).find(peer, headers), Some(ip("203.0.113.2")));
    assert_eq!(client_ip(FORWARDED).find(peer, headers), Some(ip("203.0.113.1")));
}

#[test]
fn b112_spellings_of_one_address_are_one_client() {
    let xff = client_ip(XFF);
    for (line, client) in [
        ("[2001:db8::1]:443", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("2001:DB8:0:0::1", "2001:db8::1"),
        ("203.0.113.9:1234", "203.0.113.9"),
        (" 203.0.113.9 ", "203.0.113.9"),
        ("\"203.0.113.9\"", "203.0.113.9"),
        ("fe80::1%eth0", "fe80::1"),
        ("unknown", "10.0.0.5"),
        ("_hidden", "10.0.0.5"),
        ("", "10.0.0.5"),
        ("203.0.113.9,", "10.0.0.5"),
        ("203.0.113.9, ,10.0.0.6", "10.0.0.6"),
    ] {
        assert_eq!(found(&xff, "10.0.0.5", &[line]), client, "{line}");
    }
    let forwarded = client_ip(FORWARDED);
    for (line, client) in [
        ("for=\"[2001:db8::1]:4711\";proto=https", "2001:db8::1"),
        ("FOR=203.0.113.9", "203.0.113.9"),
        ("for=6.6.6.6, host=\"a,b\";for=203.0.113.9, for=\"10.0.0.6:80\"", "203.0.113.9"),
        ("for=203.0.113.9, for=unknown", "10.0.0.5"),
        ("for=203.0.113.9, proto=https", "10.0.0.5"),
        ("for=\"6.6.6.6, for=203.0.113.9", "203.0.113.9"),
    ] {
        assert_eq!(found(&forwarded, "10.0.0.5", &[line]), client, "{line}");
    }
}

#[test]
fn b112_lines_are_joined_in_their_order_and_a_long_one_is_not_read_to_its_end() {
    let xff = client_ip(XFF);
    let three = ["198.51.100.1", "203.0.113.9, 10.0.0.8", "10.0.0.7"];
    assert_eq!(found(&xff, "10.0.0.5", &three), "203.0.113.9");
    assert_eq!(found(&xff, "10.0.0.5", &["203.0.113.9", "", "10.0.0.7"]), "10.0.0.7");
    assert_eq!(found(&xff, "10.0.0.5", &["203.0.113.9", ""]), "10.0.0.5");
    let long = format!("203.0.113.9{}", ", 10.0.0.7".repeat(199));
    assert_eq!(found(&xff, "10.0.0.5", &[&long]), "10.0.0.7");
    let lines = vec!["10.0.0.7"; 199];
    assert_eq!(found(&xff, "10.0.0.5", &[&["203.0.113.9"], lines.as_slice()].concat()), "10.0.0.7");
    // A string does not go on in another line.
    let forwarded = client_ip(FORWARDED);
    assert_eq!(
        found(&forwarded, "10.0.0.5", &["for=6.6.6.6;a=\"", "for=203.0.113.9;b=\"c\""]),
        "203.0.113.9"
    );
    assert_eq!(found(&forwarded, "10.0.0.5", &["for=6.6.6.6;a=\"", "\";for=203.0.113.9"]), "10.0.0.5");
}

/// Which of these addresses are one key.
fn keys(addresses: &[&str]) -> Vec<String> {
    let client_ip = client_ip(XFF);
    let key = |address: &&str| client_ip.masked(ip(&found(&client_ip, "10.0.0.5", &[address]))).to_string();
    addresses.iter().map(key).collect()
}

#[test]
fn b114_an_ipv4_address_within_ipv6_is_that_ipv4_address() {
    let addresses = [
        "::ffff:192.0.2.1",
        "::ffff:c000:201",
        "192.0.2.1",
        "::ffff:192.0.2.2",
        "2001:db8:1234:5678::192.0.2.1",
    ];
    let wanted = ["192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2", "2001:db8:1234:5678::"];
    assert_eq!(keys(&addresses), wanted);
    // Those who come to a listener of both families themselves, too.
    for (address, key) in addresses.iter().zip(wanted) {
        let default = ClientIp::default();
        assert_eq!(default.masked(default.find(Source::Peer(ip(address)), &[]).unwrap()), ip(key));
    }
}

#[test]
fn b115_a_translated_client_is_its_ipv4_address() {
    let addresses =
        ["64:ff9b::c000:201", "64:ff9b::c000:202", "64:ff9b::192.0.2.1", "64:ff9b:1::c000:201", "192.0.2.1"];
    assert_eq!(keys(&addresses), ["192.0.2.1", "192.0.2.2", "192.0.2.1", "64:ff9b:1::", "192.0.2.1"]);
}

#[test]
fn b10_an_ipv6_prefix_of_zero_is_refused() {
    for (prefix, wanted) in
        [("0", vec!["out-of-range"]), ("129", vec!["out-of-range"]), ("1", vec![]), ("128", vec![])]
    {
        let file = format!("version: 1\nclient_ip: {{ ipv6_prefix: {prefix} }}\n");
        assert_eq!(codes(&file), wanted, "{prefix}");
    }
    assert_eq!(client_ip("ipv6_prefix: 1").ipv6_prefix, 1);
    assert_eq!(client_ip("ipv6_prefix: 128").ipv6_prefix, 128);
}

#[test]
fn client_ip_of_the_file_is_read_and_its_defaults_hold() {
    let nothing = ClientIp { trusted: Vec::new(), header: Forwarding::XForwardedFor, ipv6_prefix: 64 };
    assert_eq!(parse("version: 1\n").unwrap().client_ip, nothing);
    assert_eq!(client_ip(""), nothing);
    assert_eq!(client_ip("trusted_proxies: []"), nothing);
    let all = client_ip(
        "trusted_proxies: [10.0.0.0/8, '::1', ::ffff:192.0.2.0/120, 2001:db8::/32], header: forwarded, ipv6_prefix: 56",
    );
    let networks = ["10.0.0.0/8", "::1", "192.0.2.0/24", "2001:db8::/32"];
    let trusted = networks.map(|text| Network::parse(text).unwrap()).to_vec();
    assert_eq!(all, ClientIp { trusted, header: Forwarding::Forwarded, ipv6_prefix: 56 });
}

#[test]
fn a_variable_may_hold_a_network() {
    let file = b"version: 1\nclient_ip:\n  trusted_proxies:\n    - 10.0.0.1\n    - ${PROXY}\n";
    let env = |name: &str| (name == "PROXY").then(|| "192.0.2.0/24".to_owned());
    let trusted = Config::parse("f", file, &env).unwrap().client_ip.trusted;
    assert_eq!(trusted.iter().map(ToString::to_string).collect::<Vec<_>>(), ["10.0.0.1", "192.0.2.0/24"]);
}

#[test]
fn a_thousand_networks_are_trusted_and_no_more() {
    let file = |number: usize| {
        let items: String = (0..number).map(|i| format!("    - 10.{}.{}.0/24\n", i / 256, i % 256)).collect();
        format!("version: 1\nclient_ip:\n  trusted_proxies:\n{items}")
    };
    let config = parse(&file(MAX_TRUSTED_PROXIES)).unwrap();
    assert_eq!(config.client_ip.trusted.len(), MAX_TRUSTED_PROXIES);
    let errors = parse(&file(MAX_TRUSTED_PROXIES + 1)).expect_err("one too many");
    assert_eq!((errors.items.len(), errors.items[0].code, errors.items[0].line), (1, "out-of-range", 1_004));
    // The last of them counts as the first, and says where it is.
    let last = Source::Peer(ip("10.3.231.1"));
    let walk = config.client_ip.walk(last, &[]);
    assert_eq!((walk.hops[0].network, walk.end), (MAX_TRUSTED_PROXIES - 1, WalkEnd::NoHeader));
}

#[test]
fn trusting_everybody_is_warned_about_where_it_stands() {
    for network in ["0.0.0.0/0", "::/0", "::ffff:0:0/96"] {
        let file = format!(
            "version: 1\nclient_ip:\n  trusted_proxies: [10.0.0.0/8, {network}]\n{}",
            &limits(&["name: a, algorithm: gcra, limit: 1/s"])[11..]
        );
        let config = parse(&file).expect(network);
        let warnings = config.warnings();
        assert_eq!(warnings.len(), 1, "{network}: {warnings:?}");
        assert_eq!((warnings[0].code, warnings[0].line), ("trusts-everybody", 3));
        assert_eq!(&file[warnings[0].span.clone()], network);
        assert_eq!(config.client_ip.trusted.len(), 2);
    }
    assert_eq!(
        parse("version: 1\nclient_ip: { trusted_proxies: [0.0.0.0/1] }\n").unwrap().warnings().len(),
        1
    );
}

/// A caller that names an address means the key of the client that has it.
#[test]
fn callers_addresses_are_cut_at_the_prefix_of_the_file() {
    let one =
        limits(&["name: a, algorithm: gcra, limit: 1/s", "name: b, algorithm: gcra, limit: 1/s, key: [ip]"]);
    for (client_ip, same) in [("", false), ("client_ip: { ipv6_prefix: 56 }\n", true)] {
        let config = parse(&format!("{one}{client_ip}")).unwrap();
        let policy = &config.policies[0];
        let keys = [("b", "2001:db8::1"), ("b", "2001:db8:0:ff::1")];
        let [first, second] = [&keys[..1], &keys[1..]]
            .map(|keys| policy.named(&Call { key: Some(keys[0].1), keys, cost: 1 }, Which::All).unwrap());
        for ((_, first), (_, second)) in first.checks().zip(second.checks()) {
            assert_eq!(first.key == second.key, same, "{client_ip}");
        }
        assert_eq!(first.checks().count(), 2);
    }
}
