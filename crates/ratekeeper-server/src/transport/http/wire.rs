//! The answers of the HTTP listener, field by field in their documented order.

use std::time::Duration;

use hyper::StatusCode;
use ratekeeper_core::{Check, Decision, Name};
use ratekeeper_sim::hints::quoted;
use ratekeeper_sim::json::Flaw;
use serde::Serialize;

/// The answer of `POST /v1/check`.
#[derive(Serialize)]
pub(super) struct CheckAnswer<'a> {
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    policy: &'a str,
    limit: Option<&'a str>,
    remaining: u64,
    retry_after_ms: Option<u64>,
    reset_after_ms: u64,
    delay_ms: u64,
    source: &'static str,
    limits: Vec<LimitAnswer<'a>>,
    shadow_denied: [&'static str; 0],
}

/// One limit's share of it.
#[derive(Serialize)]
struct LimitAnswer<'a> {
    policy: &'a str,
    name: &'a str,
    capacity: u64,
    window_ms: u64,
    remaining: u64,
    reset_after_ms: u64,
}

impl<'a> CheckAnswer<'a> {
    /// The answer to `checks`, the limits of `policy` in their order.
    pub(super) fn new(policy: &'a Name, checks: &[Check<'a>], decision: &Decision) -> Self {
        let limit = |(check, verdict): (&Check<'a>, &ratekeeper_core::Verdict)| LimitAnswer {
            policy: policy.as_str(),
            name: check.limit.name().as_str(),
            capacity: verdict.limit().capacity(),
            window_ms: millis(verdict.limit().refill()),
            remaining: verdict.remaining(),
            reset_after_ms: millis(verdict.reset_after()),
        };
        Self {
            allowed: decision.allowed,
            reason: decision.reason.map(ratekeeper_core::Reason::name),
            policy: policy.as_str(),
            limit: checks.get(decision.binding).map(|check| check.limit.name().as_str()),
            remaining: decision.remaining,
            retry_after_ms: decision.retry_after.map(millis),
            reset_after_ms: millis(decision.reset_after),
            delay_ms: millis(decision.delay),
            source: decision.source.name(),
            limits: checks.iter().zip(decision.limits()).map(limit).collect(),
            shadow_denied: [],
        }
    }
}

/// Whole milliseconds, rounded up: who waits that long is not refused for the rest of one.
fn millis(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// A problem object (RFC 9457): what is wrong with a request.
#[derive(Serialize)]
pub(super) struct Problem {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<ProblemField>,
    /// The methods that the path has, for the `Allow` field.
    #[serde(skip)]
    pub(super) allow: Option<&'static str>,
    /// The rest of the request was not read, so the connection cannot be used again.
    #[serde(skip)]
    pub(super) closes: bool,
}

/// One field of the request that is wrong.
#[derive(Serialize)]
struct ProblemField {
    pointer: String,
    detail: String,
}

impl Problem {
    fn new(status: StatusCode, kind: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        let (status, detail) = (status.as_u16(), detail.into());
        Self { kind, title, status, detail, errors: Vec::new(), allow: None, closes: false }
    }

    /// The HTTP status.
    pub(super) fn status(&self) -> StatusCode {
        // Only ever made from a status.
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The body is wrong.
    pub(super) fn bad_input(flaws: &[Flaw]) -> Self {
        let detail = flaws.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let mut problem =
            Self::new(StatusCode::BAD_REQUEST, "urn:ratekeeper:problem:bad-input", "Bad input", detail);
        problem.errors = flaws
            .iter()
            .map(|flaw| ProblemField { pointer: flaw.pointer.clone(), detail: flaw.to_string() })
            .collect();
        problem
    }

    /// The body names a policy that is not there.
    pub(super) fn unknown_policy(flaw: &Flaw) -> Self {
        let mut problem = Self::bad_input(std::slice::from_ref(flaw));
        problem.status = StatusCode::NOT_FOUND.as_u16();
        (problem.kind, problem.title) = ("urn:ratekeeper:problem:unknown-policy", "Unknown policy");
        problem
    }

    /// More limits meet than one decision takes.
    pub(super) fn too_many_limits(detail: String) -> Self {
        let kind = "urn:ratekeeper:problem:too-many-limits";
        Self::new(StatusCode::BAD_REQUEST, kind, "Too many limits", detail)
    }

    /// The store has no answer.
    pub(super) fn unavailable(detail: String) -> Self {
        let kind = "urn:ratekeeper:problem:unavailable";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, kind, "Unavailable", detail)
    }

    /// Nothing is served at this path.
    pub(super) fn not_found() -> Self {
        let detail = "nothing is served at this path: POST /v1/check decides, GET /livez and /readyz tell of the server";
        Self::new(StatusCode::NOT_FOUND, "urn:ratekeeper:problem:not-found", "Not found", detail)
    }

    /// The path is right, the method is not.
    pub(super) fn method_not_allowed(allow: &'static str) -> Self {
        let detail = format!("this path is served for {allow}");
        let kind = "urn:ratekeeper:problem:method-not-allowed";
        let mut problem = Self::new(StatusCode::METHOD_NOT_ALLOWED, kind, "Method not allowed", detail);
        problem.allow = Some(allow);
        problem
    }

    /// A request that leaves open whom it is for (RFC 9112, 3.2).
    pub(super) fn bad_host() -> Self {
        let kind = "urn:ratekeeper:problem:bad-input";
        let detail = "an HTTP/1.1 request has one Host field";
        Self::new(StatusCode::BAD_REQUEST, kind, "Bad input", detail)
    }

    /// The address of the request asks for something that is not there yet.
    pub(super) fn query_not_available(query: &str) -> Self {
        let kind = "urn:ratekeeper:problem:not-available";
        let detail = format!("query parameters are not available in this version: {}", quoted(query));
        Self::new(StatusCode::BAD_REQUEST, kind, "Not available", detail)
    }

    /// The body is longer than is read.
    pub(super) fn body_too_large(most: usize) -> Self {
        let detail = format!("a body has at most {most} bytes");
        let kind = "urn:ratekeeper:problem:body-too-large";
        let mut problem = Self::new(StatusCode::PAYLOAD_TOO_LARGE, kind, "Body too large", detail);
        problem.closes = true;
        problem
    }

    /// The body is compressed.
    pub(super) fn unsupported_encoding() -> Self {
        let detail = "a body is sent as it is: without Content-Encoding, or with identity";
        let kind = "urn:ratekeeper:problem:unsupported-encoding";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, kind, "Unsupported encoding", detail)
    }

    /// A web page sends what its visitor's browser would not ask leave for.
    pub(super) fn foreign_page() -> Self {
        let detail = "a request with an Origin field needs `Content-Type: application/json`";
        let kind = "urn:ratekeeper:problem:unsupported-media-type";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, kind, "Unsupported media type", detail)
    }

    /// The body does not come.
    pub(super) fn body_timeout(seconds: u64) -> Self {
        let detail = format!("the body did not arrive within {seconds} s");
        let kind = "urn:ratekeeper:problem:body-timeout";
        let mut problem = Self::new(StatusCode::REQUEST_TIMEOUT, kind, "Body timeout", detail);
        problem.closes = true;
        problem
    }

    /// The body ended before its announced end, or its chunks are wrong.
    pub(super) fn body_broken() -> Self {
        let kind = "urn:ratekeeper:problem:bad-input";
        let mut problem =
            Self::new(StatusCode::BAD_REQUEST, kind, "Bad input", "the body could not be read to its end");
        problem.closes = true;
        problem
    }
}
