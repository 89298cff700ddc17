//! A layer with the policies of a file.

use ratekeeper::{Limit, ManualClock, hours};
use ratekeeper_tower::{Config, Headers, LayerError, LimitBy as _, MissingKey, RateLimitLayer, client_ip};
use serde_json::Value;

use crate::support::{Backend, empty, from};

fn config(text: &str) -> Config {
    Config::parse("test.yaml", text.as_bytes(), &|_| None)
        .unwrap_or_else(|wrong| panic!("{}", wrong.render()))
}

fn layer(text: &str) -> RateLimitLayer {
    RateLimitLayer::from_config(config(text)).clock(ManualClock::new()).build().expect("a good layer")
}

/// An exchange of the server's golden file: what is asked, and status, fields and body of the answer.
struct Exchange {
    name: String,
    question: Value,
    status: u16,
    fields: Vec<(String, String)>,
    body: Value,
}

/// The exchanges of a section, until the first batch: nothing but checks is asked there.
fn golden(section: &str) -> Vec<Exchange> {
    let text = include_str!("../../../ratekeeper-server/tests/it/golden.txt");
    let (_, rest) = text.split_once(&format!("=== {section}\n")).expect("the section is there");
    let section = rest.split("\n=== ").next().unwrap_or_default();
    let mut exchanges = Vec::new();
    for part in section.split("\n# ").skip(1) {
        let mut lines = part.lines();
        let name = lines.next().unwrap_or_default().to_owned();
        if name.contains("batch") {
            break;
        }
        let question = part.lines().find_map(|line| line.strip_prefix("> {")).map(|rest| format!("{{{rest}"));
        let answer: Vec<&str> = part.lines().filter_map(|line| line.strip_prefix("< ")).collect();
        let (Some(question), [status, rest @ ..]) = (question, &answer[..]) else { continue };
        let fields = rest.iter().filter_map(|line| line.split_once(": ").filter(|_| !line.starts_with('{')));
        let body = rest.iter().find(|line| line.starts_with('{')).copied().unwrap_or("null");
        exchanges.push(Exchange {
            name,
            question: serde_json::from_str(&question).expect("JSON"),
            status: status.parse().expect("a status"),
            fields: fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            body: serde_json::from_str(body).expect("JSON"),
        });
    }
    exchanges
}

/// The configuration that they are asked of.
fn golden_config(section: &str) -> String {
    let source = include_str!("../../../ratekeeper-server/tests/it/golden.rs");
    let (_, rest) =
        source.split_once(&format!("\"{section}\",\n        \"\n")).expect("the configuration is there");
    rest.split_once("\n\",\n").expect("its end").0.replace("\\\"", "\"")
}

/// The request that attributes describe.
fn request(attributes: &Value) -> http::request::Builder {
    let text = |name: &str| attributes[name].as_str();
    let mut request = from(text("ip").or_else(|| text("peer")).unwrap_or("203.0.113.99"))
        .method(text("method").unwrap_or("GET"))
        .uri(text("path").unwrap_or("/"));
    for (name, value) in attributes["headers"].as_object().into_iter().flatten() {
        let lines = value.as_array().map_or_else(|| vec![value.clone()], Clone::clone);
        for line in lines {
            request = request.header(name, line.as_str().expect("text"));
        }
    }
    request
}

#[tokio::test]
async fn the_fields_are_those_of_the_server_for_the_same_requests() {
    let clock = ManualClock::new();
    // Not at the beginning of a day: its windows begin with the first request.
    clock.advance(hours(7));
    let layer = RateLimitLayer::from_config(config(&golden_config("policies"))).clock(&clock);
    let (layer, backend) = (layer.build().expect("good"), Backend::default());
    let mut compared = 0;
    for Exchange { name, question, status, fields, body } in golden("policies") {
        let named = serde_json::json!({ "path": "/api", "headers": { "x-api-key": question["key"] } });
        let attributes = match (&question["attributes"], question["policy"].as_str()) {
            (Value::Null, Some("api")) => &named,
            // A caller that names another policy, or says the cost itself, is no request of a service.
            (Value::Null, _) => continue,
            _ if !question["cost"].is_null() => continue,
            (attributes, _) => attributes,
        };
        let is_a_request = request(attributes).body(http_body_util::Empty::new());
        // What is no request of HTTP does not reach a service.
        let Ok(request) = is_a_request else { continue };
        let answer = backend.ask(&layer, request).await;
        // A refusal within an object is told by the options of its policies; ours is a 429, which says all of it.
        let within = status == 200 && body["allowed"] == Value::Bool(false);
        let compared_fields = if within { &["ratelimit"][..] } else { &["ratelimit-policy", "ratelimit"] };
        for field in compared_fields {
            let theirs = fields.iter().find(|(name, _)| name == *field).map(|(_, value)| value.as_str());
            if within && answer.status != 429 {
                continue;
            }
            assert_eq!(answer.field(field), theirs, "{name}: {field}");
        }
        match status {
            // The object with 200 says in itself whether the request may pass.
            200 => {
                let is_refused = answer.status == 429 || answer.status == 403;
                assert_eq!(is_refused, body["allowed"] == Value::Bool(false), "{name}: {}", answer.status);
            }
            400 => {
                assert_eq!(
                    (answer.status.as_u16(), &answer.json()["detail"]),
                    (400, &body["detail"]),
                    "{name}"
                );
            }
            refused => {
                assert_eq!((answer.status.as_u16(), answer.json()), (refused, body), "{name}");
                let wait =
                    fields.iter().find(|(name, _)| name == "retry-after").map(|(_, value)| value.as_str());
                assert_eq!(answer.field("retry-after"), wait, "{name}");
            }
        }
        compared += 1;
    }
    assert!(compared >= 14, "{compared} were comparable");
}

