//! The link before real servers.

mod faults;
mod lone;
mod measure;
mod servers;
mod topologies;

use std::sync::Arc;
use std::time::Duration;

use ratekeeper_core::Trouble;
use ratekeeper_testkit::redis::is_left_out;
use tokio::sync::oneshot;
use tokio::time::Instant;

use self::servers::Server;
use super::{
    Answer, Endpoint, Failure, Job, Link, LinkConfig, LinkEvents, Part, Question, ScriptKind, Scripts,
    Topology,
};

/// Adds each argument to its key, and says the time and the sums.
const ADD: &str = "local t = redis.call('TIME') local r = { t[1] * 1000000 + t[2] } \
    local plan, at = {string.byte(ARGV[1], 1, -1)}, 2 while plan[at] do for i = at + 1, at + 2 * plan[at], 2 do \
    r[#r + 1] = redis.call('INCRBY', KEYS[plan[i]], ARGV[plan[i + 1] + 1]) end at = at + 1 + 2 * plan[at] end return r";
/// Says whatever is asked for wrongly.
const AMEND: &str = "local a = ARGV[2] if a == 'text' then return 'x' end if a == 'short' then return {1} end \
    if a == 'words' then return {1, 'x'} end if a == 'marker' then \
    return redis.error_reply('RKCORRUPT it is') end if a == 'raise' then error('RKCORRUPT it is') end \
    if a == 'bug' then return nothing.at_all end \
    return {1, #KEYS, #ARGV}";

pub(super) struct Quiet;
impl LinkEvents for Quiet {}

/// Ends the thread of the link at the first answer.
struct Faulty;
impl LinkEvents for Faulty {
    fn took(&self, _script: ScriptKind, _took: Duration, _jobs: usize) {
        panic!("an observer that should not have");
    }
}

const PATIENCE: Duration = Duration::from_millis(400);

pub(super) fn endpoint(topology: Topology, ports: &[u16]) -> Endpoint {
    Endpoint {
        topology,
        hosts: ports.iter().map(|&port| ("127.0.0.1".to_owned(), port)).collect(),
        is_tls: false,
        root_pem: None,
        database: 0,
        username: None,
        password: None,
    }
}

pub(super) fn scripts(decide: &str) -> Scripts {
    Scripts { decide: decide.to_owned(), amend: AMEND.to_owned() }
}

fn config(endpoint: Endpoint) -> LinkConfig {
    LinkConfig { endpoint, timeout: PATIENCE, is_direct: false }
}

fn link_with(endpoint: Endpoint, decide: &str) -> Link {
    Link::start(config(endpoint), scripts(decide), Arc::new(Quiet)).unwrap()
}

fn link(topology: Topology, ports: &[u16]) -> Link {
    link_with(endpoint(topology, ports), ADD)
}

fn alone(port: u16) -> Link {
    link(Topology::Standalone, &[port])
}

/// CRC16 of what stands between the first braces, as the cluster's specification has it.
fn slot(key: &str) -> u16 {
    let tag = match key.split_once('{').and_then(|(_, rest)| rest.split_once('}')) {
        Some((tag, _)) if !tag.is_empty() => tag,
        _ => key,
    };
    let crc = tag.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
            (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 }
        })
    });
    crc % 16_384
}

fn part(key: &str, arg: &str) -> Part {
    Part { key: key.into(), arg: arg.into() }
}

fn question(script: ScriptKind, keys: &[&str], arg: &str) -> Question {
    Question {
        script,
        slot: slot(keys[0]),
        parts: keys.iter().map(|key| part(key, arg)).collect(),
        tail: None,
        numbers: keys.len(),
        brief_from: None,
    }
}

type Reply = oneshot::Receiver<Result<Answer, Failure>>;

fn submit(link: &Link, script: ScriptKind, keys: &[&str], arg: &str, within: Duration) -> Reply {
    let (reply, receiver) = oneshot::channel();
    link.submit(Job { question: question(script, keys, arg), within, lasts: Duration::ZERO, reply });
    receiver
}

async fn add(link: &Link, keys: &[&str], within: Duration) -> Result<Answer, Failure> {
    submit(link, ScriptKind::Decide, keys, "1", within).await.unwrap()
}

