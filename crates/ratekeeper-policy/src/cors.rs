//! Which web pages may ask from a browser.

/// Most origins that are allowed one by one: a site with more has a domain of its own to ask through.
pub const MAX_ORIGINS: usize = 100;
/// Longest origin: a scheme, a name of DNS and a port.
pub const MAX_ORIGIN_BYTES: usize = 300;

/// Which web pages may ask, and read what they are answered.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cors {
    pub(crate) origins: Vec<Box<str>>,
}

impl Cors {
    /// Stands for every origin.
    pub(crate) const ANY: &'static str = "*";

    /// Whether no page may ask: then a browser asks for none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }

    /// Whether pages of this origin may ask. Schemes and names of hosts have no case, and browsers write them in
    /// lower case.
    #[must_use]
    pub fn allows(&self, origin: &[u8]) -> bool {
        self.origins.iter().any(|known| &**known == Self::ANY || known.as_bytes() == origin)
    }

    /// Whether a text is an origin as browsers write it: `https://app.example`, with a port if it is not the
    /// scheme's own, without a path.
    pub(crate) fn is_origin(text: &str) -> bool {
        let Some((scheme, rest)) = text.split_once("://") else { return false };
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (rest, None),
        };
        let good_scheme =
            scheme.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b));
        let good_host =
            host.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-._[]:".contains(&b));
        let good_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|n| n.to_string() == port));
        let own_port = matches!((scheme, port), ("http", Some("80")) | ("https", Some("443")));
        text.len() <= MAX_ORIGIN_BYTES
            && !scheme.is_empty()
            && !host.is_empty()
            && good_scheme
            && good_host
            && good_port
            && !own_port
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_as_browsers_write_them() {
        for origin in [
            "https://app.example",
            "http://localhost:3000",
            "https://[::1]:8443",
            "app://x",
            "https://a-b.example:1",
        ] {
            assert!(Cors::is_origin(origin), "{origin}");
        }
        for text in [
            "",
            "*",
            "null",
            "app.example",
            "https://",
            "https://App.example",
            "HTTPS://app.example",
            "https://app.example/",
            "https://app.example/path",
            "https://app.example:443",
            "http://app.example:80",
            "https://app.example:0x",
            "https://app.example:08",
            "https://*.example",
            "https://a b",
            "https://app.example:65536",
        ] {
            assert!(!Cors::is_origin(text), "{text}");
        }
        let long = format!("https://{}", "a".repeat(MAX_ORIGIN_BYTES - 8));
        assert!(Cors::is_origin(&long));
        assert!(!Cors::is_origin(&format!("{long}a")));
    }

    #[test]
    fn only_the_named_origins_are_allowed_unless_all_are() {
        let cors = Cors { origins: vec!["https://app.example".into()] };
        assert!(cors.allows(b"https://app.example"));
        for other in
            ["https://app.example:8443", "http://app.example", "https://app.example.evil", "null", ""]
        {
            assert!(!cors.allows(other.as_bytes()), "{other}");
        }
        assert!(!Cors::default().allows(b"https://app.example"));
        assert!(Cors { origins: vec!["*".into()] }.allows(b"null"));
    }
}
