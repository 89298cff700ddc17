//! What can go wrong before the first decision.

use std::fmt;

use ratekeeper_core::NameError;

/// Why a store or limiter cannot be built, or be given another limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// `max_keys` is not 1 to 1,000,000,000.
    MaxKeysOutOfRange,
    /// The table does not fit into memory.
    OutOfMemory,
    /// One store has met 32,766 different limits, and can tell no more apart.
    TooManyLimits,
    /// The thread that holds the connections to a shared store cannot be started, or a certificate cannot be read.
    #[cfg(feature = "redis")]
    Connections(std::io::ErrorKind),
    /// The prefix of a shared store's keys is not 1 to 32 of A-Z, a-z, 0-9, `_` and `-`.
    #[cfg(feature = "redis")]
    Prefix,
    /// The name is no [`Name`](ratekeeper_core::Name).
    Name(NameError),
    /// A shaper spaces starts by a leaky bucket with a `queue`; the limit is another.
    NotAQueue,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MaxKeysOutOfRange => f.write_str("`max_keys` is 1 to 1,000,000,000"),
            Self::OutOfMemory => f.write_str("a table for `max_keys` keys does not fit into memory"),
            Self::TooManyLimits => {
                f.write_str("the store has met 32,766 different limits, and no more can be told apart")
            }
            #[cfg(feature = "redis")]
            Self::Connections(kind) => write!(f, "cannot begin to connect to the store: {kind}"),
            #[cfg(feature = "redis")]
            Self::Prefix => f.write_str("a prefix is 1 to 32 of A-Z, a-z, 0-9, `_` and `-`"),
            Self::Name(error) => error.fmt(f),
            Self::NotAQueue => f.write_str("a shaper takes a `leaky-bucket` with a `queue`"),
        }
    }
}

impl std::error::Error for BuildError {}
