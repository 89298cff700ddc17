//! A tree as JSON.

use super::scalar::Kind;
use super::tree::{Entry, Node, Value};

/// A node as JSON, without spaces: what is no text by the core schema of YAML is none here.
pub(super) fn of(node: &Node) -> String {
    let mut out = String::new();
    write(node, &mut out);
    out
}

/// A list of policies as JSON without the keys that it names: in place of the overrides of a policy it has their
/// number.
pub(super) fn of_public(policies: &Node) -> String {
    let mut out = String::new();
    write_list(policies, &mut out, |policy, out| {
        write_map(policy, out, |key, value, out| match &value.value {
            Value::List(overrides) if key == "overrides" => out.push_str(&overrides.len().to_string()),
            _ => write(value, out),
        });
    });
    out
}

/// The policies of a file that says of one limit what `options` says, and by no key.
pub(crate) fn of_single<'a>(
    policy: &str,
    limit: &'a str,
    options: impl Iterator<Item = (&'static str, &'a str)>,
) -> String {
    let entry =
        |key: &str, value| Entry { key: key.to_owned(), key_span: 0..0, value: Node { span: 0..0, value } };
    let text = |text: &str| Value::Scalar { text: text.to_owned(), plain: true };
    let list = |value| Value::List(vec![Node { span: 0..0, value }]);
    let options = core::iter::once(("name", limit)).chain(options);
    let limit = Value::Map(options.map(|(name, value)| entry(name, text(value))).collect());
    let policy = Value::Map(vec![entry("name", text(policy)), entry("limits", list(limit))]);
    of(&Node { span: 0..0, value: list(policy) })
}

/// The tree is no deeper than a file may be.
fn write(node: &Node, out: &mut String) {
    match &node.value {
        Value::Scalar { text, plain: true } => match (Kind::of(text), number(text)) {
            (Kind::Null, _) => out.push_str("null"),
            (Kind::Bool, _) => out.push_str(&text.to_ascii_lowercase()),
            (Kind::Number, Some(number)) => out.push_str(&number),
            _ => quote(text, out),
        },
        Value::Scalar { text, .. } => quote(text, out),
        Value::List(_) => write_list(node, out, write),
        Value::Map(_) => write_map(node, out, |_, value, out| write(value, out)),
        // It has been reported: nobody sees the rest.
        Value::Bad => out.push_str("null"),
    }
}

/// A list whose items `item` writes; any other node as it is.
fn write_list(node: &Node, out: &mut String, mut item: impl FnMut(&Node, &mut String)) {
    let Value::List(items) = &node.value else { return write(node, out) };
    out.push('[');
    for (i, node) in items.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        item(node, out);
    }
    out.push(']');
}

/// A mapping whose values `field` writes; any other node as it is.
fn write_map(node: &Node, out: &mut String, mut field: impl FnMut(&str, &Node, &mut String)) {
    let Value::Map(entries) = &node.value else { return write(node, out) };
    out.push('{');
    for (i, Entry { key, value, .. }) in entries.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        quote(key, out);
        out.push(':');
        field(key, value, out);
    }
    out.push('}');
}

/// A number of YAML as JSON writes it; None for those that JSON has not, such as `.inf`.
fn number(text: &str) -> Option<String> {
    let based = |prefix, base| u64::from_str_radix(text.strip_prefix(prefix)?, base).ok();
    if text.starts_with("0x") || text.starts_with("0o") {
        return based("0x", 16).or_else(|| based("0o", 8)).map(|number| number.to_string());
    }
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    // `.inf` and `.nan` have letters of their own.
    let decimal = |b: u8| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-');
    if !unsigned.bytes().all(decimal) {
        return None;
    }
    let at = unsigned.find(['e', 'E']).unwrap_or(unsigned.len());
    let (mantissa, exponent) = unsigned.split_at(at);
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if part.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{point}{part}{exponent}"))
}

pub(super) fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests;
