//! Keys that strangers make up, over the network.

use std::fmt::Write as _;

use crate::support::{Server, request};

const FILE: &str = "
version: 1
stores: { local: { memory: { max_keys: 20000 } } }
policies: [{ name: p, key: [ip], limits: [{ name: l, algorithm: fixed-window, limit: 3/day, align: first-request }] }]
";

#[test]
fn three_hundred_thousand_made_up_keys_take_no_memory_and_free_nobody_who_is_limited() {
    // B122: fifteen keys for each place that there is.
    let server = Server::of(FILE);
    let mut connection = server.connect();
    let mut batch = |keys: &mut dyn Iterator<Item = String>| {
        let mut body = String::from("{\"checks\":[");
        for key in keys {
            let _ = write!(body, "{{\"policy\":\"p\",\"key\":\"{key}\"}},");
        }
        body.pop();
        body.push_str("]}");
        connection.send(&request("POST", "/v1/check:batch", "", body.as_bytes()));
        let answer = connection.response().json();
        answer["results"].as_array().expect("a list").clone()
    };
    let limited = || (0..1_000).map(|key| format!("limited-{key}"));
    for _ in 0..3 {
        assert!(batch(&mut limited()).iter().all(|result| result["allowed"] == true));
    }
    let series = |server: &Server| {
        let mut admin = crate::support::Connection::open(&server.admin);
        admin.send(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n");
        admin.response().body.lines().count()
    };
    let (mut before, series_before) = (None, series(&server));
    let mut placeless = 0;
    for thousand in 0..300 {
        let results = batch(&mut (0..1_000).map(|key| format!("stranger-{thousand}-{key}")));
        placeless += results.iter().filter(|result| result["source"] == "overflow").count();
        if thousand == 50 {
            before = Some(server.resident());
        }
        if thousand % 50 == 49 {
            let results = batch(&mut limited());
            assert!(results.iter().all(|result| result["allowed"] == false && result["source"] == "exact"));
        }
    }
    assert!(placeless > 100_000, "the flood did overflow, {placeless} times");
    let grown = server.resident().saturating_sub(before.expect("measured"));
    assert!(grown < 8 << 20, "{grown} bytes more");
    // B124: numbers are by policy and limit, and never by key.
    assert_eq!(series(&server), series_before);
}

#[test]
fn keys_of_every_shape_are_keys_of_their_own() {
    // B120: nothing is cut, folded or taken for another.
    let server = Server::of(FILE);
    let mut connection = server.connect();
    let long = |last: &str| format!("{}{last}", "k".repeat(1_023));
    let keys = [
        "k".to_owned(),
        "K".to_owned(),
        " k".to_owned(),
        "k ".to_owned(),
        "k\\u0000".to_owned(),
        "\\u0000k".to_owned(),
        "k\\r\\nx: y".to_owned(),
        "\u{1f511}".to_owned(),
        "\u{202e}k".to_owned(),
        "e\u{301}".to_owned(),
        "\u{e9}".to_owned(),
        "k".repeat(250),
        "k".repeat(900),
        long("a"),
        long("b"),
    ];
    for expected in [2, 1] {
        for key in &keys {
            let body = format!("{{\"policy\":\"p\",\"key\":\"{key}\"}}");
            connection.send(&request("POST", "/v1/check", "", body.as_bytes()));
            assert_eq!(connection.response().json()["remaining"], expected, "{key}");
        }
    }
    for (key, status) in [(String::new(), 400), ("k".repeat(1_025), 400), ("k".repeat(65_536), 400)] {
        let body = format!("{{\"policy\":\"p\",\"key\":\"{key}\"}}");
        connection.send(&request("POST", "/v1/check", "", body.as_bytes()));
        assert_eq!(connection.response().status, status, "{}", key.len());
    }
    // A half of a pair is no character, and bytes that are no UTF-8 are no text.
    for body in [&br#"{"policy":"p","key":"\ud83d"}"#[..], b"{\"policy\":\"p\",\"key\":\"\xff\"}"] {
        connection.send(&request("POST", "/v1/check", "", body));
        assert_eq!(connection.response().status, 400);
    }
}

#[test]
fn requests_are_counted_and_not_connections() {
    // B133: eleven requests over one connection, whatever it speaks.
    let server = Server::of(&FILE.replace("3/day", "10/day"));
    let mut connection = server.connect();
    let mut http2 = crate::http2::Http2::open(&server.address);
    let ask = |key: &str| format!(r#"{{"policy":"p","key":"{key}"}}"#);
    let prefer = [("prefer".to_owned(), "status=429".to_owned())];
    for turn in 0..11 {
        connection.send(&request("POST", "/v1/check", "prefer: status=429\r\n", ask("a").as_bytes()));
        let answer = http2.ask("POST", "t", "/v1/check", &prefer, ask("b").as_bytes());
        let status = if turn < 10 { 200 } else { 429 };
        assert_eq!((connection.response().status, answer.status), (status, status));
    }
    // It stays usable after the refusal.
    connection.send(&request("POST", "/v1/check", "", ask("c").as_bytes()));
    assert_eq!(connection.response().status, 200);
    assert_eq!(http2.ask("POST", "t", "/v1/check", &[], ask("c").as_bytes()).status, 200);
}
