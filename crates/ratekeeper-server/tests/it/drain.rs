//! The end of a server that is being asked all the time: nobody who asked in time goes without an answer.

use std::io::ErrorKind;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use hyper::body::Bytes;
use tokio::net::TcpStream;

use crate::hostile::FILE;
use crate::http2;
use crate::support::{Connection, Server, Stopwatch, post, request};

const ASK: &str = r#"{"policy":"p","key":"k"}"#;
/// How long the end may take: a tenth of a second for what is under way, and the rest for a busy machine. It is
/// less than the ten seconds after which the server would cut connections.
const PATIENCE: Duration = Duration::from_secs(8);

/// A client that asks one thing after another until it is told that the connection ends; how often it was
/// answered. It opens no other.
fn keep_alive(server: &Server, odd: &'static str, begun: Sender<()>) -> JoinHandle<u64> {
    let mut connection = server.connect();
    std::thread::spawn(move || {
        let one = request("POST", "/v1/check", odd, ASK.as_bytes());
        for answered in 1.. {
            connection.send(&one);
            let answer = connection.response();
            assert_eq!(answer.status, 200, "{answer:?}");
            if answered == 1 {
                begun.send(()).expect("the test waits");
            }
            if answer.header("connection") == Some("close") {
                assert!(connection.rest().is_empty());
                return answered;
            }
        }
        unreachable!("a server ends")
    })
}

/// A client that sends without ever waiting for answers. All that came before the answer that ended the
/// connection is answered in full.
fn pipelined(server: &Server, odd: &'static str, begun: Sender<()>) -> JoinHandle<u64> {
    let (mut reader, mut writer) = server.connect().split();
    std::thread::spawn(move || {
        let many = request("POST", "/v1/check", odd, ASK.as_bytes()).repeat(20);
        let sending = std::thread::spawn(move || {
            // Until the server has closed.
            while writer.try_send(&many).is_ok() {}
        });
        for answered in 1.. {
            let answer = reader.response();
            assert_eq!(answer.status, 200, "{answer:?}");
            if answered == 1 {
                begun.send(()).expect("the test waits");
            }
            if answer.header("connection") == Some("close") {
                assert!(reader.rest().is_empty(), "something follows the last answer");
                sending.join().expect("it ends with the connection");
                return answered;
            }
        }
        unreachable!("a server ends")
    })
}

