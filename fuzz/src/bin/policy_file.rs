//! Configuration files: whatever they say, nothing panics, each mistake has a place within the file, and policies that can be
//! used can be planned.
//!
//! A file that begins with a zero byte is built: each byte behind it takes a line of a table, deeper or less deep than the one before, so
//! that most of it is YAML and much of it means something.
#![no_main]

use std::net::Ipv4Addr;

use libfuzzer_sys::fuzz_target;
use ratekeeper_policy::{Config, ConfigError, Facts, MAX_ERRORS, Request, Source};

fuzz_target!(|data: &[u8]| {
    match data.split_first() {
        Some((0, choices)) => read(&built(choices)),
        _ => read(data),
    }
});

/// Where a policy begins in [`built`].
const POLICY: &str = "  - name: p";

/// Pieces of lines that stand below a policy, with what follows them taken from the next byte.
const FIELDS: [&str; 26] = [
    "    key: [",
    "    limits: [{ name: a, algorithm: gcra, limit: ",
    "    limits: [{ name: a, algorithm: leaky-bucket, queue: 3, limit: ",
    "    limits: [{ name: a, algorithm: fixed-window, align: calendar, timezone: UTC, limit: ",
    "    limits: [{ name: a, key: [global], algorithm: sliding-window-log, limit: ",
    "    match: { path: ",
    "    match: { method: GET, host: ",
    "    match: { headers: { x: ",
    "    mode: ",
    "    action: ",
    "    group: ",
    "    replaces: [",
    "    missing_key: ",
    "    cost: ",
    "    cost: { max: 7, header: ",
    "    on_excess: ",
    "    overrides: [{ action: block, key: ",
    "    overrides: [{ limits: { a: 3/s }, key: ",
    "    headers: [",
    "    retry_jitter: ",
    "    store: ",
    "    ratelimit_dialect: ",
    "    on_store_error: ",
    "    sharing: ",
    "    ? ",
    "    ",
];

const VALUES: [&str; 48] = [
    "ip",
    "header:x",
    "cookie:x",
    "query:x",
    "path:id",
    "path",
    "host",
    "method",
    "global",
    "descriptor",
    "[ip, header:x]",
    "ip, header:x",
    "header:x, ip",
    "10/s",
    "1/day",
    "5 per 10m",
    "3/month",
    "0/s",
    "1000000000/s",
    "/a/{id}/**",
    "\"/a/*\"",
    "\"*\"",
    "\"x*y\"",
    "shadow",
    "off",
    "enforce",
    "block",
    "bypass",
    "g",
    "p0",
    "p1",
    "skip",
    "shared",
    "reject",
    "3",
    "0",
    "refuse",
    "drain",
    "192.0.2.0/24",
    "2001:db8::1",
    "retry-after",
    "both",
    "local",
    "deny",
    "0.5",
    "${A}",
    "${A:-3}",
    "|",
];

/// A file of up to 16 policies.
fn built(choices: &[u8]) -> Vec<u8> {
    let mut file = String::from("version: 1\npolicies:\n");
    let mut policies = 0;
    for pair in choices.chunks(2) {
        let field = usize::from(pair[0]);
        let value = VALUES[pair.get(1).map_or(0, |value| usize::from(*value) % VALUES.len())];
        match FIELDS.get(field % (FIELDS.len() + 4)) {
            Some(field) if policies > 0 => {
                let open: Vec<char> = field.chars().filter(|c| matches!(c, '[' | '{' | ']' | '}')).collect();
                let mut closing: Vec<char> = Vec::new();
                for c in open {
                    match c {
                        '[' => closing.push(']'),
                        '{' => closing.push('}'),
                        _ => drop(closing.pop()),
                    }
                }
                let closing: String = closing.iter().rev().collect();
                file.push_str(&format!("{field}{value}{closing}\n"));
            }
            _ if policies < 16 => {
                file.push_str(&format!("{POLICY}{policies}\n"));
                policies += 1;
            }
            _ => break,
        }
    }
    file.into_bytes()
}

fn read(file: &[u8]) {
    let env = |name: &str| match name {
        "A" => Some("7".to_owned()),
        "B" => Some(String::new()),
        _ => None,
    };
    match Config::parse("ratekeeper.yaml", file, &env) {
        Ok(config) => {
            let warnings = config.warnings();
            // The last is of the file as a whole if it has no policies.
            check(&warnings, file);
            assert!(config.policies_json().starts_with('['));
            plan(&config);
        }
        Err(errors) => {
            assert!((1..=MAX_ERRORS).contains(&errors.items.len()));
            check(&errors.items, file);
            let places: Vec<(usize, usize)> =
                errors.items.iter().map(|item| (item.line, item.column)).collect();
            assert!(places.is_sorted(), "{places:?}");
            // Written for terminals: nothing of the file can steer them.
            let shown = errors.render();
            assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
        }
    }
}

/// Each place is within the file, on one line, and is the line that it says.
fn check(items: &[ConfigError], file: &[u8]) {
    let text = String::from_utf8_lossy(file);
    for item in items {
        assert!(item.line >= 1 && item.column >= 1 && !item.message.is_empty() && !item.code.is_empty());
        let span = text.get(item.span.clone()).unwrap_or_else(|| panic!("{item:?} is not within the file"));
        assert!(!span.contains('\n'), "{item:?}");
        if item.span != (0..0) {
            let line = text[..item.span.start].matches('\n').count() + 1;
            assert_eq!(line, item.line, "{item:?}");
        }
    }
}

/// Asks a few requests of the policies, each policy by its name too.
fn plan(config: &Config) {
    let long = [b'a'; 1_100];
    let lines: [&[(&str, &[u8])]; 3] = [
        &[],
        &[("X", b"x1y"), ("Cookie", b"x=1; y=2"), ("x-forwarded-for", b"192.0.2.7, 10.0.0.1")],
        &[("x", &long), ("x", b"3")],
    ];
    let targets = [None, Some("/a/b/c?x=1&y"), Some("/a/%2e%2e/../a"), Some("*")];
    for headers in lines {
        for target in targets {
            let facts = Facts {
                method: Some("GET"),
                target,
                host: Some("xay"),
                headers,
                source: Source::Peer(Ipv4Addr::new(10, 0, 0, 1).into()),
            };
            let Ok(request) = Request::new(&facts, &config.client_ip) else { continue };
            for cost in [None, Some(0), Some(5)] {
                let Ok(plan) = config.policies.plan(&request, cost) else { continue };
                for applied in plan.applied() {
                    assert!(config.policies.iter().nth(applied.policy).is_some());
                    assert_eq!(applied.checks().count(), applied.limit_count());
                    assert!(applied.key().is_none_or(|key| !key.parts().is_empty()));
                }
            }
        }
    }
}
