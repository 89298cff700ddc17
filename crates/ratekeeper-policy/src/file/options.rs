//! What a policy says beside its limits.

use ratekeeper_core::Name;

use super::decode::{Decoder, Fields};
use super::defaults::Defaults;
use super::fields;
use super::policies::all_or_none;
use super::tree::{Node, Value};
use crate::fault::{Fault, code};
use crate::headers::{Dialect, Headers};
use crate::hints::shown;
use crate::jitter::Jitter;
use crate::key::KeyPart;
use crate::options::{Action, CostSpec, MissingKey, Mode, OnExcess, OnStoreError, Options};

const COST_EXAMPLE: &str = "for example `cost: 5` or `cost: { header: x-cost, max: 100 }`";
const JITTER_EXAMPLE: &str = "`retry_jitter: 0.2`";

impl Decoder<'_, '_> {
    /// The options of a policy; None, with the reasons reported, if one of them cannot be used.
    pub(super) fn options(&mut self, policy: &Fields<'_>, defaults: &Defaults) -> Option<Options> {
        let mode = policy.get("mode").map(|entry| self.one_of(&entry.value, "mode", &Mode::WORDS));
        let action = policy.get("action").map(|entry| self.one_of(&entry.value, "action", &Action::WORDS));
        let group = policy.get("group").map(|entry| self.name(&entry.value, "the name of a group"));
        let replaces = policy.get("replaces").map(|entry| self.replaces(&entry.value));
        let missing_key = policy
            .get("missing_key")
            .map(|entry| self.one_of(&entry.value, "missing_key", &MissingKey::WORDS));
        let cost = policy.get("cost").map(|entry| self.cost(&entry.value));
        let on_excess =
            policy.get("on_excess").map(|entry| self.one_of(&entry.value, "on_excess", &OnExcess::WORDS));
        let on_store_error = self.on_store_error(policy);
        let headers = self.header_options(policy, &defaults.headers);
        let action = all_or_none(action)?;
        // What blocks or lets pass whatever fits does so for those without a key too, unless the file says otherwise.
        let without_key = if action.is_some() { MissingKey::Shared } else { MissingKey::default() };
        Some(Options {
            mode: all_or_none(mode)?.unwrap_or_default(),
            action,
            group: all_or_none(group)?,
            replaces: all_or_none(replaces)?.unwrap_or_default(),
            missing_key: all_or_none(missing_key)?.unwrap_or(without_key),
            cost: all_or_none(cost)?.unwrap_or_default(),
            on_excess: all_or_none(on_excess)?.unwrap_or_default(),
            on_store_error: on_store_error?.unwrap_or(defaults.on_store_error),
            headers: headers?,
        })
    }

    /// None if it is wrong, `Some(None)` if it is not there.
    pub(super) fn on_store_error(&mut self, fields: &Fields<'_>) -> Option<Option<OnStoreError>> {
        let read = fields
            .get("on_store_error")
            .map(|entry| self.one_of(&entry.value, "on_store_error", &OnStoreError::WORDS));
        all_or_none(read)
    }

    /// What is told of the limits, where it differs from `default`.
    pub(super) fn header_options(&mut self, fields: &Fields<'_>, default: &Headers) -> Option<Headers> {
        let headers = fields.get("headers").map(|entry| self.headers(&entry.value));
        let dialect = fields
            .get("ratelimit_dialect")
            .map(|entry| self.one_of(&entry.value, "ratelimit_dialect", &Dialect::WORDS));
        let jitter = fields.get("retry_jitter").map(|entry| self.jitter(&entry.value));
        let headers = all_or_none(headers)?.unwrap_or(*default);
        Some(Headers {
            dialect: all_or_none(dialect)?.unwrap_or(default.dialect),
            retry_jitter: all_or_none(jitter)?.unwrap_or(default.retry_jitter),
            ..headers
        })
    }

    fn jitter(&mut self, node: &Node) -> Option<Jitter> {
        let text = self.digits(node, "retry_jitter", JITTER_EXAMPLE)?;
        let jitter = Jitter::parse(text);
        if jitter.is_none() {
            let message = "`retry_jitter` is a share from 0 to 1 with at most three places";
            let fault = Fault::new(code::OUT_OF_RANGE, message);
            self.report(node, fault.hint(format!("for example {JITTER_EXAMPLE}: up to a fifth is added")));
        }
        jitter
    }

    /// Whether the policies exist is looked at when all are known.
    fn replaces(&mut self, node: &Node) -> Option<Vec<Name>> {
        let items = self.list(node, "`replaces`", || match &node.value {
            Value::Scalar { text, .. } => format!("write `[{}]`", shown(text)),
            _ => "for example `replaces: [api]`".to_owned(),
        })?;
        if items.is_empty() {
            let fault = Fault::new(code::EMPTY, "`replaces` names no policy");
            self.report(node, fault.hint("leave it out"));
            return None;
        }
        let names: Vec<Option<Name>> =
            items.iter().map(|item| self.name(item, "the name of a policy")).collect();
        names.into_iter().collect()
    }

    fn cost(&mut self, node: &Node) -> Option<CostSpec> {
        if !matches!(node.value, Value::Map(_)) {
            let cost = self.number(node, "cost", "`cost: 5`")?;
            return self.at_least_one(node, "cost", cost).map(CostSpec::Constant);
        }
        let fields = self.fields(node, "`cost`", &fields::COST)?;
        let name = self.cost_header(&fields);
        let default = fields.get("default").map(|entry| {
            let number = self.number(&entry.value, "default", "`default: 1`")?;
            self.at_least_one(&entry.value, "default", number)
        });
        let max = self.cost_max(&fields);
        let (name, max, default) = (name?, max?, all_or_none(default)?.unwrap_or(1));
        if default > max {
            let fault = Fault::new(code::OUT_OF_RANGE, "`default` is larger than `max`");
            self.report(fields.get("default").map_or(node, |entry| &entry.value), fault.hint("raise `max`"));
            return None;
        }
        Some(CostSpec::Header { name, default, max })
    }

    fn cost_header(&mut self, cost: &Fields<'_>) -> Option<Box<str>> {
        if cost.lacks("header") {
            let fault = Fault::new(code::MISSING_FIELD, "`cost` says neither a number nor a `header`");
            self.report(cost.node, fault.hint(COST_EXAMPLE));
        }
        let node = &cost.get("header")?.value;
        let text = self.text(node, "`header`", "`header: x-cost`")?;
        match KeyPart::parse(&format!("header:{text}")) {
            Ok(KeyPart::Header(name)) => Some(name),
            Ok(_) => None,
            Err(fault) => {
                self.report(node, fault);
                None
            }
        }
    }

    /// Without a bound whoever asks could use up everything at once.
    fn cost_max(&mut self, cost: &Fields<'_>) -> Option<u64> {
        if cost.lacks("max") {
            let fault = Fault::new(code::MISSING_FIELD, "a cost that clients name needs a `max`");
            self.report(
                cost.node,
                fault.hint("for example `max: 100`, at most every capacity of the policy"),
            );
        }
        let node = &cost.get("max")?.value;
        let max = self.number(node, "max", "`max: 100`")?;
        self.at_least_one(node, "max", max)
    }

    fn at_least_one(&mut self, node: &Node, name: &str, number: u64) -> Option<u64> {
        if number == 0 {
            let fault = Fault::new(code::OUT_OF_RANGE, format!("`{name}` is at least 1"));
            self.report(node, fault.hint("a request that costs nothing is `action: bypass`"));
            return None;
        }
        Some(number)
    }
}
