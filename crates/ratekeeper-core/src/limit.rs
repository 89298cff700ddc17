//! [`Limit`]: N units per window and how they are counted. The only door to valid numbers: what is built
//! here can be decided without a check, a panic or an overflow.

mod error;
mod grammar;
#[cfg(test)]
mod tests;

use core::fmt;
use core::time::Duration;

pub use error::LimitError;
pub use grammar::{Rate, parse_duration};

use crate::algorithm::{Algorithm, Rule};
use crate::time::{DAY_US, Period, whole_micros};

/// Largest limit, burst and `queue + 1`: every algorithm's counts fit 30 bits.
pub const MAX_AMOUNT: u64 = 1_000_000_000;
/// Largest limit of a sliding-window log, which keeps an entry per admitted request.
pub const MAX_LOG_AMOUNT: u64 = 100_000;
/// Longest window, and longest time to refill a bucket: 366 days in microseconds.
pub const MAX_WINDOW_US: u64 = 366 * DAY_US;
/// Shortest window of a limit in a store that a fleet shares: there states live for whole milliseconds, and a network
/// decides nothing shorter.
pub const MIN_SHARED_WINDOW: Duration = Duration::from_millis(1);
/// Longest `max_wait` of a queue: no slot is ever further away than the longest window.
pub const MAX_WAIT_US: u64 = MAX_WINDOW_US;

/// Where the windows of a `fixed-window` limit begin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Align {
    /// At whole multiples of the window since the Unix epoch.
    #[default]
    Epoch,
    /// At the first request that is admitted after the last window ended.
    FirstRequest,
    /// At the days, weeks or months of a time zone; the store is given the calendar beside the limit.
    Calendar(Period),
}

/// N units per window, an algorithm and its options: checked once, then only read.
///
/// `const` values with a number out of range do not compile. Numbers that come from outside go through
/// [`Limit::try_per`], [`LimitSpec::build`] or [`str::parse`].
///
/// ```
/// use ratekeeper_core::{Algorithm, Align, Limit};
/// use core::time::Duration;
/// const API: Limit = Limit::per_second(10).burst(20); // token-bucket unless said otherwise
/// const LOGIN: Limit = Limit::per(10, Duration::from_secs(600)).algorithm(Algorithm::SlidingWindowLog);
/// const SMS: Limit = Limit::per_minute(1).algorithm(Algorithm::FixedWindow).align(Align::FirstRequest);
/// const PACED: Limit =
///     Limit::per_second(1).algorithm(Algorithm::LeakyBucket).queue(10).max_wait(Duration::from_secs(5));
/// assert_eq!("300/minute".parse(), Ok(Limit::per_minute(300)));
/// assert_eq!(API.worst_case(Duration::from_secs(1)), 30);
/// ```
///
/// ```compile_fail
/// const NOTHING: ratekeeper_core::Limit = ratekeeper_core::Limit::per_second(0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Limit {
    window_us: u64,
    /// One unit takes `unit_us + unit_part / parts` microseconds: W / N, reduced and exact.
    pub(crate) unit_us: u64,
    /// A full bucket takes `span_us + span_part / parts` microseconds to refill.
    pub(crate) span_us: u64,
    /// `u64::MAX`: a queue without `max_wait`.
    pub(crate) max_wait_us: u64,
    amount: u32,
    /// The largest cost that can be admitted at once: N, burst, or queue + 1.
    capacity: u32,
    pub(crate) unit_part: u32,
    pub(crate) span_part: u32,
    pub(crate) parts: u32,
    algorithm: Algorithm,
    queued: bool,
    /// The burst was named, not defaulted.
    burst_named: bool,
    align: Align,
}

impl Limit {
    /// `n` units per `window`, as a token bucket with burst `n`.
    ///
    /// # Panics
    /// If a number is out of range (see [`LimitError`]); in a `const` that is a compile error. Use
    /// [`Limit::try_per`] for numbers from outside.
    #[must_use]
    pub const fn per(n: u64, window: Duration) -> Self {
        Self::or_panic(Self::try_per(n, window))
    }

    /// `n` units per second. Panics as [`Limit::per`] does.
    #[must_use]
    pub const fn per_second(n: u64) -> Self {
        Self::per(n, Duration::from_secs(1))
    }

    /// `n` units per minute. Panics as [`Limit::per`] does.
    #[must_use]
    pub const fn per_minute(n: u64) -> Self {
        Self::per(n, Duration::from_secs(60))
    }

