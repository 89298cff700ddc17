//! What two looks at a server come to: a page for people, a line for programs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ratekeeper_policy::{is_invisible, thousands};
use serde::Serialize;

use super::sample::{Counts, Denied, Sample, Top};
use crate::human;

/// How far back the bars go.
const HISTORY_MS: u64 = 60_000;
/// The most bars of a policy: what fits on a line.
const MAX_BARS: usize = 30;
/// How many policies a page shows: what fits on a screen.
const MAX_ROWS: usize = 20;
/// How much of a key is shown, in characters.
const MAX_KEY_CHARS: usize = 40;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What happened between two looks.
#[derive(Serialize)]
pub(super) struct Tick<'t> {
    pub(super) server: &'t str,
    pub(super) interval_ms: u64,
    pub(super) up_s: Option<u64>,
    pub(super) sha: Option<&'t str>,
    pub(super) decisions: u64,
    pub(super) decisions_per_s: u64,
    /// What half of the questions to stores took at most; null if nothing was asked, or it was longer than is measured.
    pub(super) p50_us: Option<u64>,
    pub(super) p99_us: Option<u64>,
    pub(super) sources: BTreeMap<&'t str, u64>,
    /// The busiest first.
    pub(super) policies: Vec<Row<'t>>,
    /// Of how long a time `denied` is.
    pub(super) window_s: u64,
    pub(super) denied: &'t [Denied],
}

/// What happened to one policy.
#[derive(Serialize)]
pub(super) struct Row<'t> {
    pub(super) policy: &'t str,
    pub(super) decisions: u64,
    pub(super) decisions_per_s: u64,
    pub(super) denied: u64,
    pub(super) would_deny: u64,
}

impl<'t> Tick<'t> {
    /// What happened from `before` to `after`, which is `interval_ms` later, at `now_s` of Unix time.
    pub(super) fn between(
        server: &'t str,
        before: &Sample,
        (after, top): (&'t Sample, &'t Top),
        interval_ms: u64,
        now_s: u64,
    ) -> Self {
        let mut policies: Vec<Row<'t>> = after
            .policies
            .iter()
            .map(|(policy, counts)| {
                let old = before.policies.get(policy).copied().unwrap_or_default();
                Row::between(policy, &old, counts, interval_ms)
            })
            .collect();
        policies.sort_by_key(|row| std::cmp::Reverse(row.decisions));
        let decisions = policies.iter().map(|row| row.decisions).fold(0, u64::saturating_add);
        let sources = after.sources.iter().map(|(source, count)| {
            (source.as_str(), more(before.sources.get(source).copied().unwrap_or(0), *count))
        });
        let took: BTreeMap<u64, u64> = after
            .took
            .iter()
            .map(|(most, count)| (*most, more(before.took.get(most).copied().unwrap_or(0), *count)))
            .collect();
        Self {
            server,
            interval_ms,
            up_s: after.started_s.map(|started| now_s.saturating_sub(started)),
            sha: after.sha.as_deref(),
            decisions,
            decisions_per_s: per_second(decisions, interval_ms),
            p50_us: quantile_us(&took, 50),
            p99_us: quantile_us(&took, 99),
            sources: sources.collect(),
            policies,
            window_s: top.window_s,
            denied: &top.denied,
        }
    }
}

impl<'t> Row<'t> {
    fn between(policy: &'t str, before: &Counts, after: &Counts, interval_ms: u64) -> Self {
        let decisions = more(before.decisions, after.decisions);
        Self {
            policy,
            decisions,
            decisions_per_s: per_second(decisions, interval_ms),
            denied: more(before.denied, after.denied),
            would_deny: more(before.would_deny, after.would_deny),
        }
    }
}

/// By how much a counter has grown. One that is less than before has begun anew, with its server.
const fn more(before: u64, after: u64) -> u64 {
    if after < before { after } else { after - before }
}

/// So many in a second, to the nearest.
fn per_second(count: u64, interval_ms: u64) -> u64 {
    let interval = interval_ms.max(1);
    count.saturating_mul(1_000).saturating_add(interval / 2) / interval
}

/// What so many of a hundred took at most, in whole microseconds rounded up.
fn quantile_us(took: &BTreeMap<u64, u64>, percent: u64) -> Option<u64> {
    let all = took.values().next_back().copied().filter(|all| *all > 0)?;
    let rank = all.saturating_mul(percent).div_ceil(100);
    let (most, _) = took.iter().find(|(_, count)| **count >= rank)?;
    (*most < u64::MAX).then(|| most.div_ceil(1_000))
}

/// What has been seen of each policy before, for its bars.
#[derive(Default)]
pub(super) struct History(BTreeMap<String, VecDeque<u64>>);

