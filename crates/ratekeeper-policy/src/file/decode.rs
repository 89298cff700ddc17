//! Tree to configuration. Nothing stops at the first mistake: what cannot be read is reported and left out,
//! and what depends on it stays silent.

use ratekeeper_core::Name;

use super::Content;
use super::errors::{ConfigErrors, Errors};
use super::fields::{self, Place, Status};
use super::json;
use super::policies;
use super::scalar::Kind;
use super::stores::Stores;
use super::tree::{Entry, Node, Value};
use crate::client_ip::DEFAULT_IPV6_PREFIX;
use crate::fault::{Fault, code};
use crate::hints::{did_you_mean, nearest, shown};
use crate::limit::parse_number;
use crate::plan::Policies;

/// The version of the format.
pub(super) const VERSION: u64 = 1;

/// The configuration that a tree holds; None, with the reasons reported, if it holds none.
pub(super) fn decode(
    root: &Node,
    env: &dyn Fn(&str) -> Option<String>,
    errors: &mut Errors<'_>,
) -> Option<Content> {
    let mut decoder = Decoder { errors };
    let top = decoder.fields(root, "the configuration", &fields::TOP)?;
    decoder.version(&top);
    let listen = decoder.listen(&top, env);
    let log = decoder.log(&top);
    let client_ip = decoder.client_ip(&top);
    let cors = decoder.cors(&top);
    let stores = decoder.stores(&top);
    let defaults = decoder.defaults(&top, &stores);
    // What cannot be read has been reported, and no policy is used then.
    let ipv6_prefix = client_ip.as_ref().map_or(DEFAULT_IPV6_PREFIX, |client_ip| client_ip.ipv6_prefix);
    if let Some(listen) = &listen {
        decoder.timeouts(&top, listen, &stores);
    }
    let policies = policies::policies(&mut decoder, &top, &stores, &defaults, ipv6_prefix);
    let json = |of: fn(&Node) -> String| {
        top.get("policies").map_or_else(|| "[]".to_owned(), |entry| of(&entry.value))
    };
    let (policies_json, policies_json_public) = (json(json::of), json(json::of_public));
    let Stores::Known(stores) = stores else { return None };
    let client_ip = client_ip?;
    Some(Content {
        listen: listen?,
        log: log?,
        policies: Policies::new(policies, client_ip.clone()),
        client_ip,
        cors: cors?,
        stores,
        policies_json,
        policies_json_public,
        warnings: ConfigErrors::none(),
    })
}

/// The fields of a mapping, known to be of its place.
pub(super) struct Fields<'n> {
    place: &'static Place,
    pub(super) node: &'n Node,
    entries: Vec<&'n Entry>,
    /// Fields that a misspelt name was taken for: not to be called missing.
    meant: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    pub(super) fn get(&self, name: &str) -> Option<&'n Entry> {
        debug_assert!(self.place.built_names().any(|built| built == name), "{name} is not in the table");
        self.entries.iter().find(|entry| entry.key == name).copied()
    }

    /// Whether a field is really missing: neither there nor misspelt.
    pub(super) fn lacks(&self, name: &str) -> bool {
        self.get(name).is_none() && !self.meant.contains(&name)
    }
}

pub(super) struct Decoder<'e, 't> {
    pub(super) errors: &'e mut Errors<'t>,
}

impl Decoder<'_, '_> {
    pub(super) fn report(&mut self, node: &Node, fault: Fault) {
        let fault = match &node.value {
            // Whoever writes a variable means its value, and that is what is wrong then. A wrong type has been
            // told by its quotes already.
            Value::Scalar { text, plain: false } if text.contains("${") && fault.code != code::WRONG_TYPE => {
                fault.hint("only plain (unquoted) scalars expand: leave out the quotes, on a line of its own")
            }
            _ => fault,
        };
        self.errors.add(node.mark(), fault);
    }

