//! A service of axum with a limit for each user, one for each address and one for all of them, decided together.
//!
//! `cargo run -p ratekeeper-tower --example axum_service -- 127.0.0.1:3000`, and then
//! `curl -i -H 'x-user: ann' 127.0.0.1:3000/`.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use ratekeeper::{KeyedLimiter, Limit, Limiter};
use ratekeeper_tower::{LayerError, LimitBy as _, Limited, RateLimitLayer, client_ip, header};

const PER_USER: Limit = Limit::per_second(5).burst(10);
const PER_ADDRESS: Limit = Limit::per_second(20).burst(40);
const ALL_TOGETHER: Limit = Limit::per_second(1_000);

/// The application.
pub(crate) fn app() -> Result<Router, LayerError> {
    let users = KeyedLimiter::new(PER_USER);
    let everybody = Limiter::new(ALL_TOGETHER);
    let layer = RateLimitLayer::builder()
        .name("api")
        // Who says no name is told apart by its address. Behind proxies: client_ip().behind(["10.0.0.0/8"]).
        .limit(users.by(header("x-user").or(client_ip())).named("user"))
        // Nobody has checked that name: whoever invents one for each request meets this limit.
        .limit(PER_ADDRESS.by(client_ip()).named("address"))
        .limit(ratekeeper_tower::Rule::from(everybody).named("all"))
        // What we fail to do costs nothing.
        .refund_if(|response| response.status().is_server_error())
        .build()?;
    Ok(Router::new().route("/", get(hello)).layer(layer))
}

async fn hello(Limited(decision): Limited) -> String {
    format!("hello; {} more at once\n", decision.remaining)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("http://{}/", listener.local_addr()?);
    // Without connect info nobody knows the address of a client.
    axum::serve(listener, app()?.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
