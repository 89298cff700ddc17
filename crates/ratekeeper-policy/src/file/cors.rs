//! `cors`: which web pages may ask from a browser.

use super::decode::{Decoder, Fields};
use super::fields;
use super::tree::{Node, Value};
use crate::cors::{Cors, MAX_ORIGINS};
use crate::fault::{Fault, code};
use crate::hints::shown;

const EXAMPLE: &str = "for example `allow_origins: [\"https://app.example\"]`";

impl Decoder<'_, '_> {
    pub(super) fn cors(&mut self, top: &Fields<'_>) -> Option<Cors> {
        let Some(entry) = top.get("cors") else { return Some(Cors::default()) };
        let cors = self.fields(&entry.value, "`cors`", &fields::CORS)?;
        if cors.lacks("allow_origins") {
            let fault = Fault::new(code::MISSING_FIELD, "`cors` names no `allow_origins`");
            self.report(&entry.value, fault.hint(EXAMPLE));
        }
        let node = &cors.get("allow_origins")?.value;
        let items = self.list(node, "`allow_origins`", || match &node.value {
            Value::Scalar { text, .. } => format!("write `[\"{}\"]`", shown(text)),
            _ => EXAMPLE.to_owned(),
        })?;
        if let Some(extra) = items.get(MAX_ORIGINS) {
            let message = format!("`allow_origins` has at most {MAX_ORIGINS} origins");
            self.report(extra, Fault::new(code::OUT_OF_RANGE, message));
            return None;
        }
        let mut origins: Vec<Box<str>> = Vec::new();
        let mut good = true;
        for item in items {
            match self.origin(item, &origins) {
                Some(origin) => origins.push(origin),
                None => good = false,
            }
        }
        good.then_some(Cors { origins })
    }

    fn origin(&mut self, node: &Node, before: &[Box<str>]) -> Option<Box<str>> {
        let text = self.word(node, "an origin", "`\"https://app.example\"`")?;
        if text != Cors::ANY && !Cors::is_origin(text) {
            let fault = Fault::new(code::BAD_ORIGIN, format!("`{}` is no origin of web pages", shown(text)));
            let hint = "scheme and host in lower case, a port if it is not the scheme's own, and no path: `https://app.example`; `\"*\"` is every page";
            self.report(node, fault.hint(hint));
            return None;
        }
        if before.iter().any(|other| &**other == text) {
            let fault = Fault::new(code::DUPLICATE_NAME, format!("`{}` is there twice", shown(text)));
            self.report(node, fault.hint("leave one out"));
            return None;
        }
        Some(text.into())
    }
}