impl History {
    /// Adds what happened; forgets what is older than a minute, and policies that are gone.
    pub(super) fn add(&mut self, tick: &Tick<'_>) {
        let most = usize::try_from(HISTORY_MS / tick.interval_ms.max(1)).unwrap_or(MAX_BARS);
        let there: BTreeSet<&str> = tick.policies.iter().map(|row| row.policy).collect();
        self.0.retain(|policy, _| there.contains(policy.as_str()));
        for row in &tick.policies {
            let rates = self.0.entry(row.policy.to_owned()).or_default();
            rates.push_back(row.decisions_per_s);
            while rates.len() > most.clamp(1, MAX_BARS) {
                rates.pop_front();
            }
        }
    }

    fn bars(&self, policy: &str) -> String {
        let Some(rates) = self.0.get(policy) else { return String::new() };
        let most = rates.iter().copied().max().unwrap_or(0).max(1);
        let bar = |rate: &u64| {
            let height = rate.saturating_mul(BARS.len() as u64 - 1).div_ceil(most);
            usize::try_from(height).ok().and_then(|height| BARS.get(height)).copied().unwrap_or(' ')
        };
        rates.iter().map(bar).collect()
    }

    fn len(&self) -> usize {
        self.0.values().map(VecDeque::len).max().unwrap_or(0)
    }
}

/// The page: lines that all are whole, without an end of the line.
pub(super) fn lines(tick: &Tick<'_>, history: &History) -> Vec<String> {
    let mut lines = vec![headline(tick), String::new()];
    let seconds = (history.len() as u64).saturating_mul(tick.interval_ms).div_ceil(1_000);
    let mut table = vec![[
        "policy".to_owned(),
        "decisions/s".to_owned(),
        format!("last {seconds} s"),
        "denied".to_owned(),
        "would deny".to_owned(),
        "most denied".to_owned(),
    ]];
    for row in tick.policies.iter().take(MAX_ROWS) {
        let most = tick.denied.iter().find(|denied| denied.policy == row.policy);
        table.push([
            row.policy.to_owned(),
            thousands(row.decisions_per_s),
            history.bars(row.policy),
            share(row.denied, row.decisions),
            share(row.would_deny, row.decisions),
            most.map(|most| most_denied(most, tick.window_s)).unwrap_or_default(),
        ]);
    }
    lines.extend(aligned(&table));
    let hidden = tick.policies.len().saturating_sub(MAX_ROWS);
    if hidden > 0 {
        lines.push(format!("and {} more", thousands(hidden as u64)));
    }
    lines.iter().map(|line| harmless(line)).collect()
}

fn headline(tick: &Tick<'_>) -> String {
    let mut parts = vec![format!("ratekeeper {}", tick.server)];
    if let Some(up) = tick.up_s {
        parts.push(format!("up {}", human::duration(up.saturating_mul(1_000))));
    }
    if let Some(sha) = tick.sha {
        parts.push(format!("config {sha}"));
    }
    parts.push(format!("{} decisions/s", thousands(tick.decisions_per_s)));
    for (name, took) in [("p50", tick.p50_us), ("p99", tick.p99_us)] {
        if let Some(took) = took {
            parts.push(format!("{name} ≤ {}", human::nanos(took.saturating_mul(1_000))));
        }
    }
    let all = tick.sources.values().copied().fold(0, u64::saturating_add);
    let sources: Vec<String> = tick
        .sources
        .iter()
        .filter(|(_, count)| **count > 0)
        .map(|(source, count)| format!("{source} {}", share(*count, all)))
        .collect();
    if !sources.is_empty() {
        parts.push(sources.join(", "));
    }
    parts.join("   ")
}

/// A share in percent with one digit behind the point; a dash for none.
fn share(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 {
        return "–".to_owned();
    }
    let tenths = (u128::from(part) * 1_000 + u128::from(whole) / 2) / u128::from(whole);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

fn most_denied(denied: &Denied, window_s: u64) -> String {
    let mut key: String = denied.key.chars().take(MAX_KEY_CHARS).collect();
    if denied.key.chars().nth(MAX_KEY_CHARS).is_some() {
        key.push('…');
    }
    let window = human::duration(window_s.max(1).saturating_mul(1_000));
    format!("{key}  {} in {window}", thousands(denied.count))
}

/// A table: numbers to the right, bars and words to the left.
fn aligned<const N: usize>(table: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| {
        table.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let line = |row: &[String; N]| {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            let width = width(column);
            if matches!(column, 1 | 3 | 4) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<_>>().join("   ").trim_end().to_owned()
    };
    table.iter().map(line).collect()
}

/// A text from elsewhere without what would move a cursor or hide what is beside it.
fn harmless(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() || is_invisible(c) { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}

#[cfg(test)]
mod tests;
