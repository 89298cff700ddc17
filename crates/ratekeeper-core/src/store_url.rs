//! Where a store of Redis or Valkey is: `redis://…` and its kin, read without asking anybody.

mod error;

use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};
use core::str::FromStr;

pub use self::error::StoreUrlError;

/// Longest text: 32 names of 60 bytes fit, or a password of a cloud beside one.
pub const MAX_STORE_URL_BYTES: usize = 2_048;
/// Most hosts: a client asks them in turn to find the others, and nobody waits for more.
pub const MAX_STORE_HOSTS: usize = 32;
/// Largest number of a database: servers count them by an `int` of C.
pub const MAX_STORE_DATABASE: u32 = 0x7fff_ffff;

/// Where servers listen, unless said otherwise.
const SERVER_PORT: u16 = 6_379;
/// Where sentinels listen, unless said otherwise.
const SENTINEL_PORT: u16 = 26_379;
/// Longest name of a host (RFC 1035, 2.3.4).
const MAX_HOST_BYTES: usize = 253;
/// Longest part of it between dots.
const MAX_LABEL_BYTES: usize = 63;

/// How the servers of a store belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Topology {
    /// One server.
    Standalone,
    /// Sentinels, which know the server that may be written to.
    Sentinel,
    /// A cluster, whose servers know each other.
    Cluster,
}

/// Schemes, and what they mean: the topology, and whether over TLS.
const SCHEMES: [(&str, Topology, bool); 6] = [
    ("redis", Topology::Standalone, false),
    ("rediss", Topology::Standalone, true),
    ("redis+sentinel", Topology::Sentinel, false),
    ("rediss+sentinel", Topology::Sentinel, true),
    ("redis+cluster", Topology::Cluster, false),
    ("rediss+cluster", Topology::Cluster, true),
];

/// The address of a store:
/// `redis://[[user]:password@]host[:port][/db]`, `redis+sentinel://[…@]h1[:port],h2[:port]/MASTER[/db]` or
/// `redis+cluster://[…@]h1[:port],h2[:port]`, with `rediss` for TLS.
///
/// An address of IPv6 stands in brackets. In user and password what is no letter, digit or one of `-._~!$&'()*+,;=` is
/// written as `%XX`. Ports are 6379, those of sentinels 26379, unless they are said. `Display` and `Debug` write `***` for
/// the password; without one, the text is read back as the same URL.
///
/// ```
/// use ratekeeper_core::{StoreUrl, Topology};
/// let url: StoreUrl = "rediss://limiter:s3cr%40t@redis.internal/2".parse().expect("a URL");
/// assert_eq!((url.topology(), url.is_tls(), url.database()), (Topology::Standalone, true, 2));
/// assert_eq!(url.hosts(), [("redis.internal".to_owned(), 6379)]);
/// assert_eq!((url.username(), url.password()), (Some("limiter"), Some("s3cr@t")));
/// assert_eq!(url.to_string(), "rediss://limiter:***@redis.internal:6379/2");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    topology: Topology,
    tls: bool,
    /// 1 to [`MAX_STORE_HOSTS`], one if it is standalone.
    hosts: Vec<(String, u16)>,
    /// There if and only if there are sentinels.
    master: Option<String>,
    /// 0 in a cluster.
    database: u32,
    /// Not empty.
    username: Option<String>,
    /// Not empty.
    password: Option<String>,
}

