//! Whose address a request has, and what of it a key holds.

mod address;
mod elements;
mod network;
mod walk;

use core::fmt;
use core::net::IpAddr;

pub use address::{MAX_ADDRESS_BYTES, parse_address};
pub(crate) use address::{canonical, masked};
pub use network::{Network, NetworkError};
pub use walk::{Hop, Walk, WalkEnd};

use crate::facts::{self, Source};
use elements::Elements;

/// Most networks in `trusted_proxies`: the published lists of the largest clouds have a few hundred, and each
/// request is held against all of them.
pub const MAX_TRUSTED_PROXIES: usize = 1_000;
/// Most elements of the forwarding header that are looked at, from the right: no real chain of proxies is as
/// long, and a stranger does not choose how much we read.
pub const MAX_FORWARDED_ELEMENTS: usize = 64;
/// What tells clients apart in IPv6 unless the file says otherwise: a client has a /64 to itself and may change
/// the rest as often as it likes.
pub const DEFAULT_IPV6_PREFIX: u8 = 64;

/// How the address of a client is found: `client_ip` of the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientIp {
    /// Whose word is taken for where a request came from; nobody's by default.
    pub trusted: Vec<Network>,
    /// Where they say it.
    pub header: Forwarding,
    /// How many leading bits of an IPv6 address a key holds, 1 to 128.
    pub ipv6_prefix: u8,
}

/// The header in which proxies say whom they answer for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Forwarding {
    /// `x-forwarded-for`: addresses.
    #[default]
    XForwardedFor,
    /// `forwarded` (RFC 7239): `for=` of each element.
    Forwarded,
}

impl Forwarding {
    /// The name of the header, as the file writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
        }
    }
}

impl fmt::Display for Forwarding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Default for ClientIp {
    /// Nobody is trusted, so the peer is the client; `x-forwarded-for`; [`DEFAULT_IPV6_PREFIX`].
    fn default() -> Self {
        Self { trusted: Vec::new(), header: Forwarding::default(), ipv6_prefix: DEFAULT_IPV6_PREFIX }
    }
}

/// Why a walk ended, and at which element.
enum Stop<'a> {
    Unknown,
    Named,
    UntrustedPeer,
    NoHeader,
    Untrusted,
    NoAddress(&'a [u8]),
    Leftmost,
    TooMany,
}

impl ClientIp {
    /// The address of the client, whole and in its canonical form: IPv4 within IPv6 (`::ffff:0:0/96`,
    /// `64:ff9b::/96`) is IPv4. None if nobody can tell.
    ///
    /// It is the peer, unless that is trusted. Then the elements of all lines of the header are read from the
    /// right, the last line first: the first address that is not trusted is the client, and if all are trusted,
    /// the leftmost. An element that is no address ends the walk at the last trusted hop, and so do
    /// [`MAX_FORWARDED_ELEMENTS`] elements: nothing left of them counts. The header of an untrusted peer is not looked at.
    ///
    /// It allocates nothing.
    #[must_use]
    pub fn find(&self, source: Source, headers: &[(&str, &[u8])]) -> Option<IpAddr> {
        self.follow(source, headers, |_| {}).0
    }

    /// The walk of [`ClientIp::find`], with its reasons.
    #[must_use]
    pub fn walk(&self, source: Source, headers: &[(&str, &[u8])]) -> Walk {
        let mut hops = Vec::new();
        let (client, stop) = self.follow(source, headers, |hop| hops.push(hop));
        let sent = || facts::lines(headers, self.header.as_str()).next().is_some();
        Walk { client, source, header: self.header, hops, end: WalkEnd::of(&stop, sent) }
    }

    /// What a key holds of an address: its canonical form, an IPv6 one cut to [`ClientIp::ipv6_prefix`].
    #[must_use]
    pub fn masked(&self, address: IpAddr) -> IpAddr {
        masked(address, self.ipv6_prefix)
    }

    /// The walk itself; `trusted` sees each trusted hop in its order.
    fn follow<'a>(
        &self,
        source: Source,
        headers: &[(&str, &'a [u8])],
        mut trusted: impl FnMut(Hop),
    ) -> (Option<IpAddr>, Stop<'a>) {
        let mut last = match source {
            Source::Unknown => return (None, Stop::Unknown),
            Source::Client(client) => return (Some(canonical(client)), Stop::Named),
            Source::Local => None,
            Source::Peer(peer) => {
                let address = canonical(peer);
                let Some(network) = self.trusts(address) else { return (Some(address), Stop::UntrustedPeer) };
                trusted(Hop { address, network });
                Some(address)
            }
        };
        let lines = facts::lines(headers, self.header.as_str());
        for (read, element) in Elements::new(self.header, lines).enumerate() {
            if read == MAX_FORWARDED_ELEMENTS {
                return (last, Stop::TooMany);
            }
            let Some(address) = element.address() else { return (last, Stop::NoAddress(element.text)) };
            let Some(network) = self.trusts(address) else { return (Some(address), Stop::Untrusted) };
            trusted(Hop { address, network });
            last = Some(address);
        }
        let none = facts::lines(headers, self.header.as_str()).next().is_none();
        (last, if none { Stop::NoHeader } else { Stop::Leftmost })
    }

    /// Where in `trusted_proxies` the first network is that holds a canonical address.
    fn trusts(&self, address: IpAddr) -> Option<usize> {
        self.trusted.iter().position(|network| network.holds(address))
    }
}

#[cfg(test)]
mod tests;
