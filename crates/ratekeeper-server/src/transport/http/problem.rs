//! Problem objects (RFC 9457): what is wrong with a request, or with the server.

use hyper::StatusCode;
use ratekeeper_core::Reason;
use ratekeeper_sim::hints::quoted;
use ratekeeper_sim::json::Flaw;
use serde::Serialize;

use crate::transport::http::reply::Reply;

pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// A problem object (RFC 9457): what is wrong with a request.
#[derive(Clone)]
pub(crate) struct Problem(Box<Details>);

/// Boxed, since most answers are none.
#[derive(Clone, Serialize)]
struct Details {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    /// What programs look at first: one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
    /// Why a request is refused, in the word of decisions.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The same as the field of this name, in whole seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<ProblemField>,
    /// The methods that the path has, for the `Allow` field.
    #[serde(skip)]
    allow: Option<&'static str>,
    /// The rest of the request was not read, so the connection cannot be used again.
    #[serde(skip)]
    closes: bool,
    /// The token is asked for.
    #[serde(skip)]
    challenge: bool,
}

/// One field of the request that is wrong.
#[derive(Clone, Serialize)]
struct ProblemField {
    pointer: String,
    detail: String,
}

/// From RFC 9457's registry of problem types, as the drafts on rate limit fields ask for.
const REDUCED_CAPACITY: &str = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

/// How many things that are wrong are told at once: more than one request has by mistake. Without a bound a
/// batch of nonsense would be answered by forty times its bytes.
const MAX_FLAWS: usize = 8;

impl Problem {
    fn new(status: StatusCode, kind: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        let (status, detail) = (status.as_u16(), detail.into());
        Self(Box::new(Details {
            kind,
            title,
            status,
            detail,
            error: None,
            reason: None,
            retry_after: None,
            errors: Vec::new(),
            allow: None,
            closes: false,
            challenge: false,
        }))
    }

    /// What is wrong, in a sentence.
    pub(crate) fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Makes it the answer.
    pub(crate) fn write(&self, reply: &mut Reply) {
        reply.begin(self.0.status, PROBLEM_JSON);
        if let Some(allow) = self.0.allow {
            reply.field("allow", allow.as_bytes());
        }
        if self.0.challenge {
            reply.field("www-authenticate", b"Bearer");
        }
        if let Some(seconds) = self.0.retry_after {
            reply.number("retry-after", seconds);
            reply.field("cache-control", b"no-store");
        }
        reply.json(&self.0);
        reply.closes = self.0.closes;
    }

    /// Appends it as JSON.
    pub(crate) fn write_object(&self, body: &mut Vec<u8>) {
        // Structs of texts and numbers cannot fail to be written; should they, a short body is no panic.
        let _ = serde_json::to_writer(body, &self.0);
    }

    /// The same problem within a list: its pointers begin with `place`.
    pub(crate) fn within(mut self, place: &str) -> Self {
        for error in &mut self.0.errors {
            error.pointer.insert_str(0, place);
        }
        self
    }

    fn until(mut self, seconds: u64) -> Self {
        (self.0.error, self.0.retry_after) = (Some("unavailable"), Some(seconds));
        self
    }

    /// The body is wrong.
    pub(crate) fn bad_input(flaws: &[Flaw]) -> Self {
        let (told, rest) = flaws.split_at(flaws.len().min(MAX_FLAWS));
        let mut detail = told.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        if !rest.is_empty() {
            detail.push_str(&format!("; and {} more", rest.len()));
        }
        let mut problem =
            Self::new(StatusCode::BAD_REQUEST, "urn:ratekeeper:problem:bad-input", "Bad input", detail);
        problem.0.errors = told
            .iter()
            .map(|flaw| ProblemField { pointer: flaw.pointer.clone(), detail: flaw.to_string() })
            .collect();
        problem
    }

