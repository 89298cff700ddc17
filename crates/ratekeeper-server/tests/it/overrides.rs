//! What is different for single keys for a while, from outside.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Connection, Folder, Response, Server, Stopwatch, command, request};

const FILE: &str = r#"
version: 1
log: { format: json }
policies:
  - name: api
    match: { path: "/api/**" }
    key: [header:x-user, ip]
    limits:
      - { name: burst, algorithm: token-bucket, limit: 2/day, burst: 2 }
      - { name: minute, algorithm: fixed-window, limit: 3/day }
      - { name: all, algorithm: gcra, limit: 1000000/s, burst: 1000000, key: [global] }
    overrides: [{ key: "partner-*", action: bypass }]
"#;

impl Server {
    /// Asks the operators' listener with a body.
    fn operate_with(&self, method: &str, target: &str, body: &str) -> Response {
        let mut connection = Connection::open(&self.admin);
        let length = body.len();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        connection.send(head.as_bytes());
        connection.response()
    }

    #[track_caller]
    fn except(&self, key: &str, body: &str) {
        let answer = self.operate_with("PUT", &format!("/v1/overrides/api/{key}"), body);
        assert_eq!((answer.status, answer.body.as_str()), (204, ""), "{answer:?}");
    }

    fn ask_of(&self, key: &str) -> Value {
        self.check(&json!({ "policy": "api", "key": key }).to_string()).json()
    }

    /// How many of nine pass.
    fn passed_of(&self, key: &str) -> usize {
        (0..9).filter(|_| self.ask_of(key)["allowed"] == true).count()
    }

    /// Asks by what a request is, and wants a refusal in the status.
    fn describe(&self, user: &str) -> Response {
        let body = json!({ "attributes": { "path": "/api/x", "headers": { "x-user": user } } }).to_string();
        let mut connection = self.connect();
        connection.send(&request("POST", "/v1/check", "prefer: status=429\r\n", body.as_bytes()));
        connection.response()
    }
}

