//! Stores in Redis: what is read of them, what is warned of, and what nobody sees.

use std::time::Duration;

use ratekeeper_core::Topology;
use ratekeeper_policy::{
    Act, Config, Exception, ExceptionError, MAX_PASSWORD_BYTES, MAX_PREFIX_BYTES, MAX_USERNAME_BYTES,
    MemoryConfig, Numbers, RedisConfig, Secret, StoreKind,
};

use crate::{codes, parse};

const SECRET: &str = "hunter2";

/// A file with one Redis store of these fields.
fn file(fields: &str) -> String {
    format!("version: 1\nstores: {{ shared: {{ redis: {{ {fields} }} }} }}\n")
}

#[track_caller]
fn redis(fields: &str) -> RedisConfig {
    let config = parse(&file(fields)).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(config.stores[0].memory(), None);
    config.stores[0].redis().expect("a Redis store").clone()
}

fn credentials(redis: &RedisConfig) -> (Option<&str>, Option<&str>) {
    (redis.username.as_deref(), redis.password.as_ref().map(Secret::expose))
}

#[test]
fn every_field_of_a_redis_store_is_read_and_has_its_default() {
    let least = redis("url: \"redis://h\"");
    assert_eq!(least.url, "redis://h:6379".parse().unwrap());
    assert_eq!((least.timeout, least.instances, &*least.prefix), (Duration::from_millis(50), 1, "rk"));
    assert_eq!(credentials(&least), (None, None));
    let all = redis(
        "url: \"rediss+sentinel://a,[::1]:7/main/3\", timeout: 1500us, mode: exact, instances: 10000, prefix: a_B-9, \
         username: limiter, password: p w",
    );
    assert_eq!(
        (all.url.topology(), all.url.master(), all.url.database()),
        (Topology::Sentinel, Some("main"), 3)
    );
    assert_eq!((all.timeout, all.instances, &*all.prefix), (Duration::from_micros(1_500), 10_000, "a_B-9"));
    assert_eq!(credentials(&all), (Some("limiter"), Some("p w")));
    assert_ne!(least, all);
}

#[test]
fn fields_win_over_the_url() {
    let both = "url: \"redis://u:p@h\"";
    assert_eq!(credentials(&redis(both)), (Some("u"), Some("p")));
    assert_eq!(credentials(&redis(&format!("{both}, password: q"))), (Some("u"), Some("q")));
    assert_eq!(credentials(&redis(&format!("{both}, username: v"))), (Some("v"), Some("p")));
    assert_eq!(credentials(&redis(&format!("{both}, username: v, password: q"))), (Some("v"), Some("q")));
    assert_eq!(credentials(&redis("url: \"redis://u@h\", password: 0123")), (Some("u"), Some("0123")));
    assert_eq!(
        credentials(&redis("url: \"redis://h\", username: 1.5, password: true")),
        (Some("1.5"), Some("true"))
    );
}

#[test]
fn variables_stand_for_the_whole_url_and_the_password() {
    let text = "version: 1\nstores:\n  shared:\n    redis:\n      url: ${REDIS_URL:-redis://127.0.0.1:6379}\n      password: ${REDIS_PASSWORD}\n";
    let read = |url: Option<&str>| {
        let env = |name: &str| match name {
            "REDIS_URL" => url.map(str::to_owned),
            "REDIS_PASSWORD" => Some("12345".to_owned()),
            _ => None,
        };
        Config::parse("ratekeeper.yaml", text.as_bytes(), &env).unwrap().stores.remove(0).kind
    };
    let StoreKind::Redis(default) = read(None) else { panic!("a Redis store") };
    assert_eq!(default.url.to_string(), "redis://127.0.0.1:6379");
    assert_eq!(credentials(&default), (None, Some("12345")));
    let StoreKind::Redis(given) = read(Some("redis+cluster://u:%40@a,b")) else { panic!("a Redis store") };
    assert_eq!((given.url.topology(), credentials(&given)), (Topology::Cluster, (Some("u"), Some("12345"))));
}

