//! Which requests a policy is about: the `match` of a policy.

use core::fmt;
use std::borrow::Cow;

use crate::facts::Facts;
use crate::glob::Glob;
use crate::hints::shown;
use crate::path::{BadTarget, NormalPath, PathPattern};

/// Most methods of one `match`: there are nine, and a few more of WebDAV.
pub const MAX_METHODS: usize = 32;
/// Longest method; the longest registered one has 17 bytes.
pub const MAX_METHOD_BYTES: usize = 64;
/// Most header fields of one `match`: each is a search through those of the request.
pub const MAX_MATCH_HEADERS: usize = 16;

/// The conditions of a policy, all of which a request has to meet.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Match {
    /// One of these, unless there is none.
    pub(crate) methods: Vec<Box<str>>,
    pub(crate) path: Option<PathPattern>,
    pub(crate) host: Option<Glob>,
    /// Names in lower case, and what one of their lines has to be.
    pub(crate) headers: Vec<(Box<str>, Glob)>,
}

/// The facts of a request with its path and host in the form in which they are compared, made once.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    facts: Facts<'a>,
    path: Option<NormalPath<'a>>,
    host: Option<Cow<'a, str>>,
}

impl<'a> Seen<'a> {
    /// Looks at a request. The host of a target that names one counts for more than the field.
    ///
    /// # Errors
    /// If its target is a [`BadTarget`]: such a request is answered with 400, whatever its policies.
    pub fn new(facts: &Facts<'a>) -> Result<Self, BadTarget> {
        let path = facts.target.map_or(Ok(None), NormalPath::new)?;
        let host = path.as_ref().and_then(NormalPath::authority).or(facts.host).map(normal_host);
        Ok(Self { facts: *facts, path, host })
    }

    /// What is known as it was sent.
    #[must_use]
    pub const fn facts(&self) -> &Facts<'a> {
        &self.facts
    }

    /// The path; None if there is no target, or one without a path (`*`).
    #[must_use]
    pub const fn path(&self) -> Option<&NormalPath<'a>> {
        self.path.as_ref()
    }

    /// The host in lower case, without its port and without a dot at its end.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// The values of a header field, in order; the name in any case.
    pub fn header(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        let lines = self.facts.headers.iter();
        lines.filter(move |(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }
}

/// A host as it is compared: in lower case, without its port and without a dot at its end.
pub(crate) fn normal_host(host: &str) -> Cow<'_, str> {
    let without_port = match host.rfind(']') {
        Some(end) if host.starts_with('[') => host.get(..=end).unwrap_or(host),
        // An address of IPv6 without its brackets has no port.
        _ => host.split_once(':').filter(|(_, port)| !port.contains(':')).map_or(host, |(name, _)| name),
    };
    let name = without_port.strip_suffix('.').unwrap_or(without_port);
    if name.bytes().any(|b| b.is_ascii_uppercase()) {
        return Cow::Owned(name.to_ascii_lowercase());
    }
    Cow::Borrowed(name)
}

static ANY: Match = Match { methods: Vec::new(), path: None, host: None, headers: Vec::new() };

impl Match {
    /// What a policy without `match` is about: every request.
    #[must_use]
    pub fn any() -> &'static Self {
        &ANY
    }

    /// The methods, of which a request has one; empty if any will do.
    pub fn methods(&self) -> impl Iterator<Item = &str> {
        self.methods.iter().map(|method| &**method)
    }

    /// The pattern of the path.
    #[must_use]
    pub const fn path(&self) -> Option<&PathPattern> {
        self.path.as_ref()
    }

    /// The pattern of the host.
    #[must_use]
    pub const fn host(&self) -> Option<&Glob> {
        self.host.as_ref()
    }

    /// The header fields, names in lower case.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &Glob)> {
        self.headers.iter().map(|(name, value)| (&**name, value))
    }

    /// Whether a request meets all conditions. A condition on what is not known is not met.
    ///
    /// # Errors
    /// The first condition that it does not meet.
    pub fn fits<'a>(&'a self, seen: &'a Seen<'_>) -> Result<(), Misfit<'a>> {
        if !self.methods.is_empty() {
            let method = seen.facts.method;
            if !method.is_some_and(|method| self.methods.iter().any(|one| **one == *method)) {
                return Err(Misfit::Method { method, wanted: &self.methods });
            }
        }
        if let Some(wanted) = &self.path {
            let path = seen.path();
            if !path.is_some_and(|path| wanted.matches(path)) {
                return Err(Misfit::Path { path: path.map(NormalPath::as_str), wanted });
            }
        }
        if let Some(wanted) = &self.host {
            let host = seen.host();
            if !host.is_some_and(|host| wanted.matches(host.as_bytes())) {
                return Err(Misfit::Host { host, wanted });
            }
        }
        for (name, wanted) in &self.headers {
            if !seen.header(name).any(|value| wanted.matches(value.trim_ascii())) {
                let is_absent = seen.header(name).next().is_none();
                return Err(Misfit::Header { name, wanted, is_absent });
            }
        }
        Ok(())
    }

    /// Whether some request could fit both. False only where none can: their methods differ, or no host or no path fits both.
    #[must_use]
    pub fn can_meet(&self, other: &Self) -> bool {
        let methods = self.methods.is_empty()
            || other.methods.is_empty()
            || self.methods.iter().any(|method| other.methods.contains(method));
        let both = |a: Option<bool>| a.unwrap_or(true);
        methods
            && both(self.host.as_ref().zip(other.host.as_ref()).map(|(a, b)| a.can_meet(b)))
            && both(self.path.as_ref().zip(other.path.as_ref()).map(|(a, b)| a.can_meet(b)))
    }
}

