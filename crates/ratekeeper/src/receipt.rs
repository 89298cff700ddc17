//! What gives an admission back, at most once.

use std::fmt;
use std::sync::Arc;

use ratekeeper_core::{Limit, Token};

use crate::keyed::Shared;
use crate::store::memory::{Hash, Inner, Query};

/// One limit's part of an admission.
pub(crate) struct Given {
    limiter: Arc<Shared>,
    limit: Limit,
    hash: Hash,
    token: Token,
}

impl Given {
    pub(crate) fn new(limiter: &Arc<Shared>, limit: &Limit, hash: Hash, token: Token) -> Self {
        Self { limiter: Arc::clone(limiter), limit: *limit, hash, token }
    }

    fn query(&self) -> Option<Query<'_>> {
        self.limiter.query(&self.limit, self.hash, 0, false)
    }
}

/// The proof of an admission. It is not `Clone` and giving it back consumes it, so an admission comes back at
/// most once.
#[must_use = "a receipt that is dropped can no longer be given back"]
pub struct Receipt {
    given: Vec<Given>,
}

impl Receipt {
    pub(crate) const fn new(given: Vec<Given>) -> Self {
        Self { given }
    }

    /// Gives the units back to every limit that took them, in one step.
    pub(crate) fn give_back(self) {
        let (queries, tokens): (Vec<Query<'_>>, Vec<Token>) =
            self.given.iter().filter_map(|given| Some((given.query()?, given.token))).unzip();
        if !queries.is_empty() {
            Inner::refund(&queries, &tokens);
        }
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.given.iter().map(|given| given.limit)).finish()
    }
}

/// Units that have been taken and may yet be given back. Dropping it gives them back.
#[derive(Debug)]
#[must_use = "a reservation that is dropped gives its units back"]
pub struct Reservation {
    receipt: Option<Receipt>,
}

impl Reservation {
    pub(crate) const fn new(receipt: Receipt) -> Self {
        Self { receipt: Some(receipt) }
    }

    /// Makes the admission final. The receipt can still give it back.
    pub fn keep(mut self) -> Receipt {
        self.receipt.take().unwrap_or(Receipt::new(Vec::new()))
    }

    /// Gives the units back now, as dropping does.
    pub fn cancel(self) {}
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(receipt) = self.receipt.take() {
            receipt.give_back();
        }
    }
}
