//! `validate`, `demo --print-config` and the manners of the command line.

use crate::support::{Folder, run, told};

#[test]
fn validate_counts_what_is_there() {
    let folder = Folder::new();
    let demo = told(&run(&["demo", "--print-config"], "")).0;
    let file = folder.file("ratekeeper.yaml", &demo);
    let name = file.to_str().expect("UTF-8");
    let expected = format!("{name}: 5 policies, 7 limits, 0 errors, 0 warnings\n");
    for arguments in [&["validate", name][..], &["validate", "--config", name]] {
        assert_eq!(told(&run(arguments, "")), (expected.clone(), String::new(), 0));
    }
    let stdin = told(&run(&["validate", "-"], &demo));
    assert_eq!(stdin.0, "<stdin>: 5 policies, 7 limits, 0 errors, 0 warnings\n");
    let (json, _, code) = told(&run(&["validate", "--format", "json", "-"], &demo));
    assert_eq!(json, "{\"file\":\"<stdin>\",\"policies\":5,\"limits\":7,\"errors\":[],\"warnings\":[]}\n");
    assert_eq!(code, 0);
}

#[test]
fn validate_says_all_that_is_wrong_at_once_and_ends_with_2() {
    let text = "\
version: 1
policies:
  - name: p
    key: [ip]
    limits:
      - { name: a, algorithm: token-buket, limit: 10/s }
      - { name: b, algorithm: gcra, limit: 10/z }
";
    let (stdout, stderr, code) = told(&run(&["validate", "-"], text));
    assert_eq!((stdout.as_str(), code), ("", 2));
    assert!(stderr.contains("unknown algorithm `token-buket`\n --> <stdin>:6:31"), "{stderr}");
    assert!(stderr.contains("did you mean `token-bucket`?"), "{stderr}");
    assert!(stderr.contains("--> <stdin>:7:44"), "{stderr}");
    assert!(stderr.contains("2 errors in <stdin>"), "{stderr}");
    let (stdout, _, code) = told(&run(&["validate", "-", "--format", "json"], text));
    let report: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
    assert_eq!((report["errors"].as_array().map(Vec::len), code), (Some(2), 2));
    let first = &report["errors"][0];
    assert_eq!((&first["line"], &first["column"]), (&6.into(), &31.into()));
    assert_eq!((&first["file"], &first["severity"]), (&"<stdin>".into(), &"error".into()));
    assert_eq!(first["hint"], "did you mean `token-bucket`?");
}

#[test]
fn the_json_of_validate_is_there_whatever_is_wrong() {
    let report = |arguments: &[&str], stdin: &str| {
        let (stdout, stderr, code) =
            told(&run(&[&["validate", "--format", "json"], arguments].concat(), stdin));
        let report: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
        (report, stderr, code)
    };
    let (unreadable, stderr, code) = report(&["/does/not/exist.yaml"], "");
    assert_eq!((code, &unreadable["errors"][0]["code"]), (2, &"unreadable".into()));
    let message = unreadable["errors"][0]["message"].as_str().expect("text");
    assert!(message.starts_with("cannot read /does/not/exist.yaml: "), "{message}");
    assert!(stderr.contains("cannot read /does/not/exist.yaml"), "{stderr}");
    let text = "version: 1\npolicies: [{ name: p, key: [ip], limits: [{ name: a }, { name: b }] }]\n";
    let (wrong, _, code) = report(&["-"], text);
    assert_eq!((code, &wrong["policies"], &wrong["limits"]), (2, &1.into(), &2.into()));
    let (empty, _, code) = report(&["-"], "version: 1");
    assert_eq!((code, &empty["warnings"][0]["code"]), (0, &"no-policies".into()));
    assert_eq!(empty["warnings"][0]["severity"], "warning");
}

#[test]
fn a_file_without_policies_is_good_but_warned_about() {
    let (stdout, stderr, code) = told(&run(&["validate", "-"], "version: 1"));
    assert_eq!(stdout, "<stdin>: 0 policies, 0 limits, 0 errors, 1 warning\n");
    assert_eq!(code, 0);
    assert!(stderr.starts_with("warning: no policies: nobody is limited\n --> <stdin>:1:1\n"), "{stderr}");
    assert!(stderr.ends_with("^ add one below `policies:`\n"), "{stderr}");
}

#[test]
fn serve_refuses_what_validate_refuses() {
    let text = "version: 1\npolicies: [{ name: p }]\n";
    let (_, validated, _) = told(&run(&["validate", "-"], text));
    let (stdout, served, code) = told(&run(&["serve", "--config", "-", "--http", "127.0.0.1:0"], text));
    assert_eq!((stdout.as_str(), served, code), ("", validated, 2));
}

#[test]
fn a_file_that_is_not_there_is_named() {
    for verb in ["serve", "validate"] {
        let (stdout, stderr, code) = told(&run(&[verb, "--config", "/does/not/exist.yaml"], ""));
        assert_eq!((stdout.as_str(), code), ("", 2));
        assert!(stderr.contains("cannot read /does/not/exist.yaml"), "{stderr}");
        assert!(stderr.contains("ratekeeper demo"), "{stderr}");
    }
}

#[test]
fn a_file_that_opens_no_listener_is_told_how_to() {
    let text = "version: 1\nlisten: {}\npolicies: []\n";
    let (stdout, stderr, code) = told(&run(&["serve", "--config", "-"], text));
    assert_eq!((stdout.as_str(), code), ("", 2), "{stderr}");
    assert!(stderr.contains("--http ADDR") || stderr.contains("listen"), "{stderr}");
}

#[test]
fn usage_errors_end_with_2_on_stderr_and_help_with_0_on_stdout() {
    for arguments in [&["frobnicate"][..], &["serve", "--nonsense"], &["validate", "a", "b"], &[]] {
        let (stdout, stderr, code) = told(&run(arguments, ""));
        assert_eq!((stdout.as_str(), code), ("", 2), "{arguments:?}");
        assert!(stderr.contains("Usage:"), "{stderr}");
    }
    for arguments in
        [&["--help"][..], &["serve", "--help"], &["demo", "-h"], &["simulate", "--help"], &["check", "-h"]]
    {
        let (stdout, stderr, code) = told(&run(arguments, ""));
        assert_eq!((stderr.as_str(), code), ("", 0), "{arguments:?}");
        assert!(stdout.contains("Usage:"), "{stdout}");
        assert!(!stdout.contains('\u{1b}'), "no colour off a terminal");
    }
    let (stdout, _, code) = told(&run(&["--version"], ""));
    assert_eq!((stdout, code), (format!("ratekeeper {}\n", env!("CARGO_PKG_VERSION")), 0));
}

#[test]
fn an_address_that_is_none_is_bad_input() {
    for address in ["nonsense", "127.0.0.1", "127.0.0.1:99999", ""] {
        let (stdout, stderr, code) = told(&run(&["demo", "--http", address], ""));
        assert_eq!((stdout.as_str(), code), ("", 2), "{address}: {stderr}");
        assert!(stderr.contains("is no address to listen on"), "{stderr}");
    }
}
