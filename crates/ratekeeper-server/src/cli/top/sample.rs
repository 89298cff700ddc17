//! One look at a running server: its page of metrics, and who is refused most.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the page of metrics said.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Sample {
    /// By policy.
    pub(super) policies: BTreeMap<String, Counts>,
    /// Decisions by how they were reached.
    pub(super) sources: BTreeMap<String, u64>,
    /// Decisions by what they took at most, in nanoseconds, each with those that took less.
    pub(super) took: BTreeMap<u64, u64>,
    /// The configuration at work.
    pub(super) sha: Option<String>,
    /// Since when the process runs, in seconds of Unix time.
    pub(super) started_s: Option<u64>,
}

/// What became of the requests of a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    /// All of them.
    pub(super) decisions: u64,
    pub(super) denied: u64,
    /// Would have been denied, had the policy been enforced.
    pub(super) would_deny: u64,
}

/// Who was refused most, as `GET /v1/top` says it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Top {
    pub(super) window_s: u64,
    pub(super) denied: Vec<Denied>,
}

/// How often a key was refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Denied {
    pub(super) policy: String,
    pub(super) limit: Option<String>,
    pub(super) key: String,
    pub(super) count: u64,
    pub(super) error: u64,
}

impl Sample {
    /// Reads the page in the text format of Prometheus. Lines that mean nothing here are passed over; so is what is
    /// of another form than we write.
    pub(super) fn read(page: &str) -> Self {
        let mut sample = Self::default();
        for line in page.lines().filter(|line| !line.starts_with('#')) {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let whole = value.split('.').next().unwrap_or_default().parse().ok();
            sample.take(name, labels.trim_end_matches('}'), whole);
        }
        sample
    }

    fn take(&mut self, name: &str, labels: &str, value: Option<u64>) {
        let (label, value) = (|wanted: &str| label(labels, wanted), value.unwrap_or(0));
        match name {
            "ratekeeper_decisions_total" => {
                let (Some(policy), Some(decision)) = (label("policy"), label("decision")) else { return };
                let counts = self.policies.entry(policy.to_owned()).or_default();
                counts.decisions = counts.decisions.saturating_add(value);
                match decision {
                    "denied" => counts.denied = counts.denied.saturating_add(value),
                    "shadow_denied" => counts.would_deny = counts.would_deny.saturating_add(value),
                    _ => {}
                }
            }
            "ratekeeper_decision_source_total" => {
                let Some(source) = label("source") else { return };
                let count = self.sources.entry(source.to_owned()).or_default();
                *count = count.saturating_add(value);
            }
            "ratekeeper_decision_duration_seconds_bucket" => {
                let Some(most) = label("le").and_then(nanos) else { return };
                let count = self.took.entry(most).or_default();
                *count = count.saturating_add(value);
            }
            "ratekeeper_config_info" => self.sha = label("sha").map(str::to_owned),
            "process_start_time_seconds" => self.started_s = Some(value),
            _ => {}
        }
    }
}

/// The value of a label. Ours have no quotes or commas in them.
fn label<'l>(labels: &'l str, wanted: &str) -> Option<&'l str> {
    let mut pairs = labels.split(',').filter_map(|pair| pair.split_once('='));
    pairs.find(|(name, _)| *name == wanted).map(|(_, value)| value.trim_matches('"'))
}

/// Seconds as the page writes them, `0.00025`, `2.5e-5` or `+Inf`, in nanoseconds.
fn nanos(text: &str) -> Option<u64> {
    if text == "+Inf" {
        return Some(u64::MAX);
    }
    let (number, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits: u64 = format!("{whole}{part}").parse().ok()?;
    let places = 9_i32.checked_add(exponent)?.checked_sub(i32::try_from(part.len()).ok()?)?;
    let power = 10_u64.checked_pow(places.unsigned_abs())?;
    if places < 0 { Some(digits / power) } else { digits.checked_mul(power) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# HELP ratekeeper_decisions Requests decided
# TYPE ratekeeper_decisions counter
ratekeeper_decisions_total{policy=\"api\",limit=\"burst\",decision=\"allowed\"} 7
ratekeeper_decisions_total{policy=\"api\",limit=\"minute\",decision=\"denied\"} 2
ratekeeper_decisions_total{policy=\"api\",limit=\"\",decision=\"denied\"} 1
ratekeeper_decisions_total{policy=\"new\",limit=\"l\",decision=\"shadow_denied\"} 4
ratekeeper_decision_source_total{policy=\"api\",source=\"exact\"} 9
ratekeeper_decision_source_total{policy=\"new\",source=\"exact\"} 4
ratekeeper_decision_duration_seconds_bucket{le=\"1e-5\",store=\"a\"} 3
ratekeeper_decision_duration_seconds_bucket{le=\"1e-5\",store=\"b\"} 1
ratekeeper_decision_duration_seconds_bucket{le=\"0.00025\",store=\"a\"} 5
ratekeeper_decision_duration_seconds_bucket{le=\"+Inf\",store=\"a\"} 6
ratekeeper_config_info{sha=\"3f9c1a2\"} 1
process_start_time_seconds 1700000000.25
a line of something else
";

    #[test]
    fn a_page_is_read_by_policies_sources_and_durations() {
        let sample = Sample::read(PAGE);
        let counts = |decisions, denied, would_deny| Counts { decisions, denied, would_deny };
        assert_eq!(
            sample.policies,
            BTreeMap::from([("api".to_owned(), counts(10, 3, 0)), ("new".to_owned(), counts(4, 0, 4))])
        );
        assert_eq!(sample.sources, BTreeMap::from([("exact".to_owned(), 13)]));
        assert_eq!(sample.took, BTreeMap::from([(10_000, 4), (250_000, 5), (u64::MAX, 6)]));
        assert_eq!((sample.sha.as_deref(), sample.started_s), (Some("3f9c1a2"), Some(1_700_000_000)));
    }

    #[test]
    fn seconds_are_read_in_every_form_and_nonsense_in_none() {
        for (text, expected) in [
            ("1e-5", Some(10_000)),
            ("2.5e-5", Some(25_000)),
            ("0.25", Some(250_000_000)),
            ("60", Some(60_000_000_000)),
            ("1e-12", Some(0)),
            ("+Inf", Some(u64::MAX)),
            ("-1", None),
            ("", None),
            ("1e99", None),
            ("x", None),
        ] {
            assert_eq!(nanos(text), expected, "{text}");
        }
    }
}
