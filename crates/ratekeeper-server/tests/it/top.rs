//! Who is refused most, and the page that shows what a server does.

use serde_json::{Value, json};

use crate::support::{Server, command, run_command, told};

const FILE: &str = r#"
version: 1
log: { keys: KEYS, level: error }
policies:
  - { name: p, key: [header:x-user], limits: [{ name: l, algorithm: fixed-window, limit: 1/day }] }
  - { name: shown, key: [header:x-user], mode: shadow, limits: [{ name: l, algorithm: fixed-window, limit: 1/day }] }
"#;

fn server(keys: &str) -> Server {
    let server = Server::of(&FILE.replace("KEYS", keys));
    for (policy, key, times) in [("p", "often", 9), ("p", "seldom", 3), ("p", "once", 1), ("shown", "s", 5)] {
        (0..times).for_each(|_| drop(server.check(&json!({ "policy": policy, "key": key }).to_string())));
    }
    server
}

#[test]
fn who_is_refused_most_is_told_by_count_with_keys_as_the_log_shows_them() {
    let hashed = server("hash");
    // Looks are no refusals.
    drop(hashed.check(r#"{"policy":"p","key":"often","peek":true}"#));
    let top = hashed.operate("GET", "/v1/top").json();
    let counts = |top: &Value| {
        let denied = top["denied"].as_array().expect("a list").clone();
        denied.iter().map(|one| (one["count"].clone(), one["error"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(counts(&top), [(json!(8), json!(0)), (json!(2), json!(0))], "{top}");
    assert_eq!((&top["denied"][0]["policy"], &top["denied"][0]["limit"]), (&json!("p"), &json!("l")));
    assert_eq!(top["denied"][0]["key"].as_str().map(str::len), Some(16));
    assert!(!top.to_string().contains("often"), "{top}");
    assert_eq!(counts(&hashed.operate("GET", "/v1/top?limit=1").json()).len(), 1);

    let plain = server("plain").operate("GET", "/v1/top").json();
    assert_eq!(plain["denied"][0]["key"], "header:x-user=often", "{plain}");
    let off = server("off").operate("GET", "/v1/top").json();
    assert_eq!(off["denied"], json!([]));
}

#[test]
fn keys_that_may_not_be_shown_any_more_are_forgotten() {
    let server = server("plain");
    server.replace(&FILE.replace("KEYS", "hash"));
    assert_eq!(server.operate("POST", "/v1/reload").status, 200);
    assert_eq!(server.operate("GET", "/v1/top").json()["denied"], json!([]));
}

#[test]
fn top_prints_a_line_of_json_for_each_look_where_nobody_sees_a_page() {
    let server = server("hash");
    let url = format!("http://{}", server.admin);
    let mut top = command(&["top", "--server", &url, "--interval", "300ms", "--ticks", "2"]);
    top.env("NO_COLOR", "1");
    let asking = std::thread::scope(|scope| {
        let asking = scope.spawn(|| run_command(top, b""));
        while !asking.is_finished() {
            drop(server.check(r#"{"policy":"p","key":"often"}"#));
        }
        asking.join().expect("it ends")
    });
    let (stdout, stderr, code) = told(&asking);
    assert_eq!((stderr.as_str(), code), ("", 0));
    assert!(!stdout.contains('\u{1b}'), "no page off a terminal: {stdout:?}");
    let lines: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 2, "{stdout}");
    for line in &lines {
        assert_eq!(line["server"], server.admin.as_str());
        assert!(line["interval_ms"].as_u64() >= Some(300), "{line}");
        let busiest = &line["policies"][0];
        assert_eq!(busiest["policy"], "p", "{line}");
        let apart = busiest["decisions"].as_u64().zip(busiest["denied"].as_u64());
        assert!(apart.is_some_and(|(decided, denied)| decided.abs_diff(denied) <= 2), "{line}");
        assert!(busiest["decisions"].as_u64() > Some(0), "{line}");
        assert_eq!(line["policies"].as_array().map(Vec::len), Some(2));
        // The page is read while requests are counted: one of the two may have met the next of them.
        let apart = line["sources"]["exact"].as_u64().zip(busiest["decisions"].as_u64());
        assert!(apart.is_some_and(|(exact, decided)| exact.abs_diff(decided) <= 2), "{line}");
        assert!(line["p50_us"].as_u64() <= line["p99_us"].as_u64() && line["p50_us"].is_u64(), "{line}");
        assert_eq!(line["denied"][0]["policy"], "p");
        assert!(line["up_s"].as_u64().is_some_and(|up| up < 600), "{line}");
    }
}

#[test]
fn top_says_who_does_not_answer_and_what_it_needs() {
    let ask =
        |arguments: &[&str]| told(&run_command(command(&[&["top", "--once"], arguments].concat()), b""));
    let (stdout, stderr, code) = ask(&["--server", "http://127.0.0.1:1"]);
    assert_eq!((stdout.as_str(), code), ("", 1));
    assert!(stderr.starts_with("error: no answer from http://127.0.0.1:1: "), "{stderr}");
    let server = server("hash");
    let (_, stderr, code) = ask(&["--server", &format!("http://{}", server.address)]);
    assert_eq!(code, 2);
    assert!(stderr.contains("has no /metrics: name the admin listener"), "{stderr}");
    for wrong in ["99ms", "2", "2h"] {
        assert_eq!(ask(&["--interval", wrong]).2, 2, "{wrong}");
    }
    let mut command = command(&["top", "--once", "--server", "http://127.0.0.1:1"]);
    command.env("RATEKEEPER_ADMIN_TOKEN", "short");
    assert_eq!(told(&run_command(command, b"")).2, 2);
}
