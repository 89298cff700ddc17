//! Another configuration while serving: what is taken, what stays, and that nothing is lost on the way.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Connection, Folder, RATEKEEPER, Response, Server, command, post, request, run, told};

/// A configuration of policy `p` with one limit.
fn file(limit: &str) -> String {
    format!("version: 1\npolicies: [{{ name: p, key: [ip], limits: [{{ name: l, {limit} }}] }}]\n")
}

const ASK: &str = r#"{"policy":"p","key":"k"}"#;

impl Server {
    /// Replaces the file and has it read; what was lost by that.
    #[track_caller]
    fn reload(&self, config: &str) -> Vec<String> {
        self.replace(config);
        let answer = self.operate("POST", "/v1/reload");
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (200, Some("application/json")),
            "{answer:?}"
        );
        let answer = answer.json();
        assert_eq!(answer["sha"], self.policies()["sha"]);
        let notes = answer.get("notes").and_then(Value::as_array).cloned().unwrap_or_default();
        notes.iter().map(|note| note.as_str().expect("a text").to_owned()).collect()
    }

    fn policies(&self) -> Value {
        self.operate("GET", "/v1/policies").json()
    }

    pub(crate) fn metric(&self, name: &str) -> String {
        let page = self.operate("GET", "/metrics").body;
        let line = page.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.rsplit(' ').next())
            .unwrap_or_else(|| panic!("no {name}: {page}"))
            .to_owned()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.read_line(&mut line);
        line
    }

    fn ask(&self) -> Value {
        self.check(ASK).json()
    }

    fn verbose(&self) -> String {
        let answer = self.operate("GET", "/readyz?verbose");
        assert_eq!(answer.status, 200);
        answer.body
    }
}

#[test]
fn a_raised_limit_takes_hold_at_once_and_a_cut_one_lets_no_more_through() {
    // B102
    let server = Server::of(&file("algorithm: gcra, limit: 1 per 100s"));
    assert_eq!(server.ask()["allowed"], true);
    assert!(server.ask()["retry_after_ms"].as_u64() > Some(10_000));
    assert_eq!(server.reload(&file("algorithm: gcra, limit: 1 per 10s")), [""; 0]);
    let answer = server.ask();
    assert_eq!(answer["allowed"], false);
    let wait = answer["retry_after_ms"].as_u64().expect("a number");
    assert!((1..=10_000).contains(&wait), "{wait}");
    // Whoever was refused is let in after the wait that it was told, and not after that of the limit before.
    assert_eq!(server.reload(&file("algorithm: gcra, limit: 1/s")), [""; 0]);
    let wait = server.ask()["retry_after_ms"].as_u64().expect("a number");
    assert!((1..=1_000).contains(&wait), "{wait}");
    // The server has the real clock, and has promised something about it.
    std::thread::sleep(Duration::from_millis(wait));
    assert_eq!(server.ask()["allowed"], true);

    let server = Server::of(&file("algorithm: token-bucket, limit: 10/day, burst: 20"));
    assert_eq!(server.reload(&file("algorithm: token-bucket, limit: 10/day, burst: 5")), [""; 0]);
    let allowed = (0..20).filter(|_| server.ask()["allowed"] == true).count();
    assert_eq!(allowed, 5);
    assert_eq!(server.ask()["remaining"], 0);
}

#[test]
fn looking_after_a_reload_sees_what_was_used_and_never_less_than_nothing() {
    // B103
    let of = |n: u32| file(&format!("algorithm: fixed-window, limit: {n}/day, align: first-request"));
    let server = Server::of(&of(5));
    let used = |n| (0..n).for_each(|_| assert_eq!(server.ask()["allowed"], true));
    let seen = || server.operate("GET", "/v1/keys/p/k").json()["limits"][0].clone();
    used(5);
    assert_eq!(server.ask()["allowed"], false);
    server.reload(&of(10));
    used(3);
    assert_eq!((&seen()["used"], &seen()["remaining"]), (&8.into(), &2.into()));
    server.reload(&of(3));
    assert_eq!((&seen()["capacity"], &seen()["remaining"]), (&3.into(), &0.into()));
    assert_eq!(server.ask()["allowed"], false);
    assert_eq!(server.policies()["policies"][0]["limits"][0]["limit"], "3/day");
    assert_eq!(
        server.metric("ratekeeper_decisions_total{policy=\"p\",limit=\"l\",decision=\"allowed\"}"),
        "8"
    );
    server.reload(&of(10));
    used(2);
    assert_eq!(server.ask()["allowed"], false, "what was used before the cut is not forgotten by it");
}