#[test]
fn texts_of_a_redis_store_hold_their_bounds() {
    let with = |field: &str, text: String| file(&format!("url: \"redis://h\", password: x, {field}: {text}"));
    for (field, most, code) in
        [("prefix", MAX_PREFIX_BYTES, "bad-name"), ("username", MAX_USERNAME_BYTES, "bad-name")]
    {
        assert_eq!(codes(&with(field, "a".repeat(most))), [""; 0], "{field}");
        assert_eq!(codes(&with(field, "a".repeat(most + 1))), [code], "{field}");
    }
    let password = |bytes: usize| file(&format!("url: \"redis://h\", password: {}", "a".repeat(bytes)));
    assert_eq!(codes(&password(MAX_PASSWORD_BYTES)), [""; 0]);
    assert_eq!(codes(&password(MAX_PASSWORD_BYTES + 1)), ["out-of-range"]);
}

#[test]
fn nobody_sees_a_password() {
    let good = file("url: \"redis://u:hunter2@h\", password: hunter2, timeout: 1s") + "policies: []\n";
    let config = parse(&good).unwrap();
    assert!(config.render_warnings().contains("timeout: 1s"), "{}", config.render_warnings());
    for shown in [
        format!("{config:?}"),
        config.render_warnings(),
        config.policies_json().to_owned(),
        config.policies_json_public().to_owned(),
    ] {
        assert!(!shown.contains(SECRET), "{shown}");
    }
    for fields in [
        "url: \"redis://u:hunter2@h\", bad: 1",
        "url: \"redis://u:hunter2/@h\"",
        "url: \"redis://hunter2@h\"",
        "url: u:hunter2@h",
        "urll: \"redis://:hunter2@h\"",
        "address: u:hunter2@h",
        "password: hunter2, bad: 1",
        "passwort: hunter2",
        "password: a, password: hunter2",
        "password: [hunter2], bad: 1",
        "password: { a: hunter2 }",
        "password: *hunter2",
        "password: &hunter2 a",
        "password: !hunter2 a",
        "password: @hunter2",
        "password: \"a\"hunter2\"",
        "password: a: hunter2: b",
        "\"password\": `hunter2",
    ] {
        let text = file(fields);
        let errors = parse(&text).expect_err(fields);
        assert!(!errors.render().contains(SECRET), "{errors}");
        assert!(!format!("{errors:?}").contains(SECRET), "{fields}: {errors:?}");
    }
    for line in [
        "password: #hunter2",
        "password: a #hunter2",
        "password: |hunter2",
        "password: \"hunter2",
        "password: %hunter2",
        "password: - hunter2",
    ] {
        let text = format!("version: 1\nstores:\n  a:\n    redis:\n      bad: 1\n      {line}\n");
        let errors = parse(&text).expect_err(line);
        assert!(!errors.render().contains(SECRET), "{errors}");
    }
}

#[test]
fn limits_called_like_a_secret_are_shown_with_their_mistakes() {
    let text = "version: 1\npolicies:\n  - name: a\n    key: [ip]\n    limits: [{ name: tokens, algorithm: gcra, limit: 10/s }]\n    overrides:\n      - { key: 192.0.2.1, limits: { tokens: { brust: 5 } } }\n";
    let errors = parse(text).expect_err("misspelt");
    assert!(errors.render().contains("tokens: { brust: 5 }"), "{errors}");
}

#[test]
fn a_temporary_override_keeps_to_what_its_store_can_count() {
    let text = |store: &str| {
        format!(
            "version: 1\nstores: {{ s: {store} }}\npolicies: [{{ name: a, key: [ip], limits: [{{ name: l, algorithm: gcra, limit: 1/s }}] }}]\n"
        )
    };
    let given = |store: &str, limit: &str| {
        let config = parse(&text(store)).unwrap();
        let numbers = Numbers { limit: Some(limit), ..Numbers::default() };
        config.policies[0].exception(&Exception::Limits(&[("l", numbers)]))
    };
    let (redis, memory) = ("{ redis: { url: \"redis://h\" } }", "{ memory: {} }");
    assert!(matches!(given(redis, "1 per 1ms"), Ok(Act::Limits(_))));
    assert!(matches!(given(memory, "1 per 999us"), Ok(Act::Limits(_))));
    let wrong = given(redis, "1 per 999us").expect_err("too short");
    let [ExceptionError::Numbers { field: "limit", message, .. }] = wrong.as_slice() else {
        panic!("{wrong:?}")
    };
    assert!(message.contains("at least 1 ms"), "{message}");
}