/// Asks until it is served; panics after ten seconds.
async fn recover(link: &Link, key: &str) -> Duration {
    let start = Instant::now();
    while add(link, &[key], Duration::from_millis(300)).await.is_err() {
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", link.status());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    start.elapsed()
}

const SECOND: Duration = Duration::from_secs(1);
/// Less than the patience of a link.
const SOON: Duration = Duration::from_millis(60);
/// How much later than promised an answer may be seen here: the machine has other things to do.
const SLACK: Duration = Duration::from_millis(50);

#[tokio::test]
async fn lone_job_is_answered() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let link = alone(server.port);
    let answer = add(&link, &["a", "b"], SECOND).await.unwrap();
    assert_eq!(answer.numbers[..], [1, 1]);
    assert!(answer.now_us > 1_600_000_000_000_000);
    let (status, counts) = (link.status(), link.counts());
    assert!(status.connected && status.round_trip.is_some(), "{status:?}");
    assert!(status.server.unwrap().starts_with("redis "));
    assert_eq!((counts.commands, counts.requests, counts.script_reloads), (1, 1, 0));
    assert_eq!(server.cli(&["client", "list"]).matches("name=ratekeeper").count(), 1);
}

#[tokio::test]
async fn nobody_waits_for_a_thread_that_has_died() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let config = config(endpoint(Topology::Standalone, &[server.port]));
    let link = Link::start(config, scripts(ADD), Arc::new(Faulty)).unwrap();
    let asked = submit(&link, ScriptKind::Decide, &["a"], "1", 60 * SECOND);
    assert!(asked.await.is_err(), "what it held was dropped with it");
    let after = submit(&link, ScriptKind::Decide, &["a"], "1", 60 * SECOND);
    assert!(matches!(after.await, Err(_) | Ok(Err(_))));
}

#[tokio::test]
async fn thousand_jobs_come_out_right_in_few_commands() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let link = alone(server.port);
    let replies: Vec<Reply> = (0..1000)
        .map(|at| {
            let key = format!("k{at}");
            submit(&link, ScriptKind::Decide, &[&key, "all"], &at.to_string(), 5 * SECOND)
        })
        .collect();
    for (at, reply) in replies.into_iter().enumerate() {
        assert_eq!(reply.await.unwrap().unwrap().numbers[0], i64::try_from(at).unwrap());
    }
    assert_eq!(server.cli(&["get", "all"]), "499500");
    let counts = link.counts();
    assert_eq!(counts.requests, 1000);
    assert!(counts.commands < 100, "{counts:?}");
}

#[tokio::test]
async fn tail_goes_alone_behind_the_arguments() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let link = alone(server.port);
    let mut replies = Vec::new();
    for at in 0..20 {
        let (reply, receiver) = oneshot::channel();
        link.submit(Job {
            question: Question {
                script: ScriptKind::Amend,
                slot: 0,
                parts: vec![part("a", "1"), part("b", "1")],
                tail: (at % 2 == 0).then(|| b"t".to_vec()),
                numbers: 2,
                brief_from: None,
            },
            within: SECOND,
            lasts: Duration::ZERO,
            reply,
        });
        replies.push((at, receiver));
    }
    for (at, reply) in replies {
        let answer = reply.await.unwrap();
        // Jobs without a tail were put together: then the script's numbers are not as many as were asked for.
        if at % 2 == 0 {
            assert_eq!(answer.unwrap().numbers[..], [2, 3]);
        }
    }
}

#[tokio::test]
async fn script_flush_costs_one_reload_and_no_answer() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let link = alone(server.port);
    for round in 1..=5 {
        assert_eq!(add(&link, &["a"], SECOND).await.unwrap().numbers[..], [round]);
        assert_eq!(server.cli(&["script", "flush"]), "OK");
    }
    assert_eq!(link.counts().script_reloads, 4);
}

