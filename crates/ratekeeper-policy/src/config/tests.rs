use std::time::Duration;

use super::*;
use crate::{Call, DEFAULT_ADMIN, Headers, Listener, Which};
use ratekeeper_core::{Algorithm, Align, Limit, Period};

fn flags<'a>(limit: &'a str, algorithm: &'a str) -> LimitFlags<'a> {
    LimitFlags { limit, algorithm, ..LimitFlags::default() }
}

fn single(flags: &LimitFlags<'_>) -> Limit {
    let config = Config::single(flags).unwrap();
    let policy = config.policy("policy").unwrap();
    assert_eq!(policy.limits()[0].named.name().as_str(), "limit");
    assert_eq!(policy.store().as_str(), "local");
    *policy.limits()[0].named.limit()
}

#[test]
fn flags_stand_for_a_file_with_one_limit() {
    assert_eq!(
        single(&LimitFlags { burst: Some("20"), ..flags("10/s", "gcra") }),
        Limit::per_second(10).burst(20).algorithm(Algorithm::Gcra)
    );
    let queue = LimitFlags { queue: Some("10"), max_wait: Some("5s"), ..flags("1/s", "leaky-bucket") };
    let paced =
        Limit::per_second(1).algorithm(Algorithm::LeakyBucket).queue(10).max_wait(Duration::from_secs(5));
    assert_eq!(single(&queue), paced);
    let calendar = LimitFlags {
        align: Some("calendar"),
        timezone: Some("Europe/Paris"),
        ..flags("5/month", "fixed-window")
    };
    assert_eq!(single(&calendar).alignment(), Align::Calendar(Period::Month));
    let config = Config::single(&calendar).unwrap();
    assert!(config.policies[0].limits()[0].named.calendar().is_some());
    assert_eq!(config.policies[0].limits()[0].zone.as_deref(), Some("Europe/Paris"));
    assert!(config.is_from_flags());
    assert_eq!((config.listen.http.as_ref(), config.listen.admin.as_ref()), (None, None));
    assert_eq!(config.policies[0].headers(), Headers::default());
    assert_eq!(
        config.policies_json(),
        r#"[{"name":"policy","limits":[{"name":"limit","algorithm":"fixed-window","limit":"5/month","align":"calendar","timezone":"Europe/Paris"}]}]"#
    );
    let config = Config::single(&queue).unwrap();
    assert_eq!(
        config.policies_json(),
        r#"[{"name":"policy","limits":[{"name":"limit","algorithm":"leaky-bucket","limit":"1/s","queue":10,"max_wait":"5s"}]}]"#
    );
}

#[test]
fn the_key_of_a_flag_limit_is_whatever_the_caller_gives() {
    let config = Config::single(&flags("10/s", "gcra")).unwrap();
    let key = |key| config.policies[0].named(&Call { key, keys: &[], cost: 1 }, Which::All);
    let (bare, named) = (key(Some("x")).unwrap(), key(Some("ip=x")).unwrap());
    assert_ne!(bare.key(), named.key(), "nothing before an `=` is a name");
    assert!(key(None).is_err());
    assert!(key(Some("")).is_err());
}

#[test]
fn every_wrong_flag_is_named_at_once() {
    let wrong = LimitFlags {
        burst: Some("0"),
        max_wait: Some("soon"),
        align: Some("epok"),
        ..flags("10/m", "token-buket")
    };
    let said: Vec<String> =
        Config::single(&wrong).expect_err("wrong").iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "--algorithm: unknown algorithm `token-buket` (did you mean `token-bucket`?)",
            "--limit: `m` could be a minute or a month (write `/minute` or `/month`)",
            "--max-wait: a duration is a whole number and us, ms, s, m, h or d (for example `5s` or `2500ms`)",
            "--burst: a burst is 1 to 1,000,000,000 (leave it out for a burst of one window's worth)",
            "--max-wait: `--max-wait` needs a `--queue` (add `--queue N`)",
            "--align: unknown alignment `epok` (did you mean `epoch`?)",
        ]
    );
    let zero = Config::single(&LimitFlags { burst: Some("0"), ..flags("10/s", "gcra") }).expect_err("zero");
    assert_eq!((zero.len(), zero[0].flag.as_str(), zero[0].code), (1, "--burst", "out-of-range"));
}

