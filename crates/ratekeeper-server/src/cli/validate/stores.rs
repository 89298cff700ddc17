//! `validate --check-store`: whether the shared stores of a file can serve.

use ratekeeper_policy::{Config, StoreConfig};
use serde::Serialize;

use crate::cli::Failure;
use crate::live::{PROBE_TIMEOUT, connect, place};

/// A store that was asked.
#[derive(Serialize)]
pub(crate) struct Asked {
    name: String,
    place: String,
    /// What answers, and its version; null if nobody does.
    server: Option<String>,
    maxmemory_policy: Option<String>,
    findings: Vec<Found>,
}

/// What is not as it should be.
#[derive(Serialize)]
struct Found {
    severity: &'static str,
    message: String,
    hint: Option<String>,
}

const ERROR: &str = "error";

/// Asks all of them, one after another: whoever asks wants to know about each.
///
/// # Errors
/// If one cannot be asked for reasons of our own.
pub(super) fn probe(config: &Config) -> Result<Vec<Asked>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|wrong| Failure::Other(format!("error: cannot start a runtime: {wrong}")))?;
    config.stores.iter().filter_map(|store| runtime.block_on(ask(store)).transpose()).collect()
}

async fn ask(store: &StoreConfig) -> Result<Option<Asked>, Failure> {
    let Some(redis) = store.redis() else { return Ok(None) };
    let cannot = |wrong| Failure::Other(format!("error: cannot build store `{}`: {wrong}", store.name));
    let shared = connect(&store.name, redis, None).map_err(cannot)?;
    let mut asked = Asked {
        name: store.name.to_string(),
        place: place(&redis.url),
        server: None,
        maxmemory_policy: None,
        findings: Vec::new(),
    };
    match shared.probe(PROBE_TIMEOUT).await {
        Ok(probe) => {
            asked.server = probe.server;
            asked.maxmemory_policy = probe.maxmemory_policy;
            asked.findings.extend(probe.findings.into_iter().map(|finding| Found {
                severity: if finding.is_fatal { ERROR } else { "warning" },
                message: finding.message,
                hint: finding.hint,
            }));
        }
        Err(wrong) => {
            let why = shared.status().last_error.unwrap_or_else(|| wrong.to_string());
            asked.findings.push(Found { severity: ERROR, message: why, hint: None });
        }
    }
    Ok(Some(asked))
}

/// A line for each of them, and for what was found.
pub(super) fn lines(asked: &[Asked]) -> String {
    let mut text = String::new();
    for Asked { name, place, server, maxmemory_policy, findings } in asked {
        text.push_str(&format!("store {name}: {place}"));
        text.push_str(&server.as_ref().map_or_else(
            || ", no answer".to_owned(),
            |server| if server.is_empty() { String::new() } else { format!(", {server}") },
        ));
        if let Some(policy) = maxmemory_policy {
            text.push_str(&format!(", maxmemory-policy {policy}"));
        }
        text.push('\n');
        for Found { severity, message, hint } in findings {
            let hint = hint.as_ref().map_or_else(String::new, |hint| format!("; {hint}"));
            text.push_str(&format!("  {severity}: {message}{hint}\n"));
        }
    }
    text
}

/// Whether all of them can serve.
///
/// # Errors
/// If one cannot.
pub(super) fn done(asked: Option<&[Asked]>) -> Result<(), Failure> {
    let is_bad = |asked: &&Asked| asked.findings.iter().any(|found| found.severity == ERROR);
    let bad: Vec<&str> =
        asked.unwrap_or_default().iter().filter(is_bad).map(|asked| asked.name.as_str()).collect();
    if bad.is_empty() {
        return Ok(());
    }
    Err(Failure::BadInput(format!("error: cannot serve from: {}", bad.join(", "))))
}