    /// `n` units per hour. Panics as [`Limit::per`] does.
    #[must_use]
    pub const fn per_hour(n: u64) -> Self {
        Self::per(n, Duration::from_secs(3_600))
    }

    /// `n` units per day of 24 hours. Panics as [`Limit::per`] does.
    #[must_use]
    pub const fn per_day(n: u64) -> Self {
        Self::per(n, Duration::from_secs(86_400))
    }

    /// `n` units per `window`, as a token bucket with burst `n`.
    ///
    /// # Errors
    /// If `n` is not 1 to 10^9, or the window not a whole number of microseconds from 1 µs to 366 days.
    pub const fn try_per(n: u64, window: Duration) -> Result<Self, LimitError> {
        if !window.subsec_nanos().is_multiple_of(1_000) {
            return Err(LimitError::WindowNotWhole);
        }
        LimitSpec::new(Algorithm::TokenBucket, n, whole_micros(window)).build()
    }

    /// The same limit by another algorithm. Say this before the options that only that algorithm takes.
    ///
    /// # Panics
    /// If an option already given is not one of this algorithm's, or N exceeds 100,000 for a log.
    #[must_use]
    pub const fn algorithm(self, algorithm: Algorithm) -> Self {
        let mut spec = self.spec();
        spec.algorithm = algorithm;
        Self::or_panic(spec.build())
    }

    /// The same limit with a capacity of `units` in all (not "extra").
    ///
    /// # Panics
    /// If the algorithm has no burst, or it is not 1 to 10^9, or takes more than 366 days to refill.
    #[must_use]
    pub const fn burst(self, units: u64) -> Self {
        let mut spec = self.spec();
        spec.burst = Some(units);
        Self::or_panic(spec.build())
    }

    /// The same leaky bucket as a queue that delays: one unit starts at once, at most `waiting` wait.
    ///
    /// # Panics
    /// If the algorithm is not [`Algorithm::LeakyBucket`], or the queue exceeds 10^9 − 1 or 366 days.
    #[must_use]
    pub const fn queue(self, waiting: u64) -> Self {
        let mut spec = self.spec();
        spec.queue = Some(waiting);
        Self::or_panic(spec.build())
    }

    /// The same queue, refusing whoever would wait for longer than `wait` (parts of a microsecond are dropped).
    ///
    /// # Panics
    /// If the limit has no queue, or `wait` is below 1 µs or above 366 days.
    #[must_use]
    pub const fn max_wait(self, wait: Duration) -> Self {
        let mut spec = self.spec();
        spec.max_wait_us = Some(whole_micros(wait));
        Self::or_panic(spec.build())
    }

    /// The same fixed window, aligned otherwise.
    ///
    /// # Panics
    /// If the algorithm is not [`Algorithm::FixedWindow`], or the window is not the calendar period's.
    #[must_use]
    pub const fn align(self, align: Align) -> Self {
        let mut spec = self.spec();
        spec.align = align;
        Self::or_panic(spec.build())
    }

    const fn or_panic(built: Result<Self, LimitError>) -> Self {
        match built {
            Ok(limit) => limit,
            Err(error) => panic!("{}", error.message()),
        }
    }

    /// The numbers this limit was built from.
    #[must_use]
    pub const fn spec(&self) -> LimitSpec {
        LimitSpec {
            algorithm: self.algorithm,
            amount: self.amount as u64,
            window_us: self.window_us,
            burst: if self.burst_named { Some(self.capacity as u64) } else { None },
            queue: if self.queued { Some(self.capacity as u64 - 1) } else { None },
            max_wait_us: if self.max_wait_us == u64::MAX { None } else { Some(self.max_wait_us) },
            align: self.align,
        }
    }

    /// N: the units of a window.
    #[must_use]
    pub const fn amount(&self) -> u64 {
        self.amount as u64
    }

    /// The window of the limit.
    #[must_use]
    pub const fn window(&self) -> Duration {
        Duration::from_micros(self.window_us)
    }

    pub(crate) const fn window_us(&self) -> u64 {
        self.window_us
    }

    /// The largest cost that can be admitted at once: N of a window or log, the burst of a bucket,
    /// `queue + 1` of a queue. A larger cost is refused for ever.
    #[must_use]
    pub const fn capacity(&self) -> u64 {
        self.capacity as u64
    }

