//! Text to a tree whose nodes know where they stand. What YAML has beyond mappings, lists and scalars is
//! refused here, so that the decoder never meets it.

mod secrets;

use core::ops::Range;
use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Options, Parser, ScalarStyle, ScanError, Span};

use super::errors::Errors;
use super::scalar::Kind;
use super::variables;
use crate::fault::{Fault, code};
use crate::hints;
use secrets::{PASSWORD, URLS};

/// Deepest nesting: the format needs 8, and readers of the tree recurse.
pub const MAX_DEPTH: usize = 32;

/// A value and its place.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    /// `plain` scalars have a type by their looks, others are text.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// Something that has been reported already.
    Bad,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_span: Range<usize>,
    pub(super) value: Node,
}

impl Node {
    /// The value of a field, if this is a mapping that has it.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        let Value::Map(entries) = &self.value else { return None };
        entries.iter().find(|entry| entry.key == name).map(|entry| &entry.value)
    }

    /// The place to point at when the node as a whole is meant: all of `{ … }` or `[ … ]`, else the first key.
    pub(super) fn mark(&self) -> Range<usize> {
        match &self.value {
            Value::Map(entries) => match entries.first() {
                Some(first) if first.key_span.start == self.span.start => first.key_span.clone(),
                _ => self.span.clone(),
            },
            _ => self.span.clone(),
        }
    }
}

/// The one document of a text. None if there is none, or its syntax ends the reading; both are reported.
pub(super) fn parse(
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
    errors: &mut Errors<'_>,
) -> Option<Node> {
    let mut options = Options::default();
    options.emit_unresolved_aliases = true;
    options.emit_anchor_events = true;
    options.flow_nesting_limit = MAX_DEPTH;
    options.block_nesting_limit = MAX_DEPTH;
    options.set_emit_comments(false);
    let mut builder = Builder { env, errors, open: Vec::new(), root: None };
    let mut documents = 0;
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = match event {
            Ok(event) => event,
            Err(error) => {
                let place = place(text, &error);
                builder.hide_in_broken_line(place.start);
                builder.errors.add(place, syntax_fault(text, &error));
                return None;
            }
        };
        if let Event::DocumentStart(..) = event {
            documents += 1;
            if documents == 2 {
                let fault = Fault::new(code::SEVERAL_DOCUMENTS, "a configuration is one document");
                builder.errors.add(bytes(&span), fault.hint("leave out `---` and what follows"));
                return None;
            }
        }
        if !builder.event(event, &span) {
            return None;
        }
    }
    let root = builder.root;
    let null = |root: &Node| matches!(&root.value, Value::Scalar { text, plain: true } if Kind::of(text) == Kind::Null);
    let empty = root.as_ref().is_none_or(null);
    if empty {
        let fault = Fault::new(code::FILE_EMPTY, "the configuration is empty");
        errors.add(0..0, fault.hint("it begins with `version: 1`"));
        return None;
    }
    root
}

fn bytes(span: &Span) -> Range<usize> {
    span.byte_range().unwrap_or(0..0)
}

/// A collection that is being read.
enum Open {
    List { start: usize, items: Vec<Node> },
    Map { start: usize, entries: Vec<Entry>, seen: HashMap<String, usize>, key: Option<Key> },
}

/// A key that waits for its value.
struct Key {
    /// Empty if it is no text.
    text: String,
    span: Range<usize>,
    /// It is text, and has not been there before.
    is_good: bool,
}

struct Builder<'b, 't> {
    env: &'b dyn Fn(&str) -> Option<String>,
    errors: &'b mut Errors<'t>,
    open: Vec<Open>,
    root: Option<Node>,
}

