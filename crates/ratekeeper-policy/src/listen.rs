//! Where ratekeeper listens, and who may come in there.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;

use sha2::{Digest as _, Sha256};

/// Where HTTP is served without `listen`: loopback, nobody is exposed unasked.
pub const DEFAULT_HTTP: &str = "127.0.0.1:8080";
/// Where the admin listener is without `listen`: loopback, since it changes state.
pub const DEFAULT_ADMIN: &str = "127.0.0.1:9090";
/// How long a store may take to answer, unless said otherwise: a caller who waits longer has given up.
pub const DEFAULT_DEADLINE: Duration = Duration::from_millis(50);
/// Shortest deadline: no store on another machine answers faster.
pub const MIN_DEADLINE: Duration = Duration::from_millis(1);
/// Longest deadline: no caller of a rate limiter waits for longer.
pub const MAX_DEADLINE: Duration = Duration::from_secs(60);
/// How many connections a listener holds open, unless said otherwise.
pub const DEFAULT_MAX_CONNECTIONS: u32 = 10_000;
/// Most connections of a listener: more than one address has ports for, by far.
pub const MAX_MAX_CONNECTIONS: u32 = 1_000_000;
/// Shortest token: 64 random bits in hexadecimal digits, more than can be guessed over a network.
pub const MIN_TOKEN_BYTES: usize = 16;
/// Longest token: it travels in a header, beside others.
pub const MAX_TOKEN_BYTES: usize = 1_024;
/// The environment variable with the token of an admin listener that names none.
pub const ADMIN_TOKEN_VARIABLE: &str = "RATEKEEPER_ADMIN_TOKEN";

/// What is listened on. A listener that is None is not opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listen {
    /// Checks, over HTTP. It has no token.
    pub http: Option<Listener>,
    /// Metrics and everything that changes state, over HTTP.
    pub admin: Option<Listener>,
}

impl Default for Listen {
    /// [`DEFAULT_HTTP`] and [`DEFAULT_ADMIN`], without a token.
    fn default() -> Self {
        Self { http: Some(Listener::new(DEFAULT_HTTP)), admin: Some(Listener::new(DEFAULT_ADMIN)) }
    }
}

/// An address, and what holds for those who connect to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listener {
    /// An address or host name with a port; port 0 is any free one.
    pub address: String,
    /// How long a store may take to answer: [`MIN_DEADLINE`] to [`MAX_DEADLINE`]. A memory store answers at
    /// once.
    pub deadline: Duration,
    /// The files for TLS; None: plain text.
    pub tls: Option<Tls>,
    /// How many connections are open at once: 1 to [`MAX_MAX_CONNECTIONS`].
    pub max_connections: u32,
    /// What an admin's request must show; None: nothing, which a file may only have on loopback.
    pub token: Option<Secret>,
}

impl Listener {
    /// A listener at `address`, taken as it is, with the defaults of everything else and no token.
    #[must_use]
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            address: address.into(),
            deadline: DEFAULT_DEADLINE,
            tls: None,
            max_connections: DEFAULT_MAX_CONNECTIONS,
            token: None,
        }
    }
}

/// The files of TLS, as they are written: whoever opens them resolves relative paths.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tls {
    /// The certificate chain that is shown.
    pub cert: String,
    /// The private key of its first certificate.
    pub key: String,
    /// The authorities that a client's certificate must come from; None: clients need none.
    pub client_ca: Option<String>,
}

