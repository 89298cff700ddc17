//! `explain`: which policies a request meets and why, of a running server and by the file alone.

use serde_json::Value;

use crate::support::{Folder, Server, command, run_command, told};

const FILE: &str = "version: 1
client_ip: { trusted_proxies: [10.0.0.0/8] }
policies:
  - name: api
    match: { path: \"/api/**\" }
    key: [header:x-api-key, ip]
    limits:
      - { name: burst, algorithm: token-bucket, limit: 10/s, burst: 20 }
      - { name: minute, algorithm: sliding-window-counter, limit: 300/minute }
      - { name: tenant, algorithm: gcra, limit: 10/minute, key: [header:x-tenant] }
    overrides:
      - { key: \"partner-*\", limits: { minute: 3000/minute } }
      - { key: 192.0.2.0/24, action: bypass }
  - name: login
    match: { method: POST, path: /login }
    key: [ip]
    limits: [{ name: tries, algorithm: sliding-window-log, limit: 10 per 10m }]
    on_store_error: deny
  - name: sms
    key: [header:x-user]
    limits: [{ name: code, algorithm: fixed-window, limit: 1/day, align: first-request }]
  - name: reports
    match: { path: \"/reports/**\" }
    key: [ip]
    mode: shadow
    limits: [{ name: daily, algorithm: fixed-window, limit: 1/day, align: first-request }]
  - name: exports
    match: { path: /export }
    key: [ip]
    limits: [{ name: paced, algorithm: leaky-bucket, limit: 1 per 10m, queue: 2, max_wait: 10m }]
  - name: closed
    match: { path: /closed }
    action: block
";
const LOGIN: [&str; 5] =
    ["POST /login", "--peer", "10.0.0.4", "-H", "x-forwarded-for: 198.51.100.1, 203.0.113.9"];
const WALK: &str = "client    203.0.113.9     peer 10.0.0.4 is trusted (client_ip.trusted_proxies[0]); first untrusted address from the right of x-forwarded-for";

/// By the file alone.
fn offline(arguments: &[&str]) -> (String, String, i32) {
    let folder = Folder::new();
    folder.file("ratekeeper.yaml", FILE);
    let mut command = command(&[&["explain", "--offline"], arguments].concat());
    command.current_dir(folder.path());
    told(&run_command(command, b""))
}

/// Of a running server.
fn explain(server: &Server, arguments: &[&str]) -> String {
    let url = format!("http://{}", server.admin);
    let (stdout, stderr, code) =
        told(&run_command(command(&[&["explain", "--server", &url], arguments].concat()), b""));
    assert_eq!((stderr.as_str(), code), ("", 0), "{stdout}");
    stdout
}

/// The text without its times of day: `13:07:42.120` is another one each time.
fn without_clock(text: &str) -> String {
    let is_time = |word: &str| {
        word.len() == 12
            && word.bytes().enumerate().all(|(i, b)| match i {
                2 | 5 => b == b':',
                8 => b == b'.',
                _ => b.is_ascii_digit(),
            })
    };
    let word = |word: &str| {
        let bare = word.trim_end_matches(',');
        if is_time(bare) { word.replace(bare, "T") } else { word.to_owned() }
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_request_is_explained_by_the_file_alone() {
    let (stdout, stderr, code) = offline(&LOGIN);
    let wanted = [
        "offline   by ratekeeper.yaml alone, as if nothing had been used",
        WALK,
        "policies  login      applies     method POST, path /login            ratekeeper.yaml:14",
        "          api        no match    path /login is not under /api/      ratekeeper.yaml:4",
        "          sms        no key      header x-user is absent             ratekeeper.yaml:19",
        "          reports    no match    path /login is not under /reports/  ratekeeper.yaml:22",
        "          exports    no match    path /login is not /export          ratekeeper.yaml:27",
        "          closed     no match    path /login is not /closed          ratekeeper.yaml:31",
        "login     key ip = 203.0.113.9    override none    store local    on_store_error deny    mode enforce",
        "  tries   sliding-window-log 10 per 10m    0 used of 10",
        "          ALLOWED now: 10 of 10 left",
    ];
    let squeezed = |text: &str| {
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
    };
    assert_eq!(squeezed(&stdout), squeezed(&wanted.join("\n")));
    // Columns begin below one another.
    let column = |line: &str, word: &str| line.find(word).unwrap_or_else(|| panic!("{word}: {line}"));
    let lines: Vec<&str> = stdout.lines().collect();
    for line in &lines[2..8] {
        assert_eq!(column(line, "ratekeeper.yaml"), column(lines[2], "ratekeeper.yaml"), "{stdout}");
    }
    assert_eq!((stderr.as_str(), code), ("", 0));
}

#[test]
fn a_request_that_is_denied_is_explained_by_a_running_server() {
    let server = Server::of(FILE);
    for _ in 0..10 {
        assert_eq!(server.check(r#"{"policy":"login","key":"203.0.113.9"}"#).json()["allowed"], true);
    }
    let text = without_clock(&explain(&server, &LOGIN));
    assert!(text.starts_with(WALK), "{text}");
    let denied = "
login     key ip = 203.0.113.9    override none    store local    on_store_error deny    mode enforce
  tries   sliding-window-log 10 per 10m    10 used: T \u{2026} T
          DENIED now: the oldest leaves at T, so again in ";
    assert!(text.contains(denied), "{text}");
    let wait = text.rsplit(" in ").next().unwrap();
    assert!(wait == "10 min" || wait.starts_with("9 min "), "{text}");
    let object: Value =
        serde_json::from_str(&explain(&server, &[&LOGIN[..], &["--format", "json"]].concat())).expect("JSON");
    let (policy, limit) = (&object["policies"][1], &object["policies"][1]["limits"][0]);
    assert_eq!(object["allowed"], false);
    assert_eq!((&policy["name"], &policy["line"]), (&"login".into(), &14.into()));
    assert!(policy["file"].as_str().is_some_and(|file| file.ends_with("ratekeeper.yaml")), "{policy}");
    assert_eq!(
        (&limit["used"], &limit["remaining"], &limit["reason"]),
        (&10.into(), &0.into(), &"limited".into())
    );
    assert_eq!(object["client"]["hops"], serde_json::json!([{ "ip": "10.0.0.4", "trusted_proxy": 0 }]));
}

#[test]
fn an_explanation_changes_nothing() {
    let server = Server::of(FILE);
    for policy in ["login", "reports", "exports"] {
        server.check(&format!(r#"{{"policy":"{policy}","key":"203.0.113.9"}}"#));
    }
    let seen = || {
        let of = |policy: &str| {
            let mut limit =
                server.operate("GET", &format!("/v1/keys/{policy}/203.0.113.9")).json()["limits"][0].clone();
            // Time goes on.
            for wait in ["reset_after_ms", "retry_after_ms"] {
                limit[wait] = Value::Null;
            }
            limit
        };
        let page = server.operate("GET", "/metrics").body;
        let decisions = page.lines().filter(|line| line.contains("policy=\"")).map(str::to_owned);
        (of("login"), of("reports"), of("exports"), decisions.collect::<Vec<_>>())
    };
    let before = seen();
    assert_eq!(before.0["used"], 1);
    for _ in 0..3 {
        for request in ["POST /login", "GET /reports/x", "GET /export"] {
            explain(&server, &[request, "--ip", "203.0.113.9", "--cost", "1"]);
        }
        explain(&server, &["login", "203.0.113.9"]);
    }
    assert_eq!(seen(), before);
}

#[test]
fn limits_tell_their_arithmetic() {
    let server = Server::of(FILE);
    let take = |body: &str| server.check(body).json()["allowed"].clone();
    assert_eq!(take(r#"{"policy":"sms","key":"u"}"#), true);
    assert_eq!(take(r#"{"policy":"exports","key":"203.0.113.9"}"#), true);
    let text = without_clock(&explain(&server, &["sms", "u"]));
    assert!(
        text.contains(
            "  code    fixed-window 1/day from the first request    count 1 of 1 in the window that ends in "
        ),
        "{text}"
    );
    assert!(
        text.contains("\n          DENIED now: the window ends at ") && text.contains(", so again in "),
        "{text}"
    );
    let text = explain(&server, &["GET /export", "--ip", "203.0.113.9"]);
    assert!(text.contains("0 of 2 waiting, start in "), "{text}");
    assert!(text.contains("\n          ALLOWED now: 1 of 3 left, start in "), "{text}");
    assert_eq!(take(r#"{"policy":"exports","key":"203.0.113.9"}"#), true);
    let text = explain(&server, &["exports", "203.0.113.9"]);
    assert!(text.contains("1 of 2 waiting, start in 20 min"), "{text}");
    assert!(text.contains("\n          DENIED now: a place is free at "), "{text}");
    let (text, _, code) = offline(&["GET /api/x", "--ip", "2001:db8::7", "--cost", "21"]);
    let wanted = "
api       key ip = 2001:db8::/64    override none    store local    on_store_error local    mode enforce    cost 21 as asked
  burst   token-bucket 10/s burst 20    level 0 of 20
          DENIED: it never holds more than 20, so a cost of 21 can never pass
  minute  sliding-window-counter 300/minute    previous 0 \u{d7} ";
    assert!(text.contains(wanted) && text.contains(" + current 0 = 0 of 300\n"), "{text}");
    assert!(text.contains("  tenant  gcra 10/minute    not asked: header x-tenant is absent\n"), "{text}");
    assert_eq!(code, 0);
}

#[test]
fn overrides_actions_and_requests_of_no_policy_are_told() {
    let lines = |arguments: &[&str]| {
        let (stdout, stderr, code) = offline(arguments);
        assert_eq!((stderr.as_str(), code), ("", 0), "{stdout}");
        stdout
    };
    let text = lines(&["GET /api/x", "-H", "X-Api-Key: partner-7"]);
    assert!(
        text.contains("key header:x-api-key = partner-7    override partner-* (ratekeeper.yaml:12)"),
        "{text}"
    );
    assert!(text.contains("sliding-window-counter 3000/minute"), "{text}");
    let text = lines(&["GET /api/x", "--ip", "192.0.2.7"]);
    assert!(text.contains("override 192.0.2.0/24 (ratekeeper.yaml:13)"), "{text}");
    assert!(text.ends_with("          BYPASSED: no limit is asked\n"), "{text}");
    let text = lines(&["GET /closed"]);
    assert!(
        text.contains("key none") && text.ends_with("BLOCKED: refused without asking any limit\n"),
        "{text}"
    );
    let text = lines(&["GET /"]);
    assert!(text.ends_with("no policy applies: the request is allowed\n"), "{text}");
    assert!(text.contains("client    unknown     nobody said where the request came from\n"), "{text}");
    assert!(lines(&["GET /reports/x", "--ip", "192.0.2.7"]).contains("mode shadow\n"));
}

/// Whom requests of these peers and headers are counted for, in words.
fn clients(file: &str, requests: &[(&str, &[&str])]) -> Vec<String> {
    let folder = Folder::new();
    folder.file("ratekeeper.yaml", file);
    let one = |(peer, headers): &(&str, &[&str])| {
        let mut command =
            command(&["explain", "--offline", "--format", "json", "-q", "POST /login", "--peer", peer]);
        for header in *headers {
            command.args(["-H", header]);
        }
        command.current_dir(folder.path());
        let (stdout, stderr, code) = told(&run_command(command, b""));
        assert_eq!((stderr.as_str(), code), ("", 0), "{stdout}");
        let object: Value = serde_json::from_str(&stdout).expect("JSON");
        let login = &object["policies"][1];
        assert_eq!(login["name"], "login");
        login["key"].as_str().map_or_else(|| login["why"].to_string(), str::to_owned)
    };
    requests.iter().map(one).collect()
}

#[test]
fn b110_the_client_is_found_from_the_right_through_trusted_hops_only() {
    let forwarded: Vec<String> =
        (1..=5).map(|n| format!("x-forwarded-for: 198.51.100.{n}, 203.0.113.9")).collect();
    for header in &forwarded {
        assert_eq!(clients(FILE, &[("10.0.0.5", &[header])]), ["ip = 203.0.113.9"]);
    }
    assert_eq!(
        clients(
            FILE,
            &[
                ("203.0.113.50", &["x-forwarded-for: 198.51.100.1"]),
                ("10.0.0.5", &["x-forwarded-for: garbage, 10.0.0.7"]),
                ("10.0.0.5", &[]),
            ]
        ),
        ["ip = 203.0.113.50", "ip = 10.0.0.7", "ip = 10.0.0.5"]
    );
}

#[test]
fn b112_equal_addresses_are_one_key_however_they_are_written() {
    for spelling in ["[2001:db8::1]:443", "2001:db8::1", "2001:DB8:0:0::1"] {
        let header = format!("x-forwarded-for: {spelling}");
        assert_eq!(clients(FILE, &[("10.0.0.5", &[&header])]), ["ip = 2001:db8::/64"], "{spelling}");
    }
    for spelling in ["203.0.113.9:1234", " 203.0.113.9 "] {
        let header = format!("x-forwarded-for: {spelling}");
        assert_eq!(clients(FILE, &[("10.0.0.5", &[&header])]), ["ip = 203.0.113.9"], "{spelling}");
    }
    for name in ["unknown", "_hidden", "203.0.113.9,"] {
        let header = format!("x-forwarded-for: {name}");
        assert_eq!(clients(FILE, &[("10.0.0.5", &[&header])]), ["ip = 10.0.0.5"], "{name}");
    }
    // Lines are read as one, the last of them first.
    let three =
        ["x-forwarded-for: 198.51.100.1", "X-Forwarded-For: 203.0.113.9", "x-forwarded-for: 10.0.0.7"];
    assert_eq!(clients(FILE, &[("10.0.0.5", &three)]), ["ip = 203.0.113.9"]);
    let many = format!("x-forwarded-for: 203.0.113.9{}", ", 10.0.0.7".repeat(199));
    assert_eq!(clients(FILE, &[("10.0.0.5", &[&many])]), ["ip = 10.0.0.7"]);
    let rfc = FILE.replace("[10.0.0.0/8] }", "[10.0.0.0/8], header: forwarded }");
    let header = "Forwarded: for=\"[2001:db8::1]:4711\";proto=https";
    assert_eq!(clients(&rfc, &[("10.0.0.5", &[header])]), ["ip = 2001:db8::/64"]);
}

#[test]
fn b114_b115_ipv4_within_ipv6_is_the_key_of_the_ipv4_address() {
    let peers = [
        ("::ffff:192.0.2.1", "ip = 192.0.2.1"),
        ("::ffff:c000:201", "ip = 192.0.2.1"),
        ("192.0.2.1", "ip = 192.0.2.1"),
        ("::ffff:192.0.2.2", "ip = 192.0.2.2"),
        ("2001:db8:1234:5678::192.0.2.1", "ip = 2001:db8:1234:5678::/64"),
        ("64:ff9b::c000:201", "ip = 192.0.2.1"),
        ("64:ff9b::c000:202", "ip = 192.0.2.2"),
        ("64:ff9b::192.0.2.1", "ip = 192.0.2.1"),
        ("64:ff9b:1::c000:201", "ip = 64:ff9b:1::/64"),
    ];
    for (peer, key) in peers {
        assert_eq!(clients(FILE, &[(peer, &[])]), [key], "{peer}");
    }
}

#[test]
fn what_cannot_be_explained_is_bad_input() {
    for (arguments, why) in [
        (&[][..], "Usage:"),
        (&["login", "192.0.2.1", "--ip", "192.0.2.1"], "`--ip` is of a request"),
        (&["POST /login", "192.0.2.1"], "not both"),
        (&["--attributes", "POST /login", "login"], "not both"),
        (&["GET /../x"], "root"),
        (&["logn", "192.0.2.1"], "there is no policy `logn`"),
        (&["login"], "`key` is missing"),
        (&["POST /login", "--peer", "nobody"], "`peer` is an address"),
        (&["POST /login", "-H", "x-user"], "NAME: VALUE"),
        (&["POST /login", "--ip", "192.0.2.1", "--peer", "192.0.2.1"], "--peer"),
    ] {
        let (stdout, stderr, code) = offline(arguments);
        assert_eq!((stdout.as_str(), code), ("", 2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(why), "{arguments:?}: {stderr}");
    }
}

#[test]
fn the_admin_listener_is_found_by_the_file_and_given_its_token() {
    const TOKEN: &str = "0123456789abcdef";
    let folder = Folder::new();
    let file = folder.file(
        "t.yaml",
        format!("{FILE}listen: {{ admin: {{ address: \"127.0.0.1:0\", token: \"{TOKEN}\" }} }}\n"),
    );
    let file = file.to_str().expect("UTF-8").to_owned();
    let mut serve = command(&["serve", "--http", "127.0.0.1:0", "--config", &file]);
    serve.args(["--admin", "127.0.0.1:0"]);
    let server = Server::spawn(serve);
    let url = format!("http://{}", server.admin);
    let ask = |more: &[&str], token: Option<&str>| {
        let mut command = command(&[&["explain", "login", "192.0.2.1", "--server", &url], more].concat());
        command.envs(token.map(|token| ("RATEKEEPER_ADMIN_TOKEN", token)));
        told(&run_command(command, b""))
    };
    let (_, stderr, code) = ask(&[], None);
    assert!(
        code == 2 && stderr.contains("needs its token") && stderr.contains("RATEKEEPER_ADMIN_TOKEN"),
        "{stderr}"
    );
    assert_eq!(ask(&[], Some(TOKEN)).2, 0);
    assert_eq!(ask(&["--config", &file], None).2, 0);
    assert_eq!(ask(&[], Some("fedcba9876543210")).2, 2);
    // Whoever is asked is found by the file too.
    let other = folder.file(
        "u.yaml",
        format!("version: 1\nlisten: {{ admin: {{ address: \"{}\", token: \"{TOKEN}\" }} }}\n", server.admin),
    );
    let by_file =
        command(&["explain", "login", "192.0.2.1", "-v", "--config", other.to_str().expect("UTF-8")]);
    let (stdout, stderr, code) = told(&run_command(by_file, b""));
    assert_eq!(stderr, format!("asking {url}, from {}\n", other.display()));
    assert!(code == 0 && stdout.contains("named by the caller"), "{stdout}");
}

#[test]
fn who_cannot_be_asked_is_told_of_the_file_alone() {
    let mut server = Server::of(FILE);
    // The listener for callers explains nothing.
    let ask = |url: &str| told(&run_command(command(&["explain", "login", "k", "--server", url]), b""));
    let (stdout, stderr, code) = ask(&format!("http://{}", server.address));
    assert_eq!((stdout.as_str(), code), ("", 2), "{stderr}");
    assert!(stderr.contains("admin listener"), "{stderr}");
    server.signal("TERM");
    server.wait();
    let (stdout, stderr, code) = ask(&format!("http://{}", server.admin));
    assert_eq!((stdout.as_str(), code), ("", 1), "{stderr}");
    assert!(stderr.contains("--offline") && stderr.lines().count() == 1, "{stderr}");
    let folder = Folder::new();
    let file = folder.file("f.yaml", "version: 1\nlisten: {}\n");
    let (_, stderr, code) = told(&run_command(
        command(&["explain", "login", "k", "--config", file.to_str().expect("UTF-8")]),
        b"",
    ));
    assert!(code == 2 && stderr.contains("opens no admin listener"), "{stderr}");
}
