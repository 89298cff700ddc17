//! `overrides`: what is different for some keys of a policy.

use std::collections::HashMap;

use ratekeeper_core::{LimitError, Name};

use super::decode::{Decoder, Fields};
use super::fields;
use super::policies::all_or_none;
use super::tree::{Entry, Node, Value};
use crate::client_ip::{Network, NetworkError, parse_address};
use crate::fault::{Fault, code};
use crate::glob::Glob;
use crate::hints::{did_you_mean, one_of, shown};
use crate::key::{Alternative, KeyPart, KeySpec};
use crate::limit::limit_fault;
use crate::options::Action;
use crate::overrides::{Act, KeyPattern, Numbers, Override, OverrideKey, Overrides};
use crate::policy::PolicyLimit;

/// Most overrides of a policy: as many as may be made for a while beside the file.
pub const MAX_OVERRIDES: usize = 10_000;

const EXAMPLE: &str = "for example `- { key: \"partner-*\", limits: { minute: 3000/minute } }`";

/// The policy that overrides belong to.
pub(super) struct Of<'p> {
    pub(super) name: &'p Name,
    pub(super) key: Option<&'p KeySpec>,
    pub(super) limits: &'p [PolicyLimit],
}

impl Decoder<'_, '_> {
    /// The overrides of a policy that is good so far; None, with the reasons reported, if one cannot be used.
    pub(super) fn overrides(&mut self, entry: &Entry, of: &Of<'_>) -> Option<Overrides> {
        let items = self.list(&entry.value, "`overrides`", || EXAMPLE.to_owned())?;
        if let Some(extra) = items.get(MAX_OVERRIDES) {
            let fault = Fault::new(code::TOO_MANY_OVERRIDES, "a policy has at most 10,000 overrides");
            self.report(extra, fault.hint("a pattern or a network stands for many keys"));
            return None;
        }
        let Some(spec) = of.key.filter(|spec| !spec.is_global()) else {
            let fault = Fault::new(
                code::OPTION_NEEDS,
                "overrides are of the policy's `key`, and it tells nobody apart",
            );
            self.errors.add(entry.key_span.clone(), fault.hint("for example `key: [header:x-api-key, ip]`"));
            return None;
        };
        let mut seen = HashMap::new();
        let list: Vec<Option<Override>> =
            items.iter().map(|item| self.one_override(item, of, spec, &mut seen)).collect();
        Some(Overrides::new(list.into_iter().collect::<Option<_>>()?))
    }

    fn one_override(
        &mut self,
        node: &Node,
        of: &Of<'_>,
        spec: &KeySpec,
        seen: &mut HashMap<String, usize>,
    ) -> Option<Override> {
        if self.errors.is_full() {
            return None;
        }
        let fields = self.fields(node, "an override", &fields::OVERRIDE)?;
        if fields.lacks("key") {
            let fault = Fault::new(code::MISSING_FIELD, "the override has no `key`: whom is it for?");
            self.report(node, fault.hint(EXAMPLE));
        }
        let key = fields.get("key").and_then(|entry| self.override_key(&entry.value, spec));
        let act = self.act(&fields, of);
        let (key, text) = key?;
        let line = self.errors.line(node.span.start);
        let first = *seen.entry(text.clone()).or_insert(line);
        if first != line {
            let fault = Fault::new(code::DUPLICATE_NAME, format!("two overrides are for `{}`", shown(&text)));
            let place = fields.get("key").map_or(node, |entry| &entry.value);
            self.report(place, fault.hint(format!("the first, on line {first}, is the one that counts")));
            return None;
        }
        Some(Override::new(key, text.into(), act?, line))
    }

