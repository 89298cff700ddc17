//! What the HTTP listener answers, whichever way a request came in.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ratekeeper_core::{Ask, Decision, Micros, StoreError, Verdict, retry_after_seconds};
use ratekeeper_policy::{Call as PolicyCall, CallError, Plan, PlanError, Policy, Request as Described};
use ratekeeper_sim::hints::quoted;
use ratekeeper_sim::json::Flaw;
use tokio::sync::Semaphore;

use crate::app::App;
use crate::asking::{Asking, Outcome};
use crate::holds::{self, HOLD_TTL, MAX_HOLDS, NotEnded};
use crate::live::{Live, Seen};
use crate::transport::http::answer;
use crate::transport::http::attributes::{Attributes, Lines};
use crate::transport::http::problem::Problem;
use crate::transport::http::question::{CheckRequest, Ending, parse_batch};
use crate::transport::http::reply::Reply;
use crate::transport::http::unsent::Unsent;

/// For how many checks of those that are decided together it is searched which policy was meant.
const MAX_HINTS: u32 = 4;
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

    /// Answers one call by the configuration `live`.
    pub(super) fn answer_one(&self, live: &Live, call: &Call<'_>, reply: &mut Reply) {
        let done = match call.verb {
            Verb::Check => check(live, call, reply),
            Verb::Batch => batch(live, call, reply),
            Verb::Reserve => self.reserve(live, call, reply),
            Verb::Settle => self.settle(Ending::parse_settle(call.body), reply),
            Verb::Refund => self.settle(Ending::parse_refund(call.body), reply),
        };
        if let Err(problem) = done {
            problem.write(reply);
        }
    }

    /// Answers calls in their order, all by one configuration; those that only check are decided together. `each`
    /// is handed the answers one after another.
    pub(super) fn answer_all(
        &self,
        live: &Live,
        calls: &[Call<'_>],
        reply: &mut Reply,
        each: &mut dyn FnMut(usize, &Reply),
    ) {
        let mut index = 0;
        for run in calls.chunk_by(|a, b| a.verb == Verb::Check && b.verb == Verb::Check) {
            if let [call] = run {
                // Alone as most requests are: there is nothing to be gathered.
                self.answer_one(live, call, reply);
                each(index, reply);
            } else {
                check_all(live, run, reply, &mut |i, reply| each(index + i, reply));
            }
            index += run.len();
        }
    }

    /// Takes what is asked for and keeps under an id what is needed to settle it.
    fn reserve(&self, live: &Live, call: &Call<'_>, reply: &mut Reply) -> Result<(), Problem> {
        let request = parsed(CheckRequest::parse_reserve(call.body))?;
        if request.cost == Some(0) {
            let message = "a reservation holds at least 1".to_owned();
            return Err(Problem::bad_input(&[request.places.flaw("cost", message, None)]));
        }
        let material = Material::of(&request);
        let described = material.request(live, &request)?;
        let plan = plan(live, &request, &material, described.as_ref(), &Cell::new(MAX_HINTS))?;
        let asking = Asking::new(live, plan.applied(), seen(&request));
        let now = self.now();
        if !asking.checks().is_empty() || asking.shadows().next().is_some() {
            let room = self.app.holds().room(now);
            room.map_err(|wait| Problem::too_many_holds(MAX_HOLDS, retry_after_seconds(wait)))?;
        }
        let (outcome, taken) = live.reserve(&asking).map_err(of_store)?;
        live.note(&asking, &outcome);
        let id = outcome.allowed().then(|| {
            let name = answer::policy(live, &asking, &outcome).map(|policy| policy.name().clone());
            // A limit that takes what is left may have taken less than was asked for.
            let limits = outcome.decision.iter().flat_map(Decision::limits);
            let held = limits.map(Verdict::cost).max().unwrap_or(0);
            holds::written(self.app.holds().keep(name, held, taken, now))
        });
        let held = id.as_deref().map(|id| answer::Held { id, ttl: HOLD_TTL });
        let decided = Decided { named: request.named(), asking: &asking, outcome: &outcome };
        answer::write(live, &decided, call, held.as_ref(), reply);
        Ok(())
    }

    /// Ends a reservation: at what it came to, or at nothing.
    fn settle(&self, ending: Result<Ending<'_>, Vec<Flaw>>, reply: &mut Reply) -> Result<(), Problem> {
        let Ending { id, cost } = ending.map_err(|flaws| Problem::bad_input(&flaws))?;
        let known = holds::read(&id).ok_or_else(Problem::unknown_id)?;
        let ending = self.app.holds().end(known, cost, self.now()).map_err(|wrong| match wrong {
            NotEnded::Unknown => Problem::unknown_id(),
            NotEnded::Otherwise(cost) => Problem::already_settled(cost),
        })?;
        answer::ended(&id, &ending, reply);
        Ok(())
    }
}

