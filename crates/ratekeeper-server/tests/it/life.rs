//! The life of a server: what it says, whom it gets out of the way of, how it ends.

use std::process::Command;

use crate::support::{Connection, RATEKEEPER, Server, request, run, told};

#[test]
fn demo_says_what_is_served_and_where() {
    let server = Server::start(&["demo"], None);
    let banner: Vec<&str> = server.banner.lines().collect();
    let start = format!("ratekeeper {}   configuration built in (sha ", env!("CARGO_PKG_VERSION"));
    assert!(banner[0].starts_with(&start), "{}", banner[0]);
    assert!(
        banner[0].ends_with(
            ")   5 policies, 7 limits   store local: memory, 1,000,000 keys, 72 MiB + logs up to 256 MiB"
        ),
        "{}",
        banner[0]
    );
    assert!(
        server.banner.contains("daily: fixed-window 1000/day by the calendar of Europe/Paris\n"),
        "{}",
        server.banner
    );
    assert_eq!(banner[1], format!("  check  http://{}/v1/check", server.address));
    assert_eq!(banner[2], format!("  admin  http://{}/metrics", server.admin));
    assert!(
        banner[3].starts_with("  policy login     key [ip]   tries: sliding-window-log 10 per 10m"),
        "{}",
        banner[3]
    );
    assert_eq!(banner.len(), 9);
    assert!(banner[8].starts_with("  demo traffic: ") && banner[8].contains("Ctrl-C"), "{}", banner[8]);
}

#[test]
fn the_eleventh_login_in_ten_minutes_is_refused() {
    let server = Server::start(&["demo"], None);
    let question = r#"{"policy":"login","key":"203.0.113.9"}"#;
    for left in (0..10).rev() {
        let answer = server.check(question);
        assert!(
            answer.body.starts_with(&format!(
                "{{\"allowed\":true,\"policy\":\"login\",\"limit\":\"tries\",\"remaining\":{left},"
            )),
            "{}",
            answer.body
        );
    }
    let refused = server.check(question);
    assert_eq!(refused.status, 200);
    assert!(refused.body.starts_with(r#"{"allowed":false,"reason":"limited","policy":"login","limit":"tries","remaining":0,"retry_after_ms":"#), "{}", refused.body);
}

#[test]
fn a_port_in_use_is_named_with_the_flag_that_moves_it() {
    let server = Server::start(&["demo"], None);
    let (stdout, stderr, code) = told(&run(&["demo", "--http", &server.address], ""));
    let port = server.address.rsplit(':').next().expect("an address has a port");
    assert_eq!((stdout.as_str(), code), ("", 1));
    assert!(stderr.contains(&format!("port {port} is in use")), "{stderr}");
    assert!(stderr.contains("--http"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn both_signals_end_the_server_with_0() {
    for signal in ["TERM", "INT"] {
        let mut server = Server::start(&["demo"], None);
        // An idle connection is nobody to wait for.
        let _idle = server.connect();
        server.signal(signal);
        let (status, rest) = server.wait();
        assert_eq!(status.code(), Some(0), "{signal}");
        assert!(rest.ends_with(" info drain\n") && rest.lines().count() == 1, "{signal}: {rest}");
    }
}

#[test]
fn nothing_is_reserved_for_logs_that_no_policy_has() {
    let server = Server::of(
        "version: 1\npolicies: [{ name: p, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 1/s }] }]\n",
    );
    let first = server.banner.lines().next().expect("a line");
    assert!(first.ends_with("   1 policy, 1 limit   store local: memory, 1,000,000 keys, 42 MiB"), "{first}");
}

#[test]
fn a_server_without_policies_says_so_and_serves() {
    let server = Server::of("version: 1\n");
    assert!(server.banner.starts_with("warning: no policies: nobody is limited\n"), "{}", server.banner);
    assert_eq!(server.check(r#"{"policy":"p","key":"k"}"#).status, 404);
}

#[test]
fn what_is_no_file_cannot_be_reloaded_and_says_so() {
    let mut server = Server::start(&["demo"], None);
    server.signal("HUP");
    let mut said = String::new();
    server.read_line(&mut said);
    let message = "the configuration is built in and cannot be reloaded; only a file can be read again: name one with `--config FILE`";
    let line = format!(" error reload_failed file=\"built in\" code=unreadable message=\"{message}\"\n");
    assert!(said.ends_with(&line), "{said}");
    assert_eq!(server.check(r#"{"policy":"login","key":"203.0.113.9"}"#).status, 200);
    server.signal("TERM");
    assert_eq!(server.wait().0.code(), Some(0));
}

#[test]
fn a_request_sent_before_the_end_is_answered() {
    for _ in 0..20 {
        let mut server = Server::start(&["demo"], None);
        let livez = request("GET", "/livez", "", b"");
        let mut connections: Vec<_> = (0..20).map(|_| server.connect()).collect();
        for connection in &mut connections[..10] {
            connection.send(&livez);
            assert_eq!(connection.response().status, 200);
        }
        // To idle connections and new ones, which the server may not even have seen yet.
        server.signal("TERM");
        for connection in &mut connections {
            connection.send(&livez);
        }
        for connection in &mut connections {
            assert_eq!(connection.response().status, 200);
        }
        assert_eq!(server.wait().0.code(), Some(0));
    }
}

#[test]
fn a_request_under_way_is_finished_before_the_end() {
    let mut server = Server::start(&["demo"], None);
    let mut connection = server.connect();
    let body = r#"{"policy":"login","key":"203.0.113.9"}"#;
    let request = request("POST", "/v1/check", "expect: 100-continue\r\n", body.as_bytes());
    let (head, body) = request.split_at(request.len() - body.len());
    connection.send(head);
    // Asked for the body: the request is under way.
    assert_eq!(connection.response().status, 100);
    server.signal("TERM");
    // Others are served meanwhile, and told to go elsewhere; only then is the rest sent.
    let readyz = || {
        let mut other = server.connect();
        other.send(&crate::support::request("GET", "/readyz", "", b""));
        other.response()
    };
    let draining = (0..3_000).map(|_| readyz()).find(|answer| answer.status == 503);
    let draining = draining.expect("the signal arrives");
    assert_eq!((draining.header("retry-after"), draining.header("connection")), (Some("1"), Some("close")));
    let asked = server.check(r#"{"policy":"login","key":"203.0.113.10"}"#);
    assert_eq!((asked.status, asked.header("connection")), (200, Some("close")));
    connection.send(body);
    let answer = connection.response();
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    assert!(connection.rest().is_empty());
    assert_eq!(server.wait().0.code(), Some(0));
}

#[test]
fn a_server_without_free_descriptors_answers_again_when_there_are_some() {
    let mut bash = Command::new("bash");
    bash.args([
        "-c",
        &format!("ulimit -n 40; exec {RATEKEEPER} demo --no-traffic --http 127.0.0.1:0 --admin 127.0.0.1:0"),
    ]);
    let server = Server::spawn(bash);
    let crowd: Vec<Connection> = (0..100).map(|_| server.connect()).collect();
    let mut last = server.connect();
    last.send(&request("GET", "/livez", "", b""));
    drop(crowd);
    assert_eq!(last.response().status, 200);
}
