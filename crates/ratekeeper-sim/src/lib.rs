//! Virtual time for ratekeeper: decide a trace without waiting.
//!
//! A [`Simulation`] reads timed steps ([`Step`], one JSON line each), sets a manual clock to the time of each,
//! asks a store, and writes one line of answers per step. The store is whatever implements
//! [`ratekeeper_core::Store`], so the answers are those of production.
//!
//! # What this crate does not do
//! It opens no file, starts no runtime and reads no clock: input, output, stores and the clock are arguments.

pub mod hints;
pub mod json;

mod engine;
mod report;
mod trace;

pub use engine::{SimError, Simulation, call_flaw};
pub use report::write_line;
pub use trace::{MAX_LINE_BYTES, Op, Step, WrongLine};