    /// The time in which the whole capacity comes back: the window, or `capacity × window / N` for buckets
    /// and queues, rounded up to the microsecond.
    #[must_use]
    pub const fn refill(&self) -> Duration {
        match self.rule() {
            Rule::Meter | Rule::Queue => {
                Duration::from_micros(self.span_us + if self.span_part > 0 { 1 } else { 0 })
            }
            Rule::Fixed | Rule::Counter | Rule::Log => self.window(),
        }
    }

    /// The longest that any key can be locked, and that a unit can matter: the window, twice that for a sliding
    /// counter, the time to refill a bucket or queue, and 31 days and an hour for a calendar month.
    #[must_use]
    pub const fn full_period(&self) -> Duration {
        match (self.rule(), self.align) {
            (Rule::Counter, _) => Duration::from_micros(2 * self.window_us),
            (Rule::Fixed, Align::Calendar(period)) => Duration::from_micros(period.longest_us()),
            _ => self.refill(),
        }
    }

    /// The algorithm that counts.
    #[must_use]
    pub const fn kind(&self) -> Algorithm {
        self.algorithm
    }

    /// Where the windows begin; [`Align::Epoch`] for all but fixed windows.
    #[must_use]
    pub const fn alignment(&self) -> Align {
        self.align
    }

    /// Whether requests are delayed: a leaky bucket with a queue.
    #[must_use]
    pub const fn is_queue(&self) -> bool {
        self.queued
    }

    #[inline]
    pub(crate) const fn rule(&self) -> Rule {
        match self.algorithm {
            Algorithm::TokenBucket | Algorithm::Gcra => Rule::Meter,
            Algorithm::LeakyBucket if self.queued => Rule::Queue,
            Algorithm::LeakyBucket => Rule::Meter,
            Algorithm::FixedWindow => Rule::Fixed,
            Algorithm::SlidingWindowCounter => Rule::Counter,
            Algorithm::SlidingWindowLog => Rule::Log,
        }
    }

    /// A bound on the units that a closed span of `window` can admit, whatever the traffic: for a queue on the
    /// requests of cost 1 that can start in it. Parts of a microsecond are dropped.
    ///
    /// Some traffic reaches it, but for two: a sliding counter stays a little below (2 N − 1 in one half-open
    /// window), and calendar periods are taken at the shortest that a zone knows. Windows from the first request
    /// reach it when the request that opened one is given back; else they stay one below.
    #[must_use]
    pub const fn worst_case(&self, window: Duration) -> u64 {
        let x = whole_micros(window) as u128;
        let n = self.amount as u128;
        let w = self.window_us as u128;
        let worst = match (self.rule(), self.align) {
            (Rule::Fixed, Align::Calendar(period)) => n * (x / period.shortest_us() as u128 + 2),
            // One at a time, each a window of its own: at least W apart, like the entries of a log.
            (Rule::Fixed, Align::FirstRequest) if self.amount == 1 => x / w + 1,
            (Rule::Fixed, _) => n * (x.div_ceil(w) + 1),
            (Rule::Log, _) => n * (x / w + 1),
            (Rule::Counter, _) => n + n * x / w,
            (Rule::Meter, _) => self.capacity as u128 + n * x / w,
            (Rule::Queue, _) => 1 + n * x / w,
        };
        if worst > u64::MAX as u128 { u64::MAX } else { worst as u64 }
    }
}

impl fmt::Display for Limit {
    /// The limit as the configuration writes it: `10/s`, `5 per 10m`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        grammar::write_rate(f, self.amount(), self.window_us)
    }
}

impl fmt::Debug for Limit {
    /// All options, and the worst case in one second and in one window.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Limit({} {self}", self.algorithm)?;
        if self.queued {
            write!(f, ", queue {}", self.capacity - 1)?;
            if self.max_wait_us != u64::MAX {
                write!(f, ", max_wait {:?}", Duration::from_micros(self.max_wait_us))?;
            }
        } else if matches!(self.rule(), Rule::Meter) {
            write!(f, ", burst {}", self.capacity)?;
        } else if !matches!(self.align, Align::Epoch) {
            write!(f, ", align {:?}", self.align)?;
        }
        let second = Duration::from_secs(1);
        write!(f, "; at most {} in {second:?}", self.worst_case(second))?;
        if self.window() != second {
            write!(f, ", {} in {:?}", self.worst_case(self.window()), self.window())?;
        }
        f.write_str(")")
    }
}

