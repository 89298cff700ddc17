//! The proxy's faults, before a real server.

use std::io;
use std::time::Duration;

use ratekeeper_testkit::redis::{
    Close, Connection, FakeRedis, FaultProxy, RedisServer, Reply, Stopwatch, is_left_out, raw, wait_until,
};

use super::{PATIENCE, bulk, is_silent, status};

/// A server with a counter, behind a proxy.
fn counter() -> (FakeRedis, FaultProxy) {
    let count = std::sync::atomic::AtomicI64::new(0);
    let names = ["INCR", "EVALSHA", "EVAL", "ECHO"];
    let server = FakeRedis::start(&names, move |words| match words[0].as_slice() {
        b"ECHO" => raw::bulk(&words[1]),
        _ => raw::int(count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1),
    });
    let proxy = FaultProxy::start(server.port());
    (server, proxy)
}

#[test]
fn proxy_copies_a_real_server_and_counts() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port());
    let mut client = Connection::open(proxy.port()).unwrap();
    let large = "x".repeat(300_000);
    assert_eq!(client.call(&["SET", "a", &large]).unwrap(), status("OK"));
    assert_eq!(client.call(&["GET", "a"]).unwrap(), bulk(&large));
    assert_eq!(client.call(&["eval", "return 'EVALSHA'", "0"]).unwrap(), bulk("EVALSHA"));
    assert_eq!(client.call(&["SET", "EVALSHA", "\r\n$4\r\nEVAL\r\n"]).unwrap(), status("OK"));
    assert!(client.call(&["EVALSHA", "0", "0"]).unwrap().error().is_some());
    assert_eq!((proxy.requests("SET"), proxy.requests("get"), proxy.script_calls()), (2, 1, 2));
    assert!(proxy.request_bytes() > 300_000 && proxy.reply_bytes() > 300_000);
    assert_eq!((proxy.connections(), proxy.connections_total()), (1, 1));
    drop(client);
    wait_until("the connection is gone", PATIENCE, || proxy.connections() == 0);
    assert_eq!(proxy.connections_total(), 1);
}

#[test]
fn delay_is_kept_by_all_and_shared_by_none() {
    const DELAY: Duration = Duration::from_millis(100);
    let (_server, proxy) = counter();
    let mut client = Connection::open(proxy.port()).unwrap();
    client.call(&["INCR", "n"]).unwrap();
    proxy.set_delay(DELAY);
    let watch = Stopwatch::start();
    assert_eq!(client.call(&["INCR", "n"]).unwrap(), Reply::Int(2));
    assert!(watch.elapsed() >= 2 * DELAY, "there and back");
    let watch = Stopwatch::start();
    for _ in 3..=200 {
        client.send(&["INCR", "n"]).unwrap();
    }
    for number in 3..=200 {
        assert_eq!(client.receive().unwrap(), Reply::Int(number), "in order");
    }
    assert!(watch.elapsed() >= 2 * DELAY && watch.elapsed() < 20 * DELAY, "{:?}", watch.elapsed());
    proxy.set_reply_delay(DELAY);
    let watch = Stopwatch::start();
    client.call(&["INCR", "n"]).unwrap();
    assert!(watch.elapsed() >= DELAY);
    // A shorter delay does not overtake what is on the way.
    client.send(&["ECHO", "slow"]).unwrap();
    wait_until("it is on the way back", PATIENCE, || proxy.requests("ECHO") == 1);
    proxy.set_delay(Duration::ZERO);
    client.send(&["ECHO", "fast"]).unwrap();
    assert_eq!(client.receive().unwrap(), bulk("slow"));
    assert_eq!(client.receive().unwrap(), bulk("fast"));
}

#[test]
fn stalled_connection_is_silent_and_goes_on_where_it_was() {
    let (server, proxy) = counter();
    let mut client = Connection::open(proxy.port()).unwrap();
    client.call(&["PING"]).unwrap();
    proxy.stall();
    client.send(&["INCR", "n"]).unwrap();
    assert!(is_silent(&mut client));
    assert_eq!(server.count("INCR"), 0, "it has not arrived");
    proxy.resume();
    assert_eq!(client.receive().unwrap(), Reply::Int(1));
    proxy.stall_replies();
    client.send(&["INCR", "n"]).unwrap();
    assert!(is_silent(&mut client));
    assert_eq!(server.count("INCR"), 2, "it was executed");
    proxy.resume();
    assert_eq!(client.receive().unwrap(), Reply::Int(2));
}

