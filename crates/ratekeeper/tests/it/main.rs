//! The library from outside: real threads here; the store against the reference beside it.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

mod changing;
mod giving_back;
mod memory;
mod settling;
mod stress;
