//! Who listens where, and with which token.

use std::time::Duration;

use ratekeeper_policy::{Config, ConfigErrors, Listener, Secret, is_loopback};

use crate::{codes, parse};

const TOKEN: &str = "0123456789abcdef";

/// Reads a file where `RATEKEEPER_ADMIN_TOKEN` is set.
fn parse_with(token: &str, text: &str) -> Result<Config, ConfigErrors> {
    let env = |name: &str| (name == "RATEKEEPER_ADMIN_TOKEN").then(|| token.to_owned());
    Config::parse("ratekeeper.yaml", text.as_bytes(), &env)
}

fn token(config: &Config) -> Option<&str> {
    config.listen.admin.as_ref()?.token.as_ref().map(Secret::expose)
}

#[test]
fn a_listener_that_is_not_named_is_not_opened() {
    let listen = |text: &str| parse(&format!("version: 1\nlisten: {text}\n")).unwrap().listen;
    assert_eq!((listen("{}").http, listen("{}").admin), (None, None));
    let http = listen("{ http: 127.0.0.1:1 }");
    assert_eq!((http.http, http.admin), (Some(Listener::new("127.0.0.1:1")), None));
    let admin = listen("{ admin: { address: 127.0.0.1:2 } }");
    assert_eq!((admin.http, admin.admin), (None, Some(Listener::new("127.0.0.1:2"))));
}

#[test]
fn admin_off_loopback_is_refused_exactly_where_the_helper_says_so() {
    for address in [
        "127.0.0.1:1",
        "127.9.9.9:1",
        "[::1]:1",
        "localhost:1",
        "0.0.0.0:1",
        "[::]:1",
        "10.0.0.1:1",
        "[fe80::1]:1",
        "localhost.localdomain:1",
        "ratekeeper:1",
    ] {
        let file = format!("version: 1\nlisten: {{ admin: {address:?} }}\n");
        let wanted: &[&str] = if is_loopback(address) { &[] } else { &["token-required"] };
        assert_eq!(codes(&file), wanted, "{address}");
        let mapped = format!("version: 1\nlisten: {{ admin: {{ address: {address:?} }} }}\n");
        assert_eq!(codes(&mapped), wanted, "{address}");
        assert_eq!(token(&parse_with(TOKEN, &file).unwrap()), Some(TOKEN), "{address}");
        let named = format!("version: 1\nlisten: {{ admin: {{ address: {address:?}, token: {TOKEN} }} }}\n");
        assert_eq!(token(&parse(&named).unwrap()), Some(TOKEN), "{address}");
    }
    // HTTP is for whoever reaches it.
    assert_eq!(codes("version: 1\nlisten: { http: 0.0.0.0:80 }\n"), [""; 0]);
}

#[test]
fn the_token_of_the_environment_stands_in_for_one_that_is_not_named() {
    let named = "version: 1\nlisten: { admin: { address: 0.0.0.0:1, token: fedcba9876543210 } }\n";
    assert_eq!(token(&parse_with(TOKEN, named).unwrap()), Some("fedcba9876543210"));
    // Also without `listen`, and a token of digits is one.
    assert_eq!(token(&parse_with("1234567890123456", "version: 1\n").unwrap()), Some("1234567890123456"));
    assert_eq!(token(&parse_with("", "version: 1\n").unwrap()), None);
    let expanded =
        "version: 1\nlisten:\n  admin:\n    address: 0.0.0.0:1\n    token: ${RATEKEEPER_ADMIN_TOKEN}\n";
    assert_eq!(token(&parse_with(TOKEN, expanded).unwrap()), Some(TOKEN));
    let empty = parse_with("", expanded).expect_err("an empty token");
    assert_eq!(empty.items[0].code, "empty");
    let empty = parse_with("", "version: 1\nlisten: { admin: 0.0.0.0:1 }\n").expect_err("no token");
    assert_eq!(empty.items[0].code, "token-required");
    // Whoever opens no admin listener has no use for it.
    assert!(parse_with("short", "version: 1\nlisten: { http: 127.0.0.1:1 }\n").is_ok());
}

