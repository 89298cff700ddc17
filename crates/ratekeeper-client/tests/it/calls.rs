//! Rows 25 to 27, 30, 33 to 37 and 39: which calls are repeated.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper_client::{
    Balance, Call, Class, Draw, Failure, Generate, GiveUp, Hint, Next, Once, Outcome, Polite, PoliteLayer,
    Profile, Repeat, ResponseHead, RetryReport, Settings, Why, decide,
};
use ratekeeper_core::Micros;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::support::{
    Ask, BoxError, Broken, DATE_S, Polished, World, answer, assert_within, call, decided, fine, first_get,
    first_post, get, ms, play, polite, post, refusal, request, s, waits,
};

fn failure_of(error: &(dyn Error + 'static)) -> Failure {
    error.downcast_ref::<Broken>().expect("only these fail").0
}

/// Calls a server whose first sends fail so; whether there was an answer, and the waits.
async fn play_failing(request: Ask, failure: Failure, times: usize) -> (bool, Vec<std::time::Duration>) {
    let world = World::new();
    let layer = PoliteLayer::new(polite()).failures(failure_of);
    let client = world.client_by(
        &layer,
        move |number, _| {
            if number < times { Err(Broken(failure)) } else { Ok(fine()) }
        },
    );
    let answered = call(&client, request).await.is_ok();
    (answered, world.gaps())
}

fn with_key(mut request: Ask) -> Ask {
    request.headers_mut().insert("idempotency-key", "\"8e03\"".parse().expect("a value"));
    request
}

#[tokio::test(start_paused = true)]
async fn row_25_failures_that_may_pass_are_tried_again_soon() {
    for status in [500, 502, 504] {
        let failed = answer(status, &[]);
        assert_eq!(waits(&failed), (0, 100));
        let (last, report, gaps) = play(get(), &[failed]).await;
        assert_eq!((last, report.attempts, report.gave_up), (status, 3, Some(GiveUp::Attempts)));
        assert_within(&gaps, &[(0, 100), (0, 200)]);
    }
}

#[tokio::test(start_paused = true)]
async fn row_26_b149_a_post_that_failed_is_repeated_only_with_an_idempotency_key() {
    let failed = answer(500, &[]);
    let next = decided(&Profile::Generic, &failed.head(), &first_post(), Draw::LEAST);
    assert_eq!(next, Next::GiveUp(GiveUp::NotRetryable));
    let (status, report, gaps) = play(post(), &[failed.clone(), fine()]).await;
    assert_eq!((status, report.gave_up, gaps.len()), (500, Some(GiveUp::NotRetryable), 0));

    let world = World::new();
    let client = world.client_of(&polite(), &[failed.clone(), failed.clone(), fine()]);
    assert_eq!(call(&client, with_key(post())).await.expect("an answer").0, 200);
    let keys: Vec<_> = world.sent().into_iter().map(|sent| sent.key).collect();
    assert_eq!(keys, vec![Some("\"8e03\"".to_owned()); 3]);

    // One that is made here is a String of structured fields, and the same on every retry.
    let made = Polite::builder().idempotency_keys(Generate::ForPostAndPatch).build().expect("good settings");
    let world = World::new();
    let client = world.client_of(&made, &[failed.clone(), fine()]);
    for request in [post(), post(), get()] {
        call(&client, request).await.expect("an answer");
    }
    let keys: Vec<_> = world.sent().into_iter().map(|sent| sent.key).collect();
    let [Some(first), Some(again), Some(second), None] = keys.as_slice() else { panic!("{keys:?}") };
    assert!(first == again && first != second, "{keys:?}");
    assert!(first.len() == 34 && first.starts_with('"') && first.ends_with('"'), "{first}");
}

#[tokio::test(start_paused = true)]
async fn row_27_b149_a_refused_post_is_repeated_if_its_body_can_be() {
    let refused = refusal(&[("retry-after", "1")]);
    let (status, report, gaps) = play(post(), &[refused.clone(), fine()]).await;
    assert_eq!((status, report.attempts), (200, 2));
    assert_within(&gaps, &[(1_000, 1_250)]);

    // A body that streams is sent once, and what comes is returned: no error.
    let server = service_fn(move |_: Ask| {
        let mut reply = http::Response::new(http_body_util::Full::<bytes::Bytes>::default());
        *reply.status_mut() = refused.status;
        *reply.headers_mut() = refused.headers.clone();
        async move { Ok::<_, BoxError>(reply) }
    });
    let client = PoliteLayer::new(polite()).replay(Once).layer(server);
    let response = client.oneshot(post()).await.expect("an answer");
    let report = response.extensions().get::<RetryReport>().expect("a report");
    assert_eq!((response.status().as_u16(), report.gave_up), (429, Some(GiveUp::NotReplayable)));
}

#[tokio::test(start_paused = true)]
async fn row_30_retry_after_on_a_success_is_no_refusal() {
    for told in [answer(200, &[("retry-after", "0")]), answer(202, &[("retry-after", "30")])] {
        let world = World::new();
        let client = world.client_of(&polite(), &[told]);
        for _ in 0..2 {
            let (_, report) = call(&client, get()).await.expect("an answer");
            assert_eq!((report.attempts, report.retry_after), (1, None));
        }
        assert!(world.now().is_zero());
    }
}

#[tokio::test(start_paused = true)]
async fn row_33_what_the_server_did_not_look_at_is_sent_once_more_at_once_and_for_nothing() {
    let budget = Settings::DEFAULT.budget;
    let mut balance = Balance::new(&budget);
    let before = balance.milli();
    let outcome = Outcome::Failed(Failure::Unprocessed);
    let next = decide(&Settings::DEFAULT, &first_post(), &outcome, &mut balance, Micros::ZERO, Draw::MOST);
    let again = Next::Retry { not_before: Micros::ZERO, why: Why::NotProcessed, paid_milli: 0 };
    assert_eq!((next, balance.milli()), (again, before));
    for method in ["GET", "POST"] {
        let (answered, gaps) = play_failing(request(method, "http://a.test/"), Failure::Unprocessed, 1).await;
        assert!(answered);
        assert_within(&gaps, &[(0, 0)]);
        let (answered, gaps) = play_failing(request(method, "http://a.test/"), Failure::Unprocessed, 9).await;
        assert_eq!((answered, gaps.len()), (false, 1), "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn row_34_b149_a_lost_answer_is_asked_again_only_if_asking_twice_is_harmless() {
    let (answered, gaps) = play_failing(get(), Failure::MaybeProcessed, 1).await;
    assert!(answered);
    assert_within(&gaps, &[(0, 100)]);
    let (answered, gaps) = play_failing(post(), Failure::MaybeProcessed, 1).await;
    assert!(!answered && gaps.is_empty());
    // What was never sent cannot be done twice; what is wrong stays wrong.
    let (answered, gaps) = play_failing(post(), Failure::NeverSent, 1).await;
    assert!(answered && gaps.len() == 1);
    let (answered, gaps) = play_failing(get(), Failure::Permanent, 1).await;
    assert!(!answered && gaps.is_empty());
}

#[tokio::test(start_paused = true)]
async fn row_35_answers_that_asking_again_does_not_change_are_returned() {
    for status in [400, 401, 404, 409, 410, 420, 422, 451, 501, 505] {
        for request in [get(), post()] {
            let (last, report, gaps) = play(request, &[answer(status, &[]), fine()]).await;
            assert_eq!((last, report.gave_up, gaps.len()), (status, None, 0));
        }
    }
    // The first request of that key is still at work; another payload under it is an error for ever.
    for (status, attempts) in [(409, 2), (422, 1)] {
        let (_, report, _) = play(with_key(post()), &[answer(status, &[]), fine()]).await;
        assert_eq!(report.attempts, attempts, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn row_36_a_request_that_came_too_late_or_too_early_is_sent_again() {
    let (_, report, gaps) = play(get(), &[answer(408, &[])]).await;
    assert_eq!(report.attempts, 3);
    assert_within(&gaps, &[(0, 100), (0, 200)]);
    let (status, report, gaps) = play(get(), &[answer(425, &[])]).await;
    assert_eq!((status, report.attempts, report.gave_up), (425, 2, Some(GiveUp::Attempts)));
    assert_within(&gaps, &[(0, 100)]);
    let (status, report, _) = play(post(), &[answer(408, &[]), fine()]).await;
    assert_eq!((status, report.attempts), (408, 1));
}

#[tokio::test(start_paused = true)]
async fn row_37_a_wall_clock_that_jumps_during_a_wait_changes_nothing() {
    for jump_s in [3_600, -3_600_i64] {
        let wall = Arc::new(AtomicU64::new(DATE_S));
        let seen = Arc::clone(&wall);
        let polite = Polite::builder().time_of_day(move || s(seen.load(Ordering::Relaxed))).build();
        let world = World::new();
        let client =
            world.client_of(&polite.expect("good settings"), &[refusal(&[("retry-after", "10")]), fine()]);
        let waiting = tokio::spawn(async move { call(&client, get()).await.map(|(status, _)| status) });
        tokio::time::sleep(s(5)).await;
        let jumped = wall.load(Ordering::Relaxed).checked_add_signed(jump_s).expect("after the epoch");
        wall.store(jumped, Ordering::Relaxed);
        assert_eq!(waiting.await.expect("no panic").expect("an answer"), 200);
        assert_within(&world.gaps(), &[(10_000, 11_000)]);
    }
}

#[test]
fn row_39_abuse_that_was_detected_is_not_tried_again() {
    let refused = refusal(&[("retry-after", "1"), ("content-type", "application/problem+json")]);
    let body =
        br#"{"title":"no","type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected"}"#;
    let head = ResponseHead { body: Some(body), ..refused.head() };
    let next = decided(&Profile::Generic, &head, &first_get(), Draw::LEAST);
    assert_eq!(next, Next::GiveUp(GiveUp::Abuse));
    let quota = br#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded"}"#;
    let head = ResponseHead { body: Some(quota), ..refused.head() };
    assert!(matches!(decided(&Profile::Generic, &head, &first_get(), Draw::LEAST), Next::Retry { .. }));
}

#[test]
fn what_may_be_repeated_of_a_post_is_a_setting() {
    let hint = Hint::NONE;
    let outcomes = |class| Outcome::Answer { status: http::StatusCode::OK, class, hint: &hint };
    for (repeat, has_key, refused, failed) in [
        (Repeat::Never, false, false, false),
        (Repeat::Never, true, false, false),
        (Repeat::On429Only, false, true, false),
        (Repeat::On429Only, true, true, true),
        (Repeat::WithIdempotencyKey, false, false, false),
        (Repeat::WithIdempotencyKey, true, true, true),
        (Repeat::Always, false, true, true),
    ] {
        let settings = Settings { non_idempotent: repeat, ..Settings::DEFAULT };
        let post = Call { has_key, ..first_post() };
        for (class, expected) in [(Class::Throttled, refused), (Class::Transient, failed)] {
            let mut balance = Balance::new(&settings.budget);
            let next = decide(&settings, &post, &outcomes(class), &mut balance, Micros::ZERO, Draw::LEAST);
            assert_eq!(matches!(next, Next::Retry { .. }), expected, "{repeat:?}, key {has_key}, {class:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_attempt_is_pacing_only() {
    let polite = Polite::builder().max_attempts(1).build().expect("good settings");
    let world = World::new();
    let client: Polished = world.client_of(&polite, &[refusal(&[("retry-after", "2")]), fine()]);
    assert_eq!(call(&client, get()).await.expect("an answer").0, 429);
    assert_eq!(call(&client, get()).await.expect("an answer").0, 200);
    assert_within(&world.gaps(), &[(2_000, 2_250)]);
    assert!(world.now() >= ms(2_000));
}
