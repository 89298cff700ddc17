//! Forwarding headers of strangers: whatever stands in them, nobody chooses an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use ratekeeper_policy::{
    ClientIp, Forwarding, MAX_FORWARDED_ELEMENTS, Network, Source, WalkEnd, parse_address,
};

fn trusting(header: Forwarding) -> ClientIp {
    let trusted = ["10.0.0.0/8", "2001:db8:aaaa::/48"].map(|text| Network::parse(text).expect(text)).to_vec();
    ClientIp { trusted, header, ..ClientIp::default() }
}

fn header() -> impl Strategy<Value = Forwarding> {
    select(&[Forwarding::XForwardedFor, Forwarding::Forwarded][..])
}

/// Somebody on the way, as we know them.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
    Trusted(IpAddr),
    Stranger(IpAddr),
    /// An element that is no address.
    Nobody(&'static str),
}

fn trusted() -> impl Strategy<Value = Who> {
    let v6 = |low| Ipv6Addr::from_bits(0x2001_0db8_aaaa_u128 << 80 | u128::from(low));
    prop_oneof![
        2 => any::<u16>().prop_map(|low| Who::Trusted(Ipv4Addr::from_bits(10 << 24 | u32::from(low)).into())),
        1 => any::<u64>().prop_map(move |low: u64| Who::Trusted(v6(low).into())),
    ]
}

/// Somebody at whom a walk ends.
fn deciding() -> impl Strategy<Value = Who> {
    let nobody = ["unknown", "_hidden", "", "10.0.0.1.", "10.0.0.1:x", "[::1", "a b", "-"];
    let v6 = |low| Ipv6Addr::from_bits(0x2001_0db8_bbbb_u128 << 80 | u128::from(low));
    prop_oneof![
        any::<u8>().prop_map(|low| Who::Stranger(Ipv4Addr::new(203, 0, 113, low).into())),
        any::<u64>().prop_map(move |low: u64| Who::Stranger(v6(low).into())),
        select(nobody.to_vec()).prop_map(Who::Nobody),
    ]
}

fn who() -> impl Strategy<Value = Who> {
    prop_oneof![2 => trusted(), 1 => deciding()]
}

/// One of the ways to write an address.
fn spelt(address: IpAddr, way: u8) -> String {
    let zone = if way & 1 == 0 { "" } else { "%eth0" };
    let port = if way & 2 == 0 { "" } else { ":4711" };
    let text = match address {
        IpAddr::V4(v4) => match way >> 2 & 3 {
            0 => format!("[::ffff:{v4}{zone}]{port}"),
            1 => format!("64:FF9B::{v4}{zone}"),
            2 => format!("{:?}", v4.to_ipv6_mapped()),
            _ => format!("{v4}{port}"),
        },
        IpAddr::V6(v6) => {
            let groups = v6.segments().map(|group| format!("{group:04X}")).join(":");
            match way >> 2 & 3 {
                0 => format!("[{v6}{zone}]{port}"),
                1 => format!("[{groups}{zone}]{port}"),
                2 => format!("{groups}{zone}"),
                _ => format!("{v6}{zone}"),
            }
        }
    };
    match way >> 4 & 3 {
        0 => text,
        1 => format!("  {text}\t"),
        2 => format!("\"{text}\""),
        _ => format!(" \" {text}\" "),
    }
}

/// An element about somebody.
fn element(header: Forwarding, who: Who, way: u8) -> String {
    let (Who::Trusted(address) | Who::Stranger(address)) = who else {
        let Who::Nobody(text) = who else { unreachable!() };
        return match (header, way & 3) {
            (Forwarding::Forwarded, 0) => format!("for=\"{text}\""),
            (Forwarding::Forwarded, 1) => format!("proto=https;by=\"{text}\""),
            _ => text.to_owned(),
        };
    };
    let text = spelt(address, way);
    if header == Forwarding::XForwardedFor {
        return text;
    }
    let node = text.trim_matches([' ', '\t', '"']);
    match way >> 4 {
        0..4 => format!("for=\"{node}\""),
        4..8 => format!(" FOR={node} ; proto=https"),
        8..12 => format!("host=\"a,b\\\\\\\",for=6.6.6.6\";for=\"\\{node}\""),
        _ => format!("by=\"10.0.0.1, x\";For=\"{node}\";a=\"\";"),
    }
}

/// What [`ClientIp::find`] promises, of people we know.
fn client(peer: IpAddr, chain: &[Who]) -> IpAddr {
    let mut last = peer;
    for who in chain.iter().rev().take(MAX_FORWARDED_ELEMENTS) {
        match *who {
            Who::Trusted(address) => last = address,
            Who::Stranger(address) => return address,
            Who::Nobody(_) => return last,
        }
    }
    last
}

