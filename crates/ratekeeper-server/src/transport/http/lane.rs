//! The short way of HTTP/1.1: questions as nearly all clients send them are read where they lie in the buffer,
//! decided together with those that came with them, and answered by one write.
//!
//! It reads only what it is sure of: `POST /v1/…` with a plain head and a small body of stated length. The first
//! request that is anything else ends it, and hyper goes on from the first byte of that request: HTTP/2, other
//! paths, chunked or large bodies, odd heads and slow senders are hyper's. Both ways answer through the same
//! [`Service`], so only the speed differs.

use std::mem::MaybeUninit;
use std::sync::Arc;

use crate::live::Live;
use crate::transport::http::date::Date;
use crate::transport::http::reply::Reply;
use crate::transport::http::service::{Call, Service, Verb};
use crate::transport::http::waiting::Each;
use crate::transport::http::wishes;

/// The longest head that is read here, and the longest body. Longer ones are few; hyper has bounds of its own.
const MAX_HEAD_BYTES: usize = 8 * 1_024;
const MAX_BODY_BYTES: usize = 16 * 1_024;
/// What a buffer holds at most: a request of the longest kind.
pub(super) const MAX_BUFFER_BYTES: usize = MAX_HEAD_BYTES + MAX_BODY_BYTES;
/// Proxies and browsers send up to thirty fields.
const MAX_FIELDS: usize = 48;

/// How every request begins that is read here.
const START: &[u8] = b"POST /v1/";

/// What is to happen to the connection after a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// More is to be read: the input has been used up, or ends within a request.
    Read,
    /// The input goes on with something that is hyper's.
    HandOver,
    /// The last answer ends the connection.
    Close,
}

/// One request at the beginning of the input.
enum Parsed<'b> {
    Whole { call: Call<'b>, used: usize, closes: bool },
    Partial,
    Other,
}

/// What a connection keeps from one round to the next: the memory of its answers, and the date.
#[derive(Default)]
pub(super) struct Desk {
    reply: Reply,
    date: Date,
    /// The server ends and half a request is here: its answer is the last one.
    is_last: bool,
}

/// What came of the input.
pub(super) struct Round<'b> {
    /// How many of its bytes were whole requests.
    pub(super) used: usize,
    pub(super) next: Next,
    /// Those of them that are not answered yet, if a store has to be waited for.
    pub(super) rest: Option<Rest<'b>>,
}

/// Requests that wait for a store, in their order.
pub(super) struct Rest<'b> {
    live: Arc<Live>,
    calls: Vec<Call<'b>>,
    closes: bool,
}

/// Answers all whole requests at the beginning of `input`, in their order, up to the first that a store has to be
/// waited for.
pub(super) fn round<'b>(
    service: &Service,
    input: &'b [u8],
    output: &mut Vec<u8>,
    desk: &mut Desk,
) -> Round<'b> {
    // Most requests come alone, and need no list.
    let (mut alone, mut calls) = (None, Vec::new());
    let mut used = 0;
    let next = loop {
        if used == input.len() {
            break Next::Read;
        }
        match parse(&input[used..]) {
            Parsed::Whole { call, used: bytes, closes } => {
                if used == 0 {
                    alone = Some(call);
                } else {
                    calls.extend(alone.take());
                    calls.push(call);
                }
                used += bytes;
                if closes || desk.is_last {
                    break Next::Close;
                }
            }
            Parsed::Partial => break Next::Read,
            Parsed::Other => break Next::HandOver,
        }
    };
    let next = match next {
        Next::Read if used > 0 && service.is_draining() => {
            // Half a request was sent before its sender could know, and is awaited; what follows it is not, or
            // whoever never stops sending would never be told.
            desk.is_last = used < input.len();
            if desk.is_last { Next::Read } else { Next::Close }
        }
        next => next,
    };
    let calls = if calls.is_empty() { alone.as_slice() } else { &calls };
    let last = calls.len().saturating_sub(1);
    let date = desk.date.now(service.now());
    let live = service.app().live();
    let answered = service.answer_all(&live, calls, &mut desk.reply, &mut |index, reply| {
        live.answered(reply.status);
        reply.write_http1(output, date, next == Next::Close && index == last);
    });
    // A connection keeps no more for its next answer than for its next request.
    desk.reply.shrink_to(MAX_BUFFER_BYTES);
    let rest = calls.get(answered..).filter(|calls| !calls.is_empty()).map(|calls| Rest {
        live: Arc::clone(&live),
        calls: calls.to_vec(),
        closes: next == Next::Close,
    });
    Round { used, next, rest }
}