impl Builder<'_, '_> {
    /// Takes an event; false if reading on makes no sense.
    fn event(&mut self, event: Event<'_>, span: &Span) -> bool {
        let at = bytes(span);
        // What is no scalar is a mistake there, and may be a secret that wants quotes. Limits may be called so, though.
        let is_value = match event {
            Event::Alias(_) | Event::UnresolvedAlias(_) | Event::SequenceStart(..) => true,
            Event::MappingStart(..) => self.is_within(&[PASSWORD]),
            _ => false,
        };
        if is_value && self.is_secret() {
            self.errors.hide_line_from(at.start);
        }
        match event {
            Event::Scalar(text, style, _, tag) => {
                self.refuse_tag(tag.is_some(), span);
                let plain = style == ScalarStyle::Plain;
                self.scalar(&text, plain, at);
            }
            Event::SequenceStart(_, _, tag) => {
                self.refuse_tag(tag.is_some(), span);
                return self.begin(Open::List { start: at.start, items: Vec::new() }, at);
            }
            Event::MappingStart(_, _, tag) => {
                self.refuse_tag(tag.is_some(), span);
                let map = Open::Map { start: at.start, entries: Vec::new(), seen: HashMap::new(), key: None };
                return self.begin(map, at);
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(at),
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                let fault = Fault::new(code::ALIAS, "aliases are not used in a configuration");
                self.errors.add(
                    at.clone(),
                    fault.hint("write the value out; text that begins with `*` wants quotes"),
                );
                self.complete(Node { span: at, value: Value::Bad });
            }
            Event::Anchor(..) => {
                // Its value may have been before it.
                self.hide_in_broken_line(at.start);
                let fault = Fault::new(code::ANCHOR, "anchors are not used in a configuration");
                self.errors.add(at, fault.hint("leave it out"));
            }
            _ => {}
        }
        true
    }

    fn refuse_tag(&mut self, tagged: bool, span: &Span) {
        if !tagged {
            return;
        }
        let at = span.tag_span().as_ref().map_or_else(|| bytes(span), bytes);
        if self.is_secret() {
            self.errors.hide_line_from(at.start);
        }
        let fault = Fault::new(code::TAG, "tags are not used in a configuration");
        self.errors.add(at, fault.hint("leave it out; quotes make text of a number"));
    }

    fn begin(&mut self, collection: Open, at: Range<usize>) -> bool {
        if self.open.len() == MAX_DEPTH {
            self.errors.add(at, too_deep());
            return false;
        }
        self.open.push(collection);
        true
    }

    fn end(&mut self, at: Range<usize>) {
        let node = match self.open.pop() {
            Some(Open::List { start, items }) => Node { span: start..at.end, value: Value::List(items) },
            Some(Open::Map { start, entries, .. }) => {
                Node { span: start..at.end, value: Value::Map(entries) }
            }
            // The parser closes only what it has opened.
            None => return,
        };
        self.complete(node);
    }

    fn scalar(&mut self, text: &str, plain: bool, at: Range<usize>) {
        // Keys are names of fields: variables are for values.
        let is_key = matches!(self.open.last(), Some(Open::Map { key: None, .. }));
        // The name of a variable is no secret; its default is.
        let is_variable = text.starts_with("${") && text.ends_with('}') && !text.contains(":-");
        if self.is_secret() {
            if !is_variable {
                self.errors.hide(at.clone());
            }
            self.hide_comment(&at);
        } else {
            self.errors.hide_user_info(at.clone(), self.is_within(&URLS));
        }
        if !plain
            && !is_key
            && let Some(name) = variables::first(text)
        {
            let message = format!("`${{{name}}}` in quotes is not expanded");
            let fault = Fault::new(code::QUOTED_VARIABLE, message);
            self.errors.warn(at.clone(), fault.hint("leave out the quotes, on a line of its own"));
        }
        let expanded = if plain && !is_key && text.contains("${") {
            variables::expand(text, self.env)
        } else {
            Ok(text.to_owned())
        };
        let value = match expanded {
            Ok(text) => Value::Scalar { text, plain },
            Err(fault) => {
                self.errors.add(at.clone(), fault);
                Value::Bad
            }
        };
        self.complete(Node { span: at, value });
    }

    /// Puts a finished node where it belongs.
    fn complete(&mut self, node: Node) {
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { items, .. }) => items.push(node),
            Some(Open::Map { entries, key, seen, .. }) => match key.take() {
                Some(Key { text: key, span: key_span, is_good: true }) => {
                    entries.push(Entry { key, key_span, value: node });
                }
                Some(_) => {}
                None => *key = Some(check_key(node, seen, self.errors)),
            },
        }
    }
}

