//! As much of JSON Schema as our schema uses. It knows nothing of the product: what a keyword means is what the standard says.

use std::collections::HashMap;

use regex_lite::Regex;
use serde_json::{Map, Value};

/// What the standard says a keyword takes.
#[derive(Clone, Copy, PartialEq)]
enum Takes {
    Text,
    Pattern,
    Count,
    Flag,
    Any,
    /// A list that is not empty.
    Values,
    /// Names, each once.
    Names,
    Types,
    Schema,
    Schemas,
    /// A schema or `false`.
    SchemaOrFlag,
    Members,
}

const KEYWORDS: [(&str, Takes); 28] = [
    ("$schema", Takes::Text),
    ("$ref", Takes::Text),
    ("$defs", Takes::Members),
    ("title", Takes::Text),
    ("description", Takes::Text),
    ("default", Takes::Any),
    ("examples", Takes::Values),
    ("type", Takes::Types),
    ("enum", Takes::Values),
    ("const", Takes::Any),
    ("pattern", Takes::Pattern),
    ("minimum", Takes::Count),
    ("maximum", Takes::Count),
    ("items", Takes::Schema),
    ("minItems", Takes::Count),
    ("maxItems", Takes::Count),
    ("uniqueItems", Takes::Flag),
    ("properties", Takes::Members),
    ("propertyNames", Takes::Schema),
    ("additionalProperties", Takes::SchemaOrFlag),
    ("required", Takes::Names),
    ("minProperties", Takes::Count),
    ("maxProperties", Takes::Count),
    ("allOf", Takes::Schemas),
    ("anyOf", Takes::Schemas),
    ("oneOf", Takes::Schemas),
    ("not", Takes::Schema),
    ("if", Takes::Schema),
];

pub(crate) struct Schema {
    root: Value,
    patterns: HashMap<String, Regex>,
}

impl Schema {
    /// Reads a schema.
    ///
    /// # Panics
    /// If it is none.
    pub(crate) fn new(text: &str) -> Self {
        let root = serde_json::from_str(text).expect("JSON");
        let mut schema = Self { root, patterns: HashMap::new() };
        let root = schema.root.clone();
        schema.learn(&root, "#");
        schema
    }

    pub(crate) const fn root(&self) -> &Value {
        &self.root
    }

    /// Checks a schema within the schema, and reads its patterns.
    fn learn(&mut self, schema: &Value, at: &str) {
        let members = schema.as_object().unwrap_or_else(|| panic!("{at} is no schema"));
        for (keyword, value) in members {
            let at = format!("{at}/{keyword}");
            if keyword == "then" {
                assert!(members.contains_key("if"), "{at} without `if`");
                self.learn(value, &at);
                continue;
            }
            let (_, takes) = KEYWORDS
                .iter()
                .find(|(known, _)| known == keyword)
                .unwrap_or_else(|| panic!("{at} is not known here"));
            self.learn_keyword(value, *takes, &at);
        }
        if let Some(target) = members.get("$ref") {
            let target = self.target(target);
            assert!(target.is_object(), "{at} leads nowhere");
        }
        if let (Some(names), Some(Value::Object(properties))) =
            (members.get("required"), members.get("properties"))
            && members.contains_key("additionalProperties")
        {
            let is_there = |name: &Value| properties.contains_key(name.as_str().expect("a name"));
            assert!(
                names.as_array().expect("names").iter().all(is_there),
                "{at} requires what it does not take"
            );
        }
    }

    fn learn_keyword(&mut self, value: &Value, takes: Takes, at: &str) {
        let list =
            || value.as_array().filter(|list| !list.is_empty()).unwrap_or_else(|| panic!("{at} is no list"));
        match takes {
            Takes::Any => {}
            Takes::Text => assert!(value.is_string(), "{at}"),
            Takes::Count => assert!(value.is_u64(), "{at}"),
            Takes::Flag => assert!(value.is_boolean(), "{at}"),
            Takes::Pattern => {
                let pattern = value.as_str().unwrap_or_else(|| panic!("{at}"));
                let regex = Regex::new(pattern).unwrap_or_else(|wrong| panic!("{at}: {wrong}"));
                self.patterns.insert(pattern.to_owned(), regex);
            }
            Takes::Values => assert!(!list().is_empty(), "{at}"),
            Takes::Names => {
                let names: Vec<&str> = list().iter().map(|name| name.as_str().expect("a name")).collect();
                assert!(names.iter().enumerate().all(|(i, name)| !names[..i].contains(name)), "{at}: twice");
            }
            Takes::Types => {
                let known = ["null", "boolean", "integer", "number", "string", "array", "object"];
                assert!(types(value).all(|name| known.contains(&name)), "{at}");
            }
            Takes::Schema => self.learn(value, at),
            Takes::SchemaOrFlag => {
                if !value.is_boolean() {
                    self.learn(value, at);
                }
            }
            Takes::Schemas => list().iter().for_each(|schema| self.learn(schema, at)),
            Takes::Members => {
                for (name, schema) in value.as_object().unwrap_or_else(|| panic!("{at}")) {
                    self.learn(schema, &format!("{at}/{name}"));
                }
            }
        }
    }

