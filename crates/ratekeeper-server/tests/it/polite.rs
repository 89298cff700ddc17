//! Our own client and our own server: what one asks for, the other does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use ratekeeper_client::{Polite, PoliteLayer};
use tokio::net::TcpStream;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::support::{Server, Stopwatch};

/// Sends one request over a connection of its own.
async fn send(address: String, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, std::io::Error> {
    let socket = TcpStream::connect(&address).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(socket)).await.map_err(std::io::Error::other)?;
    tokio::spawn(connection);
    sender.send_request(request).await.map_err(std::io::Error::other)
}

/// Four workers get so many requests admitted; how many were refused meanwhile, and how long it took.
async fn admitted(server: &Server, policy: &'static str, requests: u64) -> (u64, Duration) {
    let (refused, address) = (Arc::new(AtomicU64::new(0)), server.address.clone());
    let counted = Arc::clone(&refused);
    let service = service_fn(move |request: Request<Full<Bytes>>| {
        let (address, refused) = (address.clone(), Arc::clone(&counted));
        async move {
            let response = send(address, request).await?;
            refused.fetch_add(u64::from(response.status() == 429), Ordering::Relaxed);
            Ok::<_, std::io::Error>(response)
        }
    });
    let service = PoliteLayer::new(Polite::default()).layer(service);
    let taken = Arc::new(AtomicU64::new(0));
    let watch = Stopwatch::start();
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let (service, taken) = (service.clone(), Arc::clone(&taken));
            tokio::spawn(async move {
                while taken.fetch_add(1, Ordering::Relaxed) < requests {
                    let body = Full::from(format!(r#"{{"policy":"{policy}","key":"k"}}"#));
                    let request = Request::post("/v1/check?status=true").header("host", "ratekeeper.test");
                    let request = request.body(body).expect("a request");
                    let response = service.clone().oneshot(request).await.expect("an answer");
                    assert_eq!(response.status(), 200);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.expect("no panic");
    }
    (refused.load(Ordering::Relaxed), watch.elapsed())
}

/// Real time passes, since it is the server's clock that gives units back: some five seconds, both limits at once.
#[tokio::test]
async fn the_polite_client_uses_its_quota_and_is_never_refused() {
    let server = Server::of(
        "version: 1
policies:
  - { name: bucket, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 20/s, burst: 40 }] }
  - { name: window, key: [ip], limits: [{ name: l, algorithm: fixed-window, limit: 30 per 2s, align: first-request }] }
",
    );
    let (bucket, window) = tokio::join!(admitted(&server, "bucket", 120), admitted(&server, "window", 90));
    assert_eq!((bucket.0, window.0), (0, 0), "refusals");
    // 80 units come at 20 a second; the third window begins after 4 s. Each pause is up to 250 ms longer than it was
    // told to be, by chance, and what comes meanwhile is there to be used.
    for (_, elapsed) in [bucket, window] {
        assert!(elapsed >= Duration::from_secs(4), "more than there was: {elapsed:?}");
        assert!(elapsed < Duration::from_secs(9), "a slow machine takes a second or two more: {elapsed:?}");
    }
}
