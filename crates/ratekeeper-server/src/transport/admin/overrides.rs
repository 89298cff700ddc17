//! `/v1/overrides`: what is different for single keys for a while.

use std::borrow::Cow;
use std::time::Duration;

use ratekeeper_core::{Name, parse_duration};
use ratekeeper_policy::{Action, Applied, ExceptionError, Policy, canonical, nearest, thousands};
use ratekeeper_sim::hints::quoted;
use ratekeeper_sim::json::{Flaw, Object, TextOr};
use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};

use super::keys::find;
use crate::app::App;
use crate::digits::millis;
use crate::exceptions::{
    Entry, MAX_EXCEPTIONS, MAX_TTL, MIN_TTL, New, NotTaken, OwnNumbers, Which, Wish, meant,
};
use crate::live::Live;
use crate::telemetry::log::{Event, Excepted};
use crate::transport::http::{JSON, Problem, Reply};

const PATH: &str = "/v1/overrides";
const EXAMPLE: &str = r#"{"limits":{"minute":"3000/minute"},"ttl":"1h"}"#;
const LIMITS_EXAMPLE: &str = r#"{"minute":"3000/minute"}"#;

/// All of them.
#[derive(Serialize)]
struct List<'a> {
    overrides: Vec<One<'a>>,
}

/// One of them.
#[derive(Serialize)]
struct One<'a> {
    policy: &'a str,
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<Limits<'a>>,
    ttl_ms: u64,
}

/// Numbers by the names of limits.
struct Limits<'a>(&'a [(String, OwnNumbers)]);

impl Serialize for Limits<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, numbers) in self.0 {
            match numbers {
                OwnNumbers { limit: Some(limit), burst: None, queue: None, max_wait: None } => {
                    map.serialize_entry(name, limit)?;
                }
                numbers => map.serialize_entry(name, &Several(numbers))?,
            }
        }
        map.end()
    }
}

/// The numbers of one limit.
struct Several<'a>(&'a OwnNumbers);

impl Serialize for Several<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let OwnNumbers { limit, burst, queue, max_wait } = self.0;
        let mut map = serializer.serialize_map(None)?;
        for (name, text) in [("limit", limit), ("max_wait", max_wait)] {
            if let Some(text) = text {
                map.serialize_entry(name, text)?;
            }
        }
        for (name, number) in [("burst", burst), ("queue", queue)] {
            if let Some(number) = number {
                map.serialize_entry(name, number)?;
            }
        }
        map.end()
    }
}

impl<'a> One<'a> {
    fn of(app: &App, policy: &'a str, entry: &'a Entry) -> Self {
        let (action, limits) = match &entry.wish {
            Wish::Action(action) => (Some(action.name()), None),
            Wish::Limits(limits) => (None, Some(Limits(limits))),
        };
        let left = app.now().until(entry.until);
        Self { policy, key: &entry.key, action, limits, ttl_ms: millis(left) }
    }
}

/// Lists all, by policy and key.
pub(super) fn list(app: &App, reply: &mut Reply) {
    let said = app.said();
    let overrides = said.in_order().into_iter();
    let overrides = overrides.map(|(policy, entry)| One::of(app, policy.as_str(), entry)).collect();
    reply.begin(200, JSON);
    reply.json(&List { overrides });
}

/// Shows that of the key at the end of a path.
pub(super) fn show(app: &App, rest: &str, reply: &mut Reply) -> Result<(), Problem> {
    let said = app.said();
    let live = app.live_for_long();
    let (policy, key, _) = named(&live, rest)?;
    let which = which(policy, &key)?;
    let entry = said.get(&which).ok_or_else(Problem::unknown_override)?;
    reply.begin(200, JSON);
    reply.json(&One::of(app, policy.name().as_str(), entry));
    Ok(())
}

