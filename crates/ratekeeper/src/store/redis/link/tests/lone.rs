//! Callers that are alone, and ask on a connection of their own.

use std::sync::atomic::Ordering::SeqCst;

use tokio::runtime::{Builder, Runtime};

use super::servers::Proxy;
use super::*;

fn direct(port: u16) -> Link {
    let config = LinkConfig { is_direct: true, ..config(endpoint(Topology::Standalone, &[port])) };
    Link::start(config, scripts(ADD), Arc::new(Quiet)).unwrap()
}

async fn ask(link: &Link, key: &str, within: Duration) -> Result<Answer, Failure> {
    link.ask(question(ScriptKind::Decide, &[key], "1"), within).await
}

fn has_way(link: &Link) -> bool {
    link.shared.lone.as_ref().is_some_and(|lone| lone.way().is_some())
}

/// Asks until lone callers have their way: at once after the start, a second after it was lost.
async fn open(link: &Link, key: &str) {
    let end = Instant::now() + 10 * SECOND;
    while !has_way(link) {
        let _ = ask(link, key, SECOND).await;
        assert!(Instant::now() < end, "{:?}", link.status());
    }
}

/// A link whose lone callers have their way.
async fn opened(port: u16) -> Link {
    let link = direct(port);
    open(&link, "first").await;
    link
}

