//! What the table says of a field is what the decoder does with it.

use ratekeeper_core::{MAX_AMOUNT, MAX_LOG_AMOUNT, MAX_WINDOW_US, Name, Rate};

use super::forms::{duration, size};
use super::{Form, LIMIT, Need, Place, Row, Status, all};
use crate::config::Config;
use crate::file::errors::ConfigErrors;
use crate::file::values::SIZES;
use crate::glob::MAX_GLOB_STARS;
use crate::hints::thousands;
use crate::key::KeyPart;
use crate::listen::{MAX_TOKEN_BYTES, MIN_TOKEN_BYTES};
use crate::stores::{MAX_PASSWORD_BYTES, MAX_PREFIX_BYTES, MAX_USERNAME_BYTES};

/// What stands around a place, and how deep its fields are.
fn around(path: &str) -> (&'static str, usize) {
    match path {
        "the file" => ("", 0),
        "listen" => ("listen:\n", 2),
        "listen.http" => ("listen:\n  http:\n", 4),
        "listen.admin" => ("listen:\n  admin:\n", 4),
        "listen.http.tls" => ("listen:\n  http:\n    address: 127.0.0.1:8080\n    tls:\n", 6),
        "log" => ("log:\n", 2),
        "client_ip" => ("client_ip:\n", 2),
        "cors" => ("cors:\n", 2),
        "stores.NAME" => ("stores:\n  local:\n", 4),
        "stores.NAME.memory" => ("stores:\n  local:\n    memory:\n", 6),
        "stores.NAME.redis" => ("stores:\n  local:\n    redis:\n", 6),
        "defaults" => ("defaults:\n", 2),
        "policies[]" => (
            "policies:\n  - { name: api, key: [ip], limits: [{ name: a, algorithm: gcra, limit: 1/s }] }\n  -\n",
            4,
        ),
        "policies[].match" => ("policies:\n  - name: p\n    key: [ip]\n    action: block\n    match:\n", 6),
        "policies[].cost" => ("policies:\n  - name: p\n    key: [ip]\n    action: block\n    cost:\n", 6),
        "policies[].limits[]" => ("policies:\n  - name: p\n    key: [ip]\n    limits:\n      -\n", 8),
        "policies[].overrides[]" => (
            "policies:\n  - name: p\n    key: [header:x]\n    limits: [{ name: minute, algorithm: gcra, limit: 300/minute }]\n    overrides:\n      -\n",
            8,
        ),
        "policies[].overrides[].limits.NAME" => (
            "policies:\n  - name: p\n    key: [header:x]\n    limits: [{ name: a, algorithm: ALGORITHM, limit: 1000000000/s }]\n    overrides:\n      - key: x\n        limits:\n          a:\n",
            12,
        ),
        other => panic!("{other} is a place that this test does not know"),
    }
}

/// What else has to be there for a field to have this value.
fn beside(path: &str, field: &str, value: &str) -> Vec<(&'static str, &'static str)> {
    let name = ("name", "p");
    let limits = ("limits", "[{ name: burst, algorithm: gcra, limit: 10/s }]");
    match (path, field) {
        ("the file", _) => vec![("version", "1")],
        ("listen.http" | "listen.admin", _) => vec![("address", "127.0.0.1:8080")],
        ("listen.http.tls", _) => vec![("cert", "a.pem"), ("key", "a.key")],
        ("stores.NAME.redis", "username") => vec![("url", "redis://h"), ("password", "x")],
        ("stores.NAME.redis", _) => vec![("url", "redis://h")],
        ("policies[]", "action") => vec![name],
        ("policies[]", _) => vec![name, ("key", "[header:x]"), limits],
        ("policies[].cost", _) => vec![("header", "x-cost"), ("max", "100")],
        ("policies[].overrides[]", "action") => vec![("key", "x")],
        ("policies[].overrides[]", _) => vec![("key", "x"), ("limits", "{ minute: 5/minute }")],
        ("policies[].limits[]", field) => {
            let mut beside = vec![("name", "a"), ("limit", "1000000000/day")];
            beside.push((
                "algorithm",
                match field {
                    "queue" | "max_wait" => "leaky-bucket",
                    "align" | "timezone" => "fixed-window",
                    _ => "gcra",
                },
            ));
            match field {
                "max_wait" => beside.push(("queue", "5")),
                "timezone" => beside.push(("align", "calendar")),
                "align" if value == "calendar" => beside.push(("timezone", "UTC")),
                // A log has a bound of its own.
                "algorithm" => beside.retain(|(name, _)| *name != "limit"),
                _ => {}
            }
            if field == "algorithm" {
                beside.push(("limit", "10/s"));
            }
            beside
        }
        _ => Vec::new(),
    }
}

