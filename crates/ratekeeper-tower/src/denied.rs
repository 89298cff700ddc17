//! The answer to a request that is refused.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Response, StatusCode};
use ratekeeper::{Decision, Denial, Reason};
use ratekeeper_policy::Stretch;

use crate::body::ResponseBody;
use crate::fields::{Fields, Told, add_wait};
use crate::layer::Shared;
use crate::outcome::Outcome;
use crate::{facts, grpc};

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// A refusal, for a program that answers in its own words.
#[derive(Clone, Copy, Debug)]
pub struct Denied<'a> {
    denial: &'a Denial<'a>,
    decision: Option<&'a Decision>,
    request: &'a Parts,
    problem: &'a [u8],
}

impl<'a> Denied<'a> {
    /// 429, or 413, 403, 503 or 400: see [`Denial`].
    #[must_use]
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.denial.status()).unwrap_or(StatusCode::TOO_MANY_REQUESTS)
    }

    /// Why and until when, in words.
    #[must_use]
    pub const fn denial(&self) -> &'a Denial<'a> {
        self.denial
    }

    /// Why, if a limit or a policy refuses.
    #[must_use]
    pub const fn reason(&self) -> Option<Reason> {
        self.denial.reason()
    }

    /// The decision with all its numbers, if a limit was asked.
    #[must_use]
    pub const fn decision(&self) -> Option<&'a Decision> {
        self.decision
    }

    /// The head of the request.
    #[must_use]
    pub const fn request(&self) -> &'a Parts {
        self.request
    }

    /// The body that is sent unless the program says otherwise: a problem object (RFC 9457).
    #[must_use]
    pub const fn problem_json(&self) -> &'a [u8] {
        self.problem
    }

    /// That answer.
    #[must_use]
    pub fn response(&self) -> Response<Bytes> {
        let mut response = Response::new(Bytes::copy_from_slice(self.problem));
        *response.status_mut() = self.status();
        response.headers_mut().insert(CONTENT_TYPE, PROBLEM_JSON);
        response
    }
}

/// The answer to a request that is not let through.
pub(crate) fn respond<B>(
    shared: &Shared,
    parts: &Parts,
    refused: Result<&Outcome, &Denial<'static>>,
) -> Response<ResponseBody<B>> {
    let stretch = refused.map_or(Stretch::NONE, |outcome| shared.stretch(outcome));
    let of_outcome = refused.map(|outcome| outcome.denial(&shared.book, stretch));
    let denial = match &of_outcome {
        Ok(denial) => denial,
        Err(denial) => *denial,
    };
    let decision = refused.ok().and_then(|outcome| outcome.decision.as_ref());
    let told = refused.ok().zip(decision).map(|(outcome, decision)| Told {
        book: &shared.book,
        decision,
        places: &outcome.places,
        clock: &*shared.options.clock,
        stretch,
    });
    // A 429 always says all of it; the option rules the others.
    let fields = told.map_or_else(Fields::default, |told| told.fields(denial.status() == 429));
    if facts::is_grpc(parts) {
        let mut response = grpc::response(denial, parts);
        fields.merge_into(response.headers_mut());
        return response.map(ResponseBody::denied);
    }
    let violated = refused.map(|outcome| shared.violated(outcome)).unwrap_or_default();
    let mut problem = Vec::with_capacity(512);
    denial.write_json(violated.iter().map(String::as_str), &mut problem);
    let denied = Denied { denial, decision, request: parts, problem: &problem };
    let mut response = match &shared.options.on_denied {
        Some(own) => own(&denied),
        None => denied.response(),
    };
    fields.merge_into(response.headers_mut());
    add_wait(response.headers_mut(), denial.retry_after());
    response.map(ResponseBody::denied)
}
