//! The JSON Schema of the file, from the table of fields: what an editor can tell while somebody types. What it accepts may
//! still be wrong, what it refuses is.

mod text;

use super::errors::Errors;
use super::fields::{self, Form, Grammar, Need, Place, Row, Rule};
use super::{json, tree};
use text::Json;

const VARIABLE: &str = "variable";

/// The JSON Schema (draft 2020-12) of a configuration file, for editors: the same in each call, with a line feed at its end.
///
/// It accepts every file that [`Config::parse`](crate::Config::parse) accepts, read as YAML 1.2, and refuses unknown fields,
/// wrong types, words and numbers; what fields of several places demand of each other it does not know.
#[must_use]
pub fn json_schema() -> String {
    let (places, grammars) = fields::all();
    let mut definitions: Vec<(String, Json)> =
        places.iter().skip(1).map(|place| (id(place.path), Json::Map(members(place)))).collect();
    definitions.extend(grammars.into_iter().map(definition));
    let variable = [
        ("description", text("An environment variable, which stands in a plain scalar for its value")),
        ("type", text("string")),
        ("pattern", text(r"\$\{")),
    ];
    definitions.push((VARIABLE.to_owned(), map(variable)));
    let mut schema = vec![
        ("$schema".to_owned(), text("https://json-schema.org/draft/2020-12/schema")),
        ("title".to_owned(), text("The configuration of ratekeeper")),
    ];
    schema.extend(members(&fields::TOP));
    schema.push(("$defs".to_owned(), Json::Map(definitions)));
    Json::Map(schema).written()
}

/// The name of a definition.
fn id(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<&str>>().join("-")
}

