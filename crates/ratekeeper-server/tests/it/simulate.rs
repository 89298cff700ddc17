//! `ratekeeper simulate`: transcripts, and what it refuses.

use crate::support::{Folder, command, run, run_command, told};

const SMS: [&str; 8] =
    ["simulate", "--limit", "1/minute", "--algorithm", "fixed-window", "--align", "first-request", "--trace"];

/// Runs a trace on a limit of one a minute.
fn sms(trace: impl AsRef<[u8]>) -> (String, String, i32) {
    told(&run(&[&SMS[..], &["-"]].concat(), trace))
}

#[test]
fn a_limit_on_the_command_line_stands_for_a_file() {
    let trace = "{\"t_us\":0,\"key\":\"u1\"}\n{\"t_us\":59999999,\"key\":\"u1\"}\n{\"t_us\":60000000,\"key\":\"u1\"}\n";
    let (stdout, stderr, code) = sms(trace);
    let expected = r#"{"t_us":0,"allowed":true,"remaining":0,"retry_after_us":0,"reset_after_us":60000000,"delay_us":0,"limit":"limit","limits":[{"name":"limit","remaining":0,"reset_after_us":60000000}]}
{"t_us":59999999,"allowed":false,"reason":"limited","remaining":0,"retry_after_us":1,"reset_after_us":1,"delay_us":0,"limit":"limit","limits":[{"name":"limit","remaining":0,"reset_after_us":1}]}
{"t_us":60000000,"allowed":true,"remaining":0,"retry_after_us":0,"reset_after_us":60000000,"delay_us":0,"limit":"limit","limits":[{"name":"limit","remaining":0,"reset_after_us":60000000}]}
"#;
    assert_eq!((stdout.as_str(), stderr.as_str(), code), (expected, "", 0));
}

#[test]
fn every_option_of_a_limit_has_its_flag() {
    let queue: &[&str] = &["10/s", "leaky-bucket", "--queue", "3", "--max-wait", "200ms"];
    let burst: &[&str] = &["10/s", "gcra", "--burst", "20"];
    let day: &[&str] = &["5/day", "fixed-window", "--align", "calendar", "--timezone", "Europe/Paris"];
    for (flags, remaining, reset) in [(queue, 2, 100_000), (burst, 19, 100_000), (day, 4, 82_800_000_000_u64)]
    {
        let mut arguments = vec!["simulate", "--limit", flags[0], "--algorithm", flags[1]];
        arguments.extend(&flags[2..]);
        arguments.extend(["--trace", "-"]);
        let (stdout, stderr, code) = told(&run(&arguments, "{\"t_us\":0,\"key\":\"k\"}"));
        assert_eq!((stderr.as_str(), code), ("", 0), "{flags:?}");
        let expected = format!("\"remaining\":{remaining},\"retry_after_us\":0,\"reset_after_us\":{reset},");
        assert!(stdout.contains(&expected), "{flags:?}: {stdout}");
    }
}

