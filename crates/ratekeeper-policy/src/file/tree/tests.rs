use super::*;

/// The tree in one line, or the codes of what is wrong.
fn show(text: &str) -> Result<String, Vec<&'static str>> {
    let mut errors = Errors::new("f", text);
    let env = |name: &str| (name == "SET").then(|| "value".to_owned());
    let tree = parse(text, &env, &mut errors).map(|node| write(&node));
    if errors.is_empty() {
        Ok(tree.unwrap())
    } else {
        Err(errors.finish().items.iter().map(|e| e.code).collect())
    }
}

fn write(node: &Node) -> String {
    match &node.value {
        Value::Scalar { text, plain: true } => text.clone(),
        Value::Scalar { text, plain: false } => format!("{text:?}"),
        Value::List(items) => format!("[{}]", items.iter().map(write).collect::<Vec<_>>().join(", ")),
        Value::Map(entries) => {
            let entry = |entry: &Entry| format!("{}: {}", entry.key, write(&entry.value));
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
        Value::Bad => "!".to_owned(),
    }
}

#[test]
fn yaml_and_json_are_read_alike() {
    let tree = Ok("{a: 1, b: [x, \"y\"], c: {d: ~}}".to_owned());
    assert_eq!(show("a: 1\nb: [x, \"y\"]\nc:\n  d:\n"), tree);
    assert_eq!(show("a: 1\nb:\n- x\n- 'y'\nc: { d: }\n"), tree);
    assert_eq!(show("{\"a\":1,\"b\":[x,\"y\"],\"c\":{\"d\":}}"), tree);
    assert_eq!(show("{\r\n\t\"a\": 1,\r\n\t\"b\": [x, \"y\"],\r\n\t\"c\": {\"d\": }\r\n}\r\n"), tree);
    assert_eq!(show("# comment\n---\na: 1 # one\nb: [x, \"y\"]\nc: { d: }\n...\n"), tree);
    assert_eq!(show(r#"{"a": "\/\u00e9\ud83d\ude00"}"#), Ok("{a: \"/é😀\"}".to_owned()));
}

#[test]
fn variables_are_expanded_in_plain_values_only() {
    for (text, tree) in [
        ("a: ${SET}", "{a: value}"),
        ("a: x-${SET}-y${SET}", "{a: x-value-yvalue}"),
        ("a: ${UNSET:-other}", "{a: other}"),
        ("a: ${UNSET:-}", "{a: }"),
        ("a: ${UNSET:-a:-b}", "{a: a:-b}"),
        ("a: ${SET:-other}", "{a: value}"),
        ("a: \"${SET}\"", "{a: \"${SET}\"}"),
        ("a: '${SET}'", "{a: \"${SET}\"}"),
        ("a: $SET", "{a: $SET}"),
        ("a: $$", "{a: $$}"),
        ("${SET}: a", "{${SET}: a}"),
        ("- ${SET}", "[value]"),
    ] {
        assert_eq!(show(text).as_deref(), Ok(tree), "{text}");
    }
    for (text, code) in [
        ("a: ${UNSET}", code::UNSET_VARIABLE),
        ("a: ${}", code::BAD_VARIABLE),
        ("a: ${SET", code::BAD_VARIABLE),
        ("a: ${A-B}", code::BAD_VARIABLE),
        ("a: ${:-x}", code::BAD_VARIABLE),
        ("[${SET}]", code::YAML_SYNTAX),
    ] {
        assert_eq!(show(text), Err(vec![code]), "{text}");
    }
}

#[test]
fn what_a_variable_holds_is_not_expanded_again() {
    let mut errors = Errors::new("f", "a: ${A}");
    let env = |_: &str| Some("${A}".to_owned());
    let tree = parse("a: ${A}", &env, &mut errors).unwrap();
    assert_eq!(write(&tree), "{a: ${A}}");
}

#[test]
fn what_a_configuration_does_not_use_is_refused() {
    for (text, codes) in [
        ("a: 1\na: 2", vec![code::DUPLICATE_KEY]),
        ("a: 1\n\"a\": 2", vec![code::DUPLICATE_KEY]),
        ("a: {b: 1, b: 2}\na: 2", vec![code::DUPLICATE_KEY, code::DUPLICATE_KEY]),
        ("a: &x 1", vec![code::ANCHOR]),
        ("a: &x {b: 1}", vec![code::ANCHOR]),
        ("a: &x 1\nb: *x", vec![code::ANCHOR, code::ALIAS]),
        ("<<: *x", vec![code::ALIAS]),
        ("*x : 1", vec![code::ALIAS]),
        ("a: !!int 1", vec![code::TAG]),
        ("a: !secret 1", vec![code::TAG]),
        ("a: !!map {}", vec![code::TAG]),
        ("[a, b]: 1", vec![code::KEY_NOT_TEXT]),
        ("? {a: 1}\n: 1", vec![code::KEY_NOT_TEXT]),
        ("a: 1\n---\nb: 1", vec![code::SEVERAL_DOCUMENTS]),
        ("", vec![code::FILE_EMPTY]),
        ("\n\n", vec![code::FILE_EMPTY]),
        ("---\n", vec![code::FILE_EMPTY]),
        ("# a\n", vec![code::FILE_EMPTY]),
        ("a:\n\tb: 1", vec![code::TAB]),
        ("a: [1", vec![code::YAML_SYNTAX]),
        ("a: \u{0}", vec![code::YAML_SYNTAX]),
    ] {
        assert_eq!(show(text), Err(codes), "{text:?}");
    }
}

#[test]
fn nesting_ends_at_its_bound() {
    let flow = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let block = |depth: usize| (0..depth).map(|i| format!("{}a:\n", " ".repeat(i))).collect::<String>();
    assert!(show(&flow(MAX_DEPTH)).is_ok());
    assert_eq!(show(&flow(MAX_DEPTH + 1)), Err(vec![code::NESTED_TOO_DEEP]));
    assert!(show(&block(MAX_DEPTH)).is_ok());
    assert_eq!(show(&block(MAX_DEPTH + 1)), Err(vec![code::NESTED_TOO_DEEP]));
    assert_eq!(show(&flow(100_000)), Err(vec![code::NESTED_TOO_DEEP]));
    // Both kinds together.
    let both = format!("{}{}{}", block(20), " ".repeat(20), flow(13));
    assert_eq!(show(&both), Err(vec![code::NESTED_TOO_DEEP]));
}

#[test]
fn nodes_know_their_bytes() {
    let text = "é: [ä, {b: \"ü\"}]\nc:\n  d: plain text  # not this\n";
    let mut errors = Errors::new("f", text);
    let tree = parse(text, &|_| None, &mut errors).unwrap();
    let Value::Map(top) = &tree.value else { panic!() };
    assert_eq!(&text[top[0].key_span.clone()], "é");
    assert_eq!(&text[top[0].value.span.clone()], "[ä, {b: \"ü\"}]");
    let Value::List(items) = &top[0].value.value else { panic!() };
    assert_eq!(&text[items[0].span.clone()], "ä");
    assert_eq!(&text[items[1].mark()], "{b: \"ü\"}");
    let Value::Map(inner) = &top[1].value.value else { panic!() };
    assert_eq!(&text[inner[0].value.span.clone()], "plain text");
    assert_eq!(&text[top[1].value.mark()], "d");
}
