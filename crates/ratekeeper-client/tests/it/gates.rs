//! Rows 31, 32, 38, 40 and 41: what a key remembers, and what it does not.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body_util::{BodyExt as _, Full};
use ratekeeper_client::{
    Draw, Entry, Gate, LimitInfo, MAX_LEARNED, Pace, Polite, PoliteLayer, Profile, Settings, resolve,
};
use ratekeeper_core::Micros;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::support::{
    Ask, BoxError, World, answer, assert_within, call, fine, gated, get, ms, polite, refusal, request, s,
};

#[tokio::test(start_paused = true)]
async fn row_31_numbers_that_a_cache_has_kept_are_ignored() {
    let cached = answer(200, &[("age", "120"), ("ratelimit", r#""d";r=0;t=60"#)]);
    assert_eq!(resolve(&cached.head(), &Profile::Generic).limits, Vec::new());
    let world = World::new();
    let client = world.client_of(&polite(), &[cached]);
    for _ in 0..2 {
        call(&client, get()).await.expect("an answer");
    }
    assert!(world.now().is_zero());
    let fresh = answer(200, &[("age", "0"), ("ratelimit", r#""d";r=0;t=60"#)]);
    assert_eq!(resolve(&fresh.head(), &Profile::Generic).limits.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn row_32_a_redirection_that_asks_for_a_pause_gets_it_before_the_next_request() {
    let world = World::new();
    let moved = answer(301, &[("retry-after", "3"), ("location", "/there")]);
    let client = world.client_of(&polite(), &[moved, fine()]);
    let (status, report) = call(&client, get()).await.expect("an answer");
    assert_eq!((status, report.attempts, report.gave_up), (301, 1, None));
    call(&client, request("GET", "http://a.test/there")).await.expect("an answer");
    assert_within(&world.gaps(), &[(3_000, 3_300)]);
}

#[test]
fn row_38_ten_thousand_names_are_bounded() {
    let settings = Settings::DEFAULT;
    let mut gate = Gate::new();
    for answer_number in 0..1_000 {
        let items: Vec<String> =
            (0..20).map(|name| format!("\"n{answer_number}-{name}\";r=5;t=60")).collect();
        let told = answer(200, &[("ratelimit", &items.join(", "))]);
        let limits = resolve(&told.head(), &Profile::Generic).limits;
        assert_eq!(limits.len(), 16);
        let Entry::Go(send) = gate.may_send(&settings, 0, Micros::ZERO, Draw::LEAST) else {
            panic!("it is open")
        };
        gate.learn(&settings, send, &limits, Micros::ZERO, Draw::LEAST);
        assert!(gate.learned() <= MAX_LEARNED);
    }
    assert_eq!(gate.learned(), MAX_LEARNED);
}

#[tokio::test(start_paused = true)]
async fn row_40_a_call_that_is_dropped_while_it_waits_sends_nothing_and_holds_nothing() {
    let world = World::new();
    let polite = Polite::builder().max_in_flight(1).build().expect("good settings");
    let client = world.client_of(&polite, &[refusal(&[("retry-after", "5")]), fine()]);
    let dropped = tokio::time::timeout(s(2), call(&client, get())).await;
    assert!(dropped.is_err(), "it waits for 5 s");
    // One that waits in line, and one behind it: the first gives its place up.
    let in_line = client.clone();
    let in_line = tokio::spawn(async move { call(&in_line, get()).await.map(|(status, _)| status) });
    let behind = client.clone();
    let behind = tokio::spawn(async move { call(&behind, get()).await.map(|(status, _)| status) });
    tokio::time::sleep(s(1)).await;
    in_line.abort();
    assert!(in_line.await.expect_err("it was ended").is_cancelled());
    assert_eq!(behind.await.expect("no panic").expect("an answer"), 200);
    assert_within(&world.gaps(), &[(5_000, 5_500)]);
    assert_eq!(world.sent().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn row_41_fields_in_trailers_are_ignored() {
    let world = World::new();
    let server = service_fn(move |_: Ask| {
        let mut trailers = HeaderMap::new();
        trailers.insert("ratelimit", r#""d";r=0;t=60"#.parse().expect("a value"));
        let body = Full::<Bytes>::from("body").with_trailers(async move { Some(Ok(trailers)) });
        async move { Ok::<_, BoxError>(Response::new(body)) }
    });
    let client = PoliteLayer::new(polite()).layer(server);
    for _ in 0..3 {
        let response = client.clone().oneshot(get()).await.expect("an answer");
        let body = response.into_body().collect().await.expect("a body");
        assert!(body.trailers().is_some_and(|trailers| trailers.contains_key("ratelimit")));
    }
    assert!(world.now().is_zero());
}

#[tokio::test(start_paused = true)]
async fn a_cap_on_calls_in_flight_lets_the_next_one_in_when_one_is_dropped() {
    let polite = Polite::builder().max_in_flight(1).build().expect("good settings");
    let server = service_fn(|request: Ask| async move {
        if request.uri().path() == "/hangs" {
            std::future::pending::<()>().await;
        }
        Ok::<_, BoxError>(Response::new(Full::<Bytes>::default()))
    });
    let client = PoliteLayer::new(polite).layer(server);
    let hangs = tokio::spawn(client.clone().oneshot(request("GET", "http://a.test/hangs")));
    tokio::time::sleep(ms(1)).await;
    let next = tokio::spawn(client.clone().oneshot(get()));
    tokio::time::sleep(s(20)).await;
    assert!(!next.is_finished());
    hangs.abort();
    assert!(next.await.expect("no panic").is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_would_wait_for_longer_than_it_may_fails_at_once() {
    let world = World::new();
    let client = world.client_of(&polite(), &[answer(200, &[("ratelimit", r#""d";r=0;t=31"#)]), fine()]);
    call(&client, get()).await.expect("an answer");
    let waits = gated(&call(&client, get()).await.expect_err("31 s is more than 30"));
    assert!(world.now().is_zero() && waits >= s(31), "{waits:?}");
    // Another key is not held.
    assert_eq!(call(&client, request("GET", "http://b.test/")).await.expect("an answer").0, 200);
}

#[test]
fn an_answer_to_an_older_send_can_only_say_that_less_is_left() {
    let settings = Settings::DEFAULT;
    let told = |remaining| {
        [LimitInfo {
            name: "d".to_owned(),
            remaining,
            wait: Some(s(10)),
            margin: Duration::ZERO,
            quota: None,
            window: None,
        }]
    };
    let mut gate = Gate::new();
    let mut send = || match gate.may_send(&settings, 0, Micros::ZERO, Draw::LEAST) {
        Entry::Go(send) => send,
        other => panic!("{other:?}"),
    };
    let (first, second) = (send(), send());
    gate.learn(&settings, second, &told(1), Micros::ZERO, Draw::LEAST);
    gate.learn(&settings, first, &told(9), Micros::ZERO, Draw::LEAST);
    let mut gates = BTreeMap::new();
    for number in 0..3 {
        gates.insert(number, gate.may_send(&settings, 0, Micros::ZERO, Draw::LEAST));
    }
    assert!(matches!(gates[&0], Entry::Go(_)), "one is left");
    let full = Entry::Full(Micros::new(10_000_000));
    assert_eq!((gates[&1], gates[&2]), (full, full));
    // And an older one that says that nothing is left closes it.
    let mut gate = Gate::new();
    let mut send = || match gate.may_send(&settings, 0, Micros::ZERO, Draw::LEAST) {
        Entry::Go(send) => send,
        other => panic!("{other:?}"),
    };
    let (first, second) = (send(), send());
    gate.learn(&settings, second, &told(5), Micros::ZERO, Draw::LEAST);
    gate.learn(&settings, first, &told(0), Micros::ZERO, Draw::LEAST);
    assert!(gate.opens(&settings, Micros::ZERO).is_some());
}

#[tokio::test(start_paused = true)]
async fn smooth_pacing_spreads_what_remains_until_there_is_more() {
    let polite = Polite::builder().pace(Pace::Smooth { reserve: 2 }).build().expect("good settings");
    let world = World::new();
    let client = world.client(&polite, |number, _| {
        let remaining = 12_usize.saturating_sub(number + 1);
        Ok(answer(200, &[("ratelimit", &format!(r#""d";r={remaining};t={}"#, 10 - number.min(9)))]))
    });
    for _ in 0..8 {
        call(&client, get()).await.expect("an answer");
    }
    let gaps = world.gaps();
    assert!(gaps.iter().skip(1).all(|gap| *gap >= ms(500) && *gap <= ms(1_300)), "{gaps:?}");
}
