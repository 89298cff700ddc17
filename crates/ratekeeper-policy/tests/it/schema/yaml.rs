//! YAML as editors read it: a tree of JSON, by the core schema of YAML 1.2, with variables as they are written.

use granit_parser::{Event, Options, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// A collection that is being read.
enum Open {
    List(Vec<Value>),
    Map(Map<String, Value>, Option<String>),
}

/// The one document of a text; None if an editor would complain of its syntax.
pub(crate) fn read(text: &str) -> Option<Value> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    let (mut open, mut root) = (Vec::new(), None);
    for event in Parser::new_from_str_with_options(text, options) {
        let value = match event.ok()?.0 {
            Event::SequenceStart(..) => {
                open.push(Open::List(Vec::new()));
                continue;
            }
            Event::MappingStart(..) => {
                open.push(Open::Map(Map::new(), None));
                continue;
            }
            Event::Scalar(text, style, ..) => match open.last_mut() {
                Some(Open::Map(_, key @ None)) => {
                    *key = Some(text.into_owned());
                    continue;
                }
                _ if style == ScalarStyle::Plain => plain(&text),
                _ => Value::String(text.into_owned()),
            },
            Event::SequenceEnd | Event::MappingEnd => match open.pop()? {
                Open::List(items) => Value::Array(items),
                Open::Map(fields, _) => Value::Object(fields),
            },
            Event::Alias(..) | Event::Anchor(..) => return None,
            _ => continue,
        };
        match open.last_mut() {
            None => root = Some(value),
            Some(Open::List(items)) => items.push(value),
            Some(Open::Map(fields, key)) => {
                if fields.insert(key.take()?, value).is_some() {
                    return None;
                }
            }
        }
    }
    root
}

/// A scalar without quotes has a type by its looks.
fn plain(text: &str) -> Value {
    match text {
        "null" | "Null" | "NULL" | "~" | "" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => {}
    }
    let number = text.strip_prefix('+').unwrap_or(text);
    let based = |prefix, base| u64::from_str_radix(number.strip_prefix(prefix)?, base).ok();
    if let Some(number) = based("0x", 16).or_else(|| based("0o", 8)) {
        return number.into();
    }
    if !number.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b)) {
        return Value::String(text.to_owned());
    }
    let whole = number.parse::<u64>().map(Value::from).or_else(|_| number.parse::<i64>().map(Value::from));
    whole
        .or_else(|_| number.parse::<f64>().map(Value::from))
        .unwrap_or_else(|_| Value::String(text.to_owned()))
}