/// The code of each warning, and the text that it is at.
fn warned(text: &str) -> Vec<(&'static str, String)> {
    let config = parse(text).unwrap_or_else(|errors| panic!("{errors}"));
    config.warnings().into_iter().map(|item| (item.code, text[item.span].to_owned())).collect()
}

#[test]
fn a_timeout_above_the_deadline_of_a_listener_is_warned_of() {
    let text = |listen: &str, timeout: &str| {
        format!(
            "version: 1\n{listen}stores:\n  m: {{ memory: {{}} }}\n  s: {{ redis: {{ url: \"redis://h\"{timeout} }} }}\npolicies: [{{ name: a, action: block, store: m }}]\n"
        )
    };
    let at = |place: &str| vec![("timeout-above-deadline", place.to_owned())];
    assert_eq!(warned(&text("", "")), []);
    assert_eq!(warned(&text("", ", timeout: 50ms")), []);
    assert_eq!(warned(&text("", ", timeout: 51ms")), at("51ms"));
    let http = "listen: { http: { address: 127.0.0.1:1, deadline: 20ms } }\n";
    assert_eq!(warned(&text(http, ", timeout: 20ms")), []);
    assert_eq!(warned(&text(http, "")), at("{ url: \"redis://h\" }"));
    let http = http.replace("20ms", "1s");
    assert_eq!(warned(&text(&http, ", timeout: 1s")), []);
    let config = parse(&text("", ", timeout: 1s")).unwrap();
    let said = config.warnings().remove(0).message;
    assert_eq!(said, "store `s` may take 1s, and `admin` waits for 50ms");
}

#[test]
fn policies_of_one_request_on_different_stores_are_warned_of_if_one_is_redis() {
    let text = |policies: &[&str]| {
        let limits = "key: [ip], limits: [{ name: l, algorithm: gcra, limit: 10/s }]";
        let policies: String =
            policies.iter().map(|policy| format!("  - {{ {policy}, {limits} }}\n")).collect();
        format!(
            "version: 1\nstores: {{ m: {{ memory: {{}} }}, n: {{ memory: {{}} }}, r: {{ redis: {{ url: \"redis://h\" }} }}, s: {{ redis: {{ url: \"redis://i\" }} }} }}\npolicies:\n{policies}"
        )
    };
    let at =
        |names: &[&str]| names.iter().map(|name| ("stores-meet", (*name).to_owned())).collect::<Vec<_>>();
    for (policies, places) in [
        (["name: a, store: m", "name: b, store: r", "name: c, store: r"], &["b", "c"][..]),
        (["name: a, store: r", "name: b, store: s", "name: c, store: s"], &["b", "c"]),
        (["name: a, store: r", "name: b, store: r", "name: c, store: m"], &["c"]),
        (["name: a, store: m", "name: b, store: n", "name: c, store: n"], &[]),
        (["name: a, store: r", "name: b, store: r", "name: c, store: r"], &[]),
        (
            [
                "name: a, store: m, match: { path: /a }",
                "name: b, store: r, match: { path: /b }",
                "name: c, store: s, match: { path: \"/c/**\" }",
            ],
            &[],
        ),
        (
            [
                "name: a, store: m, match: { path: \"/a/**\" }",
                "name: b, store: r, match: { path: /a/b }",
                "name: c, store: s, match: { method: POST, path: /c }",
            ],
            &["b"],
        ),
        (
            [
                "name: a, store: m, group: g, match: { path: /a }",
                "name: b, store: r, group: g, match: { path: /a }",
                "name: c, store: s, mode: off",
            ],
            &[],
        ),
        (
            [
                "name: a, store: m",
                "name: b, store: r, replaces: [a]",
                "name: c, store: s, mode: shadow, replaces: [a]",
            ],
            &["c"],
        ),
    ] {
        assert_eq!(warned(&text(&policies)), at(places), "{policies:?}");
    }
}

#[test]
fn stores_of_memory_are_as_before() {
    let config = parse("version: 1\nstores: { a: { memory: {} } }\n").unwrap();
    assert_eq!(config.stores[0].kind, StoreKind::Memory(MemoryConfig::default()));
    assert_eq!((config.stores[0].memory(), config.stores[0].redis()), (Some(&MemoryConfig::default()), None));
}
