//! Peers that want to hurt the server or the other clients. Each test ends with a plain client that is served;
//! how long that takes is not measured, since the machine may be busy, but it must come to its end.

use std::io::{ErrorKind, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::support::{Connection, Server, post, request};

pub(crate) const FILE: &str = "
version: 1
policies:
  - { name: p, key: [ip], limits: [{ name: l, algorithm: fixed-window, limit: 1000000000/day }] }
";
const ASK: &str = r#"{"policy":"p","key":"k"}"#;
/// What a server of these tests may grow by: buffers of some hundred connections, and what an allocator keeps.
const GROWTH: u64 = 24 << 20;

/// The server answers somebody who means well.
#[track_caller]
pub(crate) fn assert_serves(server: &Server) {
    assert_eq!(server.check(ASK).status, 200);
}

/// Units that a key has taken.
pub(crate) fn taken(server: &Server, key: &str) -> u64 {
    let answer = server.check(&format!(r#"{{"policy":"p","key":"{key}","peek":true}}"#)).json();
    1_000_000_000 - answer["remaining"].as_u64().expect("a number")
}

#[track_caller]
fn assert_small(server: &Server, before: u64) {
    let grown = server.resident().saturating_sub(before);
    assert!(grown < GROWTH, "grown by {grown} bytes");
}

/// Many connections that have each sent this.
fn crowd(server: &Server, count: usize, start: &[u8]) -> Vec<Connection> {
    let begun = |_| {
        let mut connection = server.connect();
        connection.send(start);
        connection
    };
    (0..count).map(begun).collect()
}

#[test]
fn five_hundred_heads_that_never_end_take_little_and_hinder_nobody() {
    let server = Server::of(FILE);
    assert_serves(&server);
    let before = server.resident();
    // Odd ones are hyper's, the others wait on the short way.
    let mut slow = crowd(&server, 250, b"POST /v1/check HTTP/1.1\r\nhost: t\r\nx: ");
    slow.extend(crowd(&server, 250, b"GET /livez HTTP/1.1\r\nhost: t\r\nx: "));
    for _ in 0..20 {
        for connection in &mut slow {
            // Let go by now, perhaps.
            let _ = connection.try_send(&[b'y'; 200]);
        }
        assert_serves(&server);
    }
    assert_small(&server, before);
}

#[test]
fn five_hundred_bodies_that_never_end_take_little_and_hinder_nobody() {
    let server = Server::of(FILE);
    assert_serves(&server);
    let before = server.resident();
    let mut slow =
        crowd(&server, 250, b"POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 9000\r\n\r\n{");
    slow.extend(crowd(
        &server,
        250,
        b"POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 900000\r\n\r\n{",
    ));
    for _ in 0..20 {
        for connection in &mut slow {
            let _ = connection.try_send(&[b' '; 100]);
        }
        assert_serves(&server);
    }
    // Somebody's large but honest body too: nobody of them holds a place for large ones yet.
    let honest = format!("{ASK}{}", " ".repeat(500_000));
    assert_eq!(server.check(&honest).status, 200);
    assert_small(&server, before);
}

#[test]
fn thousands_of_pipelined_requests_are_each_answered_however_they_are_cut() {
    let server = Server::of(FILE);
    let count = 5_000;
    let all = post(ASK).repeat(count);
    for (key, piece) in [("whole", all.len()), ("odd", 4_097), ("small", 13)] {
        let all =
            String::from_utf8(all.clone()).expect("ASCII").replace(r#""k""#, &format!("\"{}\"", &key[..1]));
        let (mut reader, mut writer) = server.connect().split();
        let sent = std::thread::spawn(move || {
            for piece in all.as_bytes().chunks(piece) {
                writer.send(piece);
            }
            writer.finish();
            writer
        });
        for _ in 0..count {
            assert_eq!(reader.response().status, 200, "{key}");
        }
        assert!(reader.rest().is_empty(), "{key}");
        drop(sent.join());
        assert_eq!(taken(&server, &key[..1]), count as u64, "{key}");
    }
}

#[test]
fn who_pipelines_and_never_reads_is_held_back_and_takes_little() {
    let server = Server::of(FILE);
    assert_serves(&server);
    let before = server.resident();
    let many = post(ASK).repeat(500);
    let mut deaf: Vec<Connection> = (0..20).map(|_| server.connect()).collect();
    for connection in &mut deaf {
        connection.set_write_timeout(Duration::from_millis(20));
        // Until what lies between us is full: then nothing more of it is read.
        let sent = (0..10_000).take_while(|_| connection.try_send(&many).is_ok()).count();
        assert!(sent < 10_000, "{sent}");
    }
    assert_serves(&server);
    assert_small(&server, before);
}

#[test]
fn a_long_answer_is_not_kept_by_the_connection_that_got_it() {
    let server = Server::of(FILE);
    let checks = ["{}"; 1_000].join(",");
    let body = format!(r#"{{"checks":[{checks}]}}"#);
    assert!(body.len() < 16 * 1_024, "the short way takes it");
    let long = request("POST", "/v1/check:batch", "", body.as_bytes());
    let one = |connection: &mut Connection| {
        connection.send(&long);
        assert!(connection.response().body.len() > 200_000);
    };
    one(&mut server.connect());
    let before = server.resident();
    let mut idle: Vec<Connection> = (0..300).map(|_| server.connect()).collect();
    idle.iter_mut().for_each(one);
    // They all stay open: at a quarter of a megabyte each that would be 75 MB and more. The allocator keeps some of what
    // was used at once, the more the busier the machine is.
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 2 * GROWTH, "grown by {grown} bytes");
    assert_serves(&server);
}

#[test]
fn a_batch_of_nonsense_is_not_answered_by_many_times_its_bytes() {
    let server = Server::of(FILE);
    let members: Vec<String> = (0..64).map(|member| format!("\"{member}\":0")).collect();
    let body = format!(r#"{{"checks":[{}]}}"#, vec![format!("{{{}}}", members.join(",")); 1_000].join(","));
    let mut connection = server.connect();
    connection.send(&request("POST", "/v1/check:batch", "", body.as_bytes()));
    let answer = connection.response();
    assert_eq!(answer.status, 200);
    assert!(answer.body.len() < 8 * body.len(), "{} for {}", answer.body.len(), body.len());
}

#[test]
fn heads_bodies_and_chunks_past_their_bounds_end_their_connection_only() {
    let server = Server::of(FILE);
    let chunked = |rest: &str| {
        format!("POST /v1/check HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n{rest}")
    };
    for (bytes, statuses) in [
        (format!("POST /v1/check HTTP/1.1\r\nhost: t\r\nx: {}\r\n\r\n", "y".repeat(20_000)), &[431, 400][..]),
        (format!("POST /v1/check HTTP/1.1\r\nhost: t\r\n{}\r\n", "x: y\r\n".repeat(200)), &[431, 400]),
        (format!("POST /v1/check?{} HTTP/1.1\r\nhost: t\r\n\r\n", "y".repeat(20_000)), &[431, 414, 400]),
        (chunked("fffffffffffffffff\r\n"), &[400]),
        (chunked("7fffffffffffffff\r\n{"), &[400, 408]),
        (chunked("-1\r\n"), &[400]),
        (chunked("0x5\r\nhello\r\n0\r\n\r\n"), &[400]),
        (chunked("5\r\nhelloXX0\r\n\r\n"), &[400]),
        (chunked("5;".to_owned().as_str()) + &"x".repeat(40_000) + "\r\n", &[400]),
        (chunked("0\r\n") + &"x: y\r\n".repeat(5_000) + "\r\n", &[400, 431]),
        (request_of(99_999_999), &[413]),
        (
            "POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 18446744073709551616\r\n\r\n".to_owned(),
            &[400],
        ),
    ] {
        let mut connection = server.connect();
        let _ = connection.try_send(bytes.as_bytes());
        connection.finish();
        let answered = connection.rest();
        let status = answered.get(9..12).and_then(|code| std::str::from_utf8(code).ok()?.parse::<u16>().ok());
        // Without any answer is fine as well: the peer broke the connection's rules.
        let shown = &bytes[..bytes.len().min(90)];
        assert!(status.is_none_or(|status| statuses.contains(&status)), "{status:?}: {shown}");
        let times = answered.windows(9).filter(|part| part == b"HTTP/1.1 ").count();
        assert!(times <= 1, "{times} answers: {shown}");
        assert_serves(&server);
    }
}

fn request_of(length: u64) -> String {
    format!("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n")
}

#[test]
fn no_ambiguous_request_hides_another() {
    let server = Server::of(FILE);
    let hidden = String::from_utf8(post(r#"{"policy":"p","key":"hidden"}"#)).expect("ASCII");
    let head = "POST /v1/check HTTP/1.1\r\nhost: t\r\n";
    let length = hidden.len();
    let chunked = "transfer-encoding: chunked\r\n";
    let cases = [
        ("length, then chunks", format!("{head}content-length: 5\r\n{chunked}\r\n0\r\n\r\n{hidden}")),
        ("chunks, then length", format!("{head}{chunked}content-length: 5\r\n\r\n0\r\n\r\n{hidden}")),
        (
            "length over all, then chunks",
            format!("{head}content-length: {}\r\n{chunked}\r\n0\r\n\r\n{hidden}", length + 5),
        ),
        ("two lengths", format!("{head}content-length: 0\r\ncontent-length: {length}\r\n\r\n{hidden}")),
        ("two lengths in one", format!("{head}content-length: 0, {length}\r\n\r\n{hidden}")),
        ("a length with a sign", format!("{head}content-length: +0\r\n\r\n{hidden}")),
        ("a length in hexadecimal", format!("{head}content-length: 0x0\r\n\r\n{hidden}")),
        ("a length with a space within", format!("{head}content-length: 0 0\r\n\r\n{hidden}")),
        (
            "chunks in HTTP/1.0",
            format!("POST /v1/check HTTP/1.0\r\nhost: t\r\n{chunked}\r\n0\r\n\r\n{hidden}"),
        ),
        ("chunks that are not last", format!("{head}transfer-encoding: chunked, x\r\n\r\n0\r\n\r\n{hidden}")),
        ("chunks by another name", format!("{head}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}")),
        ("chunks behind a tab", format!("{head}transfer-encoding:\x0bchunked\r\n\r\n0\r\n\r\n{hidden}")),
        ("a space before the colon", format!("{head}transfer-encoding : chunked\r\n\r\n0\r\n\r\n{hidden}")),
        ("a space before the colon of a length", format!("{head}content-length : {length}\r\n\r\n{hidden}")),
        ("a folded field", format!("{head}x: y\r\n content-length: {length}\r\n\r\n{hidden}")),
        ("a folded length", format!("{head}content-length:\r\n {length}\r\n\r\n{hidden}")),
        ("a NUL", format!("{head}x: \0\r\n\r\n{hidden}")),
        ("a bare CR", format!("{head}x: y\rz: {length}\r\n\r\n{hidden}")),
        ("a name with a NUL", format!("{head}x\0y: z\r\n\r\n{hidden}")),
        ("no name", format!("{head}: z\r\n\r\n{hidden}")),
        ("two hosts", format!("{head}host: u\r\ncontent-length: 0\r\nconnection: close\r\n\r\n{hidden}")),
        ("bad chunks", format!("{head}{chunked}\r\n0 \r\nx\r\n\r\n{hidden}")),
        ("a chunk that ends in LF", format!("{head}{chunked}\r\n1\nX0\r\n\r\n{hidden}")),
    ];
    // On a new connection; behind a request of the short way; and behind one of hyper's.
    for before in ["", "short", "hyper"] {
        for (name, bytes) in &cases {
            let mut connection = server.connect();
            match before {
                "short" => connection.send(&post(ASK)),
                "hyper" => connection.send(&request("GET", "/livez", "", b"")),
                _ => {}
            }
            let _ = connection.try_send(bytes.as_bytes());
            connection.finish();
            let answers = connection.rest();
            let answers = String::from_utf8_lossy(&answers);
            assert_eq!(taken(&server, "hidden"), 0, "{name}, {before}: {answers}");
        }
    }
    assert_serves(&server);
}

#[test]
fn bare_line_feeds_end_lines_and_nothing_else() {
    // RFC 9112, 2.2: a recipient may take LF for the end of a line. Both ways do, and find the same end.
    let server = Server::of(FILE);
    let lf = String::from_utf8(post(r#"{"policy":"p","key":"lf"}"#)).expect("ASCII").replace("\r\n", "\n");
    let odd = lf.replace("host: test\n", "host: test\nexpect: x\n");
    for (index, bytes) in [lf, odd].iter().enumerate() {
        let mut connection = server.connect();
        connection.send(bytes.repeat(2).as_bytes());
        connection.finish();
        assert_eq!(
            connection.rest().windows(12).filter(|part| part == b"HTTP/1.1 200").count(),
            2,
            "{index}"
        );
    }
    assert_eq!(taken(&server, "lf"), 4);
}

#[test]
fn who_goes_away_in_the_middle_is_not_missed() {
    let server = Server::of(FILE);
    assert_serves(&server);
    let before = server.resident();
    for round in 0..200 {
        for part in [
            &b"P"[..],
            b"POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 50\r\n\r\n{",
            b"POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: 500000\r\n\r\n{",
            b"POST /v1/check HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        ] {
            let mut connection = server.connect();
            connection.send(part);
            if round % 2 == 0 {
                // Answers that nobody reads make the end a reset.
                let _ = connection.try_send(&post(ASK));
            }
        }
        // Whole, and gone before the answer.
        server.connect().send(&post(ASK).repeat(50));
    }
    assert_serves(&server);
    assert_small(&server, before);
    // The page of metrics knows of nobody who is not there.
    let open = || {
        let mut admin = Connection::open(&server.admin);
        admin.send(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let page = admin.response().body;
        let line = page.lines().find(|line| line.starts_with("ratekeeper_connections{listener=\"http\"}"));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).expect("the gauge")
    };
    // The server hears of their end in its own time, some after the time for a body.
    let left = (0..1_500).map(|_| {
        std::thread::sleep(Duration::from_millis(10));
        open()
    });
    assert!(left.into_iter().any(|open| open == 0), "still {} open", open());
}

#[test]
fn half_a_connection_is_answered_to_its_end() {
    let server = Server::of(FILE);
    for bytes in [
        post(ASK),
        post(ASK).repeat(3_000),
        request("POST", "/v1/check", "connection: keep-alive, x\r\n", ASK.as_bytes()).repeat(3_000),
    ] {
        let asked = bytes.windows(5).filter(|part| part == b"POST ").count();
        let (mut reader, mut writer) = server.connect().split();
        let sent = std::thread::spawn(move || {
            writer.send(&bytes);
            writer.finish();
            writer
        });
        let answers = reader.rest();
        drop(sent.join());
        assert_eq!(answers.windows(12).filter(|part| part == b"HTTP/1.1 200").count(), asked);
    }
}

#[test]
fn past_the_most_connections_others_wait_and_are_served_when_one_ends() {
    let server = Server::of(&format!(
        "{FILE}listen: {{ http: {{ address: 127.0.0.1:0, max_connections: 3 }}, admin: 127.0.0.1:0 }}\n"
    ));
    let mut inside: Vec<Connection> = (0..3).map(|_| server.connect()).collect();
    for connection in &mut inside {
        connection.send(&post(ASK));
        assert_eq!(connection.response().status, 200);
    }
    let mut waiting = server.connect();
    waiting.send(&post(r#"{"policy":"p","key":"waits"}"#));
    // Those inside are served meanwhile, and nobody else.
    for connection in &mut inside {
        connection.send(&post(r#"{"policy":"p","key":"waits","peek":true}"#));
        assert_eq!(connection.response().json()["remaining"], 1_000_000_000);
    }
    drop(inside.pop());
    assert_eq!(waiting.response().json()["remaining"], 999_999_999);
}

#[test]
fn a_connection_that_is_let_go_says_so_by_its_end_and_not_by_a_reset() {
    let server = Server::of(FILE);
    let address: SocketAddr = server.address.parse().expect("an address");
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
    let closing = request("POST", "/v1/check", "connection: close\r\n", ASK.as_bytes());
    // More than is read behind the last request.
    let bytes = [closing, post(ASK).repeat(50)].concat();
    std::io::Write::write_all(&mut stream, &bytes).expect("the server reads");
    let mut answers = Vec::new();
    let ended = stream.read_to_end(&mut answers).map_err(|wrong| wrong.kind());
    assert!(!matches!(ended, Err(ErrorKind::ConnectionReset)), "{ended:?}");
    assert_eq!(answers.windows(9).filter(|part| part == b"HTTP/1.1 ").count(), 1);
}