#[test]
fn a_block_a_raise_and_a_bypass_hold_from_the_next_request_and_end_when_they_are_removed() {
    let server = Server::of(&FILE.replace("log: { format: json }", ""));
    // B104: blocked is 403, not a quota that is used up.
    server.except("a", r#"{"action":"block","ttl":"1h"}"#);
    let refused = server.describe("a");
    assert_eq!((refused.status, refused.json()["reason"].as_str()), (403, Some("blocked")), "{refused:?}");
    assert_eq!(refused.header("retry-after"), None);
    assert_eq!(server.ask_of("a")["reason"], "blocked");
    assert_eq!(server.ask_of("b")["allowed"], true);
    // What was blocked has used nothing, which `/v1/keys` shows all the same.
    let shown = server.operate("GET", "/v1/keys/api/a").json();
    assert_eq!((&shown["action"], &shown["limits"][0]["used"]), (&json!("block"), &json!(0)), "{shown}");

    // The second takes the place of the first.
    server.except(
        "header%3Ax-user%3Da",
        r#"{"limits":{"burst":{"limit":"6/day","burst":6},"minute":"5/day"},"ttl":"1d"}"#,
    );
    assert_eq!(server.passed_of("a"), 5);
    let refused = server.describe("a");
    assert_eq!(refused.status, 429);
    assert!(refused.header("ratelimit-policy").is_some_and(|field| field.contains("q=5;")), "{refused:?}");
    let shown = server.operate("GET", "/v1/keys/api/a").json();
    assert_eq!((&shown["limits"][1]["used"], &shown["limits"][1]["capacity"]), (&json!(5), &json!(5)));

    server.except("a", r#"{"action":"bypass","ttl":"1h"}"#);
    let let_through = server.ask_of("a");
    assert_eq!((&let_through["allowed"], &let_through["limits"]), (&json!(true), &json!([])));
    assert_eq!(server.operate("DELETE", "/v1/overrides/api/a").status, 204);
    assert_eq!(server.operate("DELETE", "/v1/overrides/api/a").status, 404);
    assert_eq!(server.ask_of("a")["allowed"], false, "what was used is still there");

    // Before those of the file.
    assert_eq!(server.describe("partner-1").status, 200);
    server.except("partner-1", r#"{"action":"block","ttl":"1h"}"#);
    assert_eq!(server.describe("partner-1").status, 403);
    assert_eq!(server.describe("partner-2").status, 200);
    server.except("partner-1", r#"{"limits":{"minute":"1/day"},"ttl":"1h"}"#);
    assert_eq!(server.passed_of("partner-1"), 1);
}

#[test]
fn it_is_over_when_its_time_is_and_the_list_tells_how_long_that_is() {
    let server = Server::of(FILE.replace("log: { format: json }", "").as_str());
    let watch = Stopwatch::start();
    server.except("a", r#"{"action":"block","ttl":"1500ms"}"#);
    server.except("b", r#"{"limits":{"minute":"1/day"},"ttl":"30d"}"#);
    assert_eq!(server.ask_of("a")["reason"], "blocked");
    let listed = server.operate("GET", "/v1/overrides").json();
    let listed = listed["overrides"].as_array().expect("a list");
    assert_eq!(
        (listed[0]["key"].as_str(), listed[1]["limits"]["minute"].as_str()),
        (Some("a"), Some("1/day"))
    );
    assert!((1..=1_500).contains(&listed[0]["ttl_ms"].as_u64().expect("a number")));
    let one = server.operate("GET", "/v1/overrides/api/b").json();
    assert_eq!((&one["policy"], &one["key"]), (&json!("api"), &json!("b")));
    while server.ask_of("a")["allowed"] == false {
        assert!(watch.elapsed() < Duration::from_secs(20), "it ends");
        // Waits for the server's own clock, which nobody moves.
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(watch.elapsed() >= Duration::from_millis(1_500), "not before its time: {:?}", watch.elapsed());
    assert_eq!(server.operate("GET", "/v1/overrides/api/a").status, 404);
    let page = server.operate("GET", "/metrics").body;
    assert!(page.contains("\nratekeeper_overrides 1\n"), "{page}");
}

#[test]
fn a_reload_keeps_it_and_says_what_it_could_not_keep() {
    let file = FILE.replace("log: { format: json }", "");
    let server = Server::of(&file);
    server.except("a", r#"{"action":"block","ttl":"1h"}"#);
    server.except("b", r#"{"limits":{"minute":"1/day"},"ttl":"1h"}"#);
    server.replace(&file.replace("name: minute", "name: daily"));
    let notes = server.operate("POST", "/v1/reload").json()["notes"].clone();
    assert_eq!(
        notes,
        json!(["1 temporary override of policy `api` ended: there is no limit `minute` of its key"])
    );
    assert_eq!(server.ask_of("a")["reason"], "blocked");
    assert_eq!(server.operate("GET", "/v1/overrides/api/b").status, 404);
    assert_eq!(server.passed_of("b"), 2);
}

#[test]
fn all_that_is_wrong_is_told_at_once_with_its_place() {
    let server = Server::of(FILE.replace("log: { format: json }", "").as_str());
    let problem = |body: &str| {
        let answer = server.operate_with("PUT", "/v1/overrides/api/a", body);
        assert_eq!(answer.status, 400, "{answer:?}");
        answer.json()
    };
    let told = |body: &str| {
        let problem = problem(body);
        let errors = problem["errors"].as_array().expect("a list").clone();
        errors.iter().map(|e| e["pointer"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let many =
        r#"{"limits":{"minut":"3/day","all":"9/s","burst":{"burst":0},"minute":"3/d"},"ttl":"31d","x":1}"#;
    let mut pointers = told(many);
    pointers.sort_unstable();
    assert_eq!(
        pointers,
        ["/limits/all", "/limits/burst/burst", "/limits/minut", "/limits/minute", "/ttl", "/x"],
        "{}",
        problem(many)
    );
    let detail = problem(many)["detail"].as_str().expect("a text").to_owned();
    for words in ["did you mean `minute`?", "from 1s to 30d, not `31d`", "unknown field `x`"] {
        assert!(detail.contains(words), "{words}: {detail}");
    }
    for (body, expected) in [
        ("", vec![""]),
        ("[]", vec![""]),
        (r#"{"ttl":"1h"}"#, vec!["/limits"]),
        (r#"{"action":"block"}"#, vec!["/ttl"]),
        (r#"{"action":"block","ttl":"999ms"}"#, vec!["/ttl"]),
        (r#"{"action":"block","ttl":60}"#, vec!["/ttl"]),
        (r#"{"action":"blok","ttl":"1h"}"#, vec!["/action"]),
        (r#"{"action":"block","limits":{"minute":"1/s"},"ttl":"1h"}"#, vec!["/action"]),
        (r#"{"limits":{},"ttl":"1h"}"#, vec!["/limits"]),
        (r#"{"limits":3,"ttl":"1h"}"#, vec!["/limits"]),
        (r#"{"limits":{"minute":{}},"ttl":"1h"}"#, vec!["/limits/minute/limit"]),
        (r#"{"limits":{"minute":{"rate":"1/s"}},"ttl":"1h"}"#, vec!["/limits/minute/rate"]),
        (r#"{"limits":{"minute":{"limit":"1/s","burst":5}},"ttl":"1h"}"#, vec!["/limits/minute/burst"]),
        (r#"{"limits":{"minute":3},"ttl":"1h"}"#, vec!["/limits/minute"]),
    ] {
        let mut pointers = told(body);
        pointers.dedup();
        assert!(pointers.iter().any(|pointer| pointer == expected[0]), "{body}: {pointers:?}");
    }
    // What would have no effect on anybody is no override.
    for (key, why) in [
        ("header:x-usr%3Dmallory", "has no such alternative"),
        ("partner-*", "patterns are overridden in the file"),
        ("203.0.113.9", "say which is meant: `ip=ADDRESS`, or `header:x-user=ADDRESS`"),
        ("ip=203.0.113.0%2F24", "networks are overridden in the file"),
    ] {
        let target = format!("/v1/overrides/api/{key}");
        let answer = server.operate_with("PUT", &target, r#"{"action":"block","ttl":"1h"}"#);
        assert_eq!(answer.status, 400, "{key}: {answer:?}");
        assert!(answer.body.contains(why), "{key}: {answer:?}");
    }
    let costly = Server::of(
        "version: 1
policies:
  - { name: api, key: [ip], cost: 3, limits: [{ name: l, algorithm: token-bucket, limit: 9/s, burst: 9 }] }
  - { name: keyless, limits: [{ name: l, algorithm: gcra, limit: 1/s, key: [ip] }] }
",
    );
    let refused = |path: &str, body: &str| {
        let answer = costly.operate_with("PUT", path, body);
        assert_eq!(answer.status, 400, "{answer:?}");
        answer.json()
    };
    let burst = refused("/v1/overrides/api/203.0.113.9", r#"{"limits":{"l":{"burst":2}},"ttl":"1h"}"#);
    assert_eq!(burst["errors"][0]["pointer"], "/limits/l/burst", "{burst}");
    let keyless = refused("/v1/overrides/keyless/k", r#"{"action":"block","ttl":"1h"}"#);
    assert!(
        keyless["detail"].as_str().is_some_and(|detail| detail.contains("tells nobody apart")),
        "{keyless}"
    );
    let unknown = server.operate_with("PUT", "/v1/overrides/apy/a", r#"{"action":"block","ttl":"1h"}"#);
    assert_eq!(unknown.status, 404);
    assert!(unknown.body.contains("did you mean `api`?"), "{unknown:?}");
    assert_eq!(server.operate("GET", "/v1/overrides").json()["overrides"], json!([]), "nothing was taken");
}

#[test]
fn the_log_tells_of_it_and_hides_the_key() {
    let folder = Folder::new();
    let file = folder.file("t.yaml", FILE);
    let mut command = command(&["serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command.arg("--config").arg(file);
    let mut child = command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().expect("a pipe")));
    let mut next = |event: &str| -> Value {
        loop {
            let line = lines.next().expect("there are more lines").expect("UTF-8");
            let line: Value = serde_json::from_str(&line).expect("JSON");
            if line["event"] == event && line["listener"] != "http" {
                return line;
            }
        }
    };
    let address = next("listen")["address"].as_str().expect("a URL").to_owned();
    let at = address.trim_start_matches("http://").to_owned();
    let operate = |method: &str, body: &str| {
        let mut connection = Connection::open(&at);
        let length = body.len();
        let target = "/v1/overrides/api/somebody";
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        connection.send(head.as_bytes());
        connection.response().status
    };
    assert_eq!(operate("PUT", r#"{"limits":{"minute":"9/day"},"ttl":"1m"}"#), 204);
    let set = next("override");
    assert_eq!(
        (&set["level"], &set["policy"], &set["limits"], &set["ttl_ms"]),
        (&json!("info"), &json!("api"), &json!(r#"{"minute":"9/day"}"#), &json!(60_000))
    );
    assert_eq!(operate("DELETE", ""), 204);
    let removed = next("override_removed");
    assert_eq!(set["key"], removed["key"]);
    assert_eq!(set["key"].as_str().map(str::len), Some(16), "{set}");
    for line in [set, removed] {
        assert!(!line.to_string().contains("somebody"), "{line}");
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

/// What `explain` says is what a check does, whatever the file says of the key.
#[test]
fn an_override_is_explained_as_it_is_decided() {
    let server = Server::of(
        "version: 1
policies:
  - name: api
    key: [header:x-user]
    cost: 5
    limits: [{ name: l, algorithm: fixed-window, limit: 12/day, align: first-request }]
    overrides: [{ key: closed, action: block }]
",
    );
    let body = |user: &str| json!({ "attributes": { "headers": { "x-user": user } } }).to_string();
    let explain = |user: &str| server.operate_with("POST", "/v1/explain", &body(user)).json();
    for user in ["closed", "u"] {
        server.except(user, r#"{"limits":{"l":"12/day"},"ttl":"1h"}"#);
        for left in [7, 2, 2] {
            let said = explain(user);
            let decided = server.check(&body(user)).json();
            assert_eq!(said["allowed"], decided["allowed"], "{said}");
            assert_eq!((&said["policies"][0]["cost"], &decided["remaining"]), (&json!(5), &json!(left)));
        }
        for (action, allowed) in [("block", false), ("bypass", true)] {
            server.except(user, &json!({ "action": action, "ttl": "1h" }).to_string());
            let said = explain(user);
            assert_eq!((&said["allowed"], &said["policies"][0]["action"]), (&json!(allowed), &json!(action)));
            assert_eq!(server.check(&body(user)).json()["allowed"], allowed);
        }
    }
}
