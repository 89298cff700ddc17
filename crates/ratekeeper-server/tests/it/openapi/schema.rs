//! The part of JSON Schema that `docs/openapi.yaml` uses. Stricter than the standard in one point: a field that is
//! not listed is a flaw unless `additionalProperties` says otherwise, so that nothing is answered undocumented.

use serde_json::{Map, Value};

/// All keywords that may be used; `flaws` knows those of the first line, the others say nothing of a value.
const KEYWORDS: [&str; 16] = [
    "$ref",
    "allOf",
    "anyOf",
    "type",
    "enum",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "maxItems",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    // Annotations.
    "default",
    "description",
];

/// The whole file.
pub(crate) struct Spec(pub(crate) Value);

impl Spec {
    /// What is meant by a node: itself, or what its `$ref` points at.
    pub(crate) fn resolve<'s>(&'s self, node: &'s Value) -> &'s Value {
        let Some(pointer) = node.get("$ref").and_then(Value::as_str) else { return node };
        let place = pointer.strip_prefix('#').unwrap_or_else(|| panic!("{pointer} leads out of the file"));
        self.resolve(self.0.pointer(place).unwrap_or_else(|| panic!("{pointer} leads nowhere")))
    }

    /// What is wrong with a value.
    pub(crate) fn flaws(&self, schema: &Value, value: &Value, at: &str) -> Vec<String> {
        for keyword in schema.as_object().expect("a schema is an object").keys() {
            assert!(KEYWORDS.contains(&keyword.as_str()), "{at}: `{keyword}` is not checked by this test");
        }
        let schema = self.resolve(schema);
        let mut flaws = Vec::new();
        let mut flaw = |says: String| flaws.push(format!("{at}: {value} {says}"));
        if let Some(kinds) = schema.get("type")
            && !list_or_one(kinds).any(|kind| is_a(kind, value))
        {
            flaw(format!("is no {kinds}"));
        }
        if let Some(known) = schema.get("enum").and_then(Value::as_array)
            && !known.contains(value)
        {
            flaw("is not listed".to_owned());
        }
        let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_u64);
        if let Some(number) = value.as_u64() {
            if bound("minimum").is_some_and(|least| number < least) {
                flaw("is too small".to_owned());
            }
            if bound("maximum").is_some_and(|most| number > most) {
                flaw("is too large".to_owned());
            }
        }
        let length = value.as_str().map_or(0, |text| text.chars().count() as u64);
        if value.is_string()
            && (bound("minLength").is_some_and(|least| length < least)
                || bound("maxLength").is_some_and(|most| length > most))
        {
            flaw("is too short or too long".to_owned());
        }
        if let Some(items) = value.as_array() {
            if bound("maxItems").is_some_and(|most| items.len() as u64 > most) {
                flaw("has too many items".to_owned());
            }
            match schema.get("items") {
                Some(schema) => {
                    for (index, item) in items.iter().enumerate() {
                        flaws.extend(self.flaws(schema, item, &format!("{at}/{index}")));
                    }
                }
                // A choice says it in its parts.
                None if schema.get("anyOf").is_some() => {}
                None => flaws.push(format!("{at} has items that are not documented")),
            }
        }
        if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
            let each: Vec<_> = choices.iter().map(|choice| self.flaws(choice, value, at)).collect();
            if each.iter().all(|flaws| !flaws.is_empty()) {
                flaws.extend(each.into_iter().flatten());
            }
        } else if let Some(fields) = value.as_object() {
            flaws.extend(self.flaws_of_object(schema, fields, at));
        }
        flaws
    }

    fn flaws_of_object(&self, schema: &Value, fields: &Map<String, Value>, at: &str) -> Vec<String> {
        let mut parts = vec![schema];
        for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            parts.push(self.resolve(part));
        }
        let mut flaws = Vec::new();
        for name in parts.iter().filter_map(|part| part.get("required")?.as_array()).flatten() {
            let name = name.as_str().expect("a name");
            if !fields.contains_key(name) {
                flaws.push(format!("{at}/{name} is missing"));
            }
        }
        for (name, value) in fields {
            let at = format!("{at}/{name}");
            let known = parts.iter().find_map(|part| part.get("properties")?.get(name));
            match known.or_else(|| parts.iter().find_map(|part| part.get("additionalProperties"))) {
                Some(Value::Bool(true)) => {}
                Some(schema @ Value::Object(_)) => flaws.extend(self.flaws(schema, value, &at)),
                _ => flaws.push(format!("{at} is not documented")),
            }
        }
        flaws
    }
}

fn list_or_one(kinds: &Value) -> impl Iterator<Item = &str> {
    kinds
        .as_array()
        .map_or_else(|| std::slice::from_ref(kinds), Vec::as_slice)
        .iter()
        .filter_map(Value::as_str)
}

fn is_a(kind: &str, value: &Value) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("`{other}` is no type that is used here"),
    }
}

#[test]
fn what_differs_from_a_schema_is_found() {
    let spec = Spec(super::yaml::read(
        "s: { type: object, required: [a], properties: { a: { type: integer, minimum: 1, maximum: 3 },
          b: { type: [string, 'null'], enum: [x, null] }, c: { type: array, maxItems: 1, items: { type: string } } } }
t: { allOf: [{ $ref: '#/s' }], required: [d], properties: { d: { type: string, maxLength: 2 } } }
u: { anyOf: [{ $ref: '#/s' }, { $ref: '#/t' }] }",
    ));
    let flaws = |name: &str, value: &str| {
        let value = serde_json::from_str(value).expect("JSON");
        spec.flaws(&spec.0[name], &value, "").len()
    };
    assert_eq!(flaws("s", r#"{"a":1,"b":null,"c":["y"]}"#), 0);
    for wrong in [
        "[]",
        "1",
        "{}",
        r#"{"a":0}"#,
        r#"{"a":4}"#,
        r#"{"a":"1"}"#,
        r#"{"a":1,"b":"y"}"#,
        r#"{"a":1,"d":"y"}"#,
        r#"{"a":1,"c":["y","y"]}"#,
        r#"{"a":1,"c":[1]}"#,
    ] {
        assert!(flaws("s", wrong) > 0, "{wrong}");
    }
    assert_eq!((flaws("t", r#"{"a":1,"d":"yy"}"#), flaws("u", r#"{"a":1,"d":"yy"}"#)), (0, 0));
    assert_eq!(
        (flaws("t", r#"{"a":1,"d":"yyy"}"#), flaws("t", r#"{"a":1}"#), flaws("t", r#"{"d":"y"}"#)),
        (1, 1, 1)
    );
    assert!(flaws("u", r#"{"a":1,"e":1}"#) > 0);
}
