//! Faults that other limiters had in their configuration, and what happens to them here.

use std::time::Duration;

use ratekeeper_core::{Check, Name};

use ratekeeper_policy::{
    Action, Call, CostSpec, Dialect, Does, Headers, Jitter, Listen, Listener, LogConfig, LogFormat, LogKeys,
    LogLevel, MissingKey, Mode, OnExcess, OnFull, OnStoreError, Options, Secret, Tls, Which, XRateLimit,
};

use crate::{codes, limits, parse};

/// Each number and duration set to zero: refused wherever zero would have to mean "unlimited".
#[test]
fn zero_is_refused_wherever_it_could_mean_unlimited() {
    for line in [
        "name: a, algorithm: gcra, limit: 0/s",
        "name: a, algorithm: gcra, limit: 0 per 10s",
        "name: a, algorithm: gcra, limit: 10 per 0s",
        "name: a, algorithm: gcra, limit: 10/s, burst: 0",
        "name: a, algorithm: token-bucket, limit: 10/s, burst: 0",
        "name: a, algorithm: leaky-bucket, limit: 10/s, burst: 0",
        "name: a, algorithm: leaky-bucket, limit: 10/s, queue: 5, max_wait: 0",
        "name: a, algorithm: leaky-bucket, limit: 10/s, queue: 5, max_wait: 0ms",
    ] {
        assert_eq!(codes(&limits(&[line])), ["out-of-range"], "{line}");
    }
    for memory in ["max_keys: 0", "max_bytes: 0B", "max_bytes: 0GiB"] {
        let file = format!("version: 1\nstores: {{ local: {{ memory: {{ {memory} }} }} }}\n");
        assert_eq!(codes(&file), ["out-of-range"], "{memory}");
    }
    assert_eq!(codes("version: 0"), ["unsupported-version"]);
}

/// A queue of nobody has an exact meaning: one starts at once, nobody waits.
#[test]
fn a_queue_of_zero_holds_one_and_lets_nobody_wait() {
    let config = parse(&limits(&["name: a, algorithm: leaky-bucket, limit: 10/s, queue: 0"])).unwrap();
    let limit = config.policies[0].limits()[0].named.limit();
    assert!(limit.is_queue());
    assert_eq!(limit.capacity(), 1);
}

#[test]
fn rates_beyond_the_envelope_are_refused_naming_the_bound() {
    for line in [
        "name: a, algorithm: gcra, limit: 3000000000/s, burst: 1",
        "name: a, algorithm: gcra, limit: 1000000001/s",
        "name: a, algorithm: gcra, limit: 99999999999999999999999/s",
        "name: a, algorithm: gcra, limit: 10/s, burst: 1000000001",
        "name: a, algorithm: leaky-bucket, limit: 10/s, queue: 1000000000",
        "name: a, algorithm: gcra, limit: 1 per 367d",
        "name: a, algorithm: gcra, limit: 1 per 99999999999999999999d",
        "name: a, algorithm: sliding-window-log, limit: 100001/s",
        "name: a, algorithm: gcra, limit: 1/year, burst: 2",
        "name: a, algorithm: leaky-bucket, limit: 10/s, queue: 5, max_wait: 367d",
    ] {
        let errors = parse(&limits(&[line])).expect_err(line);
        assert_eq!(errors.items.len(), 1, "{errors}");
        assert_eq!(errors.items[0].code, "out-of-range", "{line}");
        assert!(errors.items[0].message.contains(|c: char| c.is_ascii_digit()), "{errors}");
    }
    for line in [
        "name: a, algorithm: gcra, limit: 1000000000/s, burst: 1000000000",
        "name: a, algorithm: leaky-bucket, limit: 1000000000/s, queue: 999999999, max_wait: 366d",
        "name: a, algorithm: gcra, limit: 1 per 366d",
        "name: a, algorithm: sliding-window-log, limit: 100000/s",
    ] {
        assert!(parse(&limits(&[line])).is_ok(), "{line}");
    }
}

#[test]
fn zones_are_names_that_exist() {
    let calendar = |rest: &str| limits(&[&format!("name: a, algorithm: fixed-window, {rest}")]);
    for (rest, code) in [
        ("limit: 10/day, align: calendar, timezone: Europe/Pariss", "unknown-timezone"),
        ("limit: 10/day, align: calendar, timezone: CET+1", "unknown-timezone"),
        ("limit: 10/day, align: calendar, timezone: europe/paris", "unknown-timezone"),
        ("limit: 10/day, align: calendar, timezone: ''", "empty"),
        ("limit: 10/day, align: calendar, timezone:", "empty"),
        ("limit: 10/day, align: calendar", "option-needs-another"),
        ("limit: 10/day, timezone: Europe/Paris", "option-needs-another"),
        ("limit: 10/day, align: epoch, timezone: Europe/Paris", "option-needs-another"),
        ("limit: 10/day, align: first-request, timezone: Europe/Paris", "option-needs-another"),
        ("limit: 10/hour, align: calendar, timezone: Europe/Paris", "calendar-window"),
        ("limit: 10/year, align: calendar, timezone: Europe/Paris", "calendar-window"),
        ("limit: 10 per 3d, align: calendar, timezone: Europe/Paris", "calendar-window"),
        ("limit: 10 per 7d, align: calendar, timezone: Europe/Paris", "calendar-window"),
    ] {
        assert_eq!(codes(&calendar(rest)), [code], "{rest}");
    }
    // Two mistakes of one limit are two errors.
    let both = calendar("limit: 10/hour, align: calendar, timezone: Europe/Pariss");
    assert_eq!(codes(&both), ["calendar-window", "unknown-timezone"]);
    for rest in [
        "limit: 10/day, align: calendar, timezone: Europe/Paris",
        "limit: 10/week, align: calendar, timezone: UTC",
        "limit: 10/month, align: calendar, timezone: America/Argentina/Buenos_Aires",
    ] {
        let config = parse(&calendar(rest)).expect(rest);
        assert!(config.policies[0].limits()[0].named.calendar().is_some(), "{rest}");
    }
}

