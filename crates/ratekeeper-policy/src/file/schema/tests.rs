//! The schema has what the table has. What it accepts and refuses is tested from outside.

use super::*;
use crate::file::tree::{Entry, Node, Value};

fn schema() -> Node {
    let text = json_schema();
    let mut errors = Errors::new("", &text);
    tree::parse(&text, &|_| None, &mut errors).expect("JSON is YAML")
}

fn members(node: &Node) -> &[Entry] {
    match &node.value {
        Value::Map(entries) => entries,
        _ => &[],
    }
}

#[test]
fn names_in_the_schema_are_those_of_the_table() {
    let schema = schema();
    let definitions = schema.field("$defs").expect("definitions");
    let (places, grammars) = fields::all();
    assert_eq!(members(definitions).len(), places.len() - 1 + grammars.len() + 1);
    for place in places {
        let node = if place.path == fields::TOP.path {
            &schema
        } else {
            definitions.field(&id(place.path)).expect(place.path)
        };
        let properties = members(node.field("properties").expect("properties"));
        let names: Vec<&str> = properties.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(names, place.built_names().collect::<Vec<&str>>(), "{}", place.path);
    }
}

#[test]
fn links_are_not_shown_by_editors() {
    assert_eq!(unlinked("see [logs](logs.md) and [b](c#d)."), "see logs and b.");
    assert_eq!(unlinked("`[::1]` (a) [b]"), "`[::1]` (a) [b]");
    assert!(!json_schema().contains(".md"));
}

#[test]
fn what_a_pattern_cannot_say_is_in_the_description() {
    let text = json_schema();
    for said in ["From 1ms to 1m.", "From 4KiB to 1024GiB.", "From 1us to 366d."] {
        assert!(text.contains(said), "{said}");
    }
}
