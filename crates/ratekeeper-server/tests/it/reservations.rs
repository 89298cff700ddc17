//! Reservations over the network: whoever ends one, and however often, it ends once.

use std::collections::BTreeMap;

use crate::support::{Connection, Response, Server, request};

const FILE: &str = "
version: 1
policies:
  - { name: llm, key: [ip], limits: [{ name: l, algorithm: fixed-window, limit: 1000000/day, align: first-request }] }
";

fn ask(connection: &mut Connection, path: &str, body: &str) -> Response {
    connection.send(&request("POST", path, "", body.as_bytes()));
    connection.response()
}

fn remaining(connection: &mut Connection) -> u64 {
    let answer = ask(connection, "/v1/check", r#"{"policy":"llm","key":"k","peek":true}"#);
    answer.json()["remaining"].as_u64().expect("a number")
}

#[test]
fn of_eight_who_end_a_reservation_at_once_one_has_its_way() {
    let server = Server::of(FILE);
    let mut connection = server.connect();
    let mut left = 1_000_000;
    for round in 0..60 {
        let held = ask(&mut connection, "/v1/reserve", r#"{"policy":"llm","key":"k","cost":1000}"#).json();
        let id = held["id"].as_str().expect("an id").to_owned();
        assert_eq!(held["remaining"], left - 1_000);
        // Eight settle at costs of their own, or give back, all at the same time.
        let barrier = std::sync::Barrier::new(8);
        let answers: Vec<(u64, Response)> = std::thread::scope(|scope| {
            let enders: Vec<_> = (0..8_u64)
                .map(|who| {
                    let (id, server, barrier) = (&id, &server, &barrier);
                    scope.spawn(move || {
                        let mut connection = server.connect();
                        let cost = if who % 2 == 0 { 0 } else { 100 + who };
                        let body = match cost {
                            0 => format!(r#"{{"id":"{id}"}}"#),
                            cost => format!(r#"{{"id":"{id}","cost":{cost}}}"#),
                        };
                        let path = if cost == 0 { "/v1/refund" } else { "/v1/settle" };
                        barrier.wait();
                        (cost, ask(&mut connection, path, &body))
                    })
                })
                .collect();
            enders.into_iter().map(|ender| ender.join().expect("no ender fails")).collect()
        });
        // Those who wanted what it came to are told the same; all others are told that it was otherwise.
        let mut by_status: BTreeMap<u16, Vec<u64>> = BTreeMap::new();
        for (cost, answer) in &answers {
            by_status.entry(answer.status).or_default().push(*cost);
            if answer.status == 200 {
                assert_eq!(
                    (&answer.json()["cost"], &answer.json()["charged"]),
                    (&(*cost).into(), &(*cost).into())
                );
            }
        }
        let winners = by_status.remove(&200).expect("somebody ends it");
        assert!(winners.iter().all(|cost| *cost == winners[0]), "{winners:?}");
        let losers = by_status.remove(&409).unwrap_or_default();
        assert!(!losers.contains(&winners[0]) && by_status.is_empty(), "{by_status:?}");
        left -= winners[0];
        assert_eq!(remaining(&mut connection), left, "round {round}: exactly one effect");
    }
}

#[test]
fn a_settlement_that_is_repeated_over_another_connection_is_answered_the_same() {
    let server = Server::of(FILE);
    let held = ask(&mut server.connect(), "/v1/reserve", r#"{"policy":"llm","key":"k","cost":10}"#).json();
    let body = format!(r#"{{"id":"{}","cost":4}}"#, held["id"].as_str().expect("an id"));
    let first = ask(&mut server.connect(), "/v1/settle", &body);
    let second = ask(&mut server.connect(), "/v1/settle", &body);
    assert_eq!((first.status, first.body.as_str()), (second.status, second.body.as_str()));
    assert_eq!(remaining(&mut server.connect()), 999_996);
}

#[test]
fn the_hundred_thousand_and_first_open_reservation_is_503_and_takes_nothing() {
    let server = Server::of(FILE);
    let mut connection = server.connect();
    let one = request("POST", "/v1/reserve", "", br#"{"policy":"llm","key":"k"}"#);
    let many = one.repeat(1_000);
    let mut last = String::new();
    for _ in 0..100 {
        connection.send(&many);
        for _ in 0..1_000 {
            let answer = connection.response();
            assert_eq!(answer.status, 200);
            last = answer.body;
        }
    }
    let answer = ask(&mut connection, "/v1/reserve", r#"{"policy":"llm","key":"k"}"#);
    assert_eq!(answer.status, 503, "{}", answer.body);
    crate::fields::check(&answer);
    let seconds: u64 = answer.header("retry-after").expect("a 503 has it").parse().expect("a number");
    assert!((1..=900).contains(&seconds), "{seconds}");
    assert_eq!(remaining(&mut connection), 900_000);
    // One that ends makes room for one.
    let last: serde_json::Value = serde_json::from_str(&last).expect("JSON");
    let id = last["id"].as_str().expect("an id");
    assert_eq!(ask(&mut connection, "/v1/refund", &format!(r#"{{"id":"{id}"}}"#)).status, 200);
    for status in [200, 503] {
        assert_eq!(ask(&mut connection, "/v1/reserve", r#"{"policy":"llm","key":"k"}"#).status, status);
    }
}

/// What is held is what the limits have taken, not what was asked for; each policy is charged what it came to.
#[test]
fn held_is_what_was_taken() {
    let server = Server::of(
        "
version: 1
policies:
  - name: late
    match: { path: /late }
    key: [ip]
    on_excess: drain
    limits:
      - { name: few, algorithm: fixed-window, limit: 10/day, align: first-request }
      - { name: many, algorithm: fixed-window, limit: 30/day, align: first-request }
  - { name: free, match: { path: /free }, action: bypass }
  - name: other
    match: { path: /both }
    key: [ip]
    cost: 3
    limits: [{ name: l, algorithm: fixed-window, limit: 100/day, align: first-request }]
  - name: another
    match: { path: /both }
    key: [ip]
    cost: 5
    limits: [{ name: l, algorithm: fixed-window, limit: 100/day, align: first-request }]
",
    );
    let end = |path: &str, cost: &str, to: u64| {
        let body = format!(r#"{{"attributes":{{"path":"{path}","ip":"203.0.113.9"}}{cost}}}"#);
        let held = server.send("POST", "/v1/reserve", &body).json();
        let id = held["id"].as_str().unwrap_or_else(|| panic!("{held}")).to_owned();
        let ended = server.send("POST", "/v1/settle", &format!(r#"{{"id":"{id}","cost":{to}}}"#)).json();
        (ended["held"].as_u64(), ended["charged"].as_u64())
    };
    assert_eq!(end("/late", r#","cost":25"#, 0), (Some(25), Some(0)));
    assert_eq!(end("/late", r#","cost":99"#, 4), (Some(30), Some(4)));
    assert_eq!(end("/free", "", 4), (Some(0), Some(0)));
    assert_eq!(end("/both", "", 8), (Some(5), Some(8)));
    let looked = server.check(r#"{"attributes":{"path":"/both","ip":"203.0.113.9"},"cost":0}"#).json();
    let left = |at: usize| looked["limits"][at]["remaining"].as_u64();
    assert_eq!((left(0), left(1)), (Some(92), Some(92)), "each is charged the whole cost");
}
