//! A request as its caller describes it: the `attributes` of a check.

use std::borrow::Cow;
use std::net::IpAddr;

use ratekeeper_policy::{Facts, Source, parse_address};
use ratekeeper_sim::json::Object;

/// How attributes are written.
pub(super) const EXAMPLE: &str = r#"{"method":"GET","path":"/api/x","ip":"203.0.113.9"}"#;

/// What a caller says of the request that it asks about.
#[derive(Debug, Default)]
pub(super) struct Attributes<'a> {
    method: Option<Cow<'a, str>>,
    /// With the query, if there is one.
    path: Option<Cow<'a, str>>,
    host: Option<Cow<'a, str>>,
    source: Source,
    headers: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

/// The field lines of attributes, as policies look at them.
pub(super) type Lines<'l> = Vec<(&'l str, &'l [u8])>;

impl<'a> Attributes<'a> {
    /// Takes the members of `object`.
    pub(super) fn read(object: &mut Object<'a>) -> Self {
        let method = object.text("method");
        if method.as_deref().is_some_and(|method| !is_token(method)) {
            // It would be no policy's, and so a way around all that name one.
            object.wrong("method", "`method` is a word, for example GET".to_owned(), None);
        }
        let path = object.text("path");
        let host = object.text("host");
        let ip = address(object, "ip");
        let peer = object.text("peer");
        let source = match (ip, peer) {
            (Some(ip), None) => Source::Client(ip),
            (None, Some(peer)) if peer == "unix" => Source::Local,
            (None, Some(peer)) => match parse_address(&peer) {
                Some(peer) => Source::Peer(peer),
                None => {
                    let message = "`peer` is an address, or `unix` for a Unix socket".to_owned();
                    object.wrong("peer", message, None);
                    Source::Unknown
                }
            },
            (Some(_), Some(_)) => {
                let message = "`ip` and `peer` exclude each other".to_owned();
                let hint = "`ip` is the client; `peer` is who is connected, and its forwarding header counts if it is trusted";
                object.wrong("peer", message, Some(hint.to_owned()));
                Source::Unknown
            }
            (None, None) => Source::Unknown,
        };
        let headers: Vec<(Cow<'a, str>, Cow<'a, str>)> = object.lines("headers");
        for (name, value) in &headers {
            let message = if !is_token(name) {
                "this is no name of a header"
            } else if value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | b'\0')) {
                "the value of a header has one line"
            } else {
                continue;
            };
            object.wrong_within("headers", &[name], message.to_owned(), None);
        }
        Self { method, path, host, source, headers }
    }

    /// The field lines, for [`Attributes::facts`] to borrow.
    pub(super) fn lines(&self) -> Lines<'_> {
        self.headers.iter().map(|(name, value)| (name.as_ref(), value.as_bytes())).collect()
    }

    /// The same as facts.
    pub(super) fn facts<'f>(&'f self, lines: &'f Lines<'f>) -> Facts<'f> {
        let host = self.host.as_deref().or_else(|| {
            let line = lines.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"))?;
            str::from_utf8(line.1).ok()
        });
        Facts {
            method: self.method.as_deref(),
            target: self.path.as_deref(),
            host,
            headers: lines,
            source: self.source,
        }
    }

    /// The method.
    pub(super) fn method(&self) -> Option<&str> {
        self.method.as_deref()
    }

    /// The path without its query, which is where secrets are.
    pub(super) fn path(&self) -> Option<&str> {
        self.path.as_deref().map(|path| path.split_once('?').map_or(path, |(path, _)| path))
    }
}

/// A method or a name of a header (RFC 9110, 5.6.2).
fn is_token(text: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token)
}

fn address(object: &mut Object<'_>, name: &'static str) -> Option<IpAddr> {
    let text = object.text(name)?;
    let address = parse_address(&text);
    if address.is_none() {
        object.wrong(name, format!("`{name}` is an address, for example 203.0.113.9"), None);
    }
    address
}
