//! The `Date` field, written once a second.

use std::time::{Duration, UNIX_EPOCH};

use ratekeeper_core::Micros;

/// The last second that was asked for, as HTTP writes it.
#[derive(Default)]
pub(super) struct Date {
    second: u64,
    text: String,
}

impl Date {
    /// The field's value at an instant of the process's clock.
    pub(super) fn now(&mut self, now: Micros) -> &[u8] {
        let second = now.get() / 1_000_000;
        if second != self.second || self.text.is_empty() {
            self.second = second;
            // The clock ends at 2^53 µs, in the year 2255: within what the format can say.
            self.text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second));
        }
        self.text.as_bytes()
    }
}
