//! By what requests are told apart.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName};
use http::request::Parts;
use ratekeeper::{Key, MAX_KEY_BYTES, Part};
use ratekeeper_policy::{ClientIp, Forwarding, Network, NetworkError, Source};
use smallvec::SmallVec;

/// What a request is told apart by: [`header`], [`bearer`], [`client_ip`], [`matched_path`], [`global`], a closure
/// ([`key_fn`]), one of them [or](KeyBy::or) another, or several [together](KeyBy::and).
#[derive(Clone)]
pub struct KeyBy {
    kind: Kind,
    /// A mistake in how it was made, told by the builder.
    wrong: Option<Arc<KeyError>>,
}

#[derive(Clone)]
enum Kind {
    ClientIp(ClientIp),
    Header(HeaderName),
    Bearer,
    MatchedPath,
    Global,
    Given(Arc<Given>),
    /// The first that is there.
    Or(Vec<KeyBy>),
    /// All of them.
    And(Vec<KeyBy>),
}

type Given = dyn Fn(&Parts) -> Option<KeyValue> + Send + Sync;

/// A mistake in a key.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum KeyError {
    /// No header has this name.
    Header(String),
    /// A trusted proxy that is no address and no network.
    Proxy(NetworkError),
    /// An IPv6 prefix that is not 1 to 128.
    Ipv6Prefix(u8),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "no header is called {name:?}"),
            Self::Proxy(wrong) => write!(f, "trusted proxies: {wrong}"),
            Self::Ipv6Prefix(bits) => write!(f, "an IPv6 prefix is 1 to 128 bits, not {bits}"),
        }
    }
}

impl std::error::Error for KeyError {}

/// A key that a closure has made: text, bytes, a number, an address, or several of them, which never run together.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum KeyValue {
    /// Text or bytes.
    Bytes(Vec<u8>),
    /// A number: another key than its digits.
    Number(u64),
    /// An address as it is: IPv6 networks are not looked at here, [`client_ip`] does that.
    Address(IpAddr),
    /// Several parts.
    Several(Vec<Self>),
}

macro_rules! value_from {
    ($($from:ty => |$value:ident| $made:expr),+ $(,)?) => {
        $(impl From<$from> for KeyValue {
            fn from($value: $from) -> Self {
                $made
            }
        })+
    };
}

value_from! {
    String => |text| Self::Bytes(text.into_bytes()),
    &str => |text| Self::Bytes(text.as_bytes().to_vec()),
    Vec<u8> => |bytes| Self::Bytes(bytes),
    u64 => |number| Self::Number(number),
    u32 => |number| Self::Number(u64::from(number)),
    IpAddr => |address| Self::Address(address),
}

impl<A: Into<Self>, B: Into<Self>> From<(A, B)> for KeyValue {
    fn from((a, b): (A, B)) -> Self {
        Self::Several(vec![a.into(), b.into()])
    }
}

/// What can be a key: a [`KeyBy`], or a closure on the head of the request.
pub trait IntoKey {
    /// The key.
    fn into_key(self) -> KeyBy;
}

impl IntoKey for KeyBy {
    fn into_key(self) -> KeyBy {
        self
    }
}

impl<F, K> IntoKey for F
where
    F: Fn(&Parts) -> Option<K> + Send + Sync + 'static,
    K: Into<KeyValue>,
{
    fn into_key(self) -> KeyBy {
        key_fn(self)
    }
}

/// The value of a header: its first line that is not empty, without spaces around.
///
/// Whoever invents a value has a fresh limit: an outer layer must have checked it, or add a limit by [`client_ip`].
///
/// A name that no header can have is told when the layer is built.
#[must_use]
pub fn header(name: &str) -> KeyBy {
    match HeaderName::try_from(name) {
        Ok(name) => Kind::Header(name).into(),
        Err(_) => KeyBy { kind: Kind::Global, wrong: Some(Arc::new(KeyError::Header(name.to_owned()))) },
    }
}

/// The token of `Authorization: Bearer …`, as the client sends it.
///
/// Whoever invents a token has a fresh limit: an outer layer must have checked it, or add a limit by [`client_ip`].
#[must_use]
pub fn bearer() -> KeyBy {
    Kind::Bearer.into()
}

