//! What can be watched, and not changed.

use std::time::Duration;

use crate::decide::{GiveUp, Why};
use crate::hint::LimitInfo;

/// What a client does about waiting, as it does it. An observer cannot change it: it returns nothing.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A call waits at the gate of its key.
    Waiting {
        /// The key.
        key: &'a str,
        /// Until it may be sent, as far as is known now.
        wait: Duration,
    },
    /// A call will be sent again.
    Retrying {
        /// The key.
        key: &'a str,
        /// Sends so far.
        attempts: u32,
        /// The wait before the next.
        wait: Duration,
        /// The reason.
        why: Why,
    },
    /// A call that failed is not sent again.
    GaveUp {
        /// The key.
        key: &'a str,
        /// Sends so far.
        attempts: u32,
        /// The reason.
        why: GiveUp,
    },
    /// A call was not sent, since the gate of its key is closed for too long.
    Gated {
        /// The key.
        key: &'a str,
        /// When it may be worth trying.
        retry_after: Duration,
    },
    /// An answer told about a limit.
    Learned {
        /// The key.
        key: &'a str,
        /// What it told.
        limit: &'a LimitInfo,
    },
}
