//! The two clocks of a client: the runtime's, which waits are counted on, and the time of day.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ratekeeper_core::Micros;
use tokio::time::Instant;

use crate::draw::whole_micros;

/// The time of day is looked at once an answer, and matters only for dates in answers that have no `Date`.
#[expect(clippy::disallowed_methods, reason = "a date can only be turned into a wait by the time of day")]
pub(crate) fn time_of_day() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The runtime's clock, from the first look at it.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    origin: OnceLock<Instant>,
}

impl Clock {
    fn origin(&self) -> Instant {
        *self.origin.get_or_init(Instant::now)
    }

    pub(crate) fn now(&self) -> Micros {
        let origin = self.origin();
        Micros::new(u64::try_from(Instant::now().duration_since(origin).as_micros()).unwrap_or(u64::MAX))
    }

    /// The runtime's instant at which this is past.
    pub(crate) fn at(&self, instant: Micros) -> Instant {
        // At most 285 years: no system's clock ends earlier.
        self.origin() + Duration::from_micros(instant.get())
    }

    pub(crate) fn after(&self, wait: Duration) -> Micros {
        Micros::new(self.now().get().saturating_add(whole_micros(wait)))
    }
}