    pub(crate) fn target(&self, reference: &Value) -> &Value {
        let pointer = reference.as_str().and_then(|text| text.strip_prefix('#')).expect("within the file");
        self.root.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// Why a value is refused; empty if it is accepted.
    pub(crate) fn flaws(&self, value: &Value) -> Vec<String> {
        let mut flaws = Vec::new();
        self.judge(&self.root, value, "", &mut flaws);
        flaws
    }

    pub(crate) fn accepts(&self, schema: &Value, value: &Value) -> bool {
        let mut flaws = Vec::new();
        self.judge(schema, value, "", &mut flaws);
        flaws.is_empty()
    }

    fn judge(&self, schema: &Value, value: &Value, at: &str, flaws: &mut Vec<String>) {
        let members = schema.as_object().expect("a schema");
        for (keyword, wanted) in members {
            let schemas = || wanted.as_array().into_iter().flatten();
            let holds = match keyword.as_str() {
                "$ref" => {
                    self.judge(self.target(wanted), value, at, flaws);
                    true
                }
                "type" => types(wanted).any(|name| is_a(name, value)),
                "enum" => schemas().any(|known| known == value),
                "const" => wanted == value,
                "pattern" => value.as_str().is_none_or(|text| self.fits(wanted, text)),
                "minimum" => value.as_f64().is_none_or(|number| Some(number) >= wanted.as_f64()),
                "maximum" => value.as_f64().is_none_or(|number| Some(number) <= wanted.as_f64()),
                "allOf" => {
                    schemas().for_each(|schema| self.judge(schema, value, at, flaws));
                    true
                }
                "anyOf" => schemas().any(|schema| self.accepts(schema, value)),
                "oneOf" => schemas().filter(|schema| self.accepts(schema, value)).count() == 1,
                "not" => !self.accepts(wanted, value),
                "if" => {
                    if self.accepts(wanted, value) {
                        self.judge(&members["then"], value, at, flaws);
                    }
                    true
                }
                _ => match value {
                    Value::Array(items) => self.holds_of_list(keyword, wanted, items, at, flaws),
                    Value::Object(fields) => self.holds_of_map(keyword, wanted, members, fields, at, flaws),
                    _ => true,
                },
            };
            if !holds {
                flaws.push(format!("{at}: {keyword} is not met by {value}"));
            }
        }
    }

    fn holds_of_list(
        &self,
        keyword: &str,
        wanted: &Value,
        items: &[Value],
        at: &str,
        flaws: &mut Vec<String>,
    ) -> bool {
        match keyword {
            "items" => {
                for (i, item) in items.iter().enumerate() {
                    self.judge(wanted, item, &format!("{at}/{i}"), flaws);
                }
                true
            }
            "minItems" => items.len() as u64 >= count(wanted),
            "maxItems" => items.len() as u64 <= count(wanted),
            "uniqueItems" => items.iter().enumerate().all(|(i, item)| !items[..i].contains(item)),
            _ => true,
        }
    }

    fn holds_of_map(
        &self,
        keyword: &str,
        wanted: &Value,
        schema: &Map<String, Value>,
        fields: &Map<String, Value>,
        at: &str,
        flaws: &mut Vec<String>,
    ) -> bool {
        match keyword {
            "properties" => {
                for (name, schema) in wanted.as_object().into_iter().flatten() {
                    if let Some(value) = fields.get(name) {
                        self.judge(schema, value, &format!("{at}/{name}"), flaws);
                    }
                }
                true
            }
            "additionalProperties" => {
                let known =
                    |name: &str| schema.get("properties").is_some_and(|known| known.get(name).is_some());
                for (name, value) in fields.iter().filter(|(name, _)| !known(name)) {
                    match wanted {
                        Value::Bool(false) => flaws.push(format!("{at}: {name} is not known")),
                        wanted => self.judge(wanted, value, &format!("{at}/{name}"), flaws),
                    }
                }
                true
            }
            "propertyNames" => fields.keys().all(|name| self.accepts(wanted, &Value::String(name.clone()))),
            "required" => {
                let names = wanted.as_array().into_iter().flatten().filter_map(Value::as_str);
                let missing: Vec<&str> = names.filter(|name| !fields.contains_key(*name)).collect();
                missing.is_empty()
            }
            "minProperties" => fields.len() as u64 >= count(wanted),
            "maxProperties" => fields.len() as u64 <= count(wanted),
            _ => true,
        }
    }

    fn fits(&self, pattern: &Value, text: &str) -> bool {
        self.patterns[pattern.as_str().expect("a pattern")].is_match(text)
    }
}

fn count(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn types(value: &Value) -> impl Iterator<Item = &str> {
    let one = value.as_str();
    one.into_iter().chain(value.as_array().into_iter().flatten().filter_map(Value::as_str))
}

fn is_a(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => {
            value.is_u64() || value.is_i64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        _ => value.is_object(),
    }
}

#[test]
fn each_keyword_refuses_something() {
    let refuses = |schema: &str, good: &str, bad: &str| {
        let schema = Schema::new(schema);
        let value = |text: &str| serde_json::from_str(text).expect("JSON");
        assert_eq!(schema.flaws(&value(good)), [""; 0]);
        assert!(!schema.flaws(&value(bad)).is_empty(), "{} accepts {bad}", schema.root());
    };
    refuses(r##"{"$ref":"#/$defs/a","$defs":{"a":{"type":"string"}}}"##, r#""x""#, "1");
    refuses(r#"{"type":["string","integer"]}"#, "1", "1.5");
    refuses(r#"{"enum":["a",1]}"#, "1", "2");
    refuses(r#"{"const":"a"}"#, r#""a""#, r#""b""#);
    refuses(r#"{"pattern":"^a+$|b"}"#, r#""aa""#, r#""ac""#);
    refuses(r#"{"minimum":1,"maximum":3}"#, "1", "0");
    refuses(r#"{"minimum":1,"maximum":3}"#, "3", "3.5");
    refuses(r#"{"items":{"type":"integer"},"minItems":1,"maxItems":2}"#, "[1]", "[]");
    refuses(r#"{"items":{"type":"integer"},"minItems":1,"maxItems":2}"#, "[1,2]", "[1,2,3]");
    refuses(r#"{"items":{"type":"integer"}}"#, "[1]", r#"["x"]"#);
    refuses(r#"{"uniqueItems":true}"#, "[1,2]", "[1,1]");
    refuses(
        r#"{"properties":{"a":{"type":"string"}},"additionalProperties":false}"#,
        r#"{"a":""}"#,
        r#"{"b":""}"#,
    );
    refuses(r#"{"additionalProperties":{"type":"string"}}"#, r#"{"a":""}"#, r#"{"a":1}"#);
    refuses(r#"{"propertyNames":{"pattern":"^a"}}"#, r#"{"ab":1}"#, r#"{"b":1}"#);
    refuses(r#"{"required":["a"]}"#, r#"{"a":1}"#, "{}");
    refuses(r#"{"minProperties":1,"maxProperties":1}"#, r#"{"a":1}"#, "{}");
    refuses(r#"{"minProperties":1,"maxProperties":1}"#, r#"{"a":1}"#, r#"{"a":1,"b":1}"#);
    refuses(r#"{"allOf":[{"type":"integer"},{"minimum":2}]}"#, "2", "1");
    refuses(r#"{"anyOf":[{"type":"string"},{"minimum":2}]}"#, "2", "1");
    refuses(r#"{"oneOf":[{"required":["a"]},{"required":["b"]}]}"#, r#"{"a":1}"#, r#"{"a":1,"b":1}"#);
    refuses(r#"{"not":{"required":["a"]}}"#, "{}", r#"{"a":1}"#);
    refuses(r#"{"if":{"required":["a"]},"then":{"required":["b"]}}"#, "{}", r#"{"a":1}"#);
}
