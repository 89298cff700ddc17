//! The head of a request, and whose quota it uses.

use http::{HeaderMap, Method, Uri};

/// The head of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Where it goes.
    pub uri: &'a Uri,
    /// Its fields.
    pub headers: &'a HeaderMap,
}

impl RequestHead<'_> {
    /// `https://api.example.com`: scheme, host and port as they tell origins apart, in small letters. Without an
    /// authority in the URI, what `Host` says.
    ///
    /// ```
    /// use http::{HeaderMap, Method};
    /// use ratekeeper_client::RequestHead;
    /// let (uri, headers) = ("HTTPS://API.example.com:443/v1/users?page=2".parse()?, HeaderMap::new());
    /// let head = RequestHead { method: &Method::GET, uri: &uri, headers: &headers };
    /// assert_eq!(head.origin(), "https://api.example.com");
    /// # Ok::<(), http::uri::InvalidUri>(())
    /// ```
    #[must_use]
    pub fn origin(&self) -> String {
        let scheme = self.uri.scheme_str().unwrap_or("http").to_ascii_lowercase();
        let port = match (self.uri.port_u16(), scheme.as_str()) {
            (Some(80), "http") | (Some(443), "https") | (None, _) => None,
            (port, _) => port,
        };
        let host = self.host();
        match port {
            Some(port) if self.uri.host().is_some() => format!("{scheme}://{host}:{port}"),
            _ => format!("{scheme}://{host}"),
        }
    }

    /// The host in small letters; empty if there is none.
    #[must_use]
    pub fn host(&self) -> String {
        let of_field = || self.headers.get(http::header::HOST)?.to_str().ok();
        self.uri.host().or_else(of_field).unwrap_or_default().to_ascii_lowercase()
    }
}
