//! Forwarding headers of strangers: the client is the one that a slow reading by the rules finds, and the walk that
//! people are told ends at it.
#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use libfuzzer_sys::fuzz_target;
use ratekeeper_policy::{ClientIp, Forwarding, Network, Source, WalkEnd, parse_address};

const NAMES: [&[&str]; 4] = [
    &[],
    &["10.0.0.0/8"],
    &["0.0.0.0/1", "2001:db8::/33", "::1"],
    &["1.2.3.4", "::ffff:10.0.0.0/112", "::/0"],
];

// The first byte says who is trusted, where and who asks; the rest are lines, each beginning with what names it.
fuzz_target!(|data: &[u8]| {
    let Some((choice, lines)) = data.split_first() else { return };
    let header = if choice & 4 == 0 { Forwarding::XForwardedFor } else { Forwarding::Forwarded };
    let names = NAMES[usize::from(choice & 3)];
    let trusted = names.iter().map(|name| Network::parse(name).expect("a network")).collect();
    let client_ip = ClientIp { trusted, header, ipv6_prefix: (choice >> 1).max(1) };
    let peer = match choice >> 3 & 3 {
        0 => Some(Ipv4Addr::new(10, 0, 0, 5).into()),
        1 => Some(Ipv4Addr::new(1, 2, 3, 4).to_ipv6_mapped().into()),
        2 => Some(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 5).into()),
        _ => None,
    };
    let fields: Vec<(&str, &[u8])> =
        lines.split(|byte| *byte == b'\n').map(|line| field(header, line)).collect();
    let source = peer.map_or(Source::Local, Source::Peer);
    let found = client_ip.find(source, &fields);
    let ours: Vec<&[u8]> = fields
        .iter()
        .filter(|(name, _)| name.to_lowercase() == header.as_str())
        .map(|(_, line)| *line)
        .collect();
    assert_eq!(found, slow(&client_ip, peer, &ours), "{peer:?} {ours:?}");
    let walk = client_ip.walk(source, &fields);
    assert_eq!(walk.client, found);
    match walk.end {
        WalkEnd::Untrusted | WalkEnd::UntrustedPeer { .. } => {
            assert!(found.is_some_and(|client| !is_trusted(&client_ip.trusted, client)));
        }
        _ => assert_eq!(walk.hops.last().map(|hop| hop.address), found),
    }
    for hop in &walk.hops {
        assert!(client_ip.trusted[hop.network].contains(hop.address));
        assert!(!is_trusted(&client_ip.trusted[..hop.network], hop.address));
    }
    assert!(!walk.to_string().contains(char::is_control));
    if let Some(client) = found {
        // What is found is canonical, and so is what is made of it.
        assert_eq!(parse_address(&client.to_string()), Some(client));
        let masked = client_ip.masked(client);
        assert_eq!(client_ip.masked(masked), masked);
        assert!(Network::around(client, client_ip.ipv6_prefix).contains(masked) || client.is_ipv4());
    }
    if let Ok(text) = str::from_utf8(lines) {
        assert_eq!(parse_address(text), address(&unquoted(text.trim_matches([' ', '\t']))), "{text:?}");
        if let Ok(network) = Network::parse(text) {
            assert_eq!(Network::parse(&network.to_string()), Ok(network));
            assert!(network.contains(network.address()));
        }
    }
});

fn field(header: Forwarding, line: &[u8]) -> (&'static str, &[u8]) {
    match (header, line) {
        (_, [b'!', line @ ..]) => ("x-forwarded-form", line),
        (Forwarding::XForwardedFor, [b'?', line @ ..]) => ("forwarded", line),
        (Forwarding::Forwarded, [b'?', line @ ..]) => ("x-forwarded-for", line),
        (Forwarding::XForwardedFor, line) => ("X-Forwarded-For", line),
        (Forwarding::Forwarded, line) => ("FORWARDED", line),
    }
}

/// The rules word by word: all elements are written down, the peer last, and then looked at from the right.
fn slow(client_ip: &ClientIp, peer: Option<IpAddr>, lines: &[&[u8]]) -> Option<IpAddr> {
    let mut hops: Vec<Option<IpAddr>> = Vec::new();
    for line in lines {
        // Bytes that are no text are in no address.
        let line = String::from_utf8_lossy(line);
        let elements = match client_ip.header {
            Forwarding::XForwardedFor => line.split(',').map(str::to_owned).collect(),
            Forwarding::Forwarded => elements(&line),
        };
        hops.extend(elements.iter().map(|element| match client_ip.header {
            Forwarding::XForwardedFor => address(&unquoted(element.trim_matches([' ', '\t']))),
            Forwarding::Forwarded => for_address(element),
        }));
    }
    let hops = &hops[hops.len().saturating_sub(64)..];
    let people = match peer {
        Some(peer) => [hops, &[Some(folded(peer))]].concat(),
        None => hops.to_vec(),
    };
    let mut client = None;
    for hop in people.into_iter().rev() {
        match hop {
            Some(address) if is_trusted(&client_ip.trusted, address) => client = Some(address),
            Some(address) => return Some(address),
            None => return client,
        }
    }
    client
}

