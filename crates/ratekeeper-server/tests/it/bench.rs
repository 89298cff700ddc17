//! `bench`: that it ends, what it prints, what it refuses.

use crate::support::{run, told};

#[test]
fn the_table_has_a_row_for_each_case_and_the_command_that_repeats_it() {
    let arguments = ["bench", "--seconds", "1", "--algorithm", "gcra", "--threads", "1,2", "--keys", "1e2"];
    let (stdout, stderr, code) = told(&run(&arguments, ""));
    assert_eq!((stderr.as_str(), code), ("", 0), "no progress off a terminal");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{stdout}");
    let head: Vec<&str> = lines[0].split_whitespace().take(10).collect();
    let columns = "store algorithm threads keys decisions/s ns/decision p50 p99 max bytes/key";
    assert_eq!(head, columns.split(' ').collect::<Vec<_>>());
    assert!(lines[0].contains(&format!("ratekeeper {}", env!("CARGO_PKG_VERSION"))), "{stdout}");
    assert!(lines[0].ends_with(", 1 s)"), "{stdout}");
    for (line, threads) in lines[1..3].iter().zip(["1", "2"]) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(cells[..4], ["memory", "gcra", threads, "100"], "{stdout}");
    }
    assert_eq!(
        lines[3],
        "again: ratekeeper bench --store memory --algorithm gcra --threads 1,2 --keys 100 --wire none --seconds 1"
    );
}

#[test]
fn json_has_the_same_for_programs_over_http_too() {
    for wire in ["none", "http"] {
        let arguments = [
            "bench",
            "--seconds",
            "1",
            "--algorithm",
            "fixed-window",
            "--keys",
            "50",
            "--wire",
            wire,
            "--format",
            "json",
        ];
        let (stdout, stderr, code) = told(&run(&arguments, ""));
        assert_eq!((stderr.as_str(), code), ("", 0));
        let report: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
        assert_eq!((&report["wire"], &report["seconds"]), (&wire.into(), &1.into()));
        let rows = report["rows"].as_array().expect("rows");
        let row = &rows[0];
        assert_eq!((rows.len(), &row["algorithm"], &row["keys"]), (1, &"fixed-window".into(), &50.into()));
        let number = |name: &str| row[name].as_u64().unwrap_or_else(|| panic!("{name}: {stdout}"));
        assert_eq!(number("allowed"), number("decisions"), "10^9 a second lets everything in");
        assert!(number("decisions_per_second") > 0 && number("ns_per_decision") > 0, "{stdout}");
        assert!(number("p50_ns") <= number("p99_ns") && number("p99_ns") <= number("max_ns"), "{stdout}");
        assert!(number("bytes_per_key") > 0, "{stdout}");
    }
}

#[test]
fn what_cannot_be_measured_is_bad_input() {
    for (flag, value, why) in [
        ("--algorithm", "gcrra", "did you mean `gcra`?"),
        ("--algorithm", "", "token-bucket"),
        ("--threads", "0", "1 to 256 threads"),
        ("--threads", "1,x", "1 to 256 threads"),
        ("--keys", "1e9", "1 to 100,000,000 keys"),
        ("--keys", "1.5", "for example 1000000 or 1e6"),
        ("--wire", "grpc", "not available in this version"),
        ("--store", "redis://localhost", "not available in this version"),
        ("--seconds", "0", "1..=3600"),
    ] {
        let (stdout, stderr, code) = told(&run(&["bench", flag, value], ""));
        assert_eq!((stdout.as_str(), code), ("", 2), "{flag} {value}: {stderr}");
        assert!(stderr.contains(why), "{flag} {value}: {stderr}");
    }
}