impl StoreUrl {
    /// Reads a URL.
    ///
    /// # Errors
    /// The first mistake, in words that repeat nothing of the text. URLs of more than [`MAX_STORE_URL_BYTES`] or
    /// [`MAX_STORE_HOSTS`] are refused. No input panics.
    pub fn parse(text: &str) -> Result<Self, StoreUrlError> {
        use StoreUrlError as Wrong;
        if text.len() > MAX_STORE_URL_BYTES {
            return Err(Wrong::TooLong);
        }
        let (scheme, rest) = text.split_once("://").ok_or(Wrong::Scheme)?;
        let known = SCHEMES.into_iter().find(|(name, ..)| *name == scheme);
        let (_, topology, tls) = known.ok_or(Wrong::Scheme)?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
        // Nothing behind the hosts has an `@`: it is the end of a password with one of those characters.
        if path.contains('@') {
            return Err(Wrong::Credentials);
        }
        let (user_info, hosts) = match authority.rsplit_once('@') {
            Some((user_info, hosts)) => (Some(user_info), hosts),
            None => (None, authority),
        };
        let (username, password) = user_info.map_or(Ok((None, None)), credentials)?;
        let hosts = read_hosts(hosts, topology)?;
        if path.contains(['?', '#']) {
            return Err(Wrong::Options);
        }
        let (master, database) = read_path(path, topology)?;
        Ok(Self { topology, tls, hosts, master, database, username, password })
    }

    /// How the servers belong together.
    #[must_use]
    pub const fn topology(&self) -> Topology {
        self.topology
    }

    /// Whether they are spoken to over TLS.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        self.tls
    }

    /// Names or addresses with ports, in their order: 1 to [`MAX_STORE_HOSTS`], and one only if it is
    /// [`Topology::Standalone`]. They are sentinels if it is [`Topology::Sentinel`], else servers. Addresses of IPv6 have no
    /// brackets.
    #[must_use]
    pub fn hosts(&self) -> &[(String, u16)] {
        &self.hosts
    }

    /// What sentinels call the server; there if and only if it is [`Topology::Sentinel`].
    #[must_use]
    pub fn master(&self) -> Option<&str> {
        self.master.as_deref()
    }

    /// The number of the database, at most [`MAX_STORE_DATABASE`]; 0 in a cluster.
    #[must_use]
    pub const fn database(&self) -> u32 {
        self.database
    }

    /// The user, without its escapes; never empty.
    #[must_use]
    pub fn username(&self) -> Option<&str> {
        self.username.as_deref()
    }

    /// The password, without its escapes; never empty, and never to be shown.
    #[must_use]
    pub fn password(&self) -> Option<&str> {
        self.password.as_deref()
    }

    fn scheme(&self) -> &'static str {
        let ours = |scheme: &&(&str, Topology, bool)| (scheme.1, scheme.2) == (self.topology, self.tls);
        SCHEMES.iter().find(ours).map_or("redis", |(name, ..)| name)
    }
}

/// User and password; what is empty is none.
type Credentials = (Option<String>, Option<String>);

fn credentials(user_info: &str) -> Result<Credentials, StoreUrlError> {
    let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
    let read = |text: &str| Ok(Some(unescaped(text)?).filter(|text| !text.is_empty()));
    Ok((read(user)?, read(password)?))
}

/// Whether a byte stands for itself in user and password (RFC 3986, 3.2.1). A second `:` has to be escaped.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte)
}

fn unescaped(text: &str) -> Result<String, StoreUrlError> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let code = digit().zip(digit()).map(|(high, low)| high << 4 | low);
                out.push(code.and_then(|code| u8::try_from(code).ok()).ok_or(StoreUrlError::Credentials)?);
            }
            byte if is_plain(byte) => out.push(byte),
            _ => return Err(StoreUrlError::Credentials),
        }
    }
    String::from_utf8(out).map_err(|_| StoreUrlError::Credentials)
}

fn read_hosts(text: &str, topology: Topology) -> Result<Vec<(String, u16)>, StoreUrlError> {
    if text.is_empty() {
        return Err(StoreUrlError::NoHost);
    }
    if topology == Topology::Standalone && text.contains(',') {
        return Err(StoreUrlError::OneHost);
    }
    if text.split(',').nth(MAX_STORE_HOSTS).is_some() {
        return Err(StoreUrlError::TooManyHosts);
    }
    let port = if topology == Topology::Sentinel { SENTINEL_PORT } else { SERVER_PORT };
    text.split(',').map(|host| read_host(host, port)).collect()
}