fn members(place: &Place) -> Vec<(String, Json)> {
    let properties = place.rows().map(|(name, row)| (name.to_owned(), property(row))).collect();
    // What a rule lets a field do without is not required by itself.
    let freed = |name: &str| {
        place.rules.iter().any(|rule| match rule {
            Rule::One(names) => names.contains(&name),
            Rule::OrEach(other, _) => *other == name,
            _ => false,
        })
    };
    let required = place.rows().filter(|(name, row)| matches!(row.need, Need::Required) && !freed(name));
    let required: Vec<&str> = required.map(|(name, _)| name).collect();
    let mut members = vec![("description", Json::Text(unlinked(place.doc))), ("type", text("object"))];
    members.push(("properties", Json::Map(properties)));
    members.push(("additionalProperties", Json::Flag(false)));
    if !required.is_empty() {
        members.push(("required", list(required)));
    }
    if place.rules.iter().any(|rule| matches!(rule, Rule::NotEmpty)) {
        members.push(("minProperties", Json::Number(1)));
    }
    let rules: Vec<Json> = place.rules.iter().filter_map(demand).collect();
    if !rules.is_empty() {
        members.push(("allOf", Json::List(rules)));
    }
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn property(row: &Row) -> Json {
    let mut members = vec![("description", Json::Text(description(row)))];
    if let Need::Default(value) = row.need {
        members.push(("default", value_of(value)));
    }
    members.push(("examples", Json::List(vec![value_of(row.example)])));
    members.extend(form(&row.form));
    map(members)
}

/// What an editor shows of a field, in plain text.
fn description(row: &Row) -> String {
    let mut description = unlinked(row.doc);
    if let Some(range) = row.form.range() {
        description.push_str(&format!(" From {range}."));
    }
    if let Need::Optional(otherwise) = row.need {
        description.push_str(&format!(" Without it: {otherwise}."));
    }
    description
}

/// `[words](target)` as `words`: where a page lies is not known there.
fn unlinked(doc: &str) -> String {
    let mut out = String::new();
    let mut rest = doc;
    while let Some((before, (target, after))) =
        rest.split_once("](").and_then(|(before, link)| Some((before, link.split_once(')')?)))
    {
        let (before, words) = before.rsplit_once('[').unwrap_or(("", before));
        out.push_str(before);
        out.push_str(words);
        debug_assert!(!target.contains(' '), "{doc}");
        rest = after;
    }
    out.push_str(rest);
    out
}

/// A value of YAML as JSON, with its variables as they are written.
fn value_of(yaml: &str) -> Json {
    let mut errors = Errors::new("", yaml);
    let as_written = |name: &str| Some(format!("${{{name}}}"));
    let value = tree::parse(yaml, &as_written, &mut errors);
    Json::Raw(value.as_ref().map_or_else(|| "null".to_owned(), json::of))
}

fn form(form: &Form) -> Vec<(&'static str, Json)> {
    let items = |of: &Form, least: usize, most: usize| {
        let of = ("items", map(self::form(of)));
        let members = vec![("type", text("array")), of];
        bounded(members, ("minItems", least), ("maxItems", most))
    };
    match form {
        Form::Number(least, most) => {
            let mut number = vec![("type", text("integer")), ("minimum", Json::Number(*least))];
            if *most < u64::MAX {
                number.push(("maximum", Json::Number(*most)));
            }
            or_variable(map(number))
        }
        Form::Share => or_variable(map([
            ("type", text("number")),
            ("minimum", Json::Number(0)),
            ("maximum", Json::Number(1)),
        ])),
        Form::Words(words) => or_variable(map([("enum", list(words.iter().copied()))])),
        Form::Text(grammar) => reference(grammar.name),
        Form::Duration(..) => reference(fields::DURATION.name),
        Form::Size(..) => reference(fields::SIZE.name),
        Form::List(of, least, most) => items(of, *least, *most),
        Form::Set(of, least, most) => {
            let mut set = items(of, *least, *most);
            set.push(("uniqueItems", Json::Flag(true)));
            set
        }
        Form::Mapping(place) => reference(place.path),
        Form::Named(names, of, least, most) => {
            let names = map([("pattern", Json::Text(format!("^(?:{})$", (names.pattern)())))]);
            let members = vec![
                ("type", text("object")),
                ("propertyNames", names),
                ("additionalProperties", map(self::form(of))),
            ];
            bounded(members, ("minProperties", *least), ("maxProperties", *most))
        }
        Form::Either(forms) => {
            vec![("anyOf", Json::List(forms.iter().map(|form| map(self::form(form))).collect()))]
        }
    }
}

fn bounded(
    mut members: Vec<(&'static str, Json)>,
    least: (&'static str, usize),
    most: (&'static str, usize),
) -> Vec<(&'static str, Json)> {
    if least.1 > 0 {
        members.push((least.0, Json::Number(least.1 as u64)));
    }
    if most.1 < usize::MAX {
        members.push((most.0, Json::Number(most.1 as u64)));
    }
    members
}

/// A value, or a variable that stands for it.
fn or_variable(value: Json) -> Vec<(&'static str, Json)> {
    vec![("anyOf", Json::List(vec![value, map(reference(VARIABLE))]))]
}

fn reference(name: &str) -> Vec<(&'static str, Json)> {
    vec![("$ref", Json::Text(format!("#/$defs/{}", id(name))))]
}

fn definition(grammar: &Grammar) -> (String, Json) {
    let kind = if grammar.takes_scalars { list(["string", "number", "boolean"]) } else { text("string") };
    let members = [
        ("description", Json::Text(unlinked(grammar.doc))),
        ("type", kind),
        ("pattern", Json::Text(format!(r"^(?:{})$|\$\{{", (grammar.pattern)()))),
    ];
    (id(grammar.name), map(members))
}

/// What a rule says of a mapping.
fn demand(rule: &Rule) -> Option<Json> {
    let has = |names: &[&'static str]| map([("required", list(names.iter().copied()))]);
    let with = |name: &'static str, value: Json| ("properties", map([(name, value)]));
    let when = |condition: Json, demand: Json| map([("if", condition), ("then", demand)]);
    Some(match rule {
        Rule::NotEmpty => return None,
        Rule::One(names) => {
            map([("oneOf", Json::List(names.iter().map(|name| has(&[name])).collect::<Vec<Json>>()))])
        }
        Rule::Exclude(one, other) => map([("not", has(&[one, other]))]),
        Rule::Needs(name, other) => when(has(&[name]), has(&[other])),
        Rule::NeedsIf(name, word, other) => {
            let said = map([with(name, map([("const", text(word))])), ("required", list([*name]))]);
            when(said, has(&[other]))
        }
        Rule::OnlyFor(name, other, words) => {
            let said = map(or_variable(map([("enum", list(words()))])));
            when(has(&[name]), map([with(other, said), ("required", list([*other]))]))
        }
        Rule::OrEach(name, items) => {
            let each = map([with(items, map([("items", has(&[name]))]))]);
            map([("anyOf", Json::List(vec![has(&[name]), each]))])
        }
    })
}

fn text(text: &str) -> Json {
    Json::Text(text.to_owned())
}

fn list(texts: impl IntoIterator<Item = &'static str>) -> Json {
    Json::List(texts.into_iter().map(text).collect())
}

fn map(members: impl IntoIterator<Item = (&'static str, Json)>) -> Json {
    Json::Map(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

#[cfg(test)]
mod tests;
