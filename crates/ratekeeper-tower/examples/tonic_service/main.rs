//! A service of tonic whose calls are limited: refusals are `RESOURCE_EXHAUSTED` with the exact wait.
//!
//! `cargo run -p ratekeeper-tower --features tonic --example tonic_service` serves `greeter.Greeter/SayHello`, calls it
//! twelve times itself, and shows what it is answered. An argument is where to listen: `127.0.0.1:3000`.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

pub(crate) mod greeter;

use ratekeeper::Limit;
use ratekeeper_tower::{LayerError, LimitBy as _, RateLimitLayer, client_ip};
use tonic::Request;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};

use self::greeter::{GreeterClient, GreeterServer, Hello};

const CALLS: Limit = Limit::per_second(5).burst(10);

/// The limit for each address.
pub(crate) fn layer() -> Result<RateLimitLayer, LayerError> {
    RateLimitLayer::builder().name("greeter").limit(CALLS.by(client_ip()).named("calls")).build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    let url = format!("http://{}", listener.local_addr()?);
    println!("{url}");
    let server = Server::builder().layer(layer()?).add_service(GreeterServer);
    let serving = tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    let mut client = GreeterClient::new(Channel::from_shared(url)?.connect().await?);
    for _ in 0..12 {
        match client.say_hello(Request::new(Hello { name: "Ann".to_owned() })).await {
            Ok(reply) => println!("{}", reply.into_inner().message),
            Err(refused) => {
                let wait = refused.metadata().get("grpc-retry-pushback-ms");
                println!("{:?}: {}, in ms: {wait:?}", refused.code(), refused.message());
            }
        }
    }
    serving.await??;
    Ok(())
}
