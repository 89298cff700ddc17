//! The admin listener: numbers for whoever watches, keys for whoever helps. Everything that is not for callers is
//! here and nowhere else.

mod keys;
mod overrides;
mod top;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONNECTION, HOST, HeaderValue, ORIGIN};
use hyper::http::request::Parts;
use hyper::{Method, Request, Version};
use ratekeeper_policy::Secret as Token;
use tokio::sync::Semaphore;

use crate::app::App;
use crate::reload::{Outcome, Reloader};
use crate::telemetry::Listener;
use crate::telemetry::log::Event;
use crate::telemetry::metrics::Connection;
use crate::telemetry::metrics::exposition::Exposition;
use crate::transport::http::{
    self, Answer, JSON, Problem, Reader, Reply, Site, UnderWay, VERBOSE, explain, policies, probe,
};

/// What there is, for those who asked for something else.
const SERVED: &str = "GET /metrics, /livez, /readyz, /v1/policies, /v1/keys/POLICY/KEY, /v1/overrides, /v1/top; DELETE /v1/keys/POLICY/KEY; PUT, DELETE /v1/overrides/POLICY/KEY; POST /v1/explain, /v1/reload";
/// The longest body that is read: an override of sixteen limits takes a kilobyte.
const MAX_BODY_BYTES: usize = 64 * 1_024;
/// The longest question that is explained: as long as one that is decided.
const MAX_QUESTION_BYTES: usize = 1_024 * 1_024;
/// How many longer bodies are in memory at once; others wait.
const MAX_LARGE_BODIES: usize = 16;

/// The admin listener's answers; one for all its connections.
pub(crate) struct Admin {
    app: Arc<App>,
    reloader: Arc<Reloader>,
    token: Option<Token>,
    under_way: UnderWay,
    large_bodies: Semaphore,
}

impl Site for Admin {
    async fn answer(&self, request: Request<Incoming>) -> Result<Answer, Infallible> {
        let _busy = self.under_way.begin();
        let (head, body) = request.into_parts();
        let mut unread = Some(body);
        let mut reply = Reply::default();
        if let Err(problem) = self.route(&head, &mut unread, &mut reply).await {
            problem.write(&mut reply);
        }
        // Most of what is here has no body. One that was not read is not looked through: what follows it is not found.
        let is_unread = unread.is_some_and(|body| !body.is_end_stream());
        let closes = self.app.is_draining() || reply.closes || is_unread;
        let version = head.version;
        let mut answer = reply.into_response(&head.method, Bytes::from);
        if closes && version < Version::HTTP_2 {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(answer)
    }

    fn is_busy(&self) -> bool {
        self.under_way.is_any()
    }

    fn connected(&self) -> Connection {
        self.app.live().metrics().connected(Listener::Admin)
    }

    fn cannot_accept(&self, wrong: &io::Error) {
        let message = wrong.to_string();
        self.app.live().log().event(&Event::AcceptFailed { listener: Listener::Admin, message: &message });
    }
}

impl Admin {
    pub(crate) fn new(app: Arc<App>, reloader: Arc<Reloader>, token: Option<Token>) -> Self {
        let large_bodies = Semaphore::new(MAX_LARGE_BODIES);
        Self { app, reloader, token, under_way: UnderWay::default(), large_bodies }
    }

