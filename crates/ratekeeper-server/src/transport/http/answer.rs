//! Decisions in the words of HTTP: the object of `POST /v1/check`, and the fields and bodies around it.

use std::time::Duration;

use ratekeeper_core::{Limit, Quota, Reason, Source, retry_after_seconds, write_decimal};
use ratekeeper_policy::{Mode, Policy};
use serde::Serialize;

use crate::app::App;
use crate::asking::{Asking, Outcome};
use crate::digits::millis;
use crate::holds::Ending;
use crate::live::Live;
use crate::telemetry::log::instant;
use crate::transport::http::fields::Fields;
use crate::transport::http::problem::{PROBLEM_JSON, REDUCED_CAPACITY};
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

/// A refusal as HTTP says it: a problem object (RFC 9457) with what programs look for beside it.
#[derive(Serialize)]
struct Refusal<'r> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    #[serde(rename = "violated-policies", skip_serializing_if = "Vec::is_empty")]
    violated: Vec<&'r str>,
    error: &'static str,
    reason: &'static str,
    retry_after: Option<u64>,
    retry_after_ms: Option<u64>,
    policy: &'r str,
    limit: Option<&'r str>,
}

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const TOO_LARGE: &str = "urn:ratekeeper:problem:cost-exceeds-capacity";
const BLOCKED: &str = "urn:ratekeeper:problem:blocked";

/// Answers a refusal in the status: 429 if waiting helps, 413 if the cost can never pass, 503 if it is not the
/// caller's quota that is used up.
fn refuse(live: &Live, decided: &Decided<'_>, fields: &Fields<'_>, reply: &mut Reply) {
    let policy = policy(live, decided.asking, decided.outcome).map_or("", |policy| policy.name().as_str());
    let Some(decision) = &decided.outcome.decision else { return refuse_blocked(policy, reply) };
    let check = decided.asking.checks().get(decision.binding);
    let (limit, numbers) =
        (check.map_or("", |check| check.limit.name().as_str()), check.map(|c| c.limit.limit()));
    let wait = decision.retry_after.filter(|wait| !wait.is_zero()).map(|wait| fields.told(wait));
    let seconds = wait.map(retry_after_seconds);
    let (status, kind, title, error, detail) = match (decision.reason, seconds) {
        (Some(Reason::Limited), Some(seconds)) => {
            let (most, window) = numbers.map(Quota::of).map_or((0, 0), |quota| (quota.units, quota.seconds));
            let requests = if most == 1 { "request" } else { "requests" };
            let detail = format!(
                "Limit {policy}.{limit} allows {most} {requests} per {window} s. Retry in {seconds} s."
            );
            (429, QUOTA_EXCEEDED, "Quota exceeded", "rate_limited", detail)
        }
        (Some(Reason::StoreUnavailable), _) => {
            let detail = "There is no place for this key at the moment.".to_owned();
            (503, REDUCED_CAPACITY, "Temporarily reduced capacity", "unavailable", detail)
        }
        _ => {
            let (capacity, cost) = (numbers.map_or(0, Limit::capacity), check.map_or(0, |check| check.cost));
            let detail = format!(
                "Limit {policy}.{limit} never holds more than {capacity}: a cost of {cost} can never pass."
            );
            (413, TOO_LARGE, "Cost exceeds capacity", "cost_exceeds_capacity", detail)
        }
    };
    reply.begin(status, PROBLEM_JSON);
    // A 429 always says all of it; the option rules the others.
    fields.write_ratelimit(status == 429, reply);
    let seconds = seconds.filter(|_| matches!(status, 429 | 503));
    if let Some(seconds) = seconds {
        reply.number("retry-after", seconds);
        reply.field("cache-control", b"no-store");
    }
    let refusing = fields.limits().filter(|(_, verdict)| status == 429 && !verdict.allowed());
    let refusal = Refusal {
        kind,
        title,
        status,
        detail,
        violated: refusing.map(|(limit, _)| limit.item.quoted_name().trim_matches('"')).collect(),
        error,
        reason: decision.reason.map_or("", Reason::name),
        retry_after: seconds,
        retry_after_ms: wait.filter(|_| seconds.is_some()).map(millis),
        policy,
        limit: Some(limit),
    };
    reply.json(&refusal);
}

/// No wait helps: it is not a quota that is used up.
fn refuse_blocked(policy: &str, reply: &mut Reply) {
    reply.begin(403, PROBLEM_JSON);
    reply.json(&Refusal {
        kind: BLOCKED,
        title: "Blocked",
        status: 403,
        detail: format!("Policy {policy} blocks this request."),
        violated: Vec::new(),
        error: "blocked",
        reason: Reason::Blocked.name(),
        retry_after: None,
        retry_after_ms: None,
        policy,
        limit: None,
    });
}

/// Appends the object of a check, field by field in their documented order.
pub(super) fn write_object(live: &Live, decided: &Decided<'_>, held: Option<&Held<'_>>, body: &mut Vec<u8>) {
    let (asking, outcome) = (decided.asking, decided.outcome);
    let decision = outcome.decision.as_ref();
    let reason = if outcome.is_blocked { Some(Reason::Blocked) } else { decision.and_then(|d| d.reason) };
    let limit = decision.and_then(|decision| asking.checks().get(decision.binding));
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
    number(",\"remaining\":", decision.map(|decision| decision.remaining));
    number(",\"retry_after_ms\":", wait);
    number(",\"reset_after_ms\":", decision.map(|decision| millis(decision.reset_after)));
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

/// Who reads an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reader {
    /// Anybody: texts of the file may be keys of customers.
    Anybody,
    /// Whoever may read the file.
    Operator,
}

/// The policies as the file says them, and which file that was. Not everybody reads whose overrides there are.
pub(crate) fn policies(live: &Live, reader: Reader, reply: &mut Reply) {
    reply.begin(200, JSON);
    let config = live.config();
    let policies = match reader {
        Reader::Anybody => config.policies_json_public(),
        Reader::Operator => config.policies_json(),
    };
    let text = format!("{{\"sha\":\"{}\",\"policies\":{policies}}}", config.source_sha());
    reply.body.extend_from_slice(text.as_bytes());
}

/// The query that asks a probe for more than a word.
pub(crate) const VERBOSE: &str = "verbose";

/// Whether the process runs, and for `/readyz` whether it is not about to end; with `?verbose` also what it is at
/// work with.
pub(crate) fn probe(app: &App, path: &str, query: Option<&str>, reader: Reader, reply: &mut Reply) {
    let ends = path == "/readyz" && app.is_draining();
    reply.begin(if ends { 503 } else { 200 }, "text/plain; charset=utf-8");
    if path == "/readyz" && query == Some(VERBOSE) {
        reply.body.extend_from_slice(state(app, ends, reader).as_bytes());
    } else {
        reply.body.extend_from_slice(if ends { b"draining\n" } else { b"ok\n" });
    }
    if ends {
        reply.number("retry-after", 1);
    }
}

/// Whether requests are taken, by which configuration, and what has become of the last reload if it failed.
fn state(app: &App, ends: bool, reader: Reader) -> String {
    let live = app.live();
    let word = if ends { "draining" } else { "ready" };
    let (sha, since) = (live.config().source_sha(), instant(live.since()));
    let mut text = format!("{word}\nconfiguration {sha} since {since}\n");
    if let Some(refused) = app.refused() {
        text.push_str(&format!("last reload failed at {}\n", instant(refused.at)));
        let lines = match reader {
            Reader::Anybody => &refused.places,
            Reader::Operator => &refused.lines,
        };
        for line in lines {
            text.push_str(&format!("  {line}\n"));
        }
    }
    text
}
