//! What an answer says about waiting, whatever words it uses.

mod body;
mod counters;
mod limits;
mod retry_after;

use std::time::Duration;

use http::{HeaderMap, StatusCode};

use crate::profile::Classify;

pub(crate) use body::{Json, xml_code};
pub use counters::{Counter, Rules, Unit};

/// Bodies of refusals are looked at if they are not longer than this: what is in there is said in a few lines.
pub const MAX_BODY_BYTES: usize = 8 * 1024;

/// The head of an answer, and when it came.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// Its status.
    pub status: StatusCode,
    /// Its fields; never its trailers.
    pub headers: &'a HeaderMap,
    /// The host that was asked, in small letters; empty if it is not known.
    pub host: &'a str,
    /// The time of day here when the head came, since the Unix epoch. It matters only for dates in an answer that
    /// has no `Date` itself.
    pub wall: Duration,
    /// The body, if it has been read: up to [`MAX_BODY_BYTES`].
    pub body: Option<&'a [u8]>,
}

impl<'a> ResponseHead<'a> {
    /// A head that came at the Unix epoch from nobody.
    #[must_use]
    pub const fn new(status: StatusCode, headers: &'a HeaderMap) -> Self {
        Self { status, headers, host: "", wall: Duration::ZERO, body: None }
    }

    /// A field as text; `None` if it is not sent, or not ASCII.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.headers.get(name)?.to_str().ok().map(str::trim)
    }

    /// What can be asked of the body, if it was read and is not too long.
    pub(crate) fn json(&self) -> Option<Json<'a>> {
        self.body.filter(|body| body.len() <= MAX_BODY_BYTES).map(Json)
    }

    /// The time of day where the answer was made: its `Date`, or else the time here.
    pub(crate) fn made_at(&self) -> Duration {
        self.text("date").and_then(crate::dates::http_date).unwrap_or(self.wall)
    }

    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
    }
}

/// A wait that a server asks for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Wait {
    /// This long from when the head came.
    For(Duration),
    /// Longer than 64 bits can count.
    Forever,
}

/// Where a hint was found, in the order of precedence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum HintSource {
    /// `retry-after-ms`, `x-ms-retry-after-ms` or `x-amz-retry-after`.
    VendorMillis,
    /// `Retry-After`.
    RetryAfter,
    /// An exhausted limit in `RateLimit`.
    RateLimit,
    /// An exhausted limit in three fields, such as `X-RateLimit-Remaining`, `-Reset` and `-Limit`.
    Counters,
    /// The body.
    Body,
    /// The provider is known to mean a wait by this answer, and does not say how long.
    Profile,
    /// Nothing was said.
    Nowhere,
}

/// What an answer tells about one limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitInfo {
    /// The limit's name as the server calls it; the name of the fields where it has none.
    pub name: String,
    /// What remains of it.
    pub remaining: u64,
    /// The time until there is more, from when the head came.
    pub wait: Option<Duration>,
    /// Added to it where the server's clock has whole seconds only.
    pub margin: Duration,
    /// The whole quota.
    pub quota: Option<u64>,
    /// The window of the quota.
    pub window: Option<Duration>,
}

/// What an answer says about waiting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hint {
    /// The wait that is asked for: never shortened by anything here.
    pub wait: Option<Wait>,
    /// Added to it where the server's clock has whole seconds only.
    pub margin: Duration,
    /// Whether the wait doubles from retry to retry, since the provider does not say how long it is.
    pub grows: bool,
    /// Where it was found.
    pub source: HintSource,
    /// The limits that the answer told about, also those that are not exhausted: 16 at most.
    pub limits: Vec<LimitInfo>,
}

impl Hint {
    /// The hint of an answer that says nothing.
    pub const NONE: Self = Self {
        wait: None,
        margin: Duration::ZERO,
        grows: false,
        source: HintSource::Nowhere,
        limits: Vec::new(),
    };

    /// The wait with its margin; `None` if none is asked for.
    #[must_use]
    pub fn least(&self) -> Option<Wait> {
        self.wait.map(|wait| match wait {
            Wait::For(wait) => Wait::For(wait.saturating_add(self.margin)),
            Wait::Forever => Wait::Forever,
        })
    }
}

/// Reads what an answer says about waiting, by the rules of a profile.
///
/// The first that gives a value: a vendor's milliseconds (the larger, if they are more than a second away from
/// `Retry-After`), `Retry-After`, the exhausted limits of `RateLimit`, those of counters such as `X-RateLimit-*`, the
/// body if there is one. Whatever is not well formed counts as not sent.
///
/// ```
/// use std::time::Duration;
/// use http::{HeaderMap, StatusCode};
/// use ratekeeper_client::{HintSource, Profile, ResponseHead, Wait, resolve};
/// let mut headers = HeaderMap::new();
/// headers.insert("ratelimit", r#""api.minute";r=0;t=5"#.parse()?);
/// let hint = resolve(&ResponseHead::new(StatusCode::TOO_MANY_REQUESTS, &headers), &Profile::Generic);
/// assert_eq!((hint.wait, hint.source), (Some(Wait::For(Duration::from_secs(5))), HintSource::RateLimit));
/// # Ok::<(), http::header::InvalidHeaderValue>(())
/// ```
#[must_use]
pub fn resolve(head: &ResponseHead<'_>, profile: &dyn Classify) -> Hint {
    profile.hint(head)
}

#[cfg(test)]
mod tests;
