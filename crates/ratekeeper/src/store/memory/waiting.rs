//! Those who wait for a memory store.

use std::sync::Arc;

use ratekeeper_core::{Check, MAX_LIMITS, StoreError};

use super::table::Hash;
use super::{Inner, MemoryStore};
use crate::waiting::{AcquireAll, Lines, One};

impl Inner {
    /// The lines, made if nobody has waited yet.
    pub(crate) fn lines(&self) -> &Arc<Lines> {
        self.lines.get_or_init(|| Arc::new(Lines::new(self.clock.clone(), self.max_waiting)))
    }

    pub(crate) fn is_anybody_in_line(&self) -> bool {
        self.lines.get().is_some_and(|lines| lines.is_anybody_in_line())
    }

    /// Units have come back to a key, or (`None`) the limit of all has changed: whoever waits may be served.
    pub(crate) fn ask_again(&self, hash: Option<Hash>) {
        let Some(hash) = hash else {
            // A limit changes without a lock. Whoever is just coming, and has asked by the old one, is seen under the
            // lock of the lines only, even if it is the first who ever waits.
            return self.lines().ask_again(None);
        };
        // Units come back under the lock of their row: whoever has found too few there before is seen without one.
        if let Some(lines) = self.lines.get().filter(|lines| lines.is_anybody_in_line()) {
            lines.ask_again(Some(hash.0));
        }
    }
}

impl MemoryStore {
    /// Decides a request from all its limits like [`MemoryStore::decide_now`], and waits until it is allowed. It waits
    /// as [`All::acquire`](crate::All::acquire) does: in the line of the first check's key.
    ///
    /// ```
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    /// # runtime.block_on(async {
    /// use ratekeeper::{Check, Limit, MemoryStore, Name, NamedLimit};
    /// let policy = Name::new("api")?;
    /// let minute = NamedLimit::new(&policy, Name::new("minute")?, Limit::per_minute(300));
    /// let store = MemoryStore::builder().max_keys(100_000).build()?;
    /// let request = [Check { limit: &minute, key: "user:42".into(), cost: 1 }];
    /// assert_eq!(store.acquire(&request)?.await?.remaining(), 299);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`StoreError::TooManyLimits`] for more than [`MAX_LIMITS`] checks.
    pub fn acquire(&self, checks: &[Check<'_>]) -> Result<AcquireAll, StoreError> {
        if checks.len() > MAX_LIMITS {
            return Err(StoreError::TooManyLimits);
        }
        let parts = checks.iter().map(|check| One::of_store(&self.inner, check));
        Ok(AcquireAll::new(parts.collect()))
    }

    /// The same for limits that lie in several stores, as [`MemoryStore::decide_across`] decides them. It waits in a line of
    /// the first one's store.
    ///
    /// # Errors
    /// Those of [`MemoryStore::acquire`].
    pub fn acquire_across(parts: &[(&Self, Check<'_>)]) -> Result<AcquireAll, StoreError> {
        if parts.len() > MAX_LIMITS {
            return Err(StoreError::TooManyLimits);
        }
        let parts = parts.iter().map(|(store, check)| One::of_store(&store.inner, check));
        Ok(AcquireAll::new(parts.collect()))
    }
}
