//! Properties of the core, checked against two oracles that share no code with it.
//!
//! Each test is a claim P1, P2, ... of the semantics. It plays traces that aim at edges; on failure it prints
//! the seed and the smallest trace it found, as lines that `ratekeeper simulate` takes.

mod agreement;
mod bounds;
mod changes;
mod groups;
mod headers;
mod purity;
mod range;
mod reading;
mod spending;
mod subject;
