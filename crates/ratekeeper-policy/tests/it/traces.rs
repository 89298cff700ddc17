//! The configurations that decision vectors use, one of each form.

use crate::parse;

#[test]
fn configurations_written_as_json_are_read() {
    for limits in [
        r#"[{"name": "a", "algorithm": "fixed-window", "limit": "10/minute"}]"#,
        r#"[{"name": "a", "algorithm": "fixed-window", "limit": "5 per 10m", "align": "first-request"}]"#,
        r#"[{"name": "a", "algorithm": "fixed-window", "limit": "3/day", "align": "calendar", "timezone": "Australia/Lord_Howe"}]"#,
        r#"[{"name": "a", "algorithm": "sliding-window-log", "limit": "3 per 1us"}]"#,
        r#"[{"name": "a", "algorithm": "sliding-window-counter", "limit": "6 per 10s"}]"#,
        r#"[{"name": "a", "algorithm": "token-bucket", "limit": "10/s", "burst": 20}]"#,
        r#"[{"name": "a", "algorithm": "gcra", "limit": "1000000000/s", "burst": 1}]"#,
        r#"[{"name": "a", "algorithm": "leaky-bucket", "limit": "1/s", "burst": 5}]"#,
        r#"[{"name": "a", "algorithm": "leaky-bucket", "limit": "1/s", "queue": 10, "max_wait": "5s"}]"#,
        r#"[{"name": "user", "algorithm": "gcra", "limit": "1/s"},
            {"name": "tenant", "algorithm": "gcra", "limit": "5/s", "key": ["header:x-tenant"]},
            {"name": "global", "algorithm": "fixed-window", "limit": "9/s", "key": ["global"]}]"#,
    ] {
        let file = format!(
            r#"{{"version": 1, "stores": {{"local": {{"memory": {{"max_keys": 100000}}}}}}, "defaults": {{"store": "local"}}, "policies": [{{"name": "p", "key": ["header:x-user"], "limits": {limits}}}]}}"#
        );
        let config = parse(&file).unwrap_or_else(|errors| panic!("{errors}"));
        assert_eq!(config.stores[0].memory().unwrap().max_keys, 100_000);
        assert!(!config.policy("p").unwrap().limits().is_empty());
    }
}
