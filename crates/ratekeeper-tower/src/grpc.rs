//! A refusal as gRPC says it: an answer of trailers only, which clients read as a status with details.

use bytes::Bytes;
use http::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use ratekeeper::{Denial, Reason};

use crate::fields::NO_STORE;

const INVALID_ARGUMENT: u8 = 3;
const PERMISSION_DENIED: u8 = 7;
const RESOURCE_EXHAUSTED: u8 = 8;
const UNAVAILABLE: u8 = 14;

/// The status of a refusal.
fn code(denial: &Denial<'_>) -> u8 {
    match (denial.status(), denial.reason()) {
        (400, _) => INVALID_ARGUMENT,
        (_, Some(Reason::Blocked)) => PERMISSION_DENIED,
        (503, _) => UNAVAILABLE,
        _ => RESOURCE_EXHAUSTED,
    }
}

/// The answer: HTTP's 200 without a body, and in its header what else stands in trailers.
pub(crate) fn response(denial: &Denial<'_>, parts: &Parts) -> Response<Bytes> {
    let code = code(denial);
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    let kind = parts.headers.get(CONTENT_TYPE).cloned();
    headers.insert(CONTENT_TYPE, kind.unwrap_or(HeaderValue::from_static("application/grpc")));
    // It is a 200 to whatever stands between.
    headers.insert(CACHE_CONTROL, NO_STORE);
    headers.insert("grpc-status", u64::from(code).into());
    let mut add = |name: &'static str, text: String| {
        if let Ok(value) = HeaderValue::try_from(text) {
            headers.insert(name, value);
        }
    };
    add("grpc-message", percent_encoded(denial.detail()));
    let millis =
        denial.wait().map(|wait| u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX));
    // Where no wait helps there is none: a negative one would take the decision from the client (gRPC proposal A6).
    if let Some(millis) = millis {
        add("grpc-retry-pushback-ms", millis.to_string());
        add("grpc-status-details-bin", base64(&status(code, denial)));
    }
    response
}

/// `google.rpc.Status` with a `google.rpc.RetryInfo`.
fn status(code: u8, denial: &Denial<'_>) -> Vec<u8> {
    let wait = denial.wait().unwrap_or_default();
    // As exact as the decision: whole microseconds.
    let mut duration = Vec::new();
    number(&mut duration, 1, wait.as_secs());
    number(&mut duration, 2, u64::from(wait.subsec_nanos()));
    let mut retry_info = Vec::new();
    bytes(&mut retry_info, 1, &duration);
    let mut any = Vec::new();
    bytes(&mut any, 1, b"type.googleapis.com/google.rpc.RetryInfo");
    bytes(&mut any, 2, &retry_info);
    let mut status = Vec::new();
    number(&mut status, 1, u64::from(code));
    bytes(&mut status, 2, denial.detail().as_bytes());
    bytes(&mut status, 3, &any);
    status
}

/// A field of a protobuf message with a number; none for 0, its default.
fn number(out: &mut Vec<u8>, field: u8, number: u64) {
    if number > 0 {
        out.push(field << 3);
        varint(out, number);
    }
}

/// A field with bytes.
fn bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(field << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        // Seven bits, and the sign that more follow.
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Base64 without padding, as gRPC sends binary fields.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |nth: usize| u32::from(chunk.get(nth).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..=chunk.len() {
            // Six bits are a digit of 64.
            let six = (bits >> (18 - 6 * digit) & 63) as usize;
            text.push(char::from(DIGITS[six]));
        }
    }
    text
}

/// The message as gRPC writes it: printable ASCII, all else in percent.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            other => {
                encoded.push('%');
                for digit in [other >> 4, other & 15] {
                    encoded.push(char::from(if digit < 10 { b'0' + digit } else { b'A' + digit - 10 }));
                }
            }
        }
    }
    encoded
}

#[cfg(test)]
mod tests;