    async fn route(
        &self,
        head: &Parts,
        body: &mut Option<Incoming>,
        reply: &mut Reply,
    ) -> Result<(), Problem> {
        let Parts { method, uri, version, headers, .. } = head;
        if *version == Version::HTTP_11 && headers.get_all(HOST).iter().count() != 1 {
            return Err(Problem::bad_host());
        }
        let path = uri.path();
        let query = uri.query().filter(|query| !query.is_empty());
        if let Some(query) = query.filter(|query| (path, *query) != ("/readyz", VERBOSE) && path != "/v1/top")
        {
            return Err(Problem::unknown_query(query, "none is known here"));
        }
        let is_probe = matches!(path, "/livez" | "/readyz");
        let reader = match self.admit(head) {
            Ok(()) => Reader::Operator,
            // Who watches from outside sees whether the server is ready, and no more than anybody.
            Err(_) if is_probe => Reader::Anybody,
            Err(problem) => return Err(problem),
        };
        // A reload meanwhile changes nothing for this request.
        let live = self.app.live_for_long();
        if let Some(rest) = path.strip_prefix("/v1/keys/") {
            return match *method {
                Method::GET | Method::HEAD => keys::show(&live, rest, reply).await,
                Method::DELETE => keys::reset(&live, rest, reply).await,
                _ => Err(Problem::method_not_allowed("GET, HEAD, DELETE")),
            };
        }
        if let Some(rest) = path.strip_prefix("/v1/overrides/") {
            return match *method {
                Method::GET | Method::HEAD => overrides::show(&self.app, rest, reply),
                Method::PUT => {
                    http::body::acceptable(headers)?;
                    let body = http::body::read(headers, body, MAX_BODY_BYTES, &self.large_bodies).await?;
                    overrides::put(&self.app, rest, &body, reply)
                }
                Method::DELETE => overrides::remove(&self.app, rest, reply),
                _ => Err(Problem::method_not_allowed("GET, HEAD, PUT, DELETE")),
            };
        }
        if path == "/v1/explain" {
            if *method != Method::POST {
                return Err(Problem::method_not_allowed("POST"));
            }
            http::body::acceptable(headers)?;
            let body = http::body::read(headers, body, MAX_QUESTION_BYTES, &self.large_bodies).await?;
            reply.begin(200, JSON);
            reply.json(&explain(&live, &body).await?);
            return Ok(());
        }
        if path == "/v1/reload" {
            if *method != Method::POST {
                return Err(Problem::method_not_allowed("POST"));
            }
            self.reload(reply).await;
            return Ok(());
        }
        if !is_probe && !matches!(path, "/metrics" | "/v1/policies" | "/v1/overrides" | "/v1/top") {
            return Err(Problem::not_found(SERVED));
        }
        if *method != Method::GET && *method != Method::HEAD {
            return Err(Problem::method_not_allowed("GET, HEAD"));
        }
        match path {
            "/metrics" => {
                let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok());
                let format = Exposition::accepted(accept);
                reply.begin(200, format.content_type());
                let page = live.metrics().encode(format, self.app.snapshot(&live));
                reply.body.extend_from_slice(page.as_bytes());
            }
            "/v1/policies" => policies(&live, reader, reply),
            "/v1/overrides" => overrides::list(&self.app, reply),
            "/v1/top" => top::show(&live, query, reply)?,
            path => probe(&self.app, path, query, reader, reply),
        }
        Ok(())
    }

    /// Reads the configuration again: 200 if it is at work now, 422 with its errors if the present one stays.
    async fn reload(&self, reply: &mut Reply) {
        match self.reloader.reload().await {
            Outcome::Taken(taken) => {
                reply.begin(200, JSON);
                reply.json(&taken);
            }
            Outcome::Refused(report) => {
                reply.begin(422, JSON);
                reply.body.extend_from_slice(report.as_bytes());
            }
        }
    }

    /// Whether whoever asks may be answered.
    fn admit(&self, head: &Parts) -> Result<(), Problem> {
        let headers = &head.headers;
        match &self.token {
            Some(token) => {
                let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
                let given = match given.split_at_checked(7) {
                    Some((scheme, given)) if scheme.eq_ignore_ascii_case(b"bearer ") => given.trim_ascii(),
                    _ => return Err(Problem::unauthorized()),
                };
                if token.matches(given) { Ok(()) } else { Err(Problem::unauthorized()) }
            }
            // Without a token only programs of this machine are meant, and not the pages in its browsers: those
            // say where they come from, or ask under a name that they have made to point here.
            None if headers.contains_key(ORIGIN) => Err(Problem::forbidden_page()),
            None => {
                // HTTP/2 says it in the target, as everybody may.
                let target = head.uri.authority().map(|authority| authority.as_str().as_bytes());
                let hosts = headers.get_all(HOST).iter().map(HeaderValue::as_bytes);
                let is_own = target.into_iter().chain(hosts).all(is_own_name);
                if is_own { Ok(()) } else { Err(Problem::forbidden_page()) }
            }
        }
    }
}

/// Whether a `Host` is an address or `localhost`, and so no name that somebody else can point here.
fn is_own_name(host: &[u8]) -> bool {
    let Ok(host) = str::from_utf8(host) else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests;
