//! What the HTTP listener answers, whichever way a request came in.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper_core::{Ask, Micros, StoreError};
use tokio::sync::Semaphore;

use crate::app::App;
use crate::asking::{Asking, Outcome};
use crate::live::Live;
use crate::transport::http::answer;
use crate::transport::http::planning::{self, MAX_HINTS, Material, Parsed, of_store, parsed, plan, seen};
use crate::transport::http::problem::Problem;
use crate::transport::http::question::{CheckRequest, Ending, parse_batch};
use crate::transport::http::reply::Reply;
use crate::transport::http::unsent::Unsent;

/// How many longer bodies are in memory at once; others wait. 10,000 connections with a megabyte each would be
/// ten gigabytes.
pub(super) const MAX_LARGE_BODIES: usize = 64;

/// What can be asked with a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verb {
    Check,
    Batch,
    Reserve,
    Settle,
    Refund,
}

impl Verb {
    /// What a path asks.
    pub(super) fn at(path: &str) -> Option<Self> {
        match path {
            "/v1/check" => Some(Self::Check),
            "/v1/check:batch" => Some(Self::Batch),
            "/v1/reserve" => Some(Self::Reserve),
            "/v1/settle" => Some(Self::Settle),
            "/v1/refund" => Some(Self::Refund),
            _ => None,
        }
    }

    /// Whether a refusal may be said in the status.
    pub(super) const fn has_status(self) -> bool {
        matches!(self, Self::Check | Self::Reserve)
    }
}

/// One request with a body.
#[derive(Clone, Copy)]
pub(super) struct Call<'b> {
    pub(super) verb: Verb,
    /// A refusal is said in the status, because the caller wants it so …
    pub(super) wants_status: bool,
    /// … by its `Prefer` field, which the answer confirms.
    pub(super) preferred: bool,
    pub(super) body: &'b [u8],
}

/// A check that has been decided.
pub(super) struct Decided<'d> {
    /// The policy that the caller named, if it did.
    pub(super) named: Option<&'d str>,
    pub(super) asking: &'d Asking<'d>,
    pub(super) outcome: &'d Outcome,
}

/// How far a call came without waiting for a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    Answered,
    /// Nothing has been done that would be done again when it is begun anew, by [`Service::answer_waiting`].
    Waits,
}

/// Answers requests; one for all connections of a listener.
pub(crate) struct Service {
    app: Arc<App>,
    pub(super) large_bodies: Semaphore,
    under_way: UnderWay,
    unsent: Unsent,
}

/// How many requests are under way.
#[derive(Default)]
pub(crate) struct UnderWay(AtomicU64);

/// A request under way, until it is dropped.
pub(crate) struct Busy<'s>(&'s AtomicU64);

impl UnderWay {
    /// Counts one more, until the value is dropped.
    pub(crate) fn begin(&self) -> Busy<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Busy(&self.0)
    }

    /// Whether there is any.
    pub(crate) fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Service {
    pub(crate) fn new(app: Arc<App>) -> Self {
        Self {
            app,
            large_bodies: Semaphore::new(MAX_LARGE_BODIES),
            under_way: UnderWay::default(),
            unsent: Unsent::default(),
        }
    }

    pub(super) fn app(&self) -> &App {
        &self.app
    }

    /// The process's clock.
    pub(super) fn now(&self) -> Micros {
        self.app.now()
    }

    /// Whether the server is about to end.
    pub(super) fn is_draining(&self) -> bool {
        self.app.is_draining()
    }

    /// Answers that nobody has read yet.
    pub(super) const fn unsent(&self) -> &Unsent {
        &self.unsent
    }

    /// Whether some request is under way: read, but not answered.
    pub(super) fn has_calls_under_way(&self) -> bool {
        self.under_way.is_any()
    }

    /// Notes that a request is under way.
    pub(super) fn busy(&self) -> Busy<'_> {
        self.under_way.begin()
    }

    /// Answers one call by the configuration `live`, if no store has to be waited for.
    pub(super) fn answer_one(&self, live: &Live, call: &Call<'_>, reply: &mut Reply) -> Progress {
        if live.always_waits() {
            return Progress::Waits;
        }
        let done = match call.verb {
            Verb::Check => check(live, call, reply),
            Verb::Batch => batch(live, call, reply),
            Verb::Reserve => self.reserve(live, call, reply),
            Verb::Settle => self.settle(Ending::parse_settle(call.body), reply),
            Verb::Refund => self.settle(Ending::parse_refund(call.body), reply),
        };
        done.unwrap_or_else(|problem| {
            problem.write(reply);
            Progress::Answered
        })
    }

    /// Answers calls in their order, all by one configuration, until a store has to be waited for; those that only
    /// check are decided together. `each` is handed the answers one after another. The number of calls answered.
    pub(super) fn answer_all(
        &self,
        live: &Live,
        calls: &[Call<'_>],
        reply: &mut Reply,
        each: &mut dyn FnMut(usize, &Reply),
    ) -> usize {
        let mut index = 0;
        for run in runs(calls) {
            let progress = if let [call] = run {
                // Alone as most requests are: there is nothing to be gathered.
                let progress = self.answer_one(live, call, reply);
                if progress == Progress::Answered {
                    each(index, reply);
                }
                progress
            } else {
                check_all(live, run, reply, &mut |i, reply| each(index + i, reply))
            };
            if progress == Progress::Waits {
                return index;
            }
            index += run.len();
        }
        index
    }
}

