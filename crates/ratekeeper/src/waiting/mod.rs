//! Waiting for one's turn: lines, a timer for all who stand in them, and futures that may be dropped at any time.

mod acquire;
mod lines;
mod newcomer;
#[cfg(feature = "tokio")]
mod paced;
mod shaper;
mod standing;
#[cfg(feature = "tokio")]
mod timer;
mod wanted;

pub use self::acquire::{Acquire, AcquireAll, AcquireReservation, Admitted};
pub(crate) use self::lines::Lines;
#[cfg(all(feature = "redis", feature = "tokio"))]
pub(crate) use self::lines::MAX_WAITING_IN_ALL;
#[cfg(feature = "tokio")]
pub use self::paced::{Pace, Paced};
pub use self::shaper::{Overflow, Ready, Shaper, ShaperBuilder};
pub(crate) use self::wanted::One;
#[cfg(all(feature = "redis", feature = "tokio"))]
pub(crate) use self::wanted::Said;

/// The most that wait in the line of one key, unless said otherwise: whoever comes later is refused at once. At 300
/// bytes each a line of that length is 300 KB, and at most limits its end is minutes away.
pub(crate) const DEFAULT_MAX_WAITING: usize = 1_024;

#[cfg(all(test, loom))]
mod interleavings;
