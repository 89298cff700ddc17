//! What ratekeeper is tested with: independent oracles, seeded traces and decision vectors.
//!
//! - [`oracle`]: what every algorithm must answer, written a second time, for clarity and not for speed. It
//!   shares no type and no formula with the product, so that a mistake has to be made twice to stay unseen.
//! - [`generate`]: traces that hit edges, as `proptest` strategies that shrink.
//! - [`property`]: one way to run a property: a fixed seed, and on failure the seed and the smallest case.
//! - [`claims`]: what every limiter must keep - bounds, purity, minimal waits - written once for all of them.
//! - [`product`]: the product in the oracle's words, where the two are compared.
//! - [`vector`]: decision vectors, traces with their answers worked out beforehand.
//! - [`redis`]: real Redis servers and what breaks them.
//!
//! This crate is never part of a shipped build. Apart from [`redis`] it starts no clock and opens no socket; it
//! draws no randomness that a seed does not repeat.

pub mod claims;
pub mod generate;
pub mod oracle;
pub mod product;
pub mod property;
pub mod redis;
pub mod vector;
