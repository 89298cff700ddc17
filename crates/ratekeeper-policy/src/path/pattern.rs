//! Patterns of paths.

use core::fmt;

use super::{NormalPath, normal_segment, segments};
use crate::fault::{Fault, code};
use crate::glob::Glob;
use crate::hints::shown;

/// Longest pattern: no path that people write is longer.
pub const MAX_PATTERN_BYTES: usize = 1_024;
/// Most segments of a pattern, which bounds how deep a request is looked at.
pub const MAX_PATTERN_SEGMENTS: usize = 128;
/// Longest name in braces, as for all names of a file.
const MAX_ID_BYTES: usize = 64;

/// Which paths a policy is about.
///
/// `*` is one segment or any run of characters within one; `{id}` is one segment and has a name; `**`, as the last
/// segment, is any rest, also none. Everything else stands for itself: `/api/**` fits `/api` and `/api/x/y`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathPattern {
    text: Box<str>,
    /// The segments before the first that is not literal: `/api/v1`, or nothing.
    literal: Box<str>,
    /// How many those are.
    depth: usize,
    /// The segments behind them, without `**`.
    tail: Box<[Segment]>,
    /// It ends with `**`.
    open: bool,
    /// Names in braces, and which segment of a path each is, from 0.
    ids: Box<[(Box<str>, usize)]>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Segment {
    Literal(Box<str>),
    /// `*` or `{id}`: any one.
    Any,
    /// With a `*` in it.
    Part(Glob),
}

impl PathPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// If it does not begin with `/`, is too long, misplaces `**` or braces, or if no path could fit it since paths are
    /// compared in their normal form.
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        check_whole(text)?;
        let mut reader = Reader::default();
        for segment in text.split('/').skip(1) {
            reader.segment(segment)?;
        }
        reader.finish(text)
    }

    /// Whether a path fits.
    #[must_use]
    pub fn matches(&self, path: &NormalPath<'_>) -> bool {
        let Some(rest) = self.after_literal(path.as_str()) else { return false };
        let mut rest = segments(rest);
        for segment in &self.tail {
            let Some(found) = rest.next() else { return false };
            if !segment.matches(found) {
                return false;
            }
        }
        self.open || rest.next().is_none()
    }

    /// What follows the literal segments, if the path begins with them.
    fn after_literal<'p>(&self, path: &'p str) -> Option<&'p str> {
        let rest = path.strip_prefix(&*self.literal)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    }

    /// The segment of a path that `{id}` stands for; None if the pattern has no such name, or the path does not fit.
    #[must_use]
    pub fn parameter<'p>(&self, path: &'p NormalPath<'_>, id: &str) -> Option<&'p str> {
        let (_, place) = self.ids.iter().find(|(name, _)| **name == *id)?;
        self.matches(path).then(|| segments(path.as_str()).nth(*place)).flatten()
    }

    /// The names in braces, in order.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.ids.iter().map(|(name, _)| &**name)
    }

    /// The pattern as it is written.
    #[must_use]
    pub const fn as_str(&self) -> &str {
        &self.text
    }

    /// The segments before the first that is not literal, each after a slash: `/api/v1`, or nothing.
    pub(crate) const fn literal(&self) -> &str {
        &self.literal
    }

    /// Whether one path alone fits.
    pub(crate) const fn is_exact(&self) -> bool {
        self.tail.is_empty() && !self.open
    }

    /// Whether all paths fit that begin with the literal segments.
    pub(crate) const fn is_prefix(&self) -> bool {
        self.tail.is_empty() && self.open
    }

    /// Whether some path could fit both.
    pub(crate) fn can_meet(&self, other: &Self) -> bool {
        let length = |pattern: &Self| pattern.depth + pattern.tail.len();
        let reaches = |short: &Self, long: &Self| short.open || length(short) >= length(long);
        let mut pairs = self.segments().zip(other.segments());
        reaches(self, other) && reaches(other, self) && pairs.all(|(a, b)| a.can_meet(&b))
    }

    fn segments(&self) -> impl Iterator<Item = Segment> {
        segments(&self.literal).map(|text| Segment::Literal(text.into())).chain(self.tail.iter().cloned())
    }
}

impl fmt::Display for PathPattern {
    /// As it is written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Segment {
    fn matches(&self, segment: &str) -> bool {
        match self {
            Self::Literal(text) => **text == *segment,
            Self::Any => true,
            Self::Part(glob) => glob.matches(segment.as_bytes()),
        }
    }

    fn can_meet(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) | (_, Self::Any) => true,
            (Self::Part(a), Self::Part(b)) => a.can_meet(b),
            (Self::Literal(text), any) | (any, Self::Literal(text)) => any.matches(text),
        }
    }
}

fn refused(message: impl Into<String>) -> Fault {
    Fault::new(code::BAD_PATTERN, message)
}