/// Bit by bit.
fn is_trusted(networks: &[Network], address: IpAddr) -> bool {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(v4) => format!("4{:032b}", v4.to_bits()),
        IpAddr::V6(v6) => format!("6{:0128b}", v6.to_bits()),
    };
    let starts = |network: &Network| bits(network.address())[..=usize::from(network.prefix_len())].to_owned();
    networks.iter().any(|network| bits(address).starts_with(&starts(network)))
}

fn folded(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => match v6.segments() {
            [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)).into()
            }
            _ => address,
        },
        IpAddr::V4(_) => address,
    }
}

fn unquoted(text: &str) -> String {
    let quoted = text.len() >= 2 && text.starts_with('"') && text.ends_with('"');
    if quoted { text[1..text.len() - 1].to_owned() } else { text.to_owned() }
}

/// What the standard library reads, once what it does not know is taken off.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim_matches([' ', '\t']);
    if text.len() > 128 {
        return None;
    }
    // A zone stands behind IPv6 and before its bracket.
    let text = match text.split_once('%') {
        Some((address, rest)) => {
            let (zone, rest) = rest.find(']').map_or((rest, ""), |at| rest.split_at(at));
            let good = |c: char| c.is_ascii_alphanumeric() || "-._~%".contains(c);
            if zone.is_empty()
                || !zone.chars().all(good)
                || address.matches(':').count() < 2
                || address.contains(']')
            {
                return None;
            }
            format!("{address}{rest}")
        }
        None => text.to_owned(),
    };
    // A hidden port is as good as any.
    let text = match text.split_once(":_") {
        Some((host, port)) if !port.is_empty() && (host.ends_with(']') || !host.contains(':')) => {
            let good = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            port.chars().all(good).then(|| format!("{host}:1"))?
        }
        _ => text,
    };
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let bare = bare.and_then(|text| text.parse::<Ipv6Addr>().ok()).map(IpAddr::V6);
    let whole = || text.parse::<IpAddr>().ok();
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    bare.or_else(whole).or_else(with_port).map(folded)
}

/// The elements of a line: pieces between commas are put together again until no string is open at their left end.
fn elements(line: &str) -> Vec<String> {
    let mut elements: Vec<String> = Vec::new();
    let mut tail: Option<String> = None;
    for piece in line.split(',').rev() {
        let element = tail.map_or_else(|| piece.to_owned(), |tail| format!("{piece},{tail}"));
        let open = is_open(&element);
        tail = open.then(|| element.clone());
        if !open {
            elements.push(element);
        }
    }
    elements.extend(tail);
    elements.reverse();
    elements
}

/// Whether a string that ends in a text begins before it. The quote that ends a string may have a backslash before
/// it, since whoever writes that has escaped nothing.
fn is_open(text: &str) -> bool {
    let mut rest = text;
    while let Some(end) = rest.rfind('"') {
        rest = &rest[..end];
        let begins =
            |(at, _): &(usize, &str)| (at - rest[..*at].trim_end_matches('\\').len()).is_multiple_of(2);
        match rest.rmatch_indices('"').find(begins) {
            Some((begin, _)) => rest = &rest[..begin],
            None => return true,
        }
    }
    false
}

/// The address of an element of `forwarded`, character by character.
fn for_address(element: &str) -> Option<IpAddr> {
    let (mut parameters, mut quoted, mut escaped) = (vec![String::new()], false, false);
    for c in element.chars() {
        let ends = c == ';' && !quoted;
        quoted ^= c == '"' && !escaped;
        escaped = c == '\\' && quoted && !escaped;
        match parameters.last_mut() {
            Some(parameter) if !ends => parameter.push(c),
            _ => parameters.push(String::new()),
        }
    }
    let mut values = Vec::new();
    for parameter in parameters.iter().map(|parameter| parameter.trim_matches([' ', '\t'])) {
        if parameter.is_empty() {
            continue;
        }
        let (name, value) = parameter.split_once('=')?;
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(token) {
            return None;
        }
        let value = match value.strip_prefix('"') {
            Some(rest) => {
                unescaped(rest).filter(|value| name.to_lowercase() != "for" || value.len() <= 128)?
            }
            None if value.chars().all(|c| c.is_ascii_graphic() && !"\",\\".contains(c)) => value.to_owned(),
            None => return None,
        };
        if name.to_lowercase() == "for" {
            values.push(value);
        }
    }
    if let [value] = values.as_slice() { address(value) } else { None }
}

/// A string behind its first quote, to its last character.
fn unescaped(text: &str) -> Option<String> {
    let mut plain = String::new();
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return chars.next().is_none().then_some(plain),
            '\\' => plain.push(chars.next()?),
            c => plain.push(c),
        }
    }
}
