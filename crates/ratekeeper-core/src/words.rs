//! The words for why a request is refused and how its answer was reached.

/// Why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// The limit is used up for now.
    Limited,
    /// The cost is larger than the limit ever holds: it can never pass.
    CostExceedsCapacity,
    /// An override or a policy blocks the key.
    Blocked,
    /// The store has no answer, or no place for the key, and the configuration says to refuse then.
    StoreUnavailable,
    /// It would have to wait for longer than it is willing to.
    TooLate,
    /// As many wait as may.
    QueueFull,
    /// Nobody may wait any more.
    Closed,
}

impl Reason {
    /// The word on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Limited => "limited",
            Self::CostExceedsCapacity => "cost_exceeds_capacity",
            Self::Blocked => "blocked",
            Self::StoreUnavailable => "store_unavailable",
            Self::TooLate => "too_late",
            Self::QueueFull => "queue_full",
            Self::Closed => "closed",
        }
    }
}

/// How an answer was reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Source {
    /// On the key's own state.
    Exact,
    /// The store was full: on a state shared with others, or without any.
    Overflow,
    /// On units that a shared store had granted before.
    Leased,
    /// On local counts that are exchanged now and then.
    Approximate,
    /// By a refusal remembered from a moment ago.
    Cached,
    /// On this instance's share, because the shared store does not answer.
    Local,
    /// Allowed without an answer from the store.
    FailedOpen,
    /// Refused without an answer from the store.
    FailedClosed,
}

impl Source {
    /// The word on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Overflow => "overflow",
            Self::Leased => "leased",
            Self::Approximate => "approximate",
            Self::Cached => "cached",
            Self::Local => "local",
            Self::FailedOpen => "failed_open",
            Self::FailedClosed => "failed_closed",
        }
    }
}