/// A text that must not be seen: it is printed as `***`.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// A token, as requests carry it in `Authorization: Bearer TOKEN`.
    ///
    /// # Errors
    /// If it is not [`MIN_TOKEN_BYTES`] to [`MAX_TOKEN_BYTES`] letters, digits and `-._~+/=`: that is what
    /// the header can carry (RFC 6750, 2.1), and what is shorter can be guessed.
    pub fn token(text: &str) -> Result<Self, TokenError> {
        let sendable = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/=".contains(&b);
        match text.len() {
            0 => Err(TokenError::Empty),
            _ if !text.bytes().all(sendable) => Err(TokenError::NotSendable),
            n if n < MIN_TOKEN_BYTES => Err(TokenError::TooShort),
            n if n > MAX_TOKEN_BYTES => Err(TokenError::TooLong),
            _ => Ok(Self(text.to_owned())),
        }
    }

    /// A password, which the servers of a store are given as it is.
    #[must_use]
    pub fn password(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The text itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether `given` is the text. How long that takes says nothing about where they differ.
    #[must_use]
    pub fn matches(&self, given: &[u8]) -> bool {
        // Digests are of one length, so that of the secret does not show either.
        let (ours, theirs) = (Sha256::digest(self.0.as_bytes()), Sha256::digest(given));
        ours.iter().zip(theirs.iter()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }
}

impl fmt::Debug for Secret {
    /// `***`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.matches(other.0.as_bytes())
    }
}

impl Eq for Secret {}

/// Why a text is no token. It never repeats the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TokenError {
    /// It is empty.
    Empty,
    /// It is shorter than [`MIN_TOKEN_BYTES`].
    TooShort,
    /// It is longer than [`MAX_TOKEN_BYTES`].
    TooLong,
    /// It has characters that the header cannot carry.
    NotSendable,
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a token is not empty"),
            Self::TooShort => write!(f, "a token has at least {MIN_TOKEN_BYTES} characters"),
            Self::TooLong => write!(f, "a token has at most {MAX_TOKEN_BYTES} characters"),
            Self::NotSendable => f.write_str("a token is letters, digits and `-._~+/=`"),
        }
    }
}

impl core::error::Error for TokenError {}

/// The token of [`ADMIN_TOKEN_VARIABLE`], which stands in for one that the file does not name; None if the
/// variable is unset or empty.
///
/// # Errors
/// As for [`Secret::token`].
pub fn admin_token(env: &dyn Fn(&str) -> Option<String>) -> Result<Option<Secret>, TokenError> {
    env(ADMIN_TOKEN_VARIABLE).filter(|text| !text.is_empty()).map(|text| Secret::token(&text)).transpose()
}

/// Whether an address with its port can only be reached from this machine: 127.0.0.0/8, `[::1]`, or
/// `localhost`. No other name is, whatever it may resolve to, and what is no address is not either.
#[must_use]
pub fn is_loopback(address: &str) -> bool {
    if let Ok(address) = address.parse::<SocketAddr>() {
        return address.ip().to_canonical().is_loopback();
    }
    host_and_port(address).is_some_and(|(host, _)| host.eq_ignore_ascii_case("localhost"))
}

/// An address with a port, or a host name with one. Port 0 is any free port.
pub(crate) fn is_address(text: &str) -> bool {
    text.parse::<SocketAddr>().is_ok() || host_and_port(text).is_some()
}

/// Whether two listeners cannot both have their addresses. What names resolve to is not asked.
pub(crate) fn is_same(a: &str, b: &str) -> bool {
    match (a.parse::<SocketAddr>(), b.parse::<SocketAddr>()) {
        (Ok(a), Ok(b)) => a == b && a.port() != 0,
        _ => host_and_port(a).zip(host_and_port(b)).is_some_and(|((host, port), (other, other_port))| {
            host.eq_ignore_ascii_case(other) && port == other_port && port != 0
        }),
    }
}

/// A host name and its port.
fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let label = |label: &str| {
        let good = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(good)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // A last label of digits only is an address that could not be read, not a name (RFC 3696, 2).
    let named = host.rsplit('.').next().is_some_and(|last| last.bytes().any(|b| !b.is_ascii_digit()));
    let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    let good = host.len() <= 253 && host.split('.').all(label) && named && digits;
    Some((host, port.parse().ok()?)).filter(|_| good)
}

#[cfg(test)]
mod tests;