/// A file in which a field is written so; without the field if it is `None`, on lines that are the same.
fn file(place: &Place, field: &str, value: Option<&str>) -> String {
    let (around, depth) = around(place.path);
    let algorithm = if matches!(field, "queue" | "max_wait") { "leaky-bucket, queue: 5" } else { "gcra" };
    let mut text = if depth > 0 { "version: 1\n".to_owned() } else { String::new() };
    text.push_str(&around.replace("ALGORITHM", algorithm));
    let indent = " ".repeat(depth);
    let mut others = 0;
    for (name, value) in beside(place.path, field, value.unwrap_or_default()) {
        if name != field {
            text.push_str(&format!("{indent}{name}: {value}\n"));
            others += 1;
        }
    }
    match value {
        Some(value) => text.push_str(&format!("{indent}{field}: {value}\n")),
        // A mapping that would be empty is written as one.
        None if others == 0 => text = text.trim_end().to_owned() + " {}\n",
        None => {}
    }
    text
}

fn parse(text: &str) -> Result<Config, ConfigErrors> {
    let token = |name: &str| (name == "ADMIN_TOKEN").then(|| "0123456789abcdef".to_owned());
    Config::parse("ratekeeper.yaml", text.as_bytes(), &token)
}

#[track_caller]
fn accepted(place: &Place, field: &str, value: &str) -> Config {
    let text = file(place, field, Some(value));
    parse(&text).unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

#[track_caller]
fn refused(place: &Place, field: &str, value: &str, code: &str) {
    let text = file(place, field, Some(value));
    let errors = parse(&text).expect_err(&text);
    let codes: Vec<&str> = errors.items.iter().map(|item| item.code).collect();
    assert_eq!(codes, [code], "{text}\n{errors}");
}

fn rows() -> impl Iterator<Item = (&'static Place, &'static str, &'static Row)> {
    all().0.into_iter().flat_map(|place| place.rows().map(move |(name, row)| (place, name, row)))
}

/// A form, or those that it lets choose.
fn choices(form: &'static Form) -> Vec<&'static Form> {
    match form {
        Form::Either(forms) => forms.iter().collect(),
        form => vec![form],
    }
}

#[test]
fn every_place_of_the_decoder_is_reached_from_the_top() {
    let (places, grammars) = all();
    assert_eq!(places.len(), 18);
    let mut paths: Vec<&str> =
        places.iter().map(|place| place.path).chain(grammars.iter().map(|g| g.name)).collect();
    paths.sort_unstable();
    let all = paths.len();
    paths.dedup();
    assert_eq!(paths.len(), all, "a path is there twice");
}

#[test]
fn every_example_is_accepted() {
    let mut number = 0;
    for (place, name, row) in rows() {
        accepted(place, name, row.example);
        number += 1;
    }
    assert!(number > 60, "{number}");
}

#[test]
fn what_is_called_a_default_is_what_holds_without_the_field() {
    let meaning = |config: &Config| {
        let policies: Vec<String> = config.policies.iter().map(|policy| format!("{policy:?}")).collect();
        format!(
            "{:?} {:?} {:?} {:?} {policies:?}",
            config.listen, config.log, config.client_ip, config.stores
        )
    };
    let mut number = 0;
    for (place, name, row) in rows() {
        let Need::Default(value) = row.need else { continue };
        let without = file(place, name, None);
        let config = parse(&without).unwrap_or_else(|errors| panic!("{without}\n{errors}"));
        assert_eq!(meaning(&config), meaning(&accepted(place, name, value)), "{}: {name}", place.path);
        number += 1;
    }
    assert!(number > 15, "{number}");
}

#[test]
fn what_is_called_required_is_missed() {
    for (place, name, row) in rows() {
        if matches!(row.need, Need::Required) {
            let text = file(place, name, None);
            let errors = parse(&text).expect_err(&text);
            assert_eq!(errors.items[0].code, "missing-field", "{text}\n{errors}");
        }
    }
}

#[test]
fn the_bounds_of_numbers_are_accepted_and_one_past_them_is_not() {
    let mut number = 0;
    for (place, name, row) in rows() {
        for form in choices(&row.form) {
            let (least, most) = match form {
                Form::Number(least, most) | Form::Duration(least, most) | Form::Size(least, most) => {
                    (*least, *most)
                }
                _ => continue,
            };
            let write = |number: u64| match form {
                Form::Duration(..) => duration(number),
                Form::Size(..) => size(number),
                _ => number.to_string(),
            };
            let code = if name == "version" { "unsupported-version" } else { "out-of-range" };
            accepted(place, name, &write(least));
            if least > 0 {
                refused(place, name, &write(least - 1), code);
            }
            if most < u64::MAX {
                accepted(place, name, &write(most));
                refused(place, name, &write(most + 1), code);
            }
            number += 1;
        }
    }
    assert!(number >= 12, "{number}");
}

#[test]
fn every_word_is_accepted_and_another_is_not() {
    let mut number = 0;
    for (place, name, row) in rows() {
        if let Form::Words(words) = row.form {
            words.iter().for_each(|word| drop(accepted(place, name, word)));
            refused(place, name, "nonesuch", "unknown-word");
            number += words.len();
        }
    }
    assert!(number > 30, "{number}");
}

#[test]
fn names_of_a_place_are_known_once() {
    for place in all().0 {
        let mut names: Vec<&str> = place.names().collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{}", place.path);
        let later = place.fields.iter().filter(|field| matches!(field.status, Status::Later(_))).count();
        assert_eq!(place.built_names().count(), all - later);
    }
}

#[test]
fn docs_are_sentences() {
    for place in all().0 {
        assert!(place.doc.ends_with('.'), "{}", place.doc);
        for (_, row) in place.rows() {
            assert!(
                row.doc.ends_with('.') && row.doc.starts_with(|c: char| !c.is_lowercase()),
                "{}",
                row.doc
            );
        }
    }
}

#[test]
fn bounds_in_words_are_those_of_the_code() {
    let doc = |name: &str| all().1.into_iter().find(|grammar| grammar.name == name).expect(name).doc;
    let has = |name: &str, said: &str| assert!(doc(name).contains(said), "{name}: {said}");
    has("name", &format!("1 to {} ", Name::MAX_LEN));
    has("prefix", &format!("1 to {MAX_PREFIX_BYTES} "));
    has("user", &format!("at most {MAX_USERNAME_BYTES} "));
    has("password", &format!("at most {} ", thousands(MAX_PASSWORD_BYTES as u64)));
    has("token", &format!("{MIN_TOKEN_BYTES} to {} ", thousands(MAX_TOKEN_BYTES as u64)));
    has("rate", &format!("1 to {} ", thousands(MAX_AMOUNT)));
    has("rate", &format!("at most {} days", MAX_WINDOW_US / 86_400_000_000));
    Rate::UNITS.iter().for_each(|unit| has("rate", &format!("`{unit}`")));
    Rate::SUFFIXES.iter().for_each(|suffix| has("duration", &format!("`{suffix}`")));
    SIZES.iter().for_each(|(unit, _)| has("size", &format!("`{unit}`")));
    KeyPart::kinds().for_each(|(kind, named)| match named {
        Some(true) => has("kind of key", &format!("`{kind}:NAME`")),
        _ => has("kind of key", &format!("`{kind}`")),
    });
    has("pattern", &format!("at most {MAX_GLOB_STARS} of them"));
    let limit = LIMIT.rows().find(|(name, _)| *name == "limit").expect("a limit").1.doc;
    assert!(limit.contains(&format!("at most {}.", thousands(MAX_LOG_AMOUNT))), "{limit}");
}