#[test]
fn mistakes_of_flags_are_told_in_flags() {
    for (wrong, said) in [
        (
            LimitFlags { align: Some("calendar"), ..flags("1/day", "fixed-window") },
            "--align: `--align calendar` needs a `--timezone` (for example `--timezone Europe/Paris`)",
        ),
        (
            LimitFlags { queue: Some("1"), max_wait: Some("0"), ..flags("1/s", "leaky-bucket") },
            "--max-wait: `--max-wait` is at least 1 us (to refuse instead of waiting use `--queue 0`)",
        ),
        (
            LimitFlags { burst: Some("-1"), ..flags("1/s", "gcra") },
            "--burst: `--burst` is a whole number in plain digits (digits only, for example `20`)",
        ),
        (
            LimitFlags { burst: Some("2"), ..flags("1/year", "gcra") },
            "--burst: burst (or queue + 1) x window / limit is at most 366 days (take a smaller capacity, or a higher rate)",
        ),
        // What was typed stays as it was typed.
        (
            flags("1/s", "limit"),
            "--algorithm: unknown algorithm `limit` (one of `fixed-window`, `sliding-window-log`, `sliding-window-counter`, `token-bucket`, `leaky-bucket` or `gcra`)",
        ),
    ] {
        let errors = Config::single(&wrong).expect_err(said);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [said]);
    }
    assert_eq!(in_flags("write `limit: 10 per 60s`"), "write `--limit '10 per 60s'`");
}

#[test]
fn a_file_without_policies_is_warned_about() {
    let config = Config::parse("f", b"version: 1", &|_| None).unwrap();
    let warnings = config.warnings();
    assert_eq!((warnings.len(), warnings[0].code), (1, "no-policies"));
    assert_eq!(warnings[0].severity.as_str(), "warning");
    assert!(Config::single(&flags("1/s", "gcra")).unwrap().warnings().is_empty());
}

#[test]
fn errors_know_how_many_policies_and_limits_there_are() {
    let counts = |text: &str| {
        let errors = Config::parse("f", text.as_bytes(), &|_| None).expect_err(text);
        (errors.policies, errors.limits)
    };
    let good = "- { name: a, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 1/s }] }";
    let bad = "- { name: b, key: [ip], limits: [{ name: l }, { name: m, algorithm: x, limit: 1 }] }";
    assert_eq!(counts(&format!("version: 1\npolicies:\n{good}\n{bad}\n")), (Some(2), Some(3)));
    assert_eq!(counts("version: 1\npolicies: [{ name: a }]"), (Some(1), None));
    assert_eq!(counts("version: 2"), (Some(0), Some(0)));
    assert_eq!(counts("version: 1\npolicies: none"), (None, None));
    assert_eq!(counts("version: ["), (None, None));
}

#[test]
fn a_file_without_stores_or_listeners_has_the_defaults() {
    let config = Config::parse("f", b"version: 1", &|_| None).unwrap();
    assert_eq!(config.listen, Listen::default());
    let http = config.listen.http.as_ref().unwrap();
    assert_eq!(
        (http.address.as_str(), http.deadline.as_millis(), http.max_connections),
        ("127.0.0.1:8080", 50, 10_000)
    );
    assert_eq!((http.tls.as_ref(), http.token.as_ref()), (None, None));
    assert_eq!(config.listen.admin.as_ref(), Some(&Listener::new(DEFAULT_ADMIN)));
    assert_eq!(config.log, LogConfig::default());
    assert_eq!(config.policies_json(), "[]");
    assert_eq!(config.stores.len(), 1);
    assert_eq!(config.stores[0].name.as_str(), "local");
    let memory = MemoryConfig { max_keys: 1_000_000, max_bytes: 268_435_456, on_full: crate::OnFull::Share };
    assert_eq!(config.stores[0].memory(), Some(&memory));
    assert!(config.policies.is_empty());
    assert!(config.policy("api").is_none());
}

#[test]
fn the_sha_tells_one_text_from_another() {
    // `printf 'version: 1' | sha256sum`
    let sha = |text: &[u8]| Config::parse("f", text, &|_| None).unwrap().source_sha().to_owned();
    assert_eq!(sha(b"version: 1"), "1a6ddd3");
    assert_ne!(sha(b"version: 1"), sha(b"version: 1\n"));
    let whole = Config::parse("f", b"version: 1", &|_| None).unwrap().source_sha256().to_owned();
    assert!(whole.starts_with("1a6ddd3") && whole.len() == 64, "{whole}");
}
