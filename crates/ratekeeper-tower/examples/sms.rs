//! One code by SMS a minute for each user, counted from the first; who is not known gets none.
//!
//! `cargo run -p ratekeeper-tower --example sms -- 127.0.0.1:3000`, and then
//! `curl -i -X POST -H 'x-user: ann' 127.0.0.1:3000/sms`.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use ratekeeper::{Algorithm, Align, Limit};
use ratekeeper_tower::{LayerError, LimitBy as _, MissingKey, RateLimitLayer, header};

const CODE: Limit = Limit::per_minute(1).algorithm(Algorithm::FixedWindow).align(Align::FirstRequest);

/// The application.
pub(crate) fn app() -> Result<Router, LayerError> {
    let layer = RateLimitLayer::builder()
        .name("sms")
        // An outer layer has checked who this is; here it is taken as it stands.
        .limit(CODE.by(header("x-user")).named("code"))
        .missing_key(MissingKey::Reject)
        // A code that was not sent is none.
        .refund_if(|response| !response.status().is_success())
        .build()?;
    Ok(Router::new().route("/sms", post(send).layer(layer)))
}

async fn send(body: String) -> (StatusCode, &'static str) {
    if body == "the provider is down" {
        return (StatusCode::BAD_GATEWAY, "not sent\n");
    }
    (StatusCode::OK, "sent\n")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("http://{}/sms", listener.local_addr()?);
    axum::serve(listener, app()?).await?;
    Ok(())
}