#[test]
fn a_weak_token_of_the_environment_is_named_by_its_variable_and_not_shown() {
    for (value, file) in [
        ("hunter2", "version: 1\nlisten: { admin: 127.0.0.1:1 }\n"),
        ("hunter2 and twice as long", "version: 1\nlisten: { admin: 0.0.0.0:1 }\n"),
        ("hunter2", "version: 1\n"),
    ] {
        let errors = parse_with(value, file).expect_err(value);
        assert_eq!(errors.items.len(), 1, "{errors}");
        assert_eq!(errors.items[0].code, "bad-token");
        let said = errors.render();
        assert!(said.starts_with("error: RATEKEEPER_ADMIN_TOKEN: a token "), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

/// The errors of a reload are logged and shown to others than whoever wrote the file.
#[test]
fn a_token_is_not_shown_with_the_mistakes_of_its_line() {
    for file in [
        "version: 1\nlisten: { admin: { address: 1, token: s3cr3t-s3cr3t } }\n",
        "version: 1\nlisten: { admin: { token: \"s3cr3t\\\"s3cr3t\", adress: x } }\n",
        "version: 1\nlisten: { http: { token: 's3cr3t' } }\n",
        "version: 1\nlisten: { admin: { address: 127.0.0.1:1, tokne: s3cr3t } }\n",
        "version: 1\nlisten: { admin: { token: \"é日s3cr3t\" , x: 1 } }\n",
        "version: 1\nlisten:\n  admin:\n    token: ${UNSET:-s3cr3t}\n",
        "version: 1\nlisten:\n  admin:\n    token: |\n      s3cr3t\n",
        "version: 1\nlisten:\n  admin:\n    token: ${s3cr3t s3cr3t:-}\n    adress: 1\n",
    ] {
        let errors = parse(file).expect_err(file);
        assert!(!errors.items.is_empty());
        // The last one is a name of a variable that is none, which is repeated.
        assert_eq!(errors.render().contains("s3cr3t"), file.contains("${s3cr3t"), "{errors}");
    }
    let named = parse("version: 1\nlisten:\n  admin:\n    token: ${ADMIN}\n").expect_err("unset");
    assert!(named.render().contains("    token: ${ADMIN}\n"), "{named}");
    let after =
        parse("version: 1\nlisten: { admin: { token: \"日s3cr3t\", adress: 1 } }\n").expect_err("misspelt");
    assert!(after.render().contains("\"*********\", adress: 1"), "{after}");
    assert!(after.render().contains("ratekeeper.yaml:2:38\n"), "{after}");
}

#[test]
fn two_free_ports_are_two_listeners() {
    assert_eq!(codes("version: 1\nlisten: { http: 127.0.0.1:0, admin: 127.0.0.1:0 }\n"), [""; 0]);
    assert_eq!(codes("version: 1\nlisten: { http: 127.0.0.1:1, admin: 127.0.0.1:2 }\n"), [""; 0]);
    assert_eq!(
        codes("version: 1\nlisten: { http: localhost:1, admin: LOCALHOST:1 }\n"),
        ["duplicate-listener"]
    );
}

#[test]
fn numbers_of_a_listener_hold_their_bounds() {
    let http = |field: &str| format!("version: 1\nlisten: {{ http: {{ address: 127.0.0.1:1, {field} }} }}\n");
    let listener = |field: &str| parse(&http(field)).expect(field).listen.http.unwrap();
    for (text, deadline) in [
        ("1ms", Duration::from_millis(1)),
        ("1000us", Duration::from_millis(1)),
        ("1m", Duration::from_secs(60)),
        ("60000000us", Duration::from_secs(60)),
    ] {
        assert_eq!(listener(&format!("deadline: {text}")).deadline, deadline, "{text}");
    }
    for text in ["999us", "60000001us", "0ms", "0", "1d", "99999999999999999999999d"] {
        assert_eq!(codes(&http(&format!("deadline: {text}"))), ["out-of-range"], "{text}");
    }
    for text in ["50", "1.5s", "-1s", "05ms", "1m30s", "ms", "50 ms"] {
        assert_eq!(codes(&http(&format!("deadline: {text}"))), ["bad-duration"], "{text}");
    }
    assert_eq!(listener("max_connections: 1").max_connections, 1);
    assert_eq!(listener("max_connections: 1000000").max_connections, 1_000_000);
    for text in ["0", "1000001", "4294967297", "99999999999999999999"] {
        assert_eq!(codes(&http(&format!("max_connections: {text}"))), ["out-of-range"], "{text}");
    }
    let log = |number: &str| format!("version: 1\nlog: {{ denied_per_second: {number} }}\n");
    assert_eq!(parse(&log("0")).unwrap().log.denied_per_second, 0);
    assert_eq!(parse(&log("10000")).unwrap().log.denied_per_second, 10_000);
    assert_eq!(codes(&log("10001")), ["out-of-range"]);
    assert_eq!(codes(&log("4294967296")), ["out-of-range"]);
}
