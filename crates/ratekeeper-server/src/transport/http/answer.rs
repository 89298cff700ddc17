//! Decisions in the words of HTTP: the object of `POST /v1/check`, and the fields and bodies around it.

use std::time::Duration;

use ratekeeper_core::{
    Decision, Limit, LimitItem, Quota, Reason, XRateLimit, policy_field, retry_after_seconds, write_decimal,
    write_limit_field,
};
use ratekeeper_policy::{Headers, Policy, PolicyLimit, XRateLimit as XOption};
use serde::Serialize;

use crate::app::App;
use crate::digits::millis;
use crate::holds::Ending;
use crate::live::Live;
use crate::telemetry::log::instant;
use crate::transport::http::problem::{PROBLEM_JSON, REDUCED_CAPACITY};
use crate::transport::http::reply::Reply;
use crate::transport::http::service::{Call, Decided};

pub(crate) const JSON: &str = "application/json";

/// What is the same in all answers of a policy, written once.
pub(crate) struct Texts {
    headers: Headers,
    /// The value of `RateLimit-Policy`.
    policy_field: String,
    limits: Vec<LimitTexts>,
}

struct LimitTexts {
    item: LimitItem,
    /// Its object up to the first number of now.
    object: String,
}

impl Texts {
    pub(crate) fn new(policy: &Policy) -> Self {
        let texts = |limit: &PolicyLimit| {
            let (numbers, name) = (limit.named.limit(), limit.named.name());
            let object = format!(
                "{{\"policy\":\"{}\",\"name\":\"{name}\",\"capacity\":{},\"window_ms\":{},\"remaining\":",
                policy.name(),
                numbers.capacity(),
                millis(numbers.refill()),
            );
            LimitTexts { item: LimitItem::new(policy.name(), name, numbers), object }
        };
        let limits: Vec<LimitTexts> = policy.limits().iter().map(texts).collect();
        let policy_field = policy_field(limits.iter().map(|limit| &limit.item));
        Self { headers: policy.headers(), policy_field, limits }
    }
}

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
    let texts = live.texts(decided.policy);
    let refused = call.wants_status && !decided.decision.allowed;
    if refused {
        refuse(live, decided, reply);
    } else {
        reply.begin(200, JSON);
        write_fields(texts, decided.decision, texts.headers.ratelimit, reply);
        write_object(live, decided, held, &mut reply.body);
    }
    write_x_fields(live, texts, decided, reply);
    if call.preferred {
        reply.field("preference-applied", b"status=429");
    }
}

/// `RateLimit` and `RateLimit-Policy`: of all limits, or of those that refuse for now.
fn write_fields(texts: &Texts, decision: &Decision, wanted: bool, reply: &mut Reply) {
    if !wanted {
        return;
    }
    reply.field("ratelimit-policy", texts.policy_field.as_bytes());
    let items = texts.limits.iter().map(|limit| &limit.item).zip(decision.limits());
    reply.field_if("ratelimit", |field| write_limit_field(field, items));
}

/// The older fields, of the binding limit.
fn write_x_fields(live: &Live, texts: &Texts, decided: &Decided<'_>, reply: &mut Reply) {
    let Some(verdict) = decided.decision.limits().get(decided.decision.binding) else { return };
    if decided.decision.reason == Some(Reason::StoreUnavailable) {
        // There is no state that these would be the numbers of.
        return;
    }
    let numbers = match texts.headers.x_ratelimit {
        XOption::Off => return,
        XOption::Unix => XRateLimit::unix(verdict, live.now()),
        XOption::Delta => XRateLimit::delta(verdict),
    };
    reply.number("x-ratelimit-limit", numbers.limit);
    reply.number("x-ratelimit-remaining", numbers.remaining);
    reply.number("x-ratelimit-reset", numbers.reset);
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
    limit: &'r str,
}

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const TOO_LARGE: &str = "urn:ratekeeper:problem:cost-exceeds-capacity";
const BLOCKED: &str = "urn:ratekeeper:problem:blocked";

