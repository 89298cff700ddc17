//! `validate --strict` and `--explain-limits`.

use serde_json::Value;

use crate::support::{Folder, run, told};

/// One warning: quotes keep a variable from being expanded.
const WARNED: &str = "\
version: 1
listen: { http: { address: 127.0.0.1:8080, tls: { cert: \"${CERT}\", key: key.pem } } }
policies:
  - name: p
    key: [ip]
    limits: [{ name: a, algorithm: gcra, limit: 10/s }]
";

/// A limit of each kind.
const ALL: &str = "\
version: 1
policies:
  - name: p
    key: [ip]
    limits:
      - { name: bucket, algorithm: token-bucket, limit: 10/s, burst: 20 }
      - { name: gcra, algorithm: gcra, limit: 7/s }
      - { name: level, algorithm: leaky-bucket, limit: 5/s }
      - { name: fixed, algorithm: fixed-window, limit: 10/minute }
      - { name: first, algorithm: fixed-window, limit: 1/minute, align: first-request }
      - { name: counter, algorithm: sliding-window-counter, limit: 10/s }
      - { name: log, algorithm: sliding-window-log, limit: 10/s }
      - { name: queue, algorithm: leaky-bucket, limit: 2/s, queue: 10 }
";

#[test]
fn strict_takes_warnings_for_errors_and_says_so() {
    let (stdout, stderr, code) = told(&run(&["validate", "-"], WARNED));
    assert_eq!((stdout.as_str(), code), ("<stdin>: 1 policy, 1 limit, 0 errors, 1 warning\n", 0));
    assert!(stderr.starts_with("warning: "), "{stderr}");
    let message = stderr.trim_start_matches("warning: ").trim_end();

    let (stdout, stderr, code) = told(&run(&["validate", "-", "--strict"], WARNED));
    assert_eq!((stdout.as_str(), code), ("", 2));
    assert!(stderr.contains(message), "{stderr}");
    assert!(stderr.contains("\n --> <stdin>:2:57\n"), "{stderr}");
    let counts = "<stdin>: 1 policy, 1 limit, 1 error, since --strict takes warnings for errors\n";
    assert!(stderr.ends_with(counts), "{stderr}");
    // Errors are not held back by a wish for quiet.
    assert_eq!(told(&run(&["validate", "-", "--strict", "-q"], WARNED)).1, stderr);
}

#[test]
fn strict_changes_nothing_where_nothing_is_warned_about() {
    for text in [ALL, "version: 1\npolicies: [{ name: p }]\n"] {
        for more in [&[][..], &["--format", "json"], &["--explain-limits"]] {
            let arguments = [&["validate", "-"], more].concat();
            let strict = [&arguments[..], &["--strict"]].concat();
            assert_eq!(told(&run(&strict, text)), told(&run(&arguments, text)), "{more:?}");
        }
    }
}

#[test]
fn the_json_of_strict_has_the_warnings_among_the_errors() {
    let read = |arguments: &[&str]| {
        let (stdout, stderr, code) = told(&run(arguments, WARNED));
        (serde_json::from_str::<Value>(&stdout).expect("JSON"), stderr, code)
    };
    let (lax, _, code) = read(&["validate", "-", "--format", "json"]);
    assert_eq!((code, lax["errors"].as_array().map(Vec::len)), (0, Some(0)));
    let mut warning = lax["warnings"][0].clone();
    let fields = ["file", "line", "column", "severity", "code", "message", "hint"];
    assert!(warning.as_object().expect("an object").keys().all(|key| fields.contains(&key.as_str())));
    assert_eq!((&warning["severity"], &warning["line"]), (&"warning".into(), &2.into()));

    let (strict, stderr, code) = read(&["validate", "-", "--format", "json", "--strict", "--explain-limits"]);
    warning["severity"] = "error".into();
    assert_eq!((code, &strict["errors"][0], stderr.as_str()), (2, &warning, "1 error in <stdin>\n"));
    assert_eq!(strict["warnings"].as_array().map(Vec::len), Some(0));
    assert!(strict.get("explain_limits").is_none(), "limits of a file that is refused are not explained");
}

#[test]
fn limits_are_explained_as_a_table() {
    let (stdout, stderr, code) = told(&run(&["validate", "-", "--explain-limits"], ALL));
    assert_eq!((stderr.as_str(), code), ("", 0));
    let expected = "\
<stdin>: 1 policy, 8 limits, 0 errors, 0 warnings
policy  limit    algorithm               rate       at once   any 1 s  its window         any day   bytes a key
p       bucket   token-bucket            10/s            20        29          29         864,019            44
p       gcra     gcra                    7/s              7        13          13         604,806            44
p       level    leaky-bucket            5/s              5         9           9         432,004            44
p       fixed    fixed-window            10/minute       10        20          20          14,410            44
p       first    fixed-window            1/minute         1         1           1           1,440            44
p       counter  sliding-window-counter  10/s            10        19          19         864,009            44
p       log      sliding-window-log      10/s            10        10          10         864,000  32 + log 232
p       queue    leaky-bucket            2/s             11  2 starts    2 starts  172,800 starts            44
";
    let (table, notes) = stdout.split_at(stdout.find("any 1 s, its window").expect("a note"));
    assert_eq!(table, expected);
    assert_eq!(notes.lines().count(), 3, "{notes}");
}

#[test]
fn notes_are_of_what_the_table_shows() {
    let demo = told(&run(&["demo", "--print-config"], "")).0;
    let one = "version: 1\npolicies: [{ name: p, key: [ip], limits: [{ name: a, algorithm: gcra, limit: 10/s }] }]\n";
    let notes = |text: &str| {
        let (stdout, _, _) = told(&run(&["validate", "-", "--explain-limits"], text));
        (stdout.contains("\nstarts: "), stdout.contains("\nbytes + log: "))
    };
    assert_eq!((notes(&demo), notes(one)), ((true, true), (false, false)));
}

#[test]
fn limits_are_explained_as_json() {
    let arguments = ["validate", "-", "--explain-limits", "--format", "json"];
    let (stdout, _, code) = told(&run(&arguments, ALL));
    let report: Value = serde_json::from_str(&stdout).expect("JSON");
    let limits = report["explain_limits"].as_array().expect("an array");
    assert_eq!((code, limits.len()), (0, 8));
    let first = r#"{"policy":"p","limit":"bucket","algorithm":"token-bucket","rate":"10/s","window_us":1000000,"capacity":20,"counts":"units","worst_case":{"second":29,"window":29,"day":864019},"bytes_per_key":{"table":44,"log":0}}"#;
    assert!(stdout.contains(first), "{stdout}");
    assert_eq!(limits[7]["counts"], "starts");
    assert!(
        serde_json::from_str::<Value>(&told(&run(&["validate", "-", "--format", "json"], ALL)).0)
            .expect("JSON")
            .get("explain_limits")
            .is_none()
    );
}

/// The most units that any span of `span_us`, without its end, holds.
fn most_within(admitted: &[u64], span_us: u64) -> u64 {
    let within = |from: &u64| admitted.iter().filter(|t| (*from..from + span_us).contains(t)).count() as u64;
    admitted.iter().map(within).max().unwrap_or(0)
}

/// When a limit admits, asked for one unit at each of these instants.
fn admitted(file: &str, policy: &str, asked: impl Iterator<Item = u64>) -> Vec<u64> {
    let trace: String = asked.map(|t_us| format!("{{\"t_us\":{t_us},\"key\":\"k\"}}\n")).collect();
    let (stdout, stderr, code) =
        told(&run(&["simulate", "--config", file, "--policy", policy, "--trace", "-"], trace));
    assert_eq!((stderr.as_str(), code), ("", 0));
    let answers = stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let allowed = answers.filter(|answer| answer["allowed"] == true);
    allowed.map(|answer| answer["t_us"].as_u64().expect("an instant")).collect()
}

#[test]
fn the_worst_case_of_a_window_is_reached_and_not_passed() {
    let limits = [
        "algorithm: token-bucket, limit: 10/s, burst: 20",
        "algorithm: gcra, limit: 4/s",
        "algorithm: leaky-bucket, limit: 5/s, burst: 3",
        "algorithm: fixed-window, limit: 10/s",
        "algorithm: sliding-window-counter, limit: 8/s",
        "algorithm: sliding-window-log, limit: 10/s",
    ];
    let policies: String = limits
        .iter()
        .enumerate()
        .map(|(i, limit)| format!("  - {{ name: p{i}, key: [ip], limits: [{{ name: l, {limit} }}] }}\n"))
        .collect();
    let folder = Folder::new();
    let file = folder.file("ratekeeper.yaml", format!("version: 1\npolicies:\n{policies}"));
    let file = file.to_str().expect("UTF-8");
    let (report, _, _) = told(&run(&["validate", file, "--explain-limits", "--format", "json"], ""));
    let report: Value = serde_json::from_str(&report).expect("JSON");
    // Everything at the end of one window, then again as soon as something passes.
    let burst = std::iter::repeat_n(999_999, 40);
    let asked = || burst.clone().chain((1_000_000..4_000_000).step_by(500).flat_map(|t| [t; 2]));
    for (i, limit) in limits.iter().enumerate() {
        let said = report["explain_limits"][i]["worst_case"]["window"].as_u64().expect("a number");
        let most = most_within(&admitted(file, &format!("p{i}"), asked()), 1_000_000);
        assert_eq!(most, said, "{limit}");
    }
}

#[test]
fn windows_from_the_first_request_reach_their_worst_case_when_that_one_is_given_back() {
    let trace = "\
{\"t_us\":0,\"key\":\"k\"}
{\"t_us\":59999999,\"key\":\"k\"}
{\"t_us\":59999999,\"op\":\"refund\",\"of\":0}
{\"t_us\":59999999,\"key\":\"k\"}
{\"t_us\":60000000,\"key\":\"k\"}
{\"t_us\":60000000,\"key\":\"k\"}
{\"t_us\":60000000,\"key\":\"k\"}
";
    let limit = ["--limit", "2/minute", "--algorithm", "fixed-window", "--align", "first-request"];
    let (stdout, _, _) = told(&run(&[&["simulate"], &limit[..], &["--trace", "-"]].concat(), trace));
    let allowed: Vec<bool> = stdout.lines().map(|line| line.contains("\"allowed\":true")).collect();
    // Four within two moments, none of which was given back.
    assert_eq!(allowed, [true, true, true, true, true, true, false], "{stdout}");
    let file = "version: 1\npolicies: [{ name: p, key: [ip], limits: [{ name: a, algorithm: fixed-window, limit: 2/minute, align: first-request }] }]\n";
    let (stdout, _, _) = told(&run(&["validate", "-", "--explain-limits", "--format", "json"], file));
    assert!(stdout.contains(r#""worst_case":{"second":4,"#), "{stdout}");
}