/// The path of the route that was matched, such as `/users/{id}`: axum's, for layers on routes (`Router::route_layer`,
/// or `Router::layer` after the routes). Needs the feature `axum`; without a route there is no key.
#[must_use]
pub fn matched_path() -> KeyBy {
    Kind::MatchedPath.into()
}

/// Everybody together.
#[must_use]
pub fn global() -> KeyBy {
    Kind::Global.into()
}

/// What a closure says of the head of a request: a user that an outer layer has put into its extensions, a tenant.
///
/// ```
/// use ratekeeper_tower::key_fn;
/// #[derive(Clone)]
/// struct UserId(u64);
/// let user = key_fn(|parts| parts.extensions.get::<UserId>().map(|user| user.0));
/// ```
pub fn key_fn<K: Into<KeyValue>>(find: impl Fn(&Parts) -> Option<K> + Send + Sync + 'static) -> KeyBy {
    let given: Arc<Given> = Arc::new(move |parts: &Parts| find(parts).map(Into::into));
    Kind::Given(given).into()
}

/// The address of the client: the peer's, unless that is one of the proxies that are [trusted](KeyBy::behind). An
/// IPv6 client is its /64, since it may choose the rest as it likes; IPv4 within IPv6 is IPv4.
#[must_use]
pub fn client_ip() -> KeyBy {
    Kind::ClientIp(ClientIp::default()).into()
}

impl From<Kind> for KeyBy {
    fn from(kind: Kind) -> Self {
        Self { kind, wrong: None }
    }
}

impl KeyBy {
    /// Of [`client_ip`]: these are proxies of ours, as addresses or networks. `X-Forwarded-For` is read from the right,
    /// as far as they have written it; whatever a client claims on the left counts for nothing.
    ///
    /// ```
    /// # use ratekeeper_tower::client_ip;
    /// let key = client_ip().behind(["10.0.0.0/8", "2001:db8::/32"]).ipv6_prefix(56);
    /// ```
    #[must_use]
    pub fn behind<N: AsRef<str>>(mut self, proxies: impl IntoIterator<Item = N>) -> Self {
        for proxy in proxies {
            match (Network::parse(proxy.as_ref()), &mut self.kind) {
                (Ok(network), Kind::ClientIp(client)) => client.trusted.push(network),
                (Ok(_), _) => {}
                (Err(wrong), _) => self.wrong = Some(Arc::new(KeyError::Proxy(wrong))),
            }
        }
        self
    }

    /// Of [`client_ip`]: how many leading bits of an IPv6 address are one client; 64 unless said otherwise.
    #[must_use]
    pub fn ipv6_prefix(mut self, bits: u8) -> Self {
        match &mut self.kind {
            Kind::ClientIp(client) if (1..=128).contains(&bits) => client.ipv6_prefix = bits,
            Kind::ClientIp(_) => self.wrong = Some(Arc::new(KeyError::Ipv6Prefix(bits))),
            _ => {}
        }
        self
    }

    /// Of [`client_ip`]: the proxies write `Forwarded` (RFC 7239), not `X-Forwarded-For`.
    #[must_use]
    pub fn forwarded(mut self) -> Self {
        if let Kind::ClientIp(client) = &mut self.kind {
            client.header = Forwarding::Forwarded;
        }
        self
    }

