//! A strict reader of both formats: what it does not know is an error.

use std::collections::{BTreeMap, BTreeSet};

/// A name and its labels, in the order of their names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Series {
    pub(super) name: String,
    pub(super) labels: Vec<(String, String)>,
}

/// A page, in the order of its series. The formats write numbers in labels in different ways; here they are alike.
pub(super) struct Page {
    pub(super) text: String,
    pub(super) samples: Vec<(Series, String)>,
}

struct Family {
    name: String,
    kind: String,
}

impl Page {
    pub(super) fn parse(text: &str, is_open_metrics: bool) -> Self {
        assert!(text.ends_with('\n'), "the last line has an end");
        let body = if is_open_metrics { text.strip_suffix("# EOF\n").expect("an end") } else { text };
        let mut families = BTreeSet::new();
        let mut family: Option<Family> = None;
        let mut help = String::new();
        let mut page = Self { text: text.to_owned(), samples: Vec::new() };
        for line in body.lines() {
            let family_is = |name: &str| family.as_ref().is_some_and(|family| family.name == name);
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, said) = rest.split_once(' ').expect("a text");
                assert!(!said.is_empty() && !said.contains('\\'), "{line}");
                help = name.to_owned();
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a type");
                assert_eq!(name, help, "the text of a family is before its type");
                assert!(families.insert(name.to_owned()), "{name} comes once");
                let is_info = is_open_metrics && kind == "info";
                assert!(is_info || ["counter", "gauge", "histogram"].contains(&kind), "{line}");
                family = Some(Family { name: name.to_owned(), kind: kind.to_owned() });
            } else if let Some(rest) = line.strip_prefix("# UNIT ") {
                let (name, unit) = rest.split_once(' ').expect("a unit");
                assert!(is_open_metrics && family_is(name) && name.ends_with(&format!("_{unit}")), "{line}");
            } else {
                let (series, value) = sample(line);
                let family = family.as_ref().expect("a family comes before its samples");
                let end = series.name.strip_prefix(&family.name).expect("samples follow their family");
                let ends: &[&str] = match (family.kind.as_str(), is_open_metrics) {
                    ("counter", true) => &["_total"],
                    ("info", _) => &["_info"],
                    ("histogram", _) => &["_bucket", "_sum", "_count"],
                    _ => &[""],
                };
                assert!(ends.contains(&end), "{line} is no sample of a {}", family.kind);
                page.samples.push((series, value));
            }
        }
        let all: BTreeSet<&Series> = page.samples.iter().map(|(series, _)| series).collect();
        assert_eq!(all.len(), page.samples.len(), "no series comes twice");
        page.check_histograms();
        page.samples.sort();
        page
    }

    /// Counts do not fall from bound to bound, and the last is the count of all.
    fn check_histograms(&self) {
        let mut last: BTreeMap<Series, (f64, u64)> = BTreeMap::new();
        for (series, value) in &self.samples {
            let Some(name) = series.name.strip_suffix("_bucket") else { continue };
            let (le, labels) = {
                let mut labels = series.labels.clone();
                let at = labels.iter().position(|(name, _)| name == "le").expect("a bucket has a bound");
                (labels.remove(at).1, labels)
            };
            let le: f64 = le.parse().expect("a number");
            let count: u64 = value.parse().expect("a whole number");
            let of = Series { name: name.to_owned(), labels };
            if let Some((bound, below)) = last.insert(of, (le, count)) {
                assert!(bound < le && below <= count, "{series:?}");
            }
        }
        for (Series { name, labels }, (bound, count)) in last {
            assert_eq!(bound, f64::INFINITY, "{name}");
            let all = Series { name: format!("{name}_count"), labels };
            let found = self.samples.iter().find(|(series, _)| *series == all).expect("a count");
            assert_eq!(found.1, count.to_string(), "{name}");
        }
    }

    fn get(&self, name: &str, labels: &str) -> Option<&str> {
        let pairs = labels.split(',').filter_map(|pair| pair.split_once('='));
        let labels = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let series = Series { name: name.to_owned(), labels };
        self.samples.iter().find(|(other, _)| *other == series).map(|(_, value)| value.as_str())
    }

    /// The value of the series with these labels, `a=x,b=y` in the order of their names.
    pub(super) fn value(&self, name: &str, labels: &str) -> String {
        self.get(name, labels).unwrap_or_else(|| panic!("no {name}{{{labels}}}")).to_owned()
    }

    pub(super) fn has(&self, name: &str, labels: &str) -> bool {
        self.get(name, labels).is_some()
    }

    /// The sum of all series of this name, which are whole numbers.
    pub(super) fn sum(&self, name: &str) -> u64 {
        let of_name = self.samples.iter().filter(|(series, _)| series.name == name);
        of_name.map(|(_, value)| value.parse::<u64>().expect("a whole number")).sum()
    }
}

fn is_name(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_lowercase() || b == b'_';
    !text.is_empty() && text.bytes().all(good)
}

/// `name value` or `name{label="value",…} value`.
fn sample(line: &str) -> (Series, String) {
    let (head, value) = line.rsplit_once(' ').expect("a value");
    assert!(value.parse::<f64>().is_ok(), "{line}");
    let (name, labels) = match head.split_once('{') {
        None => (head, ""),
        Some((name, rest)) => (name, rest.strip_suffix('}').expect("labels end")),
    };
    assert!(is_name(name), "{line}");
    let mut pairs = Vec::new();
    for label in labels.split(',').filter(|label| !label.is_empty()) {
        let (name, value) = label.split_once('=').expect("a label has a value");
        let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).expect("in quotes");
        // Names of ours, numbers and hashes: nothing that would need an escape.
        // An empty limit: none was asked.
        assert!(
            is_name(name) && (!value.is_empty() || name == "limit") && !value.contains(['"', '\\', ' ']),
            "{line}"
        );
        let bound = |le: &str| le.parse::<f64>().expect("a number").to_string();
        let value = if name == "le" { bound(value) } else { value.to_owned() };
        pairs.push((name.to_owned(), value));
    }
    pairs.sort();
    (Series { name: name.to_owned(), labels: pairs }, value.to_owned())
}
