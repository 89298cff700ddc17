//! Bodies of requests, up to their bounds in bytes and in time. Both listeners read theirs here.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT, HeaderMap, HeaderValue, ORIGIN};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::transport::http::problem::Problem;
use crate::transport::http::wishes;

/// How many times the longest body is thrown away of one that is longer, so that its sender, who may not read before
/// having written, sees the answer. Past it the connection is cut.
const DRAINED_TIMES: usize = 4;
/// Bodies up to here are taken as they come.
pub(super) const SMALL_BODY_BYTES: usize = 4 * 1_024;
/// How long a body may take: less than the patience of any client, much more than a kilobyte needs.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The body, of at most `most` bytes. Longer ones than usual wait for a permit of `large`.
///
/// # Errors
/// If it is too long, breaks off, or does not come in time.
pub(crate) async fn read<B: Body<Data = Bytes> + Unpin>(
    headers: &HeaderMap,
    body: &mut Option<B>,
    most: usize,
    large: &Semaphore,
) -> Result<Vec<u8>, Problem> {
    let Some(mut body) = body.take() else { return Ok(Vec::new()) };
    let announced = announced(&body);
    let waits = headers.contains_key(EXPECT);
    if announced > DRAINED_TIMES * most || (announced > most && waits) {
        return Err(Problem::body_too_large(most));
    }
    let read = timeout(BODY_TIMEOUT, collect(&mut body, most, large)).await;
    read.map_err(|_| Problem::body_timeout(BODY_TIMEOUT.as_secs()))?
}

async fn collect<B: Body<Data = Bytes> + Unpin>(
    body: &mut B,
    most: usize,
    large: &Semaphore,
) -> Result<Vec<u8>, Problem> {
    let mut whole = Vec::new();
    let mut permit = None;
    let mut drained = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Err(Problem::body_broken()) };
        let Ok(data) = frame.into_data() else { continue }; // Trailers say nothing here.
        if drained > 0 || whole.len() + data.len() > most {
            whole = Vec::new();
            permit = None;
            drained += data.len();
            if drained > (DRAINED_TIMES - 1) * most {
                break;
            }
            continue;
        }
        if whole.len() + data.len() > SMALL_BODY_BYTES && permit.is_none() {
            // Never closed, so waiting ends with a permit or with the time for the body.
            permit = large.acquire().await.ok();
        }
        whole.extend_from_slice(&data);
    }
    if drained > 0 { Err(Problem::body_too_large(most)) } else { Ok(whole) }
}

/// The length of a body, as far as it is known.
fn announced(body: &impl Body) -> usize {
    usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX)
}

/// Reads to its end a body that nobody needs, so that the next request can be found behind it; whether that was
/// possible. Who waits for leave to send it is not given any.
pub(super) async fn throw_away<B: Body<Data = Bytes> + Unpin>(
    headers: &HeaderMap,
    mut body: B,
    most: usize,
) -> bool {
    if body.is_end_stream() {
        return true;
    }
    if headers.contains_key(EXPECT) || announced(&body) > DRAINED_TIMES * most {
        return false;
    }
    let all = async {
        let mut left = DRAINED_TIMES * most;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                return false;
            }
        }
        true
    };
    timeout(BODY_TIMEOUT, all).await.unwrap_or(false)
}

/// Whether the fields of a request let its body be read as JSON.
pub(crate) fn acceptable(headers: &HeaderMap) -> Result<(), Problem> {
    let identity = |value: &HeaderValue| wishes::is_identity(value.as_bytes());
    if !headers.get_all(CONTENT_ENCODING).iter().all(identity) {
        return Err(Problem::unsupported_encoding());
    }
    let is_json = |value: &HeaderValue| wishes::is_json(value.as_bytes());
    // A page may send other types anywhere without asking; it has to ask for this one, and nobody grants it.
    let mut types = headers.get_all(CONTENT_TYPE).iter().peekable();
    if headers.contains_key(ORIGIN) && (types.peek().is_none() || !types.all(is_json)) {
        return Err(Problem::foreign_page());
    }
    Ok(())
}
