//! The bounds in time of a connection, on a clock that jumps to whatever is waited for next.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{Instant, timeout};

use super::*;
use crate::app::App;

const FILE: &str = "
version: 1
policies: [{ name: p, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 1/day }] }]
";

struct Peer {
    stream: DuplexStream,
    stop: watch::Sender<bool>,
    started: Instant,
}

/// How long the short way waits for the rest of a request.
const PARTIAL_SECONDS: u64 = 1;

/// One connection of a server.
fn connect() -> Peer {
    let site = Arc::new(Service::new(Arc::new(App::of(FILE))));
    let (stream, theirs) = duplex(64 * 1_024);
    let (stop, stopped) = watch::channel(false);
    tokio::spawn(async move { connection(theirs, &site, stopped).await });
    Peer { stream, stop, started: Instant::now() }
}

impl Peer {
    async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.expect("it is open");
    }

    /// What comes until the connection is closed, and how long that took.
    async fn rest(&mut self) -> (String, u64) {
        let mut rest = String::new();
        let _ = self.stream.read_to_string(&mut rest).await;
        (rest, self.started.elapsed().as_secs())
    }
}

const LIVEZ: &str = "GET /livez HTTP/1.1\r\nhost: t\r\n\r\n";

#[tokio::test(start_paused = true)]
async fn who_says_nothing_is_let_go() {
    assert_eq!(connect().rest().await, (String::new(), FIRST_REQUEST_TIMEOUT.as_secs()));
}

#[tokio::test(start_paused = true)]
async fn who_never_ends_the_head_is_let_go() {
    for start in ["P", "PRI * HTTP/2.0\r\n", "POST /v1/check HTTP/1.1\r\nhost:"] {
        let mut peer = connect();
        peer.send(start).await;
        let (rest, seconds) = peer.rest().await;
        assert_eq!(rest, "", "{start}");
        assert!(seconds <= PARTIAL_SECONDS + FIRST_REQUEST_TIMEOUT.as_secs(), "{start}: {seconds}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_drips_a_head_is_let_go() {
    let mut peer = connect();
    peer.send("GET /livez HTTP/1.1\r\n").await;
    let mut lines = 0;
    while peer.stream.write_all(b"x: y\r\n").await.is_ok() && lines < 1_000 {
        sleep(Duration::from_secs(1)).await;
        lines += 1;
    }
    assert!(lines <= FIRST_REQUEST_TIMEOUT.as_secs() + 1, "{lines}");
}

#[tokio::test(start_paused = true)]
async fn who_never_ends_the_body_is_told_and_let_go() {
    for length in [100, 1_000_000] {
        let mut peer = connect();
        peer.send(&format!("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n{{")).await;
        let (rest, seconds) = peer.rest().await;
        assert!(rest.starts_with("HTTP/1.1 408 "), "{rest}");
        assert!(rest.contains("connection: close"), "{rest}");
        assert!((10..=10 + PARTIAL_SECONDS).contains(&seconds), "{seconds}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_kept_for_longer_than_proxies_keep_it() {
    let mut peer = connect();
    peer.send(LIVEZ).await;
    sleep(Duration::from_secs(61)).await;
    peer.send(LIVEZ).await;
    let (rest, seconds) = peer.rest().await;
    assert_eq!(rest.matches("HTTP/1.1 200 OK").count(), 2);
    assert!((61 + 60..=61 + 2 * IDLE_TIMEOUT.as_secs()).contains(&seconds), "{seconds}");
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_the_answers_is_let_go() {
    let mut peer = connect();
    let mut sent = 0;
    // Until no answer fits into what lies between us, and so no request is taken any more.
    while timeout(Duration::from_secs(1), peer.send(LIVEZ)).await.is_ok() && sent < 100_000 {
        sent += 1;
    }
    assert!(sent < 100_000);
    sleep(3 * IDLE_TIMEOUT).await;
    assert!(peer.stream.write_all(b"x").await.is_err(), "still open");
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_before_the_end_is_answered() {
    let mut peer = connect();
    peer.send(LIVEZ).await;
    let mut answer = [0; 15];
    peer.stream.read_exact(&mut answer).await.expect("an answer");
    peer.stop.send(true).expect("the connection is there");
    // The connection is idle, and knows of the end before it knows of the request.
    sleep(Duration::from_millis(1)).await;
    peer.send(LIVEZ).await;
    let (rest, seconds) = peer.rest().await;
    assert_eq!(rest.matches("HTTP/1.1 200 OK").count(), 1, "{rest}");
    assert_eq!(seconds, 0);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_under_way_is_awaited_when_the_server_ends() {
    let mut peer = connect();
    let body = r#"{"policy":"p","key":"k"}"#;
    let length = body.len();
    peer.send(&format!("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n")).await;
    sleep(Duration::from_millis(1)).await;
    peer.stop.send(true).expect("the connection is there");
    sleep(Duration::from_secs(5)).await;
    peer.send(body).await;
    let (rest, seconds) = peer.rest().await;
    assert!(rest.starts_with("HTTP/1.1 200 OK"), "{rest}");
    assert_eq!(seconds, 5);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_ends_with_the_server() {
    let mut peer = connect();
    peer.send(LIVEZ).await;
    let mut answer = [0; 15];
    peer.stream.read_exact(&mut answer).await.expect("an answer");
    peer.stop.send(true).expect("the connection is there");
    let (_, seconds) = peer.rest().await;
    assert_eq!(seconds, 0);
}

#[tokio::test(start_paused = true)]
async fn a_pipeline_that_is_cut_within_requests_stays_on_the_short_way() {
    let service = Service::new(Arc::new(App::of(FILE)));
    let (mut peer, mut ours) = duplex(64 * 1_024);
    let (_stop, stopped) = watch::channel(false);
    let answering = tokio::spawn(async move { talk::talk(&mut ours, &service, stopped).await });
    let body = r#"{"policy":"p","key":"k"}"#;
    let length = body.len();
    let request = format!("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n{body}");
    // Something is awaited whenever the timer goes off, and never for long.
    for _ in 0..5 {
        peer.write_all(&request.as_bytes()[..20]).await.expect("it is open");
        sleep(Duration::from_millis(900)).await;
        peer.write_all(&request.as_bytes()[20..]).await.expect("it is open");
    }
    peer.shutdown().await.expect("it is open");
    assert!(matches!(answering.await.expect("no panic"), Ended::Over));
    let mut answers = String::new();
    peer.read_to_string(&mut answers).await.expect("answers are text");
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 5);
}

/// A stream as TLS makes one: it takes what it cannot send yet, and has it until a flush ends.
struct Hoarding(DuplexStream);

impl AsyncRead for Hoarding {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Hoarding {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_the_answers_behind_tls_is_let_go() {
    let site = Arc::new(Service::new(Arc::new(App::of(FILE))));
    let (mut stream, theirs) = duplex(64 * 1_024);
    let (_stop, stopped) = watch::channel(false);
    let served = Arc::clone(&site);
    let serving = tokio::spawn(async move { connection(Hoarding(theirs), &served, stopped).await });
    let body = r#"{"policy":"p","key":"k"}"#;
    let length = body.len();
    let ask = format!("POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(ask.as_bytes()).await.expect("it is open");
    timeout(3 * IDLE_TIMEOUT, serving).await.expect("it ends").expect("without a panic");
    assert!(!site.is_busy());
}
