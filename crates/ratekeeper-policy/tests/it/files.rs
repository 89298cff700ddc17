//! Files as bytes: encodings, line ends, bounds.

use ratekeeper_policy::{Config, MAX_ERRORS, MAX_FILE_BYTES, MAX_POLICIES};

use crate::{codes, limits, parse};

fn said(bytes: &[u8]) -> String {
    Config::parse("ratekeeper.yaml", bytes, &|_| None).expect_err("a mistake").render()
}

fn said_of(text: &str) -> String {
    said(text.as_bytes())
}

#[test]
fn bytes_that_are_no_utf8_are_shown_where_they_are() {
    assert_eq!(
        said(b"version: 1\nname: caf\xe9\n"),
        "error: the file is not UTF-8 text
 --> ratekeeper.yaml:2:10
  |
2 | name: caf\u{fffd}
  |          ^ save it as UTF-8
1 error in ratekeeper.yaml"
    );
    assert!(said(b"\xff\xfev\0e\0r\0").starts_with("error: the file is not UTF-8 text\n"));
    assert!(said(&[0xe2, 0x82]).contains("not UTF-8"), "a character that is cut at the end");
}

#[test]
fn a_byte_order_mark_is_refused() {
    let said = said(b"\xef\xbb\xbfversion: 1\n");
    assert!(
        said.starts_with("error: the file begins with a byte order mark\n --> ratekeeper.yaml:1:1\n"),
        "{said}"
    );
    assert!(said.contains("save it as UTF-8 without one"), "{said}");
}

#[test]
fn an_empty_file_says_how_to_begin() {
    assert_eq!(
        said(b""),
        "error: the configuration is empty
 --> ratekeeper.yaml:1:1
  |
1 |
  | ^ it begins with `version: 1`
1 error in ratekeeper.yaml"
    );
}

#[test]
fn lines_may_end_as_windows_ends_them() {
    let file = limits(&["name: a, algorithm: gcra, limit: 10/s"]).replace('\n', "\r\n");
    assert!(parse(&file).is_ok());
    assert_eq!(
        said(b"version: 1\r\npolicys: []\r\n"),
        "error: unknown field `policys`
 --> ratekeeper.yaml:2:1
  |
2 | policys: []
  | ^^^^^^^ did you mean `policies`?
1 error in ratekeeper.yaml"
    );
}

#[test]
fn tabs_are_refused_where_they_indent() {
    assert_eq!(
        said(b"version: 1\npolicies:\n\t- name: a\n"),
        "error: a tab cannot indent YAML
 --> ratekeeper.yaml:3:1
  |
3 |     - name: a
  | ^^^^ use spaces
1 error in ratekeeper.yaml"
    );
}

