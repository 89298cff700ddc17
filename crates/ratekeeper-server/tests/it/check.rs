//! `check`: what it prints, how it ends, and whom it asks.

use crate::support::{Folder, Server, command, run_command, told};

/// A file like the demo's, without its traffic.
fn demo() -> Server {
    Server::start(&["demo", "--no-traffic"], None)
}

/// What `check` says when it is told by a flag whom to ask.
fn check(server: &Server, arguments: &[&str]) -> (String, String, i32) {
    let url = format!("http://{}", server.address);
    told(&run_command(command(&[&["check", "--server", &url], arguments].concat()), b""))
}

/// The line with its moments cut out: `(13:07:42)` is another one each time.
fn without_clock(line: &str) -> String {
    let (before, rest) = line.split_once('(').expect("a time of day");
    let (clock, after) = rest.split_once(')').expect("it is closed");
    let time = clock.rsplit(' ').next().unwrap_or_default();
    assert!(time.len() == 8 && time.chars().filter(|c| *c == ':').count() == 2, "{line}");
    format!("{before}(…){after}")
}

#[test]
fn allowed_says_what_is_left_of_every_limit() {
    let server = demo();
    let (stdout, stderr, code) = check(&server, &["api", "user:42", "--cost", "3"]);
    assert_eq!(
        stdout,
        "ALLOWED  api · user:42 · cost 3     burst 17 of 20 left, full in 300 ms     minute 297 of 300     global 497 of 500\n"
    );
    assert_eq!((stderr.as_str(), code), ("", 0));
}

#[test]
fn denied_says_when_it_is_not_and_ends_with_10() {
    let server = demo();
    for left in (0..10).rev() {
        let (stdout, _, code) = check(&server, &["login", "203.0.113.9"]);
        let start =
            format!("ALLOWED  login · 203.0.113.9 · cost 1     tries {left} of 10 left, full in 10 min");
        assert!(stdout.starts_with(&start) && code == 0, "{stdout}");
    }
    let (stdout, stderr, code) = check(&server, &["login", "203.0.113.9"]);
    let stdout = without_clock(&stdout);
    let start = "DENIED   login · 203.0.113.9 · cost 1     tries 0 of 10 left     again in ";
    assert!(stdout.starts_with(start), "{stdout}");
    assert!(stdout.ends_with(" (…)     reason: limited\n"), "{stdout}");
    assert_eq!((stderr.as_str(), code), ("", 10));
}

#[test]
fn a_cost_that_can_never_pass_is_told_so() {
    let (stdout, stderr, code) = check(&demo(), &["api", "user:42", "--cost", "21"]);
    assert_eq!(
        stdout,
        "DENIED   api · user:42 · cost 21     burst holds 20: this cost can never pass     reason: cost_exceeds_capacity\n"
    );
    assert_eq!((stderr.as_str(), code), ("", 10));
}

#[test]
fn a_queue_says_when_to_start() {
    let server = demo();
    let (stdout, _, _) = check(&server, &["exports", "203.0.113.9", "--cost", "3"]);
    assert!(stdout.starts_with("ALLOWED  exports · 203.0.113.9 · cost 3     "), "{stdout}");
    let (stdout, _, code) = check(&server, &["exports", "203.0.113.9"]);
    assert!(stdout.starts_with("ALLOWED  exports · 203.0.113.9 · cost 1     start in "), "{stdout}");
    assert!(stdout.contains("     paced ") && stdout.ends_with(" of 11 left\n"), "{stdout}");
    assert_eq!(code, 0);
}

#[test]
fn a_look_takes_nothing() {
    let server = demo();
    for _ in 0..3 {
        let (stdout, _, code) = check(&server, &["sms", "u1", "--peek"]);
        assert_eq!((stdout.as_str(), code), ("ALLOWED  sms · u1 · cost 1 · peek     code 1 of 1 left\n", 0));
    }
    assert_eq!(check(&server, &["sms", "u1"]).2, 0);
    assert_eq!(check(&server, &["sms", "u1", "--peek"]).2, 10);
}

