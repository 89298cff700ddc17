//! The long way of a request: HTTP/2, other paths than checks, bodies in pieces. hyper reads and writes here.

use std::convert::Infallible;
use std::io;

use http_body_util::Full;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CONNECTION, HOST, HeaderValue, ORIGIN};
use hyper::http::request::Parts;
use hyper::{Method, Request, Response, Version};

use crate::telemetry::Listener;
use crate::telemetry::log::Event;
use crate::telemetry::metrics::Connection;
use crate::transport::http::body;
use crate::transport::http::connection::Site;
use crate::transport::http::probe::Reader;
use crate::transport::http::problem::Problem;
use crate::transport::http::reply::Reply;
use crate::transport::http::service::{Call, Progress, Service, Verb};
use crate::transport::http::{cors, probe, wishes};

/// The longest body that is read: a question takes a hundred bytes, sixteen longest keys 100 KiB when every
/// byte of them is written as an escape, a batch of a thousand checks a hundred KiB.
const MAX_BODY_BYTES: usize = 1_024 * 1_024;

/// What there is, for those who asked for something else.
const SERVED: &str = "POST /v1/check decides; docs/http.md lists the others";
const KNOWN_QUERY: &str = "only `status=true` is known, for checks and reservations";

pub(crate) type Answer = Response<Full<Bytes>>;

impl Site for Service {
    async fn answer(&self, request: Request<Incoming>) -> Result<Answer, Infallible> {
        self.answer_any(request).await
    }

    fn is_busy(&self) -> bool {
        self.has_calls_under_way()
    }

    fn short_way(&self) -> Option<&Service> {
        Some(self)
    }

    fn connected(&self) -> Connection {
        self.app().live().metrics().connected(Listener::Http)
    }

    fn cannot_accept(&self, wrong: &io::Error) {
        let message = wrong.to_string();
        self.app().live().log().event(&Event::AcceptFailed { listener: Listener::Http, message: &message });
    }
}

impl Service {
    /// Answers one request, whatever it is, with a body from wherever.
    async fn answer_any<B: Body<Data = Bytes> + Unpin>(
        &self,
        request: Request<B>,
    ) -> Result<Answer, Infallible> {
        let _under_way = self.busy();
        let version = request.version();
        let mut reply = Reply::default();
        let (head, body) = request.into_parts();
        let mut unread = Some(body);
        if let Err(problem) = self.route(&head, &mut unread, &mut reply).await {
            problem.write(&mut reply);
        }
        if head.headers.contains_key(ORIGIN) {
            cors::mark(&self.app().live().config().cors, &head.headers, &mut reply);
        }
        if let Some(body) = unread.filter(|_| version < Version::HTTP_2) {
            reply.closes |= !body::throw_away(&head.headers, body, MAX_BODY_BYTES).await;
        }
        self.app().live().answered(reply.status);
        let closes = reply.closes || self.is_draining();
        let mut answer =
            reply.into_response(&head.method, |body| Bytes::from_owner(self.unsent().counted(body)));
        // HTTP/2 ends streams and connections by itself, and knows no such field.
        if closes && version < Version::HTTP_2 {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(answer)
    }

    async fn route<B: Body<Data = Bytes> + Unpin>(
        &self,
        head: &Parts,
        body: &mut Option<B>,
        reply: &mut Reply,
    ) -> Result<(), Problem> {
        let Parts { method, uri, version, headers, .. } = head;
        if *version == Version::HTTP_11 && headers.get_all(HOST).iter().count() != 1 {
            return Err(Problem::bad_host());
        }
        if cors::preflight(&self.app().live().config().cors, head, reply) {
            return Ok(());
        }
        let path = uri.path();
        if let Some(verb) = Verb::at(path) {
            if *method != Method::POST {
                return Err(Problem::method_not_allowed("POST"));
            }
            let wants_status = wants_status(verb, uri.query())?;
            body::acceptable(headers)?;
            let prefer = headers.get_all("prefer");
            let preferred = prefer.iter().any(|value| wishes::asks_for_status(value.as_bytes()));
            let body = body::read(headers, body, MAX_BODY_BYTES, &self.large_bodies).await?;
            if self.unsent().is_full() {
                return Err(Problem::overloaded());
            }
            let call = Call { verb, wants_status: wants_status || preferred, preferred, body: &body };
            if self.answer_one(&self.app().live(), &call, reply) == Progress::Waits {
                let live = self.app().live_for_long();
                Box::pin(self.answer_waiting(&live, &[call], reply, &mut |_, _| {})).await;
            }
            return Ok(());
        }
        if !matches!(path, "/livez" | "/readyz" | "/v1/policies") {
            return Err(Problem::not_found(SERVED));
        }
        if *method != Method::GET && *method != Method::HEAD {
            return Err(Problem::method_not_allowed("GET, HEAD"));
        }
        let query = uri.query().filter(|query| path == "/v1/policies" && !query.is_empty());
        if let Some(query) = query {
            return Err(Problem::unknown_query(query, "none is known here"));
        }
        match path {
            "/v1/policies" => probe::policies(&self.app().live(), Reader::Anybody, reply),
            other => probe::probe(self.app(), other, uri.query(), Reader::Anybody, reply),
        }
        Ok(())
    }
}

/// Whether the address asks for refusals in the status. Who asks for something and is not heard would take
/// every answer for a yes.
fn wants_status(verb: Verb, query: Option<&str>) -> Result<bool, Problem> {
    match query {
        None | Some("") => Ok(false),
        Some("status=true") if verb.has_status() => Ok(true),
        Some("status=false") if verb.has_status() => Ok(false),
        Some(other) if verb.has_status() => Err(Problem::unknown_query(other, KNOWN_QUERY)),
        Some(other) => Err(Problem::unknown_query(other, "none is known here")),
    }
}

#[cfg(test)]
mod tests;
