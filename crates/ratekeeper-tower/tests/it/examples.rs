//! The examples do what they say.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::connect_info::MockConnectInfo;
use http::Request;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use crate::{axum_service, login, sms};

async fn ask(app: &Router, peer: &str, request: http::request::Builder, body: &str) -> (u16, String) {
    let peer: SocketAddr = peer.parse().expect("an address");
    let request = request.body(Body::from(body.to_owned())).expect("a request");
    let response =
        app.clone().layer(MockConnectInfo(peer)).oneshot(request).await.expect("a router never fails");
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    (status, String::from_utf8(body.to_vec()).expect("text"))
}

#[tokio::test]
async fn axum_service_limits_each_user_for_itself() {
    let app = axum_service::app().expect("good");
    let mut statuses = Vec::new();
    for _ in 0..12 {
        statuses.push(ask(&app, "192.0.2.1:1", Request::get("/").header("x-user", "ann"), "").await.0);
    }
    assert_eq!(statuses[..10], [200; 10]);
    assert!(statuses.contains(&429), "{statuses:?}");
    assert_eq!(
        ask(&app, "192.0.2.1:1", Request::get("/"), "").await,
        (200, "hello; 9 more at once\n".to_owned())
    );
}

#[tokio::test]
async fn axum_service_stops_who_invents_a_user_for_each_request() {
    let app = axum_service::app().expect("good");
    let mut refused = 0;
    for nth in 0..400 {
        let request = Request::get("/").header("x-user", format!("user-{nth}"));
        refused += usize::from(ask(&app, "192.0.2.1:1", request, "").await.0 == 429);
    }
    assert!(refused > 0, "an address has 40 at once and 20 a second");
}

#[tokio::test]
async fn login_takes_ten_tries_and_forgives_who_knows_the_password() {
    let app = login::app().expect("good");
    let log_in = |peer: &'static str, password: &'static str| {
        let app = app.clone();
        async move { ask(&app, peer, Request::post("/login"), password).await.0 }
    };
    for _ in 0..9 {
        assert_eq!(log_in("192.0.2.1:1", "guess").await, 401);
    }
    assert_eq!(log_in("192.0.2.1:2", "sesame").await, 200, "the tenth knows it");
    for _ in 0..10 {
        assert_eq!(log_in("192.0.2.1:3", "guess").await, 401, "and begins anew");
    }
    assert_eq!(log_in("192.0.2.1:4", "sesame").await, 429, "the eleventh is not looked at");
    assert_eq!(log_in("192.0.2.2:1", "sesame").await, 200);
    for host in 0..10 {
        let peer = format!("[2001:db8::{host}]:1");
        assert_eq!(ask(&app, &peer, Request::post("/login"), "guess").await.0, 401);
    }
    assert_eq!(log_in("[2001:db8::ffff]:1", "guess").await, 429, "a network is one client");
}

#[tokio::test]
async fn sms_sends_one_code_a_minute_and_none_to_nobody() {
    let app = sms::app().expect("good");
    let send = |user: &'static str, body: &'static str| {
        let app = app.clone();
        async move { ask(&app, "192.0.2.1:1", Request::post("/sms").header("x-user", user), body).await.0 }
    };
    assert_eq!(send("ann", "the provider is down").await, 502);
    assert_eq!(send("ann", "").await, 200, "what was not sent does not count");
    assert_eq!(send("ann", "").await, 429);
    assert_eq!(send("bob", "").await, 200);
    assert_eq!(ask(&app, "192.0.2.1:1", Request::post("/sms"), "").await.0, 400);
}
