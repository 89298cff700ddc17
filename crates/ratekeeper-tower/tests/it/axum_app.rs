//! In an application of axum.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::connect_info::MockConnectInfo;
use axum::routing::get;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use ratekeeper::{KeyedLimiter, Limit, Limiter, ManualClock, minutes, seconds};
use ratekeeper_tower::{
    Config, LimitBy as _, Limited, RateLimitLayer, client_ip, global, header, matched_path,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt as _;

async fn remaining(Limited(decision): Limited) -> String {
    decision.remaining.to_string()
}

fn app(layer: RateLimitLayer) -> Router {
    Router::new().route("/", get(remaining)).layer(layer)
}

async fn ask(app: &Router, request: http::request::Builder) -> Response<Body> {
    let request = request.body(Body::empty()).expect("a request");
    app.clone().oneshot(request).await.expect("a router never fails")
}

async fn text(response: Response<Body>) -> String {
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    String::from_utf8(body.to_vec()).expect("text")
}

fn field<'r>(response: &'r Response<Body>, name: &str) -> Option<&'r str> {
    let mut lines = response.headers().get_all(name).into_iter();
    let line = lines.next().map(|line| line.to_str().expect("text"));
    assert!(lines.next().is_none(), "{name} has two lines");
    line
}

#[tokio::test]
async fn who_is_let_in_is_told_where_it_stands_and_who_is_refused_when_to_come_back() {
    let clock = ManualClock::new();
    let users =
        KeyedLimiter::builder(Limit::per(2, minutes(1))).name("user").clock(&clock).build().expect("small");
    let global =
        Limiter::builder(Limit::per_second(100)).name("global").clock(&clock).build().expect("small");
    let layer = RateLimitLayer::builder().name("api").limit(users.by(header("x-user"))).limit(&global);
    let app = app(layer.clock(&clock).build().expect("a good layer"));

    let first = ask(&app, Request::get("/").header("x-user", "ann")).await;
    assert_eq!(first.status(), StatusCode::OK);
    assert_eq!(field(&first, "ratelimit-policy"), Some(r#""api.user";q=2;w=60, "api.global";q=100;w=1"#));
    assert_eq!(field(&first, "ratelimit"), Some(r#""api.user";r=1;t=30, "api.global";r=99;t=1"#));
    assert_eq!(text(first).await, "1", "the handler is told the decision");

    let second = ask(&app, Request::get("/").header("x-user", "ann")).await;
    assert_eq!(second.status(), StatusCode::OK);
    let refused = ask(&app, Request::get("/").header("x-user", "ann")).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(field(&refused, "retry-after"), Some("30"));
    assert_eq!(field(&refused, "ratelimit"), Some(r#""api.user";r=0;t=30"#));
    assert_eq!(field(&refused, "cache-control"), Some("no-store"));
    assert_eq!(field(&refused, "content-type"), Some("application/problem+json"));
    let body: serde_json::Value = serde_json::from_str(&text(refused).await).expect("JSON");
    assert_eq!(body["violated-policies"], serde_json::json!(["api.user"]));
    assert_eq!((&body["retry_after_ms"], &body["limit"]), (&30_000.into(), &"user".into()));

    assert_eq!(global.peek().remaining(), 98, "the refusal took nothing of the limit that all share");
    let other = ask(&app, Request::get("/").header("x-user", "bob")).await;
    assert_eq!(other.status(), StatusCode::OK, "another user has units of its own");
    clock.advance(seconds(30));
    assert_eq!(ask(&app, Request::get("/").header("x-user", "ann")).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn the_address_of_a_client_is_what_axum_says_also_in_tests() {
    let app = app(RateLimitLayer::per_ip(Limit::per_hour(1)));
    let ann: SocketAddr = "192.0.2.1:1".parse().expect("an address");
    let bob: SocketAddr = "192.0.2.2:1".parse().expect("an address");
    for (peer, status) in [(ann, StatusCode::OK), (ann, StatusCode::TOO_MANY_REQUESTS), (bob, StatusCode::OK)]
    {
        let app = app.clone().layer(MockConnectInfo(peer));
        assert_eq!(ask(&app, Request::get("/")).await.status(), status);
    }
}

#[tokio::test]
async fn a_layer_around_the_router_and_around_a_route_charges_once() {
    // B125.
    let layer = RateLimitLayer::builder().limit(Limit::per_minute(10).by(global())).build().expect("good");
    let app = Router::new().route("/", get(remaining).layer(layer.clone())).layer(layer);
    for nth in 1..=11 {
        let response = ask(&app, Request::get("/")).await;
        assert_eq!(response.status() == StatusCode::OK, nth <= 10, "request {nth}");
        assert!(!field(&response, "ratelimit").expect("told once").contains(", "));
    }
}

#[tokio::test]
async fn two_layers_charge_each_for_itself_and_tell_on_one_line() {
    let layer = |name: &str, limit: Limit| {
        RateLimitLayer::builder()
            .name(name)
            .limit(limit.by(global()))
            .clock(ManualClock::new())
            .build()
            .expect("good")
    };
    let inner = get(remaining).layer(layer("route", Limit::per_minute(5)));
    let app = Router::new().route("/", inner).layer(layer("app", Limit::per_minute(3)));
    for left in [2, 1, 0] {
        let response = ask(&app, Request::get("/")).await;
        let (of_app, of_route) = (left, left + 2);
        let told = format!(r#""route.limit";r={of_route};t=12, "app.limit";r={of_app};t=20"#);
        assert_eq!(field(&response, "ratelimit"), Some(told.as_str()));
        assert_eq!(text(response).await, of_route.to_string(), "the handler is told by the innermost layer");
    }
    let refused = ask(&app, Request::get("/")).await;
    assert_eq!(field(&refused, "ratelimit"), Some(r#""app.limit";r=0;t=20"#));
}

#[tokio::test]
async fn a_route_is_a_key_and_a_nested_one_is_matched_by_its_whole_path() {
    let layer = RateLimitLayer::builder().limit(Limit::per_hour(1).by(matched_path())).build().expect("good");
    let handler = || get(|| async { "ok" });
    let app =
        Router::new().route("/users/{id}", handler()).route("/items/{id}", handler()).route_layer(layer);
    for (path, status) in [("/users/1", 200), ("/users/2", 429), ("/items/1", 200), ("/items/2", 429)] {
        assert_eq!(ask(&app, Request::get(path)).await.status(), status, "{path}");
    }
    let text = "
version: 1
policies: [{ name: p, match: { path: /api/users/** }, key: [global], limits: [{ name: l, algorithm: gcra, limit: 1/hour }] }]
";
    let config = Config::parse("test.yaml", text.as_bytes(), &|_| None)
        .unwrap_or_else(|wrong| panic!("{}", wrong.render()));
    let layer = RateLimitLayer::from_config(config).build().expect("good");
    let inside = Router::new().route("/users/{id}", handler()).route("/items/{id}", handler()).layer(layer);
    let app = Router::new().nest("/api", inside);
    for (path, status) in
        [("/api/users/1", 200), ("/api/users/2", 429), ("/api/items/1", 200), ("/api/items/1", 200)]
    {
        assert_eq!(ask(&app, Request::get(path)).await.status(), status, "{path}");
    }
}

#[tokio::test]
async fn a_handler_without_a_layer_is_a_mistake_unless_it_says_that_it_may_be() {
    let app = Router::new()
        .route("/must", get(remaining))
        .route("/may", get(|limited: Option<Limited>| async move { limited.is_some().to_string() }));
    let missing = ask(&app, Request::get("/must")).await;
    assert_eq!(missing.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert!(text(missing).await.contains("RateLimitLayer"));
    assert_eq!(text(ask(&app, Request::get("/may")).await).await, "false");
    let layer = RateLimitLayer::builder().limit(Limit::per_hour(1).by(global())).build().expect("good");
    assert_eq!(text(ask(&app.layer(layer), Request::get("/may")).await).await, "true");
}

#[tokio::test]
async fn on_a_real_socket_each_request_is_counted_and_the_connection_stays() {
    // B133: per request, not per connection.
    let app =
        app(RateLimitLayer::builder().limit(Limit::per_hour(10).by(client_ip())).build().expect("good"));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let serving = tokio::spawn(async move {
        axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await
    });
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let mut statuses = Vec::new();
    for _ in 0..12 {
        stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.expect("open");
        statuses.push(read_answer(&mut stream).await);
    }
    assert_eq!(statuses[..10], ["HTTP/1.1 200 OK"; 10]);
    assert_eq!(statuses[10..], ["HTTP/1.1 429 Too Many Requests"; 2]);
    serving.abort();
}

/// Reads one answer to its end; its first line.
async fn read_answer(stream: &mut TcpStream) -> String {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4_096]);
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.and_then(|length| length.parse().ok()).expect("a length");
            if body.len() >= length {
                return head.lines().next().unwrap_or_default().to_owned();
            }
        }
        let read = stream.read(&mut chunk).await.expect("open");
        assert!(read > 0, "the connection was closed after {text:?}");
        bytes.extend_from_slice(&chunk[..read]);
    }
}