fn check_key(node: Node, seen: &mut HashMap<String, usize>, errors: &mut Errors<'_>) -> Key {
    let text = match node.value {
        Value::Scalar { text, .. } => text,
        Value::Bad => return Key { text: String::new(), span: node.span, is_good: false },
        Value::List(_) | Value::Map(_) => {
            let fault = Fault::new(code::KEY_NOT_TEXT, "the name of a field is text");
            errors
                .add(node.span.clone(), fault.hint("`${VAR}` cannot stand inside `{ }`: use several lines"));
            return Key { text: String::new(), span: node.span, is_good: false };
        }
    };
    if let Some(first) = seen.get(&text) {
        let fault = Fault::new(code::DUPLICATE_KEY, format!("`{}` is given twice", hints::shown(&text)));
        let line = errors.line(*first);
        errors.add(node.span.clone(), fault.hint(format!("the first is on line {line}")));
        return Key { text, span: node.span, is_good: false };
    }
    seen.insert(text.clone(), node.span.start);
    Key { text, span: node.span, is_good: true }
}

fn too_deep() -> Fault {
    Fault::new(code::NESTED_TOO_DEEP, format!("a configuration is at most {MAX_DEPTH} levels deep"))
}

fn place(text: &str, error: &ScanError) -> Range<usize> {
    let at = error.marker().byte_offset().unwrap_or(0).min(text.len());
    // Past the last line there is nothing to point at: the end of what is there.
    if text.get(at..).is_some_and(str::is_empty) {
        let end = text.trim_end().len();
        return end..end;
    }
    // The parser stops behind a tab.
    let before = text.get(..at).unwrap_or_default();
    let tabs = before.len() - before.trim_end_matches('\t').len();
    if tabs > 0 { at - tabs..at } else { at..at + 1 }
}

/// The parser's complaint in our words.
fn syntax_fault(text: &str, error: &ScanError) -> Fault {
    let syntax = |message: &str| Fault::new(code::YAML_SYNTAX, message.to_owned());
    let at = error.marker().byte_offset().unwrap_or(0);
    if text.get(..at).is_some_and(|before| before.ends_with('$')) {
        return syntax("YAML takes the `{` of `${…}` for a mapping here")
            .hint("inside `{ }` or `[ ]` no variable can stand: use several lines");
    }
    match error.kind() {
        ErrorKind::RecursionLimitExceeded => too_deep(),
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabInPlainScalar
        | ErrorKind::TabAtBlockScalarStart => {
            Fault::new(code::TAB, "a tab cannot indent YAML").hint("use spaces")
        }
        ErrorKind::UnclosedFlowCollection { open } => syntax(&format!("`{open}` is not closed")),
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => {
            syntax(&format!("`{open}` is closed by `{close}`"))
        }
        ErrorKind::MisplacedFlowCollectionEnd => syntax("this bracket closes nothing"),
        ErrorKind::UnclosedQuotedScalar | ErrorKind::DocumentIndicatorInQuotedScalar => {
            syntax("a quote is not closed")
        }
        ErrorKind::UnexpectedEofFlowSequence | ErrorKind::ExpectedFlowSequenceSeparator => {
            syntax("a list needs `,` or `]` here")
        }
        // The pattern of a path, for example.
        ErrorKind::ExpectedFlowMappingSeparator
            if text.get(at..).is_some_and(|rest| rest.starts_with('{')) =>
        {
            syntax("`{` begins a mapping in a mapping").hint("put text that contains it in quotes")
        }
        ErrorKind::UnexpectedEofFlowMapping
        | ErrorKind::UnexpectedEofImplicitFlowMapping
        | ErrorKind::ExpectedFlowMappingSeparator => syntax("a mapping needs `,` or `}` here"),
        ErrorKind::ExpectedBlockMappingKey | ErrorKind::ExpectedBlockSequenceEntry => {
            syntax("this line is not indented like the one before it")
        }
        ErrorKind::SimpleKeyExpected => syntax("a field needs `:` and a value"),
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => {
            syntax("`: ` cannot stand here")
                .hint("put text that contains it in quotes, or correct the indentation")
        }
        ErrorKind::UnexpectedCharacter { character } => {
            syntax(&format!("`{}` cannot stand here", hints::shown(&character.to_string())))
                .hint("put text that begins with it in quotes")
        }
        ErrorKind::BomInsideDocument => syntax("a byte order mark cannot stand here"),
        kind => syntax(&format!("not YAML: {kind}")),
    }
}

#[cfg(test)]
mod tests;
