//! What is known of a request, whoever carried it.

use core::net::IpAddr;

/// What is known of one request, borrowed from wherever it came.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// The method as it was sent: `POST`.
    pub method: Option<&'a str>,
    /// Path and query as they were sent.
    pub target: Option<&'a str>,
    /// The host as it was sent, with its port if it had one.
    pub host: Option<&'a str>,
    /// Field lines in their order; names in any case.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// Where it came from.
    pub source: Source,
}

/// Where a request came from.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Source {
    /// Nobody said.
    #[default]
    Unknown,
    /// From this client, whom somebody trusted has named.
    Client(IpAddr),
    /// From this end of a connection: the client, or a proxy before it.
    Peer(IpAddr),
    /// From this machine, without an address.
    Local,
}