#[test]
fn zero_absent_and_explicit_are_three_things() {
    let zero = parse(&limits(&["name: a, algorithm: gcra, limit: 0/minute"])).expect_err("zero");
    assert!(zero.render().contains("never unlimited"), "{zero}");
    let absent = parse(&limits(&["name: a, algorithm: gcra"])).expect_err("absent");
    assert!(absent.render().contains("never unlimited"), "{absent}");
    let none = parse("version: 1\npolicies: [{ name: a, key: [ip] }]\n").expect_err("no limits");
    assert!(none.render().contains("`action: bypass` lets all pass, `action: block` none"), "{none}");
    for (word, action) in [("bypass", Action::Bypass), ("block", Action::Block)] {
        let config = parse(&format!("version: 1\npolicies: [{{ name: a, action: {word} }}]\n")).unwrap();
        let applied = config.policies[0].named(&Call { key: None, keys: &[], cost: 1 }, Which::All).unwrap();
        assert!(matches!(applied.does, Does::Action(does) if does == action), "{word}");
        assert_eq!(applied.checks().count(), 0);
    }
}

/// What a server in use must refuse at a reload, each with its own words.
#[test]
fn a_broken_file_is_refused() {
    let good = limits(&["name: a, algorithm: gcra, limit: 10/s"]);
    assert_eq!(codes(&good), [""; 0]);
    for (file, code) in [
        (good.replace("[ip]", "[ip"), "yaml-syntax"),
        (good.replace("name: p", "name: ''"), "empty"),
        (good.replace("algorithm", "algoritm"), "unknown-field"),
        (good.replace("name: p", "name: 7"), "wrong-type"),
        (
            good.clone() + "  - { name: p, key: [ip], limits: [{ name: a, algorithm: gcra, limit: 1/s }] }\n",
            "duplicate-name",
        ),
        (String::new(), "file-empty"),
    ] {
        assert_eq!(codes(&file), [code], "{file}");
    }
}

#[test]
fn every_field_of_a_later_version_says_so_where_it_stands() {
    let later = |file: &str, name: &str| {
        let errors = parse(file).expect_err(name);
        let wanted = format!("`{name}` is not available in this version");
        let found = errors.items.iter().find(|item| item.message == wanted);
        let item = found.unwrap_or_else(|| panic!("{name}: {errors}"));
        assert_eq!(item.code, "not-available");
        assert_eq!(&file[item.span.clone()], name);
        assert!(item.hint.is_some(), "{name}");
    };
    for name in ["grpc", "resp"] {
        later(&format!("version: 1\nlisten: {{ {name}: 127.0.0.1:1 }}\n"), name);
    }
    for name in ["lease_life", "sync_every"] {
        later(&format!("version: 1\nstores: {{ a: {{ redis: {{ {name}: 1s }} }} }}\n"), name);
    }
    for word in ["leased", "approximate"] {
        later(&format!("version: 1\nstores: {{ a: {{ redis: {{ mode: {word} }} }} }}\n"), word);
    }
    later("version: 1\npolicies: [{ name: a, sharing: x }]\n", "sharing");
    for name in ["domain", "descriptor", "entries"] {
        later(&format!("version: 1\npolicies: [{{ name: a, match: {{ {name}: x }} }}]\n"), name);
    }
}

