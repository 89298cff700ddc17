//! `defaults`: what a policy has that does not say it itself; and `headers`, which both may say.

use ratekeeper_core::Name;

use super::decode::{Decoder, Fields};
use super::fields;
use super::stores::Stores;
use super::tree::{Node, Value};
use crate::fault::{Fault, code};
use crate::headers::{Headers, XRateLimit};
use crate::hints::{did_you_mean, shown};
use crate::options::OnStoreError;

const RATELIMIT: &str = "ratelimit";
const RETRY_AFTER: &str = "retry-after";
const X_RATELIMIT: &str = "x-ratelimit";
const X_RATELIMIT_DELTA: &str = "x-ratelimit-delta";
pub(super) const FIELDS: [&str; 4] = [RATELIMIT, RETRY_AFTER, X_RATELIMIT, X_RATELIMIT_DELTA];
const EXAMPLE: &str = "for example `headers: [ratelimit, retry-after]`";

/// What the policies of a file begin with.
#[derive(Default)]
pub(super) struct Defaults {
    pub(super) store: Option<Name>,
    /// A store may be meant, but it cannot be said which; that has been reported.
    pub(super) store_unclear: bool,
    pub(super) headers: Headers,
    pub(super) on_store_error: OnStoreError,
}

impl Decoder<'_, '_> {
    pub(super) fn defaults(&mut self, top: &Fields<'_>, stores: &Stores) -> Defaults {
        let unclear = |unclear| Defaults { store_unclear: unclear, ..Defaults::default() };
        let Some(entry) = top.get("defaults") else { return unclear(!top.lacks("defaults")) };
        let Some(defaults) = self.fields(&entry.value, "`defaults`", &fields::DEFAULTS) else {
            return unclear(true);
        };
        let store = self.store(&defaults, stores);
        let headers = self.header_options(&defaults, &Headers::default());
        let on_store_error = self.on_store_error(&defaults).flatten();
        Defaults {
            store_unclear: store.is_none() && !defaults.lacks("store"),
            store,
            headers: headers.unwrap_or_default(),
            on_store_error: on_store_error.unwrap_or_default(),
        }
    }

    /// The fields of a list, which may be empty.
    pub(super) fn headers(&mut self, node: &Node) -> Option<Headers> {
        let items = self.list(node, "`headers`", || match &node.value {
            Value::Scalar { text, .. } if FIELDS.contains(&text.as_str()) => format!("write `[{text}]`"),
            _ => EXAMPLE.to_owned(),
        })?;
        let mut seen: Vec<&str> = Vec::new();
        let mut good = true;
        for item in items {
            match self.header(item, &seen) {
                Some(name) => seen.push(name),
                None => good = false,
            }
        }
        let has = |name: &str| seen.contains(&name);
        let x_ratelimit = match (has(X_RATELIMIT), has(X_RATELIMIT_DELTA)) {
            (true, _) => XRateLimit::Unix,
            (_, true) => XRateLimit::Delta,
            _ => XRateLimit::Off,
        };
        good.then(|| Headers {
            ratelimit: has(RATELIMIT),
            retry_after: has(RETRY_AFTER),
            x_ratelimit,
            ..Headers::default()
        })
    }

    /// The name of a field that can stand beside those before it.
    fn header(&mut self, node: &Node, seen: &[&str]) -> Option<&'static str> {
        let text = self.word(node, "a header", "`ratelimit`")?;
        let Some(name) = FIELDS.into_iter().find(|name| *name == text) else {
            let fault = Fault::new(code::UNKNOWN_WORD, format!("`headers` has no `{}`", shown(text)));
            let hint = match text.to_ascii_lowercase().as_str() {
                "x-ratelimit-limit" | "x-ratelimit-remaining" | "x-ratelimit-reset" => {
                    format!("`{X_RATELIMIT}` stands for all three of them")
                }
                "ratelimit-policy" => format!("`{RATELIMIT}` stands for both of them"),
                _ => did_you_mean(text, FIELDS),
            };
            self.report(node, fault.hint(hint));
            return None;
        };
        if seen.contains(&name) {
            let fault = Fault::new(code::DUPLICATE_NAME, format!("`{name}` is there twice"));
            self.report(node, fault.hint("leave one out"));
            return None;
        }
        let both = [X_RATELIMIT, X_RATELIMIT_DELTA];
        if both.contains(&name) && seen.iter().any(|seen| both.contains(seen)) {
            let message = format!("`{X_RATELIMIT}` and `{X_RATELIMIT_DELTA}` exclude each other");
            let hint = "`X-RateLimit-Reset` is either a time or seconds to go";
            self.report(node, Fault::new(code::OPTIONS_EXCLUDE, message).hint(hint));
            return None;
        }
        Some(name)
    }
}