#[test]
fn json_is_the_servers_own_object_with_the_same_exit_codes() {
    let server = demo();
    for (expected, allowed) in [(0, true), (10, false)] {
        let (stdout, stderr, code) = check(&server, &["sms", "u1", "--format", "json"]);
        let object: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
        assert_eq!((&object["allowed"], code), (&allowed.into(), expected), "{stdout}");
        assert!(
            stdout.starts_with(r#"{"allowed":"#) && stdout.ends_with("\"shadow_denied\":[]}\n"),
            "{stdout}"
        );
        assert_eq!(stderr, "");
    }
}

#[test]
fn a_limit_with_a_key_of_its_own_is_given_it() {
    let server = Server::of(
        "version: 1\npolicies:\n  - name: p\n    key: [ip]\n    limits:\n      - { name: a, algorithm: gcra, limit: 5/s }\n      \
         - { name: tenant, algorithm: fixed-window, limit: 7/day, key: [header:x-tenant] }\n",
    );
    let (stdout, stderr, code) = check(&server, &["p", "192.0.2.1", "--key-of", "tenant=t=1"]);
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.contains("     tenant 6 of 7"), "{stdout}");
    for (arguments, why) in [
        (&["p", "192.0.2.1"][..], "tenant"),
        (&["p", "192.0.2.1", "--key-of", "tenant"], "LIMIT=KEY"),
        (&["p", "192.0.2.1", "--key-of", "tenant=a", "--key-of", "tenant=b"], "two keys"),
    ] {
        let (stdout, stderr, code) = check(&server, arguments);
        assert_eq!((stdout.as_str(), code), ("", 2), "{arguments:?}");
        assert!(stderr.contains(why), "{stderr}");
    }
}

#[test]
fn what_the_server_calls_wrong_is_bad_input() {
    let server = demo();
    for (arguments, why) in [
        (&["logn", "203.0.113.9"][..], "there is no policy `logn`"),
        (&["login", "203.0.113.9", "--key-of", "burst=x"], "burst"),
        (&["login"], "key"),
        (&["login", "203.0.113.9", "--cost", "-1"], "--cost"),
        (&["login", "203.0.113.9", "--cost", "18446744073709551616"], "--cost"),
    ] {
        let (stdout, stderr, code) = check(&server, arguments);
        assert_eq!((stdout.as_str(), code), ("", 2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(why), "{stderr}");
    }
    assert!(check(&server, &["logn", "x"]).1.starts_with("error: there is no policy `logn`"));
}

#[test]
fn a_server_that_is_not_there_is_named_with_how_to_start_one() {
    let mut server = demo();
    server.signal("TERM");
    server.wait();
    let (stdout, stderr, code) = check(&server, &["login", "203.0.113.9"]);
    assert_eq!((stdout.as_str(), code), ("", 1));
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains(&server.address) && stderr.contains("`ratekeeper serve`"), "{stderr}");
}

#[test]
fn another_program_at_the_address_is_not_taken_for_a_server() {
    let server = demo();
    let admin = format!("http://{}", server.admin);
    let (stdout, stderr, code) = told(&run_command(command(&["check", "p", "k", "--server", &admin]), b""));
    assert!(stdout.is_empty() && (code == 1 || code == 2), "{stderr}");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let strange = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody asks");
        let mut head = [0; 16];
        let _ = std::io::Read::read(&mut stream, &mut head);
        let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi");
        // Closed by the other side, so that no answer is lost to a reset.
        let _ = std::io::Read::read_to_end(&mut stream, &mut Vec::new());
    });
    let (stdout, stderr, code) = told(&run_command(command(&["check", "p", "k", "--server", &url]), b""));
    assert_eq!((stdout.as_str(), code), ("", 1));
    assert!(stderr.contains("does not answer as ratekeeper does"), "{stderr}");
    strange.join().expect("it has answered");
}

#[test]
fn whom_to_ask_is_flag_then_environment_then_file() {
    let servers = [demo(), demo(), demo()];
    let [by_flag, by_environment, by_file] = &servers;
    let folder = Folder::new();
    folder.file("ratekeeper.yaml", format!("version: 1\nlisten: {{ http: \"{}\" }}\n", by_file.address));
    let ask = |flag: Option<&Server>, variable: Option<&str>| {
        let mut command = command(&["check", "login", "203.0.113.9", "-v"]);
        command.current_dir(folder.path());
        if let Some(server) = flag {
            command.args(["--server", &format!("http://{}", server.address)]);
        }
        if let Some(url) = variable {
            command.env("RATEKEEPER_SERVER", url);
        }
        told(&run_command(command, b""))
    };
    let url = format!("http://{}", by_environment.address);
    for (flag, variable, asked, origin) in [
        (Some(by_flag), Some(url.as_str()), by_flag, "--server"),
        (None, Some(&url), by_environment, "RATEKEEPER_SERVER"),
        (None, Some(""), by_file, "ratekeeper.yaml"),
        (None, None, by_file, "ratekeeper.yaml"),
    ] {
        let (stdout, stderr, code) = ask(flag, variable);
        assert_eq!(stderr, format!("asking http://{}, from {origin}\n", asked.address));
        assert!(stdout.starts_with("ALLOWED") && code == 0, "{stdout}");
    }
    for (wrong, why) in [("127.0.0.1", "is no URL"), ("https://localhost:1", "https is not available")] {
        let (_, stderr, code) = ask(None, Some(wrong));
        assert!(
            code == 2 && stderr.starts_with("error: RATEKEEPER_SERVER: ") && stderr.contains(why),
            "{stderr}"
        );
    }
}