/// The numbers of a limit before they are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LimitSpec {
    /// How units are counted.
    pub algorithm: Algorithm,
    /// N.
    pub amount: u64,
    /// The window in microseconds.
    pub window_us: u64,
    /// Capacity of a bucket; N if absent.
    pub burst: Option<u64>,
    /// Units that may wait; makes a leaky bucket delay instead of refuse.
    pub queue: Option<u64>,
    /// The longest wait in a queue, in microseconds.
    pub max_wait_us: Option<u64>,
    /// Where fixed windows begin.
    pub align: Align,
}

impl LimitSpec {
    /// `amount` units per `window_us` microseconds without options.
    #[must_use]
    pub const fn new(algorithm: Algorithm, amount: u64, window_us: u64) -> Self {
        Self {
            algorithm,
            amount,
            window_us,
            burst: None,
            queue: None,
            max_wait_us: None,
            align: Align::Epoch,
        }
    }

    /// Checks every number against its bound and every option against the algorithm.
    ///
    /// # Errors
    /// The first bound that is passed.
    pub const fn build(&self) -> Result<Limit, LimitError> {
        if let Err(error) = self.check_numbers() {
            return Err(error);
        }
        if let Err(error) = self.check_options() {
            return Err(error);
        }
        let capacity = match (self.queue, self.burst) {
            (Some(waiting), _) => waiting + 1,
            (None, Some(burst)) => burst,
            (None, None) => self.amount,
        };
        // T = W / N as a reduced fraction; all of it fits: the span bound keeps capacity × p below 2^75.
        let divisor = greatest_common_divisor(self.window_us, self.amount);
        let (p, q) = (self.window_us / divisor, self.amount / divisor);
        let span = capacity as u128 * p as u128;
        if span > MAX_WINDOW_US as u128 * q as u128 {
            return Err(LimitError::RefillTooLong);
        }
        Ok(Limit {
            window_us: self.window_us,
            unit_us: p / q,
            span_us: (span / q as u128) as u64,
            max_wait_us: match self.max_wait_us {
                Some(wait) => wait,
                None => u64::MAX,
            },
            amount: self.amount as u32,
            capacity: capacity as u32,
            unit_part: (p % q) as u32,
            span_part: (span % q as u128) as u32,
            parts: q as u32,
            algorithm: self.algorithm,
            queued: self.queue.is_some(),
            burst_named: self.burst.is_some(),
            align: self.align,
        })
    }

    const fn check_numbers(&self) -> Result<(), LimitError> {
        if self.amount == 0 {
            return Err(LimitError::AmountZero);
        }
        if self.amount > MAX_AMOUNT {
            return Err(LimitError::AmountTooLarge);
        }
        if self.window_us == 0 {
            return Err(LimitError::WindowZero);
        }
        if self.window_us > MAX_WINDOW_US {
            return Err(LimitError::WindowTooLong);
        }
        if let Some(burst) = self.burst
            && (burst == 0 || burst > MAX_AMOUNT)
        {
            return Err(LimitError::BurstOutOfRange);
        }
        if let Some(waiting) = self.queue
            && waiting >= MAX_AMOUNT
        {
            return Err(LimitError::QueueTooLarge);
        }
        match self.max_wait_us {
            Some(0) => Err(LimitError::MaxWaitZero),
            Some(MAX_PLUS_ONE..) => Err(LimitError::MaxWaitTooLong),
            _ => Ok(()),
        }
    }

    const fn check_options(&self) -> Result<(), LimitError> {
        if matches!(self.algorithm, Algorithm::SlidingWindowLog) && self.amount > MAX_LOG_AMOUNT {
            return Err(LimitError::LogTooLarge);
        }
        if self.burst.is_some() && !self.algorithm.takes_burst() {
            return Err(LimitError::BurstNotTaken);
        }
        if self.queue.is_some() && !matches!(self.algorithm, Algorithm::LeakyBucket) {
            return Err(LimitError::QueueNotTaken);
        }
        if self.queue.is_some() && self.burst.is_some() {
            return Err(LimitError::QueueWithBurst);
        }
        if self.max_wait_us.is_some() && self.queue.is_none() {
            return Err(LimitError::MaxWaitWithoutQueue);
        }
        match self.align {
            Align::Epoch => Ok(()),
            _ if !matches!(self.algorithm, Algorithm::FixedWindow) => Err(LimitError::AlignNotTaken),
            Align::Calendar(period) if self.window_us != period.nominal_us() => {
                Err(LimitError::CalendarWindow)
            }
            _ => Ok(()),
        }
    }
}

const MAX_PLUS_ONE: u64 = MAX_WAIT_US + 1;

const fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
