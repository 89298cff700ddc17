//! The `RateLimit` fields, read: what the oracle for structured fields takes is taken, and nothing else.

use proptest::prelude::*;
use ratekeeper_core::{
    MAX_FIELD_BYTES, MAX_FIELD_ITEMS, Quota, ToldLimit, ToldPolicy, read_limit_field, read_policy_field,
};
use ratekeeper_testkit::property::check;
use sfv::{BareItem, Dictionary, List, ListEntry, Parameters, Parser};

fn limit(name: &str, remaining: u64, seconds: Option<u64>) -> ToldLimit<'_> {
    ToldLimit { name: name.into(), remaining, seconds, limit: None }
}

fn number(value: Option<&BareItem>) -> Option<u64> {
    let n = value?.as_integer()?;
    u64::try_from(i64::from(n)).ok()
}

fn parameter(parameters: &Parameters, key: &str) -> Option<u64> {
    let found = parameters.iter().find(|(name, _)| name.as_str() == key);
    number(found.map(|(_, value)| value))
}

/// What the field says by the oracle's reading of it.
fn by_the_oracle(field: &str) -> Option<Vec<(String, u64, Option<u64>)>> {
    if let Ok(list) = Parser::new(field).parse::<List>() {
        let told = list.iter().filter_map(|entry| {
            let ListEntry::Item(item) = entry else { return None };
            let name = match &item.bare_item {
                BareItem::String(name) => name.as_str().to_owned(),
                BareItem::Token(name) => name.as_str().to_owned(),
                _ => return None,
            };
            let of = |key| parameter(&item.params, key);
            Some((name, of("r").or_else(|| of("a"))?, of("t").or_else(|| of("w"))))
        });
        return Some(told.take(MAX_FIELD_ITEMS).collect());
    }
    let dictionary = Parser::new(field).parse::<Dictionary>().ok()?;
    let of = |key: &str| match dictionary.iter().find(|(name, _)| name.as_str() == key) {
        Some((_, ListEntry::Item(item))) => number(Some(&item.bare_item)),
        _ => None,
    };
    Some(of("remaining").map(|remaining| (String::new(), remaining, of("reset"))).into_iter().collect())
}

fn agree(field: &str) -> Result<(), String> {
    let ours = read_limit_field(field);
    let ours = ours.map(|told| {
        told.into_iter()
            .map(|told| (told.name.into_owned(), told.remaining, told.seconds))
            .collect::<Vec<_>>()
    });
    let theirs = by_the_oracle(field);
    if ours == theirs { Ok(()) } else { Err(format!("{field:?}: {ours:?}, and should be {theirs:?}")) }
}

#[test]
fn random_text_is_read_as_the_oracle_reads_it() {
    // Without the three marks of types whose values the oracle looks at more closely than their form.
    let text = r#"[ "\\;=,()?*a-zA-Z0-9._\t-]{0,24}"#;
    check("fields_text", 20_000, text, |field| agree(&field));
}

#[test]
fn fields_that_are_nearly_right_are_read_as_the_oracle_reads_them() {
    let number =
        || "(-?[0-9]{1,3}|[0-9]{14,17}|[0-9]{1,3}\\.[0-9]{1,4}|\\?[01]|\"7\"|:YWJj:|@17|%\"f%c3%bc\")";
    let parameter = ("[rtawq](x)?", number()).prop_map(|(key, value)| format!(";{key}={value}"));
    let name = || r#"("[a-c .\\]{0,4}"|[a-c*]{1,3}|\(a "b";r=1\)|[0-9]{1,2})"#;
    let item =
        (name(), prop::collection::vec(parameter, 0..4)).prop_map(|(name, rest)| name + &rest.concat());
    let pair = ("(limit|remaining|reset|other)", number()).prop_map(|(key, value)| format!("{key}={value}"));
    let list =
        (prop::collection::vec(item, 0..20), "( ?, ?|,\t| ,,)").prop_map(|(all, comma)| all.join(&comma));
    let fields =
        prop_oneof![4 => list, 1 => prop::collection::vec(pair, 1..5).prop_map(|all| all.join(", "))];
    check("fields_nearly", 8_000, fields, |field| agree(&field));
}

#[test]
fn arbitrary_text_is_no_reason_to_panic() {
    check("fields_any", 20_000, any::<String>(), |field| {
        let _ = (read_limit_field(&field), read_policy_field(&field));
        Ok(())
    });
}

#[test]
fn every_dialect_is_understood() {
    for (field, told) in [
        (r#""d";r=0;t=7"#, vec![limit("d", 0, Some(7))]),
        (r#""d";a=0;w=7"#, vec![limit("d", 0, Some(7))]),
        (r#""d";r=5;t=3;a=5;w=3"#, vec![limit("d", 5, Some(3))]),
        ("default;r=50;t=30", vec![limit("default", 50, Some(30))]),
        (r#""a";r=1, "b";r=2;t=9"#, vec![limit("a", 1, None), limit("b", 2, Some(9))]),
        (r#""say \"a\"";r=1"#, vec![limit(r#"say "a""#, 1, None)]),
        ("", vec![]),
        (r#""d""#, vec![]),
        (r#""d";r=-1;t=7"#, vec![]),
        (r#""d";r=1.5, "e";r=2"#, vec![limit("e", 2, None)]),
        (r#""d";r=1;t=-1"#, vec![limit("d", 1, None)]),
        (r#""d";r=1;r="x""#, vec![]),
        ("7;r=1", vec![]),
    ] {
        assert_eq!(read_limit_field(field), Some(told), "{field}");
    }
    let told = read_limit_field("limit=10, remaining=0, reset=7");
    assert_eq!(told, Some(vec![ToldLimit { limit: Some(10), ..limit("", 0, Some(7)) }]));
    for field in
        ["r=1, garbage@@", r#""d";r=1,"#, r#""d";r=1000000000000000"#, r#""d";R=1"#, r#""d" ;r=1"#, "\"d"]
    {
        assert_eq!(read_limit_field(field), None, "{field}");
    }
}

#[test]
fn policies_are_quotas_with_a_window() {
    let policy = |name: &'static str, units, seconds| ToldPolicy {
        name: name.into(),
        quota: Quota { units, seconds },
    };
    for (field, told) in [
        (
            r#""burst";q=10;w=1, "day";q=1000;w=86400"#,
            vec![policy("burst", 10, 1), policy("day", 1_000, 86_400)],
        ),
        ("100;w=60", vec![policy("", 100, 60)]),
        (r#""d";q=10"#, vec![]),
        (r#""d";q=10;w=0"#, vec![]),
        (r#""d";q=10;w=1;qu="content-bytes""#, vec![policy("d", 10, 1)]),
    ] {
        assert_eq!(read_policy_field(field), Some(told), "{field}");
    }
    assert_eq!(read_policy_field("limit=10"), None);
}

#[test]
fn a_field_has_bounds_and_they_are_where_they_are_said_to_be() {
    let items = |n: usize| vec!["a;r=1"; n].join(",");
    assert_eq!(read_limit_field(&items(MAX_FIELD_ITEMS)).map(|told| told.len()), Some(MAX_FIELD_ITEMS));
    assert_eq!(read_limit_field(&items(MAX_FIELD_ITEMS + 1)).map(|told| told.len()), Some(MAX_FIELD_ITEMS));
    let long = |bytes: usize| format!("a;r=1;x={}", "y".repeat(bytes - "a;r=1;x=".len()));
    assert!(read_limit_field(&long(MAX_FIELD_BYTES)).is_some());
    assert!(read_limit_field(&long(MAX_FIELD_BYTES + 1)).is_none());
}
