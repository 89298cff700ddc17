//! As much of Prometheus' language as says which metrics and labels an expression asks for.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Connection, Server};

/// Every kind of metric: one policy with a queue, one without.
const CONFIGURATION: &str = "\
version: 1
policies:
  - name: login
    key: [ip]
    limits: [{ name: tries, algorithm: sliding-window-log, limit: 10 per 10m }]
  - name: exports
    key: [ip]
    limits: [{ name: paced, algorithm: leaky-bucket, limit: 1/s, queue: 10 }]
";
/// Labels that whoever scrapes adds.
const OF_SCRAPER: [&str; 2] = ["instance", "job"];

/// The samples of a server's page.
pub(super) struct Exported(Vec<(String, BTreeMap<String, String>)>);

/// A metric that an expression asks for, and what its labels have to be.
pub(super) struct Asked<'e> {
    name: &'e str,
    /// Label, operator, value.
    matchers: Vec<(&'e str, &'e str, &'e str)>,
}

impl Exported {
    pub(super) fn scrape() -> Self {
        let server = Server::of(CONFIGURATION);
        let mut connection = Connection::open(&server.admin);
        connection.send(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let page = connection.response().body;
        let samples = page.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (series, _) = line.rsplit_once(' ').expect("a sample has a value");
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let labels = matchers(labels.trim_end_matches('}'));
            let labels = labels.map(|(name, _, value)| (name.to_owned(), value.to_owned()));
            (name.to_owned(), labels.collect())
        });
        let samples: Vec<_> = samples.collect();
        assert!(samples.len() > 50, "{page}");
        Self(samples)
    }

    /// The names of our metrics, a histogram's without what its parts end with.
    pub(super) fn ours(&self) -> BTreeSet<&str> {
        let names =
            self.0.iter().map(|(name, _)| name.as_str()).filter(|name| name.starts_with("ratekeeper_"));
        names
            .map(|name| {
                ["_bucket", "_sum", "_count"].iter().fold(name, |name, end| name.trim_end_matches(end))
            })
            .collect()
    }

    /// Whether a server answers this, with the labels that `legend` names as `{{label}}`.
    ///
    /// # Errors
    /// What it does not have.
    pub(super) fn check(&self, expression: &str, legend: &str) -> Result<(), String> {
        if expression.matches('(').count() != expression.matches(')').count() {
            return Err(format!("parentheses of {expression}"));
        }
        let mut labels: BTreeSet<&str> = BTreeSet::from(OF_SCRAPER);
        let mut metrics = 0;
        for Asked { name, matchers } in expressions(expression) {
            metrics += 1;
            let series: Vec<_> =
                self.0.iter().filter(|(known, _)| known == name).map(|(_, labels)| labels).collect();
            let first = series.first().ok_or_else(|| format!("no metric {name}"))?;
            labels.extend(first.keys().map(String::as_str));
            for (label, operator, value) in matchers {
                if OF_SCRAPER.contains(&label) {
                    continue;
                }
                let fits = |known: &String| match operator {
                    _ if value.contains('$') => true,
                    "=~" => {
                        known.len() == value.len()
                            && known.chars().zip(value.chars()).all(|(k, v)| v == '.' || k == v)
                    }
                    _ => known == value,
                };
                if !series.iter().any(|labels| labels.get(label).is_some_and(fits)) {
                    return Err(format!("no {name} with {label}{operator}{value}"));
                }
            }
        }
        // `up` is what a scrape itself says.
        if metrics == 0 && !expression.starts_with("up{") {
            return Err(format!("no metric in {expression}"));
        }
        for kept in expression.split("by (").skip(1).filter_map(|rest| rest.split(')').next()) {
            let kept: BTreeSet<&str> = kept.split(',').map(str::trim).collect();
            if !kept.is_subset(&labels) {
                return Err(format!("no such labels: {kept:?} of {labels:?}"));
            }
            labels = kept;
        }
        for named in legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()) {
            if !labels.contains(named.trim()) {
                return Err(format!("no label {named} for {legend}, of {labels:?}"));
            }
        }
        Ok(())
    }
}

/// The metrics of a program that an expression names.
pub(super) fn expressions(expression: &str) -> impl Iterator<Item = Asked<'_>> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = expression;
    std::iter::from_fn(move || {
        loop {
            let start = rest.find(|c: char| is_of_name(c) || c == '"')?;
            rest = &rest[start..];
            if let Some(text) = rest.strip_prefix('"') {
                rest = text.split_once('"').map_or("", |(_, after)| after);
                continue;
            }
            let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            rest = after;
            if name.starts_with("ratekeeper_") || name.starts_with("process_") {
                let selector = after.strip_prefix('{').and_then(|rest| rest.split_once('}'));
                return Some(Asked {
                    name,
                    matchers: selector.map_or_else(Vec::new, |(all, _)| matchers(all).collect()),
                });
            }
        }
    })
}

/// `a="b",c=~"d"`
fn matchers(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    text.split("\",").filter(|matcher| !matcher.is_empty()).map(|matcher| {
        let (label, rest) = matcher.split_once('=').expect("a label is compared");
        let operator = if rest.starts_with('~') { "=~" } else { "=" };
        (label, operator, rest.trim_start_matches('~').trim_matches('"'))
    })
}
