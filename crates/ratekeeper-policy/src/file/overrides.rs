//! `overrides`: what is different for some keys of a policy.

use std::collections::HashMap;

use ratekeeper_core::Name;

use super::decode::{Decoder, Fields};
use super::fields;
use super::policies::all_or_none;
use super::tree::{Entry, Node, Value};
use crate::client_ip::{Network, NetworkError, parse_address};
use crate::fault::{Fault, code};
use crate::glob::Glob;
use crate::hints::{did_you_mean, one_of, shown};
use crate::key::{Alternative, KeyPart, KeySpec};
use crate::options::Action;
use crate::overrides::{Act, KeyPattern, Numbers, Override, OverrideKey, Overrides};
use crate::policy::PolicyLimit;

/// Most overrides of a policy: as many as may be made for a while beside the file.
pub const MAX_OVERRIDES: usize = 10_000;

/// Most overrides of a policy that every request is held against: patterns that begin with `*`, and those of several
/// parts. The others are found by what they begin with.
const MAX_UNINDEXED: usize = 100;

const EXAMPLE: &str = "for example `- { key: \"partner-*\", limits: { minute: 3000/minute } }`";

/// The policy that overrides belong to.
pub(super) struct Of<'p> {
    pub(super) name: &'p Name,
    pub(super) key: Option<&'p KeySpec>,
    pub(super) limits: &'p [PolicyLimit],
    /// Whether it has others, which cannot be used and have been reported.
    pub(super) has_bad_limits: bool,
    /// What of an IPv6 address its counters tell apart.
    pub(super) ipv6_prefix: u8,
    /// The shortest window that its store can count.
    pub(super) min_window_us: u64,
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
        let mut slow =
            items.iter().zip(&list).filter(|(_, one)| one.as_ref().is_some_and(Override::is_unindexed));
        if let Some((extra, _)) = slow.nth(MAX_UNINDEXED) {
            let message = "a policy has at most 100 overrides that begin with `*` or have several parts";
            let fault = Fault::new(code::TOO_MANY_OVERRIDES, message);
            self.report(extra, fault.hint("begin patterns with what is known: those are found at once"));
            return None;
        }
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
        let place = fields.get("key").map_or(node, |entry| &entry.value);
        let first = *seen.entry(text.clone()).or_insert(node.span.start);
        if first != node.span.start {
            let line = self.errors.line(first);
            let fault = Fault::new(code::DUPLICATE_NAME, "this key has an override already");
            self.report(place, fault.hint(format!("the first, on line {line}, is the one that counts")));
            return None;
        }
        if let [KeyPattern::Address(network)] = key.parts.as_slice()
            && matches!(act, Some(Act::Limits(_)))
            && network.address().is_ipv6()
            && network.prefix_len() > of.ipv6_prefix
        {
            // Both would count in one counter, each by its own numbers.
            let prefix = of.ipv6_prefix;
            let message = format!("all addresses of a /{prefix} are one key, and this is a part of one");
            let fault = Fault::new(code::BAD_KEY, message);
            let hint =
                format!("write its /{prefix}, or raise `client_ip.ipv6_prefix`; an `action` can be for less");
            self.report(place, fault.hint(hint));
            return None;
        }
        let line = self.errors.line(node.span.start);
        Some(Override::new(key, text.into(), act?, line))
    }

    /// The keys meant, and how they are written.
    fn override_key(&mut self, node: &Node, spec: &KeySpec) -> Option<(OverrideKey, String)> {
        if let Value::List(items) = &node.value {
            return self.compound_key(node, items, spec);
        }
        let text = self.text(node, "`key`", "`key: \"partner-*\"`")?;
        let read = alternative_of(spec, text).and_then(|(place, part, value)| {
            Ok(OverrideKey { alternative: place, parts: vec![pattern_of(part, value)?] })
        });
        match read {
            Ok(key) => Some((key, text.to_owned())),
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
        whole
            .then(|| (OverrideKey { alternative: index, parts: patterns }, format!("[{}]", texts.join(", "))))
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
            if of.has_bad_limits {
                // It may be one of those; its numbers are looked at all the same.
                self.numbers_of(&entry.value);
                return None;
            }
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
        match numbers.of(of.name, base, of.min_window_us) {
            Ok(limit) => Some((place, limit)),
            Err((field, fault)) => {
                let place =
                    places.iter().find(|(name, _)| *name == field).map_or(&entry.value, |(_, node)| *node);
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

/// The alternative that an override's text is of, by its place, its only part, and the pattern: the one named before the
/// first `=`; else that of addresses for what looks like one; else the first of text.
fn alternative_of<'a>(spec: &'a KeySpec, text: &'a str) -> Result<(usize, &'a KeyPart, &'a str), Fault> {
    if let Some((place, alternative, value)) = spec.called(text) {
        return match alternative.parts() {
            [part] => Ok((place, part, value)),
            parts => Err(wrong_parts(parts.len())),
        };
    }
    if let Some((name, _)) = text.split_once('=')
        && KeyPart::parse(name).is_ok()
    {
        let fault = Fault::new(code::BAD_KEY, format!("the key {spec} has no alternative `{}`", shown(name)));
        let names = spec.alternatives().iter().map(Alternative::as_str);
        return Err(fault.hint(did_you_mean(name, names)));
    }
    let single = |(place, alternative): (usize, &'a Alternative)| match alternative.parts() {
        [KeyPart::Global] => None,
        [part] => Some((place, part)),
        _ => None,
    };
    let singles = || spec.alternatives().iter().enumerate().filter_map(single);
    let of_addresses = singles().find(|(_, part)| **part == KeyPart::Ip);
    let of_text = singles().find(|(_, part)| **part != KeyPart::Ip);
    let looks = looks_like(text);
    match (of_addresses, of_text) {
        (None, Some(_)) if looks == Looks::Network => {
            let fault =
                Fault::new(code::BAD_KEY, format!("this is a network, and the key {spec} has no `ip`"));
            Err(fault.hint("add `ip` to the key, or write the value that the key has"))
        }
        (Some(_), Some((_, part))) if looks == Looks::Range => {
            let fault = Fault::new(code::BAD_KEY, "this looks like addresses, and would be compared as text");
            Err(fault.hint(format!("write a network, `10.0.0.0/24`; for text, `{part}=PATTERN`")))
        }
        (Some((place, part)), Some(_)) if looks != Looks::Other => Ok((place, part, text)),
        (_, Some((place, part))) | (Some((place, part)), None) => Ok((place, part, text)),
        (None, None) => Err(wrong_parts(2)),
    }
}

/// What a text looks like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Looks {
    /// An address.
    Address,
    /// An address, and a `/` behind it.
    Network,
    /// Digits and dots with a `*` or a `-`: no address, but meant for several.
    Range,
    Other,
}

fn looks_like(text: &str) -> Looks {
    let (address, rest) = text.split_once('/').map_or((text, None), |(address, rest)| (address, Some(rest)));
    if parse_address(address).is_some() {
        return if rest.is_some() { Looks::Network } else { Looks::Address };
    }
    let of_addresses = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'*' | b'-');
    let dots = text.bytes().filter(|byte| *byte == b'.').count();
    if dots >= 2 && text.bytes().all(of_addresses) { Looks::Range } else { Looks::Other }
}

fn wrong_parts(parts: usize) -> Fault {
    Fault::new(code::BAD_KEY, "this key has several parts, and one text is given for them")
        .hint(format!("write a list of {parts}, for example `key: [\"tenant-1\", \"*\"]`"))
}