/// A client of HTTP/2 with several requests under way, until it is told to go.
fn streams(server: &Server, begun: Sender<()>) -> JoinHandle<u64> {
    let address = server.address.clone();
    std::thread::spawn(move || {
        http2::runtime().block_on(async move {
            let stream = TcpStream::connect(address).await.expect("the server listens");
            let (mut requests, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
            tokio::spawn(connection);
            let mut answered = 0;
            loop {
                let mut under_way = Vec::new();
                for _ in 0..8 {
                    // Refused once the server has said that it takes no more.
                    let Ok(ready) = requests.clone().ready().await else { return answered };
                    requests = ready;
                    let request = http2::request("POST", "t", "/v1/check", &[]);
                    let Ok((answer, mut body)) = requests.send_request(request, false) else {
                        return answered;
                    };
                    let _ = body.send_data(Bytes::from_static(ASK.as_bytes()), true);
                    under_way.push(answer);
                }
                for answer in under_way {
                    match http2::read(answer).await {
                        Ok(answer) => assert_eq!(answer.status, 200),
                        // Sent after the server said which one would be the last: known not to have counted.
                        Err(wrong) => {
                            assert!(
                                wrong.is_go_away() && wrong.reason() == Some(h2::Reason::NO_ERROR),
                                "{wrong}"
                            );
                            return answered;
                        }
                    }
                    answered += 1;
                    if answered == 1 {
                        begun.send(()).expect("the test waits");
                    }
                }
            }
        })
    })
}

#[test]
fn under_load_no_request_is_lost_at_the_end() {
    for _ in 0..3 {
        let mut server = Server::of(FILE);
        let (begun, has_begun) = channel();
        let clients = vec![
            keep_alive(&server, "", begun.clone()),
            keep_alive(&server, "", begun.clone()),
            keep_alive(&server, "connection: keep-alive, x\r\n", begun.clone()),
            pipelined(&server, "", begun.clone()),
            pipelined(&server, "", begun.clone()),
            pipelined(
                &server,
                "x: padding-so-that-requests-and-reads-do-not-end-together\r\n",
                begun.clone(),
            ),
            streams(&server, begun.clone()),
            streams(&server, begun),
        ];
        for _ in &clients {
            has_begun.recv().expect("a client has begun");
        }
        let asked = Stopwatch::start();
        server.signal("TERM");
        let answered: Vec<u64> =
            clients.into_iter().map(|client| client.join().expect("no client fails")).collect();
        assert!(answered.iter().all(|answered| *answered >= 1), "{answered:?}");
        assert_eq!(server.wait().0.code(), Some(0));
        assert!(asked.elapsed() < PATIENCE, "{:?}", asked.elapsed());
    }
}

#[test]
fn what_is_counted_at_the_end_is_what_was_answered() {
    let mut server = Server::of(FILE);
    let (begun, has_begun) = channel();
    let client = keep_alive(&server, "", begun);
    has_begun.recv().expect("it has begun");
    // The short way counts its answers as hyper's way does.
    let page = |server: &Server| {
        let mut admin = Connection::open(&server.admin);
        admin.send(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let page = admin.response().body;
        let mark = "ratekeeper_requests_total{protocol=\"http\",code=\"200\"} ";
        let line = page.lines().find_map(|line| line.strip_prefix(mark));
        line.and_then(|number| number.parse::<u64>().ok()).expect("the counter")
    };
    let first = page(&server);
    let more = (0..10_000).map(|_| page(&server)).find(|more| *more > first);
    let more = more.expect("the counter counts");
    server.signal("TERM");
    assert!(client.join().expect("no client fails") >= more);
    assert_eq!(server.wait().0.code(), Some(0));
}

#[test]
fn a_connection_of_http_2_that_asks_at_the_last_moment_ends_too() {
    // It was silent when the server began to end, and so could not be told; its first request comes in the pause.
    let mut ended = Vec::new();
    for _ in 0..5 {
        let mut server = Server::of(FILE);
        let runtime = http2::runtime();
        let (requests, connection) = runtime.block_on(async {
            let stream = TcpStream::connect(&server.address).await.expect("the server listens");
            let (requests, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
            let connection = tokio::spawn(connection);
            (requests.ready().await.expect("it is open"), connection)
        });
        let asked = Stopwatch::start();
        server.signal("TERM");
        let mut said = String::new();
        server.read_line(&mut said);
        assert!(said.contains("drain"), "{said}");
        // In the middle of the pause in which connections are still listened to.
        std::thread::sleep(Duration::from_millis(50));
        let answer = runtime.block_on(async {
            let mut requests = requests;
            let request = http2::request("GET", "t", "/livez", &[]);
            let Ok((answer, _)) = requests.send_request(request, true) else { return None };
            let answer = http2::read(answer).await.ok();
            // It is the server who ends it: this client would ask again.
            let _ = tokio::time::timeout(PATIENCE, connection).await.expect("the connection ends");
            answer
        });
        assert_eq!(server.wait().0.code(), Some(0));
        assert!(asked.elapsed() < PATIENCE, "{:?}", asked.elapsed());
        ended.push(answer.map(|answer| answer.status));
    }
    assert!(ended.contains(&Some(200)), "{ended:?}");
}

#[test]
fn a_slow_body_does_not_cost_others_their_answers_when_time_is_up() {
    // The one who never sends its body uses up the ten seconds; this test waits for them.
    let mut server = Server::of(FILE);
    let mut slow = server.connect();
    slow.send(b"POST /v1/check HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: 30\r\n\r\n");
    assert_eq!(slow.response().status, 100);
    let (begun, has_begun) = channel();
    let clients = vec![streams(&server, begun.clone()), streams(&server, begun)];
    for _ in &clients {
        has_begun.recv().expect("a client has begun");
    }
    server.signal("TERM");
    for client in clients {
        client.join().expect("no client fails");
    }
    assert_eq!(server.wait().0.code(), Some(0));
}

#[test]
fn who_reads_nothing_does_not_keep_the_server_from_ending() {
    let mut server = Server::of(FILE);
    let mut deaf = server.connect();
    deaf.set_write_timeout(Duration::from_millis(20));
    let many = post(ASK).repeat(500);
    while deaf.try_send(&many).is_ok() {}
    let asked = Stopwatch::start();
    server.signal("TERM");
    assert_eq!(server.wait().0.code(), Some(0));
    // What it will never read is awaited for as long as any request under way.
    assert!(asked.elapsed() < Duration::from_secs(15), "{:?}", asked.elapsed());
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let mut server = Server::of(FILE);
    let mut slow = server.connect();
    slow.send(b"POST /v1/check HTTP/1.1\r\nhost: t\r\nexpect: 100-continue\r\ncontent-length: 30\r\n\r\n");
    assert_eq!(slow.response().status, 100);
    let asked = Stopwatch::start();
    server.signal("TERM");
    let mut said = String::new();
    server.read_line(&mut said);
    server.signal("TERM");
    assert_eq!(server.wait().0.code(), Some(0));
    assert!(asked.elapsed() < PATIENCE, "{:?}", asked.elapsed());
    let kind = Connection::try_open(&server.address).err().map(|wrong| wrong.kind());
    assert_eq!(kind, Some(ErrorKind::ConnectionRefused));
}
