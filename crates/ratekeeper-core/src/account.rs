//! What an answer was reckoned from, for those who want to see the arithmetic.

use core::time::Duration;

use crate::algorithm::{Rule, fixed_window, meter, queue, sliding_window_counter, sliding_window_log};
use crate::decision::Verdict;
use crate::time::Micros;

/// What a key has used of a limit, as the limit's algorithm counts it: the numbers that a [`Verdict`] follows from.
///
/// All of them are exact or, where it is said, rounded so that no unit too many seems to be free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Account {
    /// Buckets.
    Level {
        /// What is in use, in thousandths of a unit, rounded up.
        thousandths: u64,
    },
    /// A leaky bucket with a queue.
    Line {
        /// Units that have not started yet.
        waiting: u64,
        /// Until the next one can start.
        start_after: Duration,
    },
    /// A fixed window.
    Window {
        /// Units that it has admitted.
        count: u64,
        /// Until it ends. With `align: first-request` and a count of 0: of a window that would begin now.
        ends_after: Duration,
    },
    /// A sliding window counter.
    Fading {
        /// Units of the window before this one.
        previous: u64,
        /// How much of them still counts, in thousandths, rounded up.
        share: u64,
        /// Units of this window.
        current: u64,
        /// What counts of both, in whole units, rounded up.
        used: u64,
    },
    /// A sliding window log.
    Log {
        /// Units that are remembered.
        used: u64,
        /// When the oldest of them was admitted, if there is one and it is known: it is not where the limit has been
        /// lowered below what is used.
        oldest: Option<Micros>,
        /// When the newest was admitted, if there is one.
        newest: Option<Micros>,
    },
}

impl Verdict {
    /// The instant of the answer, by the clock of the store.
    #[must_use]
    pub const fn now(&self) -> Micros {
        Micros::new(self.now)
    }

    /// What the answer was reckoned from: after the admission, or as it is if nothing was taken. None where there was
    /// no place for the key, and so nothing to reckon from.
    #[must_use]
    pub fn account(&self) -> Option<Account> {
        if self.has_no_room() {
            return None;
        }
        let (limit, state, now) = (&self.limit, self.state, self.now);
        Some(match limit.rule() {
            Rule::Meter => Account::Level { thousandths: meter::thousandths(limit, state, now) },
            Rule::Queue => Account::Line {
                waiting: queue::waiting(limit, state, now),
                start_after: Duration::from_micros(queue::delay_ahead(limit, state, now)),
            },
            Rule::Fixed => Account::Window {
                count: fixed_window::count(state),
                ends_after: Duration::from_micros(fixed_window::retry_after(state, now)),
            },
            Rule::Counter => {
                let [previous, share, current, used] = sliding_window_counter::counts(limit, state, now);
                Account::Fading { previous, share, current, used }
            }
            Rule::Log => {
                let (used, newest) = sliding_window_log::used_until(state);
                let is_known = used > 0 && used <= limit.capacity();
                // It leaves a window after it was admitted.
                let age = limit.window_us().saturating_sub(sliding_window_log::more_after(state));
                Account::Log {
                    used,
                    oldest: is_known.then(|| Micros::new(now.saturating_sub(age))),
                    newest: (used > 0).then(|| Micros::new(newest)),
                }
            }
        })
    }
}

#[cfg(test)]
mod tests;
