//! Counts in Redis or Valkey, shared by a fleet.
//!
//! - [`plain`]: the store itself. It answers exactly, or says why not.
//! - [`shared`]: around it, an answer in time whatever becomes of the servers.
//! - [`exact`]: which states a request touches, in which order; [`keys`], what they are called; [`codec`], questions and
//!   answers; [`script`], the scripts that decide.
//! - [`link`]: connections, batches, deadlines, and what is sent again.

mod codec;
mod exact;
mod keys;
mod link;
mod plain;
mod script;
mod shared;

pub use exact::MAX_SHARED_INSTANT;
pub use plain::{RedisStore, RedisStoreBuilder};
#[cfg(feature = "tokio")]
pub use shared::{AcquireShared, AcquireSharedReservation};
#[cfg(feature = "tokio")]
pub(crate) use shared::{Coming, Room, Turn};
pub use shared::{
    Demand, Finding, OnStoreError, Probe, SharedReservation, SharedStore, SharedStoreBuilder, StoreCounts,
    StoreObserver, StoreStatus,
};
