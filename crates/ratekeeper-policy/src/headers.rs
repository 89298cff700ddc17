//! The header fields that tell a client where it stands.

use crate::jitter::Jitter;

/// The fields of an answer that lets a request pass; a 429 has all that HTTP asks for whatever this says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headers {
    /// `RateLimit` and `RateLimit-Policy`.
    pub ratelimit: bool,
    /// `Retry-After`.
    pub retry_after: bool,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`.
    pub x_ratelimit: XRateLimit,
    /// What the numbers of `RateLimit` are called.
    pub dialect: Dialect,
    /// By how much a wait that is told may be longer than it must be.
    pub retry_jitter: Jitter,
}

impl Default for Headers {
    /// `RateLimit` and `Retry-After`.
    fn default() -> Self {
        Self {
            ratelimit: true,
            retry_after: true,
            x_ratelimit: XRateLimit::Off,
            dialect: Dialect::Rt,
            retry_jitter: Jitter::NONE,
        }
    }
}

/// The older fields, and what `X-RateLimit-Reset` means in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum XRateLimit {
    /// They are not sent.
    #[default]
    Off,
    /// The time of the reset in seconds since the Unix epoch, as most services have it.
    Unix,
    /// Seconds to go.
    Delta,
}

/// What the numbers of `RateLimit` are called: the draft of that field is not final.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dialect {
    /// `r` and `t`, as deployed clients read them.
    #[default]
    Rt,
    /// Those, and the same again as `a` and `w`.
    Both,
}

impl Dialect {
    pub(crate) const WORDS: [(&'static str, Self); 2] = [("rt", Self::Rt), ("both", Self::Both)];
}