    /// The keys meant, and how they are written.
    fn override_key(&mut self, node: &Node, spec: &KeySpec) -> Option<(OverrideKey, String)> {
        if let Value::List(items) = &node.value {
            return self.compound_key(node, items, spec);
        }
        let text = self.text(node, "`key`", "`key: \"partner-*\"`")?;
        let (alternative, pattern) = match spec.named(text) {
            Some((index, alternative, value)) if value.len() < text.len() => {
                (Some((index, alternative)), value)
            }
            _ => (None, text),
        };
        let read = match alternative {
            Some((_, alternative)) => match alternative.parts() {
                [part] => pattern_of(part, pattern),
                parts => Err(wrong_parts(parts.len())),
            },
            None => {
                let single = |alternative: &Alternative| match alternative.parts() {
                    [part] => Some(part.clone()),
                    _ => None,
                };
                let parts: Vec<KeyPart> = spec.alternatives().iter().filter_map(single).collect();
                match (parts.contains(&KeyPart::Ip), looks_like_a_network(pattern)) {
                    (true, true) => pattern_of(&KeyPart::Ip, pattern),
                    _ => match parts.iter().find(|part| !matches!(part, KeyPart::Ip | KeyPart::Global)) {
                        Some(part) => pattern_of(part, pattern),
                        None => match parts.contains(&KeyPart::Ip) {
                            true => pattern_of(&KeyPart::Ip, pattern),
                            false => Err(wrong_parts(2)),
                        },
                    },
                }
            }
        };
        match read {
            Ok(pattern) => {
                let alternative = alternative.map(|(index, _)| index);
                Some((OverrideKey { alternative, parts: vec![pattern] }, text.to_owned()))
            }
            Err(fault) => {
                self.report(node, fault);
                None
            }
        }
    }

    fn compound_key(&mut self, node: &Node, items: &[Node], spec: &KeySpec) -> Option<(OverrideKey, String)> {
        let fitting =
            spec.alternatives().iter().enumerate().find(|(_, other)| other.parts().len() == items.len());
        let Some((index, alternative)) = fitting.filter(|_| items.len() > 1) else {
            let message = format!("no alternative of the key {spec} has {} parts", items.len());
            let fault = Fault::new(code::BAD_KEY, message);
            self.report(node, fault.hint("one pattern for each part of an alternative, in its order"));
            return None;
        };
        let mut patterns = Vec::new();
        let mut texts = Vec::new();
        for (item, part) in items.iter().zip(alternative.parts()) {
            let Some(text) = self.text(item, "`key`", "`[\"tenant-1\", \"*\"]`") else { continue };
            texts.push(text);
            match pattern_of(part, text) {
                Ok(pattern) => patterns.push(pattern),
                Err(fault) => self.report(item, fault),
            }
        }
        let whole = patterns.len() == items.len();
        whole.then(|| {
            (OverrideKey { alternative: Some(index), parts: patterns }, format!("[{}]", texts.join(", ")))
        })
    }

    /// What is different: other numbers, or no limit at all.
    fn act(&mut self, fields: &Fields<'_>, of: &Of<'_>) -> Option<Act> {
        let action = fields.get("action").map(|entry| self.one_of(&entry.value, "action", &Action::WORDS));
        match (fields.get("limits"), action) {
            (Some(limits), Some(_)) => {
                let fault = Fault::new(code::OPTIONS_EXCLUDE, "`action` and `limits` exclude each other");
                self.errors.add(limits.key_span.clone(), fault.hint("an action asks no limit"));
                None
            }
            (None, Some(action)) => action.map(Act::Action),
            (None, None) => {
                if fields.lacks("limits") && fields.lacks("action") {
                    let fault = Fault::new(code::MISSING_FIELD, "the override changes nothing");
                    self.report(fields.node, fault.hint("say `limits: { … }` or `action: block | bypass`"));
                }
                None
            }
            (Some(limits), None) => self.other_limits(&limits.value, of).map(Act::Limits),
        }
    }

    fn other_limits(&mut self, node: &Node, of: &Of<'_>) -> Option<Vec<PolicyLimit>> {
        let example = || "for example `limits: { minute: 3000/minute }`".to_owned();
        let entries = self.map(node, "`limits` of an override", example)?;
        if entries.is_empty() {
            self.report(node, Fault::new(code::EMPTY, "`limits` names no limit").hint(example()));
            return None;
        }
        let mut limits = of.limits.to_vec();
        let mut good = true;
        for entry in entries {
            match self.other_limit(entry, of) {
                Some((place, limit)) => {
                    if let Some(old) = limits.get_mut(place) {
                        *old = limit;
                    }
                }
                None => good = false,
            }
        }
        good.then_some(limits)
    }