    /// The body names a policy that is not there.
    pub(crate) fn unknown_policy(flaw: &Flaw) -> Self {
        let mut problem = Self::bad_input(std::slice::from_ref(flaw));
        problem.0.status = StatusCode::NOT_FOUND.as_u16();
        (problem.0.kind, problem.0.title) = ("urn:ratekeeper:problem:unknown-policy", "Unknown policy");
        problem
    }

    /// More limits meet than one decision takes.
    pub(crate) fn too_many_limits(detail: String) -> Self {
        let kind = "urn:ratekeeper:problem:too-many-limits";
        Self::new(StatusCode::BAD_REQUEST, kind, "Too many limits", detail)
    }

    /// The store has no answer.
    pub(crate) fn unavailable(detail: String) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, REDUCED_CAPACITY, "Unavailable", detail).until(1)
    }

    /// The store does not answer, and the policy refuses then: it is worth asking again after `seconds`.
    pub(crate) fn store_unavailable(policy: &str, seconds: u64) -> Self {
        let detail = format!(
            "The store of policy {policy} does not answer, and on_store_error is deny. Retry in {seconds} s."
        );
        let title = "Temporarily reduced capacity";
        let mut problem =
            Self::new(StatusCode::SERVICE_UNAVAILABLE, REDUCED_CAPACITY, title, detail).until(seconds);
        problem.0.reason = Some(Reason::StoreUnavailable.name());
        problem
    }

    /// Too many answers wait for their readers.
    pub(crate) fn overloaded() -> Self {
        let detail = "too many answers wait to be read; nothing has been decided";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, REDUCED_CAPACITY, "Overloaded", detail).until(1)
    }

    /// No more reservations are kept.
    pub(crate) fn too_many_holds(most: usize, seconds: u64) -> Self {
        let detail = format!("{most} reservations are open, and no more are kept: settle them, or wait");
        Self::new(StatusCode::SERVICE_UNAVAILABLE, REDUCED_CAPACITY, "Too many reservations", detail)
            .until(seconds)
    }

    /// No reservation of this id is known.
    pub(crate) fn unknown_id() -> Self {
        let detail = "no reservation has this id: it has expired, or was made by another server";
        let mut problem =
            Self::new(StatusCode::NOT_FOUND, "urn:ratekeeper:problem:unknown-id", "Unknown id", detail);
        problem.0.errors.push(ProblemField { pointer: "/id".to_owned(), detail: detail.to_owned() });
        problem
    }

    /// The reservation has ended in another way before.
    pub(crate) fn already_settled(cost: u64) -> Self {
        let detail = match cost {
            0 => "this reservation has been given back".to_owned(),
            cost => format!("this reservation has been settled, at {cost}"),
        };
        let kind = "urn:ratekeeper:problem:already-settled";
        Self::new(StatusCode::CONFLICT, kind, "Already settled", detail)
    }

    /// Nothing is different for this key.
    pub(crate) fn unknown_override() -> Self {
        let detail = "there is no temporary override of this key; those of the file are in the file";
        let kind = "urn:ratekeeper:problem:unknown-override";
        Self::new(StatusCode::NOT_FOUND, kind, "Unknown override", detail)
    }

    /// No more temporary overrides are taken. Waiting does not help, but deleting some does.
    pub(crate) fn too_many_overrides(detail: String) -> Self {
        let kind = "urn:ratekeeper:problem:too-many-overrides";
        Self::new(StatusCode::CONFLICT, kind, "Too many overrides", detail)
    }

    /// Nothing is served at this path.
    pub(crate) fn not_found(served: &str) -> Self {
        let detail = format!("nothing is served at this path: {served}");
        Self::new(StatusCode::NOT_FOUND, "urn:ratekeeper:problem:not-found", "Not found", detail)
    }

    /// The path is right, the method is not.
    pub(crate) fn method_not_allowed(allow: &'static str) -> Self {
        let detail = format!("this path is served for {allow}");
        let kind = "urn:ratekeeper:problem:method-not-allowed";
        let mut problem = Self::new(StatusCode::METHOD_NOT_ALLOWED, kind, "Method not allowed", detail);
        problem.0.allow = Some(allow);
        problem
    }

    /// A request that leaves open whom it is for (RFC 9112, 3.2).
    pub(crate) fn bad_host() -> Self {
        let kind = "urn:ratekeeper:problem:bad-input";
        let detail = "an HTTP/1.1 request has one Host field";
        Self::new(StatusCode::BAD_REQUEST, kind, "Bad input", detail)
    }

    /// The address of the request has parameters that mean nothing here.
    pub(crate) fn unknown_query(query: &str, known: &str) -> Self {
        let kind = "urn:ratekeeper:problem:bad-input";
        let detail = format!("unknown query {}: {known}", quoted(query));
        Self::new(StatusCode::BAD_REQUEST, kind, "Bad input", detail)
    }

    /// The path names no policy and key.
    pub(crate) fn bad_path(detail: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "urn:ratekeeper:problem:bad-input", "Bad input", detail)
    }

    /// The path names a policy that is not there.
    pub(crate) fn unknown_policy_in_path(detail: String) -> Self {
        let kind = "urn:ratekeeper:problem:unknown-policy";
        Self::new(StatusCode::NOT_FOUND, kind, "Unknown policy", detail)
    }

    /// Whoever asks has not said the token.
    pub(crate) fn unauthorized() -> Self {
        let detail = "this listener needs its token, as `Authorization: Bearer …`";
        let kind = "urn:ratekeeper:problem:unauthorized";
        let mut problem = Self::new(StatusCode::UNAUTHORIZED, kind, "Unauthorized", detail);
        problem.0.challenge = true;
        problem
    }

    /// A page in a browser asks.
    pub(crate) fn forbidden_page() -> Self {
        let detail = "without a token this listener answers programs of its own machine, by address or as \
                      localhost, and no web pages";
        let kind = "urn:ratekeeper:problem:forbidden";
        Self::new(StatusCode::FORBIDDEN, kind, "Forbidden", detail)
    }

    /// The body is longer than is read.
    pub(crate) fn body_too_large(most: usize) -> Self {
        let detail = format!("a body has at most {most} bytes");
        let kind = "urn:ratekeeper:problem:body-too-large";
        let mut problem = Self::new(StatusCode::PAYLOAD_TOO_LARGE, kind, "Body too large", detail);
        problem.0.closes = true;
        problem
    }

    /// The body is compressed.
    pub(crate) fn unsupported_encoding() -> Self {
        let detail = "a body is sent as it is: without Content-Encoding, or with identity";
        let kind = "urn:ratekeeper:problem:unsupported-encoding";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, kind, "Unsupported encoding", detail)
    }

    /// A web page sends what its visitor's browser would not ask leave for.
    pub(crate) fn foreign_page() -> Self {
        let detail = "a request with an Origin field needs `Content-Type: application/json`";
        let kind = "urn:ratekeeper:problem:unsupported-media-type";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, kind, "Unsupported media type", detail)
    }

    /// The body does not come.
    pub(crate) fn body_timeout(seconds: u64) -> Self {
        let detail = format!("the body did not arrive within {seconds} s");
        let kind = "urn:ratekeeper:problem:body-timeout";
        let mut problem = Self::new(StatusCode::REQUEST_TIMEOUT, kind, "Body timeout", detail);
        problem.0.closes = true;
        problem
    }

    /// The body ended before its announced end, or its chunks are wrong.
    pub(crate) fn body_broken() -> Self {
        let kind = "urn:ratekeeper:problem:bad-input";
        let mut problem =
            Self::new(StatusCode::BAD_REQUEST, kind, "Bad input", "the body could not be read to its end");
        problem.0.closes = true;
        problem
    }
}
