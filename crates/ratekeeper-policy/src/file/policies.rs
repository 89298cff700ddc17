//! The `policies` of the file.

use core::ops::Range;
use std::collections::HashMap;

use ratekeeper_core::{MAX_LIMITS, Name};

use super::decode::{Decoder, Fields};
use super::defaults::Defaults;
use super::fields;
use super::overrides::Of;
use super::relations::{self, Places};
use super::scalar::Kind;
use super::stores::Stores;
use super::tree::{Entry, Node, Value};
use super::warnings;
use crate::fault::{Fault, code};
use crate::hints::shown;
use crate::key::{Alternative, KeyPart, KeySpec, MAX_ALTERNATIVES};
use crate::limit::{At, BuiltLimit, Given, LimitWords, Zones, window_fault};
use crate::options::OnExcess;
use crate::policy::{Policy, PolicyLimit};
use crate::stores::StoreConfig;

/// Most policies: more are generated, and want a table of another kind.
pub const MAX_POLICIES: usize = 10_000;

const POLICY_EXAMPLE: &str = "for example `- { name: api, key: [ip], limits: [...] }`";
const LIMIT_EXAMPLE: &str = "for example `limits: [{ name: burst, algorithm: gcra, limit: 10/s }]`";
const KEY_EXAMPLE: &str = "for example `key: [header:x-api-key, ip]`";

/// All policies that can be used; what is wrong with the others is reported.
pub(super) fn policies(
    decoder: &mut Decoder<'_, '_>,
    top: &Fields<'_>,
    stores: &Stores,
    defaults: &Defaults,
    ipv6_prefix: u8,
) -> Vec<Policy> {
    let Some(entry) = top.get("policies") else { return Vec::new() };
    let example = || POLICY_EXAMPLE.to_owned();
    let Some(items) = decoder.list(&entry.value, "`policies`", example) else { return Vec::new() };
    if let Some(extra) = items.get(MAX_POLICIES) {
        decoder.report(extra, Fault::new(code::TOO_MANY_POLICIES, "a file has at most 10,000 policies"));
    }
    let mut reader = Reader {
        decoder,
        stores,
        defaults,
        ipv6_prefix,
        min_window_us: 1,
        zones: Zones::default(),
        names: HashMap::new(),
    };
    let policies: Vec<_> = items.iter().take(MAX_POLICIES).filter_map(|item| reader.policy(item)).collect();
    let Reader { names, decoder, .. } = reader;
    relations::check(&policies, &names, decoder.errors);
    warnings::warn(&policies, stores, decoder.errors);
    policies.into_iter().map(|(policy, _)| policy).collect()
}

/// How many policies and limits a file has, as far as it can be told whether they are right or wrong.
pub(super) fn counts(root: &Node) -> (Option<usize>, Option<usize>) {
    let Value::Map(_) = &root.value else { return (None, None) };
    let Some(policies) = root.field("policies") else { return (Some(0), Some(0)) };
    let Value::List(policies) = &policies.value else { return (None, None) };
    let limits = policies.iter().map(|policy| match &policy.field("limits")?.value {
        Value::List(limits) => Some(limits.len()),
        _ => None,
    });
    (Some(policies.len()), limits.sum())
}

struct Reader<'r, 'e, 't> {
    decoder: &'r mut Decoder<'e, 't>,
    stores: &'r Stores,
    defaults: &'r Defaults,
    ipv6_prefix: u8,
    /// The shortest window that the store of the policy at hand can count.
    min_window_us: u64,
    zones: Zones,
    /// Policies so far, and where their names are.
    names: HashMap<Name, usize>,
}

/// A limit before its policy is known to be good.
struct Draft {
    name: Name,
    built: BuiltLimit,
    key: Option<KeySpec>,
}