/// The elements in lines, cut where the number of an element is among `cuts`.
fn lines(elements: &[String], cuts: &[usize]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (i, element) in elements.iter().enumerate() {
        match lines.last_mut() {
            Some(line) if !cuts.contains(&i) => *line = format!("{line},{element}"),
            _ => lines.push(element.clone()),
        }
    }
    lines
}

fn fields(header: Forwarding, lines: &[Vec<u8>]) -> Vec<(&'static str, &[u8])> {
    let name = match header {
        Forwarding::XForwardedFor => "X-Forwarded-For",
        Forwarding::Forwarded => "Forwarded",
    };
    lines.iter().map(|line| (name, line.as_slice())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn no_bytes_panic_and_an_answer_stands_in_them(
        header in header(),
        raw in vec(vec(prop_oneof![any::<u8>(), select(b"for=\"\\;, 1.20:[]%fF-_".to_vec())], 0..60), 0..4),
        local in any::<bool>(),
    ) {
        let client_ip = trusting(header);
        let headers = fields(header, &raw);
        let source = if local { Source::Local } else { Source::Peer(Ipv4Addr::new(10, 0, 0, 1).into()) };
        let walk = client_ip.walk(source, &headers);
        prop_assert_eq!(walk.client, client_ip.find(source, &headers));
        prop_assert!(walk.hops.len() <= MAX_FORWARDED_ELEMENTS + 1);
        let text = walk.to_string();
        prop_assert!(!text.contains(char::is_control), "{text}");
        if walk.end != WalkEnd::Untrusted {
            prop_assert_eq!(walk.client, walk.hops.last().map(|hop| hop.address));
        }
        for line in &raw {
            let _ = parse_address(&String::from_utf8_lossy(line));
            let _ = Network::parse(&String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn the_client_never_lies_left_of_an_untrusted_or_unreadable_element(
        header in header(),
        chain in vec((who(), any::<u8>()), 0..90),
        cuts in vec(0..90_usize, 0..6),
    ) {
        let people: Vec<Who> = chain.iter().map(|(who, _)| *who).collect();
        let elements: Vec<String> = chain.iter().map(|(who, way)| element(header, *who, *way)).collect();
        let lines: Vec<Vec<u8>> = lines(&elements, &cuts).into_iter().map(String::into_bytes).collect();
        let peer = Ipv4Addr::new(10, 0, 0, 1).into();
        let headers = fields(header, &lines);
        let found = trusting(header).find(Source::Peer(peer), &headers);
        prop_assert_eq!(found, Some(client(peer, &people)), "{:?}", elements);
        // Who is not trusted itself, says nothing.
        let stranger = Ipv4Addr::new(203, 0, 113, 50).into();
        prop_assert_eq!(trusting(header).find(Source::Peer(stranger), &headers), Some(stranger));
    }

    #[test]
    fn spellings_of_one_address_are_one_key(bits in any::<u128>(), v4 in any::<bool>(), ways in (any::<u8>(), any::<u8>()), prefix in 1..=128_u8) {
        let address: IpAddr = if v4 { Ipv4Addr::from_bits(bits as u32).into() } else { Ipv6Addr::from_bits(bits).into() };
        let client_ip = ClientIp { ipv6_prefix: prefix, ..ClientIp::default() };
        let read = |way| parse_address(&spelt(address, way));
        prop_assert_eq!(read(ways.0), read(ways.1), "{} {}", spelt(address, ways.0), spelt(address, ways.1));
        let read = read(ways.0).expect("an address");
        prop_assert_eq!(client_ip.masked(read), client_ip.masked(address));
        prop_assert_eq!(client_ip.masked(client_ip.masked(address)), client_ip.masked(address));
        prop_assert!(Network::around(address, prefix).contains(read));
    }

    #[test]
    fn nothing_on_the_left_of_the_deciding_element_changes_the_client(
        header in header(),
        hops in vec((trusted(), any::<u8>()), 0..5),
        (deciding, way) in (deciding(), any::<u8>()),
        left in vec(prop_oneof![any::<u8>(), select(b"for=\"\\;, 1.20:[]".to_vec())], 0..80),
        joined in any::<bool>(),
    ) {
        let mut elements = vec![element(header, deciding, way)];
        elements.extend(hops.into_iter().map(|(hop, way)| element(header, hop, way)));
        let right = elements.join(",").into_bytes();
        let mut all = left.clone();
        all.push(b',');
        all.extend_from_slice(&right);
        let without = vec![right.clone()];
        let with = if joined { vec![all] } else { vec![left, right] };
        let client_ip = trusting(header);
        let peer = Source::Peer(Ipv4Addr::new(10, 0, 0, 1).into());
        let (with, without) = (fields(header, &with), fields(header, &without));
        prop_assert_eq!(client_ip.find(peer, &with), client_ip.find(peer, &without));
        prop_assert_eq!(client_ip.walk(peer, &with), client_ip.walk(peer, &without));
    }
}
