//! How long to wait when nobody says how long.

use std::time::Duration;

use crate::draw::Draw;

/// How waits grow, and how chance spreads them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Jitter {
    Full,
    Equal,
    Decorrelated,
}

/// Waits that grow from retry to retry up to a cap, spread by chance so that callers that failed together do not
/// come back together.
///
/// ```
/// use std::time::Duration;
/// use ratekeeper_client::{Backoff, Draw};
/// let quota = Backoff::equal_jitter(Duration::from_secs(1), Duration::from_secs(60));
/// assert_eq!(quota.wait(1, Duration::ZERO, Draw::LEAST), Duration::from_millis(500));
/// assert_eq!(quota.wait(3, Duration::ZERO, Draw::MOST), Duration::from_secs(4));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backoff {
    jitter: Jitter,
    base: Duration,
    cap: Duration,
}

impl Backoff {
    /// Before retry n anything from 0 to `base`·2ⁿ⁻¹, and to `cap` at most.
    #[must_use]
    pub const fn full_jitter(base: Duration, cap: Duration) -> Self {
        Self { jitter: Jitter::Full, base, cap }
    }

    /// Before retry n half of v = `base`·2ⁿ⁻¹ (`cap` at most) and anything up to the other half: never nothing.
    #[must_use]
    pub const fn equal_jitter(base: Duration, cap: Duration) -> Self {
        Self { jitter: Jitter::Equal, base, cap }
    }

    /// Anything from `base` to three times the wait before, and `cap` at most.
    #[must_use]
    pub const fn decorrelated_jitter(base: Duration, cap: Duration) -> Self {
        Self { jitter: Jitter::Decorrelated, base, cap }
    }

    /// The wait before retry number `retry`, from 1; `previous` is the wait before the retry before, zero at first.
    #[must_use]
    pub fn wait(&self, retry: u32, previous: Duration, draw: Draw) -> Duration {
        let grown = || {
            let factor = 1_u32.checked_shl(retry.saturating_sub(1)).unwrap_or(u32::MAX);
            self.base.saturating_mul(factor).min(self.cap)
        };
        match self.jitter {
            Jitter::Full => draw.up_to(grown()),
            Jitter::Equal => {
                let most = grown();
                let least = most / 2;
                least + draw.up_to(most.saturating_sub(least))
            }
            Jitter::Decorrelated => {
                let most = previous.max(self.base).saturating_mul(3);
                let spread = draw.up_to(most.saturating_sub(self.base));
                self.base.saturating_add(spread).min(self.cap)
            }
        }
    }

    pub(crate) fn is_usable(&self) -> bool {
        !self.base.is_zero() && self.base <= self.cap
    }
}