    /// This, or `other` where it is not there. A value of one is never taken for a value of the other.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let wrong = self.wrong.or_else(|| other.wrong.clone());
        let mut list = match self.kind {
            Kind::Or(list) => list,
            kind => vec![kind.into()],
        };
        list.push(other);
        Self { kind: Kind::Or(list), wrong }
    }

    /// This and `other` together: one key for each pair. Not there unless both are.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let wrong = self.wrong.or_else(|| other.wrong.clone());
        let mut list = match self.kind {
            Kind::And(list) => list,
            kind => vec![kind.into()],
        };
        list.push(other);
        Self { kind: Kind::And(list), wrong }
    }

    /// Calls with the key of a request, as a layer finds it: for a handler that looks at a limiter, or resets it.
    /// `None` if the request has none. The address of the peer is looked for where servers put it, not by
    /// [`LayerBuilder::peer`](crate::LayerBuilder::peer).
    ///
    /// ```
    /// # use ratekeeper::{KeyedLimiter, Limit};
    /// # use ratekeeper_tower::header;
    /// let tries = KeyedLimiter::new(Limit::per_hour(10));
    /// let (request, ()) = http::Request::builder().header("x-user", "ann").body(()).unwrap().into_parts();
    /// header("x-user").with_key(&request, |key| tries.reset(key));
    /// ```
    pub fn with_key<T>(&self, request: &Parts, call: impl FnOnce(Key<'_>) -> T) -> Option<T> {
        match self.find(request, crate::facts::peer(&request.extensions, None)) {
            Found::Key(pieces) => with_key(&pieces, call),
            Found::Missing | Found::NoPeer => None,
        }
    }

    pub(crate) fn wrong(&self) -> Option<&KeyError> {
        self.wrong.as_deref()
    }

    /// Whether everybody has the same key.
    pub(crate) const fn is_global(&self) -> bool {
        matches!(self.kind, Kind::Global)
    }

    /// Whether the address of the client is looked at.
    pub(crate) fn needs_peer(&self) -> bool {
        match &self.kind {
            Kind::ClientIp(_) => true,
            Kind::Or(list) | Kind::And(list) => list.iter().any(Self::needs_peer),
            _ => false,
        }
    }

    /// The key of a request.
    pub(crate) fn find<'r>(&'r self, parts: &'r Parts, peer: Option<IpAddr>) -> Found<'r> {
        let piece = match &self.kind {
            Kind::ClientIp(client) => {
                let Some(peer) = peer else { return Found::NoPeer };
                address(client, peer, &parts.headers).map(|address| Piece::Part(Part::Address(address)))
            }
            Kind::Header(name) => value(&parts.headers, name).map(|value| Piece::Part(Part::Bytes(value))),
            Kind::Bearer => token(&parts.headers).map(|token| Piece::Part(Part::Bytes(token))),
            Kind::MatchedPath => {
                crate::facts::matched_path(parts).map(|path| Piece::Part(Part::Bytes(path.as_bytes())))
            }
            Kind::Global => Some(Piece::Part(Part::Bytes(b""))),
            Kind::Given(find) => {
                let mut pieces = Pieces::new();
                if let Some(value) = find(parts) {
                    Piece::add(value, &mut pieces);
                }
                return Found::of(pieces);
            }
            Kind::Or(list) => return Self::first(list, parts, peer),
            Kind::And(list) => return Self::together(list, parts, peer),
        };
        Found::of(piece.into_iter().collect())
    }

    fn first<'r>(list: &'r [Self], parts: &'r Parts, peer: Option<IpAddr>) -> Found<'r> {
        let mut last = Found::Missing;
        for (place, key) in list.iter().enumerate() {
            match key.find(parts, peer) {
                Found::Key(mut pieces) => {
                    // Which of them it is of is part of it.
                    pieces.insert(0, Piece::Part(Part::Number(place as u64)));
                    return Found::Key(pieces);
                }
                other => last = other,
            }
        }
        last
    }

    fn together<'r>(list: &'r [Self], parts: &'r Parts, peer: Option<IpAddr>) -> Found<'r> {
        let mut all = Pieces::new();
        for key in list {
            match key.find(parts, peer) {
                Found::Key(pieces) => {
                    // A key of several parts is told from its neighbours by their number.
                    all.push(Piece::Part(Part::Number(pieces.len() as u64)));
                    all.extend(pieces);
                }
                other => return other,
            }
        }
        Found::of(all)
    }
}

impl fmt::Display for KeyBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, list: &[Self], word: &str| {
            list.iter().enumerate().try_for_each(|(i, key)| {
                if i > 0 {
                    f.write_str(word)?;
                }
                key.fmt(f)
            })
        };
        match &self.kind {
            Kind::ClientIp(_) => f.write_str("the address of the client"),
            Kind::Header(name) => write!(f, "header {name}"),
            Kind::Bearer => f.write_str("a bearer token"),
            Kind::MatchedPath => f.write_str("the path of a route"),
            Kind::Global => f.write_str("nothing"),
            Kind::Given(_) => f.write_str("a key"),
            Kind::Or(keys) => list(f, keys, " or "),
            Kind::And(keys) => list(f, keys, " and "),
        }
    }
}

