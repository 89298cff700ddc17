//! Bodies in pieces, without a socket.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::Frame;
use hyper::header::RETRY_AFTER;

use super::*;
use crate::app::App;
use crate::transport::http::body::SMALL_BODY_BYTES;
use crate::transport::http::service::MAX_LARGE_BODIES;
use crate::transport::http::unsent::MAX_UNSENT_BYTES;

const FILE: &str = "
version: 1
policies: [{ name: p, key: [ip], limits: [{ name: l, algorithm: gcra, limit: 1/day }] }]
";

fn service() -> Service {
    Service::new(Arc::new(App::of(FILE)))
}

/// A body in pieces; after the last one it ends, breaks or goes on being awaited.
struct Pieces {
    pieces: VecDeque<Bytes>,
    end: End,
}

#[derive(Clone, Copy)]
enum End {
    Whole,
    Broken,
    Never,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match (self.pieces.pop_front(), self.end) {
            (Some(piece), _) => Poll::Ready(Some(Ok(Frame::data(piece)))),
            (None, End::Whole) => Poll::Ready(None),
            (None, End::Broken) => Poll::Ready(Some(Err("gone"))),
            (None, End::Never) => Poll::Pending,
        }
    }
}

async fn ask(service: &Service, pieces: impl IntoIterator<Item = Vec<u8>>, end: End) -> (u16, String) {
    let body = Pieces { pieces: pieces.into_iter().map(Bytes::from).collect(), end };
    let request = Request::post("/v1/check").header("host", "t").body(body).expect("a request");
    let Ok(answer) = service.answer_any(request).await;
    let status = answer.status().as_u16();
    let Ok(whole) = answer.into_body().collect().await;
    (status, String::from_utf8(whole.to_bytes().to_vec()).expect("UTF-8"))
}

const QUESTION: &[u8] = br#"{"policy":"p","key":"k"}"#;

#[tokio::test]
async fn a_body_may_come_in_any_pieces() {
    let pieces = QUESTION.chunks(1).map(<[u8]>::to_vec);
    let (status, body) = ask(&service(), pieces, End::Whole).await;
    assert_eq!(status, 200, "{body}");
}

#[tokio::test]
async fn a_body_is_read_up_to_its_bound_and_drained_up_to_another() {
    let service = service();
    let padded = |length: usize| [QUESTION.to_vec(), vec![b' '; length - QUESTION.len()]];
    assert_eq!(ask(&service, padded(MAX_BODY_BYTES), End::Whole).await.0, 200);
    assert_eq!(ask(&service, padded(MAX_BODY_BYTES + 1), End::Whole).await.0, 413);
    // Past the second bound nothing more is awaited.
    let endless = std::iter::repeat_n(vec![b' '; MAX_BODY_BYTES], 5);
    assert_eq!(ask(&service, endless, End::Never).await.0, 413);
}

#[tokio::test]
async fn a_body_that_breaks_is_bad_input() {
    assert_eq!(ask(&service(), [QUESTION.to_vec()], End::Broken).await.0, 400);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_a_timeout() {
    assert_eq!(ask(&service(), [QUESTION.to_vec()], End::Never).await.0, 408);
}

#[tokio::test(start_paused = true)]
async fn large_bodies_wait_for_each_other_and_small_ones_do_not() {
    let service = Arc::new(service());
    let large = || vec![b' '; SMALL_BODY_BYTES + 1];
    let mut stuck = tokio::task::JoinSet::new();
    for _ in 0..MAX_LARGE_BODIES {
        let service = Arc::clone(&service);
        stuck.spawn(async move { ask(&service, [large()], End::Never).await.0 });
    }
    while service.large_bodies.available_permits() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(ask(&service, [QUESTION.to_vec()], End::Whole).await.0, 200);
    // It gets its turn when the time of the others is over.
    let turn = [QUESTION.to_vec(), large()];
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(ask(&service, turn, End::Whole).await.0, 200);
    assert_eq!(stuck.join_all().await, vec![408; MAX_LARGE_BODIES]);
    assert_eq!(service.large_bodies.available_permits(), MAX_LARGE_BODIES);
}

#[tokio::test]
async fn a_draining_server_is_live_but_not_ready() {
    let service = service();
    service.app().drain();
    for (path, expected) in [("/livez", (200, "ok\n")), ("/readyz", (503, "draining\n"))] {
        let request =
            Request::get(path).header("host", "t").body(Full::new(Bytes::new())).expect("a request");
        let Ok(answer) = service.answer_any(request).await;
        let status = answer.status().as_u16();
        let retry = answer.headers().get(RETRY_AFTER).map(HeaderValue::as_bytes);
        assert_eq!(retry, (status == 503).then_some(&b"1"[..]));
        let Ok(body) = answer.into_body().collect().await;
        assert_eq!((status, &body.to_bytes()[..]), (expected.0, expected.1.as_bytes()));
    }
}

#[tokio::test]
async fn a_body_that_nobody_needs_is_read_to_its_end_or_ends_the_connection() {
    let service = service();
    let closes = async |path: &str, headers: &[(&str, &str)], pieces: Vec<Vec<u8>>, end: End| {
        let mut request = Request::post(path).header("host", "t");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = Pieces { pieces: pieces.into_iter().map(Bytes::from).collect(), end };
        let Ok(answer) = service.answer_any(request.body(body).expect("a request")).await;
        (answer.status().as_u16(), answer.headers().contains_key(CONNECTION))
    };
    let gzip = [("content-encoding", "gzip")];
    let small = || vec![b"some".to_vec(), b"more".to_vec()];
    assert_eq!(closes("/elsewhere", &[], small(), End::Whole).await, (404, false));
    assert_eq!(closes("/v1/check", &gzip, small(), End::Whole).await, (415, false));
    assert_eq!(closes("/v1/check", &gzip, small(), End::Broken).await, (415, true));
    let endless = || vec![vec![b' '; MAX_BODY_BYTES]; 5];
    assert_eq!(closes("/v1/check", &gzip, endless(), End::Never).await, (415, true));
    // Who waits for leave to send the body is not given any.
    let waits = [("content-encoding", "gzip"), ("expect", "100-continue")];
    assert_eq!(closes("/v1/check", &waits, Vec::new(), End::Never).await, (415, true));
}

#[tokio::test]
async fn where_answers_pile_up_nothing_more_is_decided() {
    let service = service();
    let unread = service.unsent().hold(MAX_UNSENT_BYTES);
    let (status, body) = ask(&service, [QUESTION.to_vec()], End::Whole).await;
    assert_eq!(status, 503, "{body}");
    drop(unread);
    // The only unit of the day is still there.
    let (status, body) = ask(&service, [QUESTION.to_vec()], End::Whole).await;
    assert_eq!(status, 200);
    assert!(body.starts_with("{\"allowed\":true"), "{body}");
    assert!(!service.unsent().is_full());
}