#[test]
fn cut_ends_connections_as_it_says_and_takes_new_ones() {
    let (_server, proxy) = counter();
    for (how, kind) in
        [(Close::Fin, io::ErrorKind::UnexpectedEof), (Close::Rst, io::ErrorKind::ConnectionReset)]
    {
        let mut clients: Vec<Connection> = (0..3).map(|_| Connection::open(proxy.port()).unwrap()).collect();
        for client in &mut clients {
            client.call(&["PING"]).unwrap();
        }
        assert_eq!(proxy.connections(), 3);
        proxy.cut(how);
        for client in &mut clients {
            assert_eq!(client.receive().unwrap_err().kind(), kind);
        }
        assert_eq!(proxy.connections(), 0);
    }
    let mut client = Connection::open(proxy.port()).unwrap();
    assert_eq!(client.call(&["PING"]).unwrap(), status("PONG"));
    // Also while nothing is copied, and while replies are on the way.
    proxy.set_delay(Duration::from_secs(60));
    client.send(&["PING"]).unwrap();
    proxy.stall();
    proxy.cut(Close::Rst);
    assert!(client.receive().is_err());
}

#[test]
fn refused_connections_end_at_once_and_others_stay() {
    let (server, proxy) = counter();
    let mut earlier = Connection::open(proxy.port()).unwrap();
    earlier.call(&["PING"]).unwrap();
    proxy.refuse();
    let refused = Connection::open(proxy.port()).and_then(|mut client| client.call(&["PING"]));
    assert!(refused.is_err());
    assert_eq!(earlier.call(&["PING"]).unwrap(), status("PONG"));
    proxy.black_hole();
    let mut lost = Connection::open(proxy.port()).unwrap();
    lost.send(&["INCR", "n"]).unwrap();
    assert!(is_silent(&mut lost));
    assert_eq!(proxy.connections(), 2);
    proxy.accept();
    assert!(is_silent(&mut lost), "it stays lost");
    assert_eq!(server.count("INCR"), 0);
    assert_eq!(Connection::open(proxy.port()).unwrap().call(&["PING"]).unwrap(), status("PONG"));
    assert_eq!(proxy.connections_total(), 4);
    proxy.cut(Close::Fin);
    assert!(lost.receive().is_err() && earlier.receive().is_err());
}

#[test]
fn dropped_reply_belongs_to_a_request_that_was_executed() {
    let (server, proxy) = counter();
    let mut client = Connection::open(proxy.port()).unwrap();
    let mut other = Connection::open(proxy.port()).unwrap();
    other.call(&["PING"]).unwrap();
    assert_eq!(client.call(&["INCR", "n"]).unwrap(), Reply::Int(1));
    proxy.drop_next_reply();
    assert!(!proxy.has_dropped());
    assert_eq!(client.call(&["INCR", "n"]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    assert!(proxy.has_dropped());
    assert_eq!(server.count("INCR"), 2, "it was executed");
    assert_eq!(other.call(&["INCR", "n"]).unwrap(), Reply::Int(3), "others have theirs");
    proxy.drop_next_script_reply();
    assert_eq!(other.call(&["PING"]).unwrap(), status("PONG"));
    assert!(other.call(&["EVALSHA", "x", "0"]).is_err());
    let mut client = Connection::open(proxy.port()).unwrap();
    assert_eq!(client.call(&["EVALSHA", "x", "0"]).unwrap(), Reply::Int(5), "once");
}

#[test]
fn proxy_of_nobody_hangs_up_and_can_be_turned_to_somebody() {
    let (server, proxy) = counter();
    let closed = FakeRedis::refusing_scripts("BUSY").port();
    proxy.set_target(closed);
    let mut client = Connection::open(proxy.port()).unwrap();
    assert!(client.call(&["PING"]).is_err());
    proxy.set_target(server.port());
    let mut client = Connection::open(proxy.port()).unwrap();
    assert_eq!(client.call(&["PING"]).unwrap(), status("PONG"));
    drop(proxy);
    assert!(client.receive().is_err(), "connections end with the proxy");
}