#[test]
fn every_field_of_this_version_is_read() {
    let file = "
version: 1
listen:
  http:
    address: \"[::1]:0\"
    deadline: 1500us
    max_connections: 1000000
    tls: { cert: tls/server.pem, key: \"/etc/x y\", client_ca: ca.pem }
  admin: { address: 0.0.0.0:9090, deadline: 60s, tls: { cert: a, key: b }, max_connections: 1, token: 0123456789abcdef }
log: { format: json, level: debug, keys: off, denied_per_second: 0 }
stores:
  small: { memory: { max_keys: 1, max_bytes: 4KiB, on_full: deny } }
  large: { memory: { max_keys: 1000000000, max_bytes: 1024GiB, on_full: share } }
defaults: { store: small, headers: [x-ratelimit], ratelimit_dialect: both, retry_jitter: 0.25, on_store_error: deny }
policies:
  - name: all
    match: { method: [GET, HEAD], path: \"/api/{version}/**\", host: \"*.example.com\", headers: { X-Plan: \"free-*\" } }
    key: [header:x-user, ip]
    store: large
    mode: shadow
    group: g
    replaces: [default]
    missing_key: reject
    cost: { header: X-Cost, default: 2, max: 11 }
    on_store_error: allow
    ratelimit_dialect: rt
    retry_jitter: 1
    overrides:
      - { key: \"partner-*\", limits: { queue: { limit: 2/s, queue: 20, max_wait: 10s }, day: 5000/day } }
      - { key: 192.0.2.0/24, action: bypass }
      - { key: header:x-user=mallory, action: block }
    headers: [ratelimit, x-ratelimit-delta, retry-after]
    limits:
      - { name: queue, algorithm: leaky-bucket, limit: 1/s, queue: 10, max_wait: 5s }
      - { name: bucket, algorithm: token-bucket, limit: 10/s, burst: 20, key: [[header:x-tenant, ip], global] }
      - { name: day, algorithm: fixed-window, limit: 1000/day, align: calendar, timezone: Europe/Paris }
  - name: default
    key: [ip]
    limits: [{ name: a, algorithm: fixed-window, limit: 1/minute, align: first-request }]
";
    let config = parse(file).unwrap();
    let tls = |cert: &str, key: &str, client_ca: Option<&str>| {
        Some(Tls { cert: cert.to_owned(), key: key.to_owned(), client_ca: client_ca.map(str::to_owned) })
    };
    let http = Listener {
        deadline: Duration::from_micros(1_500),
        max_connections: 1_000_000,
        tls: tls("tls/server.pem", "/etc/x y", Some("ca.pem")),
        ..Listener::new("[::1]:0")
    };
    let admin = Listener {
        deadline: Duration::from_secs(60),
        tls: tls("a", "b", None),
        max_connections: 1,
        token: Some(Secret::token("0123456789abcdef").unwrap()),
        ..Listener::new("0.0.0.0:9090")
    };
    assert_eq!(config.listen, Listen { http: Some(http), admin: Some(admin) });
    let log = LogConfig {
        format: LogFormat::Json,
        level: LogLevel::Debug,
        keys: LogKeys::Off,
        denied_per_second: 0,
    };
    assert_eq!(config.log, log);
    assert_eq!(config.stores[0].memory().unwrap().on_full, OnFull::Deny);
    assert_eq!(config.stores[1].memory().unwrap().max_bytes, 1 << 40);
    let all = config.policy("all").unwrap();
    assert_eq!(
        all.matches().unwrap().to_string(),
        "method GET, HEAD, path /api/{version}/**, host *.example.com, header x-plan: free-*"
    );
    assert_eq!(config.policy("default").unwrap().matches(), None);
    assert_eq!(
        (all.store().as_str(), config.policy("default").unwrap().store().as_str()),
        ("large", "small")
    );
    assert_eq!(all.limits().len(), 3);
    let headers = Headers {
        ratelimit: true,
        retry_after: true,
        x_ratelimit: XRateLimit::Delta,
        dialect: Dialect::Rt,
        retry_jitter: Jitter::of_thousandths(1_000).unwrap(),
    };
    let name = |name: &str| Name::new(name).unwrap();
    let options = Options {
        mode: Mode::Shadow,
        action: None,
        group: Some(name("g")),
        replaces: vec![name("default")],
        missing_key: MissingKey::Reject,
        cost: CostSpec::Header { name: "x-cost".into(), default: 2, max: 11 },
        on_excess: OnExcess::Refuse,
        on_store_error: OnStoreError::Allow,
        headers,
    };
    assert_eq!(all.options(), &options);
    let headers = Headers {
        ratelimit: false,
        retry_after: false,
        x_ratelimit: XRateLimit::Unix,
        dialect: Dialect::Both,
        retry_jitter: Jitter::of_thousandths(250).unwrap(),
    };
    let options = Options { on_store_error: OnStoreError::Deny, headers, ..Options::default() };
    assert_eq!(config.policy("default").unwrap().options(), &options);
    let overrides = all.overrides().as_slice();
    let said: Vec<(&str, usize)> = overrides.iter().map(|item| (item.text(), item.line())).collect();
    assert_eq!(said, [("partner-*", 29), ("192.0.2.0/24", 30), ("header:x-user=mallory", 31)]);
    let call = |key| Call { key: Some(key), keys: &[("bucket", "t,x")], cost: 1 };
    let capacities = |key| {
        let call = call(key);
        let applied = all.named(&call, Which::All).unwrap();
        let capacity = |(_, check): (usize, Check<'_>)| check.limit.limit().capacity();
        applied.checks().map(capacity).collect::<Vec<_>>()
    };
    assert_eq!(capacities("u"), [11, 20, 1_000]);
    assert_eq!(capacities("partner-7"), [21, 20, 5_000]);
    assert_eq!(capacities("ip=192.0.2.7"), [0_u64; 0]);
    assert_eq!(capacities("mallory"), [0_u64; 0]);
}
