//! `GET` and `DELETE /v1/keys/{policy}/{key}`: what a key has used, and to forget that.

use ratekeeper::OnStoreError;
use ratekeeper_core::{Check, StoreError, Verdict};
use ratekeeper_policy::{Applied, Call, Does, Policy, Which};
use ratekeeper_sim::hints::quoted;
use serde::Serialize;

use crate::digits::{hex_digit, millis};
use crate::live::Live;
use crate::transport::http::{JSON, Problem, Reply};

/// What a key has used.
#[derive(Serialize)]
struct KeyAnswer<'a> {
    policy: &'a str,
    key: &'a str,
    /// What an override does with the key without asking any of its limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<&'static str>,
    limits: Vec<LimitAnswer<'a>>,
}

/// What it has used of one limit.
#[derive(Serialize)]
struct LimitAnswer<'a> {
    name: &'a str,
    used: u64,
    capacity: u64,
    remaining: u64,
    /// Until a request of cost 1 passes; 0 if it does now.
    retry_after_ms: Option<u64>,
    reset_after_ms: u64,
}

/// Shows what the key at the end of a path has used; never writes.
pub(super) async fn show(live: &Live, rest: &str, reply: &mut Reply) -> Result<(), Problem> {
    let (index, policy, key) = find(live, rest, "/v1/keys")?;
    let call = Call { key: Some(&key), keys: &[], cost: 1 };
    let (applied, action) = asked(live, index, policy, &call, Which::Seen)?;
    let checks: Vec<Check<'_>> = applied.checks().map(|(_, check)| check).collect();
    if checks.is_empty() {
        return Err(no_such_limit(policy));
    }
    let unavailable = |wrong: StoreError| Problem::unavailable(wrong.to_string());
    // What this instance would say by itself is not what the key has used.
    let decision = live.look(index, &checks, OnStoreError::Deny).await.map_err(unavailable)?;
    if !decision.limits().iter().all(Verdict::has_numbers) {
        return Err(Problem::unavailable("the store does not answer".to_owned()));
    }
    let limits = checks.iter().zip(decision.limits()).map(|(check, verdict)| {
        let (capacity, remaining) = (verdict.limit().capacity(), verdict.remaining());
        LimitAnswer {
            name: check.limit.name().as_str(),
            used: capacity.saturating_sub(remaining),
            capacity,
            remaining,
            retry_after_ms: verdict.retry_after().map(millis),
            reset_after_ms: millis(verdict.reset_after()),
        }
    });
    let answer = KeyAnswer { policy: policy.name().as_str(), key: &key, action, limits: limits.collect() };
    reply.begin(200, JSON);
    reply.json(&answer);
    Ok(())
}

/// Forgets the key at the end of a path, as if it had never been seen. What everybody shares stays.
pub(super) async fn reset(live: &Live, rest: &str, reply: &mut Reply) -> Result<(), Problem> {
    let (index, policy, key) = find(live, rest, "/v1/keys")?;
    let call = Call { key: Some(&key), keys: &[], cost: 0 };
    let (applied, _) = asked(live, index, policy, &call, Which::Reset)?;
    let checks: Vec<Check<'_>> = applied.checks().map(|(_, check)| check).collect();
    if checks.is_empty() {
        return Err(no_such_limit(policy));
    }
    live.forget(index, &checks).await.map_err(|wrong| Problem::unavailable(wrong.to_string()))?;
    reply.begin_empty(204);
    Ok(())
}

fn no_such_limit(policy: &Policy) -> Problem {
    Problem::bad_path(format!("no limit of `{}` counts by the policy's key", policy.name()))
}

/// The limits of a policy that are asked for a key, with the numbers that hold for it now; and what is done with it
/// instead, if it is blocked or let through: what it has used of the policy's own limits is there all the same.
fn asked<'a>(
    live: &'a Live,
    index: usize,
    policy: &'a Policy,
    call: &Call<'a>,
    which: Which,
) -> Result<(Applied<'a>, Option<&'static str>), Problem> {
    let mut applied = policy.named(call, which).map_err(|wrong| Problem::bad_path(wrong.to_string()))?;
    applied.policy = index;
    applied.decide(policy, live);
    let action = if let Does::Action(action) = applied.does { Some(action.name()) } else { None };
    if action.is_some() {
        applied.does = Does::Limits(policy.limits());
    }
    Ok((applied, action))
}

/// The policy and the key of `{policy}/{key}` under a path.
pub(super) fn find<'a>(
    live: &'a Live,
    rest: &str,
    path: &str,
) -> Result<(usize, &'a Policy, String), Problem> {
    let Some((name, key)) = rest.split_once('/') else {
        return Err(Problem::bad_path(format!("the path is {path}/POLICY/KEY")));
    };
    let decoded = |part: &str, what: &str| {
        percent_decoded(part)
            .ok_or_else(|| Problem::bad_path(format!("{what} is no percent-encoded UTF-8: {}", quoted(part))))
    };
    let (name, key) = (decoded(name, "the policy")?, decoded(key, "the key")?);
    let config = live.config();
    let Some(index) = config.policy_index(&name) else {
        let near = live.nearest_policy(&name);
        let hint = near.map_or_else(String::new, |near| format!(": did you mean `{near}`?"));
        return Err(Problem::unknown_policy_in_path(format!("there is no policy {}{hint}", quoted(&name))));
    };
    Ok((index, &config.policies[index], key))
}

/// The text behind a percent-encoded part of a path; a plus is a plus.
fn percent_decoded(part: &str) -> Option<String> {
    let digit = |byte: Option<&u8>| hex_digit(*byte?);
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes().iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => digit(rest.next())? << 4 | digit(rest.next())?,
            other => *other,
        });
    }
    String::from_utf8(bytes).ok()
}
