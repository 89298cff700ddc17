//! How a layer behaves beside its limits.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Extensions, HeaderMap, Response, StatusCode, response};
use ratekeeper::{Clock, Decision};
use ratekeeper_policy::{MissingKey, Mode};

use crate::denied::Denied;
use crate::facts::PeerOf;
use crate::rule::CostOf;

type RefundIf = Arc<dyn Fn(&Answered<'_>) -> bool + Send + Sync>;
type OnDenied = Arc<dyn Fn(&Denied<'_>) -> Response<Bytes> + Send + Sync>;
type Observe = Arc<dyn Fn(&Observed<'_>) + Send + Sync>;
type OnWarning = Arc<dyn Fn(&Warning) + Send + Sync>;

/// Most requests of one layer that wait at a time, unless said otherwise: each holds its connection and its body.
pub const DEFAULT_MAX_WAITING: usize = 1_024;

pub(crate) struct Options {
    pub(crate) mode: Mode,
    pub(crate) missing_key: MissingKey,
    pub(crate) missing_peer: MissingKey,
    pub(crate) cost: Option<CostOf>,
    pub(crate) refund_if: Option<RefundIf>,
    pub(crate) on_denied: Option<OnDenied>,
    pub(crate) observe: Option<Observe>,
    pub(crate) on_warning: Option<OnWarning>,
    pub(crate) peer: Option<PeerOf>,
    pub(crate) counts_preflights: bool,
    /// How long a request may wait for its admission.
    pub(crate) wait: Option<Duration>,
    pub(crate) max_waiting: usize,
    pub(crate) waiting: AtomicUsize,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) has_warned: AtomicBool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::Enforce,
            missing_key: MissingKey::Skip,
            missing_peer: MissingKey::Shared,
            cost: None,
            refund_if: None,
            on_denied: None,
            observe: None,
            on_warning: None,
            peer: None,
            counts_preflights: false,
            wait: None,
            max_waiting: DEFAULT_MAX_WAITING,
            waiting: AtomicUsize::new(0),
            clock: Arc::new(ratekeeper::ProcessClock),
            has_warned: AtomicBool::new(false),
        }
    }
}

/// The inner service's answer, as a refund is decided by it.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    head: &'a response::Parts,
}

impl<'a> Answered<'a> {
    pub(crate) const fn new(head: &'a response::Parts) -> Self {
        Self { head }
    }

    /// Its status.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.head.status
    }

    /// Its header fields. A gRPC service that fails before its first message says `grpc-status` here.
    #[must_use]
    pub const fn headers(&self) -> &'a HeaderMap {
        &self.head.headers
    }

    /// What the service has put beside it for the layers outside.
    #[must_use]
    pub const fn extensions(&self) -> &'a Extensions {
        &self.head.extensions
    }
}

/// A decision, for whoever counts or logs them.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The head of the request.
    pub request: &'a Parts,
    /// What the limits said.
    pub decision: &'a Decision,
    /// The policy of the limit that binds.
    pub policy: &'a str,
    /// The limit that binds.
    pub limit: &'a str,
    /// It refuses nobody: the layer or the policy is in shadow mode.
    pub is_shadow: bool,
}

/// What a layer finds wrong with how the program is put together. Told once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Warning {
    /// A limit counts by the address of the client, and the request came without one.
    NoPeerAddress,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPeerAddress => f.write_str(
                "a limit counts by the address of the client, and this server does not tell it: serve axum by \
                 `into_make_service_with_connect_info::<SocketAddr>()`, enable the feature `tonic` for tonic's own \
                 transport (behind its TLS `.peer(…)` is needed), put a `SocketAddr` into the extensions of requests, or say `.peer(…)`. Until then all \
                 such requests are treated as `missing_peer` says",
            ),
        }
    }
}

#[cfg(test)]
mod tests;
