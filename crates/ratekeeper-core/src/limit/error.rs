//! [`LimitError`]: which bound was passed, and what to write instead.

use core::fmt;

/// Why numbers do not make a limit: which bound was passed, or what of the text cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LimitError {
    /// N is 0.
    AmountZero,
    /// N exceeds 10^9.
    AmountTooLarge,
    /// The window is 0.
    WindowZero,
    /// The window exceeds 366 days.
    WindowTooLong,
    /// The window is not a whole number of microseconds.
    WindowNotWhole,
    /// The burst is not 1 to 10^9.
    BurstOutOfRange,
    /// The algorithm has no burst.
    BurstNotTaken,
    /// The queue exceeds 10^9 − 1.
    QueueTooLarge,
    /// Only leaky buckets have a queue.
    QueueNotTaken,
    /// Queue and burst together.
    QueueWithBurst,
    /// `max_wait` without a queue.
    MaxWaitWithoutQueue,
    /// `max_wait` is 0.
    MaxWaitZero,
    /// `max_wait` exceeds 366 days.
    MaxWaitTooLong,
    /// capacity × window / N exceeds 366 days.
    RefillTooLong,
    /// A log of more than 100,000.
    LogTooLarge,
    /// Only fixed windows are aligned.
    AlignNotTaken,
    /// The calendar has days, weeks and months only.
    CalendarWindow,
    /// Not `N/UNIT` nor `N per COUNT SUFFIX`.
    NotALimit,
    /// N is not written as plain digits.
    NotANumber,
    /// The word after `/` is no unit.
    UnknownUnit,
    /// `m` could be a minute or a month.
    AmbiguousUnit,
    /// White space where the grammar has none.
    Spaces,
    /// Not `COUNT SUFFIX`.
    NotADuration,
}

impl LimitError {
    /// The option at fault, by its name in the configuration.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::BurstOutOfRange | Self::BurstNotTaken => "burst",
            Self::QueueTooLarge | Self::QueueNotTaken | Self::QueueWithBurst => "queue",
            Self::MaxWaitWithoutQueue | Self::MaxWaitZero | Self::MaxWaitTooLong => "max_wait",
            Self::AlignNotTaken | Self::CalendarWindow => "align",
            _ => "limit",
        }
    }

    /// What is wrong, naming the bound.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::AmountZero => "a limit is at least 1",
            Self::AmountTooLarge => "a limit is at most 1,000,000,000",
            Self::WindowZero => "a window is at least 1 us",
            Self::WindowTooLong => "a window is at most 366 days",
            Self::WindowNotWhole => "a window is a whole number of microseconds",
            Self::BurstOutOfRange => "a burst is 1 to 1,000,000,000",
            Self::BurstNotTaken => "`burst` belongs to token-bucket, leaky-bucket and gcra",
            Self::QueueTooLarge => "a queue is at most 999,999,999",
            Self::QueueNotTaken => "`queue` belongs to leaky-bucket",
            Self::QueueWithBurst => "`queue` and `burst` exclude each other",
            Self::MaxWaitWithoutQueue => "`max_wait` needs a `queue`",
            Self::MaxWaitZero => "`max_wait` is at least 1 us",
            Self::MaxWaitTooLong => "`max_wait` is at most 366 days",
            Self::RefillTooLong => "burst (or queue + 1) x window / limit is at most 366 days",
            Self::LogTooLarge => {
                "`sliding-window-log` keeps one entry per admitted request and takes at most 100,000"
            }
            Self::AlignNotTaken => "`align` belongs to fixed-window",
            Self::CalendarWindow => "calendar windows are `/day`, `/week` and `/month`",
            Self::NotALimit => "a limit is written `N/UNIT` or `N per COUNT SUFFIX`",
            Self::NotANumber => "a limit begins with a whole number in plain digits",
            Self::UnknownUnit => "a unit is s, second, minute, hour, day, week, month or year",
            Self::AmbiguousUnit => "`m` could be a minute or a month",
            Self::Spaces => "a limit has no spaces except around `per`",
            Self::NotADuration => "a duration is a whole number and us, ms, s, m, h or d",
        }
    }

    /// What to write instead, where that can be said in general.
    #[must_use]
    pub const fn hint(self) -> Option<&'static str> {
        Some(match self {
            Self::AmountZero => {
                "0 is never unlimited: leave the limit out, or refuse with an explicit policy"
            }
            Self::LogTooLarge => "use `sliding-window-counter`, which has no such bound",
            Self::MaxWaitZero => "to refuse instead of waiting use `queue: 0`",
            Self::MaxWaitWithoutQueue => "add `queue: N`",
            Self::QueueWithBurst => {
                "a queue holds `queue` + 1; without `queue` the bucket refuses at `burst`"
            }
            Self::NotALimit => "for example `10/s` or `5 per 10m`",
            Self::NotANumber => "for example `1000/s`; for a fraction take a longer window: `37 per 10s`",
            Self::UnknownUnit => "other windows are written `5 per 10m` (us, ms, s, m, h, d)",
            Self::AmbiguousUnit => "write `/minute` or `/month`",
            Self::Spaces => "write `10/s`",
            Self::NotADuration => "for example `5s` or `2500ms`",
            _ => return None,
        })
    }
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl core::error::Error for LimitError {}