impl Reader<'_, '_, '_> {
    fn policy(&mut self, node: &Node) -> Option<(Policy, Places)> {
        if self.decoder.errors.is_full() {
            return None;
        }
        let policy = self.decoder.fields(node, "a policy", &fields::POLICY)?;
        let name = self.policy_name(&policy);
        let store = self.policy_store(&policy);
        self.min_window_us =
            store.as_ref().and_then(|name| self.stores.get(name)).map_or(1, StoreConfig::min_window_us);
        let matches = policy.get("match").map(|entry| self.decoder.matching(&entry.value));
        if let Some(Some(conditions)) = &matches {
            let own = policy.get("key").map(|entry| &entry.value);
            let of_limits = policy.get("limits").into_iter().flat_map(|entry| match &entry.value.value {
                Value::List(items) => {
                    items.iter().take(MAX_LIMITS).filter_map(|item| item.field("key")).collect()
                }
                _ => Vec::new(),
            });
            own.into_iter().chain(of_limits).for_each(|key| self.decoder.path_ids(key, conditions));
        }
        let key = policy.get("key").map(|entry| self.key(&entry.value));
        let options = self.decoder.options(&policy, self.defaults);
        let limits = self.limits(&policy);
        let keyed = !policy.lacks("key");
        let keyless = limits.iter().flatten().any(|limit| limit.as_ref().is_some_and(|l| l.key.is_none()));
        if !keyed && keyless {
            let fault = Fault::new(code::MISSING_FIELD, "`key` is missing: by what are requests told apart?");
            self.decoder.report(node, fault.hint(format!("{KEY_EXAMPLE}; `[global]` counts all together")));
        }
        let key = all_or_none(key);
        let name = name?;
        let has_bad_limits = limits.as_ref().is_none_or(|limits| limits.iter().any(Option::is_none));
        let limits = limits.into_iter().flatten().flatten();
        let limits = limits.map(|draft| PolicyLimit::new(&name, draft.name, draft.built, draft.key));
        let drains = options.as_ref().is_some_and(|options| options.on_excess == OnExcess::Drain);
        let limits: Vec<PolicyLimit> =
            limits.map(|limit| if drains { limit.draining() } else { limit }).collect();
        // Overrides are looked at also where a limit is wrong: all mistakes are said at once.
        let overrides = policy.get("overrides").zip(key.as_ref()).map(|(entry, key)| {
            let ipv6_prefix = self.ipv6_prefix;
            let (key, min_window_us) = (key.as_ref(), self.min_window_us);
            let of = Of { name: &name, key, limits: &limits, has_bad_limits, ipv6_prefix, min_window_us };
            self.decoder.overrides(entry, &of)
        });
        let (matches, key) = (all_or_none(matches)?, key?);
        let (store, options) = (store?, options?);
        let overrides = all_or_none(overrides)?.unwrap_or_default();
        if has_bad_limits {
            return None;
        }
        let line = self.decoder.errors.line(node.span.start);
        let places = Places {
            name: policy.get("name").map_or_else(|| node.mark(), |entry| entry.value.span.clone()),
            replaces: policy.get("replaces").map_or_else(Vec::new, |entry| spans(&entry.value)),
            cost: policy.get("cost").map(|entry| cost_span(&entry.value)),
            key: policy.get("key").map(|entry| entry.value.mark()),
            says_missing_key: !policy.lacks("missing_key"),
        };
        let policy = Policy::new(name, store, key, limits).with_match(matches).with_options(options);
        let policy = policy.with_overrides(overrides).with_min_window_us(self.min_window_us);
        Some((policy.on_line(line), places))
    }

    fn policy_name(&mut self, policy: &Fields<'_>) -> Option<Name> {
        if policy.lacks("name") {
            let fault = Fault::new(code::MISSING_FIELD, "the policy has no `name`");
            self.decoder.report(policy.node, fault.hint("for example `name: api`"));
        }
        let node = &policy.get("name")?.value;
        let name = self.decoder.name(node, "the name of a policy")?;
        if let Some(first) = self.names.get(&name) {
            let fault = Fault::new(code::DUPLICATE_NAME, format!("two policies are called `{name}`"));
            let line = self.decoder.errors.line(*first);
            self.decoder.report(node, fault.hint(format!("the first is on line {line}")));
        } else {
            self.names.insert(name.clone(), node.span.start);
        }
        Some(name)
    }

    fn policy_store(&mut self, policy: &Fields<'_>) -> Option<Name> {
        if !policy.lacks("store") {
            return self.decoder.store(policy, self.stores);
        }
        if let Some(default) = &self.defaults.store {
            return Some(default.clone());
        }
        let Stores::Known(stores) = self.stores else { return None };
        if let [only] = stores.as_slice() {
            return Some(only.name.clone());
        }
        if !self.defaults.store_unclear {
            let message = format!("the policy names no store, and there are {}", stores.len());
            let fault = Fault::new(code::STORE_REQUIRED, message);
            let first = stores.first().map_or("", |store| store.name.as_str());
            let hint = format!("add `store: {first}`, or `defaults: {{ store: {first} }}` for all");
            let place =
                policy.get("name").map_or_else(|| policy.node.mark(), |entry| entry.value.span.clone());
            self.decoder.errors.add(place, fault.hint(hint));
        }
        None
    }

    /// None for each limit that cannot be used; None in all if there is no list of them.
    fn limits(&mut self, policy: &Fields<'_>) -> Option<Vec<Option<Draft>>> {
        let has_action = !policy.lacks("action");
        match policy.get("limits") {
            Some(limits) if has_action => {
                let fault = Fault::new(code::OPTIONS_EXCLUDE, "`action` and `limits` exclude each other");
                self.decoder.errors.add(limits.key_span.clone(), fault.hint("an action asks no limit"));
            }
            None if has_action => return Some(Vec::new()),
            None if policy.lacks("limits") => {
                let fault = Fault::new(code::MISSING_FIELD, "the policy has no `limits`");
                let hint = "; `action: bypass` lets all pass, `action: block` none";
                self.decoder.report(policy.node, fault.hint(format!("{LIMIT_EXAMPLE}{hint}")));
            }
            _ => {}
        }
        let node = &policy.get("limits")?.value;
        let items = self.decoder.list(node, "`limits`", || LIMIT_EXAMPLE.to_owned())?;
        if items.is_empty() {
            let fault = Fault::new(code::EMPTY, "`limits` is empty");
            self.decoder.report(node, fault.hint(LIMIT_EXAMPLE));
            return None;
        }
        if let Some(extra) = items.get(MAX_LIMITS) {
            let fault = Fault::new(code::TOO_MANY_LIMITS, "a policy has at most 16 limits");
            self.decoder.report(extra, fault.hint("all limits of a request are decided together"));
        }
        let mut names = HashMap::new();
        let mut queue = None;
        Some(items.iter().take(MAX_LIMITS).map(|item| self.limit(item, &mut names, &mut queue)).collect())
    }

    fn limit(
        &mut self,
        node: &Node,
        names: &mut HashMap<Name, usize>,
        queue: &mut Option<usize>,
    ) -> Option<Draft> {
        let limit = self.decoder.fields(node, "a limit", &fields::LIMIT)?;
        let name = self.limit_name(&limit, names);
        self.second_queue(&limit, queue);
        let built = self.numbers(&limit);
        let key = limit.get("key").map(|entry| self.key(&entry.value));
        Some(Draft { name: name?, built: built?, key: all_or_none(key)? })
    }

    fn limit_name(&mut self, limit: &Fields<'_>, names: &mut HashMap<Name, usize>) -> Option<Name> {
        if limit.lacks("name") {
            let fault = Fault::new(code::MISSING_FIELD, "the limit has no `name`");
            self.decoder.report(limit.node, fault.hint("for example `name: burst`"));
        }
        let node = &limit.get("name")?.value;
        let name = self.decoder.name(node, "the name of a limit")?;
        if let Some(first) = names.get(&name) {
            let fault =
                Fault::new(code::DUPLICATE_NAME, format!("two limits of the policy are called `{name}`"));
            let line = self.decoder.errors.line(*first);
            self.decoder.report(node, fault.hint(format!("the first is on line {line}")));
            return None;
        }
        names.insert(name.clone(), node.span.start);
        Some(name)
    }

    /// A request starts at one time: two queues could not agree on it.
    fn second_queue(&mut self, limit: &Fields<'_>, queue: &mut Option<usize>) {
        let Some(entry) = limit.get("queue") else { return };
        match *queue {
            None => *queue = Some(entry.key_span.start),
            Some(first) => {
                let fault = Fault::new(code::TWO_QUEUES, "a policy has at most one queue");
                let line = self.decoder.errors.line(first);
                let hint = format!("the first is on line {line}; the others can refuse with `burst`");
                self.decoder.errors.add(entry.key_span.clone(), fault.hint(hint));
            }
        }
    }

    /// The limit without its name and key.
    fn numbers(&mut self, limit: &Fields<'_>) -> Option<BuiltLimit> {
        let words = LimitWords {
            algorithm: self.given(limit, "algorithm", "`algorithm: gcra`"),
            limit: self.given(limit, "limit", "`limit: 10/s`"),
            burst: self.given_number(limit, "burst", "`burst: 20`"),
            queue: self.given_number(limit, "queue", "`queue: 10`"),
            max_wait: self.given(limit, "max_wait", "`max_wait: 5s`"),
            align: self.given(limit, "align", "`align: epoch`"),
            timezone: self.given(limit, "timezone", "`timezone: Europe/Paris`"),
        };
        let faults = match words.build(&mut self.zones) {
            // What cannot be used has been reported.
            Ok(built) => {
                let fault = window_fault(built.limit.spec().window_us, self.min_window_us);
                let good = fault.is_none() && words.is_whole();
                if let Some((entry, fault)) = limit.get("limit").zip(fault) {
                    self.decoder.report(&entry.value, fault);
                }
                return good.then_some(built);
            }
            Err(faults) => faults,
        };
        for fault in faults {
            match (limit.get(fault.field), fault.at) {
                (Some(entry), At::Name) => self.decoder.errors.add(entry.key_span.clone(), fault.fault),
                (Some(entry), At::Value) => self.decoder.report(&entry.value, fault.fault),
                (_, At::Missing) => self.decoder.report(limit.node, fault.fault),
                // About an option that is misspelt, which is enough to say.
                (None, _) => {}
            }
        }
        None
    }

    fn given<'n>(&mut self, limit: &Fields<'n>, name: &str, example: &str) -> Given<'n> {
        self.read(limit, name, |decoder, node| decoder.word(node, &format!("`{name}`"), example))
    }

    fn given_number<'n>(&mut self, limit: &Fields<'n>, name: &str, example: &str) -> Given<'n> {
        self.read(limit, name, |decoder, node| decoder.digits(node, name, example))
    }

    fn read<'n>(
        &mut self,
        limit: &Fields<'n>,
        name: &str,
        read: impl FnOnce(&mut Decoder<'_, '_>, &'n Node) -> Option<&'n str>,
    ) -> Given<'n> {
        match limit.get(name) {
            Some(entry) => read(self.decoder, &entry.value).map_or(Given::Unusable, Given::Text),
            None if limit.lacks(name) => Given::Absent,
            // Misspelt, which has been reported.
            None => Given::Unusable,
        }
    }

    fn key(&mut self, node: &Node) -> Option<KeySpec> {
        let items = self.decoder.list(node, "`key`", || match &node.value {
            Value::Scalar { text, .. } if KeyPart::parse(text).is_ok() => format!("write `[{text}]`"),
            _ => KEY_EXAMPLE.to_owned(),
        })?;
        if !self.count(node, items, "`key`", "alternatives") {
            return None;
        }
        let mut alternatives: Vec<Alternative> = Vec::new();
        let mut good = true;
        for item in items {
            let Some(alternative) = self.alternative(item) else {
                good = false;
                continue;
            };
            if let Some(fault) = unreachable(&alternatives, &alternative) {
                self.decoder.report(item, fault);
                good = false;
            }
            alternatives.push(alternative);
        }
        good.then(|| KeySpec::new(alternatives).with_ipv6_prefix(self.ipv6_prefix))
    }

    /// Whether a list has 1 to [`MAX_ALTERNATIVES`] items.
    fn count(&mut self, node: &Node, items: &[Node], what: &str, of: &str) -> bool {
        if items.is_empty() {
            let fault = Fault::new(code::EMPTY, format!("{what} is empty"));
            self.decoder.report(node, fault.hint(format!("{KEY_EXAMPLE}; `[global]` counts all together")));
        } else if let Some(extra) = items.get(MAX_ALTERNATIVES) {
            let fault = Fault::new(code::BAD_KEY, format!("{what} has at most {MAX_ALTERNATIVES} {of}"));
            self.decoder.report(extra, fault);
        }
        (1..=MAX_ALTERNATIVES).contains(&items.len())
    }

    fn alternative(&mut self, node: &Node) -> Option<Alternative> {
        let Value::List(items) = &node.value else {
            return Some(Alternative::new(vec![self.part(node)?]));
        };
        if !self.count(node, items, "a compound key", "parts") {
            return None;
        }
        let mut parts = Vec::new();
        let mut good = true;
        for item in items {
            let Some(part) = self.part(item) else {
                good = false;
                continue;
            };
            if part == KeyPart::Global && items.len() > 1 {
                let fault = Fault::new(code::BAD_KEY, "`global` tells nobody apart");
                self.decoder.report(item, fault.hint("leave it out of a compound key"));
                good = false;
            }
            if parts.contains(&part) {
                let fault = Fault::new(code::BAD_KEY, format!("`{part}` is there twice"));
                self.decoder.report(item, fault.hint("leave one out"));
                good = false;
            }
            parts.push(part);
        }
        good.then(|| Alternative::new(parts))
    }

    fn part(&mut self, node: &Node) -> Option<KeyPart> {
        // `header: x` with a space is a mapping to YAML.
        if let Value::Map(entries) = &node.value
            && let [Entry { key, value: Node { value: Value::Scalar { text, .. }, .. }, .. }] =
                entries.as_slice()
        {
            // `header:` without a name too.
            if Kind::of(text) == Kind::Null
                && let Err(fault) = KeyPart::parse(&format!("{key}:"))
            {
                self.decoder.report(node, fault);
                return None;
            }
            let fault = Fault::new(code::WRONG_TYPE, "a kind of key is text, not a mapping");
            let hint = format!("write `{}:{}` without a space", shown(key), shown(text));
            self.decoder.errors.add(node.span.clone(), fault.hint(hint));
            return None;
        }
        let text = self.decoder.text(node, "a kind of key", "`ip` or `header:x-api-key`")?;
        KeyPart::parse(text).map_err(|fault| self.decoder.report(node, fault)).ok()
    }
}