    fn other_limit(&mut self, entry: &Entry, of: &Of<'_>) -> Option<(usize, PolicyLimit)> {
        let found = of.limits.iter().enumerate().find(|(_, limit)| limit.name() == entry.key);
        let Some((place, base)) = found else {
            let message = format!("policy `{}` has no limit `{}`", of.name, shown(&entry.key));
            let names: Vec<&str> = of.limits.iter().map(PolicyLimit::name).collect();
            let fault = Fault::new(code::UNKNOWN_LIMIT, message);
            let hint = if names.is_empty() {
                "it has an action instead".to_owned()
            } else {
                did_you_mean(&entry.key, names)
            };
            self.errors.add(entry.key_span.clone(), fault.hint(hint));
            return None;
        };
        if let Some(own) = &base.key {
            let message = format!("limit `{}` counts by a key of its own, {own}", base.name());
            let fault = Fault::new(code::OPTIONS_EXCLUDE, message);
            let names: Vec<&str> =
                of.limits.iter().filter(|limit| limit.key.is_none()).map(PolicyLimit::name).collect();
            let hint = if names.is_empty() {
                "an override is of the policy's key".to_owned()
            } else {
                format!("an override changes {}", one_of(names))
            };
            self.errors.add(entry.key_span.clone(), fault.hint(hint));
            return None;
        }
        let (numbers, places) = self.numbers_of(&entry.value)?;
        match numbers.of(of.name, base) {
            Ok(limit) => Some((place, limit)),
            Err((field, wrong)) => {
                let place =
                    places.iter().find(|(name, _)| *name == field).map_or(&entry.value, |(_, node)| *node);
                let fault = match wrong {
                    LimitError::CalendarWindow => Fault::new(
                        code::CALENDAR_WINDOW,
                        "the windows of a calendar keep their length: only how many can change",
                    )
                    .hint("write the same unit as the limit has"),
                    wrong => limit_fault(wrong),
                };
                self.report(place, fault);
                None
            }
        }
    }

    /// `3000/minute`, or a mapping; with the places of what is said.
    fn numbers_of<'n>(&mut self, node: &'n Node) -> Option<(Numbers<'n>, Vec<(&'static str, &'n Node)>)> {
        if !matches!(node.value, Value::Map(_)) {
            let limit = self.word(node, "a limit", "`3000/minute`")?;
            return Some((Numbers { limit: Some(limit), ..Numbers::default() }, vec![("limit", node)]));
        }
        let fields = self.fields(node, "the numbers of an override", &fields::OVERRIDDEN)?;
        let limit = fields.get("limit").map(|entry| self.word(&entry.value, "`limit`", "`limit: 10/s`"));
        let burst = fields.get("burst").map(|entry| self.number(&entry.value, "burst", "`burst: 20`"));
        let queue = fields.get("queue").map(|entry| self.number(&entry.value, "queue", "`queue: 10`"));
        let max_wait =
            fields.get("max_wait").map(|entry| self.word(&entry.value, "`max_wait`", "`max_wait: 5s`"));
        let numbers = Numbers {
            limit: all_or_none(limit)?,
            burst: all_or_none(burst)?,
            queue: all_or_none(queue)?,
            max_wait: all_or_none(max_wait)?,
        };
        if numbers == Numbers::default() {
            if ["limit", "burst", "queue", "max_wait"].iter().all(|name| fields.lacks(name)) {
                self.report(
                    node,
                    Fault::new(code::EMPTY, "nothing is different").hint("for example `limit: 30/s`"),
                );
            }
            return None;
        }
        let places = ["limit", "burst", "queue", "max_wait"];
        let places = places.into_iter().filter_map(|name| Some((name, &fields.get(name)?.value))).collect();
        Some((numbers, places))
    }
}

/// The pattern of a part: networks for addresses, and text for all else.
fn pattern_of(part: &KeyPart, text: &str) -> Result<KeyPattern, Fault> {
    match part {
        KeyPart::Ip => Network::parse(text).map(KeyPattern::Address).map_err(NetworkError::into_fault),
        _ => Glob::parse(text).map(KeyPattern::Text),
    }
}

/// Whether a text means an address or a network, even if it gets it wrong.
fn looks_like_a_network(text: &str) -> bool {
    let address = text.split_once('/').map_or(text, |(address, _)| address);
    parse_address(address).is_some()
}

fn wrong_parts(parts: usize) -> Fault {
    Fault::new(code::BAD_KEY, "this key has several parts, and one text is given for them")
        .hint(format!("write a list of {parts}, for example `key: [\"tenant-1\", \"*\"]`"))
}
