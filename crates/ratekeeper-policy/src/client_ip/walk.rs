//! The walk to a client's address, told to people.

use core::fmt;
use core::net::IpAddr;

use super::{Forwarding, MAX_FORWARDED_ELEMENTS, Stop, canonical};
use crate::facts::Source;
use crate::hints::shown;

/// How many trusted hops a text names: more tell nobody anything, and a line stays readable.
const MAX_SHOWN_HOPS: usize = 4;

/// How [`ClientIp::find`](crate::ClientIp::find) came to its answer. As text it is a line for people:
/// `peer 10.0.0.4 is trusted (client_ip.trusted_proxies[0]); first untrusted address from the right of x-forwarded-for`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Walk {
    /// What `find` answers.
    pub client: Option<IpAddr>,
    /// Where the walk began.
    pub source: Source,
    /// The header that it goes through.
    pub header: Forwarding,
    /// The trusted hops in the order of the walk, the peer first if it is known: at most [`MAX_FORWARDED_ELEMENTS`] and the peer.
    pub hops: Vec<Hop>,
    /// Why it ended.
    pub end: WalkEnd,
}

/// A trusted address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// In canonical form.
    pub address: IpAddr,
    /// Which of [`ClientIp::trusted`](crate::ClientIp::trusted) trusts it: the first that holds it.
    pub network: usize,
}

/// Why a walk ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WalkEnd {
    /// Nobody said where the request came from.
    Unknown,
    /// The caller named the client.
    Named,
    /// The peer is not trusted, so it is the client.
    UntrustedPeer {
        /// It sent a header that was not looked at.
        ignored: bool,
    },
    /// The header is not there.
    NoHeader,
    /// An address of the header is not trusted, so it is the client.
    Untrusted,
    /// An element is no address; its text, cut and made fit to be shown.
    NoAddress(String),
    /// All addresses are trusted, so the leftmost is the client.
    Leftmost,
    /// [`MAX_FORWARDED_ELEMENTS`] elements were read, and there are more.
    TooMany,
}

impl WalkEnd {
    /// `sent` tells whether the header is there at all.
    pub(super) fn of(stop: &Stop<'_>, sent: impl FnOnce() -> bool) -> Self {
        match stop {
            Stop::Unknown => Self::Unknown,
            Stop::Named => Self::Named,
            Stop::UntrustedPeer => Self::UntrustedPeer { ignored: sent() },
            Stop::NoHeader => Self::NoHeader,
            Stop::Untrusted => Self::Untrusted,
            Stop::NoAddress(text) => Self::NoAddress(shown(String::from_utf8_lossy(text).trim())),
            Stop::Leftmost => Self::Leftmost,
            Stop::TooMany => Self::TooMany,
        }
    }
}

impl Walk {
    /// What is trusted and why, each with its `; ` behind.
    fn write_hops(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.source == Source::Local {
            f.write_str("a Unix socket is trusted; ")?;
        }
        for (i, Hop { address, network }) in self.hops.iter().take(MAX_SHOWN_HOPS).enumerate() {
            let peer = if i == 0 && self.source != Source::Local { "peer " } else { "" };
            write!(f, "{peer}{address} is trusted (client_ip.trusted_proxies[{network}]); ")?;
        }
        match self.hops.len().saturating_sub(MAX_SHOWN_HOPS) {
            0 => Ok(()),
            1 => f.write_str("and one more; "),
            more => write!(f, "and {more} more; "),
        }
    }
}

impl fmt::Display for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_hops(f)?;
        let header = self.header;
        let last = match (self.client, self.hops.len()) {
            (None, _) => "nobody is known on its right",
            (_, 1) if self.source != Source::Local => "the client is the peer",
            _ => "the client is the last trusted address",
        };
        match &self.end {
            WalkEnd::Unknown => f.write_str("nobody said where the request came from"),
            WalkEnd::Named => f.write_str("named by the caller"),
            WalkEnd::UntrustedPeer { ignored } => {
                let Source::Peer(peer) = self.source else { return Ok(()) };
                write!(f, "peer {} is not in client_ip.trusted_proxies", canonical(peer))?;
                if *ignored { write!(f, "; {header} is ignored") } else { Ok(()) }
            }
            WalkEnd::NoHeader => match self.client {
                Some(_) => write!(f, "no {header}, so the client is the peer"),
                None => write!(f, "no {header}, so nobody knows the client"),
            },
            WalkEnd::Untrusted => write!(f, "first untrusted address from the right of {header}"),
            WalkEnd::NoAddress(text) if text.is_empty() => {
                write!(f, "an empty element of {header} ends the walk: {last}")
            }
            WalkEnd::NoAddress(text) => {
                write!(f, "`{text}` in {header} is no address and ends the walk: {last}")
            }
            WalkEnd::Leftmost => {
                write!(f, "all of {header} is trusted, so the leftmost address is the client")
            }
            WalkEnd::TooMany => {
                write!(
                    f,
                    "{header} has more than {MAX_FORWARDED_ELEMENTS} elements, which end the walk: {last}"
                )
            }
        }
    }
}
