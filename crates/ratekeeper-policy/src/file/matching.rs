//! The `match` of a policy.

use super::decode::Decoder;
use super::fields;
use super::policies::all_or_none;
use super::tree::{Entry, Node, Value};
use crate::fault::{Fault, code};
use crate::glob::Glob;
use crate::hints::{did_you_mean, shown};
use crate::key::{KeyPart, header_name};
use crate::matcher::{MAX_MATCH_HEADERS, MAX_METHOD_BYTES, MAX_METHODS, Match};
use crate::path::PathPattern;

impl Decoder<'_, '_> {
    /// The conditions of a policy.
    pub(super) fn matching(&mut self, node: &Node) -> Option<Match> {
        if matches!(&node.value, Value::Map(entries) if entries.is_empty()) {
            let fault = Fault::new(code::EMPTY, "`match` is empty");
            self.report(node, fault.hint("leave it out for a policy that applies to every request"));
            return None;
        }
        let fields = self.fields(node, "`match`", &fields::MATCH)?;
        let methods = fields.get("method").map(|entry| self.methods(&entry.value));
        let path = fields.get("path").map(|entry| {
            let text = self.text(&entry.value, "`path`", "`path: \"/api/**\"`")?;
            self.pattern(&entry.value, PathPattern::parse(text))
        });
        let host = fields.get("host").map(|entry| {
            let text = self.text(&entry.value, "`host`", "`host: \"*.example.com\"`")?;
            self.pattern(&entry.value, Glob::parse_host(text))
        });
        let headers = fields.get("headers").map(|entry| self.match_headers(&entry.value));
        Some(Match {
            methods: all_or_none(methods)?.unwrap_or_default(),
            path: all_or_none(path)?,
            host: all_or_none(host)?,
            headers: all_or_none(headers)?.unwrap_or_default(),
        })
    }

    /// Reports the parts of a key that name a segment which the path of the match has not: no request would have them.
    pub(super) fn path_ids(&mut self, key: &Node, conditions: &Match) {
        let text = match &key.value {
            Value::List(items) => return items.iter().for_each(|item| self.path_ids(item, conditions)),
            Value::Scalar { text, .. } => text,
            Value::Map(_) | Value::Bad => return,
        };
        // What cannot be read has been reported.
        let Ok(KeyPart::PathId(id)) = KeyPart::parse(text) else { return };
        let ids: Vec<&str> = conditions.path().into_iter().flat_map(PathPattern::ids).collect();
        if ids.contains(&&*id) {
            return;
        }
        let fault = Fault::new(code::BAD_KEY, format!("the path of the match has no `{{{}}}`", shown(&id)));
        let hint = match ids.as_slice() {
            [] => format!("name a segment of it, for example `/users/{{{}}}`", shown(&id)),
            _ => did_you_mean(&id, ids),
        };
        self.report(key, fault.hint(hint));
    }

    fn pattern<T>(&mut self, node: &Node, parsed: Result<T, Fault>) -> Option<T> {
        parsed.map_err(|fault| self.report(node, fault)).ok()
    }

    /// One method, or a list of them.
    fn methods(&mut self, node: &Node) -> Option<Vec<Box<str>>> {
        let Value::List(items) = &node.value else { return Some(vec![self.method(node)?]) };
        if items.is_empty() {
            let fault = Fault::new(code::EMPTY, "`method` is empty");
            self.report(node, fault.hint("leave it out for all methods"));
        } else if let Some(extra) = items.get(MAX_METHODS) {
            let fault = Fault::new(code::OUT_OF_RANGE, format!("`match` has at most {MAX_METHODS} methods"));
            self.report(extra, fault.hint("leave `method` out for all methods"));
        }
        let mut methods: Vec<Box<str>> = Vec::new();
        let mut good = (1..=MAX_METHODS).contains(&items.len());
        for item in items.iter().take(MAX_METHODS) {
            match self.method(item) {
                Some(method) if methods.contains(&method) => {
                    let fault = Fault::new(code::BAD_PATTERN, format!("`{method}` is there twice"));
                    self.report(item, fault.hint("leave one out"));
                    good = false;
                }
                Some(method) => methods.push(method),
                None => good = false,
            }
        }
        good.then_some(methods)
    }

    fn method(&mut self, node: &Node) -> Option<Box<str>> {
        let text = self.text(node, "a method", "`method: POST`")?;
        let upper = text.to_ascii_uppercase();
        let is_method = header_name(text).is_some() && text.len() <= MAX_METHOD_BYTES && !text.contains('*');
        if is_method && upper == text {
            return Some(text.into());
        }
        let fault = Fault::new(code::BAD_PATTERN, format!("`{}` is no method", shown(text)));
        let hint = match text {
            "*" => "leave `method` out for all methods".to_owned(),
            _ if is_method => format!("methods are in upper case: write `{upper}`"),
            _ if text.contains([',', ' ', '|']) => "several are a list: `[GET, HEAD]`".to_owned(),
            _ => "for example `POST` or `[GET, HEAD]`".to_owned(),
        };
        self.report(node, fault.hint(hint));
        None
    }

    fn match_headers(&mut self, node: &Node) -> Option<Vec<(Box<str>, Glob)>> {
        let example = || "for example `headers: { x-plan: \"free-*\" }`".to_owned();
        let entries = self.map(node, "`headers`", example)?;
        if entries.is_empty() {
            let fault = Fault::new(code::EMPTY, "`headers` is empty");
            self.report(node, fault.hint("leave it out, or for example `headers: { x-plan: \"free-*\" }`"));
            return None;
        }
        let mut good = true;
        if let Some(extra) = entries.get(MAX_MATCH_HEADERS) {
            let message = format!("`match` has at most {MAX_MATCH_HEADERS} headers");
            self.errors.add(extra.key_span.clone(), Fault::new(code::OUT_OF_RANGE, message));
            good = false;
        }
        let mut headers: Vec<(Box<str>, Glob)> = Vec::new();
        for entry in entries.iter().take(MAX_MATCH_HEADERS) {
            let name = self.match_header_name(entry, &headers);
            let text =
                self.text(&entry.value, &format!("header `{}`", shown(&entry.key)), "`x-plan: \"free-*\"`");
            let value = text.and_then(|text| self.pattern(&entry.value, Glob::parse(text)));
            match name.zip(value) {
                Some(header) => headers.push(header),
                None => good = false,
            }
        }
        good.then_some(headers)
    }

    fn match_header_name(&mut self, entry: &Entry, before: &[(Box<str>, Glob)]) -> Option<Box<str>> {
        let Some(name) = header_name(&entry.key) else {
            let fault = Fault::new(code::BAD_NAME, format!("`{}` is no name of a header", shown(&entry.key)));
            let hint = match &*entry.key.to_ascii_lowercase() {
                ":method" => "`method` is a field of `match`",
                ":path" => "`path` is a field of `match`",
                ":authority" => "`host` is a field of `match`",
                _ => "letters, digits and `-`, at most 128, as in `x-plan`",
            };
            self.errors.add(entry.key_span.clone(), fault.hint(hint));
            return None;
        };
        if *name == *"host" {
            let fault = Fault::new(code::BAD_NAME, "the host is no header here");
            self.errors.add(entry.key_span.clone(), fault.hint("`host` is a field of `match`"));
            return None;
        }
        if before.iter().any(|(other, _)| *other == name) {
            let fault = Fault::new(code::DUPLICATE_KEY, format!("`{name}` is given twice"));
            self.errors.add(entry.key_span.clone(), fault.hint("names of headers have no case"));
            return None;
        }
        Some(name)
    }
}