/// `host`, `host:port`, `[::1]` or `[::1]:port`.
fn read_host(text: &str, default_port: u16) -> Result<(String, u16), StoreUrlError> {
    use StoreUrlError as Wrong;
    let (host, port) = if let Some(bracketed) = text.strip_prefix('[') {
        let (address, rest) = bracketed.split_once(']').ok_or(Wrong::Host)?;
        let address: Ipv6Addr = address.parse().map_err(|_| Wrong::Host)?;
        let port = if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or(Wrong::Host)?) };
        (address.to_string(), port)
    } else {
        let (host, port) = text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
        if port.is_some_and(|port| port.contains(':')) {
            return Err(Wrong::Host);
        }
        if host.is_empty() {
            return Err(Wrong::NoHost);
        }
        if !is_host(host) {
            return Err(Wrong::Host);
        }
        (String::from(host), port)
    };
    Ok((host, port.map_or(Ok(default_port), read_port)?))
}

fn read_port(text: &str) -> Result<u16, StoreUrlError> {
    plain_digits(text).filter(|port| *port != 0).ok_or(StoreUrlError::Port)
}

/// A number that has nothing but digits.
fn plain_digits<T: FromStr>(text: &str) -> Option<T> {
    // The standard library takes a `+` too.
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// A name, or an address of IPv4. Names within networks of containers have `_`.
fn is_host(text: &str) -> bool {
    let label = |label: &str| {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        (1..=MAX_LABEL_BYTES).contains(&label.len()) && label.bytes().all(good)
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    // A last label of digits only is an address, not a name (RFC 3696, 2).
    let last = name.rsplit('.').next().unwrap_or(name);
    let is_address = last.bytes().all(|byte| byte.is_ascii_digit());
    if is_address {
        return text.parse::<Ipv4Addr>().is_ok();
    }
    name.len() <= MAX_HOST_BYTES && name.split('.').all(label)
}

/// The master, if there are sentinels, and the database.
fn read_path(path: &str, topology: Topology) -> Result<(Option<String>, u32), StoreUrlError> {
    use StoreUrlError as Wrong;
    let path = path.strip_prefix('/').unwrap_or(path);
    if topology != Topology::Sentinel {
        let database = read_database(path)?;
        let has_others = topology == Topology::Standalone || database == 0;
        return if has_others { Ok((None, database)) } else { Err(Wrong::ClusterDatabase) };
    }
    let (master, database) = path.split_once('/').unwrap_or((path, ""));
    // What sentinels take for a name.
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if master.is_empty() {
        return Err(Wrong::NoMaster);
    }
    if !master.bytes().all(good) {
        return Err(Wrong::Master);
    }
    Ok((Some(String::from(master)), read_database(database)?))
}

fn read_database(text: &str) -> Result<u32, StoreUrlError> {
    if text.is_empty() {
        return Ok(0);
    }
    let number = plain_digits(text).filter(|number| *number <= MAX_STORE_DATABASE);
    number.ok_or(StoreUrlError::Database)
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(text: &str) -> Result<Self, StoreUrlError> {
        Self::parse(text)
    }
}

impl fmt::Display for StoreUrl {
    /// The URL with all its ports and `***` for the password: `redis://user:***@10.0.0.5:6379/2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme())?;
        if let Some(username) = &self.username {
            for byte in username.bytes() {
                if is_plain(byte) {
                    write!(f, "{}", char::from(byte))?;
                } else {
                    write!(f, "%{byte:02X}")?;
                }
            }
        }
        if self.password.is_some() {
            f.write_str(":***")?;
        }
        if self.username.is_some() || self.password.is_some() {
            f.write_str("@")?;
        }
        for (i, (host, port)) in self.hosts.iter().enumerate() {
            let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
            write!(f, "{}{open}{host}{close}:{port}", if i == 0 { "" } else { "," })?;
        }
        if let Some(master) = &self.master {
            write!(f, "/{master}")?;
        }
        if self.database != 0 {
            write!(f, "/{}", self.database)?;
        }
        Ok(())
    }
}

impl fmt::Debug for StoreUrl {
    /// As `Display`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

#[cfg(test)]
mod tests;
