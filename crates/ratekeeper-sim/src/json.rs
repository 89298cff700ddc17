//! JSON objects, read strictly: every member is known, of its type and there once, and all that is wrong is
//! told at once, each with its place. Trace lines and the bodies of `POST /v1/check` are such objects.

mod plain;
mod strict;

use std::borrow::Cow;
use std::fmt;

use serde_json::value::RawValue;

use self::strict::{Members, Text};
use crate::hints::{MAX_QUOTE, nearest, quoted};

/// The most members of one object. No object here has more than a dozen that mean something; the bound keeps
/// the search for duplicates from growing with the square of what a stranger sends.
pub const MAX_MEMBERS: usize = 64;

/// For how many names room is made at first.
const USUAL_MEMBERS: usize = 8;

/// One thing that is wrong with a JSON text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flaw {
    /// The JSON pointer (RFC 6901) of the member that is wrong or missing; empty for the text as a whole.
    pub pointer: String,
    /// Where it is in the text, in bytes from its beginning.
    pub at: usize,
    /// How many bytes it takes there; at least 1, even where something is missing.
    pub len: usize,
    /// What is wrong.
    pub message: String,
    /// What to write instead, where that can be said.
    pub hint: Option<String>,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, ": {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Flaw {}

/// A value that may be written in two ways.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TextOr<'a, T> {
    /// The short way.
    Text(Cow<'a, str>),
    /// What was read of an object.
    Object(T),
}

/// An object whose members are taken one after another; [`Object::finish`] tells what was wrong with them.
#[derive(Debug)]
pub struct Object<'a> {
    members: Vec<Member<'a>>,
    taken: Places<'a>,
    flaws: Vec<Flaw>,
}

/// Where the members of an object are: to say later what is wrong with one of them.
#[derive(Clone, Debug)]
pub struct Places<'a> {
    text: &'a str,
    /// Every name that was asked for, with its value where it was there.
    members: Vec<(&'static str, Option<&'a str>)>,
}

impl Places<'_> {
    /// Whether the member was there.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// A flaw of the member `name`, or of its want.
    #[must_use]
    pub fn flaw(&self, name: &str, message: String, hint: Option<String>) -> Flaw {
        let (at, len) = match self.value(name) {
            Some(value) => (offset(self.text, value), value.len()),
            None => (0, 1),
        };
        Flaw { pointer: pointer(name), at, len, message, hint }
    }

    /// A flaw of the member `inner` of the object that is the member `name`.
    #[must_use]
    pub fn flaw_within(&self, name: &str, inner: &str, message: String, hint: Option<String>) -> Flaw {
        let mut flaw = self.flaw(name, message, hint);
        flaw.pointer.push_str(&pointer(inner));
        flaw
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.members.iter().find(|(known, _)| *known == name).and_then(|(_, value)| *value)
    }
}

#[derive(PartialEq, Eq, Debug)]
struct Member<'a> {
    name: Cow<'a, str>,
    /// As it is written.
    value: &'a str,
}

