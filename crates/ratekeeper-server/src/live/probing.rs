//! Whether shared stores can serve: they are asked when a configuration is put to work.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use ratekeeper::Finding;
use ratekeeper_core::Name;

use super::{Live, Shared};

/// How long a store may take to say whether it can serve: it is connected to for that.
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

impl Live {
    /// Asks each shared store that `before` did not have whether it can serve; what is not as it should be. One that does
    /// not answer is told, and does not keep the configuration from working.
    ///
    /// # Errors
    /// If one answers, and cannot serve.
    pub(crate) async fn probe(&self, before: Option<&Self>) -> Result<Vec<String>, String> {
        let probes = self.new_stores(before).map(|(name, store)| -> BoxFuture<'_, _> {
            Box::pin(async move { (name, store, store.probe(PROBE_TIMEOUT).await) })
        });
        let mut notes = Vec::new();
        for (name, store, probe) in join_all(probes).await {
            match probe {
                Ok(probe) => {
                    for finding in &probe.findings {
                        let text = told(name, finding);
                        if finding.is_fatal {
                            return Err(text);
                        }
                        notes.push(text);
                    }
                }
                Err(wrong) => {
                    let why = store.status().last_error.unwrap_or_else(|| wrong.to_string());
                    store.watch().was_silent(&why);
                }
            }
        }
        Ok(notes)
    }

    /// Whether there is anybody to be asked.
    pub(crate) fn has_new_stores(&self, before: Option<&Self>) -> bool {
        self.new_stores(before).next().is_some()
    }

    fn new_stores<'l>(&'l self, before: Option<&'l Self>) -> impl Iterator<Item = (&'l Name, &'l Shared)> {
        let is_known = move |store: &Shared| {
            let mut known = before.into_iter().flat_map(Self::shared_stores);
            known.any(|(_, other)| Arc::ptr_eq(other.watch(), store.watch()))
        };
        self.shared_stores().filter(move |(_, store)| !is_known(store))
    }
}

/// What is wrong with a store, in words.
fn told(store: &Name, finding: &Finding) -> String {
    let hint = finding.hint.as_ref().map_or_else(String::new, |hint| format!("; {hint}"));
    format!("store `{store}`: {}{hint}", finding.message)
}
