//! What browsers are told so that pages of other origins may ask and read (the Fetch standard calls it CORS).

use hyper::header::{HeaderMap, HeaderValue, ORIGIN};
use hyper::http::request::Parts;
use hyper::{Method, header};
use ratekeeper_policy::Cors;

use crate::transport::http::reply::Reply;

/// The fields that a page may read beside those that every page may.
const EXPOSED: &[u8] = b"Retry-After, RateLimit, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Preference-Applied";
/// The fields that a page may send, and how long a browser need not ask again.
const ALLOWED_FIELDS: &[u8] = b"content-type, prefer";
const MAX_AGE_SECONDS: u64 = 600;

/// The origin of the page that asks, if it may.
fn allowed<'h>(cors: &Cors, headers: &'h HeaderMap) -> Option<&'h HeaderValue> {
    let mut origins = headers.get_all(ORIGIN).iter();
    let origin = origins.next().filter(|_| origins.next().is_none())?;
    cors.allows(origin.as_bytes()).then_some(origin)
}

/// Answers a browser that asks whether a page may ask; whether it was one, of a page that may.
pub(super) fn preflight(cors: &Cors, head: &Parts, reply: &mut Reply) -> bool {
    let asks = head.method == Method::OPTIONS
        && head.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
        && allowed(cors, &head.headers).is_some();
    if asks {
        reply.begin_empty(204);
        reply.field("access-control-allow-methods", b"GET, HEAD, POST");
        reply.field("access-control-allow-headers", ALLOWED_FIELDS);
        reply.number("access-control-max-age", MAX_AGE_SECONDS);
    }
    asks
}

/// Adds to an answer what lets the page read it that asked, if it may; and for caches that it depends on who asked.
pub(super) fn mark(cors: &Cors, headers: &HeaderMap, reply: &mut Reply) {
    if cors.is_empty() {
        return;
    }
    if let Some(origin) = allowed(cors, headers) {
        reply.field("access-control-allow-origin", origin.as_bytes());
        reply.field("access-control-expose-headers", EXPOSED);
    }
    reply.field("vary", b"Origin");
}