#[tokio::test]
async fn two_policies_decide_together_and_a_refusal_by_one_is_free_in_the_other() {
    // B93r, with policies in two stores.
    let layer = layer(
        "
version: 1
stores: { a: { memory: { max_keys: 100 } }, b: { memory: { max_keys: 100 } } }
policies:
  - { name: user, store: a, key: [header:x-user], limits: [{ name: l, algorithm: gcra, limit: 1/minute }] }
  - { name: global, store: b, key: [global], limits: [{ name: l, algorithm: gcra, limit: 10/minute, burst: 10 }] }
",
    );
    let backend = Backend::default();
    let ask = |user: &'static str| backend.ask(&layer, empty(from("192.0.2.1").header("x-user", user)));
    assert_eq!(ask("u1").await.status, 200);
    for _ in 0..19 {
        let refused = ask("u1").await;
        assert_eq!(
            (refused.status.as_u16(), refused.field("ratelimit")),
            (429, Some(r#""user.l";r=0;t=60"#))
        );
    }
    let other = ask("u2").await;
    assert_eq!(other.field("ratelimit"), Some(r#""user.l";r=0;t=60, "global.l";r=8;t=6"#));
}

#[tokio::test]
async fn without_an_address_all_are_counted_together_and_it_is_said_once() {
    let told = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = told.clone();
    let text = "
version: 1
policies: [{ name: p, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 1/minute }] }]
";
    let layer = RateLimitLayer::from_config(config(text)).on_warning(move |warning| {
        assert!(warning.to_string().contains("into_make_service_with_connect_info"), "{warning}");
        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    });
    let (layer, backend) = (layer.build().expect("good"), Backend::default());
    for status in [200, 429, 429] {
        let request =
            http::Request::builder().uri("/").body(http_body_util::Empty::new()).expect("a request");
        assert_eq!(backend.ask(&layer, request).await.status, status);
    }
    assert_eq!(backend.ask(&layer, empty(from("0.0.0.1"))).await.status, 200);
    assert_eq!(told.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[test]
fn mistakes_of_a_file_are_told_with_their_places() {
    let folder = std::env::temp_dir().join(format!("ratekeeper-tower-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("limits.yaml");
    let missing = RateLimitLayer::from_file(&path).expect_err("there is no such file");
    assert!(matches!(missing, LayerError::Read(..)), "{missing}");
    std::fs::write(&path, "version: 1\npolicies: [{ name: p, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 0/s }] }]\n")
        .expect("written");
    let wrong = RateLimitLayer::from_file(&path).expect_err("nothing is 0").to_string();
    assert!(wrong.contains("limits.yaml:2"), "{wrong}");
    std::fs::write(&path, "version: 1\npolicies: [{ name: p, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 1/s }] }]\n")
        .expect("written");
    RateLimitLayer::from_file(&path).expect("a good file");
    std::fs::remove_dir_all(&folder).expect("it is ours");
}

#[cfg(not(feature = "redis"))]
#[test]
fn a_file_that_needs_redis_says_which_feature() {
    let text = "
version: 1
stores: { shared: { redis: { url: redis://127.0.0.1:6379 } } }
policies: [{ name: p, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 1/minute }] }]
";
    let wrong = RateLimitLayer::from_config(config(text)).build().expect_err("the feature is off");
    assert!(wrong.to_string().contains("feature `redis`"), "{wrong}");
}

#[test]
fn an_option_that_the_file_rules_is_named_and_not_ignored() {
    let text = "
version: 1
policies:
  - { name: a, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 1/minute }] }
";
    let file = || RateLimitLayer::from_config(config(text));
    for (builder, option) in [
        (file().limit(Limit::per_minute(1).by(client_ip())), "limit"),
        (file().name("api"), "name"),
        (file().headers(Headers::default()), "headers"),
        (file().max_keys(7), "max_keys"),
        (file().missing_key(MissingKey::Reject).name("api"), "missing_key"),
    ] {
        let wrong = builder.build().expect_err(option);
        assert!(matches!(wrong, LayerError::RuledByFile(named) if named == option), "{option}: {wrong}");
        assert!(wrong.to_string().starts_with(&format!("`{option}` is for limits in code")), "{wrong}");
    }
    file().missing_peer(MissingKey::Reject).count_preflights().build().expect("no file says that");
}