/// What can be told before the segments are looked at.
fn check_whole(text: &str) -> Result<(), Fault> {
    if text.len() > MAX_PATTERN_BYTES {
        return Err(refused(format!("a pattern has at most {MAX_PATTERN_BYTES} bytes")));
    }
    if !text.starts_with('/') {
        let hint = match text {
            "*" | "**" => String::from("`/**` fits every path"),
            _ if text.contains("://") => String::from("the host has a field of its own: `host`"),
            _ if text.starts_with('^') => {
                String::from("it is no regular expression: `*` is one segment, a last `**` any rest")
            }
            _ => format!("write `/{}`", shown(text)),
        };
        return Err(refused("the pattern of a path begins with `/`").hint(hint));
    }
    if let Some(end) = text.find(['?', '#']) {
        let path = text.get(..end).unwrap_or_default();
        return Err(refused("a path is compared without its query").hint(format!("write `{}`", shown(path))));
    }
    Ok(())
}

/// A pattern so far.
#[derive(Default)]
struct Reader {
    /// The pattern as it would have to be written.
    normal: String,
    literal: String,
    depth: usize,
    tail: Vec<Segment>,
    open: bool,
    ids: Vec<(Box<str>, usize)>,
}

impl Reader {
    fn segment(&mut self, segment: &str) -> Result<(), Fault> {
        if self.open && !segment.is_empty() {
            return Err(refused("nothing comes after `**`, which is any rest").hint("`*` is one segment"));
        }
        if segment.contains(['{', '}']) {
            return self.id(segment);
        }
        if segment.contains("**") {
            return self.rest(segment);
        }
        let normal = normal_segment(segment);
        match &*normal {
            "" | "." => {}
            ".." => return Err(refused("a pattern has no `..`").hint("write the path that it leads to")),
            "*" => self.push("*", Segment::Any),
            text if text.contains('*') => {
                let glob = Glob::parse(text)?;
                self.push(text, Segment::Part(glob));
            }
            text => self.push(text, Segment::Literal(text.into())),
        }
        Ok(())
    }

    fn push(&mut self, text: &str, segment: Segment) {
        self.normal.push('/');
        self.normal.push_str(text);
        match segment {
            Segment::Literal(text) if self.tail.is_empty() => {
                self.literal.push('/');
                self.literal.push_str(&text);
                self.depth += 1;
            }
            segment => self.tail.push(segment),
        }
    }

    fn rest(&mut self, segment: &str) -> Result<(), Fault> {
        if segment != "**" {
            let hint = "`*` is a part of a segment, `/**` any segments";
            return Err(refused("`**` is a segment of its own").hint(hint));
        }
        self.normal.push_str("/**");
        self.open = true;
        Ok(())
    }

    fn id(&mut self, segment: &str) -> Result<(), Fault> {
        let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        let Some(name) = name.filter(|name| !name.contains(['{', '}'])) else {
            let fault = refused("braces stand for a whole segment");
            return Err(fault.hint("`{id}` is one segment with a name, `*` a part of one"));
        };
        let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        if name.starts_with('*') {
            let fault = refused(format!("`{{{}}}` is no name of a segment", shown(name)));
            return Err(fault.hint("`{id}` is one segment; a last `**` is any rest"));
        }
        if !(1..=MAX_ID_BYTES).contains(&name.len()) || !name.bytes().all(good) {
            let fault = match name {
                "" => refused("`{}` has no name"),
                _ => refused(format!("`{{{}}}` is no name of a segment", shown(name))),
            };
            return Err(
                fault.hint("in braces: 1 to 64 of A-Z, a-z, 0-9, `_` and `-`; `*` is one without a name")
            );
        }
        if self.ids.iter().any(|(other, _)| **other == *name) {
            return Err(refused(format!("`{{{name}}}` is there twice")).hint("give each its own name"));
        }
        self.ids.push((name.into(), self.depth + self.tail.len()));
        self.push(segment, Segment::Any);
        Ok(())
    }

    fn finish(self, text: &str) -> Result<PathPattern, Fault> {
        if self.depth + self.tail.len() > MAX_PATTERN_SEGMENTS {
            return Err(refused(format!("a pattern has at most {MAX_PATTERN_SEGMENTS} segments")));
        }
        let root = self.normal.is_empty();
        let normal = if root { "/" } else { &self.normal };
        if normal != text {
            let below = !root && !self.open && text.len() > 1 && text.ends_with('/');
            if below && text.strip_suffix('/') == Some(normal) {
                let fault = refused("a path is compared without a slash at its end");
                return Err(fault.hint(format!("write `{0}`, or `{0}/**` with all below it", shown(normal))));
            }
            let fault = refused("no path fits: this is not the spelling that paths are compared in");
            return Err(fault.hint(format!("write `{}`", shown(normal))));
        }
        Ok(PathPattern {
            text: text.into(),
            literal: self.literal.into(),
            depth: self.depth,
            tail: self.tail.into(),
            open: self.open,
            ids: self.ids.into(),
        })
    }
}