/// Ways to break a file, and the place where that is said.
fn broken(good: &str) -> [(String, &'static str); 6] {
    [
        (good.replace("[ip]", "[ip"), "yaml-syntax"),
        (good.replace("name: p", "name: ''"), "empty"),
        (good.replace("algorithm", "algoritm"), "unknown-field"),
        (good.replace("name: p", "name: 7"), "wrong-type"),
        (
            good.replace(
                "policies: [",
                "policies: [{ name: p, key: [ip], limits: [{ name: a, algorithm: gcra, limit: 1/s }] }, ",
            ),
            "duplicate-name",
        ),
        (String::new(), "file-empty"),
    ]
}

/// A broken file is not taken, whoever had it read: `trigger` does. One line says so.
fn changes_nothing(broken: &str, code: &str, trigger: &dyn Fn(&Server)) {
    let good = file("algorithm: fixed-window, limit: 5/day, align: first-request");
    let mut server = Server::of(&good);
    assert_eq!(server.ask()["remaining"], 4);
    let before = server.policies();
    server.replace(broken);
    trigger(&server);
    let line = server.line();
    assert!(line.contains(" error reload_failed file="), "{code}: {line}");
    assert!(line.contains(&format!(" code={code} ")), "{code}: {line}");
    assert!(line.contains(" sha=") && line.contains(" line=") && line.contains(" column="), "{code}: {line}");
    assert_eq!(server.policies(), before, "{code}");
    assert_eq!(server.ask()["remaining"], 3, "{code}");
    assert_eq!(server.metric("ratekeeper_config_last_reload_success"), "0", "{code}");
    let sha = before["sha"].as_str().expect("a text");
    let verbose = server.verbose();
    assert!(verbose.starts_with(&format!("ready\nconfiguration {sha} since 2")), "{verbose}");
    assert!(
        verbose.contains("\nlast reload failed at 2") && verbose.contains("ratekeeper.yaml:"),
        "{verbose}"
    );

    // Whoever calls is told all of it, in the words of `validate`.
    let answer = server.operate("POST", "/v1/reload");
    assert_eq!((answer.status, answer.header("content-type")), (422, Some("application/json")), "{code}");
    let file = server.file();
    let (said, ..) = told(&run(&["validate", "--format", "json", file.to_str().expect("UTF-8")], ""));
    assert_eq!(answer.body, said.trim_end());
    assert!(answer.json()["errors"].as_array().expect("a list").iter().any(|error| error["code"] == code));
    assert!(server.line().contains(" error reload_failed "));

    let next = good.replace("5/day", "6/day");
    server.replace(&next);
    trigger(&server);
    assert!(server.line().contains(" info reload file="), "{code}");
    assert_eq!(server.ask()["remaining"], 3, "{code}: two of six are used");
    assert_eq!(server.metric("ratekeeper_config_last_reload_success"), "1", "{code}");
    assert_eq!(server.verbose().lines().count(), 2, "{code}");
    let sha = server.policies()["sha"].as_str().expect("a text").to_owned();
    assert_eq!(server.metric(&format!("ratekeeper_config_info{{sha=\"{sha}\"}}")), "1");
    assert!(server.verbose().contains(&sha));
}

#[test]
fn a_broken_file_changes_nothing_however_it_is_read() {
    // B104. All beside one another: it takes the server a few seconds to see a change by itself.
    let files = broken(&file("algorithm: fixed-window, limit: 5/day, align: first-request"));
    let triggers: [&(dyn Fn(&Server) + Sync); 3] = [
        &|server| server.signal("HUP"),
        &|server| drop(server.operate("POST", "/v1/reload")),
        &|_| {}, // It looks by itself.
    ];
    std::thread::scope(|scope| {
        for (broken, code) in &files {
            for trigger in triggers {
                scope.spawn(move || changes_nothing(broken, code, trigger));
            }
        }
    });
}

#[cfg(unix)]
#[test]
fn a_symlink_that_is_swapped_is_followed_and_what_is_broken_is_said_once() {
    // B104b, as Kubernetes mounts a ConfigMap: the file is a link through a link that is exchanged.
    use std::os::unix::fs::symlink;
    let folder = Folder::new();
    let version = |name: &str, content: &str| {
        std::fs::create_dir(folder.path().join(name)).expect("a folder");
        folder.file(&format!("{name}/ratekeeper.yaml"), content);
    };
    let swap = |name: &str| {
        let link = folder.path().join("..tmp");
        symlink(name, &link).expect("a link");
        std::fs::rename(link, folder.path().join("..data")).expect("it is exchanged");
    };
    let good = file("algorithm: fixed-window, limit: 5/day, align: first-request");
    version("..1", &good);
    version("..2", &good.replace("limits", "limit"));
    version("..3", &good.replace("5/day", "7/day"));
    swap("..1");
    symlink("..data/ratekeeper.yaml", folder.path().join("ratekeeper.yaml")).expect("a link");
    let path = folder.path().join("ratekeeper.yaml");
    let mut server = Server::start(&["serve", "--config", path.to_str().expect("UTF-8")], None);
    assert_eq!(server.ask()["remaining"], 4);
    swap("..2");
    assert!(server.line().contains(" error reload_failed "));
    swap("..3");
    let line = server.line();
    assert!(line.contains(" info reload "), "nothing is said in between: {line}");
    assert_eq!(server.ask()["remaining"], 5);
    drop(folder);
}

#[test]
fn a_reservation_is_settled_though_its_policy_has_gone() {
    let both = "version: 1\npolicies:\n  - { name: p, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 1/day }] }\n  - { name: llm, key: [ip], limits: [{ name: t, algorithm: token-bucket, limit: 1000/day, burst: 1000 }] }\n";
    let server = Server::of(both);
    let send = |path: &str, body: &str| -> Response {
        let mut connection = server.connect();
        connection.send(&request("POST", path, "", body.as_bytes()));
        connection.response()
    };
    let held = send("/v1/reserve", r#"{"policy":"llm","key":"k","cost":800}"#).json();
    let id = held["id"].as_str().expect("an id").to_owned();
    server.reload(&file("algorithm: gcra, limit: 1/day"));
    assert_eq!(send("/v1/check", r#"{"policy":"llm","key":"k"}"#).status, 404);
    let ended = send("/v1/settle", &format!(r#"{{"id":"{id}","cost":100}}"#)).json();
    assert_eq!((&ended["policy"], &ended["charged"]), (&"llm".into(), &100.into()));
    server.reload(both);
    let seen = server.operate("GET", "/v1/keys/llm/k").json();
    assert_eq!(seen["limits"][0]["used"], 100);
}

#[test]
fn counts_that_are_lost_are_said_in_the_answer_and_in_the_log() {
    let of = |stores: &str, store: &str, algorithm: &str| {
        format!(
            "version: 1\nstores: {{ {stores} }}\npolicies:\n  - name: p\n    store: {store}\n    key: [ip]\n    limits: [{{ name: l, algorithm: {algorithm}, limit: 5/day }}]\n"
        )
    };
    let small = "a: { memory: { max_keys: 1000 } }, b: { memory: { max_keys: 10 } }";
    let large = "a: { memory: { max_keys: 2000 } }, b: { memory: { max_keys: 10 } }";
    let mut server = Server::of(&of(small, "a", "gcra"));
    for (config, lost) in [
        (of(large, "a", "gcra"), "store `a` was resized: its counts begin anew"),
        (of(large, "b", "gcra"), "policy `p` is on store `b` now: its counts begin anew"),
        (of(large, "b", "token-bucket"), "limit `p.l` has another algorithm: its counts begin anew"),
        (
            of("b: { memory: { max_keys: 10 } }", "b", "token-bucket"),
            "store `a` is gone, and its counts with it",
        ),
    ] {
        let before = server.ask()["remaining"].as_u64().expect("a number");
        assert_eq!(server.reload(&config), [lost]);
        let after = server.ask()["remaining"].as_u64().expect("a number");
        let kept = lost.contains("is gone");
        assert_eq!(after, if kept { before - 1 } else { 4 }, "{lost}");
        let line = server.line();
        let said = if line.contains(" info denied ") { server.line() } else { line };
        assert!(said.contains(" warn reload ") && said.contains(lost), "{said}");
    }
}

#[test]
fn counts_of_keys_that_change_are_said_to_begin_anew() {
    let of = |prefix: u8, key: &str, own: &str| {
        format!(
            "version: 1
client_ip: {{ ipv6_prefix: {prefix} }}
policies:
  - name: p
    key: [{key}]
    limits:
      - {{ name: l, algorithm: gcra, limit: 5/day, burst: 5 }}
      - {{ name: m, algorithm: gcra, limit: 5/day, burst: 5 }}
      - {{ name: own, algorithm: gcra, limit: 5/day, burst: 5, key: [{own}] }}
"
        )
    };
    let server = Server::of(&of(64, "ip", "header:x-a"));
    for (config, lost) in [
        (
            of(64, "'header:x-user', ip", "header:x-a"),
            vec!["policy `p` has another `key`: counts of other keys begin anew"],
        ),
        (
            of(64, "'header:x-user', ip", "header:x-b"),
            vec!["limit `p.own` has another `key`: counts of other keys begin anew"],
        ),
        (
            of(48, "'header:x-user', ip", "header:x-b"),
            vec!["IPv6 clients are told apart by /48 now (client_ip.ipv6_prefix): their counts begin anew"],
        ),
        (
            of(48, "'header:x-user'", "header:x-b"),
            vec!["policy `p` has another `key`: counts of other keys begin anew"],
        ),
        // Nobody counts by addresses.
        (of(64, "'header:x-user'", "header:x-b"), vec![]),
    ] {
        // Beside what the file is warned of.
        let mut notes = server.reload(&config);
        notes.retain(|note| note.ends_with("begin anew"));
        assert_eq!(notes, lost);
    }
}

#[test]
fn what_waits_for_a_restart_is_named_and_the_rest_is_taken() {
    let limits = "policies: [{ name: p, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 1/day, burst: BURST }] }]\n";
    let folder = Folder::new();
    let start = format!("version: 1\nlisten: {{ http: 127.0.0.1:0, admin: 127.0.0.1:0 }}\n{limits}");
    let path = folder.file("ratekeeper.yaml", start.replace("BURST", "1"));
    let server =
        Server::spawn(command(&["serve", "--config", path.to_str().expect("UTF-8")])).keeping(folder);
    let next = format!(
        "version: 1\nlisten: {{ http: {{ address: '127.0.0.1:1', max_connections: 7 }}, admin: {{ address: '127.0.0.1:0', token: 0123456789abcdef }} }}\n{limits}"
    );
    let waits = "waits for a restart: listen.http.address, listen.http.max_connections, listen.admin.token";
    for burst in ["3", "4"] {
        // Also the second time: it has not happened yet.
        assert_eq!(server.reload(&next.replace("BURST", burst)), [waits]);
        assert_eq!(server.ask()["limits"][0]["capacity"].to_string(), burst);
    }
}

/// Keys of customers are in the file, and may be in what is wrong with it: callers see where that is, and no more.
#[test]
fn what_a_file_says_of_keys_is_for_operators_alone() {
    let good = "version: 1
policies:
  - name: p
    key: [header:x-api-key]
    limits: [{ name: l, algorithm: gcra, limit: 1/day }]
    overrides:
      - { key: live_aaaaaaaaaa1, action: block }
      - { key: 'live_aaaaaaaaaa2*', action: bypass }
";
    let server = Server::of(good);
    let public = server.send("GET", "/v1/policies", "").json();
    let full = server.policies();
    assert_eq!(public["policies"][0]["overrides"], 2);
    assert_eq!(full["policies"][0]["overrides"][0]["key"], "live_aaaaaaaaaa1");
    assert_eq!(
        (&public["sha"], &public["policies"][0]["limits"]),
        (&full["sha"], &full["policies"][0]["limits"])
    );

    server.replace(&good.replace("action: block", "action: live_aaaaaaaaaa3"));
    assert_eq!(server.operate("POST", "/v1/reload").status, 422);
    assert!(server.verbose().contains("ratekeeper.yaml:7:") && server.verbose().contains("live_aaaaaaaaaa3"));
    let ask = |at: &str, headers: &str| {
        let mut connection = Connection::open(at);
        connection.send(&request("GET", "/readyz?verbose", headers, b""));
        connection.response()
    };
    // A web page is no operator.
    for (at, headers) in [(&server.address, ""), (&server.admin, "origin: https://example.org\r\n")] {
        let said = ask(at, headers);
        assert_eq!(said.status, 200);
        let lines: Vec<&str> = said.body.lines().collect();
        assert!(lines[2].starts_with("last reload failed at 2"), "{lines:?}");
        assert_eq!(lines[3..], ["  7:42: unknown-word"]);
    }
    std::fs::remove_file(server.file()).expect("it is there");
    server.operate("POST", "/v1/reload");
    assert!(ask(&server.address, "").body.ends_with("\n  unreadable\n"));
}

#[test]
fn settings_of_the_log_hold_from_the_reload_on() {
    let good = file("algorithm: gcra, limit: 1/day");
    let mut server = Server::of(&good);
    server.reload(&format!("{good}log: {{ format: json, keys: plain }}\n"));
    let line: Value = serde_json::from_str(&server.line()).expect("JSON");
    assert_eq!((&line["event"], &line["policies"]), (&"reload".into(), &1.into()));
    assert_eq!(line["sha"], server.policies()["sha"]);
    assert_eq!((&server.ask()["allowed"], &server.ask()["allowed"]), (&true.into(), &false.into()));
    let line: Value = serde_json::from_str(&server.line()).expect("JSON");
    assert_eq!((&line["event"], &line["key"]), (&"denied".into(), &"ip=k".into()));
}

/// A pipe in the place of the file would be waited for, and every reload after it (a network mount that hangs is not seen).
#[test]
fn what_is_no_regular_file_is_refused_and_the_next_one_is_read() {
    let server = Server::of(&file("algorithm: gcra, limit: 1/day"));
    std::fs::remove_file(server.file()).expect("it is there");
    assert!(Command::new("mkfifo").arg(server.file()).status().expect("mkfifo runs").success());
    let refused = server.operate("POST", "/v1/reload");
    assert_eq!(refused.status, 422, "{refused:?}");
    assert!(refused.body.contains("no regular file"), "{refused:?}");
    std::fs::remove_file(server.file()).expect("it is there");
    server.reload(&file("algorithm: gcra, limit: 2/day"));
}

#[test]
fn a_file_that_has_gone_is_said_and_nothing_else_happens() {
    let server = Server::of(&file("algorithm: gcra, limit: 1/day"));
    std::fs::remove_file(server.file()).expect("it is there");
    let answer = server.operate("POST", "/v1/reload");
    assert_eq!(
        (answer.status, &answer.json()["errors"][0]["code"]),
        (422, &"unreadable".into()),
        "{answer:?}"
    );
    assert_eq!(server.ask()["allowed"], true);
    assert!(server.verbose().contains("cannot read"), "{}", server.verbose());
}

#[test]
fn stdin_cannot_be_read_again_and_that_is_said() {
    let folder = Folder::new();
    let path = folder.file("ratekeeper.yaml", file("algorithm: gcra, limit: 1/day"));
    let mut shell = Command::new("sh");
    let script = "exec \"$0\" serve --config - --http 127.0.0.1:0 --admin 127.0.0.1:0 < \"$1\"";
    shell.arg("-c").arg(script).arg(RATEKEEPER).arg(path);
    let mut server = Server::spawn(shell);
    let answer = server.operate("POST", "/v1/reload");
    assert_eq!(answer.status, 422);
    let error = answer.json()["errors"][0].clone();
    assert_eq!(error["file"], "<stdin>");
    assert_eq!(error["message"], "the configuration came from stdin and cannot be reloaded");
    assert!(server.line().contains(
        " error reload_failed file=<stdin> code=unreadable message=\"the configuration came from stdin"
    ));
    assert_eq!(server.ask()["allowed"], true);
}

#[test]
fn fifty_reloads_under_load_fail_no_request_and_admit_exactly_the_limit() {
    const LIMIT: u64 = 20_000;
    const CLIENTS: u64 = 4;
    let version = |n: u32| {
        let limit = format!("algorithm: fixed-window, limit: {LIMIT}/day, align: first-request");
        format!("# version {n}\n{}", file(&limit))
    };
    let server = Server::of(&version(0));
    let allowed: u64 = std::thread::scope(|scope| {
        let client = || {
            let mut connection = server.connect();
            let mut allowed = 0;
            // Half again as many as are admitted, some alone and some in one read.
            for round in 0..LIMIT * 3 / 2 / CLIENTS / 5 {
                let sizes: &[usize] = if round % 2 == 0 { &[1; 5] } else { &[5] };
                for size in sizes {
                    connection.send(&post(ASK).repeat(*size));
                    for _ in 0..*size {
                        let answer = connection.response();
                        assert_eq!(answer.status, 200, "{answer:?}");
                        allowed += u64::from(answer.json()["allowed"] == true);
                    }
                }
            }
            allowed
        };
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(client)).collect();
        for n in 1..=50 {
            assert_eq!(server.reload(&version(n)), [""; 0]);
        }
        clients.into_iter().map(|client| client.join().expect("no request fails")).sum()
    });
    assert_eq!(allowed, LIMIT);
    assert_eq!(server.operate("GET", "/v1/keys/p/k").json()["limits"][0]["used"], LIMIT);
}
