//! The middleware for reqwest.

use std::time::Duration;

use async_trait::async_trait;
use http::{Extensions, Uri};
use reqwest::{Request, Response, ResponseBuilderExt as _};
use reqwest_middleware::{Error, Middleware, Next, Result};
use tokio::time::timeout;

use crate::decide::Failure;
use crate::failure::failure_of;
use crate::head::RequestHead;
use crate::hint::MAX_BODY_BYTES;
use crate::polite::{Polite, PoliteOptions};
use crate::run::{Run, Verdict, idempotency_key};

/// So much of a refused body is read before the wait, so that its connection can be used again.
const MAX_DRAINED_BYTES: usize = 64 * 1024;
/// And for no longer than this.
const MAX_DRAIN_TIME: Duration = Duration::from_secs(1);

/// Waits at the gate of a request's key, and repeats what may be repeated. Options of one call are an extension of
/// its request: `.with_extension(PoliteOptions::default().within(span))`. A call that may not be sent fails with
/// [`Gated`](crate::Gated) as the cause of a [`reqwest_middleware::Error::Middleware`].
///
/// Turn reqwest's own retries off (`reqwest::retry::never()`): they multiply with these.
#[async_trait]
impl Middleware for Polite {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        if let Some((name, key)) = idempotency_key(self, request.method(), request.headers()) {
            request.headers_mut().insert(name, key);
        }
        let options = extensions.get::<PoliteOptions>().copied().unwrap_or_default();
        // A URL that is no URI has no host, and is refused by reqwest itself.
        let uri = request.url().as_str().parse::<Uri>().unwrap_or_default();
        let head = RequestHead { method: request.method(), uri: &uri, headers: request.headers() };
        let mut run = Run::new(self, &head, options);
        loop {
            let ticket = run.admitted().await.map_err(Error::middleware)?;
            // None for a body that streams.
            let again = request.try_clone();
            match next.clone().run(request, extensions).await {
                Ok(response) => {
                    let (mut response, body) = self.looked_into(response).await?;
                    let (status, headers) = (response.status(), response.headers());
                    let verdict = run.answered(ticket, status, headers, body.as_deref(), again.is_some());
                    match (verdict, again) {
                        (Verdict::Retry, Some(again)) => {
                            drain(response, run.pause()).await;
                            request = again;
                        }
                        (verdict, _) => {
                            if let Verdict::Return(report) = verdict {
                                response.extensions_mut().insert(report);
                            }
                            return Ok(response);
                        }
                    }
                }
                Err(error) => match (run.failed(ticket, of_reqwest(&error), again.is_some()), again) {
                    (true, Some(again)) => request = again,
                    _ => return Err(error),
                },
            }
        }
    }
}

impl Polite {
    /// The body of a refusal that says how short it is, if bodies are to be read, and the answer with it.
    async fn looked_into(&self, response: Response) -> Result<(Response, Option<Vec<u8>>)> {
        let failed = response.status().is_client_error() || response.status().is_server_error();
        let short = response.content_length().is_some_and(|bytes| bytes <= MAX_BODY_BYTES as u64);
        if !(self.shared.read_bodies && failed && short) {
            return Ok((response, None));
        }
        let mut response = response;
        let url = response.url().clone();
        let (status, version) = (response.status(), response.version());
        let headers = std::mem::take(response.headers_mut());
        let extensions = std::mem::take(response.extensions_mut());
        let body = response.bytes().await?;
        let mut rebuilt = http::Response::builder().url(url).status(status).version(version);
        if let Some(of_response) = rebuilt.headers_mut() {
            *of_response = headers;
        }
        if let Some(of_response) = rebuilt.extensions_mut() {
            of_response.extend(extensions);
        }
        let rebuilt = rebuilt.body(body.clone()).map_err(Error::middleware)?;
        Ok((Response::from(rebuilt), Some(body.to_vec())))
    }
}

/// What reqwest's error says about the request.
fn of_reqwest(error: &Error) -> Failure {
    match error {
        Error::Reqwest(error) if error.is_builder() || error.is_redirect() => Failure::Permanent,
        Error::Reqwest(error) if error.is_connect() => Failure::NeverSent,
        Error::Reqwest(error) => failure_of(error),
        // Another middleware has its own reasons.
        Error::Middleware(_) => Failure::Permanent,
    }
}

/// Reads what is left of a refused answer, within bounds.
async fn drain(mut response: Response, pause: Duration) {
    let read = async {
        let mut bytes = 0_usize;
        while bytes < MAX_DRAINED_BYTES
            && let Ok(Some(chunk)) = response.chunk().await
        {
            bytes = bytes.saturating_add(chunk.len());
        }
    };
    let _ = timeout(pause.min(MAX_DRAIN_TIME), read).await;
}
