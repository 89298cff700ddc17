//! Decisions in the words of HTTP: the object of `POST /v1/check`, and the fields and bodies around it.

use std::time::Duration;

use ratekeeper_core::{Decision, Denial, Reason, Source, Verdict, retry_after_seconds, write_decimal};
use ratekeeper_policy::{Mode, Policy};

use crate::asking::{Asking, Outcome};
use crate::digits::millis;
use crate::holds::Ending;
use crate::live::Live;
use crate::transport::http::fields::Fields;
use crate::transport::http::problem::{PROBLEM_JSON, Problem};
use crate::transport::http::reply::Reply;
use crate::transport::http::service::{Call, Decided};

pub(crate) const JSON: &str = "application/json";

/// What a reservation adds to the object of its check.
pub(super) struct Held<'h> {
    pub(super) id: &'h str,
    pub(super) ttl: Duration,
}

/// Answers a check: the object with 200, or the refusal itself, if the caller wants it in the status.
pub(super) fn write(
    live: &Live,
    decided: &Decided<'_>,
    call: &Call<'_>,
    held: Option<&Held<'_>>,
    reply: &mut Reply,
) {
    if let Some(problem) = unavailable(live, decided) {
        return problem.write(reply);
    }
    let fields = if call.wants_status && !decided.outcome.allowed() {
        let fields = Fields::of_refusal(live, decided);
        refuse(live, decided, &fields, reply);
        fields
    } else {
        let fields = Fields::new(live, decided);
        reply.begin(200, JSON);
        fields.write_ratelimit(false, reply);
        write_object(live, decided, held, &mut reply.body);
        fields
    };
    fields.write_x_ratelimit(reply);
    if call.preferred {
        reply.field("preference-applied", b"status=429");
    }
}

/// What is answered in place of a decision that nobody has made: a store does not answer, and the policy refuses then.
pub(super) fn unavailable(live: &Live, decided: &Decided<'_>) -> Option<Problem> {
    let decision = decided.outcome.decision.as_ref().filter(|decision| !decision.allowed)?;
    if decision.limits().get(decision.binding)?.has_numbers() {
        return None;
    }
    let policy = policy(live, decided.asking, decided.outcome).map_or("", |policy| policy.name().as_str());
    let seconds = retry_after_seconds(decision.retry_after.unwrap_or_default());
    Some(Problem::store_unavailable(policy, seconds))
}

/// The policy that an answer is by: that of the binding limit, else the first that was asked for or acted; one that
/// only shows itself if there is no other.
pub(super) fn policy<'l>(live: &'l Live, asking: &Asking<'_>, outcome: &Outcome) -> Option<&'l Policy> {
    let binding = outcome.decision.as_ref().and_then(|decision| asking.places().get(decision.binding));
    let applied = match (asking.blocked(), binding) {
        (Some(blocked), _) => Some(blocked),
        (None, Some(place)) => asking.applied().get(place.applied),
        (None, None) => {
            let enforced = asking.applied().iter().find(|applied| applied.mode == Mode::Enforce);
            enforced.or_else(|| asking.applied().first())
        }
    };
    live.config().policies.get(applied?.policy)
}

/// Answers a refusal in the status: 429 if waiting helps, 413 if the cost can never pass, 503 if it is not the
/// caller's quota that is used up, 403 if no quota is.
fn refuse(live: &Live, decided: &Decided<'_>, fields: &Fields<'_>, reply: &mut Reply) {
    let policy = policy(live, decided.asking, decided.outcome).map_or("", |policy| policy.name().as_str());
    let Some(decision) = &decided.outcome.decision else {
        let denial = Denial::blocked(policy);
        reply.begin(denial.status(), PROBLEM_JSON);
        return denial.write_json([], &mut reply.body);
    };
    let check = decided.asking.checks().get(decision.binding);
    let limit = check.map_or("", |check| check.limit.name().as_str());
    let wait = decision.retry_after.filter(|wait| !wait.is_zero()).map(|wait| fields.told(wait));
    let denial = Denial::of(decision, policy, limit, wait);
    reply.begin(denial.status(), PROBLEM_JSON);
    // A 429 always says all of it; the option rules the others.
    fields.write_ratelimit(denial.status() == 429, reply);
    if let Some(seconds) = denial.retry_after() {
        reply.number("retry-after", seconds);
        reply.field("cache-control", b"no-store");
    }
    let refusing = fields.limits().filter(|(_, verdict)| !verdict.allowed());
    let violated = refusing.map(|(limit, _)| limit.item.quoted_name().trim_matches('"'));
    denial.write_json(violated, &mut reply.body);
}

/// The numbers of a decision that stand before those of its limits.
#[derive(Clone, Copy)]
struct Headline {
    binding: usize,
    remaining: u64,
    reset_after: Duration,
}

