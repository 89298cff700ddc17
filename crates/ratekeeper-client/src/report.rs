//! What a call came to.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::decide::GiveUp;

/// What happened on the way to an answer: an extension of every response that a polite client returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct RetryReport {
    /// How often it was sent.
    pub attempts: u32,
    /// How long it waited, at the gate and between attempts.
    pub waited: Duration,
    /// Why it was not sent again though it failed; `None` if it is the answer.
    pub gave_up: Option<GiveUp>,
    /// When its key's gate opens, if it is closed.
    pub retry_after: Option<Duration>,
}

/// A call was not sent: the gate of its key is closed for longer than the call may wait.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Gated {
    /// The key.
    pub key: Arc<str>,
    /// When it may be worth trying.
    pub retry_after: Duration,
}

impl fmt::Display for Gated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key may hold what its maker put into it: it is the caller's to show.
        write!(f, "not sent: the server has asked for a pause; retry in {:?}", self.retry_after)
    }
}

impl std::error::Error for Gated {}