/// Answers a refusal in the status: 429 if waiting helps, 413 if the cost can never pass, 503 if it is not the
/// caller's quota that is used up.
fn refuse(live: &Live, decided: &Decided<'_>, reply: &mut Reply) {
    let (texts, decision) = (live.texts(decided.policy), decided.decision);
    let policy = live.config().policies[decided.policy].name().as_str();
    let limit = decided.checks.get(decision.binding).map_or("", |check| check.limit.name().as_str());
    let numbers = decided.checks.get(decision.binding).map(|check| check.limit.limit());
    let wait = decision.retry_after.filter(|wait| !wait.is_zero());
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
        (Some(Reason::Blocked), _) => (403, BLOCKED, "Blocked", "blocked", "This key is blocked.".to_owned()),
        _ => {
            let (capacity, cost) = (numbers.map_or(0, Limit::capacity), decided.request.cost);
            let detail = format!(
                "Limit {policy}.{limit} never holds more than {capacity}: a cost of {cost} can never pass."
            );
            (413, TOO_LARGE, "Cost exceeds capacity", "cost_exceeds_capacity", detail)
        }
    };
    reply.begin(status, PROBLEM_JSON);
    // A 429 always says all of it; the option rules the others.
    write_fields(texts, decision, status == 429 || texts.headers.ratelimit, reply);
    let seconds = seconds.filter(|_| matches!(status, 429 | 503));
    if let Some(seconds) = seconds {
        reply.number("retry-after", seconds);
        reply.field("cache-control", b"no-store");
    }
    let refusing = texts.limits.iter().zip(decision.limits()).filter(|(_, v)| status == 429 && !v.allowed());
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
        limit,
    };
    reply.json(&refusal);
}

/// Appends the object of a check, field by field in their documented order.
pub(super) fn write_object(live: &Live, decided: &Decided<'_>, held: Option<&Held<'_>>, body: &mut Vec<u8>) {
    let decision = decided.decision;
    let mut text = |text: &str| body.extend_from_slice(text.as_bytes());
    // Names and our own words need no escapes: letters, digits, `_` and `-`.
    text(if decision.allowed { "{\"allowed\":true,\"" } else { "{\"allowed\":false,\"" });
    if let Some(reason) = decision.reason {
        text("reason\":\"");
        text(reason.name());
        text("\",\"");
    }
    text("policy\":\"");
    text(live.config().policies[decided.policy].name().as_str());
    text("\",\"limit\":\"");
    text(decided.checks.get(decision.binding).map_or("", |check| check.limit.name().as_str()));
    text("\",\"remaining\":");
    write_decimal(body, decision.remaining);
    body.extend_from_slice(b",\"retry_after_ms\":");
    match decision.retry_after {
        Some(wait) => write_decimal(body, millis(wait)),
        None => body.extend_from_slice(b"null"),
    }
    body.extend_from_slice(b",\"reset_after_ms\":");
    write_decimal(body, millis(decision.reset_after));
    body.extend_from_slice(b",\"delay_ms\":");
    write_decimal(body, millis(decision.delay));
    body.extend_from_slice(b",\"source\":\"");
    body.extend_from_slice(decision.source.name().as_bytes());
    body.extend_from_slice(b"\",\"limits\":[");
    for (index, (texts, verdict)) in
        live.texts(decided.policy).limits.iter().zip(decision.limits()).enumerate()
    {
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(texts.object.as_bytes());
        write_decimal(body, verdict.remaining());
        body.extend_from_slice(b",\"reset_after_ms\":");
        write_decimal(body, millis(verdict.reset_after()));
        body.push(b'}');
    }
    body.extend_from_slice(b"],\"shadow_denied\":[]");
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
    // The id is one of ours: hexadecimal digits.
    let text = format!(
        "{{\"id\":\"{id}\",\"policy\":\"{policy}\",\"held\":{held},\"cost\":{cost},\"charged\":{charged}}}"
    );
    reply.body.extend_from_slice(text.as_bytes());
}

/// The policies as the file says them, and which file that was.
pub(crate) fn policies(live: &Live, reply: &mut Reply) {
    reply.begin(200, JSON);
    let config = live.config();
    let text = format!("{{\"sha\":\"{}\",\"policies\":{}}}", config.source_sha(), config.policies_json());
    reply.body.extend_from_slice(text.as_bytes());
}

/// The query that asks a probe for more than a word.
pub(crate) const VERBOSE: &str = "verbose";

/// Whether the process runs, and for `/readyz` whether it is not about to end; with `?verbose` also what it is at
/// work with.
pub(crate) fn probe(app: &App, path: &str, query: Option<&str>, reply: &mut Reply) {
    let ends = path == "/readyz" && app.is_draining();
    reply.begin(if ends { 503 } else { 200 }, "text/plain; charset=utf-8");
    if path == "/readyz" && query == Some(VERBOSE) {
        reply.body.extend_from_slice(state(app, ends).as_bytes());
    } else {
        reply.body.extend_from_slice(if ends { b"draining\n" } else { b"ok\n" });
    }
    if ends {
        reply.number("retry-after", 1);
    }
}

/// Whether requests are taken, by which configuration, and what has become of the last reload if it failed.
fn state(app: &App, ends: bool) -> String {
    let live = app.live();
    let word = if ends { "draining" } else { "ready" };
    let (sha, since) = (live.config().source_sha(), instant(live.since()));
    let mut text = format!("{word}\nconfiguration {sha} since {since}\n");
    if let Some(refused) = app.refused() {
        text.push_str(&format!("last reload failed at {}\n", instant(refused.at)));
        for line in &refused.lines {
            text.push_str(&format!("  {line}\n"));
        }
    }
    text
}