fn connections(server: &Server) -> usize {
    server.cli(&["client", "list"]).matches("name=ratekeeper").count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn lone_callers_ask_on_their_own_connection() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let link = opened(server.port).await;
    assert_eq!(connections(&server), 2);
    let before = link.counts();
    for n in 1..=50 {
        let answer = ask(&link, "a", SECOND).await.unwrap();
        assert_eq!(answer.numbers[..], [n]);
        assert!(answer.now_us > 1_600_000_000_000_000);
    }
    let after = link.counts();
    assert_eq!((after.commands - before.commands, after.requests - before.requests), (50, 50));
    assert_eq!(link.shared.ledger.waiting.load(SeqCst), 0);
    drop(link);
    let end = Instant::now() + 10 * SECOND;
    while connections(&server) > 0 {
        assert!(Instant::now() < end, "the connections end with the link");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_that_are_not_alone_are_gathered_as_ever() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let link = opened(server.port).await;
    let before = link.counts();
    for round in 1..=10 {
        let asks = (0..500).map(|_| ask(&link, "a", 5 * SECOND));
        let answers = futures_util::future::join_all(asks).await;
        let mut sums: Vec<i64> = answers.into_iter().map(|answer| answer.unwrap().numbers[0]).collect();
        sums.sort_unstable();
        assert_eq!(sums, (500 * (round - 1) + 1..=500 * round).collect::<Vec<_>>(), "each is counted once");
    }
    let after = link.counts();
    assert_eq!(after.requests - before.requests, 5_000);
    assert!(after.commands - before.commands < 500, "{}", after.commands - before.commands);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_has_not_run_is_asked_again_by_the_thread() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let link = opened(server.port).await;
    for n in 1..=5 {
        server.cli(&["script", "flush"]);
        assert_eq!(ask(&link, "a", SECOND).await.unwrap().numbers[..], [n]);
    }
    assert_eq!(link.counts().script_reloads, 5);
    server.cli(&["replicaof", "127.0.0.1", "1"]);
    let failure = ask(&link, "a", SECOND).await.unwrap_err();
    assert_eq!((failure.trouble, failure.may_have_run), (Trouble::Readonly, false));
    server.cli(&["replicaof", "no", "one"]);
    let end = Instant::now() + 10 * SECOND;
    while ask(&link, "b", SECOND).await.is_err() {
        assert!(Instant::now() < end, "{:?}", link.status());
    }
    open(&link, "b").await;
    assert_eq!(ask(&link, "a", SECOND).await.unwrap().numbers[..], [6]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn wrong_replies_mean_the_same_as_to_the_thread() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let link = opened(server.port).await;
    for (arg, trouble, may_have_run) in [
        ("text", Trouble::Corrupt, true),
        ("short", Trouble::Corrupt, true),
        ("words", Trouble::Corrupt, true),
        ("marker", Trouble::Corrupt, false),
        ("raise", Trouble::Corrupt, false),
        ("bug", Trouble::Other, true),
    ] {
        let errors = link.counts().errors.iter().sum::<u64>();
        let failure = link.ask(question(ScriptKind::Amend, &["a"], arg), SECOND).await.unwrap_err();
        assert_eq!((failure.trouble, failure.may_have_run), (trouble, may_have_run), "{arg}");
        assert_eq!(link.counts().errors.iter().sum::<u64>(), errors + 1);
        assert!(has_way(&link), "{arg}: the connection is a good one");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn frozen_server_keeps_no_lone_caller_past_its_deadline() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let link = opened(server.port).await;
    server.signal("-STOP");
    let mut written = 0;
    for round in 0..30 {
        let start = Instant::now();
        let failure = ask(&link, "a", SOON).await.unwrap_err();
        assert!(start.elapsed() < SOON + SLACK, "{round}: {:?}", start.elapsed());
        assert!(matches!(failure.trouble, Trouble::Connect | Trouble::Timeout), "{failure:?}");
        assert!(round > 0 || failure.may_have_run, "it was written");
        written += u32::from(failure.may_have_run);
    }
    server.signal("-CONT");
    open(&link, "b").await;
    let sum: u32 = server.cli(&["get", "a"]).parse().unwrap();
    assert!(sum <= written, "{sum} ran, {written} may have");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn callers_that_do_not_wait_for_it_find_out_that_a_server_is_silent() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let link = opened(server.port).await;
    server.signal("-STOP");
    let begun = Instant::now();
    while has_way(&link) {
        let asked = ask(&link, "a", 60 * SECOND);
        assert!(tokio::time::timeout(SOON / 2, asked).await.is_err(), "it is silent");
        assert!(begun.elapsed() < PATIENCE + SOON + SLACK, "{:?}", begun.elapsed());
    }
    assert!(begun.elapsed() >= PATIENCE);
    server.signal("-CONT");
    open(&link, "b").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_caller_without_time_leaves_a_good_connection_to_others() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let link = opened(server.port).await;
    for _ in 0..10 {
        // An answer may still come in time.
        if let Err(failure) = ask(&link, "a", Duration::from_nanos(1)).await {
            assert_eq!((failure.trouble, failure.may_have_run), (Trouble::Timeout, true));
        }
        assert!(has_way(&link));
        ask(&link, "b", SECOND).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn lost_reply_of_a_lone_caller_is_not_asked_for_again() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let proxy = Proxy::start(server.port);
    let link = opened(proxy.port).await;
    proxy.cuts.store(true, SeqCst);
    let failure = ask(&link, "a", SECOND).await.unwrap_err();
    assert_eq!((failure.trouble, failure.may_have_run), (Trouble::Connect, true));
    proxy.cuts.store(false, SeqCst);
    assert!(!has_way(&link), "it is not tried again at once");
    open(&link, "b").await;
    assert_eq!(server.cli(&["get", "a"]), "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn killed_server_is_found_again() {
    if is_left_out() {
        return;
    }
    let mut server = Server::start(&[]);
    let link = opened(server.port).await;
    server.kill();
    for _ in 0..20 {
        let start = Instant::now();
        let failure = ask(&link, "a", SOON).await.unwrap_err();
        assert!(matches!(failure.trouble, Trouble::Connect | Trouble::Timeout), "{failure:?}");
        assert!(start.elapsed() < SOON + SLACK, "{:?}", start.elapsed());
    }
    server.restart();
    open(&link, "a").await;
    assert_eq!(connections(&server), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_caller_that_goes_away_leaves_the_way_to_others() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let link = opened(server.port).await;
    for _ in 0..100 {
        let asked = ask(&link, "a", SECOND);
        tokio::select! {
            biased;
            _ = asked => {}
            () = tokio::task::yield_now() => {}
        }
    }
    let sum = ask(&link, "a", SECOND).await.unwrap().numbers[0];
    assert!((1..=101).contains(&sum), "{sum}");
    assert!(has_way(&link));
    assert_eq!(link.shared.ledger.waiting.load(SeqCst), 0);
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

#[test]
fn callers_elsewhere_ask_by_the_thread() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let (one, other) = (runtime(), runtime());
    let link = direct(server.port);
    one.block_on(open(&link, "a"));
    other.block_on(async {
        assert!(!has_way(&link));
        ask(&link, "b", SECOND).await.unwrap();
    });
    // Outside of any runtime, and after the end of its own.
    futures_util::FutureExt::now_or_never(async { assert!(!has_way(&link)) }).unwrap();
    drop(one);
    let end = Instant::now() + 10 * SECOND;
    while connections(&server) > 1 {
        assert!(Instant::now() < end, "it ends with its runtime");
    }
    other.block_on(async {
        assert_eq!(ask(&link, "b", SECOND).await.unwrap().numbers[..], [2]);
        open(&link, "b").await;
    });
}

#[tokio::test]
async fn on_a_single_thread_there_is_no_such_way() {
    if is_left_out() {
        return;
    }
    let server = Server::start(&[]);
    let link = direct(server.port);
    for n in 1..=10 {
        assert_eq!(ask(&link, "a", SECOND).await.unwrap().numbers[..], [n]);
    }
    assert!(!has_way(&link));
    assert_eq!(connections(&server), 1);
}
