//! Every status of every operation, from the real binary.

use serde_json::Value;

use super::{Api, METHODS, Question, rest};
use crate::support::{Connection, Folder, Server, command, request};

const FILE: &str = "
version: 1
stores:
  local: { memory: { max_keys: 10000 } }
  tiny: { memory: { max_keys: 1, on_full: deny } }
defaults: { store: local }
policies:
  - name: api
    match: { path: /api }
    key: [header:x-api-key, ip]
    headers: [ratelimit, retry-after, x-ratelimit]
    missing_key: skip
    limits:
      - { name: burst, algorithm: token-bucket, limit: 20/day, burst: 20 }
      - { name: tenant, algorithm: sliding-window-counter, limit: 300/day, key: [header:x-tenant] }
      - { name: global, algorithm: gcra, limit: 10000/day, burst: 500, key: [global] }
  - name: sms
    match: { path: /sms }
    key: [header:x-user]
    missing_key: reject
    limits: [{ name: code, algorithm: fixed-window, limit: 1/day, align: first-request }]
  - name: llm
    match: { path: /llm }
    key: [header:x-user]
    missing_key: reject
    limits: [{ name: tokens, algorithm: token-bucket, limit: 1000/day, burst: 1000 }]
  - name: crowd
    key: [ip]
    limits: [{ name: all, algorithm: gcra, limit: 1000000000/s, burst: 1000000000 }]
  - name: tiny
    store: tiny
    headers: [x-ratelimit-delta]
    key: [ip]
    limits: [{ name: one, algorithm: gcra, limit: 1/day }]
  - { name: closed, match: { path: \"/closed/**\" }, action: block }
  - { name: open, match: { path: /open }, action: bypass }
  - { name: seen, match: { path: \"/seen/{id}\" }, key: [path:id], mode: shadow, limits: [{ name: l, algorithm: fixed-window, limit: 1/day, align: first-request }] }
";
const TOKEN: &str = "0123456789abcdef";
const PREFER: &str = "prefer: status=429\r\n";
/// Paths that take a body, each with one that is well formed.
const POSTS: [(&str, &str); 5] = [
    ("/v1/check", r#"{"policy":"sms","key":"k"}"#),
    ("/v1/check:batch", r#"{"checks":[]}"#),
    ("/v1/reserve", r#"{"policy":"llm","key":"k"}"#),
    ("/v1/settle", r#"{"id":"x","cost":1}"#),
    ("/v1/refund", r#"{"id":"x"}"#),
];
const KEY: &str = "/v1/keys/{policy}/{key}";
const OVERRIDE: &str = "/v1/overrides/{policy}/{key}";
const BLOCK: &str = r#"{"action":"block","ttl":"1h"}"#;

/// A server whose admin listener has a token.
fn server_with_token() -> Server {
    let folder = Folder::new();
    let file = folder.file("t.yaml", FILE);
    let mut command = command(&["serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command.arg("--config").arg(file).env("RATEKEEPER_ADMIN_TOKEN", TOKEN);
    Server::spawn(command).keeping(folder)
}

#[test]
fn every_documented_status_is_answered_as_documented() {
    let mut api = Api::new();
    let server = Server::of(FILE);
    // The one real wait: it begins now and is over when the rest has been asked.
    let slow = bodies_that_do_not_come(&server);
    checks(&mut api, &server);
    reservations(&mut api, &server);
    bodies(&mut api, &server);
    no_place(&mut api, &server);
    for (method, has_body) in [("GET", true), ("HEAD", false)] {
        process(&mut api, &server, method);
        admin(&mut api, &server, method, has_body);
    }
    overrides(&mut api, &server);
    explanations(&mut api, &server);
    reload(&mut api, &server);
    tokens(&mut api);
    draining(&mut api);
    for (question, mut connection) in slow {
        api.hold(&question, 408, &rest(&mut connection));
    }
    let documented = api.documented();
    assert!(documented.len() > 70, "{}", documented.len());
    let unmet: Vec<_> = documented.difference(&api.seen).collect();
    assert!(unmet.is_empty(), "documented and never met: {unmet:?}");
}

fn bodies_that_do_not_come(server: &Server) -> Vec<(Question<'_>, Connection)> {
    let open = |(path, _): &(&'static str, &str)| {
        let question = Question::post(&server.address, path, "");
        let mut connection = server.connect();
        connection.send(question.head(10).as_bytes());
        (question, connection)
    };
    let mut slow: Vec<_> = POSTS.iter().map(open).collect();
    for question in
        [put(&server.admin, "/v1/overrides/sms/slow", ""), Question::post(&server.admin, "/v1/explain", "")]
    {
        let mut connection = Connection::open(&server.admin);
        connection.send(question.head(10).as_bytes());
        slow.push((question, connection));
    }
    slow
}

fn put<'q>(at: &'q str, target: &'q str, body: &'q str) -> Question<'q> {
    Question { method: "PUT", ..Question::post(at, OVERRIDE, body) }.target(target)
}

fn overrides(api: &mut Api, server: &Server) {
    let at = server.admin.as_str();
    let limits = r#"{"limits":{"burst":{"limit":"40/day","burst":40}},"ttl":"30d"}"#;
    api.ask(&put(at, "/v1/overrides/api/k%2F1", limits), 204);
    let one = Question::new(at, "GET", OVERRIDE);
    let shown = api.ask(&one.target("/v1/overrides/api/header%3Ax-api-key%3Dk%2F1"), 200).json();
    assert_eq!(shown["limits"]["burst"]["burst"], 40, "{shown}");
    api.ask(&put(at, "/v1/overrides/sms/k", r#"{"limits":{"code":"3/day"},"ttl":"1h"}"#), 204);
    api.ask(&put(at, "/v1/overrides/sms/k", BLOCK), 204);
    let listed = api.ask(&Question::new(at, "GET", "/v1/overrides"), 200).json();
    assert_eq!(listed["overrides"].as_array().map(Vec::len), Some(2), "{listed}");
    let key = api.ask(&Question::new(at, "GET", KEY).target("/v1/keys/sms/k"), 200).json();
    assert_eq!(key["action"], "block", "{key}");
    api.ask(&Question::new(at, "HEAD", "/v1/overrides"), 200);
    api.ask(&Question { method: "HEAD", ..one }.target("/v1/overrides/sms/k"), 200);
    for method in ["GET", "HEAD", "PUT", "DELETE"] {
        let of_key = Question { method, body: if method == "PUT" { BLOCK.as_bytes() } else { b"" }, ..one };
        for (target, status) in
            [("/v1/overrides/sms/", 400), ("/v1/overrides/sms", 400), ("/v1/overrides/sns/k", 404)]
        {
            api.ask(&of_key.target(target), status);
        }
        for headers in ["origin: https://example.org\r\n", "host: name.example\r\n"] {
            api.ask(&of_key.target("/v1/overrides/sms/k").with(headers), 403);
        }
        if method != "PUT" {
            api.ask(&of_key.target("/v1/overrides/sms/nobody"), 404);
        }
    }
    for method in ["GET", "HEAD"] {
        api.ask(&Question::new(at, method, "/v1/overrides").target("/v1/overrides?x"), 400);
        api.ask(&Question::new(at, method, "/v1/overrides").with("host: name.example\r\n"), 403);
        let top = Question::new(at, method, "/v1/top");
        api.ask(&top, 200);
        api.ask(&top.target("/v1/top?limit=512"), 200);
        for wrong in ["limit=0", "limit=513", "limit=x", "limit", "x"] {
            api.ask(&top.target(&format!("/v1/top?{wrong}")), 400);
        }
        api.ask(&top.with("host: name.example\r\n"), 403);
    }
    let long = format!("{BLOCK}{}", " ".repeat(64 * 1_024));
    api.ask(&put(at, "/v1/overrides/sms/k", &long), 413);
    api.ask(&put(at, "/v1/overrides/sms/k", &long[..64 * 1_024]), 204);
    api.ask(&put(at, "/v1/overrides/sms/k", BLOCK).with("content-encoding: gzip\r\n"), 415);
    api.ask(&Question { method: "DELETE", ..one }.target("/v1/overrides/sms/k"), 204);
    let mut filling = Connection::open(at);
    let full = (0..20_000).find(|n| {
        let (target, length) = (format!("/v1/overrides/llm/{n}"), BLOCK.len());
        let head = format!("PUT {target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {length}\r\n\r\n");
        filling.send(&[head.as_bytes(), BLOCK.as_bytes()].concat());
        filling.response().status == 409
    });
    assert_eq!(full, Some(9_999), "one was there");
    api.ask(&put(at, "/v1/overrides/sms/k", BLOCK), 409);
    api.ask(&put(at, "/v1/overrides/api/k%2F1", BLOCK), 204);
    assert_eq!(server.check(r#"{"policy":"llm","key":"9998"}"#).json()["reason"], "blocked");
}

fn checks(api: &mut Api, server: &Server) {
    let check = |body| Question::post(&server.address, "/v1/check", body);
    let example =
        r#"{"policy":"api","key":"header:x-api-key=k1","keys":{"tenant":"t1"},"cost":2,"peek":false}"#;
    assert_eq!(api.ask_well(&check(example))["allowed"], true);
    let sms = check(r#"{"policy":"sms","key":"k"}"#);
    assert_eq!(api.ask_well(&sms)["allowed"], true);
    assert_eq!(api.ask_well(&sms)["reason"], "limited");
    assert_eq!(api.ask(&sms.with(PREFER), 429).header("preference-applied"), Some("status=429"));
    api.ask(&sms.target("/v1/check?status=true"), 429);
    let much = check(r#"{"policy":"api","key":"k","keys":{"tenant":"t"},"cost":21}"#);
    assert_eq!(api.ask_well(&much)["reason"], "cost_exceeds_capacity");
    api.ask(&much.with(PREFER), 413);
    api.ask(&much.target("/v1/check?stat=true"), 400);
    api.ask(&check(r#"{"policy":"sns","key":"k"}"#), 404);
    let closed = check(
        r#"{"attributes":{"method":"GET","path":"/closed/x","host":"a","peer":"unix","headers":{"a":["b"]}}}"#,
    );
    assert_eq!(api.ask_well(&closed)["reason"], "blocked");
    api.ask(&closed.with(PREFER), 403);
    let open = check(r#"{"attributes":{"path":"/open"}}"#);
    assert_eq!(api.ask_well(&open)["policy"], "open");
    assert_eq!(api.ask_well(&check(r#"{"attributes":{"path":"/none"}}"#))["policy"], Value::Null);
    let seen = check(r#"{"attributes":{"path":"/seen/7"}}"#);
    assert_eq!(api.ask_well(&seen)["shadow_denied"], Value::Array(Vec::new()));
    assert_eq!(api.ask_well(&seen)["shadow_denied"][0], "seen.l");
    let batch = |body| Question::post(&server.address, "/v1/check:batch", body);
    let mixed = batch(r#"{"checks":[{"policy":"sms","key":"b"},{"policy":"sms","key":"b"},{"policy":"x"}]}"#);
    let results = api.ask_well(&mixed)["results"].clone();
    assert_eq!((&results[1]["allowed"], &results[2]["status"]), (&Value::from(false), &Value::from(404)));
}

fn reservations(api: &mut Api, server: &Server) {
    let post = |path, body| Question::post(&server.address, path, body);
    let hold = post("/v1/reserve", r#"{"policy":"llm","key":"k","cost":800}"#);
    let id = api.ask_well(&hold)["id"].as_str().expect("an id").to_owned();
    assert_eq!(api.ask_well(&hold).get("id"), None, "refused");
    api.ask(&hold.with(PREFER), 429);
    api.ask(&post("/v1/reserve", r#"{"policy":"llm","key":"k","cost":1001}"#).with(PREFER), 413);
    api.ask(&post("/v1/reserve", r#"{"policy":"llm","key":"k","cost":0}"#), 400);
    api.ask(&post("/v1/reserve", r#"{"policy":"lm","key":"k"}"#), 404);
    api.ask(&post("/v1/reserve", r#"{"policy":"closed","key":"k"}"#).with(PREFER), 403);
    // More than is there: `charged` says how much was.
    let settle = format!(r#"{{"id":"{id}","cost":5000}}"#);
    let refund = format!(r#"{{"id":"{id}"}}"#);
    for _ in 0..2 {
        assert_eq!(api.ask_well(&post("/v1/settle", &settle))["charged"], 1_000);
    }
    api.ask(&post("/v1/refund", &refund), 409);
    let hold = post("/v1/reserve", r#"{"policy":"llm","key":"k2"}"#);
    let id = api.ask_well(&hold)["id"].as_str().expect("an id").to_owned();
    let refund = format!(r#"{{"id":"{id}"}}"#);
    assert_eq!(api.ask_well(&post("/v1/refund", &refund))["charged"], 0);
    let settle = format!(r#"{{"id":"{id}","cost":1}}"#);
    api.ask(&post("/v1/settle", &settle), 409);
    api.ask(&post("/v1/settle", r#"{"id":"x","cost":1}"#), 404);
    api.ask(&post("/v1/refund", r#"{"id":"x"}"#), 404);
}

/// What may be wrong with any body.
fn bodies(api: &mut Api, server: &Server) {
    let long = " ".repeat(1_024 * 1_024 + 1);
    for (path, body) in POSTS {
        let question = Question::post(&server.address, path, body);
        for wrong in ["", "[]", "{}", r#"{"policy":"sms","key":"k","id":"x","checks":[],"more":1}"#] {
            api.ask(&Question::post(&server.address, path, wrong), 400);
        }
        api.ask(&question.with("host: a\r\nhost: b\r\n"), 400);
        api.ask(&Question::post(&server.address, path, &long), 413);
        api.ask(&question.with("content-encoding: gzip\r\n"), 415);
        api.ask(&question.with("origin: https://example.org\r\n"), 415);
    }
}

/// A full table that refuses newcomers, and as many reservations as are kept.
fn no_place(api: &mut Api, server: &Server) {
    let body = |key: &str| format!(r#"{{"policy":"tiny","key":"{key}"}}"#);
    let mut filling = server.connect();
    let is_full = (0..1_000).any(|key| {
        filling.send(&request("POST", "/v1/check?status=true", "", body(&key.to_string()).as_bytes()));
        filling.response().status == 503
    });
    assert!(is_full, "the table has an end");
    for path in ["/v1/check", "/v1/reserve"] {
        api.ask(&Question::post(&server.address, path, &body("late")).with(PREFER), 503);
        let said = api.ask_well(&Question::post(&server.address, path, &body("late")));
        assert_eq!((&said["reason"], &said["source"]), (&"store_unavailable".into(), &"overflow".into()));
    }
    let crowd = r#"{"policy":"crowd","key":"k"}"#;
    // As many at once as fit into the buffers of a socket, so that nobody waits for the other to read.
    let hundred = request("POST", "/v1/reserve", "", crowd.as_bytes()).repeat(100);
    for _ in 0..1_000 {
        filling.send(&hundred);
        (0..100).for_each(|_| drop(filling.response()));
    }
    let question = Question::post(&server.address, "/v1/reserve", crowd);
    assert_eq!(api.ask(&question, 503).json()["title"], "Too many reservations");
}

fn process(api: &mut Api, server: &Server, method: &str) {
    for path in ["/livez", "/readyz", "/v1/policies"] {
        for at in [&server.address, &server.admin] {
            api.ask(&Question::new(at, method, path), 200);
        }
        let question = Question::new(&server.address, method, path);
        api.ask(&question.with("host: a\r\nhost: b\r\n"), 400);
        api.ask(&Question { at: &server.admin, ..question }.target(&format!("{path}?x")), 400);
    }
}

fn admin(api: &mut Api, server: &Server, method: &str, has_body: bool) {
    let metrics = Question::new(&server.admin, method, "/metrics");
    api.ask(&metrics, 200);
    api.ask(&metrics.with("accept: application/openmetrics-text\r\n"), 200);
    api.ask(&metrics.target("/metrics?x"), 400);
    let key = Question::new(&server.admin, method, KEY);
    for (target, status) in [
        ("/v1/keys/sms/header%3Ax-user%3Dk", 200),
        ("/v1/keys/api/k%2F1", 200),
        ("/v1/keys/sms/", 400),
        ("/v1/keys/sms", 400),
        ("/v1/keys/sms/%FF", 400),
        ("/v1/keys/sns/k", 404),
    ] {
        api.ask(&key.target(target), status);
        api.ask(
            &Question { method: "DELETE", ..key }.target(target),
            if status == 200 { 204 } else { status },
        );
    }
    let shown = api.ask(&key.target("/v1/keys/sms/k"), 200);
    assert_eq!(shown.body.contains(r#""used":0"#), has_body, "it was reset: {}", shown.body);
    let page = "origin: https://example.org\r\n";
    let name = "host: name.example\r\n";
    for headers in [page, name] {
        api.ask(&metrics.with(headers), 403);
        api.ask(&Question::new(&server.admin, method, "/v1/policies").with(headers), 403);
        api.ask(&key.target("/v1/keys/sms/k").with(headers), 403);
        api.ask(&Question { method: "DELETE", ..key }.target("/v1/keys/sms/k").with(headers), 403);
    }
}

fn explanations(api: &mut Api, server: &Server) {
    fn explain<'q>(server: &'q Server, body: &'q str) -> Question<'q> {
        Question::post(&server.admin, "/v1/explain", body)
    }
    let limits = |answer: &Value| answer["policies"][0]["limits"].as_array().map(Vec::len);
    for (policy, keys, count) in
        [("api", r#"{"tenant":"t1"}"#, 3), ("sms", "{}", 1), ("llm", "{}", 1), ("tiny", "{}", 1)]
    {
        let body = format!(r#"{{"policy":"{policy}","key":"e","keys":{keys}}}"#);
        assert_eq!(limits(&api.ask_well(&explain(server, &body))), Some(count));
    }
    let whole =
        r#"{"attributes":{"method":"GET","path":"/x","peer":"203.0.113.9","headers":{"x-user":"u"}}}"#;
    let explained = api.ask(&explain(server, whole), 200).json();
    assert_eq!(explained["policies"].as_array().map(Vec::len), Some(8));
    for wrong in ["", "{}", r#"{"policy":"sms"}"#, r#"{"attributes":{"path":"/../x"}}"#] {
        api.ask(&explain(server, wrong), 400);
    }
    api.ask(&explain(server, r#"{"policy":"sns","key":"k"}"#), 404);
    api.ask(&explain(server, &" ".repeat(1_024 * 1_024 + 1)), 413);
    api.ask(&explain(server, whole).with("content-encoding: gzip\r\n"), 415);
    for headers in ["origin: https://example.org\r\n", "host: name.example\r\n"] {
        api.ask(&explain(server, whole).with(headers), 403);
    }
}

fn reload(api: &mut Api, server: &Server) {
    let reload = Question::new(&server.admin, "POST", "/v1/reload");
    assert_eq!(api.ask(&reload, 200).json().get("notes"), None);
    server.replace(&FILE.replace("max_keys: 10000 ", "max_keys: 10001 "));
    assert_eq!(api.ask(&reload, 200).json()["notes"].as_array().map(Vec::len), Some(1));
    server.replace(&FILE.replace("limits", "limit"));
    api.ask(&reload, 422);
    for at in [&server.address, &server.admin] {
        let ready = Question::new(at, "GET", "/readyz");
        let said = api.ask(&ready.target("/readyz?verbose"), 200).body;
        assert!(said.starts_with("ready\n") && said.contains("\nlast reload failed"), "{said}");
        api.ask(&Question { method: "HEAD", ..ready }.target("/readyz?verbose"), 200);
    }
    api.ask(&reload.target("/v1/reload?x"), 400);
    for headers in ["origin: https://example.org\r\n", "host: name.example\r\n"] {
        api.ask(&reload.with(headers), 403);
    }
}

fn tokens(api: &mut Api) {
    let server = server_with_token();
    let reload = Question::new(&server.admin, "POST", "/v1/reload");
    api.ask(&reload, 401);
    api.ask(&Question::post(&server.admin, "/v1/explain", r#"{"policy":"sms","key":"k"}"#), 401);
    api.ask(&reload.with(&format!("authorization: Bearer {TOKEN}\r\n")), 200);
    let right = format!("authorization: Bearer {TOKEN}\r\n");
    let wrong = format!("authorization: Bearer {}\r\n", TOKEN.replace('0', "1"));
    for (path, target) in
        [("/metrics", "/metrics"), ("/v1/policies", "/v1/policies"), (KEY, "/v1/keys/sms/k")]
    {
        for method in ["GET", "HEAD", "DELETE"].into_iter().filter(|m| *m != "DELETE" || path == KEY) {
            let question = Question::new(&server.admin, method, path).target(target);
            api.ask(&question, 401);
            api.ask(&question.with(&wrong), 401);
            api.ask(&question.with(&right), if method == "DELETE" { 204 } else { 200 });
        }
    }
    for (method, status) in [("PUT", 204), ("GET", 200), ("HEAD", 200), ("DELETE", 204)] {
        let body = if method == "PUT" { BLOCK } else { "" };
        let question = Question { method, ..put(&server.admin, "/v1/overrides/sms/k", body) };
        api.ask(&question, 401);
        api.ask(&question.with(&right), status);
    }
    for method in ["GET", "HEAD"] {
        for path in ["/v1/overrides", "/v1/top"] {
            let question = Question::new(&server.admin, method, path);
            api.ask(&question.with(&wrong), 401);
            api.ask(&question.with(&right), 200);
        }
    }
    api.ask(&Question::new(&server.admin, "GET", "/livez"), 200);
}

/// While a request is under way a server that ends says so.
fn draining(api: &mut Api) {
    let server = Server::of(FILE);
    let mut connection = server.connect();
    let question = Question::post(&server.address, "/v1/check", r#"{"policy":"sms","key":"k"}"#)
        .with("expect: 100-continue\r\n");
    connection.send(question.head(question.body.len()).as_bytes());
    assert_eq!(connection.response().status, 100, "the body is awaited");
    server.signal("TERM");
    let ready = Question::new(&server.address, "GET", "/readyz");
    let heard = (0..3_000).any(|_| ready.answer().status == 503);
    assert!(heard, "the signal arrives");
    api.ask(&ready, 503);
    assert!(api.ask(&ready.target("/readyz?verbose"), 503).body.starts_with("draining\nconfiguration "));
    api.ask(&Question { method: "HEAD", ..ready }, 503);
    connection.send(question.body);
    api.hold(&question, 200, &rest(&mut connection));
}

/// A target that means a path of the file.
fn target_of(path: &str) -> String {
    path.replace("{policy}", "sms").replace("{key}", "k")
}

/// Whether the file says that a path is served at the listener with this port of the documentation.
fn is_served_at(api: &Api, path: &str, port: &str) -> bool {
    let own = api.spec.0["paths"][path].get("servers");
    let servers = own.unwrap_or_else(|| &api.spec.0["servers"]).as_array().expect("a list");
    servers.iter().any(|server| server["url"].as_str().is_some_and(|url| url.ends_with(port)))
}

#[test]
fn paths_are_served_at_their_listeners_and_for_their_methods_only() {
    let api = Api::new();
    let server = Server::of(FILE);
    for (at, port) in [(&server.address, ":8080"), (&server.admin, ":9090")] {
        for path in api.paths() {
            let served: Vec<&str> =
                METHODS.into_iter().filter(|method| api.operation(path, method).is_some()).collect();
            let target = target_of(path);
            for method in METHODS.into_iter().filter(|method| !served.contains(method)) {
                let answer = Question::new(at, method, &target).answer();
                let expected = if is_served_at(&api, path, port) { 405 } else { 404 };
                assert_eq!(answer.status, expected, "{method} {target}: {answer:?}");
                let allow = (expected == 405).then(|| served.join(", "));
                assert_eq!(answer.header("allow"), allow.as_deref(), "{method} {target}");
                let problem = &api.spec.0["components"]["schemas"]["Problem"];
                if method != "HEAD" {
                    assert_eq!(api.spec.flaws(problem, &answer.json(), ""), [""; 0]);
                }
            }
            if !is_served_at(&api, path, port) {
                for method in served {
                    assert_eq!(Question::new(at, method, &target).answer().status, 404, "{method} {target}");
                }
            }
        }
        for path in [
            "/",
            "/v1",
            "/v1/",
            "/v1/check/",
            "/v1/checks",
            "/V1/check",
            "/v1/keys",
            "/metrics/",
            "/openapi.yaml",
        ] {
            for method in METHODS {
                assert_eq!(Question::new(at, method, path).answer().status, 404, "{method} {path}");
            }
        }
    }
}

#[test]
fn every_path_that_the_code_names_is_in_the_file() {
    let api = Api::new();
    let sources = [
        include_str!("../../../src/transport/http/routes.rs"),
        include_str!("../../../src/transport/http/service.rs"),
        include_str!("../../../src/transport/admin/mod.rs"),
    ];
    let mut named = 0;
    for literal in sources.iter().flat_map(|source| source.split('"').skip(1).step_by(2)) {
        let is_path = literal.starts_with('/') && !literal.contains([' ', '{']) && literal != "/";
        if !is_path || literal.starts_with("/checks/") {
            continue;
        }
        named += 1;
        let paths = api.paths();
        let known = paths
            .iter()
            .any(|path| *path == literal || (literal.ends_with('/') && path.starts_with(literal)));
        assert!(known, "{literal} is not documented");
    }
    assert!(named >= 10, "{named}");
}
