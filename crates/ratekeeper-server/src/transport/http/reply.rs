//! An answer before it is written for one version of HTTP or the other.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, Response, StatusCode};
use ratekeeper_core::write_decimal;
use serde::Serialize;

/// Status, fields and body of one answer. Made again and again in the same memory.
#[derive(Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// Lines as HTTP/1.1 writes them, `name: value\r\n`, names in lower case.
    fields: Vec<u8>,
    pub(crate) body: Vec<u8>,
    /// The rest of the request was not read, so the connection cannot be used again.
    pub(crate) closes: bool,
}

impl Reply {
    /// Begins another answer.
    pub(crate) fn begin(&mut self, status: u16, content_type: &str) {
        self.status = status;
        self.fields.clear();
        self.body.clear();
        self.closes = false;
        self.field("content-type", content_type.as_bytes());
    }

    /// Begins an answer without a body.
    pub(crate) fn begin_empty(&mut self, status: u16) {
        self.begin(status, "");
        self.fields.clear();
    }

    /// Gives back the memory of a long answer, once that has been written.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        if self.body.capacity() > bytes {
            self.body.clear();
            self.body.shrink_to(bytes);
        }
    }

    /// Makes an object the body.
    pub(crate) fn json(&mut self, object: &impl Serialize) {
        // Structs of texts and numbers cannot fail to be written; should they, a short body is no panic.
        let _ = serde_json::to_writer(&mut self.body, object);
    }

    /// Adds a field. Values are our own texts and numbers: nothing in them can end the line.
    pub(crate) fn field(&mut self, name: &str, value: &[u8]) {
        self.field_with(name, |fields| fields.extend_from_slice(value));
    }

    /// Adds a field whose value is a number.
    pub(crate) fn number(&mut self, name: &str, value: u64) {
        self.field_with(name, |fields| write_decimal(fields, value));
    }

    /// Adds a field whose value is written in place, unless there is none.
    pub(crate) fn field_if(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        let before = self.fields.len();
        let mut there = false;
        self.field_with(name, |fields| there = write(fields));
        if !there {
            self.fields.truncate(before);
        }
    }

    /// Adds a field whose value is written in place.
    pub(crate) fn field_with(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        self.fields.extend_from_slice(name.as_bytes());
        self.fields.extend_from_slice(b": ");
        write(&mut self.fields);
        self.fields.extend_from_slice(b"\r\n");
    }

    /// Appends the answer as HTTP/1.1 sends it.
    pub(crate) fn write_http1(&self, output: &mut Vec<u8>, date: &[u8], closes: bool) {
        output.extend_from_slice(b"HTTP/1.1 ");
        match self.status {
            200 => output.extend_from_slice(b"200 OK"),
            429 => output.extend_from_slice(b"429 Too Many Requests"),
            status => {
                let reason = self.status().canonical_reason().unwrap_or_default();
                write_decimal(output, u64::from(status));
                output.push(b' ');
                output.extend_from_slice(reason.as_bytes());
            }
        }
        output.extend_from_slice(b"\r\n");
        output.extend_from_slice(&self.fields);
        output.extend_from_slice(b"content-length: ");
        write_decimal(output, self.body.len() as u64);
        output.extend_from_slice(b"\r\ndate: ");
        output.extend_from_slice(date);
        output.extend_from_slice(if closes { b"\r\nconnection: close\r\n\r\n" } else { b"\r\n\r\n" });
        output.extend_from_slice(&self.body);
    }

    /// The answer to `method` as hyper sends it. Over HTTP/2 hyper would send a body to `HEAD` too, which is an
    /// error to its reader. `own` makes the body what hyper sends.
    pub(crate) fn into_response(
        mut self,
        method: &Method,
        own: impl FnOnce(Vec<u8>) -> Bytes,
    ) -> Response<Full<Bytes>> {
        let status = self.status();
        if *method == Method::HEAD {
            let length = self.body.len() as u64;
            self.number("content-length", length);
            self.body.clear();
        }
        let mut response = Response::new(Full::new(own(std::mem::take(&mut self.body))));
        *response.status_mut() = status;
        for line in self.fields.split(|byte| *byte == b'\n') {
            let mut parts = line.splitn(2, |byte| *byte == b':');
            let (Some(name), Some(value)) = (parts.next(), parts.next()) else { continue };
            let name = HeaderName::from_bytes(name);
            let value = HeaderValue::from_bytes(value.trim_ascii());
            if let (Ok(name), Ok(value)) = (name, value) {
                response.headers_mut().append(name, value);
            }
        }
        response
    }

    fn status(&self) -> StatusCode {
        // Only ever made from statuses of HTTP.
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}
