//! From what a request says to the limits that are asked, and what is wrong with it.

use std::cell::Cell;

use ratekeeper_core::{Ask, StoreError};
use ratekeeper_policy::{Call as PolicyCall, CallError, Plan, PlanError, Policy, Request as Described};
use ratekeeper_sim::hints::quoted;
use ratekeeper_sim::json::Flaw;

use crate::asking::Asking;
use crate::live::{Live, Seen};
use crate::transport::http::attributes::{Attributes, Lines};
use crate::transport::http::problem::Problem;
use crate::transport::http::question::CheckRequest;

/// For how many checks of those that are decided together it is searched which policy was meant.
pub(super) const MAX_HINTS: u32 = 4;

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
pub(super) fn seen<'r>(request: &'r CheckRequest<'_>) -> Seen<'r> {
    request.attributes.as_ref().map_or_else(Seen::default, |attributes| Seen {
        method: attributes.method(),
        path: attributes.path(),
    })
}

/// What is done with a request: by the policy that it names, or by those that apply to what it describes.
pub(super) fn plan<'p>(
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

pub(super) fn parsed(request: Result<CheckRequest<'_>, Vec<Flaw>>) -> Parsed<'_> {
    request.map_err(|flaws| Problem::bad_input(&flaws))
}

/// What each of some requests is made of.
pub(super) fn materials<'r>(asked: &'r [Parsed<'r>]) -> Vec<Material<'r>> {
    asked.iter().map(|request| request.as_ref().ok().map(Material::of).unwrap_or_default()).collect()
}

/// What each of them describes.
pub(super) fn described<'r>(
    live: &Live,
    asked: &'r [Parsed<'r>],
    materials: &'r [Material<'r>],
) -> Vec<Result<Option<Described<'r>>, Problem>> {
    let described = asked.iter().zip(materials).map(|(request, material)| match request {
        Ok(request) => material.request(live, request),
        Err(problem) => Err(problem.clone()),
    });
    described.collect()
}

/// What is done with each of them.
pub(super) fn plans<'p>(
    live: &'p Live,
    asked: &'p [Parsed<'p>],
    materials: &'p [Material<'p>],
    described: &'p [Result<Option<Described<'p>>, Problem>],
) -> Vec<Result<Plan<'p>, Problem>> {
    let hints = Cell::new(MAX_HINTS);
    let made = asked.iter().zip(materials.iter().zip(described));
    made.map(|(request, (material, described))| match (request, described) {
        (Ok(request), Ok(described)) => plan(live, request, material, described.as_ref(), &hints),
        (Err(problem), _) | (_, Err(problem)) => Err(problem.clone()),
    })
    .collect()
}

/// What each of them asks.
pub(super) fn askings<'p>(
    live: &Live,
    asked: &'p [Parsed<'p>],
    plans: &'p [Result<Plan<'p>, Problem>],
) -> Vec<Result<Asking<'p>, Problem>> {
    let asking = asked.iter().zip(plans).map(|(request, plan)| match (request, plan) {
        (Ok(request), Ok(plan)) => Ok(Asking::new(live, plan.applied(), seen(request))),
        (Err(problem), _) | (_, Err(problem)) => Err(problem.clone()),
    });
    asking.collect()
}

/// Those of them that are to be decided.
pub(super) fn questions<'q, 'p>(
    asked: &'q [Parsed<'p>],
    askings: &'q [Result<Asking<'p>, Problem>],
) -> Vec<(&'q Asking<'p>, Ask)> {
    let both = asked.iter().zip(askings);
    both.filter_map(|(request, asking)| Some((asking.as_ref().ok()?, request.as_ref().ok()?.ask))).collect()
}