#[test]
fn a_file_that_says_nothing_of_use_is_told_about() {
    let folder = Folder::new();
    let at = |text: &str| {
        let file = folder.file("f.yaml", text);
        let arguments = ["check", "p", "k", "--config", file.to_str().expect("UTF-8")];
        told(&run_command(command(&arguments), b""))
    };
    let (_, stderr, code) = at("version: 1\nlisten: {}\n");
    assert!(code == 2 && stderr.contains("opens no HTTP listener"), "{stderr}");
    let (_, stderr, code) = at("version: 2\n");
    assert!(code == 2 && stderr.contains("f.yaml"), "{stderr}");
    let (_, stderr, code) =
        at("version: 1\nlisten: { http: { address: \"127.0.0.1:1\", tls: { cert: a, key: b } } }\n");
    assert!(code == 2 && stderr.contains("https") && stderr.contains("--server"), "{stderr}");
}

/// Policies that overlap: two that enforce, one that only shows itself, one that blocks and one that lets pass.
const REQUESTS: &str = "version: 1
client_ip: { trusted_proxies: [10.0.0.0/8] }
policies:
  - { name: login, match: { method: POST, path: /login }, key: [ip], limits: [{ name: tries, algorithm: fixed-window, limit: 2/day, align: first-request }] }
  - { name: all, match: { path: \"/login/**\" }, key: [global], limits: [{ name: day, algorithm: fixed-window, limit: 9/day, align: first-request }] }
  - { name: reports, match: { path: \"/r/**\" }, key: [ip], mode: shadow, limits: [{ name: daily, algorithm: fixed-window, limit: 1/day, align: first-request }] }
  - { name: closed, match: { path: /closed }, action: block }
  - { name: health, match: { path: /healthz }, action: bypass }
";

#[test]
fn a_request_is_checked_by_all_policies_that_it_matches() {
    let server = Server::of(REQUESTS);
    let login = [
        "--attributes",
        "POST /login",
        "--peer",
        "10.0.0.4",
        "-H",
        "X-Forwarded-For: 198.51.100.1, 203.0.113.9",
    ];
    let (stdout, stderr, code) = check(&server, &login);
    assert_eq!(
        stdout, "ALLOWED  POST /login     login.tries 1 of 2 left, full in 1 d     all.day 8 of 9\n",
        "{stderr}"
    );
    assert_eq!((stderr.as_str(), code), ("", 0));
    assert_eq!(check(&server, &login).2, 0);
    let (stdout, _, code) = check(&server, &login);
    assert!(stdout.starts_with("DENIED   POST /login     login.tries 0 of 2 left     again in "), "{stdout}");
    assert!(stdout.ends_with("     reason: limited\n") && code == 10, "{stdout}");
    // Another client, of whom only one thing is said.
    let (stdout, _, code) =
        check(&server, &["--attributes", "POST /login", "--ip", "192.0.2.1", "--cost", "2"]);
    assert!(stdout.starts_with("ALLOWED  POST /login · cost 2     login.tries 0 of 2 left"), "{stdout}");
    assert_eq!(code, 0);
}

#[test]
fn a_request_that_no_limit_decides_is_told_why() {
    let server = Server::of(REQUESTS);
    for (request, line, expected) in [
        ("GET /", "ALLOWED  GET /     no policy applies\n", 0),
        ("GET /healthz", "ALLOWED  GET /healthz     policy health asks no limit\n", 0),
        ("GET /closed", "DENIED   GET /closed     policy closed blocks it     reason: blocked\n", 10),
        ("GET /r/x", "ALLOWED  GET /r/x     policy reports asks no limit\n", 0),
        (
            "GET /r/x",
            "ALLOWED  GET /r/x     policy reports asks no limit     would have been denied by reports.daily (shadow)\n",
            0,
        ),
    ] {
        let (stdout, stderr, code) = check(&server, &["--attributes", request, "--ip", "192.0.2.1"]);
        assert_eq!((stdout.as_str(), stderr.as_str(), code), (line, "", expected));
    }
}

#[test]
fn a_request_and_a_policy_are_not_asked_together() {
    let server = Server::of(REQUESTS);
    for (arguments, why) in [
        (&["login", "192.0.2.1", "--attributes", "POST /login"][..], "not both"),
        (&["login", "192.0.2.1", "-H", "x: y"], "`--header` is of a request"),
        (&[], "Usage:"),
        (&["--attributes", "POST /login", "--peer", "x"], "`peer` is an address"),
        (&["--attributes", "POST /login", "--key-of", "tries=x"], "not both"),
    ] {
        let (stdout, stderr, code) = check(&server, arguments);
        assert_eq!((stdout.as_str(), code), ("", 2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(why), "{stderr}");
    }
}
