//! A service and a client of tonic over a real connection.

use std::time::Duration;

use ratekeeper::{Algorithm, Limit};
use ratekeeper_tower::{LimitBy as _, RateLimitLayer, client_ip, header};
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

use crate::tonic_service::greeter::{GreeterClient, GreeterServer, Hello};

async fn client(layer: RateLimitLayer) -> GreeterClient {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    tokio::spawn(Server::builder().layer(layer).add_service(GreeterServer).serve_with_incoming(incoming));
    let channel = Channel::from_shared(format!("http://{address}")).expect("an address");
    GreeterClient::new(channel.connect().await.expect("it listens"))
}

async fn call(client: &mut GreeterClient, user: &str) -> Result<String, Status> {
    let mut request = Request::new(Hello { name: "Ann".to_owned() });
    request.metadata_mut().insert("x-user", user.parse().expect("a value"));
    client.say_hello(request).await.map(|reply| reply.into_inner().message)
}

fn pushback(status: &Status) -> Option<i64> {
    status.metadata().get("grpc-retry-pushback-ms")?.to_str().ok()?.parse().ok()
}

#[tokio::test]
async fn who_is_refused_reads_the_exact_wait_and_the_connection_stays() {
    // B133: per call, not per connection.
    let layer = RateLimitLayer::builder()
        .name("api")
        .limit(
            Limit::per_hour(10)
                .algorithm(Algorithm::FixedWindow)
                .align(ratekeeper::Align::FirstRequest)
                .by(header("x-user"))
                .named("calls"),
        )
        .build()
        .expect("good");
    let mut client = client(layer).await;
    for _ in 0..10 {
        assert_eq!(call(&mut client, "ann").await.expect("there is room"), "Hello, Ann");
    }
    let refused = call(&mut client, "ann").await.expect_err("ten an hour");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().starts_with("Limit api.calls allows 10 requests per 3600 s."), "{refused}");
    let delay = refused.get_details_retry_info().and_then(|info| info.retry_delay).expect("a wait");
    assert!(delay > Duration::from_secs(3_590) && delay <= Duration::from_secs(3_600), "{delay:?}");
    let millis = i64::try_from(delay.as_nanos().div_ceil(1_000_000)).expect("a wait of an hour");
    assert_eq!(pushback(&refused), Some(millis), "rounded up from the same wait");
    assert_eq!(call(&mut client, "bob").await.expect("another user"), "Hello, Ann");
}

#[tokio::test]
async fn what_can_never_pass_has_no_wait_and_no_pushback() {
    let limit = Limit::per_hour(3).by(header("x-user"));
    let layer = RateLimitLayer::builder().limit(limit).cost(|_| 4).build().expect("good");
    let refused = call(&mut client(layer).await, "ann").await.expect_err("four of three");
    assert_eq!((refused.code(), pushback(&refused)), (Code::ResourceExhausted, None));
    assert!(!refused.metadata().contains_key("grpc-retry-pushback-ms"), "nor one that is no number");
    assert!(refused.get_details_retry_info().is_none());
}

#[tokio::test]
async fn who_lacks_a_key_sends_a_bad_call() {
    let layer = RateLimitLayer::builder().limit(Limit::per_hour(3).by(header("x-tenant")));
    let layer = layer.missing_key(ratekeeper_tower::MissingKey::Reject).build().expect("good");
    let refused = call(&mut client(layer).await, "ann").await.expect_err("no tenant");
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn the_address_of_a_client_is_what_tonic_says() {
    let layer = RateLimitLayer::builder()
        .limit(Limit::per_hour(1).by(client_ip()))
        .missing_peer(ratekeeper_tower::MissingKey::Reject)
        .build()
        .expect("good");
    let mut client = client(layer).await;
    call(&mut client, "ann").await.expect("the address is known");
    assert_eq!(call(&mut client, "ann").await.expect_err("one an hour").code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn the_example_lets_ten_calls_begin_at_once() {
    let mut client = client(crate::tonic_service::layer().expect("good")).await;
    let mut codes = Vec::new();
    for _ in 0..30 {
        codes.push(call(&mut client, "ann").await.map_or_else(|refused| refused.code(), |_| Code::Ok));
    }
    assert_eq!(codes[..10], [Code::Ok; 10]);
    assert!(codes.contains(&Code::ResourceExhausted), "{codes:?}");
}
