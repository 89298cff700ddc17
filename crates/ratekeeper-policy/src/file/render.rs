//! Mistakes as a person reads them.

use core::fmt::Write as _;
use core::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use super::errors::{ConfigError, ConfigErrors, Severity};
use crate::hints;

impl ConfigErrors {
    /// The mistakes as plain text, each with its line, carets and remedy, and their number at the end:
    ///
    /// ```text
    /// error: unknown algorithm `token-buket`
    ///   --> ratekeeper.yaml:18:36
    ///    |
    /// 18 |       - { name: burst,  algorithm: token-buket, limit: 10/s, burst: 20 }
    ///    |                                    ^^^^^^^^^^^ did you mean `token-bucket`?
    /// 1 error in ratekeeper.yaml
    /// ```
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = self.render_items();
        let file = hints::shown(&self.file);
        let (number, plural) = (self.items.len(), if self.items.len() == 1 { "" } else { "s" });
        let more = if self.more { "more than " } else { "" };
        _ = write!(out, "{more}{number} error{plural} in {file}");
        out
    }

    /// The mistakes without their number.
    pub(crate) fn render_items(&self) -> String {
        let renderer = Renderer::plain();
        let file = hints::shown(&self.file);
        let mut out = String::new();
        for item in &self.items {
            let ConfigError { severity, message, line, column, .. } = item;
            match self.shown(item) {
                Some(shown) => out.push_str(&shown.render(item, &renderer, &file)),
                // Writing to a string cannot fail.
                None => _ = write!(out, "{severity}: {message}\n --> {file}:{line}:{column}"),
            }
            out.push('\n');
        }
        out
    }

    /// The line of a mistake. None if the text was not looked at.
    fn shown(&self, item: &ConfigError) -> Option<Shown> {
        let (before, after) = self.text.as_deref()?.split_at_checked(item.span.start)?;
        let before = before.rsplit('\n').next()?;
        let after = after.split('\n').next()?;
        let after = after.strip_suffix('\r').unwrap_or(after);
        let (within, after) = after.split_at_checked(item.span.len())?;
        let kept = before.char_indices().rev().take(AROUND).last().map_or("", |(at, _)| &before[at..]);
        let mut shown = Shown { line: String::new(), span: 0..0, column: kept.chars().count() + 1 };
        shown.line.extend(kept.chars().map(fit));
        shown.span.start = shown.line.len();
        shown.line.extend(within.chars().take(AROUND).map(fit));
        shown.span.end = shown.line.len();
        shown.line.extend(after.chars().take(AROUND).map(fit));
        Some(shown)
    }
}

/// How many characters to each side of a mistake are looked at: more than the renderer shows. A file may be
/// one long line and have a thousand mistakes.
const AROUND: usize = 300;

/// A part of a line, fit to be shown.
struct Shown {
    line: String,
    /// The mistake, in bytes of `line`.
    span: Range<usize>,
    /// The column of the mistake in `line`.
    column: usize,
}

impl Shown {
    fn render(&self, item: &ConfigError, renderer: &Renderer, file: &str) -> String {
        let mut caret = AnnotationKind::Primary.span(self.span.clone());
        if let Some(hint) = &item.hint {
            caret = caret.label(hint.as_str());
        }
        let snippet = Snippet::source(&self.line).path(file).line_start(item.line).annotation(caret);
        let level = match item.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let title = level.primary_title(item.message.as_str());
        let text = renderer.render(&[title.element(snippet)]);
        // The renderer counts columns from where the part begins.
        let place = |column: usize| format!("--> {file}:{}:{column}\n", item.line);
        if self.column == item.column {
            text
        } else {
            text.replacen(&place(self.column), &place(item.column), 1)
        }
    }
}

/// The renderer knows the control characters of ASCII, but not those above.
fn fit(c: char) -> char {
    if matches!(c, '\u{80}'..='\u{9f}') || hints::is_invisible(c) { '\u{fffd}' } else { c }
}