fn check_all(live: &Live, run: &[Call<'_>], reply: &mut Reply, each: &mut dyn FnMut(usize, &Reply)) {
    let asked: Vec<_> = run.iter().map(|call| parsed(CheckRequest::parse(call.body))).collect();
    decide(live, &asked, &mut |index, outcome| {
        match outcome {
            Ok(decided) => answer::write(live, &decided, &run[index], None, reply),
            Err(problem) => problem.write(reply),
        }
        each(index, reply);
    });
}

fn check(live: &Live, call: &Call<'_>, reply: &mut Reply) -> Result<(), Problem> {
    let request = parsed(CheckRequest::parse(call.body))?;
    let material = Material::of(&request);
    let described = material.request(live, &request)?;
    let plan = plan(live, &request, &material, described.as_ref(), &Cell::new(MAX_HINTS))?;
    let asking = Asking::new(live, plan.applied(), seen(&request));
    let outcome = live.decide(&asking, request.ask).map_err(of_store)?;
    if request.ask == Ask::Acquire {
        live.note(&asking, &outcome);
    }
    let decided = Decided { named: request.named(), asking: &asking, outcome: &outcome };
    answer::write(live, &decided, call, None, reply);
    Ok(())
}

fn batch(live: &Live, call: &Call<'_>, reply: &mut Reply) -> Result<(), Problem> {
    let checks = parse_batch(call.body).map_err(|flaws| Problem::bad_input(&flaws))?;
    let asked: Vec<_> = checks.iter().map(|check| parsed(CheckRequest::parse(check.as_bytes()))).collect();
    reply.begin(200, answer::JSON);
    reply.body.extend_from_slice(b"{\"results\":[");
    decide(live, &asked, &mut |index, outcome| {
        if index > 0 {
            reply.body.push(b',');
        }
        match outcome {
            Ok(decided) => answer::write_object(live, &decided, None, &mut reply.body),
            Err(problem) => {
                problem.within(&format!("/checks/{index}")).write_object(&mut reply.body);
            }
        }
    });
    reply.body.extend_from_slice(b"]}");
    Ok(())
}

pub(super) fn parsed(request: Result<CheckRequest<'_>, Vec<Flaw>>) -> Parsed<'_> {
    request.map_err(|flaws| Problem::bad_input(&flaws))
}

/// Decides checks in their order, all at once.
fn decide(live: &Live, asked: &[Parsed<'_>], each: &mut dyn FnMut(usize, Result<Decided<'_>, Problem>)) {
    let materials: Vec<_> =
        asked.iter().map(|request| request.as_ref().ok().map(Material::of).unwrap_or_default()).collect();
    let described: Vec<_> = asked
        .iter()
        .zip(&materials)
        .map(|(request, material)| match request {
            Ok(request) => material.request(live, request),
            Err(problem) => Err(problem.clone()),
        })
        .collect();
    let hints = Cell::new(MAX_HINTS);
    let plans: Vec<_> = asked
        .iter()
        .zip(materials.iter().zip(&described))
        .map(|(request, (material, described))| match (request, described) {
            (Ok(request), Ok(described)) => plan(live, request, material, described.as_ref(), &hints),
            (Err(problem), _) | (_, Err(problem)) => Err(problem.clone()),
        })
        .collect();
    let askings: Vec<_> = asked
        .iter()
        .zip(&plans)
        .map(|(request, plan)| match (request, plan) {
            (Ok(request), Ok(plan)) => Ok(Asking::new(live, plan.applied(), seen(request))),
            (Err(problem), _) | (_, Err(problem)) => Err(problem.clone()),
        })
        .collect();
    let questions: Vec<_> = asked
        .iter()
        .zip(&askings)
        .filter_map(|(request, asking)| Some((asking.as_ref().ok()?, request.as_ref().ok()?.ask)))
        .collect();
    let mut outcomes = live.decide_batch(&questions).into_iter();
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

/// What a request is made of, in the form in which policies look at it.
#[derive(Default)]
pub(super) struct Material<'r> {
    /// The keys that it gives for limits with keys of their own.
    pub(super) keys: Vec<(&'r str, &'r str)>,
    /// The field lines that it describes.
    lines: Lines<'r>,
}

impl<'r> Material<'r> {
    pub(super) fn of(request: &'r CheckRequest<'_>) -> Self {
        Self {
            keys: request.keys.iter().map(|(name, key)| (name.as_ref(), key.as_ref())).collect(),
            lines: request.attributes.as_ref().map(Attributes::lines).unwrap_or_default(),
        }
    }

    /// The request that is described, if none of the policies is named.
    pub(super) fn request(
        &'r self,
        live: &Live,
        request: &'r CheckRequest<'_>,
    ) -> Result<Option<Described<'r>>, Problem> {
        let Some(attributes) = &request.attributes else { return Ok(None) };
        let described = Described::new(&attributes.facts(&self.lines), &live.config().client_ip);
        described.map(Some).map_err(|wrong| {
            let flaw = request.places.flaw_within("attributes", "path", wrong.to_string(), None);
            Problem::bad_input(&[flaw])
        })
    }
}

/// What is to be told of a request.
fn seen<'r>(request: &'r CheckRequest<'_>) -> Seen<'r> {
    request.attributes.as_ref().map_or_else(Seen::default, |attributes| Seen {
        method: attributes.method(),
        path: attributes.path(),
    })
}

/// What is done with a request: by the policy that it names, or by those that apply to what it describes.
fn plan<'p>(
    live: &'p Live,
    request: &'p CheckRequest<'_>,
    material: &'p Material<'_>,
    described: Option<&'p Described<'_>>,
    hints: &Cell<u32>,
) -> Result<Plan<'p>, Problem> {
    let policies = &live.config().policies;
    if let Some(described) = described {
        return policies.plan_except(described, request.cost, live).map_err(|wrong| of_plan(request, &wrong));
    }
    let (index, policy) = named(live, request, hints)?;
    let cost = request.cost.unwrap_or_else(|| policy.options().cost.default_cost());
    let call = PolicyCall { key: request.key.as_deref(), keys: &material.keys, cost };
    policies.named_except(index, &call, live).map_err(|wrong| call_wrong(request, &wrong))
}

