//! Policies that apply to a request, as callers and operators see them.

use std::collections::HashSet;

use crate::support::{Server, request};

/// Requests that somebody might have sent: method, path, client, cost.
fn trace() -> impl Iterator<Item = String> {
    let mut dice = 0x9e37_79b9_7f4a_7c15_u64;
    let mut below = move |n: u64| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        dice % n
    };
    (0..2_000).map(move |_| {
        let (method, path, client, cost) = (below(2), below(3), below(9), 1 + below(3));
        let method = ["GET", "POST"][usize::from(method == 1)];
        format!(
            r#"{{"attributes":{{"method":"{method}","path":"/api/{path}","ip":"203.0.113.{client}"}},"cost":{cost}}}"#
        )
    })
}

fn file(mode: &str) -> String {
    format!(
        "version: 1
policies:
  - name: old
    match: {{ path: \"/api/**\" }}
    key: [ip]
    limits: [{{ name: day, algorithm: fixed-window, limit: 300/day, align: first-request }}]
  - name: new
    match: {{ method: POST, path: \"/api/{{id}}\" }}
    key: [[ip, path:id]]
    mode: {mode}
    limits:
      - {{ name: tokens, algorithm: token-bucket, limit: 20/day, burst: 12 }}
      - {{ name: log, algorithm: sliding-window-log, limit: 15/day }}
"
    )
}

/// What a policy in shadow mode says that it would have refused is what it refuses when it is enforced, on the
/// same trace: it counts only what the others let pass, and nothing that it would have refused.
#[test]
fn a_shadow_policy_counts_what_enforcing_it_would_refuse() {
    let (shadow, enforced) = (Server::of(&file("shadow")), Server::of(&file("enforce")));
    // Where another policy refuses in one world and not in the other, the worlds part. Here they do not: the other
    // policy is asked alone first, and requests that it refuses are left out.
    let (mut refused, mut shown) = (0, 0);
    for body in trace() {
        let by_shadow = shadow.check(&body).json();
        let is_shown = by_shadow["shadow_denied"].as_array().is_some_and(|names| !names.is_empty());
        if by_shadow["allowed"] == false {
            assert!(!is_shown, "{by_shadow}");
            continue;
        }
        let by_enforced = enforced.check(&body).json();
        let is_refused = by_enforced["allowed"] == false && by_enforced["policy"] == "new";
        assert_eq!(is_shown, is_refused, "{body}\n{by_shadow}\n{by_enforced}");
        refused += u32::from(is_refused);
        shown += u32::from(is_shown);
    }
    assert!(refused > 100, "{refused}");
    assert_eq!(refused, shown);
    let count = |server: &Server, decision: &str| -> u32 {
        ["tokens", "log"]
            .iter()
            .map(|limit| {
                let labels = format!("policy=\"new\",limit=\"{limit}\",decision=\"{decision}\"");
                let value = server.metric(&format!("ratekeeper_decisions_total{{{labels}}}"));
                value.parse::<u32>().expect("a number")
            })
            .sum()
    };
    assert_eq!(count(&shadow, "shadow_denied"), refused);
    assert_eq!(count(&enforced, "denied"), refused);
    assert_eq!(count(&shadow, "denied"), 0);
    assert_eq!(count(&shadow, "allowed"), count(&enforced, "allowed"));
}

/// B93r: a refusal by one limit is free in all others, whether they sit in one policy or in two, in either order.
#[test]
fn b93_a_refusal_by_one_policy_is_free_in_the_other() {
    let user = "{ name: user, algorithm: fixed-window, limit: 1/day, align: first-request }";
    let all = "{ name: all, algorithm: fixed-window, limit: 10/day, align: first-request, key: [global] }";
    let one = |limits: &str| {
        format!("  - {{ name: p, key: [header:x-user], missing_key: reject, limits: [{limits}] }}\n")
    };
    let two = |a: &str, b: &str| {
        let policy = |name, limit: &str| {
            format!("  - {{ name: {name}, key: [header:x-user], missing_key: reject, limits: [{limit}] }}\n")
        };
        policy("p", a) + &policy("q", b)
    };
    for policies in
        [one(&format!("{user}, {all}")), one(&format!("{all}, {user}")), two(user, all), two(all, user)]
    {
        let server = Server::of(&format!("version: 1\npolicies:\n{policies}"));
        let ask = |user: &str| {
            let body = format!(r#"{{"attributes":{{"headers":{{"x-user":"{user}"}}}}}}"#);
            server.check(&body).json()
        };
        let allowed = (0..20).filter(|_| ask("u1")["allowed"] == true).count();
        assert_eq!(allowed, 1, "{policies}");
        let second = ask("u2");
        assert_eq!(second["allowed"], true, "{policies}");
        let limits = second["limits"].as_array().expect("a list");
        let global = limits.iter().find(|limit| limit["name"] == "all").expect("it is asked");
        assert_eq!(global["remaining"], 8, "{policies}");
    }
}

/// Policies of one request in different stores are decided together too.
#[test]
fn policies_in_two_stores_are_all_or_nothing() {
    let server = Server::of(
        "version: 1
stores: { a: { memory: { max_keys: 1000 } }, b: { memory: { max_keys: 1000 } } }
policies:
  - { name: p, store: a, key: [ip], limits: [{ name: l, algorithm: fixed-window, limit: 5/day, align: first-request }] }
  - { name: q, store: b, key: [ip], limits: [{ name: l, algorithm: fixed-window, limit: 2/day, align: first-request }] }
",
    );
    let body = r#"{"attributes":{"ip":"203.0.113.9"}}"#;
    let answers: Vec<bool> = (0..4).map(|_| server.check(body).json()["allowed"] == true).collect();
    assert_eq!(answers, [true, true, false, false]);
    let left = |policy: &str| {
        server.operate("GET", &format!("/v1/keys/{policy}/203.0.113.9")).json()["limits"][0]["remaining"]
            .clone()
    };
    assert_eq!((left("p"), left("q")), (3.into(), 0.into()));
    // A reservation takes of both, and gives back to both.
    let held = server.send("POST", "/v1/reserve", r#"{"policy":"p","key":"203.0.113.10","cost":2}"#).json();
    assert_eq!(held["allowed"], true);
    let held = server.send("POST", "/v1/reserve", r#"{"attributes":{"ip":"203.0.113.11"},"cost":2}"#).json();
    let id = held["id"].as_str().expect("an id");
    let ended = server.send("POST", "/v1/refund", &format!(r#"{{"id":"{id}"}}"#)).json();
    assert_eq!(ended["charged"], 0);
    let looked = server.check(r#"{"attributes":{"ip":"203.0.113.11"},"cost":0}"#).json();
    assert_eq!(
        (&looked["limits"][0]["remaining"], &looked["limits"][1]["remaining"]),
        (&5.into(), &2.into())
    );
}

/// B99r: whoever is refused together is told different waits, none of them too short.
#[test]
fn b99_jitter_lengthens_waits_and_never_shortens_them() {
    let file = |jitter: &str| {
        format!(
            "version: 1\npolicies: [{{ name: p, key: [ip], retry_jitter: {jitter}, limits: [{{ name: l, algorithm: fixed-window, limit: 1/day, align: first-request }}] }}]\n"
        )
    };
    let body = br#"{"policy":"p","key":"203.0.113.9"}"#;
    let waits = |server: &Server| -> Vec<u64> {
        let mut connection = server.connect();
        (0..500)
            .map(|_| {
                connection.send(&request("POST", "/v1/check", "prefer: status=429\r\n", body));
                let answer = connection.response();
                assert_eq!(answer.status, 429);
                crate::fields::check(&answer);
                answer.header("retry-after").expect("it is there").parse().expect("seconds")
            })
            .collect()
    };
    let plain = Server::of(&file("0"));
    assert_eq!(plain.check(str::from_utf8(body).expect("text")).json()["allowed"], true);
    assert!(waits(&plain).iter().all(|wait| (86_300..=86_400).contains(wait)));
    let spread = Server::of(&file("0.2"));
    assert_eq!(spread.check(str::from_utf8(body).expect("text")).json()["allowed"], true);
    let waits = waits(&spread);
    assert!(waits.iter().all(|wait| (86_300..=103_680).contains(wait)), "{waits:?}");
    let distinct: HashSet<&u64> = waits.iter().collect();
    assert!(distinct.len() > 100, "{}", distinct.len());
    assert!(waits.iter().any(|wait| *wait < 88_000) && waits.iter().any(|wait| *wait > 102_000));
    // The object of a check says the wait itself.
    let exact = spread.check(str::from_utf8(body).expect("text")).json()["retry_after_ms"].as_u64();
    assert!(exact.is_some_and(|wait| wait <= 86_400_000), "{exact:?}");
}

/// B118: by default no key is in view, whatever happens to it.
#[test]
fn b118_keys_are_whole_and_in_no_output() {
    let mut server = Server::of(
        "version: 1
policies:
  - name: p
    key: [header:x-api-key]
    missing_key: reject
    limits: [{ name: l, algorithm: fixed-window, limit: 1/day, align: first-request }]
    overrides: [{ key: live_aaaaaaaaaa3, action: block }]
  - name: s
    key: [header:x-api-key]
    missing_key: skip
    mode: shadow
    limits: [{ name: l, algorithm: fixed-window, limit: 1/day, align: first-request }]
",
    );
    let ask = |key: &str| {
        let body =
            format!(r#"{{"attributes":{{"path":"/p?secret={key}","headers":{{"x-api-key":"{key}"}}}}}}"#);
        server.check(&body).json()
    };
    let keys = ["live_aaaaaaaaaa1", "live_aaaaaaaaaa2", "live_aaaaaaaaaa3"];
    let first: Vec<bool> = keys.iter().map(|key| ask(key)["allowed"] == true).collect();
    assert_eq!(first, [true, true, false], "two buckets, and one that is blocked");
    assert!(keys.iter().all(|key| ask(key)["allowed"] == false));
    let page = server.operate("GET", "/metrics").body;
    server.signal("TERM");
    let log = server.wait().1;
    assert!(log.contains("denied") && log.contains("reason=blocked"), "{log}");
    for text in [&page, &log] {
        assert!(!text.contains("live_aaaaaaaaaa"), "{text}");
    }
}

/// B135: who watches the server is never limited by it.
#[test]
fn b135_probes_and_metrics_are_not_limited() {
    let server = Server::of(
        "version: 1\npolicies: [{ name: p, key: [global], limits: [{ name: l, algorithm: fixed-window, limit: 1/day }] }]\n",
    );
    for _ in 0..60 {
        for path in ["/livez", "/readyz"] {
            assert_eq!(server.send("GET", path, "").status, 200);
        }
        assert_eq!(server.operate("GET", "/metrics").status, 200);
    }
}

/// B126r: a page of an allowed origin can ask, read a refusal and when to come back; no other page can.
#[test]
fn b126_browsers_can_read_a_refusal() {
    let file = "version: 1
cors: { allow_origins: [\"https://app.example\"] }
policies: [{ name: p, key: [ip], limits: [{ name: l, algorithm: fixed-window, limit: 1/day, align: first-request }] }]
";
    let server = Server::of(file);
    let mut connection = server.connect();
    let mut ask = |method: &str, headers: &str, body: &str| {
        connection.send(&request(method, "/v1/check", headers, body.as_bytes()));
        connection.response()
    };
    let body = r#"{"policy":"p","key":"k"}"#;
    let json = "content-type: application/json\r\nprefer: status=429\r\n";
    let of = |origin: &str| format!("origin: {origin}\r\n");
    let preflight =
        "access-control-request-method: POST\r\naccess-control-request-headers: content-type, prefer\r\n";
    for _ in 0..3 {
        // They ask first, and are counted for nothing.
        let leave = ask("OPTIONS", &(of("https://app.example") + preflight), "");
        assert_eq!(
            (leave.status, leave.header("access-control-allow-origin")),
            (204, Some("https://app.example"))
        );
        assert_eq!(leave.header("access-control-allow-methods"), Some("GET, HEAD, POST"));
        assert_eq!(leave.header("access-control-allow-headers"), Some("content-type, prefer"));
        assert_eq!(leave.header("vary"), Some("Origin"));
    }
    let first = ask("POST", &(of("https://app.example") + json), body);
    assert_eq!(
        (first.status, first.header("access-control-allow-origin")),
        (200, Some("https://app.example"))
    );
    let refused = ask("POST", &(of("https://app.example") + json), body);
    assert_eq!(
        (refused.status, refused.header("access-control-allow-origin")),
        (429, Some("https://app.example"))
    );
    let exposed = refused.header("access-control-expose-headers").expect("it is there");
    for name in ["Retry-After", "RateLimit", "RateLimit-Policy"] {
        assert!(exposed.split(", ").any(|other| other == name), "{exposed}");
    }
    assert_eq!(refused.header("vary"), Some("Origin"));
    // Other pages get no leave, and nothing that lets them read.
    for origin in ["https://evil.example", "https://app.example.evil", "null"] {
        let answer = ask("OPTIONS", &(of(origin) + preflight), "");
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (405, None), "{origin}");
        let answer = ask("POST", &(of(origin) + json), body);
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (429, None), "{origin}");
    }
    let without = Server::of(&file.replace("cors:", "# cors:"));
    let mut connection = without.connect();
    connection.send(&request("OPTIONS", "/v1/check", &(of("https://app.example") + preflight), b""));
    let answer = connection.response();
    assert_eq!((answer.status, answer.header("vary")), (405, None));
}

/// The decisions of a policy without a limit: denied, bypassed, shadow_denied.
fn acted(server: &Server, policy: &str) -> [String; 3] {
    ["denied", "bypassed", "shadow_denied"].map(|decision| {
        let labels = format!("policy=\"{policy}\",limit=\"\",decision=\"{decision}\"");
        server.metric(&format!("ratekeeper_decisions_total{{{labels}}}"))
    })
}

/// Of a request that is blocked those count it that block it, and one line tells of it. What a policy in shadow mode
/// would do without asking a limit is counted, told and refuses nobody; looks are none of it.
#[test]
fn actions_are_counted_by_those_that_act_and_told_once() {
    let mut server = Server::of(
        "version: 1
policies:
  - { name: health, match: { path: \"/**\" }, action: bypass }
  - { name: one, match: { path: \"/admin/**\" }, action: block }
  - { name: two, match: { path: \"/admin/x\" }, action: block }
  - { name: soon, match: { path: \"/**\" }, mode: shadow, action: block }
  - { name: free, match: { path: \"/**\" }, mode: shadow, action: bypass }
  - { name: late, match: { path: /late }, key: [ip], mode: shadow, limits: [{ name: l, algorithm: fixed-window, limit: 1/day, align: first-request }] }
",
    );
    let ask = |path: &str, more: &str| {
        let body = format!(r#"{{"attributes":{{"method":"PUT","path":"{path}","ip":"203.0.113.9"}}{more}}}"#);
        server.check(&body).json()
    };
    let blocked = ask("/admin/x", "");
    assert_eq!((&blocked["reason"], &blocked["policy"]), (&"blocked".into(), &"one".into()));
    assert_eq!(blocked["shadow_denied"], serde_json::json!([]));
    let passed = ask("/late", "");
    assert_eq!((&passed["allowed"], &passed["policy"]), (&true.into(), &"health".into()));
    assert_eq!(passed["shadow_denied"], serde_json::json!(["soon"]));
    assert_eq!(ask("/late", "")["shadow_denied"], serde_json::json!(["soon", "late.l"]));
    assert_eq!(ask("/late", r#","peek":true"#)["shadow_denied"], serde_json::json!(["soon", "late.l"]));
    for (policy, counts) in [
        ("health", ["0", "2", "0"]),
        ("one", ["1", "0", "0"]),
        ("two", ["1", "0", "0"]),
        ("soon", ["0", "0", "2"]),
        ("free", ["0", "2", "0"]),
    ] {
        assert_eq!(acted(&server, policy), counts, "{policy}");
    }
    server.signal("TERM");
    let log = server.wait().1;
    let told: Vec<String> = log
        .lines()
        .filter(|line| line.contains("denied policy="))
        .map(|line| {
            let mut words = line.split(' ').skip(2);
            let event = words.next().unwrap_or_default().to_owned();
            let text = |name: &str| words.clone().find_map(|word| word.strip_prefix(name)).unwrap_or("-");
            let texts = ["policy=", "mode=", "reason=", "method=", "path="].map(text).join(" ");
            event + " " + &texts
        })
        .collect();
    assert_eq!(
        told,
        [
            "denied one enforce blocked PUT /admin/x",
            "shadow_denied soon shadow blocked PUT /late",
            "shadow_denied soon shadow blocked PUT /late",
            "shadow_denied late shadow limited PUT /late",
        ],
        "{log}"
    );
}

/// A policy that only shows itself is not whose answer it is, if another has acted.
#[test]
fn an_answer_is_by_a_policy_that_is_enforced_if_there_is_one() {
    let server = Server::of(
        "version: 1
policies:
  - { name: shown, match: { path: \"/**\" }, mode: shadow, action: bypass }
  - { name: health, match: { path: /healthz }, action: bypass }
",
    );
    let by = |path: &str| {
        server.check(&format!(r#"{{"attributes":{{"path":"{path}"}}}}"#)).json()["policy"].clone()
    };
    assert_eq!((by("/healthz"), by("/")), ("health".into(), "shown".into()));
}

/// Each store that a request met has its time counted, once a decision.
#[test]
fn a_decision_over_two_stores_is_timed_in_both() {
    let server = Server::of(
        "version: 1
stores: { a: { memory: { max_keys: 1000 } }, b: { memory: { max_keys: 1000 } }, c: { memory: { max_keys: 10 } } }
policies:
  - { name: p, store: a, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 9/s }, { name: m, algorithm: gcra, limit: 9/s }] }
  - { name: q, store: b, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 9/s }] }
",
    );
    let body = r#"{"attributes":{"ip":"203.0.113.9"}}"#;
    assert_eq!(server.check(body).json()["allowed"], true);
    assert_eq!(server.send("POST", "/v1/reserve", body).json()["allowed"], true);
    let timed = ["a", "b", "c"].map(|store| {
        server.metric(&format!("ratekeeper_decision_duration_seconds_count{{store=\"{store}\"}}"))
    });
    assert_eq!(timed, ["2", "2", "0"]);
}

/// Each policy says for itself which fields it wants, and in which words; a 429 has all of them.
#[test]
fn fields_are_of_the_policies_that_want_them() {
    let server = Server::of(
        "version: 1
policies:
  - { name: quiet, key: [ip], headers: [], limits: [{ name: l, algorithm: fixed-window, limit: 2/day, align: first-request }] }
  - { name: plain, key: [ip], limits: [{ name: l, algorithm: fixed-window, limit: 3/day, align: first-request }] }
  - { name: both, key: [ip], ratelimit_dialect: both, limits: [{ name: l, algorithm: fixed-window, limit: 2/day, align: first-request }] }
",
    );
    let mut connection = server.connect();
    let mut ask = |prefer: &str| {
        connection.send(&request("POST", "/v1/check", prefer, br#"{"attributes":{"ip":"203.0.113.9"}}"#));
        let answer = connection.response();
        crate::fields::check(&answer);
        let told = |name: &str| {
            let items = crate::fields::items(answer.header(name).unwrap_or_default());
            let item = |item: crate::fields::Item| (item.name, item.parameters.len());
            items.into_iter().map(item).collect::<Vec<_>>()
        };
        (answer.status, told("ratelimit-policy"), told("ratelimit"))
    };
    let of = |names: &[(&str, usize)]| -> Vec<(String, usize)> {
        names.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    };
    let wanting = of(&[("plain.l", 2), ("both.l", 2)]);
    assert_eq!(ask(""), (200, wanting.clone(), of(&[("plain.l", 2), ("both.l", 4)])));
    ask("");
    // Refused by two, one of which says nothing of itself.
    assert_eq!(ask(""), (200, wanting, of(&[("both.l", 4)])));
    let all = of(&[("quiet.l", 2), ("plain.l", 2), ("both.l", 2)]);
    assert_eq!(ask("prefer: status=429\r\n"), (429, all, of(&[("quiet.l", 2), ("both.l", 4)])));
}

/// Who reads the object of a check learns the wait itself, also in the fields beside it.
#[test]
fn a_wait_is_lengthened_only_where_the_refusal_is_the_status() {
    let server = Server::of(
        "version: 1\npolicies: [{ name: p, key: [ip], retry_jitter: 1, limits: [{ name: l, algorithm: fixed-window, limit: 1/day, align: first-request }] }]\n",
    );
    let body = r#"{"policy":"p","key":"k"}"#;
    assert_eq!(server.check(body).json()["allowed"], true);
    for _ in 0..50 {
        let answer = server.check(body);
        let items = crate::fields::items(answer.header("ratelimit").expect("it is there"));
        assert!(items[0].number("t") <= Some(86_400), "{answer:?}");
    }
}
