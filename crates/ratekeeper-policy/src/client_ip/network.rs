//! Networks: an address, or all that begin alike.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::address::{canonical, host_bits, read_unquoted};
use crate::fault::{Fault, code};
use crate::hints::shown;

/// The addresses that begin with the same bits, or one of them alone, in canonical form: what is mapped into
/// IPv6 is IPv4 here too, so `::ffff:10.0.0.0/104` is `10.0.0.0/8`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Network {
    /// Its first address: bits behind the prefix are 0.
    address: IpAddr,
    prefix_len: u8,
}

/// A text that is no network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NetworkError(Fault);

impl NetworkError {
    /// What to write instead.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    pub(crate) fn into_fault(self) -> Fault {
        self.0
    }
}

impl fmt::Display for NetworkError {
    /// What is wrong.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl core::error::Error for NetworkError {}

impl Network {
    /// The network of this length that an address lies in. A length beyond its family's is the whole address.
    #[must_use]
    pub const fn around(address: IpAddr, prefix_len: u8) -> Self {
        match canonical(address) {
            IpAddr::V4(v4) => {
                let prefix_len = if prefix_len > 32 { 32 } else { prefix_len };
                let bits = v4.to_bits() as u128 & !host_bits(32, prefix_len);
                // No bit was added to the 32.
                Self { address: IpAddr::V4(Ipv4Addr::from_bits(bits as u32)), prefix_len }
            }
            IpAddr::V6(v6) => {
                let prefix_len = if prefix_len > 128 { 128 } else { prefix_len };
                let bits = v6.to_bits() & !host_bits(128, prefix_len);
                Self { address: IpAddr::V6(Ipv6Addr::from_bits(bits)), prefix_len }
            }
        }
    }

    /// Reads an address or a network: `10.0.0.1`, `10.0.0.0/8`, `2001:db8::/32`. What is written within IPv6, as
    /// `::ffff:10.0.0.0/104`, is IPv4; a network with IPv6 and IPv4 in it has no such form.
    ///
    /// # Errors
    /// For anything else, also if bits behind the prefix are set: nobody can tell which of both was meant.
    pub fn parse(text: &str) -> Result<Self, NetworkError> {
        read(text).map_err(NetworkError)
    }

    /// Whether an address lies in it, in whatever form.
    #[must_use]
    pub const fn contains(&self, address: IpAddr) -> bool {
        self.holds(canonical(address))
    }

    /// As [`Network::contains`], of an address in canonical form.
    pub(super) const fn holds(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(other)) => {
                let different = ours.to_bits() ^ other.to_bits();
                different as u128 & !host_bits(32, self.prefix_len) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(other)) => {
                let different = ours.to_bits() ^ other.to_bits();
                different & !host_bits(128, self.prefix_len) == 0
            }
            _ => false,
        }
    }

    /// Its first address, in canonical form.
    #[must_use]
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// How many leading bits its addresses share: 0 to 32 in IPv4, to 128 in IPv6.
    #[must_use]
    pub const fn prefix_len(&self) -> u8 {
        self.prefix_len
    }
}

impl fmt::Display for Network {
    /// `10.0.0.0/8`; a single address without its length.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix_len {
            len if len == width(self.address) => self.address.fmt(f),
            len => write!(f, "{}/{len}", self.address),
        }
    }
}

const fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

pub(super) const EXAMPLE: &str = "an address or a network, for example `10.0.0.0/8`; names are not looked up";

fn read(text: &str) -> Result<Network, Fault> {
    let refused = |message: String| Fault::new(code::BAD_NETWORK, message);
    let (start, len) = match text.split_once('/') {
        Some((start, len)) => (start, Some(len)),
        None => (text, None),
    };
    let Ok(address) = start.parse::<IpAddr>() else {
        let fault = refused(format!("`{}` is no address or network", shown(text)));
        // Known from headers, but a network has no port and no interface.
        return Err(match read_unquoted(start.as_bytes()) {
            Some(address) => match len {
                Some(len) => fault.hint(format!("write `{address}/{}`", shown(len))),
                None => fault.hint(format!("write `{address}`")),
            },
            None => fault.hint(EXAMPLE),
        });
    };
    let Some(len) = len else { return Ok(Network::around(address, width(address))) };
    let Some(len) = prefix_len(len).filter(|len| *len <= width(address)) else {
        let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        let fault = refused(format!("`/{}` is no length of an {family} prefix", shown(len)));
        return Err(match netmask(len) {
            Some(len) if address.is_ipv4() => {
                fault.hint(format!("write `{}`", Network::around(address, len)))
            }
            _ => fault.hint(format!("0 to {}", width(address))),
        });
    };
    // Bits that the canonical form has not.
    let lost = width(address) - width(canonical(address));
    let Some(len) = len.checked_sub(lost) else {
        let message = format!("`{}` is IPv4 within IPv6, whose prefix is {lost} bits at least", shown(text));
        return Err(refused(message).hint("write the IPv4 network, for example `10.0.0.0/8`"));
    };
    let network = Network::around(address, len);
    if network.address != canonical(address) {
        let fault = refused(format!("`{}` has bits behind its prefix", shown(text)));
        return Err(fault.hint(format!("write `{network}`")));
    }
    Ok(network)
}

/// A number as people write a length: no sign, no leading zero.
fn prefix_len(text: &str) -> Option<u8> {
    let good = text == "0" || !text.starts_with(['0', '+']);
    good.then(|| text.parse().ok()).flatten()
}

/// The length of the prefix that a mask such as `255.0.0.0` leaves.
fn netmask(text: &str) -> Option<u8> {
    let bits = text.parse::<Ipv4Addr>().ok()?.to_bits();
    let len = bits.leading_ones();
    // Nothing but zeros comes behind the ones.
    (len + bits.trailing_zeros() == 32).then(|| u8::try_from(len).ok()).flatten()
}
