//! The schema for editors: it accepts what the decoder accepts, and refuses what a schema can know to be wrong.

mod checker;
mod yaml;

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use ratekeeper_policy::{Config, json_schema};
use serde_json::Value;

use crate::{codes, mistakes, parse};
use checker::Schema;

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::new(&json_schema()));

/// # Panics
/// If the schema refuses a file.
#[track_caller]
pub(crate) fn accepts(text: &str) {
    let flaws = SCHEMA.flaws(&yaml::read(text).expect("YAML"));
    assert!(flaws.is_empty(), "the schema refuses what can be used: {flaws:#?}\n{text}");
}

fn is_refused(text: &str) -> bool {
    yaml::read(text).is_none_or(|value| !SCHEMA.flaws(&value).is_empty())
}

/// All schemas within a schema.
fn within<'s>(schema: &'s Value, found: &mut Vec<&'s Value>) {
    match schema {
        Value::Object(members) => {
            found.push(schema);
            members.values().for_each(|member| within(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| within(item, found)),
        _ => {}
    }
}

#[test]
fn it_is_a_schema_whose_defaults_and_examples_it_accepts_itself() {
    let root = SCHEMA.root();
    assert_eq!(root["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let mut schemas = Vec::new();
    within(root, &mut schemas);
    let mut values = 0;
    for schema in &schemas {
        let examples = schema.get("examples").and_then(Value::as_array).into_iter().flatten();
        for value in examples.chain(schema.get("default")) {
            assert!(SCHEMA.accepts(schema, value), "{value}: {schema}");
            values += 1;
        }
    }
    assert!(values > 80, "{values}");
    let definitions = root["$defs"].as_object().expect("definitions");
    for name in definitions.keys() {
        let pointer = format!("#/$defs/{name}");
        let is_used =
            schemas.iter().any(|schema| schema.get("$ref").is_some_and(|target| *target == *pointer));
        assert!(is_used, "nothing is a {name}");
    }
}

#[test]
fn every_field_has_a_description_and_an_example_and_no_mapping_takes_others() {
    let mut schemas = Vec::new();
    within(SCHEMA.root(), &mut schemas);
    let mut fields = 0;
    for schema in schemas {
        let Some(Value::Object(properties)) = schema.get("properties") else { continue };
        // Conditions have properties too.
        if schema.get("type").is_none() {
            continue;
        }
        assert_eq!(schema["additionalProperties"], Value::Bool(false));
        for (name, field) in properties {
            assert!(field["description"].is_string() && field["examples"].is_array(), "{name}");
            fields += 1;
        }
    }
    assert!(fields > 60, "{fields}");
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All files below a folder that end so.
fn files(folder: &Path, ends: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, ends, found);
        } else if path.extension().is_some_and(|extension| extension == ends) {
            found.push(path);
        }
    }
}

/// The blocks of YAML of a page that are whole configurations.
fn configurations(page: &str) -> impl Iterator<Item = &str> {
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| block.lines().any(|line| line.starts_with("version:")))
}

#[test]
fn every_configuration_of_the_repository_is_accepted() {
    let (mut pages, mut texts) = (Vec::new(), Vec::new());
    let root = repository();
    for folder in ["examples", "deploy/config", "crates/ratekeeper-server/src/cli"] {
        let mut found = Vec::new();
        files(&root.join(folder), "yaml", &mut found);
        assert!(!found.is_empty(), "{folder}");
        texts.extend(found.iter().map(|path| std::fs::read_to_string(path).expect("UTF-8")));
    }
    ["examples", "docs"].iter().for_each(|folder| files(&root.join(folder), "md", &mut pages));
    pages.push(root.join("README.md"));
    let pages: Vec<String> = pages.iter().map(|path| std::fs::read_to_string(path).expect("UTF-8")).collect();
    texts.extend(pages.iter().flat_map(|page| configurations(page)).map(str::to_owned));
    assert!(texts.len() >= 10, "{}", texts.len());
    for text in texts {
        let token = |name: &str| (name == "RATEKEEPER_ADMIN_TOKEN").then(|| "0123456789abcdef".to_owned());
        Config::parse("ratekeeper.yaml", text.as_bytes(), &token).unwrap_or_else(|errors| panic!("{errors}"));
        accepts(&text);
    }
}

/// Mistakes by their codes that a schema is there to find.
const ITS_BUSINESS: [&str; 15] = [
    "unknown-field",
    "not-available",
    "missing-field",
    "wrong-type",
    "unknown-word",
    "empty",
    "bad-number",
    "bad-size",
    "bad-duration",
    "bad-limit",
    "bad-name",
    "bad-key",
    "bad-address",
    "out-of-range",
    "option-not-taken",
];

/// Those of them that it cannot find, and why.
const NOT_FOUND: [(&str, &str); 8] = [
    ("windows that a Redis store cannot count", "it depends on the store of the policy"),
    ("overrides that would do nothing, or something else, are said", "it depends on the key of the policy"),
    ("a window above 366 days", "a pattern does not multiply a count by its unit"),
    ("deadlines out of range", "the same"),
    ("a bucket that takes more than 366 days to fill", "that is a quotient of two fields"),
    ("a capacity that takes more than 366 days to fill is pointed at", "the same"),
    ("a quoted variable is text", "a schema sees values, not their quotes"),
    ("variables in quotes", "the same"),
];

#[test]
fn it_refuses_each_mistake_that_is_its_business_but_those_named() {
    let mut found = 0;
    for (title, file, _) in mistakes::cases() {
        let codes = codes(file);
        if !codes.iter().any(|code| ITS_BUSINESS.contains(code)) {
            continue;
        }
        let excused = NOT_FOUND.iter().any(|(name, _)| *name == title);
        assert_eq!(is_refused(file), !excused, "{title}: {codes:?}");
        found += 1;
    }
    assert!(found > 70, "{found}");
}

#[test]
fn variables_stand_for_numbers_words_and_texts() {
    let file = "version: ${A:-1}
listen:
  http:
    address: ${A:-127.0.0.1}:${A:-8080}
    deadline: ${A:-50ms}
    max_connections: ${A:-10}
stores:
  local:
    memory:
      max_keys: ${A:-10}
      max_bytes: ${A:-10}MiB
      on_full: ${A:-deny}
policies:
  - name: ${A:-a}
    key:
      - header:${A:-x}
    mode: ${A:-shadow}
    cost: ${A:-2}
    retry_jitter: ${A:-0.5}
    limits:
      - name: ${A:-a}
        algorithm: ${A:-gcra}
        limit: ${A:-10}/s
        burst: ${A:-20}
";
    assert_eq!(codes(file), [""; 0]);
    accepts(file);
    // What is no variable is refused where a number belongs.
    assert!(is_refused(&file.replace("max_keys: ${A:-10}", "max_keys: ten")));
    assert!(is_refused(&file.replace("burst: ${A:-20}", "burst: $A")));
}

#[test]
fn scalars_that_look_like_numbers_are_accepted_where_they_are_text() {
    let file = "version: 1
listen:
  admin:
    address: 127.0.0.1:9090
    token: 12345678901234567890
policies:
  - name: '1'
    key: ['header:1', ip]
    limits: [{ name: '2', algorithm: gcra, limit: 10/s, burst: 20 }]
    overrides: [{ key: '12', limits: { '2': 20/s } }]
";
    assert!(parse(file).is_ok());
    for (right, wrong) in [("name: '1'", "name: 1"), ("burst: 20", "burst: '20'"), ("key: '12'", "key: 12")] {
        let file = file.replace(right, wrong);
        assert!(parse(&file).is_err() && is_refused(&file), "{wrong}");
    }
}
