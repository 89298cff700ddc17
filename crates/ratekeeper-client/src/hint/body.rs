//! Just enough of JSON to find one value in a short body, without building anything from it.

/// A body that may be JSON.
#[derive(Clone, Copy)]
pub(crate) struct Json<'a>(pub(crate) &'a [u8]);

impl<'a> Json<'a> {
    /// The value of the first member of this name, at any depth: what is between a text's quotes, escapes as they
    /// are, or the characters of a number.
    pub(crate) fn value(self, name: &str) -> Option<&'a str> {
        let mut rest = self.0;
        loop {
            let start = rest.iter().position(|byte| *byte == b'"')?;
            let (text, after) = quoted(rest.get(start + 1..)?)?;
            rest = after;
            let Some((b':', value)) = after.trim_ascii_start().split_first() else { continue };
            if text != name.as_bytes() {
                continue;
            }
            let value = value.trim_ascii_start();
            let found = match value.split_first() {
                Some((b'"', text)) => quoted(text)?.0,
                _ => {
                    let end = value.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'.' | b'-'));
                    value.get(..end.unwrap_or(value.len()))?
                }
            };
            return std::str::from_utf8(found).ok().filter(|found| !found.is_empty());
        }
    }

    /// Whether the bytes of `text` are in it.
    pub(crate) fn contains(self, text: &str) -> bool {
        self.0.windows(text.len()).any(|part| part.eq_ignore_ascii_case(text.as_bytes()))
    }
}

/// The text up to the closing quote, and what follows.
fn quoted(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut escaped = false;
    let end = rest.iter().position(|byte| {
        let closes = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        closes
    })?;
    Some((rest.get(..end)?, rest.get(end + 1..)?))
}

/// The first `<Code>` of an error in XML.
pub(crate) fn xml_code(body: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(body).ok()?;
    let (_, rest) = text.split_once("<Code>")?;
    rest.split_once("</Code>").map(|(code, _)| code.trim())
}
