//! What a client is told about waiting, over policies and requests that nobody has chosen.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use crate::fields;
use crate::support::{Connection, Server, Stopwatch, request};

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        let index = self.below(all.len() as u64);
        all[usize::try_from(index).expect("small")]
    }
}

const ALGORITHMS: [&str; 6] =
    ["fixed-window", "sliding-window-counter", "sliding-window-log", "token-bucket", "leaky-bucket", "gcra"];

/// A limit of an algorithm that somebody could have written. A policy has at most one queue.
fn limit(dice: &mut Dice, algorithm: &str, window: &str, may_queue: bool) -> String {
    let most = dice.one_of(&[1, 2, 3, 7, 10, 60]);
    let mut limit = format!("algorithm: {algorithm}, limit: {most} per {window}");
    match (algorithm, dice.below(2)) {
        ("fixed-window", 0) => limit.push_str(", align: first-request"),
        ("leaky-bucket", 0) if may_queue => limit.push_str(", queue: 2"),
        ("token-bucket" | "gcra" | "leaky-bucket", _) => {
            let _ = write!(limit, ", burst: {}", dice.one_of(&[1, 2, 5]));
        }
        _ => {}
    }
    limit
}

fn ask(connection: &mut Connection, policy: usize, key: &str, cost: u64) -> crate::support::Response {
    let body = format!(r#"{{"policy":"p{policy}","key":"{key}","cost":{cost}}}"#);
    connection.send(&request("POST", "/v1/check", "prefer: status=429\r\n", body.as_bytes()));
    connection.response()
}

#[test]
fn the_fields_of_every_answer_are_true_to_each_other_over_random_policies() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut file = "version: 1\npolicies:\n".to_owned();
    let policies = 120;
    for policy in 0..policies {
        let headers = dice.one_of(&["", "headers: []\n    ", "headers: [ratelimit, x-ratelimit]\n    "]);
        let _ = write!(file, "  - name: p{policy}\n    key: [ip]\n    group: g\n    {headers}limits:\n");
        for index in 0..=dice.below(4) {
            let algorithm = dice.one_of(&ALGORITHMS);
            let window = dice.one_of(&["1ms", "7ms", "100ms", "999ms", "1s", "1001ms", "90s", "1h", "1d"]);
            let _ = writeln!(
                file,
                "      - {{ name: l{index}, {} }}",
                limit(&mut dice, algorithm, window, index == 0)
            );
        }
    }
    let server = Server::of(&file);
    let mut connection = server.connect();
    let mut statuses = BTreeSet::new();
    let mut refused = 0;
    for policy in 0..policies {
        for _ in 0..40 {
            let answer = ask(&mut connection, policy, "k", dice.one_of(&[0, 1, 1, 1, 2, 5]));
            fields::check(&answer);
            statuses.insert(answer.status);
            if answer.status == 429 {
                refused += 1;
                // Only those that refuse are listed, and they are the ones that the body names.
                let listed = fields::items(answer.header("ratelimit").expect("a 429 has it"));
                let listed: Vec<String> = listed.into_iter().map(|item| item.name).collect();
                let violated: Vec<String> =
                    serde_json::from_value(answer.json()["violated-policies"].clone())
                        .expect("a list of names");
                assert_eq!(listed, violated);
                let named = format!(
                    "{}.{}",
                    answer.json()["policy"].as_str().expect("a name"),
                    answer.json()["limit"].as_str().expect("a name")
                );
                assert!(listed.contains(&named), "{named} is not in {listed:?}");
            }
        }
    }
    assert_eq!(statuses.into_iter().collect::<Vec<_>>(), [200, 413, 429]);
    assert!(refused > 500, "only {refused}");
}

#[test]
fn who_waits_for_as_long_as_it_was_told_is_admitted() {
    let mut dice = Dice(0x1234_5678_9abc_def1);
    let mut file = "version: 1\npolicies:\n".to_owned();
    let windows = ["1ms", "3ms", "10ms", "17ms", "30ms"];
    let mut policies = 0;
    for algorithm in ALGORITHMS {
        for window in windows {
            let limit = limit(&mut dice, algorithm, window, true);
            let _ = writeln!(
                file,
                "  - {{ name: p{policies}, key: [ip], group: g, limits: [{{ name: l, {limit} }}, \
                 {{ name: hour, algorithm: gcra, limit: 100000/hour, burst: 100000 }}] }}"
            );
            policies += 1;
        }
    }
    let server = Server::of(&file);
    let mut connection = server.connect();
    let mut waited = Duration::ZERO;
    let mut admitted = 0;
    for policy in 0..policies {
        for key in ["a", "b"] {
            // Until one is refused; a window of a millisecond may end before it is full.
            let refused =
                (0..100).map(|_| ask(&mut connection, policy, key, 1)).find(|answer| answer.status == 429);
            let Some(refused) = refused else { continue };
            let millis = refused.json()["retry_after_ms"].as_u64().expect("a number");
            assert!((1..=1_000).contains(&millis), "{}", refused.body);
            let wait = Duration::from_millis(millis);
            let waiting = Stopwatch::start();
            // The server's clock is the real one, and this is what its answer promises of it; all waits together
            // are held below two seconds.
            std::thread::sleep(wait);
            while waiting.elapsed() < wait {}
            waited += wait;
            let answer = ask(&mut connection, policy, key, 1);
            assert_eq!(answer.status, 200, "p{policy} after {millis} ms: {}\n{file}", answer.body);
            admitted += 1;
        }
    }
    assert!(admitted >= 40, "only {admitted}");
    assert!(waited < Duration::from_secs(2), "{waited:?}");
}

#[test]
fn a_retry_after_is_never_less_than_the_wait_and_never_zero() {
    // B31 and B32: waits from just above nothing to some seconds, where rounding matters.
    let windows = ["1ms", "999ms", "1s", "1001ms", "2s", "2001ms", "7s"];
    let mut file = "version: 1\npolicies:\n".to_owned();
    for (policy, window) in windows.iter().enumerate() {
        let _ = writeln!(
            file,
            "  - {{ name: p{policy}, key: [ip], limits: [{{ name: l, algorithm: fixed-window, \
             limit: 1 per {window}, align: first-request }}] }}"
        );
    }
    let server = Server::of(&file);
    let mut connection = server.connect();
    for (policy, window) in windows.iter().enumerate() {
        let mut seen = 0;
        for _ in 0..300 {
            let answer = ask(&mut connection, policy, "k", 1);
            fields::check(&answer);
            seen += u32::from(answer.status == 429);
        }
        assert!(seen > 0 || *window == "1ms", "{window}");
    }
}
