//! Those who wait, in virtual time: under a clock that the tests move, and under tokio's paused time.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod cancelling;
mod clocks;
mod crowd;
mod examples;
mod order;
mod paused;
mod properties;
mod refusals;
mod shaping;