#[test]
fn a_wrong_line_ends_the_run_with_2_after_what_stood_before_it() {
    let good = "{\"t_us\":0,\"key\":\"k\"}\n\n";
    let long = format!("{{\"t_us\":0,\"key\":\"{}\"}}", "k".repeat(65_536));
    let big_key = format!("{{\"t_us\":0,\"key\":\"{}\"}}", "k".repeat(1_025));
    let cases: &[(&[u8], &str)] = &[
        (br#"{"t_us":0,"key":"k","weight":1}"#, "unknown field `weight`"),
        (br#"{"t_us":0,"key":"k","t_us":0}"#, "duplicate field `t_us`"),
        (br#"{"t_us":0,"key":"k","op":"take"}"#, "unknown op `take`"),
        (br#"{"t_us":0,"key":"k","policy":"other"}"#, "unknown policy `other`"),
        (br#"{"t_us":0,"key":"k","keys":{"other":"x"}}"#, "no limit `other`"),
        (br#"{"t_us":-1,"key":"k"}"#, "`t_us` is a whole number from 0 to 9007199254740991, not `-1`"),
        (br#"{"t_us":9007199254740992,"key":"k"}"#, "`t_us` is a whole number"),
        (br#"{"t_us":1.0,"key":"k"}"#, "without point or exponent"),
        (br#"{"t_us":0,"key":"k","cost":1e1}"#, "without point or exponent"),
        (br#"{"t_us":0,"key":"k","cost":18446744073709551616}"#, "`cost` is a whole number"),
        (br#"{"key":"k"}"#, "`t_us` is missing"),
        (br#"{"t_us":0}"#, "`key` is missing"),
        (br#"{"t_us":0,"key":""}"#, "`key` is empty"),
        (big_key.as_bytes(), "a key is at most 1024 bytes"),
        (b"{\"t_us\":0,\"key\":\"\xff\"}", "not UTF-8: column 18"),
        (b"hello", "not JSON"),
        (b"[]", "expected a JSON object"),
        (long.as_bytes(), "longer than 65536 bytes"),
        (br#"{"t_us":0,"key":"k","op":"refund","of":1}"#, "`of` names step 1, but this line is step 1"),
        (br#"{"t_us":0,"key":"k","of":0}"#, "`of` belongs to"),
    ];
    for (line, message) in cases {
        let trace = [good.as_bytes(), line, b"\n", good.as_bytes()].concat();
        let (stdout, stderr, code) = sms(trace);
        let case = String::from_utf8_lossy(&line[..line.len().min(80)]);
        assert_eq!((stdout.lines().count(), code), (1, 2), "{case}: {stderr}");
        assert!(stderr.starts_with("error: line 3: "), "{case}: {stderr}");
        assert!(stderr.contains(message), "{case}: {stderr}");
        assert!(stderr.contains("--> <stdin>:3:"), "{case}: {stderr}");
        assert!(stderr.len() < 1_000, "{case}: {} bytes of message", stderr.len());
    }
}

#[test]
fn a_trace_in_a_file_is_named_in_its_messages() {
    let folder = Folder::new();
    let trace = folder.file("trace.jsonl", "{\"t_us\":0,\"key\":\"k\"}\n{}\n");
    let (stdout, stderr, code) = told(&run(&[&SMS[..], &[trace.to_str().expect("UTF-8")]].concat(), ""));
    assert_eq!((stdout.lines().count(), code), (1, 2));
    assert!(stderr.contains("trace.jsonl:2:1"), "{stderr}");
}

#[test]
fn what_cannot_be_run_ends_with_2_and_says_why() {
    let folder = Folder::new();
    let file = folder.file("bad.yaml", "version: 1\npolicies:\n  - { name: p, key: [ip], limits: [{ name: l, algorithm: gcr, limit: 1/s }] }\n");
    let two = folder.file("two.yaml", TWO);
    let empty = folder.file("empty.yaml", "version: 1\n");
    let empty = empty.to_str().expect("UTF-8");
    let (bad, two) = (file.to_str().expect("UTF-8"), two.to_str().expect("UTF-8"));
    let cases: &[(&[&str], &str)] = &[
        (&["--config", bad, "--trace", "-"], "unknown algorithm `gcr`"),
        (&["--config", "/does/not/exist.yaml", "--trace", "-"], "cannot read /does/not/exist.yaml"),
        (&["--config", two, "--policy", "abc", "--trace", "-"], "unknown policy `abc`"),
        (&["--config", two, "--policy", "logi", "--trace", "-"], "did you mean `login`?"),
        (
            &["--config", two, "--trace", "/does/not/exist.jsonl"],
            "cannot read the trace /does/not/exist.jsonl",
        ),
        (&["--limit", "1/s", "--algorithm", "gcra", "--trace", "/"], "cannot read the trace /"),
        (&["--config", two, "--trace", "-"], "no policy is named, and there are 2"),
        (&["--config", "-", "--trace", "-"], "cannot both be stdin"),
        (&["--config", two], "--trace"),
        (&["--limit", "1/s", "--trace", "-"], "--algorithm"),
        (&["--limit", "1/s", "--algorithm", "gcra", "--config", two, "--trace", "-"], "--config"),
        (&["--limit", "0/s", "--algorithm", "gcra", "--trace", "-"], "--limit"),
        (&["--limit", "1/s", "--algorithm", "grca", "--trace", "-"], "did you mean `gcra`?"),
        (&["--limit", "1/s", "--algorithm", "gcra", "--queue", "1", "--trace", "-"], "--queue"),
        (
            &["--limit", "1/s", "--algorithm", "gcra", "--policy", "policy", "--trace", "-"],
            "`--limit` has no policies: leave `--policy` out",
        ),
        (
            &["--limit", "1/s", "--algorithm", "gcra", "--burst", "-1", "--trace", "-"],
            "--burst: `--burst` is a whole number in plain digits",
        ),
        (
            &["--limit", "-3/day", "--algorithm", "gcra", "--trace", "-"],
            "--limit: a limit begins with a whole number",
        ),
        (
            &["--limit", "1/day", "--algorithm", "fixed-window", "--align", "calendar", "--trace", "-"],
            "for example `--timezone Europe/Paris`",
        ),
        (&["--config", empty, "--policy", "x", "--trace", "-"], "the file has none"),
        (&["--config", two, "--store", "disk", "--trace", "-"], "unknown store `disk`"),
    ];
    for (arguments, message) in cases {
        let (stdout, stderr, code) =
            told(&run(&[&["simulate"], *arguments].concat(), "{\"t_us\":0,\"key\":\"k\"}"));
        assert_eq!((stdout.as_str(), code), ("", 2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(message), "{arguments:?}: {stderr}");
    }
}

const TWO: &str = "
version: 1
policies:
  - { name: login, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 1/s }] }
  - { name: sms, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 2/s }] }
";

#[test]
fn the_configuration_comes_from_flag_environment_stdin_or_the_default_file() {
    let folder = Folder::new();
    folder.file("ratekeeper.yaml", TWO.replace("sms", "default"));
    folder.file("environment.yaml", TWO.replace("sms", "environment"));
    folder.file("flag.yaml", TWO.replace("sms", "flag"));
    folder.file("trace.jsonl", "{\"t_us\":0,\"key\":\"k\"}");
    let ask = |policy: &str, flag: &[&str], environment: Option<&str>, stdin: &str| {
        let mut command = command(&["simulate", "--trace", "trace.jsonl", "--policy", policy]);
        command.args(flag).current_dir(folder.path());
        if let Some(file) = environment {
            command.env("RATEKEEPER_CONFIG", file);
        }
        let (_, stderr, code) = told(&run_command(command, stdin.as_bytes()));
        assert_eq!(code, 0, "{policy}: {stderr}");
    };
    ask("default", &[], None, "");
    ask("environment", &[], Some("environment.yaml"), "");
    ask("flag", &["--config", "flag.yaml"], Some("environment.yaml"), "");
    ask("stdin", &["--config", "-"], Some("environment.yaml"), &TWO.replace("sms", "stdin"));
    ask("stdin", &[], Some("-"), &TWO.replace("sms", "stdin"));
}

#[test]
fn a_full_store_that_denies_says_store_unavailable() {
    let folder = Folder::new();
    let config = folder.file(
        "c.yaml",
        "
version: 1
stores: { local: { memory: { max_keys: 1, on_full: deny } } }
policies: [{ name: p, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 1/minute }] }]
",
    );
    let trace: String = (0..10_000).map(|i| format!("{{\"t_us\":0,\"key\":\"k{i}\"}}\n")).collect();
    let (stdout, _, code) =
        told(&run(&["simulate", "--config", config.to_str().expect("UTF-8"), "--trace", "-"], trace));
    assert_eq!((stdout.lines().count(), code), (10_000, 0));
    assert!(
        stdout.contains("\"allowed\":false,\"reason\":\"store_unavailable\",\"remaining\":0"),
        "{stdout}"
    );
}

#[test]
fn a_reader_that_goes_away_is_a_quiet_end() {
    let folder = Folder::new();
    let trace = folder.file("trace.jsonl", "{\"t_us\":0,\"key\":\"k\"}\n".repeat(100_000));
    let script = format!(
        "set -o pipefail; {} simulate --limit 1/s --algorithm gcra --trace {} | head -n 1",
        crate::support::RATEKEEPER,
        trace.display()
    );
    let mut bash = std::process::Command::new("bash");
    bash.args(["-c", &script]);
    let (stdout, stderr, code) = told(&run_command(bash, b""));
    assert_eq!((stdout.lines().count(), stderr.as_str(), code), (1, "", 0));
}

#[test]
fn output_that_cannot_be_written_ends_with_1() {
    let script =
        format!("{} simulate --limit 1/s --algorithm gcra --trace - > /dev/full", crate::support::RATEKEEPER);
    let mut bash = std::process::Command::new("bash");
    bash.args(["-c", &script]);
    let (_, stderr, code) = told(&run_command(bash, b"{\"t_us\":0,\"key\":\"k\"}"));
    assert_eq!(code, 1);
    assert!(stderr.contains("cannot write the output"), "{stderr}");
}

#[test]
fn the_help_says_what_of_counts() {
    let (stdout, _, _) = told(&run(&["simulate", "--help"], ""));
    let text = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("`of` is the number of the step, from 0, empty lines not counted"), "{stdout}");
}
