//! `POST /v1/explain`: why a request is decided as it is. It looks, and writes nothing.

use std::cell::Cell;

use ratekeeper_policy::Call as PolicyCall;

use crate::explained::Explained;
use crate::live::Live;
use crate::transport::http::planning::{Material, call_wrong, named, of_store, parsed};
use crate::transport::http::problem::Problem;
use crate::transport::http::question::CheckRequest;

/// Explains the check of a body.
///
/// # Errors
/// What is wrong with the body. What the policies find wrong with the request is explained.
pub(crate) async fn explain(live: &Live, body: &[u8]) -> Result<Explained, Problem> {
    let request = parsed(CheckRequest::parse(body))?;
    let material = Material::of(&request);
    let described = material.request(live, &request)?;
    let policies = &live.config().policies;
    let explanation = match &described {
        Some(described) => policies.explain(described, request.cost, live),
        None => {
            let (index, policy) = named(live, &request, &Cell::new(1))?;
            let cost = request.cost.unwrap_or_else(|| policy.options().cost.default_cost());
            let call = PolicyCall { key: request.key.as_deref(), keys: &material.keys, cost };
            policies.explain_named(index, &call, live).map_err(|wrong| call_wrong(&request, &wrong))?
        }
    };
    Explained::of(live, &explanation).await.map_err(of_store)
}
