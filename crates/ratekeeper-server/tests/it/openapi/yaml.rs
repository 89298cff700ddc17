//! YAML as a tree of JSON, as far as `docs/openapi.yaml` uses it: no anchors, no tags, no key twice.

use granit_parser::{Event, Options, Parser, ScalarStyle};
use serde_json::{Map, Value};

/// A collection that is being read.
enum Open {
    List(Vec<Value>),
    Map(Map<String, Value>, Option<String>),
}

/// The one document of a text.
pub(crate) fn read(text: &str) -> Value {
    let mut options = Options::default();
    options.set_emit_comments(false);
    let (mut open, mut root) = (Vec::new(), None);
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.unwrap_or_else(|wrong| panic!("not YAML: {wrong}"));
        let value = match event {
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
            Event::SequenceEnd | Event::MappingEnd => match open.pop().expect("what ends has begun") {
                Open::List(items) => Value::Array(items),
                Open::Map(fields, _) => Value::Object(fields),
            },
            Event::Alias(..) | Event::Anchor(..) => panic!("anchors are not used here: {span:?}"),
            _ => continue,
        };
        match open.last_mut() {
            None => root = Some(value),
            Some(Open::List(items)) => items.push(value),
            Some(Open::Map(fields, key)) => {
                let key = key.take().expect("a value has a key");
                assert!(fields.insert(key.clone(), value).is_none(), "{key} twice: {span:?}");
            }
        }
    }
    root.expect("the file has a document")
}

/// A scalar without quotes has a type by its looks.
fn plain(text: &str) -> Value {
    match text {
        "null" | "~" | "" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => text.parse::<u64>().map_or_else(|_| Value::String(text.to_owned()), Value::from),
    }
}

#[test]
fn the_reader_knows_what_the_file_uses() {
    let text =
        "a: { b: [1, x, \"2\", true, null] }\n# a comment\nc:\n  - d: |\n      two\n      lines\n    e: ''\n";
    let read = read(text);
    let expected = r#"{"a":{"b":[1,"x","2",true,null]},"c":[{"d":"two\nlines\n","e":""}]}"#;
    assert_eq!(read, serde_json::from_str::<Value>(expected).expect("JSON"));
}