/// Calls that are answered together: checks that follow one another, or one of another kind.
pub(super) fn runs<'c, 'b>(calls: &'c [Call<'b>]) -> impl Iterator<Item = &'c [Call<'b>]> {
    calls.chunk_by(|a, b| a.verb == Verb::Check && b.verb == Verb::Check)
}

fn check_all(
    live: &Live,
    run: &[Call<'_>],
    reply: &mut Reply,
    each: &mut dyn FnMut(usize, &Reply),
) -> Progress {
    if live.always_waits() {
        return Progress::Waits;
    }
    let asked: Vec<_> = run.iter().map(|call| parsed(CheckRequest::parse(call.body))).collect();
    decide(live, &asked, |index, outcome| {
        write_check(live, outcome, &run[index], reply);
        each(index, reply);
    })
}

/// Answers a check of several.
pub(super) fn write_check(
    live: &Live,
    outcome: Result<Decided<'_>, Problem>,
    call: &Call<'_>,
    reply: &mut Reply,
) {
    match outcome {
        Ok(decided) => answer::write(live, &decided, call, None, reply),
        Err(problem) => problem.write(reply),
    }
}

fn check(live: &Live, call: &Call<'_>, reply: &mut Reply) -> Result<Progress, Problem> {
    let request = parsed(CheckRequest::parse(call.body))?;
    let material = Material::of(&request);
    let described = material.request(live, &request)?;
    let plan = plan(live, &request, &material, described.as_ref(), &Cell::new(MAX_HINTS))?;
    let asking = Asking::new(live, plan.applied(), seen(&request));
    if asking.waits {
        return Ok(Progress::Waits);
    }
    let outcome = live.decide(&asking, request.ask).map_err(of_store)?;
    if request.ask == Ask::Acquire {
        live.note(&asking, &outcome);
    }
    let decided = Decided { named: request.named(), asking: &asking, outcome: &outcome };
    answer::write(live, &decided, call, None, reply);
    Ok(Progress::Answered)
}

fn batch(live: &Live, call: &Call<'_>, reply: &mut Reply) -> Result<Progress, Problem> {
    let checks = parse_batch(call.body).map_err(|flaws| Problem::bad_input(&flaws))?;
    let asked: Vec<_> = checks.iter().map(|check| parsed(CheckRequest::parse(check.as_bytes()))).collect();
    begin_results(reply);
    let progress = decide(live, &asked, |index, outcome| write_result(live, index, outcome, &mut reply.body));
    end_results(reply);
    Ok(progress)
}

/// Begins the answer of a batch.
pub(super) fn begin_results(reply: &mut Reply) {
    reply.begin(200, answer::JSON);
    reply.body.extend_from_slice(b"{\"results\":[");
}

/// Adds what came of check number `index` of a batch.
pub(super) fn write_result(
    live: &Live,
    index: usize,
    outcome: Result<Decided<'_>, Problem>,
    body: &mut Vec<u8>,
) {
    if index > 0 {
        body.push(b',');
    }
    match outcome {
        Ok(decided) => match answer::unavailable(live, &decided) {
            Some(problem) => problem.write_object(body),
            None => answer::write_object(live, &decided, None, body),
        },
        Err(problem) => problem.within(&format!("/checks/{index}")).write_object(body),
    }
}

/// Ends the answer of a batch.
pub(super) fn end_results(reply: &mut Reply) {
    reply.body.extend_from_slice(b"]}");
}

/// Decides checks in their order, all at once, if no store has to be waited for: then nothing has been done.
fn decide(
    live: &Live,
    asked: &[Parsed<'_>],
    each: impl FnMut(usize, Result<Decided<'_>, Problem>),
) -> Progress {
    let materials = planning::materials(asked);
    let described = planning::described(live, asked, &materials);
    let plans = planning::plans(live, asked, &materials, &described);
    let askings = planning::askings(live, asked, &plans);
    let questions = planning::questions(asked, &askings);
    if questions.iter().any(|(asking, _)| asking.waits) {
        return Progress::Waits;
    }
    let outcomes = live.decide_batch(&questions);
    deliver(live, asked, askings, outcomes, each);
    Progress::Answered
}

/// Hands out what came of checks, in their order.
pub(super) fn deliver(
    live: &Live,
    asked: &[Parsed<'_>],
    askings: Vec<Result<Asking<'_>, Problem>>,
    outcomes: Vec<Result<Outcome, StoreError>>,
    mut each: impl FnMut(usize, Result<Decided<'_>, Problem>),
) {
    let mut outcomes = outcomes.into_iter();
    for (index, (request, asking)) in asked.iter().zip(askings).enumerate() {
        let (request, asking) = match (request, asking) {
            (Ok(request), Ok(asking)) => (request, asking),
            (_, Err(problem)) => {
                each(index, Err(problem));
                continue;
            }
            (Err(problem), _) => {
                each(index, Err(problem.clone()));
                continue;
            }
        };
        match outcomes.next() {
            Some(Ok(outcome)) => {
                if request.ask == Ask::Acquire {
                    live.note(&asking, &outcome);
                }
                each(index, Ok(Decided { named: request.named(), asking: &asking, outcome: &outcome }));
            }
            Some(Err(wrong)) => each(index, Err(of_store(wrong))),
            None => each(index, Err(Problem::unavailable("the store is silent".to_owned()))),
        }
    }
}
