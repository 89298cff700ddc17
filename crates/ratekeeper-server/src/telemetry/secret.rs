//! A secret of this process, and digests that nobody can make without it.

use sha2::{Digest as _, Sha256};

/// 32 random bytes that live as long as the process. They are never shown: there is no `Debug`.
pub(crate) struct Secret([u8; 32]);

impl Secret {
    /// A fresh one from the system.
    ///
    /// # Errors
    /// If the system has no randomness to give.
    pub(crate) fn new() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// SHA-256 over the secret and `parts`.
    ///
    /// How many parts there are and how long each is goes in first, so no two lists of parts are the same text,
    /// and none is the beginning of another: who knows one digest cannot continue it to that of a longer list.
    pub(crate) fn digest(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(length(parts.len()));
        for part in parts {
            hash.update(length(part.len()));
            hash.update(part);
        }
        hash.finalize().into()
    }
}

fn length(bytes: usize) -> [u8; 8] {
    u64::try_from(bytes).unwrap_or(u64::MAX).to_le_bytes()
}

#[cfg(test)]
mod tests;
