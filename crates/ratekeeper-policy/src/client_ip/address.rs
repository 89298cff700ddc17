//! Addresses: their spellings, and the one form that stands for them.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The longest text that may be an address: 45 bytes, brackets, a port, and a generous zone.
pub const MAX_ADDRESS_BYTES: usize = 128;

/// Where translators put IPv4 addresses (RFC 6052, 2.1): as IPv6 all of them would be one network.
const NAT64: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);

/// The one form of an address: IPv4 within IPv6, mapped or translated, is IPv4.
pub(crate) const fn canonical(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address.to_canonical() else { return address.to_canonical() };
    let bits = v6.to_bits();
    if bits >> 32 == NAT64.to_bits() >> 32 {
        // The low 32 bits, which is what the mask leaves.
        return IpAddr::V4(Ipv4Addr::from_bits((bits & u32::MAX as u128) as u32));
    }
    IpAddr::V6(v6)
}

/// The address that stands for all that one client may come from: its IPv4 address, also where it is written
/// within an IPv6 one, or the prefix of its network.
pub(crate) const fn masked(address: IpAddr, ipv6_prefix: u8) -> IpAddr {
    match canonical(address) {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !host_bits(128, ipv6_prefix))),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// The bits behind a prefix in an address of `width` bits, at most 128.
pub(super) const fn host_bits(width: u8, prefix_len: u8) -> u128 {
    // A shift by all 128 bits leaves nothing.
    match u128::MAX.checked_shr(128 - width.saturating_sub(prefix_len) as u32) {
        Some(bits) => bits,
        None => 0,
    }
}

/// An address as proxies and people write it, in its canonical form: `203.0.113.9`, `203.0.113.9:1234`,
/// `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:443`, with a `%zone` that is dropped, within one pair of
/// quotes, with spaces around. A port is a number to 65535 or, as RFC 7239 hides it, `_name`. IPv4 within IPv6
/// is IPv4. None for anything else, and above [`MAX_ADDRESS_BYTES`] without the spaces.
#[must_use]
pub fn parse_address(text: &str) -> Option<IpAddr> {
    read_address(text.as_bytes())
}

/// As [`parse_address`].
pub(super) fn read_address(text: &[u8]) -> Option<IpAddr> {
    let text = trimmed(text);
    let inside = text.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    read_unquoted(inside.unwrap_or(text))
}

/// As [`parse_address`], without quotes.
pub(super) fn read_unquoted(text: &[u8]) -> Option<IpAddr> {
    let text = trimmed(text);
    if text.len() > MAX_ADDRESS_BYTES {
        return None;
    }
    let text = str::from_utf8(text).ok()?;
    let address = if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
            return None;
        }
        v6(address)?.into()
    } else {
        match text.split_once(':') {
            None => IpAddr::V4(text.parse().ok()?),
            // IPv6 has two colons at least.
            Some((_, rest)) if rest.contains(':') => v6(text)?.into(),
            Some((address, port)) if is_port(port) => IpAddr::V4(address.parse().ok()?),
            Some(_) => return None,
        }
    };
    Some(canonical(address))
}

fn v6(text: &str) -> Option<Ipv6Addr> {
    let address = match text.split_once('%') {
        Some((address, zone)) => is_zone(zone).then_some(address)?,
        None => text,
    };
    address.parse().ok()
}

/// What may name an interface (RFC 6874), also with the `%25` of an address in a URL.
fn is_zone(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-._~%".contains(&b);
    !text.is_empty() && text.bytes().all(good)
}

/// A port, or what stands for one that is hidden (RFC 7239, 6).
fn is_port(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
    match text.strip_prefix('_') {
        Some(name) => !name.is_empty() && name.bytes().all(good),
        None => text.bytes().all(|b| b.is_ascii_digit()) && text.parse::<u16>().is_ok(),
    }
}

/// Without the spaces that HTTP allows around a value (RFC 9110, 5.6.3).
pub(super) fn trimmed(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}
