//! What is looked at of a request: where it came from, and its head in the form of policies.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::Extensions;
use http::request::Parts;
use http::{Method, header};
use ratekeeper_policy::{Facts, Source};
use smallvec::SmallVec;

/// Finds the address of whoever is connected, in a way of the program's own.
pub(crate) type PeerOf = Arc<dyn Fn(&Extensions) -> Option<IpAddr> + Send + Sync>;

/// Field lines in the form of policies.
pub(crate) type Lines<'r> = SmallVec<[(&'r str, &'r [u8]); 24]>;

/// The address of whoever is connected: by the program's own way, a `SocketAddr` among the extensions, or what axum
/// and tonic put there.
pub(crate) fn peer(extensions: &Extensions, own: Option<&PeerOf>) -> Option<IpAddr> {
    if let Some(own) = own {
        return own(extensions);
    }
    #[cfg(feature = "axum")]
    if let Some(address) = of_axum(extensions) {
        return Some(address);
    }
    #[cfg(feature = "tonic")]
    if let Some(info) = extensions.get::<tonic::transport::server::TcpConnectInfo>() {
        return info.remote_addr().map(|address| address.ip());
    }
    extensions.get::<SocketAddr>().map(SocketAddr::ip)
}

#[cfg(feature = "axum")]
fn of_axum(extensions: &Extensions) -> Option<IpAddr> {
    use axum::extract::connect_info::{ConnectInfo, MockConnectInfo};
    let told = extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
    told.or_else(|| extensions.get::<MockConnectInfo<SocketAddr>>().map(|info| info.0.ip()))
}

/// The path of the route that was matched.
#[cfg(feature = "axum")]
pub(crate) fn matched_path(parts: &Parts) -> Option<&str> {
    parts.extensions.get::<axum::extract::MatchedPath>().map(axum::extract::MatchedPath::as_str)
}

#[cfg(not(feature = "axum"))]
pub(crate) const fn matched_path(_: &Parts) -> Option<&str> {
    None
}

/// All field lines of a request.
pub(crate) fn lines(parts: &Parts) -> Lines<'_> {
    parts.headers.iter().map(|(name, line)| (name.as_str(), line.as_bytes())).collect()
}

/// A request in the form of policies.
pub(crate) fn facts<'r>(parts: &'r Parts, lines: &'r [(&'r str, &'r [u8])], source: Source) -> Facts<'r> {
    let uri = original_uri(parts);
    let host = parts.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    Facts {
        method: Some(parts.method.as_str()),
        target: uri.path_and_query().map(http::uri::PathAndQuery::as_str),
        host: host.or_else(|| uri.authority().map(http::uri::Authority::as_str)),
        headers: lines,
        source,
    }
}

/// The target as it was sent: routers that nest strip what is in front.
#[cfg(feature = "axum")]
fn original_uri(parts: &Parts) -> &http::Uri {
    parts.extensions.get::<axum::extract::OriginalUri>().map_or(&parts.uri, |original| &original.0)
}

#[cfg(not(feature = "axum"))]
const fn original_uri(parts: &Parts) -> &http::Uri {
    &parts.uri
}

/// Whether it is what a browser asks before the request itself, which is then limited.
pub(crate) fn is_preflight<B>(request: &http::Request<B>) -> bool {
    *request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ORIGIN)
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// Whether the caller speaks gRPC, and so reads a refusal in its own fields. gRPC-Web is another protocol, whose clients
/// read the status of HTTP too.
pub(crate) fn is_grpc(parts: &Parts) -> bool {
    const KIND: &[u8] = b"application/grpc";
    let kind = parts.headers.get(header::CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
    let Some((start, rest)) = kind.split_at_checked(KIND.len()) else { return false };
    // Every call of gRPC is a POST. Whoever asks by another method might be told a 200 that caches keep.
    parts.method == Method::POST
        && start.eq_ignore_ascii_case(KIND)
        && matches!(rest.trim_ascii_start().first(), None | Some(b'+' | b';'))
}