#[test]
fn carets_stand_under_wide_characters_and_columns_count_them_as_one() {
    assert_eq!(
        said("version: 1\npolicies: [{ name: \"日本\", key: [日本] }]\n".as_bytes()),
        "error: the policy has no `limits`
 --> ratekeeper.yaml:2:12
  |
2 | policies: [{ name: \"日本\", key: [日本] }]
  |            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ for example `limits: [{ name: burst, algorithm: gcra, limit: 10/s }]`; `action: bypass` lets all pass, `action: block` none
error: the name of a policy cannot be `日本`
 --> ratekeeper.yaml:2:20
  |
2 | policies: [{ name: \"日本\", key: [日本] }]
  |                    ^^^^^^ 1 to 64 of A-Z, a-z, 0-9, `_` and `-`
error: unknown kind of key `日本`
 --> ratekeeper.yaml:2:32
  |
2 | policies: [{ name: \"日本\", key: [日本] }]
  |                                  ^^^^ one of `ip`, `header`, `cookie`, `query`, `path`, `host`, `method`, `global` or `descriptor`
3 errors in ratekeeper.yaml"
    );
}

#[test]
fn a_long_line_is_shown_in_part() {
    let json = format!("{{\"version\": 1, \"x\": {:?}, \"policys\": []}}", "y".repeat(100_000));
    let said = said(json.as_bytes());
    assert!(said.contains("`policys`") && said.contains("^^^^^^^^^ did you mean `policies`?"), "{said}");
    assert!(said.contains("--> ratekeeper.yaml:1:100025\n"), "{said}");
    assert!(said.len() < 2_000, "{}", said.len());
    // A long mistake is cut too.
    let said = said_of(&format!("version: 1\n{}: 1\n", "z".repeat(900)));
    assert!(said.contains("\n --> ratekeeper.yaml:2:1\n") && said.len() < 2_000, "{said}");
}

#[test]
fn control_characters_of_a_file_never_reach_the_terminal() {
    let said = said("version: 1\n\"\u{9b}31m\": \"\u{202e}\u{7f}\"\n".as_bytes());
    assert!(said.chars().all(|c| c == '\n' || !c.is_control()), "{said:?}");
    assert!(!said.contains('\u{202e}'), "{said:?}");
}

#[test]
fn a_file_of_one_mebibyte_is_read_and_a_larger_one_is_not() {
    let fill = |size: usize| {
        let file = String::from("version: 1\n#");
        let rest = size - file.len();
        file + &"x".repeat(rest)
    };
    assert!(parse(&fill(MAX_FILE_BYTES)).is_ok());
    assert_eq!(
        said(fill(MAX_FILE_BYTES + 1).as_bytes()),
        "error: the file is larger than 1 MiB
 --> ratekeeper.yaml:1:1
1 error in ratekeeper.yaml"
    );
}

#[test]
fn ten_thousand_policies_are_read_and_one_more_is_not() {
    let file = |number: usize| {
        let policy =
            |i| format!("- {{name: p{i}, key: [ip], limits: [{{name: a, algorithm: gcra, limit: 1/s}}]}}\n");
        format!("version: 1\npolicies:\n{}", (0..number).map(policy).collect::<String>())
    };
    let config = parse(&file(MAX_POLICIES)).unwrap();
    assert_eq!(config.policies.len(), 10_000);
    assert_eq!(config.policy("p9999").unwrap().name().as_str(), "p9999");
    let errors = parse(&file(MAX_POLICIES + 1)).expect_err("one too many");
    assert_eq!(
        (errors.items.len(), errors.items[0].code, errors.items[0].line),
        (1, "too-many-policies", 10_003)
    );
}

#[test]
fn sixteen_limits_are_read_and_one_more_is_not() {
    let lines: Vec<String> = (0..17).map(|i| format!("name: l{i}, algorithm: gcra, limit: 10/s")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert_eq!(parse(&limits(&lines[..16])).unwrap().policies[0].limits().len(), 16);
    assert_eq!(codes(&limits(&lines)), ["too-many-limits"]);
}

#[test]
fn a_thousand_mistakes_are_shown_and_the_rest_is_said_to_be_there() {
    let file = |number: usize| {
        let lines: String = (0..number).map(|i| format!("x{i}: 1\n")).collect();
        format!("version: 1\n{lines}")
    };
    let errors = parse(&file(MAX_ERRORS)).expect_err("mistakes");
    assert_eq!(errors.items.len(), 1_000);
    assert!(errors.render().ends_with("\n1000 errors in ratekeeper.yaml"));
    let errors = parse(&file(MAX_ERRORS + 1)).expect_err("mistakes");
    assert_eq!(errors.items.len(), 1_000);
    assert!(errors.render().ends_with("\nmore than 1000 errors in ratekeeper.yaml"));
}

#[test]
fn names_of_policies_limits_and_stores_hold_their_bound() {
    let named = |name: &str| {
        format!(
            "version: 1\nstores: {{ {name}: {{ memory: {{}} }} }}\npolicies:\n  - name: {name}\n    key: [ip]\n    \
             limits: [{{ name: {name}, algorithm: gcra, limit: 1/s }}]\n"
        )
    };
    let longest = "Aa0_-".repeat(13)[..64].to_owned();
    assert!(parse(&named(&longest)).is_ok());
    assert_eq!(codes(&named(&(longest + "x"))), ["bad-name"; 3]);
    assert_eq!(codes(&named("a.b")), ["bad-name"; 3]);
}

#[test]
fn addresses_are_checked_before_anybody_listens() {
    let http = |address: &str| codes(&format!("version: 1\nlisten: {{ http: {address:?} }}\n"));
    for good in [
        "127.0.0.1:8080",
        "0.0.0.0:0",
        "[::]:65535",
        "[fe80::1]:80",
        "localhost:8080",
        "rate-keeper.example.com:80",
    ] {
        assert_eq!(http(good), [""; 0], "{good}");
    }
    for bad in [
        "8080",
        ":8080",
        "127.0.0.1",
        "127.0.0.1:",
        "127.0.0.1:65536",
        "127.0.0.1:+80",
        "256.0.0.1:80",
        "::1:80",
        "-a:80",
        "a..b:80",
        "a b:80",
        "http://localhost:80",
        "localhost:http",
        "*:80",
    ] {
        assert_eq!(http(bad), ["bad-address"], "{bad}");
    }
}

#[test]
fn variables_come_from_the_environment_that_is_handed_in() {
    let text = b"version: 1\nlisten:\n  http: ${ADDRESS:-127.0.0.1:1}\nstores:\n  local:\n    memory:\n      max_keys: ${KEYS}\n";
    let env = |name: &str| match name {
        "KEYS" => Some("77".to_owned()),
        _ => None,
    };
    let config = Config::parse("f", text, &env).unwrap();
    assert_eq!(config.listen.http.unwrap().address, "127.0.0.1:1");
    assert_eq!(config.stores[0].memory().unwrap().max_keys, 77);
    let env = |_: &str| Some("\u{1b}[31m".to_owned());
    let said = Config::parse("f", text, &env).expect_err("no number").render();
    assert!(!said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn sizes_of_a_memory_store_hold_their_bounds() {
    let memory =
        |size: &str| codes(&format!("version: 1\nstores: {{ local: {{ memory: {{ {size} }} }} }}\n"));
    for good in
        ["max_keys: 1", "max_keys: 1000000000", "max_bytes: 4096B", "max_bytes: 4KiB", "max_bytes: 1024GiB"]
    {
        assert_eq!(memory(good), [""; 0], "{good}");
    }
    for (bad, code) in [
        ("max_keys: 1000000001", "out-of-range"),
        ("max_keys: 99999999999999999999", "out-of-range"),
        ("max_bytes: 4095B", "out-of-range"),
        ("max_bytes: 1025GiB", "out-of-range"),
        ("max_bytes: 18446744073709551615GiB", "out-of-range"),
        ("max_bytes: 1.5GiB", "bad-size"),
        ("max_bytes: -1B", "bad-size"),
        ("max_bytes: 01KiB", "bad-size"),
        ("max_bytes: KiB", "bad-size"),
        ("max_bytes: 256mib", "bad-size"),
    ] {
        assert_eq!(memory(bad), [code], "{bad}");
    }
}

#[test]
fn keys_hold_their_bounds() {
    let file = |key: &str| limits(&["name: a, algorithm: gcra, limit: 1/s"]).replace("[ip]", key);
    let headers = |number: usize| (0..number).map(|i| format!("header:x{i}")).collect::<Vec<_>>().join(", ");
    assert_eq!(codes(&file(&format!("[{}]", headers(16)))), [""; 0]);
    assert_eq!(codes(&file(&format!("[{}]", headers(17)))), ["bad-key"]);
    assert_eq!(codes(&file(&format!("[[{}]]", headers(16)))), [""; 0]);
    assert_eq!(codes(&file(&format!("[[{}]]", headers(17)))), ["bad-key"]);
    assert_eq!(codes(&file("[[[ip]]]")), ["wrong-type"]);
}

#[test]
fn a_match_holds_its_bounds() {
    let codes = |conditions: &str| {
        let file = limits(&["name: a, algorithm: gcra, limit: 1/s"]);
        codes(&file.replace("    key:", &format!("    match: {{ {conditions} }}\n    key:")))
    };
    let list = |number: usize, one: fn(usize) -> String| (0..number).map(one).collect::<Vec<_>>().join(", ");
    let methods = |number| format!("method: [{}]", list(number, |i| format!("M{i}")));
    let headers = |number| format!("headers: {{ {} }}", list(number, |i| format!("x{i}: a")));
    let method = |bytes| format!("method: {}", "M".repeat(bytes));
    let header = |bytes| format!("headers: {{ {}: a }}", "x".repeat(bytes));
    let path = |bytes: usize| format!("path: /{}", "a".repeat(bytes - 1));
    let host = |bytes| format!("host: {}", "a".repeat(bytes));
    let segments = |number| format!("path: {}", "/a".repeat(number));
    let stars = |number| format!("headers: {{ x: \"a{}\" }}", "*a".repeat(number));
    for (good, bad, code) in [
        (methods(32), methods(33), "out-of-range"),
        (headers(16), headers(17), "out-of-range"),
        (method(64), method(65), "bad-pattern"),
        (header(128), header(129), "bad-name"),
        (path(1_024), path(1_025), "bad-pattern"),
        (host(1_024), host(1_025), "bad-pattern"),
        (segments(128), segments(129), "bad-pattern"),
        (stars(16), stars(17), "bad-pattern"),
    ] {
        assert_eq!(codes(&good), [""; 0], "{good}");
        assert_eq!(codes(&bad), [code], "{bad}");
    }
}
