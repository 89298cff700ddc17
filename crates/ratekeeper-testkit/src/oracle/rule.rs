//! The limits as the oracle knows them.

/// The longest guard of a window against small steps of the clock; a shorter window is its own guard.
pub const GUARD_MAX_US: u64 = 1_000_000;

/// One limit: how units are counted, and the numbers of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// A bucket of `burst` units that refills by `amount` per window: token bucket, GCRA, leaky meter.
    Meter {
        /// Units per window.
        amount: u64,
        /// The window.
        window_us: u64,
        /// The most that a full bucket holds.
        burst: u64,
    },
    /// At most `amount` in each window.
    Fixed {
        /// Units per window.
        amount: u64,
        /// The window; with [`Align::Periods`] only its name, the boundaries decide.
        window_us: u64,
        /// Where windows begin.
        align: Align,
    },
    /// At most `amount` in every trailing window, exactly.
    Log {
        /// Units per window.
        amount: u64,
        /// The window.
        window_us: u64,
    },
    /// At most `amount` by the estimate from two epoch-aligned windows.
    Counter {
        /// Units per window.
        amount: u64,
        /// The window.
        window_us: u64,
    },
    /// Evenly spaced starts, `amount` per window; one at once and `queue` units waiting.
    Queue {
        /// Units per window.
        amount: u64,
        /// The window.
        window_us: u64,
        /// Units that may wait.
        queue: u64,
        /// The longest wait that is accepted.
        max_wait_us: Option<u64>,
    },
}

/// Where the windows of a fixed window begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Align {
    /// At multiples of the window since the epoch.
    Epoch,
    /// At the first admission after the last window.
    FirstRequest,
    /// At these instants, sorted: a calendar written out. It has to cover every instant that is asked about.
    Periods(Vec<u64>),
}

impl Rule {
    /// The largest cost that can ever be admitted at once.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        match *self {
            Self::Meter { burst, .. } => burst,
            Self::Fixed { amount, .. } | Self::Log { amount, .. } | Self::Counter { amount, .. } => amount,
            Self::Queue { queue, .. } => queue + 1,
        }
    }

    /// Units per window.
    #[must_use]
    pub fn amount(&self) -> u64 {
        match *self {
            Self::Meter { amount, .. }
            | Self::Fixed { amount, .. }
            | Self::Log { amount, .. }
            | Self::Counter { amount, .. }
            | Self::Queue { amount, .. } => amount,
        }
    }

    /// The window.
    #[must_use]
    pub fn window_us(&self) -> u64 {
        match *self {
            Self::Meter { window_us, .. }
            | Self::Fixed { window_us, .. }
            | Self::Log { window_us, .. }
            | Self::Counter { window_us, .. }
            | Self::Queue { window_us, .. } => window_us,
        }
    }

    /// The time after which a key is fresh again whatever was admitted: the window, two for a counter, the
    /// time to refill a bucket, rounded up. For [`Align::Periods`] the longest of them.
    #[must_use]
    pub fn full_period_us(&self) -> u64 {
        match self {
            Self::Meter { amount, window_us, burst } => refill(*burst, *window_us, *amount),
            Self::Queue { amount, window_us, queue, .. } => refill(queue + 1, *window_us, *amount),
            Self::Fixed { align: Align::Periods(starts), .. } => {
                starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
            }
            Self::Fixed { window_us, .. } | Self::Log { window_us, .. } => *window_us,
            Self::Counter { window_us, .. } => 2 * window_us,
        }
    }

    /// How far back the clock may step before a window is left: `min(W, 1 s)`; 0 where there are no windows.
    #[must_use]
    pub fn guard_us(&self) -> u64 {
        match self {
            Self::Fixed { align: Align::Periods(starts), .. } => {
                let longest = starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0);
                longest.min(GUARD_MAX_US)
            }
            Self::Fixed { window_us, .. } | Self::Counter { window_us, .. } => (*window_us).min(GUARD_MAX_US),
            Self::Meter { .. } | Self::Log { .. } | Self::Queue { .. } => 0,
        }
    }
}

fn refill(units: u64, window_us: u64, amount: u64) -> u64 {
    let us = (u128::from(units) * u128::from(window_us)).div_ceil(u128::from(amount));
    u64::try_from(us).expect("a bucket that refills within 2^64 us")
}