impl Headline {
    /// Those of the limits that were asked; `None` if none was.
    fn of(decision: &Decision) -> Option<Self> {
        let limits = decision.limits();
        if decision.source == Source::Exact || limits.iter().all(Verdict::has_numbers) {
            let Decision { binding, remaining, reset_after, .. } = *decision;
            return Some(Self { binding, remaining, reset_after });
        }
        let asked = || limits.iter().enumerate().filter(|(_, verdict)| verdict.has_numbers());
        let least = asked().min_by_key(|(_, verdict)| verdict.remaining());
        let binding = asked().find(|(index, _)| *index == decision.binding).or(least)?.0;
        Some(Self {
            binding,
            remaining: asked().map(|(_, verdict)| verdict.remaining()).min()?,
            reset_after: asked().map(|(_, verdict)| verdict.reset_after()).max()?,
        })
    }
}

/// Appends the object of a check, field by field in their documented order.
pub(super) fn write_object(live: &Live, decided: &Decided<'_>, held: Option<&Held<'_>>, body: &mut Vec<u8>) {
    let (asking, outcome) = (decided.asking, decided.outcome);
    let decision = outcome.decision.as_ref();
    let reason = if outcome.is_blocked { Some(Reason::Blocked) } else { decision.and_then(|d| d.reason) };
    // Without numbers is who has not been asked, because the store does not answer.
    let spoken = decision.and_then(Headline::of);
    let limit = spoken.and_then(|spoken| asking.checks().get(spoken.binding));
    let mut text = |text: &str| body.extend_from_slice(text.as_bytes());
    // Names and our own words need no escapes: letters, digits, `_` and `-`.
    text(if outcome.allowed() { "{\"allowed\":true" } else { "{\"allowed\":false" });
    if let Some(reason) = reason {
        text(",\"reason\":\"");
        text(reason.name());
        text("\"");
    }
    let names = [
        (
            ",\"policy\":",
            policy(live, asking, outcome).map(|policy| policy.name().as_str()).or(decided.named),
        ),
        (",\"limit\":", limit.map(|check| check.limit.name().as_str())),
    ];
    for (field, name) in names {
        text(field);
        match name {
            Some(name) => {
                text("\"");
                text(name);
                text("\"");
            }
            None => text("null"),
        }
    }
    let mut number = |field: &str, number: Option<u64>| {
        body.extend_from_slice(field.as_bytes());
        match number {
            Some(number) => write_decimal(body, number),
            None => body.extend_from_slice(b"null"),
        }
    };
    // Without a decision: nothing to wait for if it passes, and no wait that would help if it does not.
    let wait = match decision {
        Some(decision) => decision.retry_after.map(millis),
        None => (!outcome.is_blocked).then_some(0),
    };
    number(",\"remaining\":", spoken.map(|spoken| spoken.remaining));
    number(",\"retry_after_ms\":", wait);
    number(",\"reset_after_ms\":", spoken.map(|spoken| millis(spoken.reset_after)));
    number(",\"delay_ms\":", Some(decision.map_or(0, |decision| millis(decision.delay))));
    body.extend_from_slice(b",\"source\":\"");
    body.extend_from_slice(decision.map_or(Source::Exact, |decision| decision.source).name().as_bytes());
    body.extend_from_slice(b"\",\"limits\":[");
    for (index, (texts, verdict)) in Fields::new(live, decided).limits().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(texts.object.as_bytes());
        write_decimal(body, verdict.remaining());
        body.extend_from_slice(b",\"reset_after_ms\":");
        write_decimal(body, millis(verdict.reset_after()));
        body.push(b'}');
    }
    body.extend_from_slice(b"],\"shadow_denied\":[");
    for (index, name) in outcome.shadow_denied.iter().enumerate() {
        body.extend_from_slice(if index > 0 { b",\"" } else { b"\"" });
        body.extend_from_slice(name.as_bytes());
        body.push(b'"');
    }
    body.push(b']');
    if let Some(held) = held {
        body.extend_from_slice(b",\"id\":\"");
        body.extend_from_slice(held.id.as_bytes());
        body.extend_from_slice(b"\",\"ttl_ms\":");
        write_decimal(body, millis(held.ttl));
    }
    body.push(b'}');
}

/// How a reservation ended.
pub(super) fn ended(id: &str, ending: &Ending, reply: &mut Reply) {
    reply.begin(200, JSON);
    let Ending { policy, held, cost, charged } = ending;
    let policy = policy.as_ref().map_or_else(|| "null".to_owned(), |name| format!("\"{name}\""));
    // The id is one of ours: hexadecimal digits.
    let text = format!(
        "{{\"id\":\"{id}\",\"policy\":{policy},\"held\":{held},\"cost\":{cost},\"charged\":{charged}}}"
    );
    reply.body.extend_from_slice(text.as_bytes());
}
