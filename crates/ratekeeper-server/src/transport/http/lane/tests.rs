//! The short way as a function of bytes, without a socket.

use std::sync::Arc;

use super::*;
use crate::app::App;

const FILE: &str = "
version: 1
policies:
  - { name: p, key: [ip], limits: [{ name: l, algorithm: fixed-window, limit: 3/day, align: first-request }] }
";

fn service() -> Service {
    Service::new(Arc::new(App::of(FILE)))
}

fn request(headers: &str, body: &str) -> String {
    let length = body.len();
    format!("POST /v1/check HTTP/1.1\r\nhost: t\r\n{headers}content-length: {length}\r\n\r\n{body}")
}

fn ask() -> String {
    request("", r#"{"policy":"p","key":"192.0.2.1"}"#)
}

/// One round: what was answered, without dates, how much was used, and what is next.
fn answered(service: &Service, input: &str) -> (String, usize, Next) {
    let mut output = Vec::new();
    let Round { used, next, .. } = round(service, input.as_bytes(), &mut output, &mut Desk::default());
    let text = String::from_utf8(output).expect("UTF-8");
    let without_dates = text.split("\r\n").filter(|line| !line.starts_with("date: "));
    (without_dates.collect::<Vec<_>>().join("\r\n"), used, next)
}

fn statuses(text: &str) -> Vec<&str> {
    text.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect()
}

#[test]
fn an_answer_is_what_http_says() {
    let (text, used, next) = answered(&service(), &ask());
    assert_eq!((used, next), (ask().len(), Next::Read));
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    assert_eq!(
        head,
        format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nratelimit-policy: \"p.l\";q=3;w=86400\r\n\
             ratelimit: \"p.l\";r=2;t=86400\r\ncontent-length: {}",
            body.len()
        )
    );
    assert!(body.starts_with(r#"{"allowed":true,"policy":"p","limit":"l","remaining":2,"#), "{body}");
}

#[test]
fn what_came_together_is_answered_together_and_in_order() {
    let five = ask().repeat(5);
    let (text, used, next) = answered(&service(), &five);
    assert_eq!((used, next), (five.len(), Next::Read));
    let allowed: Vec<bool> =
        text.split("{\"allowed\":").skip(1).map(|rest| rest.starts_with("true")).collect();
    assert_eq!(allowed, [true, true, true, false, false]);
}

#[test]
fn wherever_the_input_is_cut_the_answers_are_the_same() {
    let three = ask() + &request("prefer: status=429\r\n", r#"{"policy":"p","key":"a"}"#) + &ask();
    let whole = answered(&service(), &three).0;
    for cut in 0..three.len() {
        let service = service();
        let (first, used, next) = answered(&service, &three[..cut]);
        assert_eq!(next, Next::Read);
        let (second, rest, _) = answered(&service, &three[used..]);
        assert_eq!(used + rest, three.len());
        // Milliseconds may pass between the two.
        let numbers = |text: &str| text.split("reset_after_ms").map(|part| part.len()).collect::<Vec<_>>();
        assert_eq!(numbers(&(first + &second)), numbers(&whole), "cut at {cut}");
    }
}

#[test]
fn what_is_not_plain_is_left_to_hyper_from_its_first_byte() {
    let body = r#"{"policy":"p","key":"k"}"#;
    let plain = |headers: &str| request(headers, body);
    let odd = [
        "GET /livez HTTP/1.1\r\nhost: t\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "POST /v1/elsewhere HTTP/1.1\r\nhost: t\r\n\r\n".to_owned(),
        "POST /v1/check?peek=1 HTTP/1.1\r\nhost: t\r\n\r\n".to_owned(),
        "POST /v1/check HTTP/1.0\r\nhost: t\r\n\r\n".to_owned(),
        "POST /v1/check HTTP/1.1\r\n\r\n".to_owned(),
        plain("host: again\r\n"),
        plain("content-length: 24\r\n"),
        plain("transfer-encoding: chunked\r\n"),
        plain("expect: 100-continue\r\n"),
        plain("upgrade: h2c\r\n"),
        plain("connection: upgrade\r\n"),
        plain("content-encoding: gzip\r\n"),
        plain("origin: http://page\r\n"),
        plain(&"x: y\r\n".repeat(100)),
        plain(&format!("x: {}\r\n", "y".repeat(MAX_HEAD_BYTES))),
        plain("no colon\r\n"),
        plain("content-length: +24\r\n"),
        plain("content-length: 99999999\r\n"),
        format!("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n\r\n", MAX_BODY_BYTES + 1),
    ];
    for request in odd {
        let (text, used, next) = answered(&service(), &(ask() + &request));
        assert_eq!((used, next), (ask().len(), Next::HandOver), "{request}");
        assert_eq!(statuses(&text), ["200"], "{request}");
    }
}

#[test]
fn the_largest_request_of_the_short_way_fits_into_its_buffer() {
    let body = " ".repeat(MAX_BODY_BYTES);
    let filler = "y".repeat(MAX_BUFFER_BYTES - request("x: \r\n", &body).len());
    let big = request(&format!("x: {filler}\r\n"), &body);
    assert_eq!(big.len(), MAX_BUFFER_BYTES);
    let (text, used, _) = answered(&service(), &big);
    assert_eq!((used, statuses(&text)), (big.len(), vec!["400"]));
}

#[test]
fn who_says_close_is_answered_and_let_go() {
    let closing = request("connection: close\r\n", r#"{"policy":"p","key":"k"}"#);
    let (text, used, next) = answered(&service(), &(ask() + &closing + &ask()));
    assert_eq!((used, next), (ask().len() + closing.len(), Next::Close));
    assert_eq!(statuses(&text).len(), 2);
    assert_eq!(text.matches("connection: close").count(), 1);
}

#[test]
fn a_server_that_ends_says_so_with_its_last_answer() {
    let service = service();
    service.app().drain();
    let (text, _, next) = answered(&service, &ask().repeat(2));
    assert_eq!((statuses(&text).len(), next), (2, Next::Close));
    assert_eq!(text.matches("connection: close").count(), 1);
    let (_, used, next) = answered(&service, &ask()[..20]);
    assert_eq!((used, next), (0, Next::Read));
}

#[test]
fn who_never_stops_sending_is_told_of_the_end_all_the_same() {
    let service = service();
    service.app().drain();
    let (mut output, mut desk) = (Vec::new(), Desk::default());
    let input = ask().repeat(4);
    let (first, rest) = input.split_at(ask().len() + 20);
    let Round { used, next, .. } = round(&service, first.as_bytes(), &mut output, &mut desk);
    assert_eq!((used, next), (ask().len(), Next::Read));
    // Half a request was under way: it is answered, and what follows it is not.
    let rest = first[used..].to_owned() + &rest[..2 * ask().len()];
    let Round { used, next, .. } = round(&service, rest.as_bytes(), &mut output, &mut desk);
    assert_eq!((used, next), (ask().len(), Next::Close));
    let text = String::from_utf8(output).expect("UTF-8");
    assert_eq!((statuses(&text).len(), text.matches("connection: close").count()), (2, 1));
}

#[test]
fn a_page_is_left_to_hyper_whatever_it_says() {
    let headers = "origin: http://page\r\ncontent-type: application/json\r\n";
    let (_, used, next) = answered(&service(), &request(headers, "{}"));
    assert_eq!((used, next), (0, Next::HandOver));
}
