//! Ten tries to log in within ten minutes for each address; who knows the password begins anew.
//!
//! `cargo run -p ratekeeper-tower --example login -- 127.0.0.1:3000`, and then
//! `curl -i -d wrong 127.0.0.1:3000/login`; the password is `sesame`.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::net::SocketAddr;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::routing::post;
use ratekeeper::{Algorithm, KeyedLimiter, Limit, minutes};
use ratekeeper_tower::{KeyBy, LayerError, LimitBy as _, RateLimitLayer, client_ip};

/// Never more than ten in any ten minutes: a promise that only the log makes.
const TRIES: Limit = Limit::per(10, minutes(10)).algorithm(Algorithm::SlidingWindowLog);

#[derive(Clone)]
struct Logins {
    tries: KeyedLimiter,
    key: KeyBy,
}

/// The application.
pub(crate) fn app() -> Result<Router, LayerError> {
    let logins = Logins { tries: KeyedLimiter::new(TRIES), key: client_ip() };
    let layer = RateLimitLayer::builder()
        .name("login")
        .limit(logins.tries.by(logins.key.clone()).named("tries"))
        .build()?;
    Ok(Router::new().route("/login", post(login).layer(layer)).with_state(logins))
}

async fn login(State(logins): State<Logins>, request: Request) -> Result<&'static str, StatusCode> {
    let (head, body) = request.into_parts();
    let password = axum::body::to_bytes(body, 1_024).await.map_err(|_| StatusCode::PAYLOAD_TOO_LARGE)?;
    if &password[..] != b"sesame" {
        return Err(StatusCode::UNAUTHORIZED);
    }
    // The key is the layer's, so an IPv6 client is forgiven as it was counted: by its network.
    logins.key.with_key(&head, |key| logins.tries.reset(key));
    Ok("welcome\n")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("http://{}/login", listener.local_addr()?);
    axum::serve(listener, app()?.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