/// What a request does not say that the policy it names has to know.
pub(super) fn call_wrong(request: &CheckRequest<'_>, wrong: &CallError) -> Problem {
    Problem::bad_input(&[ratekeeper_sim::call_flaw(&request.places, wrong)])
}

/// What a request lacks that a policy insists on.
fn of_plan(request: &CheckRequest<'_>, wrong: &PlanError) -> Problem {
    let message = wrong.to_string();
    let flaw = match wrong {
        PlanError::TooManyLimits { .. } => return Problem::too_many_limits(message),
        PlanError::Cost { header, .. } => {
            let mut flaw = request.places.flaw_within("attributes", "headers", message, None);
            flaw.pointer.push('/');
            flaw.pointer.push_str(header);
            flaw
        }
        _ => request.places.flaw("attributes", message, None),
    };
    Problem::bad_input(&[flaw])
}

/// The policy that a request names.
pub(super) fn named<'l>(
    live: &'l Live,
    request: &CheckRequest<'_>,
    hints: &Cell<u32>,
) -> Result<(usize, &'l Policy), Problem> {
    let config = live.config();
    if let Some(index) = config.policy_index(&request.policy) {
        return Ok((index, &config.policies[index]));
    }
    let near = hints.get().checked_sub(1).and_then(|left| {
        hints.set(left);
        live.nearest_policy(&request.policy)
    });
    let hint = near.map(|name| format!("did you mean `{name}`?"));
    let message = format!("there is no policy {}", quoted(&request.policy));
    Err(Problem::unknown_policy(&request.places.flaw("policy", message, hint)))
}

/// What a store's failure is to the caller.
pub(super) fn of_store(wrong: StoreError) -> Problem {
    match wrong {
        StoreError::TooManyLimits => Problem::too_many_limits(wrong.to_string()),
        _ => Problem::unavailable(wrong.to_string()),
    }
}

/// A check as it was read, or what is wrong with it.
pub(super) type Parsed<'a> = Result<CheckRequest<'a>, Problem>;
