//! Answers that wait for shared stores, as bytes: what stands for those stores answers when a test lets it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::Value;

use super::*;
use crate::app::App;
use crate::live::fake::Fake;
use crate::transport::http::lane::{self, Desk};
use crate::transport::http::{Reader, VERBOSE, probe};

const FILE: &str = "
version: 1
stores:
  local: { memory: { max_keys: 1000 } }
  shared: { redis: { url: 'redis://127.0.0.1:1' } }
  other: { redis: { url: 'redis://127.0.0.1:2' } }
policies:
  - { name: m, store: local, key: [ip], match: { path: /both/** },
      limits: [{ name: l, algorithm: fixed-window, limit: 3/day, align: first-request }] }
  - { name: s, store: shared, key: [ip], match: { path: /both/** },
      limits: [{ name: l, algorithm: fixed-window, limit: 2/day, align: first-request }] }
  - { name: t, store: other, key: [ip], match: { path: /both/all },
      limits: [{ name: l, algorithm: fixed-window, limit: 1/day, align: first-request }] }
  - { name: open, store: shared, key: [ip], match: { path: /open }, on_store_error: allow,
      limits: [{ name: l, algorithm: gcra, limit: 1/day }] }
  - { name: beside, store: local, key: [ip], match: { path: /open },
      limits: [{ name: l, algorithm: fixed-window, limit: 9/day, align: first-request }] }
  - { name: closed, store: shared, key: [ip], match: { path: /closed }, on_store_error: deny,
      limits: [{ name: l, algorithm: gcra, limit: 1/day }] }
  - { name: shows, store: shared, key: [ip], match: { path: /shows }, mode: shadow,
      limits: [{ name: l, algorithm: gcra, limit: 1/day }] }
";

struct Bench {
    shared: Arc<Fake>,
    other: Arc<Fake>,
    service: Arc<Service>,
}

impl Bench {
    fn new() -> Self {
        let (shared, other) = (Fake::new(), Fake::new());
        let fakes = [("shared", Arc::clone(&shared)), ("other", Arc::clone(&other))];
        let service = Arc::new(Service::new(Arc::new(App::with_fakes(FILE, &fakes))));
        Self { shared, other, service }
    }

    /// What one read is answered: status and body of each answer.
    async fn answers(&self, input: &str) -> Vec<(u16, Value)> {
        let text = answered(&self.service, input).await;
        let answers = text.split("HTTP/1.1 ").skip(1);
        answers
            .map(|answer| {
                let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
                let status = head[..3].parse().expect("a status");
                (status, serde_json::from_str(body).expect("JSON"))
            })
            .collect()
    }

    async fn one(&self, path: &str, body: &str) -> Value {
        let (status, body) = self.answers(&request(path, body)).await.pop().expect("an answer");
        assert_eq!(status, 200, "{body}");
        body
    }

    async fn check(&self, policy: &str) -> Value {
        self.one("/v1/check", &named(policy)).await
    }

    async fn remaining(&self, policy: &str) -> Value {
        let peek = format!(r#"{{"policy":"{policy}","key":"192.0.2.1","peek":true}}"#);
        self.one("/v1/check", &peek).await["remaining"].clone()
    }

    async fn at(&self, path: &str) -> Value {
        self.one("/v1/check", &described(path)).await
    }
}

async fn answered(service: &Service, input: &str) -> String {
    let (mut output, mut desk) = (Vec::new(), Desk::default());
    let round = lane::round(service, input.as_bytes(), &mut output, &mut desk);
    assert_eq!(round.used, input.len());
    if let Some(rest) = round.rest {
        lane::finish(service, rest, &mut output, &mut desk).await;
    }
    String::from_utf8(output).expect("UTF-8")
}

fn request(path: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {path} HTTP/1.1\r\nhost: t\r\ncontent-length: {length}\r\n\r\n{body}")
}

fn named(policy: &str) -> String {
    format!(r#"{{"policy":"{policy}","key":"192.0.2.1"}}"#)
}

fn described(path: &str) -> String {
    format!(r#"{{"attributes":{{"method":"GET","path":"{path}","ip":"192.0.2.1"}}}}"#)
}

fn allowed(answers: &[(u16, Value)]) -> Vec<bool> {
    answers.iter().map(|(_, body)| body["allowed"] == true).collect()
}

#[tokio::test]
async fn what_comes_together_goes_to_a_shared_store_together_and_is_answered_in_order() {
    let bench = Bench::new();
    let check = |policy: &str| request("/v1/check", &named(policy));
    let input = [check("m"), check("s"), check("m"), check("s"), check("s"), check("t"), check("m")].concat();
    let answers = bench.answers(&input).await;
    assert_eq!(allowed(&answers), [true, true, true, true, false, true, true]);
    let policies: Vec<&str> = answers.iter().filter_map(|(_, body)| body["policy"].as_str()).collect();
    assert_eq!(policies, ["m", "s", "m", "s", "s", "t", "m"]);
    assert_eq!(bench.shared.asked.load(Ordering::SeqCst), 1);
    assert_eq!(bench.other.asked.load(Ordering::SeqCst), 1);

    let checks = ["s", "m", "t", "nobody"].map(named).join(",");
    let batch = bench.one("/v1/check:batch", &format!("{{\"checks\":[{checks}]}}")).await;
    let results = batch["results"].as_array().expect("a list");
    assert_eq!(
        results.iter().map(|one| one["allowed"].as_bool()).collect::<Vec<_>>(),
        [Some(false), Some(false), Some(false), None]
    );
    assert_eq!(results[3]["status"], 404);
    assert_eq!(bench.shared.asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_request_that_meets_only_memory_is_answered_without_waiting() {
    let bench = Bench::new();
    let input = [request("/v1/check", &named("m")), request("/v1/reserve", &named("m"))].concat();
    let (mut output, mut desk) = (Vec::new(), Desk::default());
    assert!(lane::round(&bench.service, input.as_bytes(), &mut output, &mut desk).rest.is_none());
    let input = [request("/v1/check", &named("m")), request("/v1/check", &named("s"))].concat();
    let mut output = Vec::new();
    assert!(lane::round(&bench.service, input.as_bytes(), &mut output, &mut desk).rest.is_some());
    assert!(output.is_empty(), "checks that come together are decided together");
    assert_eq!(bench.remaining("m").await, 1, "and nothing was done twice");
}

#[tokio::test]
async fn a_request_of_several_stores_takes_of_all_or_of_none() {
    let bench = Bench::new();
    let first = bench.at("/both/all").await;
    assert_eq!(first["allowed"], true);
    let names: Vec<&Value> =
        first["limits"].as_array().expect("a list").iter().map(|l| &l["policy"]).collect();
    assert_eq!(names, ["m", "s", "t"]);
    assert_eq!(first["limit"], "l");
    assert_eq!(first["remaining"], 0);
    // The last store refuses: memory and the store before it have their units back.
    let refused = bench.at("/both/all").await;
    assert_eq!((&refused["allowed"], &refused["policy"]), (&false.into(), &"t".into()));
    let remaining: Vec<&Value> =
        refused["limits"].as_array().expect("a list").iter().map(|l| &l["remaining"]).collect();
    assert_eq!(remaining, [&Value::from(2), &Value::from(1), &Value::from(0)]);
    assert_eq!((bench.remaining("m").await, bench.remaining("s").await), (2.into(), 1.into()));
    // The first shared store refuses: the other is only looked at.
    assert_eq!(bench.at("/both/x").await["allowed"], true);
    let refused = bench.at("/both/x").await;
    assert_eq!((&refused["allowed"], &refused["policy"]), (&false.into(), &"s".into()));
    assert_eq!(bench.remaining("m").await, 1);
    assert_eq!(bench.shared.open.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn when_memory_refuses_nothing_is_taken_elsewhere() {
    let bench = Bench::new();
    for _ in 0..3 {
        assert_eq!(bench.check("m").await["allowed"], true);
    }
    let refused = bench.at("/both/x").await;
    assert_eq!((&refused["allowed"], &refused["policy"]), (&false.into(), &"m".into()));
    assert_eq!(refused["limits"][1]["remaining"], 2);
    assert_eq!(bench.remaining("s").await, 2);
}

#[tokio::test]
async fn a_look_at_several_stores_takes_nothing() {
    let bench = Bench::new();
    let peek = described("/both/all").replace("}}", "},\"peek\":true}");
    for _ in 0..3 {
        let answer = bench.one("/v1/check", &peek).await;
        let limits = answer["limits"].as_array().expect("a list");
        assert_eq!(
            limits.iter().map(|l| l["remaining"].as_u64()).collect::<Vec<_>>(),
            [Some(3), Some(2), Some(1)]
        );
    }
}

#[tokio::test]
async fn a_store_that_is_away_is_answered_for_by_on_store_error() {
    let bench = Bench::new();
    bench.shared.be_down(true);
    let open = bench.check("open").await;
    let expected = r#"{"allowed":true,"policy":"open","limit":null,"remaining":null,"retry_after_ms":0,
        "reset_after_ms":null,"delay_ms":0,"source":"failed_open","limits":[],"shadow_denied":[]}"#;
    assert_eq!(open, serde_json::from_str::<Value>(expected).expect("JSON"));
    assert!(!answered(&bench.service, &request("/v1/check", &named("open"))).await.contains("ratelimit"));
    // Of several limits those speak that were asked.
    let beside = bench.at("/open").await;
    assert_eq!(
        (&beside["limit"], &beside["remaining"], &beside["source"]),
        (&"l".into(), &8.into(), &"failed_open".into())
    );
    assert_eq!(beside["limits"].as_array().map(Vec::len), Some(1));
    assert_eq!(bench.check("s").await["source"], "local");

    let text = answered(&bench.service, &request("/v1/check", &named("closed"))).await;
    assert!(
        text.starts_with("HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json"),
        "{text}"
    );
    assert!(text.contains("\r\nretry-after: 2\r\n"), "{text}");
    let (_, body) = bench.answers(&request("/v1/check?status=true", &named("closed"))).await.remove(0);
    assert_eq!((&body["status"], &body["reason"]), (&503.into(), &"store_unavailable".into()));
    let checks = ["closed", "m"].map(named).join(",");
    let batch = bench.one("/v1/check:batch", &format!("{{\"checks\":[{checks}]}}")).await;
    assert_eq!(
        (&batch["results"][0]["status"], &batch["results"][1]["allowed"]),
        (&503.into(), &true.into())
    );
    let (status, _) = bench.answers(&request("/v1/reserve", &named("closed"))).await.remove(0);
    assert_eq!(status, 503);

    bench.shared.be_down(false);
    assert_eq!(bench.check("closed").await["source"], "exact");
}

#[tokio::test]
async fn a_reservation_in_several_stores_is_settled_once() {
    let bench = Bench::new();
    let reserved = bench.one("/v1/reserve", &described("/both/x")).await;
    let id = reserved["id"].as_str().expect("an id").to_owned();
    let settle = format!(r#"{{"id":"{id}","cost":0}}"#);
    let twice = [request("/v1/settle", &settle), request("/v1/settle", &settle)].concat();
    let answers = bench.answers(&twice).await;
    assert_eq!(answers[0], answers[1]);
    assert_eq!((bench.remaining("m").await, bench.remaining("s").await), (3.into(), 2.into()));
    let (status, _) =
        bench.answers(&request("/v1/settle", &format!(r#"{{"id":"{id}","cost":1}}"#))).await.remove(0);
    assert_eq!(status, 409);
}

#[tokio::test]
async fn an_end_goes_on_when_whoever_asked_for_it_has_gone() {
    let bench = Bench::new();
    let reserved = bench.one("/v1/reserve", &named("s")).await;
    let id = reserved["id"].as_str().expect("an id").to_owned();
    bench.shared.close_gate();
    let refund = request("/v1/refund", &format!(r#"{{"id":"{id}"}}"#));
    let gone = {
        let (service, refund) = (Arc::clone(&bench.service), refund.clone());
        tokio::spawn(async move { answered(&service, &refund).await })
    };
    tokio::task::yield_now().await;
    gone.abort();
    assert!(gone.await.is_err());
    // Another comes while it is under way, and is answered with it; at another cost it is too late already.
    let late = request("/v1/settle", &format!(r#"{{"id":"{id}","cost":1}}"#));
    assert_eq!(bench.answers(&late).await[0].0, 409);
    let again = {
        let (service, refund) = (Arc::clone(&bench.service), refund.clone());
        tokio::spawn(async move { answered(&service, &refund).await })
    };
    tokio::task::yield_now().await;
    bench.shared.open_gate();
    assert!(again.await.expect("an answer").contains("\"charged\":0"));
    assert_eq!(bench.remaining("s").await, 2);
    assert_eq!(bench.service.app().holds().len(bench.service.now()), 0);
}

#[tokio::test]
async fn whoever_goes_away_on_the_way_leaves_nothing_taken() {
    let bench = Bench::new();
    bench.other.close_gate();
    let gone = {
        let service = Arc::clone(&bench.service);
        tokio::spawn(async move { answered(&service, &request("/v1/check", &described("/both/all"))).await })
    };
    while bench.other.asked.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(bench.shared.open.load(Ordering::SeqCst), 1, "the first shared store has given its unit");
    gone.abort();
    assert!(gone.await.is_err());
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
    assert_eq!(bench.shared.open.load(Ordering::SeqCst), 0);
    assert_eq!((bench.remaining("m").await, bench.remaining("s").await), (3.into(), 2.into()));
}

#[tokio::test]
async fn a_policy_that_shows_itself_is_asked_after_the_others() {
    let bench = Bench::new();
    let shows = || request("/v1/check", &described("/shows"));
    let answers = bench.answers(&[shows(), shows()].concat()).await;
    assert_eq!(allowed(&answers), [true, true]);
    assert_eq!(answers[0].1["shadow_denied"], serde_json::json!([]));
    assert_eq!(answers[1].1["shadow_denied"], serde_json::json!(["shows.l"]));
    assert_eq!(bench.shared.asked.load(Ordering::SeqCst), 1);
    let reserved = bench.one("/v1/reserve", &described("/shows")).await;
    assert_eq!(reserved["shadow_denied"], serde_json::json!(["shows.l"]));
}

#[tokio::test]
async fn a_store_that_is_away_makes_the_server_no_less_ready() {
    let bench = Bench::new();
    let ready = |query| {
        let mut reply = Reply::default();
        probe(bench.service.app(), "/readyz", query, Reader::Operator, &mut reply);
        (reply.status, String::from_utf8(reply.body).expect("UTF-8"))
    };
    assert_eq!(ready(None), (200, "ok\n".to_owned()));
    bench.shared.be_down(true);
    assert_eq!(ready(None), (200, "degraded\n".to_owned()));
    let (_, text) = ready(Some(VERBOSE));
    assert!(text.starts_with("degraded\n"), "{text}");
    assert!(text.contains("\nstore shared down: fake, fake 1, down: connection refused\n"), "{text}");
    assert!(text.contains("\nstore other up: fake, fake 1, up\n"), "{text}");
}
