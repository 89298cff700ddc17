//! `POST /v1/check` and its neighbours, byte by byte.

use serde_json::json;

use crate::support::{Response, Server, post, request};

pub(crate) const FILE: &str = "
version: 1
policies:
  - name: api
    key: [header:x-api-key, ip]
    limits:
      - { name: burst, algorithm: token-bucket, limit: 1/minute, burst: 2 }
      - { name: day, algorithm: fixed-window, limit: 1000000000/day }
      - { name: global, algorithm: gcra, limit: 1000/day, burst: 1000, key: [global] }
  - name: slow
    key: [ip]
    limits: [{ name: only, algorithm: gcra, limit: 1/day }]
  - name: paced
    key: [ip]
    limits: [{ name: queue, algorithm: leaky-bucket, limit: 1/day, queue: 2 }]
  - name: two
    key: [ip]
    limits:
      - { name: own, algorithm: gcra, limit: 5/day, burst: 5 }
      - { name: other, algorithm: gcra, limit: 3/day, burst: 3, key: [header:x-tenant] }
  - name: fine
    key: [ip]
    limits: [{ name: l, algorithm: gcra, limit: 7 per 10s, burst: 7 }]
";

/// The answer is a problem of this status whose `errors` are at these pointers.
#[track_caller]
pub(crate) fn assert_problem(answer: &Response, status: u16, pointers: &[&str]) {
    assert_eq!(answer.status, status, "{}", answer.body);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let problem = answer.json();
    assert_eq!(problem["status"], status);
    for field in ["type", "title", "detail"] {
        assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "{}", answer.body);
    }
    let errors = problem["errors"].as_array().cloned().unwrap_or_default();
    let found: Vec<&str> = errors.iter().filter_map(|error| error["pointer"].as_str()).collect();
    assert_eq!(found, pointers, "{}", answer.body);
    assert!(errors.iter().all(|error| error["detail"].is_string()));
}