/// Answers what a round has left, and waits for stores.
pub(super) async fn finish(service: &Service, rest: Rest<'_>, output: &mut Vec<u8>, desk: &mut Desk) {
    let Rest { live, calls, closes } = rest;
    let last = calls.len().saturating_sub(1);
    let date = desk.date.now(service.now());
    let each: Each<'_> = &mut |index, reply: &Reply| {
        live.answered(reply.status);
        reply.write_http1(output, date, closes && index == last);
    };
    service.answer_waiting(&live, &calls, &mut desk.reply, each).await;
    desk.reply.shrink_to(MAX_BUFFER_BYTES);
}

/// Reads the first request of some input.
fn parse(input: &[u8]) -> Parsed<'_> {
    let start = input.len().min(START.len());
    if input[..start] != START[..start] {
        return Parsed::Other;
    }
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut head = httparse::Request::new(&mut []);
    let length = match head.parse_with_uninit_headers(input, &mut fields) {
        Ok(httparse::Status::Complete(length)) if length <= MAX_HEAD_BYTES => length,
        Ok(httparse::Status::Partial) if input.len() <= MAX_HEAD_BYTES => return Parsed::Partial,
        Ok(_) | Err(_) => return Parsed::Other,
    };
    let Some(Head { mut call, body, closes }) = understand(&head) else { return Parsed::Other };
    let used = length + body;
    let Some(body) = input.get(length..used) else { return Parsed::Partial };
    call.body = body;
    Parsed::Whole { call, used, closes }
}

/// A head that was understood; the body of its call is still to come.
struct Head<'b> {
    call: Call<'b>,
    /// Bytes of the body.
    body: usize,
    closes: bool,
}

/// What a head asks; `None` if there is anything in it that is hyper's to judge.
fn understand<'b>(head: &httparse::Request<'_, 'b>) -> Option<Head<'b>> {
    if head.version != Some(1) {
        return None;
    }
    let target = head.path?;
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    let verb = Verb::at(path)?;
    let mut call = Call { verb, wants_status: false, preferred: false, body: &[] };
    match query {
        None => {}
        Some("status=true") if verb.has_status() => call.wants_status = true,
        Some(_) => return None,
    }
    let (mut hosts, mut length, mut closes) = (0, None, false);
    for field in head.headers.iter() {
        let (name, value) = (field.name, field.value);
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        // Names are told apart by their length first.
        match name.len() {
            4 if is("host") => hosts += 1,
            14 if is("content-length") && length.is_none() => length = Some(plain_number(value)?),
            14 if is("content-length") => return None,
            10 if is("connection") => match value {
                value if value.eq_ignore_ascii_case(b"keep-alive") => {}
                value if value.eq_ignore_ascii_case(b"close") => closes = true,
                _ => return None,
            },
            6 if is("prefer") => call.preferred |= wishes::asks_for_status(value),
            // Who asks from a page is told more, or nothing.
            6 if is("origin") => return None,
            16 if is("content-encoding") && !wishes::is_identity(value) => return None,
            17 if is("transfer-encoding") => return None,
            6 if is("expect") => return None,
            7 if is("upgrade") => return None,
            _ => {}
        }
    }
    if hosts != 1 {
        return None;
    }
    call.wants_status |= call.preferred;
    let body = length.unwrap_or(0);
    (body <= MAX_BODY_BYTES).then_some(Head { call, body, closes })
}

/// A number of bytes in plain digits.
fn plain_number(value: &[u8]) -> Option<usize> {
    let digits = (1..=7).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    if digits { str::from_utf8(value).ok()?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests;
