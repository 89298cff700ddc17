//! Counts in Redis: the same claims as of memory, on a real server; and what becomes of them in trouble.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

#[cfg(feature = "tokio")]
mod acquiring;
mod agreement;
mod behaviours;
mod clocks;
mod cluster;
mod direct;
mod expiry;
mod failover;
mod falling_back;
mod faults;
mod fleet;
mod partitions;
mod permissions;
mod remembered;
mod resharding;
#[cfg(feature = "tokio")]
mod shaping;
mod subject;
mod support;
