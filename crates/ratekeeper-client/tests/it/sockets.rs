//! Both adapters over real sockets on loopback. Real time passes: one wait of a second each, which is what a server
//! can ask for at least by Retry-After.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use ratekeeper_client::{GiveUp, Polite, PoliteLayer, PoliteOptions, RetryReport};
use tokio::net::TcpListener;
use tower::{Layer as _, ServiceExt as _};

/// A server that answers request number n so, with a body of 2 KiB; its address, and how many connections it had.
async fn serve(
    answer: impl Fn(usize, &Request<Incoming>) -> (u16, &'static str, String) + Clone + Send + Sync + 'static,
) -> (SocketAddr, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (connections, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counted = (Arc::clone(&connections), Arc::clone(&requests));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            connections.fetch_add(1, Ordering::SeqCst);
            let (answer, requests) = (answer.clone(), Arc::clone(&requests));
            let service = service_fn(move |request: Request<Incoming>| {
                let (status, retry_after, body) = answer(requests.fetch_add(1, Ordering::SeqCst), &request);
                let mut response = Response::builder().status(status);
                if !retry_after.is_empty() {
                    response = response.header("retry-after", retry_after);
                }
                let response = response.body(Full::<Bytes>::from(body)).expect("a response");
                async move { Ok::<_, Infallible>(response) }
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service),
            );
        }
    });
    (address, counted.0, counted.1)
}

fn refused_once(number: usize, _: &Request<Incoming>) -> (u16, &'static str, String) {
    if number == 0 { (429, "1", "x".repeat(2_048)) } else { (200, "", "fine".to_owned()) }
}

fn reqwest_client(polite: Polite) -> reqwest_middleware::ClientWithMiddleware {
    let client =
        reqwest::Client::builder().retry(reqwest::retry::never()).no_proxy().build().expect("a client");
    reqwest_middleware::ClientBuilder::new(client).with(polite).build()
}

#[tokio::test]
async fn a_tower_client_waits_and_uses_its_connection_again() {
    let (address, connections, requests) = serve(refused_once).await;
    let http = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let client = PoliteLayer::per_host().layer(http);
    let request = Request::post(format!("http://{address}/")).body(Full::from("payload")).expect("a request");
    let response = client.oneshot(request).await.expect("an answer");
    let report = *response.extensions().get::<RetryReport>().expect("a report");
    assert_eq!((response.status().as_u16(), report.attempts), (200, 2));
    assert!(report.waited >= Duration::from_secs(1) && report.waited < Duration::from_secs(10), "{report:?}");
    assert_eq!(response.into_body().collect().await.expect("a body").to_bytes(), "fine");
    assert_eq!((connections.load(Ordering::SeqCst), requests.load(Ordering::SeqCst)), (1, 2));
}

#[tokio::test]
async fn a_reqwest_client_waits_and_uses_its_connection_again() {
    let (address, connections, requests) = serve(refused_once).await;
    let client = reqwest_client(Polite::default());
    let response = client.post(format!("http://{address}/")).body("payload").send().await.expect("an answer");
    let report = *response.extensions().get::<RetryReport>().expect("a report");
    assert_eq!((response.status().as_u16(), report.attempts), (200, 2));
    assert!(report.waited >= Duration::from_secs(1), "{report:?}");
    assert_eq!(response.text().await.expect("a body"), "fine");
    assert_eq!((connections.load(Ordering::SeqCst), requests.load(Ordering::SeqCst)), (1, 2));
}

#[tokio::test]
async fn reqwest_returns_the_refusal_when_it_gives_up_and_an_error_only_for_a_closed_gate() {
    let (address, _, requests) = serve(|_, _| (429, "100", "slow down".to_owned())).await;
    let client = reqwest_client(Polite::default());
    let url = format!("http://{address}/");
    let options = PoliteOptions::default().within(Duration::from_secs(5));
    let response = client.get(&url).with_extension(options).send().await.expect("the refusal");
    let report = *response.extensions().get::<RetryReport>().expect("a report");
    assert_eq!((response.status().as_u16(), report.gave_up), (429, Some(GiveUp::Deadline)));
    assert_eq!(response.text().await.expect("its body"), "slow down");
    let error = client.get(&url).send().await.expect_err("100 s is longer than it may wait");
    let reqwest_middleware::Error::Middleware(error) = error else { panic!("{error:?}") };
    let gated = error.downcast_ref::<ratekeeper_client::Gated>().expect("it is gated");
    assert!(gated.retry_after > Duration::from_secs(90), "{gated:?}");
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn row_39_abuse_is_found_in_a_body_that_is_still_there_to_be_read() {
    const BODY: &str =
        r#"{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected"}"#;
    let (address, _, requests) = serve(|_, _| (429, "1", BODY.to_owned())).await;
    let client = reqwest_client(Polite::builder().read_bodies(true).build().expect("good settings"));
    let url = format!("http://{address}/");
    let response = client.get(&url).send().await.expect("an answer");
    let report = *response.extensions().get::<RetryReport>().expect("a report");
    assert_eq!((response.status().as_u16(), report.gave_up), (429, Some(GiveUp::Abuse)));
    assert_eq!(
        (response.url().as_str(), response.headers()["retry-after"].as_bytes()),
        (url.as_str(), &b"1"[..])
    );
    assert_eq!(response.text().await.expect("its body"), BODY);
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_body_of_reqwest_that_streams_is_sent_once() {
    let (address, _, requests) = serve(refused_once).await;
    let client = reqwest_client(Polite::default());
    // A body that reqwest did not make itself may be anything.
    let body = reqwest::Body::wrap(Full::<Bytes>::from("payload"));
    let response = client.post(format!("http://{address}/")).body(body).send().await.expect("an answer");
    let report = *response.extensions().get::<RetryReport>().expect("a report");
    assert_eq!((response.status().as_u16(), report.gave_up), (429, Some(GiveUp::NotReplayable)));
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}
