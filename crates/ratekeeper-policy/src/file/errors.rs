//! Mistakes with their places.

use core::fmt;
use core::ops::Range;

use crate::fault::Fault;

/// How many mistakes are kept: nobody reads more at once, and what is shown stays bounded.
pub const MAX_ERRORS: usize = 1_000;

/// Every mistake of a file, in the order of their places.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigErrors {
    /// The file as its reader called it.
    pub file: String,
    /// The mistakes, at least one and at most [`MAX_ERRORS`].
    pub items: Vec<ConfigError>,
    /// How many policies the file has, right or wrong; None if that cannot be told.
    pub policies: Option<usize>,
    /// How many limits they have together.
    pub limits: Option<usize>,
    /// The text that the places are in; None if it was not looked at.
    pub(super) text: Option<String>,
    /// There were more than are kept.
    pub(super) more: bool,
}

/// A mistake and its place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// How bad it is.
    pub severity: Severity,
    /// What kind of mistake: stable, kebab-case.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
    /// The bytes of the text that it is about, within one line; may be empty.
    pub span: Range<usize>,
}

/// How bad a mistake is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// It can be used, but is hardly meant so.
    Warning,
}

impl Severity {
    /// The word in messages and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for ConfigErrors {
    /// As [`ConfigErrors::render`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render())
    }
}

impl std::error::Error for ConfigErrors {}

impl ConfigErrors {
    /// No mistake at all.
    pub(crate) fn none() -> Self {
        let (file, items) = (String::new(), Vec::new());
        Self { file, items, policies: None, limits: None, text: None, more: false }
    }

    /// A mistake of the file as a whole, whose text is not shown.
    pub(super) fn whole_file(file: &str, fault: Fault) -> Self {
        let mut errors = Errors::new(file, "");
        errors.add(0..0, fault);
        Self { text: None, ..errors.finish() }
    }
}

/// The collector that all readers of a file report to.
pub(super) struct Errors<'t> {
    file: String,
    text: &'t str,
    /// Where each line begins.
    lines: Vec<usize>,
    items: Vec<ConfigError>,
    more: bool,
    warnings: Vec<ConfigError>,
    /// What of the text is not shown.
    hidden: Vec<Range<usize>>,
    /// Policies and limits of the file, once they have been counted.
    pub(super) counts: (Option<usize>, Option<usize>),
}

impl<'t> Errors<'t> {
    pub(super) fn new(file: &str, text: &'t str) -> Self {
        let starts = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let lines = core::iter::once(0).chain(starts).collect();
        Self {
            file: file.to_owned(),
            text,
            lines,
            items: Vec::new(),
            more: false,
            warnings: Vec::new(),
            hidden: Vec::new(),
            counts: (None, None),
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether another mistake would not be kept, so that looking for more is no use.
    pub(super) const fn is_full(&self) -> bool {
        self.more
    }

    /// The line, from 1, that a byte of the text is in.
    pub(super) fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at)
    }

    /// Reports a mistake. A span of several lines is cut to its first, and one that splits a character or
    /// leaves the text to what is there.
    pub(super) fn add(&mut self, span: Range<usize>, fault: Fault) {
        if self.items.len() == MAX_ERRORS {
            self.more = true;
            return;
        }
        self.items.push(self.placed(Severity::Error, span, fault));
    }

    /// Keeps a warning, as [`Errors::add`] an error.
    pub(super) fn warn(&mut self, span: Range<usize>, fault: Fault) {
        if self.warnings.len() < MAX_ERRORS {
            self.warnings.push(self.placed(Severity::Warning, span, fault));
        }
    }

    /// The warnings in the order of their places, with the text that these are in.
    pub(super) fn warnings(mut self) -> ConfigErrors {
        self.items = core::mem::take(&mut self.warnings);
        self.finish()
    }

    /// Keeps these bytes from being shown with a mistake of the same line.
    pub(super) fn hide(&mut self, span: Range<usize>) {
        self.hidden.push(span);
    }

    /// The same for what is left of a line.
    pub(super) fn hide_line_from(&mut self, at: usize) {
        let rest = self.text.get(at..).unwrap_or_default();
        self.hide(at..at + rest.find('\n').unwrap_or(rest.len()));
    }

    /// The same for user and password of a URL: all between its scheme and its last `@`. Without a scheme it is a URL
    /// only if it is `meant` to be one.
    pub(super) fn hide_user_info(&mut self, span: Range<usize>, meant: bool) {
        let text = self.text(span.clone());
        let begin = text.find("://").map(|at| at + 3).or_else(|| meant.then_some(0));
        if let Some((begin, end)) = begin.zip(text.rfind('@')).filter(|(begin, end)| begin < end) {
            self.hide(span.start + begin..span.start + end);
        }
    }

    /// What is between two places.
    pub(super) fn text(&self, span: Range<usize>) -> &'t str {
        self.text.get(span).unwrap_or_default()
    }

    /// The line that a byte is in.
    pub(super) fn line_around(&self, at: usize) -> Range<usize> {
        let at = floor_char(self.text, at);
        let start = self.text[..at].rfind('\n').map_or(0, |end| end + 1);
        start..at + self.text[at..].find('\n').unwrap_or(self.text.len() - at)
    }

    /// The same for a comment that begins right behind a place, or the `:` there.
    pub(super) fn hide_comment(&mut self, at: usize) {
        let rest = self.text.get(at..).unwrap_or_default();
        if rest.trim_start_matches([':', ' ', '\t']).starts_with('#') {
            self.hide_line_from(at + rest.find('#').unwrap_or(0));
        }
    }

    fn placed(&self, severity: Severity, span: Range<usize>, fault: Fault) -> ConfigError {
        let start = floor_char(self.text, span.start);
        let line = self.line(start);
        let line_start = self.lines[line - 1];
        let rest = &self.text[start..];
        let line_end = start + rest.find('\n').unwrap_or(rest.len());
        let mut end = span.end.clamp(start, line_end);
        while !self.text.is_char_boundary(end) {
            end += 1;
        }
        let seen = self.text[start..end].trim_end().len();
        let end = if seen > 0 { start + seen } else { end };
        let column = self.text[line_start..start].chars().count() + 1;
        let Fault { code, message, hint } = fault;
        ConfigError { line, column, severity, code, message, hint, span: start..end }
    }

    /// The text as it may be shown: places stay where they are.
    fn shown_text(&self) -> String {
        let mut bytes = self.text.as_bytes().to_vec();
        let hidden = self.hidden.iter().filter_map(|span| Some((span, self.text.get(span.clone())?)));
        for (span, text) in hidden {
            // Quotes and the ends of lines are kept.
            let masked =
                text.bytes().map(|b| if matches!(b, b'\n' | b'\r' | b'"' | b'\'') { b } else { b'*' });
            bytes.splice(span.clone(), masked);
        }
        String::from_utf8(bytes).unwrap_or_default()
    }

    pub(super) fn finish(mut self) -> ConfigErrors {
        self.items.sort_by_key(|item| item.span.start);
        let (policies, limits) = self.counts;
        let text = Some(self.shown_text());
        ConfigErrors { file: self.file, items: self.items, policies, limits, text, more: self.more }
    }
}

fn floor_char(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
