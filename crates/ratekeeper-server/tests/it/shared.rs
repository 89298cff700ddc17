//! Stores that a fleet shares, as far as it is the same whether anybody answers there: what commands and servers say of
//! them, and never a password.

use serde_json::Value;

use crate::support::{Connection, Folder, Server, run, told};

/// Nothing listens at port 1.
const FILE: &str = "
version: 1
listen: { http: 127.0.0.1:0, admin: 127.0.0.1:0 }
stores:
  local: { memory: { max_keys: 1000 } }
  shared: { redis: { url: 'redis://limiter:s3cret-word@127.0.0.1:1' } }
policies:
  - { name: m, store: local, key: [ip], match: { path: /m },
      limits: [{ name: l, algorithm: gcra, limit: 1/day }] }
  - { name: s, store: shared, key: [ip], match: { path: /s },
      limits: [{ name: l, algorithm: gcra, limit: 1/day }] }
";

#[test]
fn a_server_on_a_shared_store_starts_and_decides_whether_that_answers_or_not() {
    let server = Server::of(FILE);
    assert!(server.banner.contains("   store shared: redis 127.0.0.1:1\n"), "{}", server.banner);
    assert!(!server.banner.contains("s3cret") && !server.banner.contains("limiter"), "{}", server.banner);
    for (policy, allowed) in [("s", true), ("m", true), ("s", false), ("m", false)] {
        let answer = server.check(&format!(r#"{{"policy":"{policy}","key":"192.0.2.1"}}"#)).json();
        assert_eq!(answer["allowed"], allowed, "{answer}");
        let source = if policy == "m" { &["exact"][..] } else { &["exact", "local", "cached"] };
        assert!(source.contains(&answer["source"].as_str().expect("a word")), "{answer}");
    }
    let page = server.operate("GET", "/metrics");
    let page = page.body;
    for series in ["ratekeeper_store_breaker_open{store=\"shared\"} ", "ratekeeper_keys{store=\"local\"} "] {
        assert!(page.contains(series), "{series}");
    }
    let ready = server.operate("GET", "/readyz?verbose");
    assert_eq!(ready.status, 200);
    let text = ready.body;
    assert!(text.contains("\nstore shared "), "{text}");
    assert!(!text.contains("s3cret"), "{text}");
}

#[test]
fn a_store_for_a_simulation_is_memory_or_a_url_without_being_shown() {
    let folder = Folder::new();
    let file = folder.file(
        "r.yaml",
        FILE.replace("1/day", "1 per 500us")
            .replace("redis: { url: 'redis://limiter:s3cret-word@127.0.0.1:1' }", "memory: { max_keys: 10 }"),
    );
    let file = file.to_str().expect("UTF-8");
    for (store, message) in [
        ("disk", "unknown store `disk`: use `--store memory`, or a URL"),
        ("http://:s3cret-word@127.0.0.1", "error: `--store`: "),
        ("redis://:s3cret-word@127.0.0.1:x", "error: `--store`: "),
        ("redis://127.0.0.1:1", "limit `m.l` has a window below 1 ms"),
    ] {
        let arguments = ["simulate", "--config", file, "--policy", "m", "--store", store, "--trace", "-"];
        let (stdout, stderr, code) = told(&run(&arguments, "{\"t_us\":0,\"key\":\"k\"}"));
        assert_eq!((stdout.as_str(), code), ("", 2), "{store}: {stderr}");
        assert!(stderr.contains(message), "{store}: {stderr}");
        assert!(!stderr.contains("s3cret"), "{stderr}");
    }
}

#[test]
fn a_file_of_a_shared_store_is_simulated_in_memory() {
    let folder = Folder::new();
    let file = folder.file("r.yaml", FILE);
    let arguments = ["simulate", "--config", file.to_str().expect("UTF-8"), "--policy", "s", "--trace", "-"];
    let (stdout, stderr, code) = told(&run(&arguments, "{\"t_us\":0,\"key\":\"k\"}"));
    assert_eq!((stderr.as_str(), code), ("", 0));
    assert!(stdout.starts_with("{\"t_us\":0,\"allowed\":true,"), "{stdout}");
}

#[test]
fn stores_are_asked_by_validate_only_if_that_is_wished() {
    let folder = Folder::new();
    let file = folder.file("r.yaml", FILE);
    let memory = folder.file("m.yaml", "version: 1\n");
    let (file, memory) = (file.to_str().expect("UTF-8"), memory.to_str().expect("UTF-8"));
    let (stdout, _, code) = told(&run(&["validate", file], ""));
    assert_eq!((stdout.lines().count(), code), (1, 0), "{stdout}");
    let (stdout, _, code) = told(&run(&["validate", memory, "--check-store", "--format", "json"], ""));
    let report: Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!((&report["stores"], code), (&serde_json::json!([]), 0));
    let (stdout, stderr, _) = told(&run(&["validate", file, "--check-store"], ""));
    assert!(stdout.contains("\nstore shared: redis 127.0.0.1:1"), "{stdout}");
    assert!(!stdout.contains("s3cret") && !stderr.contains("s3cret"), "{stdout}{stderr}");
}

#[test]
fn an_explanation_says_how_the_store_is() {
    let server = Server::of(FILE);
    let question = r#"{"policy":"s","key":"192.0.2.1"}"#;
    let mut connection = Connection::open(&server.admin);
    let head =
        format!("POST /v1/explain HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", question.len());
    connection.send((head + question).as_bytes());
    let explained = connection.response().json();
    let policy = &explained["policies"][0];
    assert_eq!((&policy["store"], &policy["shared_store"]["kind"]), (&"shared".into(), &"redis".into()));
    assert!(policy["shared_store"]["state"].as_str().expect("a text").starts_with("redis 127.0.0.1:1"));
}
