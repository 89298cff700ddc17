//! Objects as programs write them, read in one pass: no space between their parts, no escapes, and values that are
//! texts, whole numbers, `true` or `false`. Whatever else there is, or is wrong, is `serde_json`'s to judge.

use std::borrow::Cow;

use super::{MAX_MEMBERS, Member};

/// The members of such an object; none if it is not one.
pub(super) fn members(text: &str) -> Option<Vec<Member<'_>>> {
    let bytes = text.as_bytes();
    if bytes.first() != Some(&b'{') {
        return None;
    }
    let mut members = Vec::with_capacity(4);
    let mut at = 1;
    while members.len() < MAX_MEMBERS {
        let colon = text_end(bytes, at)?;
        let name = text.get(at + 1..colon - 1)?;
        if bytes.get(colon) != Some(&b':') {
            return None;
        }
        let end = value_end(bytes, colon + 1)?;
        members.push(Member { name: Cow::Borrowed(name), value: text.get(colon + 1..end)? });
        match bytes.get(end)? {
            b',' => at = end + 1,
            b'}' => return (end + 1 == bytes.len()).then_some(members),
            _ => return None,
        }
    }
    None
}

/// What a value that is a text without escapes says.
pub(super) fn text(value: &str) -> Option<&str> {
    let end = text_end(value.as_bytes(), 0)?;
    if end == value.len() { value.get(1..end - 1) } else { None }
}

/// Where the text that begins at `at` ends, with its quotation marks.
fn text_end(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at) != Some(&b'"') {
        return None;
    }
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..=0x1f);
    let end = at + 1 + bytes.get(at + 1..)?.iter().position(special)?;
    (bytes[end] == b'"').then_some(end + 1)
}

/// Where the value that begins at `at` ends.
fn value_end(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at)? {
        b'"' => text_end(bytes, at),
        b'0' => Some(at + 1),
        b'1'..=b'9' => Some(at + bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count()),
        b't' if bytes[at..].starts_with(b"true") => Some(at + 4),
        b'f' if bytes[at..].starts_with(b"false") => Some(at + 5),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
