//! A rate limiter to embed: six exact algorithms, bounded memory, several limits decided at once.
//!
//! ```
//! use ratekeeper::{Algorithm, KeyedLimiter, Limit, Limiter, all, minutes};
//!
//! const API: Limit = Limit::per_second(10).burst(20);
//! const LOGIN: Limit = Limit::per(10, minutes(10)).algorithm(Algorithm::SlidingWindowLog);
//!
//! let users = KeyedLimiter::new(API);
//! let verdict = users.try_acquire("user:42");
//! assert!(verdict.allowed());
//! assert_eq!(verdict.remaining(), 19);
//!
//! // Several limits at once, all or nothing: a user who is refused takes nothing from the others.
//! let global = Limiter::new(Limit::per_second(1_000));
//! let decision = all([users.check("user:42"), global.check()]).try_acquire();
//! assert!(decision.allowed);
//!
//! let logins = KeyedLimiter::new(LOGIN);
//! for _ in 0..10 {
//!     assert!(logins.try_acquire("203.0.113.9").allowed());
//! }
//! let refused = logins.try_acquire("203.0.113.9");
//! assert!(refused.retry_after().is_some_and(|wait| wait > minutes(9)));
//! ```
//!
//! A [`Limiter`] keeps one state, a [`KeyedLimiter`] one per key, a [`MemoryStore`] those of many limits.
//! Every verb answers at once with a [`Verdict`] or a [`Decision`], whose numbers are exact: refused a
//! microsecond before `retry_after`, admitted at it.
//!
//! # What this crate does not do
//! Without features it does not wait (a leaky bucket with a queue says how long the caller is to wait), start threads
//! or timers, do I/O, or share state between processes. With `tokio` callers wait for their turn
//! (`acquire`, `Shaper`), by one timer of their runtime; with `redis` states are shared by servers, and one thread holds
//! the connections. It never reads a configuration file or speaks HTTP.
//!
//! # Time
//! Decisions are timed by [`ProcessClock`], or by a [`ManualClock`] in tests; nobody passes instants in.

mod all;
mod all_of;
mod clock;
mod current;
mod error;
mod keyed;
mod limiter;
mod receipt;
mod store;
mod sync;
#[cfg(any(feature = "tokio", loom))]
mod waiting;

pub use all::{All, all};
pub use all_of::{AllOf, all_of};
#[cfg(feature = "tokio")]
pub use clock::TokioClock;
pub use clock::{IntoClock, ManualClock, ProcessClock, Stopwatch};
pub use error::BuildError;
pub use keyed::{KeyedLimiter, KeyedLimiterBuilder, LimiterCheck};
pub use limiter::{Limiter, LimiterBuilder};
pub use ratekeeper_core::*;
pub use receipt::{Receipt, Reservation};
pub use store::memory::{KeyBytes, MemoryStore, MemoryStoreBuilder, OnFull, Question};
#[cfg(all(feature = "redis", feature = "tokio"))]
pub use store::redis::{AcquireShared, AcquireSharedReservation};
#[cfg(feature = "redis")]
pub use store::redis::{
    Demand, Finding, MAX_SHARED_INSTANT, OnStoreError, Probe, RedisStore, RedisStoreBuilder,
    SharedReservation, SharedStore, SharedStoreBuilder, StoreCounts, StoreObserver, StoreStatus,
};

#[cfg(any(feature = "tokio", loom))]
pub use waiting::{
    Acquire, AcquireAll, AcquireReservation, Admitted, Overflow, Ready, Shaper, ShaperBuilder,
};
#[cfg(feature = "tokio")]
pub use waiting::{Pace, Paced};

use std::time::Duration;

/// `n` milliseconds, for limits in constants.
#[must_use]
pub const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// `n` seconds.
#[must_use]
pub const fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// `n` minutes.
#[must_use]
pub const fn minutes(n: u64) -> Duration {
    Duration::from_secs(n.saturating_mul(60))
}

/// `n` hours.
#[must_use]
pub const fn hours(n: u64) -> Duration {
    Duration::from_secs(n.saturating_mul(3_600))
}

/// `n` days of 24 hours.
#[must_use]
pub const fn days(n: u64) -> Duration {
    Duration::from_secs(n.saturating_mul(86_400))
}