#[tokio::test]
async fn wrong_replies_are_corrupt() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let link = alone(server.port);
    for (arg, may_have_run) in
        [("text", true), ("short", true), ("words", true), ("marker", false), ("raise", false)]
    {
        let failure = submit(&link, ScriptKind::Amend, &["a"], arg, SECOND).await.unwrap().unwrap_err();
        assert_eq!((failure.trouble, failure.may_have_run), (Trouble::Corrupt, may_have_run), "{arg}");
    }
    let failure = submit(&link, ScriptKind::Amend, &["a"], "bug", SECOND).await.unwrap().unwrap_err();
    assert_eq!((failure.trouble, failure.may_have_run), (Trouble::Other, true));
    assert_eq!(link.counts().errors.iter().sum::<u64>(), 6);
}

#[tokio::test]
async fn errors_of_the_server_are_told_apart() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    server.cli(&["lpush", "list", "x"]);
    let link = alone(server.port);
    let trouble = async |link: &Link, key: &str| {
        let failure = add(link, &[key], SECOND).await.unwrap_err();
        assert!(!failure.may_have_run, "{failure:?} {:?}", link.status());
        failure.trouble
    };
    assert_eq!(trouble(&link, "list").await, Trouble::Corrupt);
    server.cli(&["config", "set", "maxmemory", "1"]);
    assert_eq!(trouble(&link, "a").await, Trouble::Oom);
    server.cli(&["config", "set", "maxmemory", "0"]);
    server.cli(&["config", "set", "min-replicas-to-write", "1"]);
    assert_eq!(trouble(&link, "a").await, Trouble::Readonly);
    server.cli(&["config", "set", "min-replicas-to-write", "0"]);
    for (rights, name) in [("-incrby", "a command"), ("-eval -evalsha", "a call"), ("resetkeys ~b*", "a key")]
    {
        let mut words = vec!["acl", "setuser", "default", "on", "nopass", "~*", "+@all"];
        words.extend(rights.split(' '));
        assert_eq!(server.cli(&words), "OK");
        assert_eq!(trouble(&link, "a").await, Trouble::Auth, "{name}");
    }
    server.cli(&["acl", "setuser", "default", "reset", "on", ">secret", "~*", "+@all"]);
    let stranger = alone(server.port);
    assert_eq!(trouble(&stranger, "a").await, Trouble::Auth);
    let wrong = Endpoint { password: Some("guess".into()), ..endpoint(Topology::Standalone, &[server.port]) };
    let wrong = link_with(wrong, ADD);
    assert_eq!(trouble(&wrong, "a").await, Trouble::Auth);
    let error = wrong.status().last_error.unwrap();
    assert!(error.contains("WRONGPASS") && !error.contains("guess"), "{error}");
    let right = Endpoint {
        username: Some("default".into()),
        password: Some("secret".into()),
        database: 3,
        ..endpoint(Topology::Standalone, &[server.port])
    };
    let right = link_with(right, ADD);
    assert_eq!(add(&right, &["a"], SECOND).await.unwrap().numbers[..], [1]);
    assert_eq!(server.cli(&["--no-auth-warning", "-a", "secret", "-n", "3", "get", "a"]), "1");
}

#[tokio::test]
async fn replica_is_readonly_and_asked_twice_at_most() {
    if is_left_out() {
        return;
    }
    let master = Server::start(&[]);
    let server = Server::start(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
    let link = alone(server.port);
    let failure = add(&link, &["a"], SECOND).await.unwrap_err();
    assert_eq!((failure.trouble, failure.may_have_run), (Trouble::Readonly, false));
    server.cli(&["replicaof", "no", "one"]);
    recover(&link, "a").await;
}

#[tokio::test]
async fn plain_command_reaches_the_server() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let link = alone(server.port);
    let said = link.ask_all(vec![b"ECHO".to_vec(), b"x".to_vec()], SECOND).await;
    assert_eq!(said.len(), 1);
    assert_eq!(said[0].0, format!("127.0.0.1:{}", server.port));
    assert_eq!(said[0].1.as_ref().ok(), Some(&redis::Value::BulkString(b"x".to_vec())));
    let said = link.ask_all(vec![b"NONSENSE".to_vec()], SECOND).await;
    assert_eq!(said[0].1.as_ref().unwrap_err().0.trouble, Trouble::Auth);
}

#[test]
fn slots_are_those_of_the_specification() {
    assert_eq!(slot("123456789"), 0x31C3);
    assert_eq!(slot("a{123456789}b"), 0x31C3);
}