impl fmt::Display for Match {
    /// The conditions in the words of the file: `method POST, path /login`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lead = "";
        if !self.methods.is_empty() {
            write!(f, "method {}", Methods(&self.methods))?;
            lead = ", ";
        }
        for (word, pattern) in [
            ("path", self.path.as_ref().map(PathPattern::as_str)),
            ("host", self.host.as_ref().map(Glob::as_str)),
        ] {
            if let Some(pattern) = pattern {
                write!(f, "{lead}{word} {pattern}")?;
                lead = ", ";
            }
        }
        for (name, value) in &self.headers {
            write!(f, "{lead}header {name}: {}", shown(value.as_str()))?;
            lead = ", ";
        }
        if lead.is_empty() { f.write_str("every request") } else { Ok(()) }
    }
}

/// `POST`, or `GET, HEAD`.
struct Methods<'a>(&'a [Box<str>]);

impl fmt::Display for Methods<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, method) in self.0.iter().enumerate() {
            write!(f, "{}{method}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// The condition that a request does not meet. Its text shows no value of a header field: it may be a secret.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Misfit<'a> {
    /// The method is another.
    Method {
        /// That of the request, if it is known.
        method: Option<&'a str>,
        /// Those of the policy.
        wanted: &'a [Box<str>],
    },
    /// The path is another.
    Path {
        /// That of the request in its normal form, if it has one.
        path: Option<&'a str>,
        /// That of the policy.
        wanted: &'a PathPattern,
    },
    /// The host is another.
    Host {
        /// That of the request as it is compared, if it is known.
        host: Option<&'a str>,
        /// That of the policy.
        wanted: &'a Glob,
    },
    /// No line of a header field fits.
    Header {
        /// Its name, in lower case.
        name: &'a str,
        /// What it would have to be.
        wanted: &'a Glob,
        /// There is no such field.
        is_absent: bool,
    },
}

impl fmt::Display for Misfit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Method { method: None, .. } => f.write_str("the method is not known"),
            Self::Method { method: Some(method), wanted } => {
                let of = if wanted.len() == 1 { "" } else { "one of " };
                write!(f, "method {} is not {of}{}", shown(method), Methods(wanted))
            }
            Self::Path { path: None, .. } => f.write_str("there is no path"),
            Self::Path { path: Some(path), wanted } if wanted.is_prefix() => {
                write!(f, "path {} is not under {}/", shown(path), wanted.literal())
            }
            Self::Path { path: Some(path), wanted } => {
                let verb = if wanted.is_exact() { "is not" } else { "does not fit" };
                write!(f, "path {} {verb} {wanted}", shown(path))
            }
            Self::Host { host: None, .. } => f.write_str("the host is not known"),
            Self::Host { host: Some(host), wanted } => {
                let verb = if wanted.is_exact() { "is not" } else { "does not fit" };
                write!(f, "host {} {verb} {wanted}", shown(host))
            }
            Self::Header { name, is_absent: true, .. } => write!(f, "header {name} is absent"),
            Self::Header { name, wanted, is_absent: false } => {
                let verb = if wanted.is_exact() { "is not" } else { "does not fit" };
                write!(f, "header {name} {verb} {}", shown(wanted.as_str()))
            }
        }
    }
}

#[cfg(test)]
mod tests;
