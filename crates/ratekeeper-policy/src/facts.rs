//! What is known of a request.

use core::net::IpAddr;

/// What is known of one request, borrowed from wherever it came.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// As it was sent: methods have a case.
    pub method: Option<&'a str>,
    /// Path and query as they were sent.
    pub target: Option<&'a str>,
    /// The host that was asked for, with its port if one was sent.
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
    /// The client itself: no forwarding header is looked at.
    Client(IpAddr),
    /// Whoever is connected: a client or a proxy.
    Peer(IpAddr),
    /// A Unix socket: trusted, so the forwarding header is required.
    Local,
}

impl<'a> Facts<'a> {
    /// The first line of this name that is not empty. `name` in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.header_lines(name).find(|line| !line.is_empty())
    }

    /// All lines of this name in their order, empty ones too. `name` in any case.
    pub fn header_lines(&self, name: &str) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        lines(self.headers, name)
    }
}

/// The lines of this name among field lines, in their order.
pub(crate) fn lines<'a>(
    headers: &[(&str, &'a [u8])],
    name: &str,
) -> impl DoubleEndedIterator<Item = &'a [u8]> {
    // Few names have the length of the one that is looked for.
    let called = move |other: &str| other.len() == name.len() && other.eq_ignore_ascii_case(name);
    headers.iter().filter(move |(other, _)| called(other)).map(|(_, line)| *line)
}

#[cfg(test)]
mod tests;
