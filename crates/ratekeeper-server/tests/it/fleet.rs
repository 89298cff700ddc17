//! Several servers on one Redis: one limit for all of them, whatever becomes of Redis.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratekeeper_core::{Algorithm, Limit};
use ratekeeper_testkit::redis::{RedisServer, Stopwatch, is_left_out, wait_until};

use crate::support::{Folder, Server, command};

/// A server on the store at `url`, with deadlines that a busy machine keeps if the file says so.
fn server(url: &str, file: &str) -> Server {
    let folder = Folder::new();
    folder.file("ratekeeper.yaml", file);
    let mut serve = command(&["serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    serve.current_dir(folder.path()).env("REDIS_URL", url);
    Server::spawn(serve).keeping(folder)
}

/// The block of a language in the README's section about fleets.
fn readme(language: &str) -> String {
    let page = include_str!("../../../../README.md");
    let section = page.split("\n## ").find(|section| section.starts_with("One limit for the whole fleet"));
    let block = section.expect("a section about fleets").split(&format!("```{language}\n")).nth(1);
    block.expect("a block").split("```").next().unwrap_or_default().to_owned()
}

#[test]
fn two_instances_share_one_limit_as_the_readme_says() {
    if is_left_out() {
        return;
    }
    let redis = RedisServer::start();
    let commands = readme("sh");
    let servers: Vec<Server> = commands
        .lines()
        .filter(|line| line.starts_with("REDIS_URL=redis://127.0.0.1:6379 ratekeeper serve "))
        .map(|_| server(&redis.url(), &readme("yaml")))
        .collect();
    assert_eq!(servers.len(), 2);
    let checks: Vec<&str> = commands.lines().filter(|line| line.starts_with("curl ")).collect();
    assert_eq!(checks.len(), 2);
    for (server, check) in servers.iter().zip(checks) {
        let body = check.split('\'').nth(1).expect("a body");
        let expected = check.split("# ").nth(1).expect("what is left");
        let answer = server.check(body);
        assert!(answer.body.contains(expected), "{check}: {}", answer.body);
        assert_eq!(answer.json()["source"], "exact");
    }
}

#[test]
fn a_request_that_is_alone_is_asked_on_a_connection_of_the_servers_threads() {
    if is_left_out() {
        return;
    }
    let redis = RedisServer::start();
    let server = server(&redis.url(), FILE);
    wait_until("there is a connection besides that of the gathering thread", Duration::from_secs(5), || {
        assert_eq!(ask(&server, "shut").1["source"], "exact");
        let clients = redis.command(&["CLIENT", "LIST", "TYPE", "normal"]).text();
        clients.matches("name=ratekeeper").count() == 2
    });
}

/// Requests of all workers of a fleet for one key; how many were admitted, and in which time.
fn flood(servers: &[Server], workers: usize, each: usize) -> (u64, Duration) {
    let admitted = AtomicU64::new(0);
    let began = Stopwatch::start();
    std::thread::scope(|scope| {
        for server in servers {
            for _ in 0..workers {
                scope.spawn(|| {
                    for _ in 0..each {
                        let answer = server.check(r#"{"policy":"p","key":"hot"}"#).json();
                        assert_eq!(
                            answer["remaining"].as_u64().map(|left| left <= 40),
                            Some(true),
                            "{answer}"
                        );
                        let source = answer["source"].as_str().unwrap_or_default().to_owned();
                        assert!(["exact", "cached"].contains(&source.as_str()), "{answer}");
                        admitted.fetch_add(u64::from(answer["allowed"] == true), Ordering::Relaxed);
                    }
                });
            }
        }
    });
    (admitted.into_inner(), began.elapsed())
}

#[test]
fn four_servers_with_eight_workers_each_admit_what_one_limit_admits() {
    if is_left_out() {
        return;
    }
    let redis = RedisServer::start();
    for algorithm in Algorithm::ALL {
        let file = format!(
            "version: 1
listen: {{ http: {{ address: 127.0.0.1:0, deadline: 5s }} }}
stores:
  shared:
    redis: {{ url: '{}', timeout: 5s }}
policies:
  - {{ name: p, key: [ip], limits: [{{ name: {algorithm}, algorithm: {algorithm}, limit: 40/minute }}] }}
",
            redis.url()
        );
        let servers: Vec<Server> = (0..4).map(|_| server(&redis.url(), &file)).collect();
        let (admitted, took) = flood(&servers, 8, 12);
        let limit = Limit::per_minute(40).algorithm(algorithm);
        let most = limit.worst_case(took + Duration::from_millis(1));
        assert!((40..=most).contains(&admitted), "{algorithm}: {admitted} of {most} within {took:?}");
    }
    for key in redis.keys() {
        assert!(redis.command(&["PTTL", &key]).int() > 0, "{key} never expires");
    }
}

const FILE: &str = "version: 1
stores:
  shared:
    redis:
      url: ${REDIS_URL:-redis://127.0.0.1:6379}
      timeout: 50ms
      instances: 2
policies:
  - { name: share, key: [ip], limits: [{ name: l, algorithm: fixed-window, limit: 4/day }] }
  - { name: open, key: [ip], on_store_error: allow, limits: [{ name: l, algorithm: gcra, limit: 1/day }] }
  - { name: shut, key: [ip], on_store_error: deny, limits: [{ name: l, algorithm: gcra, limit: 9/day }] }
";

fn ask(server: &Server, policy: &str) -> (u16, serde_json::Value) {
    let answer = server.check(&format!(r#"{{"policy":"{policy}","key":"192.0.2.1"}}"#));
    (answer.status, answer.json())
}

#[test]
fn a_server_whose_redis_is_killed_answers_as_the_file_says_and_comes_back_by_itself() {
    if is_left_out() {
        return;
    }
    let redis = RedisServer::start();
    let server = server(&redis.url(), FILE);
    let is_exact = || ask(&server, "shut").1["source"] == "exact";
    wait_until("the store answers", Duration::from_secs(5), is_exact);
    redis.kill();
    let (status, first) = ask(&server, "share");
    assert_eq!((status, &first["source"]), (200, &"local".into()), "{first}");
    assert_eq!(first["remaining"], 1, "half of four is ours: {first}");
    assert_eq!(ask(&server, "share").1["allowed"], true);
    assert_eq!(ask(&server, "share").1["allowed"], false);
    for _ in 0..3 {
        let (_, open) = ask(&server, "open");
        assert_eq!((&open["allowed"], &open["source"]), (&true.into(), &"failed_open".into()), "{open}");
        assert!(open["limit"].is_null() && open["remaining"].is_null(), "{open}");
    }
    let (status, shut) = ask(&server, "shut");
    assert_eq!((status, &shut["reason"]), (503, &"store_unavailable".into()), "{shut}");
    let ready = server.send("GET", "/readyz?verbose", "");
    assert!(ready.status == 200 && ready.body.contains("store shared down"), "{}", ready.body);
    let metrics = server.operate("GET", "/metrics").body;
    assert!(metrics.contains("ratekeeper_store_up{store=\"shared\"} 0"), "{metrics}");

    redis.restart();
    wait_until("the store is asked again", Duration::from_secs(10), is_exact);
    // What was let in alone is known to the fleet: two units, or more if the store learns of them a moment later.
    let owed = || ask(&server, "share").1["remaining"].as_u64().is_some_and(|left| left <= 1);
    wait_until("what was admitted alone is debited", Duration::from_secs(5), owed);
    let ready = server.send("GET", "/readyz?verbose", "");
    assert!(ready.body.contains("store shared up"), "{}", ready.body);
}

#[test]
fn a_store_that_answers_but_cannot_serve_stops_the_start() {
    if is_left_out() {
        return;
    }
    let redis = RedisServer::builder().password("right-word").start();
    let folder = Folder::new();
    folder.file("ratekeeper.yaml", FILE);
    let mut serve = command(&["serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let wrong = format!("redis://:wrong-word@127.0.0.1:{}", redis.port());
    serve.current_dir(folder.path()).env("REDIS_URL", wrong);
    let (_, told, code) = crate::support::told(&crate::support::run_command(serve, b""));
    assert_eq!(code, 1, "{told}");
    assert!(told.contains("shared") && !told.contains("-word"), "{told}");
}