impl fmt::Debug for KeyBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyBy({self})")
    }
}

/// What was found of a key.
pub(crate) enum Found<'r> {
    Key(Pieces<'r>),
    Missing,
    /// Nobody knows where the request came from.
    NoPeer,
}

pub(crate) type Pieces<'r> = SmallVec<[Piece<'r>; 2]>;

pub(crate) enum Piece<'r> {
    Part(Part<'r>),
    Owned(Vec<u8>),
}

impl<'r> Found<'r> {
    fn of(pieces: Pieces<'r>) -> Self {
        if pieces.is_empty() { Self::Missing } else { Self::Key(pieces) }
    }
}

impl Piece<'_> {
    pub(crate) fn part(&self) -> Part<'_> {
        match self {
            Self::Part(part) => *part,
            Self::Owned(bytes) => Part::Bytes(bytes),
        }
    }

    fn add(value: KeyValue, pieces: &mut Pieces<'_>) {
        match value {
            KeyValue::Bytes(bytes) if bytes.is_empty() => {}
            KeyValue::Bytes(bytes) => pieces.push(Piece::Owned(bytes)),
            KeyValue::Number(number) => pieces.push(Piece::Part(Part::Number(number))),
            KeyValue::Address(address) => pieces.push(Piece::Part(Part::Address(address))),
            KeyValue::Several(values) => {
                for value in values {
                    match value {
                        // An empty part of several has its place all the same.
                        KeyValue::Bytes(bytes) => pieces.push(Piece::Owned(bytes)),
                        // A list within a list is told from its neighbours by their number.
                        KeyValue::Several(inner) => {
                            pieces.push(Piece::Part(Part::Number(inner.len() as u64 + 1)));
                            Self::add(KeyValue::Several(inner), pieces);
                        }
                        // And a number from the number of a list.
                        KeyValue::Number(_) => {
                            pieces.push(Piece::Part(Part::Number(0)));
                            Self::add(value, pieces);
                        }
                        KeyValue::Address(_) => Self::add(value, pieces),
                    }
                }
            }
        }
    }
}

/// Calls with a key of pieces; `None` if it is longer than keys may be.
pub(crate) fn with_key<T>(pieces: &[Piece<'_>], call: impl FnOnce(Key<'_>) -> T) -> Option<T> {
    if let [piece] = pieces {
        let key = Key::from(piece.part());
        return (key.byte_len() <= MAX_KEY_BYTES).then(|| call(key));
    }
    let parts: SmallVec<[Part<'_>; 4]> = pieces.iter().map(Piece::part).collect();
    let key = Key::from(&parts[..]);
    (key.byte_len() <= MAX_KEY_BYTES).then(|| call(key))
}

fn value<'r>(headers: &'r HeaderMap, name: &HeaderName) -> Option<&'r [u8]> {
    let lines = headers.get_all(name).into_iter();
    lines.map(|line| line.as_bytes().trim_ascii()).find(|line| !line.is_empty())
}

fn token(headers: &HeaderMap) -> Option<&[u8]> {
    let value = value(headers, &AUTHORIZATION)?;
    let (scheme, token) = value.split_at_checked(7)?;
    // RFC 9110, 11.1: schemes have no case.
    let token = scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())?;
    (!token.is_empty()).then_some(token)
}

fn address(client: &ClientIp, peer: IpAddr, headers: &HeaderMap) -> Option<IpAddr> {
    let name = client.header.as_str();
    let mut lines: SmallVec<[(&str, &[u8]); 4]> = SmallVec::new();
    // Without a trusted proxy nobody's word is taken.
    if !client.trusted.is_empty() {
        lines.extend(headers.get_all(name).into_iter().map(|line| (name, line.as_bytes())));
    }
    client.find(Source::Peer(peer), &lines).map(|address| client.masked(address))
}

#[cfg(test)]
mod tests;
