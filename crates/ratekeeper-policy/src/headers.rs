//! The header fields that tell a client where it stands.

/// The fields of an answer that lets a request pass; a 429 has all that HTTP asks for whatever this says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headers {
    /// `RateLimit` and `RateLimit-Policy`.
    pub ratelimit: bool,
    /// `Retry-After`.
    pub retry_after: bool,
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`.
    pub x_ratelimit: XRateLimit,
}

impl Default for Headers {
    /// `RateLimit` and `Retry-After`.
    fn default() -> Self {
        Self { ratelimit: true, retry_after: true, x_ratelimit: XRateLimit::Off }
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
