use core::net::{Ipv4Addr, Ipv6Addr};

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

fn network(text: &str) -> Network {
    Network::parse(text).expect(text)
}

fn trusting(networks: &[&str], header: Forwarding) -> ClientIp {
    ClientIp { trusted: networks.iter().map(|text| network(text)).collect(), header, ..ClientIp::default() }
}

/// What an element of `forwarded` names, as text; `-` if nothing.
fn forwarded(line: &str) -> String {
    let lines = [line.as_bytes()];
    let last = Elements::new(Forwarding::Forwarded, lines.into_iter()).next().unwrap();
    last.address().map_or_else(|| "-".to_owned(), |address| address.to_string())
}

#[test]
fn addresses_are_read_in_all_their_spellings() {
    for (text, address) in [
        ("203.0.113.9", "203.0.113.9"),
        (" 203.0.113.9\t", "203.0.113.9"),
        ("203.0.113.9:1234", "203.0.113.9"),
        ("203.0.113.9:00080", "203.0.113.9"),
        ("203.0.113.9:_hidden", "203.0.113.9"),
        ("\"203.0.113.9:1\"", "203.0.113.9"),
        (" \" 203.0.113.9 \" ", "203.0.113.9"),
        ("2001:DB8:0:0::1", "2001:db8::1"),
        ("[2001:db8::1]", "2001:db8::1"),
        ("\"[2001:db8::1]:65535\"", "2001:db8::1"),
        // Without brackets nothing is a port.
        ("2001:db8::1:443", "2001:db8::1:443"),
        ("fe80::1%eth0", "fe80::1"),
        ("[fe80::1%25en-0.1_~]:443", "fe80::1"),
        ("::", "::"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("[::FFFF:C000:201]:80", "192.0.2.1"),
        ("64:ff9b::192.0.2.1", "192.0.2.1"),
        ("64:ff9b:1::c000:201", "64:ff9b:1::c000:201"),
        ("64:ff9b:0:0:0:1:c000:201", "64:ff9b::1:c000:201"),
        ("2001:db8::192.0.2.1", "2001:db8::c000:201"),
    ] {
        assert_eq!(parse_address(text), Some(ip(address)), "{text}");
    }
}

#[test]
fn what_is_no_address_is_none() {
    for text in [
        "",
        " ",
        "\"",
        "\"\"",
        "\"1.2.3.4",
        "1.2.3.4\"",
        "\"\"1.2.3.4\"\"",
        "unknown",
        "_hidden",
        "localhost",
        "1.2.3",
        "01.2.3.4",
        "1.2.3.4.",
        "1.2.3.4:",
        "1.2.3.4:65536",
        "1.2.3.4:+1",
        "1.2.3.4:_",
        "1.2.3.4:_a b",
        "1.2.3.4:http",
        "1.2.3.4%eth0",
        "1.2.3.4, 5.6.7.8",
        "1.2.3.4/32",
        "[1.2.3.4]",
        "[1.2.3.4]:80",
        "[::1",
        "::1]",
        "[::1]80",
        "[::1]:",
        "[::1] :80",
        "[[::1]]",
        "fe80::1%",
        "fe80::1%eth0:80",
        "fe80::1%a b",
        ":80",
        "::1::",
        "1.2.3.4\u{a0}",
        "\u{ff11}.2.3.4",
        "1.2.3.4\0",
    ] {
        assert_eq!(parse_address(text), None, "{text}");
    }
}

#[test]
fn a_text_longer_than_any_address_is_none() {
    let text = |zone: usize| format!("fe80::1%{}", "z".repeat(zone));
    let most = MAX_ADDRESS_BYTES - "fe80::1%".len();
    assert_eq!(parse_address(&text(most)), Some(ip("fe80::1")));
    assert_eq!(parse_address(&text(most + 1)), None);
    assert_eq!(parse_address(&format!("  \t{}  ", text(most))), Some(ip("fe80::1")), "spaces do not count");
    assert_eq!(forwarded(&format!("for=\"\\{}\"", text(most))), "fe80::1");
    assert_eq!(forwarded(&format!("for=\"\\{}\"", text(most + 1))), "-");
}

#[test]
fn a_prefix_cuts_ipv6_at_every_length_and_ipv4_at_none() {
    let ones = IpAddr::V6(Ipv6Addr::from_bits(u128::MAX));
    for prefix in 1..=128_u8 {
        let client_ip = ClientIp { ipv6_prefix: prefix, ..ClientIp::default() };
        let IpAddr::V6(masked) = client_ip.masked(ones) else { panic!("/{prefix}") };
        assert_eq!(masked.to_bits().leading_ones(), u32::from(prefix));
        assert_eq!(masked.to_bits().count_ones(), u32::from(prefix));
        assert_eq!(client_ip.masked(ip("255.255.255.255")), ip("255.255.255.255"));
        assert_eq!(client_ip.masked(ip("::ffff:255.255.255.255")), ip("255.255.255.255"));
        assert_eq!(client_ip.masked(ip("64:ff9b::ffff:ffff")), ip("255.255.255.255"));
    }
    assert_eq!(ClientIp::default().masked(ip("2001:db8:1:2:3:4:5:6")), ip("2001:db8:1:2::"));
}

#[test]
fn networks_are_read_in_one_form() {
    for (text, form) in [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("10.0.0.5", "10.0.0.5"),
        ("10.0.0.5/32", "10.0.0.5"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("2001:DB8::/32", "2001:db8::/32"),
        ("::1", "::1"),
        ("::1/128", "::1"),
        ("::/0", "::/0"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("::ffff:0:0/96", "0.0.0.0/0"),
        ("64:ff9b::/96", "0.0.0.0/0"),
        ("64:ff9b::a00:0/104", "10.0.0.0/8"),
        ("64:ff9b:1::/48", "64:ff9b:1::/48"),
    ] {
        let network = network(text);
        assert_eq!(network.to_string(), form, "{text}");
        assert_eq!(Network::parse(form), Ok(network));
        assert_eq!(Network::around(network.address(), network.prefix_len()), network);
    }
}

#[test]
fn what_is_no_network_is_refused_with_what_to_write() {
    for (text, hint) in [
        ("10.0.0.5/8", "write `10.0.0.0/8`"),
        ("2001:db8::1/64", "write `2001:db8::/64`"),
        ("::ffff:10.0.0.5/104", "write `10.0.0.0/8`"),
        ("0.0.0.1/0", "write `0.0.0.0/0`"),
        ("10.0.0.0/255.0.0.0", "write `10.0.0.0/8`"),
        ("10.0.0.5/255.255.255.255", "write `10.0.0.5`"),
        ("10.0.0.0/0.0.0.0", "write `0.0.0.0/0`"),
        ("10.0.0.0/255.0.255.0", "0 to 32"),
        ("10.0.0.0/33", "0 to 32"),
        ("10.0.0.0/08", "0 to 32"),
        ("10.0.0.0/+8", "0 to 32"),
        ("10.0.0.0/", "0 to 32"),
        ("10.0.0.0/8/8", "0 to 32"),
        ("::/129", "0 to 128"),
        ("::/255.0.0.0", "0 to 128"),
        ("::ffff:0:0/95", "write the IPv4 network, for example `10.0.0.0/8`"),
        ("64:ff9b::/64", "write the IPv4 network, for example `10.0.0.0/8`"),
        ("10.0.0.1:80", "write `10.0.0.1`"),
        ("[2001:db8::1]:80", "write `2001:db8::1`"),
        ("[2001:db8::]/32", "write `2001:db8::/32`"),
        ("fe80::1%eth0", "write `fe80::1`"),
        ("", network::EXAMPLE),
        ("10", network::EXAMPLE),
        ("10/8", network::EXAMPLE),
        ("10.*", network::EXAMPLE),
        ("proxy.example", network::EXAMPLE),
    ] {
        let wrong = Network::parse(text).expect_err(text);
        assert_eq!(wrong.hint(), Some(hint), "{text}");
        assert!(wrong.to_string().contains('`'), "{wrong}");
    }
}

#[test]
fn a_network_holds_its_first_and_last_address_and_not_their_neighbours() {
    for prefix in 1..=32_u8 {
        let network = Network::around(ip("170.85.170.85"), prefix);
        let IpAddr::V4(first) = network.address() else { panic!("IPv4") };
        let last = u32::try_from(u64::from(first.to_bits()) + (1 << (32 - prefix)) - 1).unwrap();
        let held = |bits: u32| network.contains(Ipv4Addr::from_bits(bits).into());
        assert!(held(first.to_bits()) && held(last), "/{prefix}");
        assert!(!held(first.to_bits().wrapping_sub(1)) && !held(last.wrapping_add(1)), "/{prefix}");
        assert!(network.contains(first.to_ipv6_mapped().into()));
    }
    for prefix in 1..=128_u8 {
        let network = Network::around(ip("aaaa:5555:aaaa:5555:aaaa:5555:aaaa:5555"), prefix);
        let IpAddr::V6(first) = network.address() else { panic!("IPv6") };
        let last = first.to_bits() + ((1 << (128 - prefix)) - 1);
        let held = |bits: u128| network.contains(Ipv6Addr::from_bits(bits).into());
        assert!(held(first.to_bits()) && held(last), "/{prefix}");
        assert!(!held(first.to_bits().wrapping_sub(1)) && !held(last.wrapping_add(1)), "/{prefix}");
    }
    // A family is never in the other.
    assert!(!network("::/0").contains(ip("10.0.0.1")) && !network("0.0.0.0/0").contains(ip("::1")));
    assert!(!network("::/0").contains(ip("::ffff:10.0.0.1")));
    assert!(network("0.0.0.0/0").contains(ip("64:ff9b::1")) && network("::/0").contains(ip("::1")));
}

#[test]
fn forwarded_names_its_address_among_other_parameters() {
    for (line, address) in [
        ("for=192.0.2.1", "192.0.2.1"),
        ("For=\"192.0.2.1\"", "192.0.2.1"),
        ("FOR=\"[2001:db8::1]:4711\";proto=https", "2001:db8::1"),
        ("by=203.0.113.1;for=192.0.2.1", "192.0.2.1"),
        ("proto=https;host=\"a,b;for=6.6.6.6\";for=192.0.2.1;by=\"_x\"", "192.0.2.1"),
        ("host=\"a\\\",\\\\\";for=192.0.2.1", "192.0.2.1"),
        ("for=192.0.2.1;host=\",\\\\\"", "192.0.2.1"),
        ("for=\"\\1\\92.0.2.1\"", "192.0.2.1"),
        (" ; for=192.0.2.1 ;; proto=http ; ", "192.0.2.1"),
        // Not by the book, but clear.
        ("for=192.0.2.1:80;host=a:80", "192.0.2.1"),
        ("for=[2001:db8::1]:80", "2001:db8::1"),
        ("for=2001:db8::1", "2001:db8::1"),
        ("for=6.6.6.6, for=192.0.2.1", "192.0.2.1"),
        ("for=\"6.6.6.6,for=192.0.2.1", "192.0.2.1"),
        ("for=\"\\,for=192.0.2.1", "192.0.2.1"),
        ("\\\",for=\"192.0.2.1\"", "192.0.2.1"),
    ] {
        assert_eq!(forwarded(line), address, "{line}");
    }
}

#[test]
fn forwarded_that_is_not_well_formed_names_nobody() {
    for line in [
        "",
        "192.0.2.1",
        "for",
        "for=",
        "for=\"\"",
        "for =192.0.2.1",
        "for= 192.0.2.1",
        "for=unknown",
        "for=_hidden",
        "forr=192.0.2.1",
        "proto=https",
        "for=192.0.2.1;for=192.0.2.1",
        "for=192.0.2.1 proto=https",
        "for=192.0.2.1;proto",
        "for=192.0.2.1;=x",
        "for=192.0.2.1;a b=x",
        "for=192.0.2.1;x=\"",
        "for=192.0.2.1;x=\"a\\\"",
        "for=192.0.2.1;x=\"a\"b",
        "for=192.0.2.1;x=a\"b\"",
        "for=\"192.0.2.1",
        "for=192.0.2.1\"",
        "for=\"192.0.2.1\\\"",
        "for=\"\\\"192.0.2.1\\\"\"",
        "for=192.0.2.1, x\"",
        "for=192.0.2.1,",
        "for=192.0.2.1\u{e4}",
    ] {
        assert_eq!(forwarded(line), "-", "{line}");
    }
}

#[test]
fn sixty_four_elements_are_read_and_no_more() {
    let client_ip = trusting(&["10.0.0.0/8"], Forwarding::XForwardedFor);
    let peer = Source::Peer(ip("10.0.0.1"));
    let line = |trusted: usize| format!("203.0.113.9{}", ", 10.0.0.2".repeat(trusted));
    let most = line(MAX_FORWARDED_ELEMENTS - 1);
    let headers: &[(&str, &[u8])] = &[("x-forwarded-for", most.as_bytes())];
    assert_eq!(client_ip.find(peer, headers), Some(ip("203.0.113.9")));
    let more = line(MAX_FORWARDED_ELEMENTS);
    let headers: &[(&str, &[u8])] = &[("x-forwarded-for", more.as_bytes())];
    assert_eq!(client_ip.find(peer, headers), Some(ip("10.0.0.2")));
    let walk = client_ip.walk(peer, headers);
    assert_eq!((walk.end.clone(), walk.hops.len()), (WalkEnd::TooMany, MAX_FORWARDED_ELEMENTS + 1));
    assert!(walk.to_string().contains("and 61 more; "), "{walk}");
    // As many as are read, and all of them trusted: the leftmost has been seen.
    let all = &most["203.0.113.9, ".len()..];
    let all = format!("10.0.0.3, {all}");
    let walk = client_ip.walk(peer, &[("x-forwarded-for", all.as_bytes())]);
    assert_eq!((walk.end, walk.client), (WalkEnd::Leftmost, Some(ip("10.0.0.3"))));
}

#[test]
fn a_walk_tells_people_its_reasons() {
    let xff = trusting(&["10.0.0.0/8", "192.0.2.1"], Forwarding::XForwardedFor);
    let forwarded = trusting(&["10.0.0.0/8"], Forwarding::Forwarded);
    let proxy = Source::Peer(ip("::ffff:10.0.0.4"));
    let trusted = "peer 10.0.0.4 is trusted (client_ip.trusted_proxies[0]); ";
    let cases: [(&ClientIp, Source, Option<&str>, String); 16] = [
        (
            &xff,
            proxy,
            Some("198.51.100.1, 203.0.113.9"),
            format!("{trusted}first untrusted address from the right of x-forwarded-for"),
        ),
        (
            &xff,
            proxy,
            Some("203.0.113.9, 192.0.2.1"),
            format!(
                "{trusted}192.0.2.1 is trusted (client_ip.trusted_proxies[1]); first untrusted address from the right of x-forwarded-for"
            ),
        ),
        (
            &forwarded,
            proxy,
            Some("for=203.0.113.9"),
            format!("{trusted}first untrusted address from the right of forwarded"),
        ),
        (
            &xff,
            Source::Peer(ip("203.0.113.50")),
            Some("6.6.6.6"),
            "peer 203.0.113.50 is not in client_ip.trusted_proxies; x-forwarded-for is ignored".into(),
        ),
        (
            &xff,
            Source::Peer(ip("203.0.113.50")),
            None,
            "peer 203.0.113.50 is not in client_ip.trusted_proxies".into(),
        ),
        (&xff, proxy, None, format!("{trusted}no x-forwarded-for, so the client is the peer")),
        (
            &xff,
            proxy,
            Some("6.6.6.6, ga\u{202e}r"),
            format!(
                "{trusted}`ga\\u{{202e}}r` in x-forwarded-for is no address and ends the walk: the client is the peer"
            ),
        ),
        (
            &xff,
            proxy,
            Some("6.6.6.6,,10.0.0.7"),
            format!(
                "{trusted}10.0.0.7 is trusted (client_ip.trusted_proxies[0]); an empty element of x-forwarded-for ends the walk: the client is the last trusted address"
            ),
        ),
        (
            &xff,
            proxy,
            Some("10.0.0.7"),
            format!(
                "{trusted}10.0.0.7 is trusted (client_ip.trusted_proxies[0]); all of x-forwarded-for is trusted, so the leftmost address is the client"
            ),
        ),
        (&xff, Source::Client(ip("10.0.0.4")), Some("6.6.6.6"), "named by the caller".into()),
        (&xff, Source::Unknown, Some("6.6.6.6"), "nobody said where the request came from".into()),
        (
            &xff,
            Source::Local,
            None,
            "a Unix socket is trusted; no x-forwarded-for, so nobody knows the client".into(),
        ),
        (
            &xff,
            Source::Local,
            Some("203.0.113.9"),
            "a Unix socket is trusted; first untrusted address from the right of x-forwarded-for".into(),
        ),
        (
            &xff,
            Source::Local,
            Some("6.6.6.6, unknown"),
            "a Unix socket is trusted; `unknown` in x-forwarded-for is no address and ends the walk: nobody is known on its right".into(),
        ),
        (
            &xff,
            Source::Local,
            Some("unknown, 10.0.0.7"),
            "a Unix socket is trusted; 10.0.0.7 is trusted (client_ip.trusted_proxies[0]); `unknown` in x-forwarded-for is no address and ends the walk: the client is the last trusted address".into(),
        ),
        (
            &xff,
            proxy,
            Some("10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4"),
            format!(
                "{trusted}{}and one more; all of x-forwarded-for is trusted, so the leftmost address is the client",
                ["10.0.0.4", "10.0.0.3", "10.0.0.2"]
                    .map(|hop| format!("{hop} is trusted (client_ip.trusted_proxies[0]); "))
                    .concat()
            ),
        ),
    ];
    for (client_ip, source, line, text) in cases {
        let header = line.map(|line| (client_ip.header.as_str(), line.as_bytes()));
        let walk = client_ip.walk(source, header.as_slice());
        assert_eq!(walk.to_string(), text);
        assert_eq!(walk.client, client_ip.find(source, header.as_slice()), "{text}");
    }
}
