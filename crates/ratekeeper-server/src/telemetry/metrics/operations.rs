//! How long a shared store takes, by what it is asked.

use std::time::Duration;

use super::histogram::Histogram;

/// What a shared store is asked.
const OPS: [&str; 2] = ["decide", "amend"];

/// How long each of that takes.
#[derive(Debug)]
pub(crate) struct Operations([Histogram; OPS.len()]);

impl Default for Operations {
    fn default() -> Self {
        Self(OPS.map(|_| Histogram::of_decisions()))
    }
}

impl Operations {
    /// `op` was answered after so long.
    pub(crate) fn took(&self, op: &str, took: Duration) {
        if let Some(at) = OPS.iter().position(|known| *known == op) {
            self.0[at].observe(took);
        }
    }

    /// All of them by their names.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, &Histogram)> {
        OPS.into_iter().zip(&self.0)
    }
}
