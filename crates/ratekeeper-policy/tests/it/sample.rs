//! The sample of the documentation, as far as this version goes: what is in it, and what is said of it.

use ratekeeper_policy::{Config, Headers, Listener, LogConfig, XRateLimit};

use crate::{limits, parse};

const SAMPLE: &str = "version: 1
listen: { http: 127.0.0.1:8080, admin: 127.0.0.1:9090 }
client_ip: { trusted_proxies: [10.0.0.0/8], header: x-forwarded-for, ipv6_prefix: 64 }
stores:
  local: { memory: { max_keys: 1000000, max_bytes: 256MiB } }   # max_bytes bounds the sliding-window logs
defaults: { store: local, on_store_error: local }
policies:
  - name: api
    match: { path: \"/api/**\" }
    key: [header:x-api-key, ip]         # the first one present
    limits:
      - { name: burst,  algorithm: token-bucket, limit: 10/s, burst: 20 }
      - { name: minute, algorithm: sliding-window-counter, limit: 300/minute }
      - { name: global, algorithm: gcra, limit: 10000/minute, burst: 500, key: [global] }
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
    limits: [{ name: code, algorithm: fixed-window, limit: 1/minute, align: first-request }]
  - name: reports
    match: { path: \"/reports/**\" }
    key: [ip]
    mode: shadow
    limits: [{ name: daily, algorithm: fixed-window, limit: 1000/day, align: calendar, timezone: Europe/Paris }]
  - name: exports
    match: { path: /export }
    key: [ip]
    limits: [{ name: paced, algorithm: leaky-bucket, limit: 1/s, queue: 10, max_wait: 5s }]
";

#[test]
fn the_sample_is_read_with_the_warning_that_a_request_can_be_without_a_user() {
    let config = parse(SAMPLE).unwrap();
    let warnings = config.warnings();
    let said: Vec<(&str, usize)> = warnings.iter().map(|warning| (warning.code, warning.line)).collect();
    assert_eq!(said, [("missing-key", 24)], "{warnings:?}");
    assert_eq!(
        warnings[0].message,
        "a request without `header:x-user` has no key, and this policy does not limit it"
    );
    assert_eq!(config.listen.http, Some(Listener::new("127.0.0.1:8080")));
    assert_eq!(config.listen.admin, Some(Listener::new("127.0.0.1:9090")));
    assert_eq!(config.log, LogConfig::default());
    assert_eq!(config.log.denied_per_second, 10);
    let names: Vec<&str> = config.policies.iter().map(|policy| policy.name().as_str()).collect();
    assert_eq!(names, ["api", "login", "sms", "reports", "exports"]);
    assert!(config.policies.iter().all(|policy| policy.headers() == Headers::default()));
}

#[test]
fn policies_are_shown_as_they_are_written() {
    let wanted = concat!(
        r#"[{"name":"api","match":{"path":"/api/**"},"key":["header:x-api-key","ip"],"limits":["#,
        r#"{"name":"burst","algorithm":"token-bucket","limit":"10/s","burst":20},"#,
        r#"{"name":"minute","algorithm":"sliding-window-counter","limit":"300/minute"},"#,
        r#"{"name":"global","algorithm":"gcra","limit":"10000/minute","burst":500,"key":["global"]}],"#,
        r#""overrides":[{"key":"partner-*","limits":{"minute":"3000/minute"}},{"key":"192.0.2.0/24","action":"bypass"}]},"#,
        r#"{"name":"login","match":{"method":"POST","path":"/login"},"key":["ip"],"#,
        r#""limits":[{"name":"tries","algorithm":"sliding-window-log","limit":"10 per 10m"}],"on_store_error":"deny"},"#,
        r#"{"name":"sms","key":["header:x-user"],"#,
        r#""limits":[{"name":"code","algorithm":"fixed-window","limit":"1/minute","align":"first-request"}]},"#,
        r#"{"name":"reports","match":{"path":"/reports/**"},"key":["ip"],"mode":"shadow","limits":[{"name":"daily","algorithm":"fixed-window","#,
        r#""limit":"1000/day","align":"calendar","timezone":"Europe/Paris"}]},"#,
        r#"{"name":"exports","match":{"path":"/export"},"key":["ip"],"limits":[{"name":"paced","algorithm":"leaky-bucket","#,
        r#""limit":"1/s","queue":10,"max_wait":"5s"}]}]"#,
    );
    assert_eq!(parse(SAMPLE).unwrap().policies_json(), wanted);
    let file = "version: 1\npolicies:\n  - name: ${NAME}\n    key: [[header:x, ip]]\n    limits:\n      - name: '1'\n        \
                algorithm: gcra\n        limit: ${N:-10}/s\n        burst: ${N}\n";
    let env = |name: &str| Some(if name == "N" { "7".to_owned() } else { "a-b".to_owned() });
    let file = file.to_owned() + "listen: {}\n";
    assert_eq!(
        Config::parse("f", file.as_bytes(), &env).unwrap().policies_json(),
        r#"[{"name":"a-b","key":[["header:x","ip"]],"limits":[{"name":"1","algorithm":"gcra","limit":"7/s","burst":7}]}]"#
    );
    assert_eq!(parse("version: 1\npolicies: []\n").unwrap().policies_json(), "[]");
}

#[test]
fn headers_are_those_of_the_policy_else_of_the_defaults() {
    let one = limits(&["name: a, algorithm: gcra, limit: 10/s"]);
    let headers = |defaults: &str, own: &str| {
        let own = if own.is_empty() { String::new() } else { format!("    headers: {own}\n    limits:") };
        let own = if own.is_empty() { "    limits:".to_owned() } else { own };
        let file = one.replace("    limits:", &own) + defaults;
        parse(&file).expect(&file).policies[0].headers()
    };
    let fields = |ratelimit, retry_after, x_ratelimit| Headers {
        ratelimit,
        retry_after,
        x_ratelimit,
        ..Headers::default()
    };
    assert_eq!(headers("", ""), fields(true, true, XRateLimit::Off));
    assert_eq!(headers("", "[]"), fields(false, false, XRateLimit::Off));
    assert_eq!(headers("defaults: { headers: [] }\n", ""), fields(false, false, XRateLimit::Off));
    let defaults = "defaults: { headers: [x-ratelimit, retry-after] }\n";
    assert_eq!(headers(defaults, ""), fields(false, true, XRateLimit::Unix));
    assert_eq!(headers(defaults, "[x-ratelimit-delta]"), fields(false, false, XRateLimit::Delta));
    assert_eq!(headers(defaults, "[\"ratelimit\"]"), fields(true, false, XRateLimit::Off));
}

/// A policy whose store nobody could tell was left out without a word.
#[test]
fn defaults_without_a_store_leave_no_policy_out() {
    let file = |defaults: &str| {
        let one = limits(&["name: a, algorithm: gcra, limit: 10/s"]);
        format!("{one}stores: {{ a: {{ memory: {{}} }}, b: {{ memory: {{}} }} }}\n{defaults}\n")
    };
    for defaults in ["", "defaults: {}", "defaults: { headers: [] }"] {
        let errors = parse(&file(defaults)).expect_err(defaults);
        assert_eq!((errors.items.len(), errors.items[0].code), (1, "store-required"), "{errors}");
    }
    // What is wrong is said once.
    for (defaults, code) in [
        ("defaults: { stor: a }", "unknown-field"),
        ("defalts: { store: a }", "unknown-field"),
        ("defaults: { store: c }", "unknown-store"),
        ("defaults: a", "wrong-type"),
    ] {
        let errors = parse(&file(defaults)).expect_err(defaults);
        assert_eq!((errors.items.len(), errors.items[0].code), (1, code), "{errors}");
    }
    assert_eq!(parse(&file("defaults: { store: b }")).unwrap().policies[0].store().as_str(), "b");
}

#[test]
fn a_quoted_variable_is_warned_about_where_it_stands() {
    let file = "version: 1\nlisten: { http: { address: 127.0.0.1:1, tls: { cert: \"${CERT}\", key: '$x {y} ${}' } } }\n";
    let config = parse(file).unwrap();
    assert_eq!(config.listen.http.as_ref().unwrap().tls.as_ref().unwrap().cert, "${CERT}");
    let warnings = config.warnings();
    let codes: Vec<&str> = warnings.iter().map(|warning| warning.code).collect();
    assert_eq!(codes, ["no-policies", "quoted-variable"]);
    let quoted = &warnings[1];
    assert_eq!(quoted.message, "`${CERT}` in quotes is not expanded");
    assert_eq!((quoted.line, &file[quoted.span.clone()]), (2, "\"${CERT}\""));
    assert_eq!(quoted.severity.as_str(), "warning");
}
