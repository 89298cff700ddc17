//! Peers that misuse HTTP/2. Frames are written by hand where a library would not write them.

use hyper::body::Bytes;
use tokio::net::TcpStream;

use crate::hostile::{FILE, assert_serves, taken};
use crate::http2;
use crate::support::{Connection, Server};

const GROWTH: u64 = 24 << 20;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// `:method POST`, `:scheme http`, `:path /v1/check`, `:authority test`: indexed or literal, never Huffman-coded.
fn head() -> Vec<u8> {
    [&[0x83, 0x86, 0x04, 9][..], b"/v1/check", &[0x01, 4], b"test"].concat()
}

fn begin(server: &Server, settings: &[u8]) -> Connection {
    let mut connection = server.connect();
    connection.send(PREFACE);
    connection.send(&frame(SETTINGS, 0, 0, settings));
    connection
}

/// Sends the same kind of thing until the server has had enough, or so often.
fn flood(server: &Server, settings: &[u8], most: u32, one: impl Fn(u32) -> Vec<u8>) -> bool {
    let (mut reader, mut writer) = begin(server, settings).split();
    // Somebody has to take what the server says, or both would wait.
    let reading = std::thread::spawn(move || reader.rest());
    let cut = (0..most).any(|number| writer.try_send(&one(number)).is_err());
    writer.finish();
    drop(reading.join());
    cut
}

#[test]
fn streams_that_are_opened_and_reset_at_once_end_their_connection() {
    let server = Server::of(FILE);
    assert_serves(&server);
    let before = server.resident();
    let head = head();
    for _ in 0..5 {
        let cut = flood(&server, &[], 200_000, |number| {
            let stream = 2 * number + 1;
            [frame(HEADERS, END_HEADERS, stream, &head), frame(RESET, 0, stream, &[0, 0, 0, 8])].concat()
        });
        assert!(cut, "it may go on for ever");
        assert_serves(&server);
    }
    let grown = server.resident().saturating_sub(before);
    assert!(grown < GROWTH, "{grown}");
}

#[test]
fn floods_of_frames_that_ask_nothing_hinder_nobody() {
    let server = Server::of(FILE);
    assert_serves(&server);
    let before = server.resident();
    let head = head();
    // Heads that never end.
    let cut = flood(&server, &[], 20_000, |number| match number {
        0 => frame(HEADERS, 0, 1, &head),
        _ => frame(CONTINUATION, 0, 1, &[&[0x00, 1][..], b"x", &[100], &[b'y'; 100]].concat()),
    });
    assert!(cut, "heads have an end");
    // Pings and settings, each of which wants an answer; and bodies of nothing.
    flood(&server, &[], 100_000, |_| frame(PING, 0, 0, &[0; 8]));
    flood(&server, &[], 100_000, |_| frame(SETTINGS, 0, 0, &[]));
    flood(&server, &[], 100_000, |number| match number {
        0 => frame(HEADERS, END_HEADERS, 1, &head),
        _ => frame(DATA, 0, 1, &[]),
    });
    assert_serves(&server);
    let grown = server.resident().saturating_sub(before);
    assert!(grown < GROWTH, "{grown}");
}

#[test]
fn more_streams_than_there_may_be_are_refused_and_the_others_are_served() {
    let server = Server::of(FILE);
    http2::runtime().block_on(async {
        let stream = TcpStream::connect(&server.address).await.expect("the server listens");
        let (mut requests, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        tokio::spawn(connection);
        let first =
            requests.send_request(http2::request("GET", "t", "/livez", &[]), true).expect("a stream").0;
        assert_eq!(http2::read(first).await.expect("an answer").status, 200);
        // All at once; now that it knows the server's bound the library waits where that is reached.
        let mut answers = Vec::new();
        for _ in 0..1_000 {
            requests = requests.ready().await.expect("it is open");
            let request = http2::request("POST", "t", "/v1/check", &[]);
            let (answer, mut body) = requests.send_request(request, false).expect("a stream");
            body.send_data(Bytes::from_static(br#"{"policy":"p","key":"many"}"#), true).expect("a body");
            answers.push(answer);
        }
        for answer in answers {
            assert_eq!(http2::read(answer).await.expect("an answer").status, 200);
        }
    });
    assert_eq!(taken(&server, "many"), 1_000);
    // Without waiting: what is too much is refused, stream by stream, or the connection ends.
    let head = head();
    flood(&server, &[], 10_000, |number| frame(HEADERS, END_HEADERS, 2 * number + 1, &head));
    assert_serves(&server);
}

#[test]
fn a_window_of_one_byte_gets_its_answer_in_bytes() {
    let server = Server::of(FILE);
    let body = br#"{"policy":"p","key":"tiny"}"#;
    let answer = http2::runtime().block_on(async {
        let stream = TcpStream::connect(&server.address).await.expect("the server listens");
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(1);
        let (requests, connection) = builder.handshake(stream).await.expect("HTTP/2");
        tokio::spawn(connection);
        let mut requests = requests.ready().await.expect("it is open");
        let request = http2::request("POST", "t", "/v1/check", &[]);
        let (answer, mut sending) = requests.send_request(request, false).expect("a stream");
        sending.send_data(Bytes::from_static(body), true).expect("a body");
        http2::read(answer).await.expect("an answer")
    });
    assert_eq!((answer.status, &answer.json()["remaining"]), (200, &999_999_999.into()));
}

#[test]
fn windows_that_never_open_hold_little_and_hinder_nobody() {
    let server = Server::of(FILE);
    assert_serves(&server);
    let before = server.resident();
    let head = head();
    // An initial window of 0: answers are made and cannot be sent.
    let settings = [0, 4, 0, 0, 0, 0];
    let mut closed: Vec<Connection> = (0..50).map(|_| begin(&server, &settings)).collect();
    for connection in &mut closed {
        for number in 0..64 {
            let stream = 2 * number + 1;
            connection.send(&frame(HEADERS, END_HEADERS, stream, &head));
            connection.send(&frame(DATA, END_STREAM, stream, br#"{"policy":"p","key":"shut"}"#));
        }
    }
    // All have been decided.
    while taken(&server, "shut") < 50 * 64 {}
    assert_serves(&server);
    let grown = server.resident().saturating_sub(before);
    assert!(grown < GROWTH, "{grown}");
}
