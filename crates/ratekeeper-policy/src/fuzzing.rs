//! A door for the fuzz targets, which are a workspace of their own: patterns without a file around them. Compiled for
//! them only (`--cfg fuzzing`).

use crate::glob::Glob;
use crate::matcher::Match;
use crate::path::PathPattern;

#[must_use]
pub fn pattern(text: &str) -> Option<PathPattern> {
    PathPattern::parse(text).ok()
}

/// The conditions that are given; a header is called `x`. None if one of the patterns is refused.
#[must_use]
pub fn matching(
    method: Option<&str>,
    path: Option<&str>,
    host: Option<&str>,
    header: Option<&str>,
) -> Option<Match> {
    Some(Match {
        methods: method.into_iter().map(Into::into).collect(),
        path: path.map(PathPattern::parse).transpose().ok()?,
        host: host.map(Glob::parse_host).transpose().ok()?,
        headers: match header {
            Some(value) => vec![("x".into(), Glob::parse(value).ok()?)],
            None => Vec::new(),
        },
    })
}
