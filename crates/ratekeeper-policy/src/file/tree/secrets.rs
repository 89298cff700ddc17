//! What of a file nobody should see, also where it cannot be read.

use core::ops::Range;

use super::{Builder, Open};
use crate::hints;

/// Fields whose values are not shown with the mistakes of their lines, wherever they are written and however
/// they are misspelt.
const SECRETS: [&str; 2] = ["token", PASSWORD];
/// That of them that nothing else is called.
pub(super) const PASSWORD: &str = "password";
/// Fields whose values may be URLs with a user and a password, however they are written. Of what has a scheme they are
/// hidden everywhere.
pub(super) const URLS: [&str; 2] = ["redis", "url"];

impl Builder<'_, '_> {
    /// Whether what comes next is the value of a field that nobody should see, or within it.
    pub(super) fn is_secret(&self) -> bool {
        let Some(Open::Map { key: Some(key), .. }) = self.open.last() else {
            return self.is_within(&[PASSWORD]);
        };
        hints::nearest(&key.text, SECRETS).is_some() || self.is_within(&[PASSWORD])
    }

    /// Whether what comes next is within the value of one of these fields.
    pub(super) fn is_within(&self, fields: &[&str]) -> bool {
        self.open.iter().any(|open| match open {
            Open::Map { key: Some(key), .. } => fields.contains(&&*key.text),
            _ => false,
        })
    }

    /// A secret with ` #` in it ends there for YAML, and one that begins with `#` is none: the rest is no comment.
    pub(super) fn hide_comment(&mut self, at: &Range<usize>) {
        let end = match self.open.last() {
            Some(Open::Map { key: Some(key), .. }) if at.is_empty() => key.span.end,
            _ => at.end,
        };
        self.errors.hide_comment(end);
    }

    /// A line that cannot be read may have a secret that wants quotes.
    pub(super) fn hide_in_broken_line(&mut self, at: usize) {
        let line = self.errors.line_around(at);
        self.errors.hide_user_info(line.clone(), self.is_within(&URLS));
        if self.is_secret() {
            self.errors.hide_line_from(line.start);
        }
        let shown = self.errors.text(line.clone());
        for (colon, _) in shown.match_indices(':') {
            let (before, after) = shown.split_at(colon);
            let word = before.trim_end_matches(['"', '\'']).rsplit([' ', '"', '\'', ',', '{']).next();
            let word = word.unwrap_or_default();
            let is_mapping = after.trim_start_matches([':', ' ']).starts_with('{');
            if word == PASSWORD || !is_mapping && hints::nearest(word, SECRETS).is_some() {
                return self.errors.hide_line_from(line.start + colon + 1);
            }
        }
    }
}
