//! Servers that die, freeze, and lose replies.

use std::sync::atomic::Ordering::SeqCst;

use super::servers::{Proxy, free_port};
use super::*;

#[tokio::test]
async fn killed_server_fails_in_time_and_comes_back() {
    if is_left_out() {
        return;
    }
    let mut server = Server::start(&[]);
    let link = alone(server.port);
    add(&link, &["a"], SECOND).await.unwrap();
    server.kill();
    for _ in 0..50 {
        let start = Instant::now();
        let failure = add(&link, &["a"], SOON).await.unwrap_err();
        assert!(start.elapsed() < SOON + SLACK, "{:?}", start.elapsed());
        assert!(matches!(failure.trouble, Trouble::Connect | Trouble::Timeout), "{failure:?}");
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    assert!(!link.status().connected);
    server.restart();
    assert!(recover(&link, "a").await < 3 * SECOND);
    assert!(link.status().connected);
}

#[tokio::test]
async fn nobody_there_fails_at_once_between_attempts() {
    let link = alone(free_port());
    let mut fast = 0;
    for _ in 0..50 {
        let start = Instant::now();
        let failure = add(&link, &["a"], SECOND).await.unwrap_err();
        assert_eq!((failure.trouble, failure.may_have_run), (Trouble::Connect, false));
        fast += u32::from(start.elapsed() < Duration::from_millis(10));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(fast >= 40, "{fast}");
    assert!(link.status().last_error.is_some());
}

#[tokio::test]
async fn frozen_server_keeps_nobody_past_the_deadline() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let link = alone(server.port);
    add(&link, &["a"], SECOND).await.unwrap();
    server.signal("-STOP");
    let mut written = 0;
    // Longer than its patience: the connection is given up, and others are tried in vain.
    for round in 0..40 {
        let start = Instant::now();
        let replies: Vec<Reply> =
            (0..10).map(|_| submit(&link, ScriptKind::Decide, &["a"], "1", SOON)).collect();
        for reply in replies {
            let failure = reply.await.unwrap().unwrap_err();
            assert!(matches!(failure.trouble, Trouble::Connect | Trouble::Timeout), "{failure:?}");
            written += u32::from(failure.may_have_run);
            assert!(start.elapsed() < SOON + SLACK, "{round}: {:?}", start.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.signal("-CONT");
    assert!(recover(&link, "b").await < 3 * SECOND);
    let sum: u32 = server.cli(&["get", "a"]).parse().unwrap();
    assert!(sum <= written + 1, "{sum} ran, {written} may have");
}

#[tokio::test]
async fn lost_reply_is_not_asked_for_again() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let proxy = Proxy::start(server.port);
    let link = alone(proxy.port);
    add(&link, &["b"], SECOND).await.unwrap();
    proxy.cuts.store(true, SeqCst);
    let failure = add(&link, &["a"], SECOND).await.unwrap_err();
    assert_eq!((failure.trouble, failure.may_have_run), (Trouble::Connect, true));
    proxy.cuts.store(false, SeqCst);
    recover(&link, "b").await;
    assert_eq!(server.cli(&["get", "a"]), "1");
}

#[tokio::test]
async fn idle_connection_that_was_closed_costs_nobody_anything() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let link = alone(server.port);
    add(&link, &["a"], SECOND).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1100)).await;
    server.cli(&["client", "kill", "type", "normal"]);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(add(&link, &["a"], SECOND).await.unwrap().numbers[..], [2]);
}

#[tokio::test]
async fn late_reply_is_thrown_away_and_the_connection_stays() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let link = alone(server.port);
    add(&link, &["a"], SECOND).await.unwrap();
    let id = server.cli(&["client", "list"]);
    server.signal("-STOP");
    let failure = add(&link, &["a"], SOON).await.unwrap_err();
    assert_eq!((failure.trouble, failure.may_have_run), (Trouble::Timeout, true));
    server.signal("-CONT");
    assert_eq!(add(&link, &["a"], SECOND).await.unwrap().numbers[..], [3]);
    let name =
        |list: &str| list.lines().find(|line| line.contains("name=ratekeeper")).unwrap()[..10].to_owned();
    assert_eq!(name(&id), name(&server.cli(&["client", "list"])));
}

#[tokio::test]
async fn last_clone_takes_the_thread_with_it() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let link = alone(server.port);
    add(&link, &["a"], SECOND).await.unwrap();
    server.signal("-STOP");
    let reply = submit(&link, ScriptKind::Decide, &["a"], "1", 60 * SECOND);
    drop(link.clone());
    drop(link);
    assert_eq!(reply.await.unwrap().unwrap_err().trouble, Trouble::Connect);
    server.signal("-CONT");
}

#[tokio::test]
async fn full_queue_answers_at_once() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    server.signal("-STOP");
    let link = alone(server.port);
    let replies: Vec<Reply> = (0..super::super::MAX_WAITING)
        .map(|_| submit(&link, ScriptKind::Decide, &["a"], "1", 10 * SECOND))
        .collect();
    let failure = add(&link, &["a"], 10 * SECOND).await.unwrap_err();
    assert_eq!((failure.trouble, failure.may_have_run), (Trouble::Full, false));
    drop(link);
    for reply in replies {
        assert!(reply.await.unwrap().is_err());
    }
    server.signal("-CONT");
}