#[test]
fn an_answer_has_the_documented_fields_in_their_order() {
    let server = Server::of(FILE);
    let allowed = server.check(r#"{"policy":"slow","key":"k"}"#);
    assert_eq!((allowed.status, allowed.header("content-type")), (200, Some("application/json")));
    assert_eq!(
        allowed.body,
        r#"{"allowed":true,"policy":"slow","limit":"only","remaining":0,"retry_after_ms":0,"reset_after_ms":86400000,"delay_ms":0,"source":"exact","limits":[{"policy":"slow","name":"only","capacity":1,"window_ms":86400000,"remaining":0,"reset_after_ms":86400000}],"shadow_denied":[]}"#
    );
    let refused = server.check(r#"{"policy":"slow","key":"k","cost":1}"#);
    let wait = refused.json()["retry_after_ms"].as_u64().expect("a number");
    assert!((86_300_000..=86_400_000).contains(&wait), "{wait}");
    let expected = r#"{"allowed":false,"reason":"limited","policy":"slow","limit":"only","remaining":0,"retry_after_ms":W,"reset_after_ms":W,"delay_ms":0,"source":"exact","limits":[{"policy":"slow","name":"only","capacity":1,"window_ms":86400000,"remaining":0,"reset_after_ms":W}],"shadow_denied":[]}"#;
    assert_eq!(refused.body, expected.replace('W', &wait.to_string()));
}

#[test]
fn several_limits_are_decided_together_and_listed_in_order() {
    let server = Server::of(FILE);
    let answer = server.check(r#"{"policy":"api","key":"user:42"}"#).json();
    assert_eq!((&answer["limit"], &answer["remaining"]), (&json!("burst"), &json!(1)));
    let limits = answer["limits"].as_array().expect("a list");
    let names: Vec<_> = limits.iter().map(|limit| limit["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["burst", "day", "global"]);
    assert_eq!((&limits[0]["capacity"], &limits[0]["window_ms"]), (&json!(2), &json!(120_000)));
    assert_eq!(
        (&limits[1]["capacity"], &limits[1]["window_ms"]),
        (&json!(1_000_000_000), &json!(86_400_000))
    );
    // A refusal by one takes nothing from the others.
    server.check(r#"{"policy":"api","key":"user:42"}"#);
    let refused = server.check(r#"{"policy":"api","key":"user:42"}"#).json();
    assert_eq!((&refused["allowed"], &refused["limit"]), (&json!(false), &json!("burst")));
    assert_eq!(refused["limits"][2]["remaining"], 998);
}

#[test]
fn a_cost_above_capacity_never_passes_and_other_costs_are_taken_whole() {
    let server = Server::of(FILE);
    for cost in ["3", "18446744073709551615"] {
        let answer = server.check(&format!(r#"{{"policy":"api","key":"k","cost":{cost}}}"#));
        let json = answer.json();
        assert_eq!((answer.status, &json["allowed"]), (200, &json!(false)), "{}", answer.body);
        assert_eq!(
            (&json["reason"], &json["retry_after_ms"]),
            (&json!("cost_exceeds_capacity"), &json!(null))
        );
    }
    assert_eq!(server.check(r#"{"policy":"api","key":"k","cost":2}"#).json()["remaining"], 0);
    assert_eq!(server.check(r#"{"policy":"api","key":"k","cost":0}"#).json()["allowed"], true);
}

#[test]
fn a_peek_takes_nothing() {
    let server = Server::of(FILE);
    for _ in 0..2 {
        let answer = server.check(r#"{"policy":"slow","key":"k","peek":true}"#).json();
        assert_eq!((&answer["allowed"], &answer["remaining"]), (&json!(true), &json!(1)));
    }
    assert_eq!(server.check(r#"{"policy":"slow","key":"k","peek":false}"#).json()["remaining"], 0);
    assert_eq!(server.check(r#"{"policy":"slow","key":"k","peek":true}"#).json()["allowed"], false);
}

#[test]
fn a_queue_says_when_to_start() {
    let server = Server::of(FILE);
    server.check(r#"{"policy":"paced","key":"k"}"#);
    let delay =
        server.check(r#"{"policy":"paced","key":"k"}"#).json()["delay_ms"].as_u64().expect("a number");
    assert!((86_300_000..=86_400_000).contains(&delay), "{delay}");
}

#[test]
fn a_limit_with_a_key_of_its_own_is_given_it_in_keys() {
    let server = Server::of(FILE);
    let answer = server.check(r#"{"policy":"two","key":"k","keys":{"other":"t"},"cost":2}"#).json();
    assert_eq!((&answer["limit"], &answer["remaining"]), (&json!("other"), &json!(1)));
    let fresh = server.check(r#"{"policy":"two","key":"k","keys":{"other":"u"}}"#).json();
    assert_eq!((&fresh["limits"][0]["remaining"], &fresh["limits"][1]["remaining"]), (&json!(2), &json!(2)));
}

#[test]
fn milliseconds_are_rounded_up() {
    let server = Server::of(FILE);
    let answer = server.check(r#"{"policy":"fine","key":"k"}"#).json();
    // 10 s / 7 = 1428.57 ms.
    assert_eq!(answer["reset_after_ms"], 1_429);
    assert_eq!(answer["limits"][0]["window_ms"], 10_000);
}

#[test]
fn bad_input_is_400_and_names_the_field() {
    let server = Server::of(FILE);
    let long = "k".repeat(1_025);
    let long_key = format!(r#"{{"policy":"api","key":"{long}"}}"#);
    let cases: &[(&str, &[&str])] = &[
        ("", &[""]),
        ("   ", &[""]),
        ("{", &[""]),
        ("[]", &[""]),
        ("null", &[""]),
        ("{}", &["/policy"]),
        (r#"{"key":"k"}"#, &["/policy"]),
        (r#"{"policy":"api"}"#, &["/key"]),
        (r#"{"policy":"api","key":""}"#, &["/key"]),
        (r#"{"policy":"api","key":null}"#, &["/key"]),
        (r#"{"policy":"api","key":42}"#, &["/key"]),
        (&long_key, &["/key"]),
        (r#"{"policy":7,"key":"k"}"#, &["/policy"]),
        (r#"{"policy":"api","key":"k","cost":-1}"#, &["/cost"]),
        (r#"{"policy":"api","key":"k","cost":1.5}"#, &["/cost"]),
        (r#"{"policy":"api","key":"k","cost":1.0}"#, &["/cost"]),
        (r#"{"policy":"api","key":"k","cost":"1"}"#, &["/cost"]),
        (r#"{"policy":"api","key":"k","cost":18446744073709551616}"#, &["/cost"]),
        (r#"{"policy":"api","key":"k","cost":true}"#, &["/cost"]),
        (r#"{"policy":"api","key":"k","peek":1}"#, &["/peek"]),
        (r#"{"policy":"api","key":"k","coste":1}"#, &["/coste"]),
        (r#"{"policy":"api","key":"k","a/b~c":1}"#, &["/a~1b~0c"]),
        (r#"{"policy":"api","key":"k","key":"l"}"#, &["/key"]),
        (r#"{"policy":"api","key":"k","keys":{"nope":"x"}}"#, &["/keys/nope"]),
        (r#"{"policy":"two","key":"k"}"#, &["/keys/other"]),
        (r#"{"policy":"two","key":"k","keys":{"other":""}}"#, &["/keys/other"]),
        (r#"{"policy":"two","key":"k","keys":{"other":1}}"#, &["/keys/other"]),
        (r#"{"policy":"two","key":"k","keys":["other"]}"#, &["/keys"]),
        (r#"{"policy":"api","key":"k","attributes":{"ip":"::1"}}"#, &["/policy", "/key"]),
        (r#"{"keys":{},"attributes":{}}"#, &["/keys"]),
        (r#"{"attributes":7}"#, &["/attributes"]),
        (r#"{"attributes":{"ip":"localhost"}}"#, &["/attributes/ip"]),
        (r#"{"attributes":{"peer":"10.0.0.300","method":7}}"#, &["/attributes/peer", "/attributes/method"]),
        (r#"{"attributes":{"ip":"::1","peer":"::1"}}"#, &["/attributes/peer"]),
        (r#"{"attributes":{"headers":["a"]}}"#, &["/attributes/headers"]),
        (
            r#"{"attributes":{"headers":{"a":7,"b":["x",null]}}}"#,
            &["/attributes/headers/a", "/attributes/headers/b"],
        ),
        (r#"{"attributes":{"pathh":"/"}}"#, &["/attributes/pathh"]),
        (r#"{"attributes":{"path":"/a/../../b"}}"#, &["/attributes/path"]),
        // Several at once, in the order of the body.
        (r#"{"cost":-1,"policy":"api","key":7,"x":0}"#, &["/cost", "/key", "/x"]),
    ];
    for (body, pointers) in cases {
        assert_problem(&server.check(body), 400, pointers);
    }
    let position = server.check("{\"policy\":\"api\",\n \"key\":}").json();
    assert!(position["detail"].as_str().is_some_and(|text| text.contains("line 2, column 8")), "{position}");
    let mut connection = server.connect();
    connection.send(&request("POST", "/v1/check", "", b"{\"policy\":\"api\",\"key\":\"\xff\"}"));
    assert_problem(&connection.response(), 400, &[""]);
    // Nothing of it was charged to anybody.
    assert_eq!(server.check(r#"{"policy":"api","key":"k"}"#).json()["limits"][2]["remaining"], 999);
}

#[test]
fn an_unknown_policy_is_404_with_the_nearest_name() {
    let server = Server::of(FILE);
    let answer = server.check(r#"{"policy":"apy","key":"k"}"#);
    assert_problem(&answer, 404, &["/policy"]);
    assert!(answer.body.contains("did you mean `api`?"), "{}", answer.body);
    // The list of names is nobody's business.
    assert!(!server.check(r#"{"policy":"zzzzzz","key":"k"}"#).body.contains("slow"));
}

#[test]
fn other_paths_are_404_and_other_methods_405() {
    let server = Server::of(FILE);
    let ask = |method: &str, path: &str| {
        let mut connection = server.connect();
        connection.send(&request(method, path, "", b""));
        connection.response()
    };
    for path in
        ["/", "/v1", "/v1/check/", "/v1/checks", "/V1/check", "/v1/check:batches", "/metrics", "//v1/check"]
    {
        assert_problem(&ask("POST", path), 404, &[]);
    }
    for method in ["GET", "PUT", "DELETE", "OPTIONS", "PATCH", "BREW"] {
        let answer = ask(method, "/v1/check");
        assert_problem(&answer, 405, &[]);
        assert_eq!(answer.header("allow"), Some("POST"));
    }
    let answer = ask("POST", "/livez");
    assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")));
    for path in ["/livez", "/readyz", "/readyz?x"] {
        let answer = ask("GET", path);
        assert_eq!((answer.status, answer.body.as_str()), (200, "ok\n"));
    }
}

#[test]
fn a_body_may_have_a_mebibyte_and_not_one_byte_more() {
    let server = Server::of(FILE);
    let body = |length: usize| {
        let question = r#"{"policy":"slow","key":"k"}"#;
        format!("{question}{}", " ".repeat(length - question.len()))
    };
    assert_eq!(server.check(&body(1_048_576)).status, 200);
    assert_problem(&server.check(&body(1_048_577)), 413, &[]);
    // In chunks nothing is announced.
    let mut connection = server.connect();
    connection.send(b"POST /v1/check HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n");
    let chunk = format!("{:x}\r\n{}\r\n", 65_536, " ".repeat(65_536));
    for _ in 0..17 {
        connection.send(chunk.as_bytes());
    }
    connection.send(b"0\r\n\r\n");
    assert_problem(&connection.response(), 413, &[]);
    // Far too much, announced: refused before it is sent, to those who wait for leave and to those who do not.
    for expect in ["expect: 100-continue\r\n", ""] {
        let mut connection = server.connect();
        let head =
            format!("POST /v1/check HTTP/1.1\r\nhost: t\r\n{expect}content-length: 99999999999\r\n\r\n");
        connection.send(head.as_bytes());
        let answer = connection.response();
        assert_problem(&answer, 413, &[]);
        assert_eq!(answer.header("connection"), Some("close"));
    }
    // Far too much and nothing announced: cut at some point, but not before much was read.
    let mut connection = server.connect();
    connection.send(b"POST /v1/check HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n");
    let sent = (0..1_000).take_while(|_| connection.try_send(chunk.as_bytes()).is_ok()).count();
    assert!((32..1_000).contains(&sent), "{sent}");
    assert_eq!(server.check(r#"{"policy":"slow","key":"l"}"#).status, 200);
}

#[test]
fn a_compressed_body_is_415_and_the_content_type_is_not_looked_at() {
    let server = Server::of(FILE);
    let ask = |headers: &str| {
        let mut connection = server.connect();
        connection.send(&request("POST", "/v1/check", headers, br#"{"policy":"api","key":"k","cost":0}"#));
        connection.response()
    };
    for encoding in ["gzip", "br", "identity, gzip", "x"] {
        assert_problem(&ask(&format!("content-encoding: {encoding}\r\n")), 415, &[]);
    }
    for headers in [
        "content-encoding: identity\r\n",
        "content-type: application/x-www-form-urlencoded\r\n",
        "content-type: text/plain\r\n",
        "",
    ] {
        assert_eq!(ask(headers).status, 200, "{headers}");
    }
    // A web page can send a body of such a type to us from its visitor's browser.
    assert_problem(&ask("origin: https://example.org\r\ncontent-type: text/plain\r\n"), 415, &[]);
    assert_problem(&ask("origin: https://example.org\r\n"), 415, &[]);
    assert_eq!(
        ask("origin: https://example.org\r\ncontent-type: application/json; charset=utf-8\r\n").status,
        200
    );
}

#[test]
fn a_connection_stays_open_after_answers_of_every_kind() {
    let server = Server::of(FILE);
    let mut connection = server.connect();
    for (bytes, status) in [
        (post(r#"{"policy":"slow","key":"k"}"#), 200),
        (post(r#"{"policy":"slow","key":"k"}"#), 200),
        (post("nonsense"), 400),
        (post(r#"{"policy":"nope","key":"k"}"#), 404),
        (request("GET", "/v1/check", "", b""), 405),
        (request("POST", "/elsewhere", "", b"x"), 404),
        (request("POST", "/v1/check", "content-encoding: gzip\r\n", b"x"), 415),
        (request("GET", "/livez", "", b""), 200),
        (post(r#"{"policy":"slow","key":"k","cost":0}"#), 200),
    ] {
        connection.send(&bytes);
        assert_eq!(connection.response().status, status);
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::of(FILE);
    let mut connection = server.connect();
    let one = post(r#"{"policy":"api","key":"k"}"#);
    let bytes: Vec<u8> = one.iter().copied().cycle().take(one.len() * 50).collect();
    connection.send(&bytes);
    connection.finish();
    let allowed: Vec<bool> = (0..50).map(|_| connection.response().json()["allowed"] == true).collect();
    assert_eq!(allowed.iter().filter(|allowed| **allowed).count(), 2);
    assert!(allowed[0] && allowed[1]);
    assert!(connection.rest().is_empty());
}

#[test]
fn a_request_in_single_bytes_is_a_request() {
    let server = Server::of(FILE);
    let mut connection = server.connect();
    for byte in post(r#"{"policy":"slow","key":"k"}"#) {
        connection.send(&[byte]);
    }
    assert_eq!(connection.response().status, 200);
}

#[test]
fn the_server_survives_whatever_is_sent() {
    let server = Server::of(FILE);
    let huge_head = format!("GET /livez HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(100_000));
    let many_heads = format!("GET /livez HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(5_000));
    let long_path = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    let deep = request("POST", "/v1/check", "", format!("{{\"key\":{}", "[".repeat(500_000)).as_bytes());
    let many =
        request("POST", "/v1/check", "", format!("{{{}\"z\":0}}", "\"a\":0,".repeat(150_000)).as_bytes());
    let cases: [&[u8]; 15] = [
        b"\r\n\r\n",
        b"\0\0\0\0",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense that is no frame at all, and long enough to be read as one",
        b"POST /v1/check HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/check HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        b"POST /v1/check HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"POST /v1/check HTTP/1.1\r\ncontent-length: 100\r\n\r\nshort",
        huge_head.as_bytes(),
        many_heads.as_bytes(),
        long_path.as_bytes(),
        &deep,
        &many,
    ];
    for case in cases {
        let mut connection = server.connect();
        // The server may have closed before it has read everything.
        let _ = connection.try_send(case);
        connection.finish();
        let answered = connection.rest();
        assert!(!answered.starts_with(b"HTTP/1.1 5"), "{}", String::from_utf8_lossy(&answered));
        assert_eq!(server.check(r#"{"policy":"api","key":"k","cost":0}"#).status, 200);
    }
}

#[test]
fn http_2_is_spoken_by_prior_knowledge() {
    let server = Server::of(FILE);
    let mut connection = server.connect();
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        let length = u8::try_from(payload.len()).expect("short");
        [&[0, 0, length, kind, flags, 0, 0, 0, stream][..], payload].concat()
    };
    // :method POST, :scheme http, :path, :authority - indexed or literal, never Huffman-coded.
    let path = b"/v1/check";
    let mut head = vec![0x83, 0x86, 0x04, 9];
    head.extend(path);
    head.extend([0x01, 4]);
    head.extend(b"test");
    connection.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    connection.send(&frame(4, 0, 0, &[]));
    connection.send(&frame(1, 4, 1, &head));
    connection.send(&frame(0, 1, 1, br#"{"policy":"slow","key":"k"}"#));
    let (mut status, mut body) = (0, Vec::new());
    loop {
        let head = connection.read_exact(9);
        let length = usize::from(head[1]) << 8 | usize::from(head[2]);
        let payload = connection.read_exact(length);
        match head[3] {
            1 => status = payload[0],
            0 => body.extend(payload),
            _ => {}
        }
        if head[3] == 0 && head[4] & 1 == 1 {
            break;
        }
    }
    assert_eq!(status, 0x88, ":status 200");
    assert!(body.starts_with(b"{\"allowed\":true,\"policy\":\"slow\""), "{}", String::from_utf8_lossy(&body));
}
