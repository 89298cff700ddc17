//! What is answered, by what the limits said.

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use http_body_util::Full;
use ratekeeper::{Algorithm, Align, KeyedLimiter, Limit, ManualClock, Reason};
use ratekeeper_tower::{
    Headers, Jitter, LimitBy as _, MissingKey, Mode, RateLimitLayer, XRateLimit, client_ip, global, header,
};

use crate::support::{Backend, empty, from, micros};

const ONE_A_MINUTE: Limit = Limit::per_minute(1);

fn layer(limit: Limit) -> RateLimitLayer {
    RateLimitLayer::builder().limit(limit.by(global())).build().expect("a good layer")
}

#[tokio::test]
async fn waits_are_told_in_whole_seconds_rounded_up_once() {
    // B31.
    for (wait_us, seconds, millis) in [
        (1_000, "1", 1),
        (999_000, "1", 999),
        (1_000_000, "1", 1_000),
        (1_001_000, "2", 1_001),
        (2_000_000, "2", 2_000),
        (7_000_000, "7", 7_000),
        (1_000_001, "2", 1_001),
    ] {
        let clock = ManualClock::new();
        let window =
            Limit::per(1, micros(wait_us)).algorithm(Algorithm::FixedWindow).align(Align::FirstRequest);
        let layer = RateLimitLayer::builder().limit(window.by(global())).clock(&clock).build().expect("good");
        let backend = Backend::default();
        assert_eq!(backend.ask(&layer, empty(from("192.0.2.1"))).await.status, StatusCode::OK);
        let refused = backend.ask(&layer, empty(from("192.0.2.1"))).await;
        assert_eq!(refused.field("retry-after"), Some(seconds), "{wait_us}");
        assert_eq!(refused.json()["retry_after_ms"], millis, "{wait_us}");
        clock.advance(micros(wait_us));
        assert_eq!(backend.ask(&layer, empty(from("192.0.2.1"))).await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_429_never_says_0() {
    // B32r.
    for limit in [Limit::per_second(10).burst(1), Limit::per_second(1_000).burst(1)] {
        let clock = ManualClock::new();
        let layer = RateLimitLayer::builder().limit(limit.by(global())).clock(&clock).build().expect("good");
        let backend = Backend::default();
        let mut refused = 0;
        for _ in 0..200 {
            let answer = backend.ask(&layer, empty(from("192.0.2.1"))).await;
            if answer.status == StatusCode::TOO_MANY_REQUESTS {
                refused += 1;
                assert_eq!(answer.field("retry-after"), Some("1"));
                assert!(answer.json()["retry_after_ms"].as_u64() >= Some(1));
            }
            clock.advance(micros(331));
        }
        assert!(refused > 100);
    }
}

#[tokio::test]
async fn not_everybody_is_told_the_same_instant_and_nobody_an_earlier_one() {
    // B99r.
    for (thousandths, most) in [(0, 30), (200, 36)] {
        let clock = ManualClock::new();
        let retry_jitter = Jitter::of_thousandths(thousandths).expect("at most all of it");
        let window = Limit::per_minute(1).algorithm(Algorithm::FixedWindow).by(global());
        let layer =
            RateLimitLayer::builder().limit(window).headers(Headers { retry_jitter, ..Headers::default() });
        let (layer, backend) = (layer.clock(&clock).build().expect("good"), Backend::default());
        let _ = backend.ask(&layer, empty(from("192.0.2.1"))).await;
        clock.advance(micros(30_000_000));
        let mut told = std::collections::BTreeSet::new();
        for _ in 0..500 {
            let refused = backend.ask(&layer, empty(from("192.0.2.1"))).await;
            let seconds =
                refused.field("retry-after").and_then(|wait| wait.parse::<u64>().ok()).expect("a wait");
            let field = format!("\"default.limit\";r=0;t={seconds}");
            assert_eq!(refused.field("ratelimit"), Some(field.as_str()), "the same in every field");
            assert_eq!(refused.json()["retry_after"], seconds);
            told.insert(seconds);
        }
        // The earliest is one chance in two hundred; the second that follows it is one in six.
        assert!(told.iter().all(|seconds| (30..=most).contains(seconds)), "{told:?}");
        assert!(told.first() <= Some(&31) && told.last() == Some(&most), "{told:?}");
    }
}

#[tokio::test]
async fn what_can_never_pass_is_413_without_a_wait_and_costs_nothing() {
    // B06r.
    let layer = RateLimitLayer::builder()
        .limit(Limit::per_minute(1).burst(6).algorithm(Algorithm::Gcra).by(global()))
        .cost(|parts| if parts.method == Method::POST { 10 } else { 1 })
        .build()
        .expect("good");
    let backend = Backend::default();
    let refused = backend.ask(&layer, empty(from("192.0.2.1").method("POST"))).await;
    assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!((refused.field("retry-after"), refused.field("ratelimit")), (None, None));
    assert_eq!(refused.json()["reason"], "cost_exceeds_capacity");
    let allowed = backend.ask(&layer, empty(from("192.0.2.1"))).await;
    assert_eq!(allowed.field("ratelimit"), Some(r#""default.limit";r=5;t=60"#));
}

#[tokio::test]
async fn who_lacks_a_key_is_skipped_counted_with_others_or_turned_away() {
    let of = |missing| {
        let builder = RateLimitLayer::builder().limit(ONE_A_MINUTE.by(header("x-user")));
        builder.missing_key(missing).build().expect("good")
    };
    for (missing, statuses) in
        [(MissingKey::Skip, [200, 200]), (MissingKey::Shared, [200, 429]), (MissingKey::Reject, [400, 400])]
    {
        let (layer, backend) = (of(missing), Backend::default());
        for status in statuses {
            assert_eq!(backend.ask(&layer, empty(from("192.0.2.1"))).await.status, status, "{missing:?}");
        }
        let known = backend.ask(&layer, empty(from("192.0.2.1").header("x-user", "ann"))).await;
        assert_eq!(known.status, 200, "who has a key is not counted with those who have none");
    }
    let turned_away = Backend::default().ask(&of(MissingKey::Reject), empty(from("192.0.2.1"))).await;
    assert_eq!(turned_away.json()["detail"], "the limits of this service need header x-user");
    assert_eq!(turned_away.json()["type"], "urn:ratekeeper:problem:bad-input");
}

#[tokio::test]
async fn keys_have_a_bound_and_are_in_no_answer() {
    // B118, B120.
    let layer = RateLimitLayer::builder().limit(ONE_A_MINUTE.by(header("x-api-key"))).build().expect("good");
    let backend = Backend::default();
    for (length, status) in [(1, 200), (250, 200), (1_024, 200), (1_025, 400), (9_000, 400)] {
        let key = "k".repeat(length);
        let answer = backend.ask(&layer, empty(from("192.0.2.1").header("x-api-key", &key))).await;
        assert_eq!(answer.status, status, "{length} bytes");
    }
    for key in ["live_aaaaaaaaaa1", "live_aaaaaaaaaa2"] {
        let ask = || backend.ask(&layer, empty(from("192.0.2.1").header("x-api-key", key)));
        assert_eq!(ask().await.status, 200, "keys are compared whole");
        let refused = ask().await;
        assert_eq!(refused.status, 429);
        let text = format!("{:?} {}", refused.headers, refused.body);
        assert!(!text.contains("live_"), "{text}");
    }
    let invalid = http::HeaderValue::from_bytes(&[0xff, 0xfe]).expect("opaque bytes");
    assert_eq!(backend.ask(&layer, empty(from("192.0.2.1").header("x-api-key", invalid))).await.status, 200);
}

#[tokio::test]
async fn upstream_refusals_pass_unchanged() {
    for status in [429, 503] {
        let backend = Backend::answering(move |_| {
            let response = Response::builder()
                .status(status)
                .header("retry-after", "9")
                .header("ratelimit", "\"up\";r=0;t=9");
            response.body(Full::from("theirs")).expect("an answer")
        });
        let answer = backend.ask(&layer(ONE_A_MINUTE), empty(from("192.0.2.1"))).await;
        assert_eq!((answer.status.as_u16(), answer.body.as_str()), (status, "theirs"));
        assert_eq!(
            (answer.field("retry-after"), answer.field("ratelimit")),
            (Some("9"), Some("\"up\";r=0;t=9"))
        );
        assert_eq!(answer.field("ratelimit-policy"), None);
    }
}

#[tokio::test]
async fn preflights_are_not_counted_and_pages_can_read_a_refusal() {
    // B126r.
    let layer = layer(Limit::per_minute(40));
    let backend = Backend::default();
    for _ in 0..40 {
        let preflight = from("192.0.2.1")
            .method("OPTIONS")
            .header("origin", "https://app.example")
            .header("access-control-request-method", "GET");
        assert_eq!(backend.ask(&layer, empty(preflight)).await.status, 200);
        assert_eq!(backend.ask(&layer, empty(from("192.0.2.1"))).await.status, 200);
    }
    let refused = backend.ask(&layer, empty(from("192.0.2.1").header("origin", "https://app.example"))).await;
    assert_eq!(refused.status, 429);
    let exposed = refused.field("access-control-expose-headers");
    assert_eq!(exposed, Some("Retry-After, RateLimit, RateLimit-Policy"));
    let plain = backend.ask(&layer, empty(from("192.0.2.1").method("OPTIONS"))).await;
    assert_eq!(plain.status, 429, "what is no preflight is counted");
}

#[tokio::test]
async fn shadow_refuses_nobody_and_shows_in_no_field() {
    let seen: std::sync::Arc<std::sync::Mutex<Vec<(bool, bool, String)>>> = std::sync::Arc::default();
    let told = seen.clone();
    let layer = RateLimitLayer::builder()
        .limit(ONE_A_MINUTE.by(global()).named("all"))
        .mode(Mode::Shadow)
        .observe(move |observed| {
            let what = (
                observed.decision.allowed,
                observed.is_shadow,
                format!("{}.{}", observed.policy, observed.limit),
            );
            told.lock().expect("one test").push(what);
        })
        .build()
        .expect("good");
    let backend = Backend::default();
    for _ in 0..2 {
        let answer = backend.ask(&layer, empty(from("192.0.2.1"))).await;
        assert_eq!((answer.status.as_u16(), answer.field("ratelimit")), (200, None));
    }
    let all = "default.all".to_owned();
    assert_eq!(*seen.lock().expect("one test"), [(true, true, all.clone()), (false, true, all)]);
    assert_eq!(backend.calls(), 2);
}

#[tokio::test]
async fn a_program_answers_in_its_own_words_and_the_fields_come_with_it() {
    let layer = RateLimitLayer::builder()
        .limit(ONE_A_MINUTE.by(global()))
        .on_denied(|denied| {
            assert_eq!((denied.status().as_u16(), denied.reason()), (429, Some(Reason::Limited)));
            assert_eq!(denied.decision().map(|decision| decision.remaining), Some(0));
            assert!(denied.problem_json().starts_with(b"{\"type\":"));
            let body = format!("come back in {:?}", denied.denial().retry_after());
            Response::builder().status(420).body(Bytes::from(body)).expect("an answer")
        })
        .build()
        .expect("good");
    let backend = Backend::default();
    assert_eq!(backend.ask(&layer, empty(from("192.0.2.1"))).await.status, 200);
    let refused = backend.ask(&layer, empty(from("192.0.2.1"))).await;
    assert_eq!((refused.status.as_u16(), refused.body.as_str()), (420, "come back in Some(60)"));
    assert_eq!(refused.field("retry-after"), Some("60"));
    assert_eq!(refused.field("ratelimit"), Some(r#""default.limit";r=0;t=60"#));
}

#[tokio::test]
async fn a_wait_that_the_program_says_itself_stays_if_it_is_longer_or_a_date() {
    const DATE: &str = "Fri, 31 Dec 2100 23:59:59 GMT";
    for (said, told) in [(DATE, DATE), ("90", "90"), ("5", "60"), ("", "60")] {
        let layer = RateLimitLayer::builder().limit(ONE_A_MINUTE.by(global())).on_denied(move |_| {
            Response::builder().status(429).header("retry-after", said).body(Bytes::new()).expect("an answer")
        });
        let (layer, backend) = (layer.clock(ManualClock::new()).build().expect("good"), Backend::default());
        assert_eq!(backend.ask(&layer, empty(from("192.0.2.1"))).await.status, 200);
        let refused = backend.ask(&layer, empty(from("192.0.2.1"))).await;
        assert_eq!(refused.field("retry-after"), Some(told));
        assert_eq!(refused.field("cache-control"), Some("no-store"));
    }
}

#[tokio::test]
async fn one_request_is_charged_once_by_one_layer_wherever_it_meets_it() {
    // B125: the same layer globally and on a route.
    let layer = layer(Limit::per_minute(10));
    let twice = |backend: &Backend| {
        let (backend, inner) = (backend.clone(), layer.clone());
        Backend::answering(move |request| {
            let mut again = empty(http::Request::builder().uri(request.uri().clone()));
            *again.extensions_mut() = request.extensions().clone();
            let answer = futures_now(backend.ask(&inner, again));
            let mut response = Response::new(Full::from(answer.body));
            (*response.status_mut(), *response.headers_mut()) = (answer.status, answer.headers);
            response
        })
    };
    let backend = Backend::default();
    let outer = twice(&backend);
    for nth in 1..=11 {
        let answer = outer.ask(&layer, empty(from("192.0.2.1"))).await;
        assert_eq!(answer.status == 200, nth <= 10, "request {nth}");
        let limit = answer.field("ratelimit").expect("told once");
        assert!(!limit.contains(", "), "{limit}");
    }
    assert_eq!(backend.calls(), 10);
}

/// The value of a future that never waits.
fn futures_now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("nothing waits here"),
    }
}

#[tokio::test]
async fn fields_do_not_vanish_when_their_value_is_small() {
    // B37r: the last 500 microseconds of a window.
    let clock = ManualClock::new();
    let headers = Headers { x_ratelimit: XRateLimit::Delta, ..Headers::default() };
    let window = Limit::per_minute(2).algorithm(Algorithm::FixedWindow).align(Align::FirstRequest);
    let layer = RateLimitLayer::builder()
        .limit(window.by(global()))
        .headers(headers)
        .clock(&clock)
        .build()
        .expect("good");
    let backend = Backend::default();
    let _ = backend.ask(&layer, empty(from("192.0.2.1"))).await;
    clock.advance(micros(59_999_500));
    for (status, remaining) in [(200, "0"), (429, "0"), (429, "0")] {
        let answer = backend.ask(&layer, empty(from("192.0.2.1"))).await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.field("ratelimit"), Some(r#""default.limit";r=0;t=1"#));
        let older = ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"];
        assert_eq!(older.map(|name| answer.field(name)), [Some("2"), Some(remaining), Some("1")]);
        clock.advance(micros(100));
    }
}

#[tokio::test]
async fn a_limit_that_is_changed_is_told_by_its_new_numbers() {
    let clock = ManualClock::new();
    let users = KeyedLimiter::builder(Limit::per_minute(60)).clock(&clock).build().expect("small");
    let layer = RateLimitLayer::builder().limit(users.by(client_ip())).build().expect("good");
    let backend = Backend::default();
    users.set_limit(Limit::per_minute(120)).expect("room");
    let answer = backend.ask(&layer, empty(from("192.0.2.1"))).await;
    assert_eq!(answer.field("ratelimit-policy"), Some(r#""default.limit";q=120;w=60"#));
    assert_eq!(answer.field("ratelimit"), Some(r#""default.limit";r=119;t=1"#));
}

#[tokio::test]
async fn only_a_call_of_grpc_is_answered_as_one_and_no_cache_keeps_that() {
    let refused = async |method: &str, kind: &str| {
        let (layer, backend) = (layer(ONE_A_MINUTE), Backend::default());
        let ask = || empty(from("192.0.2.1").method(method).header("content-type", kind));
        assert_eq!(backend.ask(&layer, ask()).await.status, 200);
        backend.ask(&layer, ask()).await
    };
    for kind in
        ["application/grpc", "application/grpc+proto", "Application/gRPC; a=b", "application/grpc ;a=b"]
    {
        let answer = refused("POST", kind).await;
        assert_eq!((answer.status.as_u16(), answer.field("grpc-status")), (200, Some("8")), "{kind}");
        assert_eq!(answer.field("cache-control"), Some("no-store"), "{kind}");
    }
    for (method, kind) in [
        ("GET", "application/grpc"),
        ("HEAD", "application/grpc+proto"),
        ("PUT", "application/grpc"),
        ("POST", "application/grpc-web"),
        ("POST", "application/grpc-web-text+proto"),
        ("POST", "application/grpcs"),
    ] {
        let answer = refused(method, kind).await;
        assert_eq!((answer.status.as_u16(), answer.field("grpc-status")), (429, None), "{method} {kind}");
        assert_eq!(answer.json()["reason"], "limited");
    }
}