impl<'a> Object<'a> {
    /// Reads an object. Its members are looked at when they are taken.
    ///
    /// # Errors
    /// If the bytes are not UTF-8, not JSON, no object, or an object of more than [`MAX_MEMBERS`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Flaw> {
        let text = str::from_utf8(bytes).map_err(|wrong| {
            let message = format!("not UTF-8: {}", place(bytes, wrong.valid_up_to()));
            Flaw { pointer: String::new(), at: wrong.valid_up_to(), len: 1, message, hint: None }
        })?;
        let members = match plain::members(text) {
            Some(members) => Ok(Members(members)),
            None => serde_json::from_str::<Members<'a>>(text),
        };
        match members {
            Ok(Members(members)) => {
                let taken = Places { text, members: Vec::with_capacity(USUAL_MEMBERS) };
                let mut object = Self { members, taken, flaws: Vec::new() };
                let members = std::mem::take(&mut object.members);
                object.members = object.without_duplicates(members, "");
                Ok(object)
            }
            Err(wrong) => Err(syntax_flaw(text, &wrong)),
        }
    }

    /// Takes a whole number from 0 to `max`.
    pub fn whole(&mut self, name: &'static str, max: u64) -> Option<u64> {
        let value = self.take(name)?;
        let typed = value;
        // JSON has no leading zeros and no plus sign, so digits alone are exactly the whole numbers.
        let number = if typed.bytes().all(|b| b.is_ascii_digit()) { typed.parse().ok() } else { None };
        let fits = number.filter(|n| *n <= max);
        if fits.is_none() {
            let hint =
                typed.starts_with('"').then(|| "write it without quotation marks".to_owned()).or_else(|| {
                    typed.contains(['.', 'e', 'E']).then(|| "write it without point or exponent".to_owned())
                });
            let message = format!("`{name}` is a whole number from 0 to {max}, not {}", quoted(typed));
            self.flaw(pointer(name), typed, message, hint);
        }
        fits
    }

    /// Takes a text.
    pub fn text(&mut self, name: &'static str) -> Option<Cow<'a, str>> {
        let value = self.take(name)?;
        self.as_text(|| pointer(name), || name.to_owned(), value)
    }

    /// Takes `true` or `false`.
    pub fn flag(&mut self, name: &'static str) -> Option<bool> {
        let value = self.take(name)?;
        match value {
            "true" => Some(true),
            "false" => Some(false),
            typed => {
                let message = format!("`{name}` is true or false, not {}", quoted(typed));
                self.flaw(pointer(name), typed, message, None);
                None
            }
        }
    }

    /// Takes an object of keys: name → key. Whether a key may be empty, and how long it may be, is for those to
    /// say who know the limit: some take no key and look at none.
    pub fn keys(&mut self, name: &'static str) -> Vec<(Cow<'a, str>, Cow<'a, str>)> {
        let Some(value) = self.take(name) else { return Vec::new() };
        let members = match serde_json::from_str::<Members<'a>>(value) {
            Ok(Members(members)) => members,
            Err(wrong) => {
                let message = if wrong.is_data() && value.starts_with('{') {
                    format!("`{name}`: {}", bare_message(&wrong))
                } else {
                    format!("`{name}` is an object of limit name and key, not {}", quoted(value))
                };
                self.flaw(pointer(name), value, message, None);
                return Vec::new();
            }
        };
        let mut keys = Vec::new();
        for member in self.without_duplicates(members, &pointer(name)) {
            let label = || format!("{name}.{}", member.name);
            let place = || format!("{}{}", pointer(name), pointer(&member.name));
            if let Some(key) = self.as_text(place, label, member.value) {
                keys.push((member.name, key));
            }
        }
        keys
    }

    /// Takes an object whose members `read` takes; `None` if it is not there, or is none. What is wrong in it is
    /// told with the rest.
    pub fn object<T>(
        &mut self,
        name: &'static str,
        example: &str,
        read: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        let value = self.take(name)?;
        self.inner(pointer(name), name, value, example, read)
    }

    /// Takes an object whose members have names of the caller's own: each is a text, or an object whose members
    /// `read` takes. What is wrong in them is told with the rest.
    pub fn texts_or_objects<T>(
        &mut self,
        name: &'static str,
        example: &str,
        read: impl Fn(&mut Self) -> T,
    ) -> Vec<(Cow<'a, str>, TextOr<'a, T>)> {
        let Some(value) = self.take(name) else { return Vec::new() };
        let Ok(Members(members)) = serde_json::from_str::<Members<'a>>(value) else {
            let message = format!("`{name}` is an object of at most {MAX_MEMBERS} names and values");
            self.flaw(pointer(name), value, message, Some(format!("for example {example}")));
            return Vec::new();
        };
        let mut taken = Vec::new();
        for member in self.without_duplicates(members, &pointer(name)) {
            let label = format!("{name}.{}", member.name);
            let place = format!("{}{}", pointer(name), pointer(&member.name));
            let read = if member.value.starts_with('{') {
                self.inner(place, &shown(&label), member.value, example, &read).map(TextOr::Object)
            } else {
                self.as_text(|| place.clone(), || label.clone(), member.value).map(TextOr::Text)
            };
            taken.extend(read.map(|read| (member.name, read)));
        }
        taken
    }

    fn inner<T>(
        &mut self,
        place: String,
        label: &str,
        value: &'a str,
        example: &str,
        read: impl FnOnce(&mut Self) -> T,
    ) -> Option<T> {
        let mut inner = match Self::parse(value.as_bytes()) {
            Ok(inner) => inner,
            Err(wrong) => {
                let message = if value.starts_with('{') {
                    format!("`{label}`: {}", wrong.message)
                } else {
                    format!("`{label}` is an object, not {}", quoted(value))
                };
                self.flaw(place, value, message, Some(format!("for example {example}")));
                return None;
            }
        };
        let read = read(&mut inner);
        if let Err(flaws) = inner.finish() {
            let within = offset(self.taken.text, value);
            self.flaws.extend(flaws.into_iter().map(|flaw| Flaw {
                pointer: format!("{place}{}", flaw.pointer),
                at: within + flaw.at,
                ..flaw
            }));
        }
        Some(read)
    }

    /// Takes an object of header fields: name → a text, or a list of texts for several lines. At most
    /// [`MAX_MEMBERS`] lines in all.
    pub fn lines(&mut self, name: &'static str) -> Vec<(Cow<'a, str>, Cow<'a, str>)> {
        let Some(value) = self.take(name) else { return Vec::new() };
        let Ok(Members(members)) = serde_json::from_str::<Members<'a>>(value) else {
            let message = format!("`{name}` is an object of at most {MAX_MEMBERS} names and values");
            self.flaw(pointer(name), value, message, Some(r#"for example {"x-api-key":"k1"}"#.to_owned()));
            return Vec::new();
        };
        let mut lines = Vec::new();
        for member in members {
            let values = if member.value.starts_with('[') {
                serde_json::from_str::<Vec<&'a RawValue>>(member.value)
                    .map(|values| values.into_iter().map(RawValue::get).collect())
                    .unwrap_or_default()
            } else {
                vec![member.value]
            };
            for value in values {
                let label = || format!("{name}.{}", member.name);
                let place = || format!("{}{}", pointer(name), pointer(&member.name));
                if let Some(line) = self.as_text(place, label, value) {
                    lines.push((member.name.clone(), line));
                }
            }
        }
        if lines.len() > MAX_MEMBERS {
            let message = format!("`{name}` has at most {MAX_MEMBERS} lines, not {}", lines.len());
            self.flaw(pointer(name), &value[..1], message, None);
            lines.truncate(MAX_MEMBERS);
        }
        lines
    }

    /// Takes a list of at most `max` values, unread: the text of each.
    pub fn items(&mut self, name: &'static str, max: usize) -> Vec<&'a str> {
        let Some(value) = self.take(name) else { return Vec::new() };
        match serde_json::from_str::<Vec<&'a RawValue>>(value) {
            Ok(items) if items.len() <= max => items.into_iter().map(RawValue::get).collect(),
            Ok(items) => {
                let message = format!("`{name}` has at most {max} items, not {}", items.len());
                self.flaw(pointer(name), &value[..1], message, None);
                Vec::new()
            }
            Err(_) => {
                let message = format!("`{name}` is a list, not {}", quoted(value));
                self.flaw(pointer(name), value, message, None);
                Vec::new()
            }
        }
    }

    /// Says that a member is not taken, if it is there; whether it is.
    pub fn refuse(&mut self, name: &'static str, why: &str) -> bool {
        let there = self.take(name).is_some();
        if there {
            self.wrong(name, why.to_owned(), None);
        }
        self.taken.members.pop(); // Not a name to propose to those who misspelt another.
        there
    }

    /// Says that a member that was taken is wrong, or is missing.
    pub fn wrong(&mut self, name: &str, message: String, hint: Option<String>) {
        let flaw = self.taken.flaw(name, message, hint);
        self.flaws.push(flaw);
    }

    /// Says that something within the member `name` is wrong: at the end of `path`, a JSON pointer within it.
    pub fn wrong_within(&mut self, name: &str, path: &[&str], message: String, hint: Option<String>) {
        let mut flaw = self.taken.flaw(name, message, hint);
        flaw.pointer.extend(path.iter().map(|inner| pointer(inner)));
        self.flaws.push(flaw);
    }

    /// Whether something has been found wrong so far.
    #[must_use]
    pub fn is_flawed(&self) -> bool {
        !self.flaws.is_empty()
    }

    /// Whether a member that was taken was there, right or wrong.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.taken.has(name)
    }

    /// Ends the reading: what has not been taken is unknown.
    ///
    /// # Errors
    /// All that is wrong, in the order of the text.
    pub fn finish(mut self) -> Result<Places<'a>, Vec<Flaw>> {
        for member in std::mem::take(&mut self.members) {
            let known = || self.taken.members.iter().map(|(name, _)| *name);
            let hint = match nearest(&member.name, known()) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("known are {}", known().collect::<Vec<_>>().join(", ")),
            };
            let message = format!("unknown field {}", quoted(&member.name));
            self.flaw(pointer(&member.name), member.name_or_value(), message, Some(hint));
        }
        self.flaws.sort_by_key(|flaw| flaw.at);
        if self.flaws.is_empty() { Ok(self.taken) } else { Err(self.flaws) }
    }

    fn take(&mut self, name: &'static str) -> Option<&'a str> {
        let index = self.members.iter().position(|member| member.name == name);
        let value = index.map(|index| self.members.remove(index).value);
        self.taken.members.push((name, value));
        value
    }

    fn as_text(
        &mut self,
        pointer: impl Fn() -> String,
        label: impl Fn() -> String,
        value: &'a str,
    ) -> Option<Cow<'a, str>> {
        if let Some(text) = plain::text(value) {
            return Some(Cow::Borrowed(text));
        }
        match serde_json::from_str::<Text<'a>>(value) {
            Ok(Text(text)) => Some(text),
            Err(wrong) => {
                let message = if value.starts_with('"') {
                    format!("`{}` is no valid text: {}", shown(&label()), bare_message(&wrong))
                } else {
                    format!("`{}` is a text in quotation marks, not {}", shown(&label()), quoted(value))
                };
                self.flaw(pointer(), value, message, None);
                None
            }
        }
    }

    /// The first member of each name.
    fn without_duplicates(&mut self, members: Vec<Member<'a>>, parent: &str) -> Vec<Member<'a>> {
        let is_again = |(index, member): (usize, &Member<'a>)| {
            members[..index].iter().any(|earlier| earlier.name == member.name)
        };
        if !members.iter().enumerate().any(is_again) {
            return members;
        }
        let mut first: Vec<Member<'a>> = Vec::with_capacity(members.len());
        for member in members {
            if first.iter().any(|earlier| earlier.name == member.name) {
                let message = format!("duplicate field {}", quoted(&member.name));
                self.flaw(
                    format!("{parent}{}", pointer(&member.name)),
                    member.name_or_value(),
                    message,
                    None,
                );
            } else {
                first.push(member);
            }
        }
        first
    }

    fn flaw(&mut self, pointer: String, within: &str, message: String, hint: Option<String>) {
        let at = offset(self.taken.text, within);
        self.flaws.push(Flaw { pointer, at, len: within.len().max(1), message, hint });
    }
}