/// Makes something different for the key at the end of a path, in place of what was different before.
pub(super) fn put(app: &App, rest: &str, body: &[u8], reply: &mut Reply) -> Result<(), Problem> {
    let mut told = None;
    app.except(|live| {
        let (policy, key, index) = named(live, rest)?;
        let applied = meant(policy, &key).map_err(|wrong| Problem::bad_path(wrong.to_string()))?;
        let canonical = applied.key().map(|key| canonical(&key)).unwrap_or_default();
        let (wish, act, ttl) = read(body, policy, &applied).map_err(|flaws| Problem::bad_input(&flaws))?;
        drop(applied);
        told = Some((policy.name().clone(), key.clone(), wish.clone(), ttl));
        let until = app.now().saturating_add(ttl);
        Ok::<_, Problem>(New { policy: index, key, canonical, wish, act, until })
    })?;
    if let Some((policy, key, wish, ttl)) = told {
        let (what, value) = match &wish {
            Wish::Action(action) => ("action", action.name().to_owned()),
            Wish::Limits(limits) => ("limits", serde_json::to_string(&Limits(limits)).unwrap_or_default()),
        };
        tell(app, &policy, &key, Some((what, &value, ttl)));
    }
    reply.begin_empty(204);
    Ok(())
}

/// Ends what is different for the key at the end of a path.
pub(super) fn remove(app: &App, rest: &str, reply: &mut Reply) -> Result<(), Problem> {
    let mut told = None;
    let was_there = app.end_exception(|live| {
        let (policy, key, _) = named(live, rest)?;
        let which = which(policy, &key)?;
        told = Some((policy.name().clone(), key));
        Ok::<Which, Problem>(which)
    })?;
    if !was_there {
        return Err(Problem::unknown_override());
    }
    if let Some((policy, key)) = told {
        tell(app, &policy, &key, None);
    }
    reply.begin_empty(204);
    Ok(())
}

impl From<NotTaken> for Problem {
    fn from(wrong: NotTaken) -> Self {
        let detail = match wrong {
            NotTaken::Full => {
                let most = thousands(MAX_EXCEPTIONS as u64);
                format!(
                    "there are {most} temporary overrides: delete some, or say in the file what is to stay"
                )
            }
            NotTaken::Store(wrong) => format!("{wrong}; a restart forgets those that are not in use"),
        };
        Self::too_many_overrides(detail)
    }
}

/// The policy, the key and the number of the policy at the end of a path.
fn named<'l>(live: &'l Live, rest: &str) -> Result<(&'l Policy, String, usize), Problem> {
    let (index, policy, key) = find(live, rest, PATH)?;
    Ok((policy, key, index))
}

fn which(policy: &Policy, key: &str) -> Result<Which, Problem> {
    let applied = meant(policy, key).map_err(|wrong| Problem::bad_path(wrong.to_string()))?;
    let canonical = applied.key().map(|key| canonical(&key)).unwrap_or_default();
    Ok((policy.name().clone(), canonical))
}

