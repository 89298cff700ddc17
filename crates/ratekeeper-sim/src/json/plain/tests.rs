use proptest::prelude::*;

use super::super::{Members, Object, Text};
use super::*;

fn strict(text: &str) -> Result<Vec<Member<'_>>, String> {
    serde_json::from_str::<Members<'_>>(text)
        .map(|Members(members)| members)
        .map_err(|wrong| wrong.to_string())
}

/// What is read the short way is what the strict reader makes of it.
fn agree(text: &str) -> Result<bool, String> {
    let Some(members) = members(text) else { return Ok(false) };
    let strictly = strict(text)?;
    if members != strictly {
        return Err(format!("{text}: {members:?}, strictly {strictly:?}"));
    }
    for Member { value, .. } in members {
        let strictly = serde_json::from_str::<Text<'_>>(value).ok().map(|Text(text)| text.into_owned());
        if super::text(value).map(str::to_owned) != strictly {
            return Err(format!("{text}: {value} is {strictly:?}"));
        }
    }
    Ok(true)
}

/// Pieces of objects, good and bad.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => prop::sample::select(vec![
            "{", "}", ",", ":", "\"", "\"policy\"", "\"key\":", "\"a\":\"b\"", "\"cost\":", "0", "1", "42", "007", "true",
            "false", "null", "truefalse", "-1", "1.0", "1e3", "[", "]", " ", "\n", "\\", "\\\"", "\\u0041", "é", "\u{1f}",
            "\u{7f}", "😀", "\"\"", "18446744073709551616", "{\"a\":1,", "\"a\":true}",
        ]).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ]
}

/// An object whose members are nearly all plain ones.
fn object() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        "\"[ -~é]{0,6}\"",
        "[0-9]{1,4}",
        Just("true".to_owned()),
        Just("false".to_owned()),
        Just("null".to_owned()),
    ];
    let member = ("[a-c\\\\ é]{0,3}", value).prop_map(|(name, value)| format!("\"{name}\":{value}"));
    prop::collection::vec(member, 0..5).prop_map(|members| format!("{{{}}}", members.join(",")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn the_short_way_reads_what_the_strict_one_reads(text in object()) {
        agree(&text).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn the_short_way_accepts_nothing_that_the_strict_one_refuses(
        pieces in prop::collection::vec(piece(), 0..12)
    ) {
        let text = pieces.concat();
        agree(&text).map_err(TestCaseError::fail)?;
        agree(&format!("{{{text}}}")).map_err(TestCaseError::fail)?;
    }
}

#[test]
fn bodies_as_programs_write_them_go_the_short_way() {
    for text in [
        r#"{"policy":"login","key":"203.0.113.9"}"#,
        r#"{"policy":"api","key":"é","cost":10,"peek":true}"#,
        r#"{"id":"0123","cost":0}"#,
    ] {
        assert_eq!(agree(text), Ok(true), "{text}");
    }
}

#[test]
fn what_is_odd_is_left_to_the_strict_reader() {
    for text in [
        "",
        "{",
        "{}",
        "[]",
        r#"{"a":1} "#,
        r#"{"a" :1}"#,
        r#"{"a":1,}"#,
        r#"{"a":01}"#,
        r#"{"a":-1}"#,
        r#"{"a":1.5}"#,
        r#"{"a":null}"#,
        r#"{"a":{}}"#,
        r#"{"a":[1]}"#,
        r#"{"a":"\n"}"#,
        r#"{"\u0061":1}"#,
        r#"{"a":truth}"#,
        r#"{"a":"#,
        r#"{"a"#,
        "{\"a\":\"\t\"}",
    ] {
        assert_eq!(members(text), None, "{text}");
    }
}

#[test]
fn more_members_than_are_read_are_refused_as_ever() {
    let many = |count: usize| {
        let members: Vec<String> = (0..count).map(|n| format!("\"m{n}\":1")).collect();
        format!("{{{}}}", members.join(","))
    };
    assert_eq!(agree(&many(MAX_MEMBERS)), Ok(true));
    assert_eq!(members(&many(MAX_MEMBERS + 1)), None);
    let flaw = Object::parse(many(MAX_MEMBERS + 1).as_bytes()).expect_err("too many");
    assert!(flaw.message.contains("more than 64 members"), "{}", flaw.message);
}