/// The places of the items of a list.
fn spans(node: &Node) -> Vec<Range<usize>> {
    if let Value::List(items) = &node.value {
        items.iter().map(|item| item.span.clone()).collect()
    } else {
        Vec::new()
    }
}

/// The place of the largest cost that can be.
fn cost_span(node: &Node) -> Range<usize> {
    node.field("max").map_or_else(|| node.mark(), |max| max.span.clone())
}

/// Something that may be absent but not wrong.
pub(super) fn all_or_none<T>(given: Option<Option<T>>) -> Option<Option<T>> {
    match given {
        Some(Some(good)) => Some(Some(good)),
        Some(None) => None,
        None => Some(None),
    }
}

/// Why an alternative would never be used after those before it.
fn unreachable(before: &[Alternative], alternative: &Alternative) -> Option<Fault> {
    if before.contains(alternative) {
        let fault = Fault::new(code::UNREACHABLE_KEY, format!("`{}` is there twice", alternative.as_str()));
        return Some(fault.hint("leave one out"));
    }
    let global = |alternative: &Alternative| alternative.parts() == [KeyPart::Global];
    before.iter().any(global).then(|| {
        let fault =
            Fault::new(code::UNREACHABLE_KEY, "nothing comes after `global`, which is always present");
        fault.hint("write `global` last, or alone")
    })
}