/// Writes to the log that something is different for a key now, or is not any more.
fn tell(app: &App, policy: &Name, key: &str, says: Option<(&'static str, &str, Duration)>) {
    let live = app.live_for_long();
    let Some(of) = live.config().policy(policy.as_str()) else { return };
    let Ok(applied) = meant(of, key) else { return };
    let Some(key) = applied.key() else { return };
    let excepted = Excepted { policy: policy.as_str(), key, says };
    let is_set = says.is_some();
    let event = if is_set { Event::Override(excepted) } else { Event::OverrideRemoved(excepted) };
    live.log().event(&event);
}

/// Reads the body: what is to be different, what that comes to, and for how long.
fn read(
    body: &[u8],
    policy: &Policy,
    of: &Applied<'_>,
) -> Result<(Wish, ratekeeper_policy::Act, Duration), Vec<Flaw>> {
    if body.trim_ascii().is_empty() {
        let message = "the body is empty".to_owned();
        let hint = Some(format!("send for example {EXAMPLE}"));
        return Err(vec![Flaw { pointer: String::new(), at: 0, len: 1, message, hint }]);
    }
    let mut object = Object::parse(body).map_err(|flaw| vec![flaw])?;
    let limits = limits(&mut object);
    let action = object.text("action");
    let ttl = ttl(&mut object);
    let wish = match (object.has("action"), object.has("limits")) {
        (true, true) => {
            let hint = "say one of them".to_owned();
            object.wrong("action", "`action` and `limits` exclude each other".to_owned(), Some(hint));
            None
        }
        (false, false) => {
            let hint = format!("say `limits` or `action`, for example {EXAMPLE}");
            object.wrong("limits", "the override changes nothing".to_owned(), Some(hint));
            None
        }
        (true, false) => action.and_then(|typed| {
            let known = [Action::Block, Action::Bypass].into_iter().find(|action| action.name() == typed);
            if known.is_none() {
                let message = format!("`action` is `block` or `bypass`, not {}", quoted(&typed));
                let hint = nearest(&typed, ["block", "bypass"]).map(|name| format!("did you mean `{name}`?"));
                object.wrong("action", message, hint);
            }
            known.map(Wish::Action)
        }),
        (false, true) => Some(Wish::Limits(limits)),
    };
    let act = wish.as_ref().and_then(|wish| match wish.act(policy, of) {
        Ok(act) => Some(act),
        Err(wrong) => {
            wrong.into_iter().for_each(|wrong| tell_of(&mut object, wish, policy, wrong));
            None
        }
    });
    let places = object.finish()?;
    let (Some(wish), Some(act), Some(ttl)) = (wish, act, ttl) else {
        // Whatever is missing has been told above; should it not have been, nothing is taken all the same.
        return Err(vec![places.flaw("limits", "the override cannot be read".to_owned(), None)]);
    };
    Ok((wish, act, ttl))
}

fn ttl(object: &mut Object<'_>) -> Option<Duration> {
    let typed = object.text("ttl");
    if !object.has("ttl") {
        let message = "`ttl` is missing: for how long it holds".to_owned();
        object.wrong("ttl", message, Some("for example \"1h\"".to_owned()));
    }
    let typed = typed?;
    let ttl = parse_duration(&typed).ok().map(Duration::from_micros);
    let ttl = ttl.filter(|ttl| (MIN_TTL..=MAX_TTL).contains(ttl));
    if ttl.is_none() {
        let message = format!("`ttl` is a duration from 1s to 30d, not {}", quoted(&typed));
        object.wrong("ttl", message, Some("for example `90s`, `1h` or `7d`".to_owned()));
    }
    ttl
}

/// The numbers that are said for each limit.
fn limits(object: &mut Object<'_>) -> Vec<(String, OwnNumbers)> {
    let limits = object.texts_or_objects("limits", LIMITS_EXAMPLE, |numbers| {
        let read = OwnNumbers {
            limit: numbers.text("limit").map(Into::into),
            burst: numbers.whole("burst", u64::MAX),
            queue: numbers.whole("queue", u64::MAX),
            max_wait: numbers.text("max_wait").map(Into::into),
        };
        if !["limit", "burst", "queue", "max_wait"].iter().any(|name| numbers.has(name)) {
            let hint = "for example `\"limit\":\"30/s\"`".to_owned();
            numbers.wrong("limit", "nothing is different".to_owned(), Some(hint));
        }
        read
    });
    if limits.is_empty() && object.has("limits") && !object.is_flawed() {
        let hint = Some(format!("for example {LIMITS_EXAMPLE}"));
        object.wrong("limits", "`limits` names no limit".to_owned(), hint);
    }
    let numbers = |said| match said {
        TextOr::Text(limit) => OwnNumbers { limit: Some(Cow::into_owned(limit)), ..OwnNumbers::default() },
        TextOr::Object(numbers) => numbers,
    };
    limits.into_iter().map(|(name, said)| (name.into_owned(), numbers(said))).collect()
}

/// Says what a policy has against it, at its place.
fn tell_of(object: &mut Object<'_>, wish: &Wish, policy: &Policy, wrong: ExceptionError) {
    match wrong {
        ExceptionError::UnknownLimit(name) => {
            let own = policy.limits().iter().filter(|limit| limit.key.is_none());
            let names: Vec<&str> = own.map(|limit| limit.named.name().as_str()).collect();
            let hint = match nearest(&name, names.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if names.is_empty() => "it has none".to_owned(),
                None => format!("it has {}", names.join(", ")),
            };
            let message =
                format!("policy `{}` has no limit {} that counts by its key", policy.name(), quoted(&name));
            object.wrong_within("limits", &[&name], message, Some(hint));
        }
        ExceptionError::Numbers { limit, field, message, hint } => {
            let said = match wish {
                Wish::Limits(limits) => limits.iter().find(|(name, _)| *name == limit),
                Wish::Action(_) => None,
            };
            let is_text = said.is_none_or(|(_, numbers)| {
                matches!(numbers, OwnNumbers { limit: Some(_), burst: None, queue: None, max_wait: None })
            });
            let path: &[&str] = if is_text { &[&limit] } else { &[&limit, field] };
            object.wrong_within("limits", path, message, hint);
        }
    }
}
