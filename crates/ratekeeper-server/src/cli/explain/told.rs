//! An explanation in words: who the client is, what becomes of each policy, and the arithmetic of those that apply.

use jiff::tz::TimeZone;

use crate::cli::check::answer::harmless;
use crate::explained::{Applied, Explained, Limit, Override, Policy, words};

/// What stands before the text of a line is as wide as this, or as the longest name.
const LEAD: usize = 10;
const GAP: &str = "    ";

/// The whole text. `zone` is where the readers are.
pub(super) fn text(explained: &Explained, zone: &TimeZone) -> String {
    let mut lines = Vec::new();
    if let Some(client) = &explained.client {
        let ip = client.ip.as_deref().unwrap_or("unknown");
        lines.push(format!("{:LEAD$}{ip}     {}", "client", client.why));
    }
    lines.extend(policies(&explained.policies));
    if let Some(error) = &explained.error {
        lines.push(format!("{:LEAD$}{error}", "error"));
    }
    let mut applied = explained.policies.iter().filter_map(|policy| Some((policy, policy.applied.as_ref()?)));
    let mut has_any = false;
    for (policy, applied) in &mut applied {
        has_any = true;
        lines.push(heading(policy, applied));
        lines.extend(applied.limits.iter().flat_map(|limit| told(limit, zone)));
        lines.extend(applied.action.as_deref().map(acts));
    }
    if !has_any && explained.error.is_none() {
        lines.push("no policy applies: the request is allowed".to_owned());
    }
    lines.iter().map(|line| harmless(line.trim_end()) + "\n").collect()
}

/// A line for each policy, those that apply first.
fn policies(policies: &[Policy]) -> Vec<String> {
    let width = |of: fn(&Policy) -> &str| policies.iter().map(|policy| of(policy).chars().count()).max();
    let names = width(|policy| &policy.name).unwrap_or(0) + GAP.len();
    let whys = width(|policy| &policy.why).unwrap_or(0) + GAP.len();
    let (apply, others): (Vec<&Policy>, Vec<&Policy>) =
        policies.iter().partition(|policy| policy.applied.is_some());
    let line = |(index, policy): (usize, &Policy)| {
        let lead = if index == 0 { "policies" } else { "" };
        let Policy { name, why, file, line, .. } = policy;
        let outcome = policy.outcome.replace('_', " ");
        format!("{lead:LEAD$}{name:names$}{outcome:12}{why:whys$}{file}:{line}")
    };
    apply.into_iter().chain(others).enumerate().map(line).collect()
}

/// What is the same for all limits of a policy.
fn heading(policy: &Policy, applied: &Applied) -> String {
    let by = match &applied.by_override {
        Some(Override { key: Some(key), line: Some(line) }) => {
            format!("{key} ({}:{line})", policy.file)
        }
        Some(_) => "temporary".to_owned(),
        None => "none".to_owned(),
    };
    let mut parts = vec![
        format!("{} key {}", lead(&policy.name), applied.key.as_deref().unwrap_or("none")),
        format!("override {by}"),
        match &applied.shared_store {
            Some(shared) => format!("store {} ({})", applied.store, shared.state),
            None => format!("store {}", applied.store),
        },
        format!("on_store_error {}", applied.on_store_error),
        format!("mode {}", applied.mode),
    ];
    let is_plain = applied.cost == 1 && matches!(applied.cost_from.as_str(), "by the policy" | "as asked");
    if applied.action.is_none() && !is_plain {
        parts.push(format!("cost {} {}", applied.cost, applied.cost_from));
    }
    parts.join(GAP)
}

/// A name as wide as [`LEAD`] with the space behind it.
fn lead(name: &str) -> String {
    format!("{name:width$}", width = LEAD - 1)
}

/// How a limit reckons, and what it says.
fn told(limit: &Limit, zone: &TimeZone) -> Vec<String> {
    let key = limit.key.as_ref().map_or_else(String::new, |key| format!(" key {key}"));
    let first = format!(
        "  {:width$}{} {}{key}",
        limit.name.clone() + " ",
        limit.algorithm,
        limit.limit,
        width = LEAD - 2
    );
    match &limit.now {
        None => vec![format!("{first}{GAP}{}", limit.arithmetic)],
        Some(now) => vec![
            format!("{first}{GAP}{}", words::arithmetic(limit, now, zone)),
            format!("{:LEAD$}{}", "", words::verdict(limit, now, zone)),
        ],
    }
}

/// What is done without asking any limit.
fn acts(action: &str) -> String {
    let does = match action {
        "block" => "BLOCKED: refused without asking any limit",
        _ => "BYPASSED: no limit is asked",
    };
    format!("{:LEAD$}{does}", "")
}
