use proptest::prelude::*;

use super::super::errors::Errors;
use super::super::tree::parse;
use super::*;

fn json(yaml: &str) -> String {
    let mut errors = Errors::new("f", yaml);
    let tree = parse(yaml, &|name| (name == "SET").then(|| "7".to_owned()), &mut errors);
    of(&tree.unwrap_or_else(|| panic!("{}", errors.finish())))
}

#[test]
fn scalars_are_what_yaml_takes_them_for() {
    for (yaml, wanted) in [
        ("20", "20"),
        ("-1", "-1"),
        ("+5", "5"),
        ("020", "20"),
        ("000", "0"),
        ("1.50", "1.50"),
        (".5", "0.5"),
        ("-.5e3", "-0.5e3"),
        ("1.", "1"),
        ("1E+6", "1E+6"),
        ("0x1F", "31"),
        ("0o17", "15"),
        ("0xffffffffffffffffff", "\"0xffffffffffffffffff\""),
        (".inf", "\".inf\""),
        ("-.INF", "\"-.INF\""),
        (".nan", "\".nan\""),
        ("True", "true"),
        ("FALSE", "false"),
        ("~", "null"),
        ("off", "\"off\""),
        ("yes", "\"yes\""),
        ("10/s", "\"10/s\""),
        ("1_000", "\"1_000\""),
        ("\"20\"", "\"20\""),
        ("'true'", "\"true\""),
        ("''", "\"\""),
        ("\"${SET}\"", "\"${SET}\""),
    ] {
        assert_eq!(json(&format!("a: {yaml}")), format!("{{\"a\":{wanted}}}"), "{yaml}");
    }
    assert_eq!(json("a: ${SET}"), "{\"a\":7}");
    assert_eq!(json("a:\n  - ${UNSET:-x} y\n  - {}\n  - []\n"), "{\"a\":[\"x y\",{},[]]}");
}

#[test]
fn texts_are_escaped() {
    let yaml = r#"{"q\"\\\n\r\t\0\u001b\u0085é😀": "</script>"}"#;
    assert_eq!(json(yaml), r#"{"q\"\\\n\r\t\u0000\u001b\u0085é😀":"</script>"}"#);
}

#[test]
fn of_overrides_the_public_form_has_their_number_and_of_all_else_the_same() {
    let public = |yaml: &str| {
        let mut errors = Errors::new("f", yaml);
        of_public(&parse(yaml, &|_| None, &mut errors).expect("it is YAML"))
    };
    let without = "[{name: p, key: [ip], limits: [{name: overrides, burst: 020}]}, {}]";
    assert_eq!(public(without), json(without));
    assert_eq!(
        public("[{name: p, overrides: [{key: secret, action: block}, {key: 's*'}], x: 1}, {overrides: []}]"),
        "[{\"name\":\"p\",\"overrides\":2,\"x\":1},{\"overrides\":0}]"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// JSON is YAML: what is read from it must be the text again.
    #[test]
    fn every_text_is_read_back(text in any::<String>()) {
        let wanted = Value::Scalar { text: text.clone(), plain: false };
        let written = of(&Node { span: 0..0, value: Value::List(vec![Node { span: 0..0, value: wanted }]) });
        let mut errors = Errors::new("f", &written);
        let read = parse(&written, &|_| None, &mut errors);
        // The characters that YAML cannot have even in quotes are JSON all the same.
        if let Some(Node { value: Value::List(items), .. }) = read
            && let [Node { value: Value::Scalar { text: read, plain: false }, .. }] = items.as_slice()
        {
            prop_assert_eq!(read, &text);
        } else {
            let unfit = text.contains(['\u{feff}', '\u{fffe}', '\u{ffff}']);
            prop_assert!(unfit);
        }
    }
}