    /// The fields of a mapping. Unknown ones are reported, and so are those that come with a later version.
    pub(super) fn fields<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        place: &'static Place,
    ) -> Option<Fields<'n>> {
        let entries = self.map(node, what, || format!("its fields are {}", listed(place)))?;
        let mut fields = Fields { place, node, entries: Vec::new(), meant: Vec::new() };
        for entry in entries {
            match place.field(&entry.key) {
                Some(field) => match field.status {
                    Status::Built(_) => fields.entries.push(entry),
                    Status::Later(remedy) => {
                        let message = format!("`{}` is not available in this version", entry.key);
                        let fault = Fault::new(code::NOT_AVAILABLE, message).hint(remedy);
                        self.errors.add(entry.key_span.clone(), fault);
                    }
                },
                None if self.errors.is_full() => {}
                None => {
                    let foreign = place.foreign(&entry.key);
                    let near = foreign.map(|(field, _)| field).or_else(|| nearest(&entry.key, place.names()));
                    fields.meant.extend(near);
                    let message = format!("unknown field `{}`", shown(&entry.key));
                    let hint = match (foreign, near) {
                        (Some((_, remedy)), _) => remedy.to_owned(),
                        (None, Some(name)) => format!("did you mean `{name}`?"),
                        (None, None) => format!("{} has {}", place.name, listed(place)),
                    };
                    self.errors
                        .add(entry.key_span.clone(), Fault::new(code::UNKNOWN_FIELD, message).hint(hint));
                }
            }
        }
        Some(fields)
    }

    pub(super) fn map<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        hint: impl FnOnce() -> String,
    ) -> Option<&'n [Entry]> {
        match &node.value {
            Value::Map(entries) => Some(entries),
            _ => self.wrong_type(node, what, "a mapping", hint),
        }
    }

    pub(super) fn list<'n>(
        &mut self,
        node: &'n Node,
        what: &str,
        hint: impl FnOnce() -> String,
    ) -> Option<&'n [Node]> {
        match &node.value {
            Value::List(items) => Some(items),
            _ => self.wrong_type(node, what, "a list", hint),
        }
    }

    fn wrong_type<T>(
        &mut self,
        node: &Node,
        what: &str,
        wanted: &str,
        hint: impl FnOnce() -> String,
    ) -> Option<T> {
        let found = match &node.value {
            Value::Bad => return None,
            Value::Map(_) => "a mapping",
            Value::List(_) => "a list",
            Value::Scalar { text, plain: true } => Kind::of(text).name(),
            Value::Scalar { .. } => "text",
        };
        let message = format!("{what} is {wanted}, not {found}");
        self.report(node, Fault::new(code::WRONG_TYPE, message).hint(hint()));
        None
    }

    /// A scalar as it is written, whatever YAML would make of it; what is not there is reported.
    pub(super) fn word<'n>(&mut self, node: &'n Node, what: &str, example: &str) -> Option<&'n str> {
        match &node.value {
            Value::Scalar { text, plain } if text.is_empty() || (*plain && Kind::of(text) == Kind::Null) => {
                let fault = Fault::new(code::EMPTY, format!("{what} is empty"));
                self.report(node, fault.hint(format!("for example {example}")));
                None
            }
            Value::Scalar { text, .. } => Some(text),
            _ => self.wrong_type(node, what, "text", || format!("for example {example}")),
        }
    }

    /// Text: a plain scalar that YAML takes for a number or truth value wants quotes.
    pub(super) fn text<'n>(&mut self, node: &'n Node, what: &str, example: &str) -> Option<&'n str> {
        let word = self.word(node, what, example)?;
        match (&node.value, Kind::of(word)) {
            (Value::Scalar { plain: true, .. }, kind @ (Kind::Number | Kind::Bool)) => {
                let message = format!("{what} is text, and `{}` is {}", shown(word), kind.name());
                let fault = Fault::new(code::WRONG_TYPE, message);
                self.report(node, fault.hint(format!("put it in quotes: \"{}\"", shown(word))));
                None
            }
            _ => Some(word),
        }
    }

    /// The digits of a number, which are not in quotes.
    pub(super) fn digits<'n>(&mut self, node: &'n Node, name: &str, example: &str) -> Option<&'n str> {
        let what = format!("`{name}`");
        let word = match &node.value {
            Value::Scalar { .. } => self.word(node, &what, example)?,
            _ => return self.wrong_type(node, &what, "a number", || format!("for example {example}")),
        };
        if let Value::Scalar { plain: false, .. } = node.value {
            let message = format!("{what} is a number, not text");
            let fault = Fault::new(code::WRONG_TYPE, message);
            self.report(node, fault.hint("leave out the quotes"));
            return None;
        }
        Some(word)
    }

    /// A whole number.
    pub(super) fn number(&mut self, node: &Node, name: &str, example: &str) -> Option<u64> {
        let digits = self.digits(node, name, example)?;
        parse_number(name, digits).map_err(|fault| self.report(node, fault)).ok()
    }

    /// A name of ours.
    pub(super) fn name(&mut self, node: &Node, what: &str) -> Option<Name> {
        let text = self.text(node, what, "`name: api`")?;
        self.checked_name(node.span.clone(), what, text)
    }

    pub(super) fn checked_name(
        &mut self,
        span: core::ops::Range<usize>,
        what: &str,
        text: &str,
    ) -> Option<Name> {
        let fault = || {
            let fault = Fault::new(code::BAD_NAME, format!("{what} cannot be `{}`", shown(text)));
            fault.hint("1 to 64 of A-Z, a-z, 0-9, `_` and `-`")
        };
        Name::new(text).map_err(|_| self.errors.add(span, fault())).ok()
    }

    /// One of a few words.
    pub(super) fn one_of<T: Copy>(&mut self, node: &Node, name: &str, words: &[(&str, T)]) -> Option<T> {
        let names = || words.iter().map(|(word, _)| *word);
        let example = format!("`{name}: {}`", words.first().map_or("", |(word, _)| word));
        let typed = self.word(node, &format!("`{name}`"), &example)?;
        let found = words.iter().find(|(word, _)| *word == typed).map(|(_, value)| *value);
        if found.is_none() {
            let message = format!("`{name}` cannot be `{}`", shown(typed));
            let fault = Fault::new(code::UNKNOWN_WORD, message);
            self.report(node, fault.hint(did_you_mean(typed, names())));
        }
        found
    }

    fn version(&mut self, top: &Fields<'_>) {
        if top.lacks("version") {
            let fault = Fault::new(code::MISSING_FIELD, "`version` is missing");
            self.report(top.node, fault.hint("the file begins with `version: 1`"));
        }
        let Some(entry) = top.get("version") else { return };
        let node = &entry.value;
        let number = self.number(node, "version", "`version: 1`");
        if number.is_some_and(|version| version != VERSION) {
            let fault = Fault::new(code::UNSUPPORTED_VERSION, "this version of the file is not known");
            self.report(node, fault.hint("only `version: 1`"));
        }
    }
}

fn listed(place: &Place) -> String {
    let names: Vec<String> = place.built_names().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}