impl<'a> Member<'a> {
    /// The name as a part of the text it came from, or the value if the name was written with escapes.
    fn name_or_value(&self) -> &'a str {
        match self.name {
            Cow::Borrowed(name) => name,
            Cow::Owned(_) => self.value,
        }
    }
}

/// The JSON pointer of a member of the top object.
fn pointer(name: &str) -> String {
    let cut: String = name.chars().take(MAX_QUOTE).collect();
    format!("/{}", cut.replace('~', "~0").replace('/', "~1"))
}

/// A label without what [`quoted`] would take out of it; the backticks are the caller's.
fn shown(label: &str) -> String {
    quoted(label).trim_matches('`').to_owned()
}

/// Where `part`, a slice of `text`, begins in it.
fn offset(text: &str, part: &str) -> usize {
    // Addresses are compared, never followed: a part of something else gives 0 or the end, not a fault.
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize).min(text.len())
}

/// `line L, column C` of a byte, both from 1.
fn place(bytes: &[u8], at: usize) -> String {
    let before = &bytes[..at.min(bytes.len())];
    let line = before.iter().filter(|b| **b == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|b| **b != b'\n').count() + 1;
    if line == 1 { format!("column {column}") } else { format!("line {line}, column {column}") }
}

/// What serde_json says, without the place it adds.
fn bare_message(wrong: &serde_json::Error) -> String {
    let text = wrong.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

fn syntax_flaw(text: &str, wrong: &serde_json::Error) -> Flaw {
    let line_start: usize =
        text.split_inclusive('\n').take(wrong.line().saturating_sub(1)).map(str::len).sum();
    let at = (line_start + wrong.column().saturating_sub(1)).min(text.len());
    let said = bare_message(wrong);
    let message =
        if wrong.is_data() { said } else { format!("not JSON: {said}, {}", place(text.as_bytes(), at)) };
    Flaw { pointer: String::new(), at, len: 1, message, hint: None }
}

#[cfg(test)]
mod tests;
