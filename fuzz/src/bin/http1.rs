//! A connection's input on the short way: nothing panics, what comes back is HTTP/1.1 with JSON in it, and it does
//! not matter where the input is cut.
#![no_main]

use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use ratekeeper_server::fuzzing::{Next, Server};

const FILE: &str = "
version: 1
log: { level: error }
stores: { local: { memory: { max_keys: 1000, max_bytes: 1MiB } } }
policies:
  - { name: p, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 3/minute }] }
  - name: q
    key: [header:x-user]
    headers: [ratelimit, retry-after, x-ratelimit]
    limits:
      - { name: a, algorithm: fixed-window, limit: 2/minute }
      - { name: b, algorithm: sliding-window-log, limit: 9/minute }
      - { name: c, algorithm: sliding-window-counter, limit: 9/minute, key: [global] }
      - { name: d, algorithm: leaky-bucket, limit: 9/minute, queue: 3 }
";

static SERVER: LazyLock<Mutex<Server>> =
    LazyLock::new(|| Mutex::new(Server::new(FILE, Duration::from_secs(3_600))));

fuzz_target!(|data: &[u8]| {
    // Two bytes say where it is cut, the others are the input.
    let Some((cut, input)) = data.split_first_chunk::<2>() else { return };
    let (first, second) = input.split_at(usize::from(u16::from_le_bytes(*cut)) % (input.len() + 1));
    let mut server = SERVER.lock().expect("one thread");
    server.rest();
    let (whole, used, next) = server.connection(&[input]);
    assert!(used <= input.len());
    if next == Next::HandOver {
        assert!(used < input.len());
    }
    let answers = answers(&whole);
    server.rest();
    let (parts, used_of_parts, next_of_parts) = server.connection(&[first, second]);
    assert_eq!((used_of_parts, next_of_parts), (used, next));
    assert_eq!(self::answers(&parts), answers);
});

/// The answers one by one, without what differs from hour to hour, each of them checked.
fn answers(mut output: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    while !output.is_empty() {
        let mut fields = [httparse::EMPTY_HEADER; 32];
        let mut answer = httparse::Response::new(&mut fields);
        let head = answer.parse(output).expect("a head of HTTP/1.1");
        let httparse::Status::Complete(head) = head else { panic!("a head without an end") };
        assert_eq!(answer.version, Some(1));
        let field = |name: &str| {
            let mut values = answer.headers.iter().filter(|field| field.name == name);
            let value = values.next().map(|field| str::from_utf8(field.value).expect("a text"));
            assert!(values.next().is_none(), "{name} is there twice");
            value
        };
        assert!(field("date").is_some_and(|date| date.len() == 29));
        let length: usize = field("content-length").and_then(|n| n.parse().ok()).expect("a length");
        for name in ["ratelimit", "ratelimit-policy"] {
            if let Some(value) = field(name) {
                sfv::Parser::new(value).parse::<sfv::List>().expect("a structured field");
            }
        }
        let body = &output[head..head + length];
        let value: serde_json::Value = serde_json::from_slice(body).expect("JSON");
        let status = answer.code.expect("a status");
        if value["status"].is_u64() {
            assert_eq!(value["status"], status);
        }
        let text = str::from_utf8(&output[..head + length]).expect("UTF-8");
        all.push(without_accidents(text));
        output = &output[head + length..];
    }
    all
}

/// An answer without dates, and without the ids of reservations.
fn without_accidents(text: &str) -> String {
    let is_lasting = |line: &&str| !line.starts_with("date: ") && !line.starts_with("x-ratelimit-reset: ");
    let text: Vec<&str> = text.split("\r\n").filter(is_lasting).collect();
    let text = text.join("\r\n");
    match text.rsplit_once("\"shadow_denied\":[],\"id\":\"") {
        Some((before, after)) => before.to_owned() + after.get(32..).expect("an id"),
        None => text,
    }
}
