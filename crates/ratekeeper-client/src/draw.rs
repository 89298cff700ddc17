//! Jitter is an argument: whoever has randomness draws, and everything else is arithmetic.

use std::time::Duration;

/// A number drawn at random from all of 64 bits, from which a jitter is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Draw(pub u64);

impl Draw {
    /// The draw that makes every jitter 0.
    pub const LEAST: Self = Self(0);
    /// The draw that makes every jitter as long as it may be.
    pub const MOST: Self = Self(u64::MAX);

    /// A time from 0 to `span`, both possible, in whole microseconds.
    #[must_use]
    pub fn up_to(self, span: Duration) -> Duration {
        let places = u128::from(whole_micros(span)) + 1;
        // The product is below 2^128, and its upper half below `places`.
        let us = (places * u128::from(self.0)) >> 64;
        Duration::from_micros(u64::try_from(us).unwrap_or(u64::MAX))
    }
}

/// Whole microseconds of a time that are not shorter than it, `u64::MAX` if there are more.
pub(crate) fn whole_micros(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// The time rounded up to whole microseconds, so that adding it to an instant drops nothing.
pub(crate) fn micros_up(span: Duration) -> Duration {
    Duration::from_micros(whole_micros(span))
}
