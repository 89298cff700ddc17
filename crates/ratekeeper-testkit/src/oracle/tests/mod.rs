//! The oracle itself: its two halves agree, and what it says of bounds is neither too much nor too little.

mod exhaustive;
mod group;
mod search;
mod theorem;

use super::Rule;

pub(super) fn meter(amount: u64, window_us: u64, burst: u64) -> Rule {
    Rule::Meter { amount, window_us, burst }
}

pub(super) fn counter(amount: u64, window_us: u64) -> Rule {
    Rule::Counter { amount, window_us }
}

pub(super) fn fixed(amount: u64, window_us: u64) -> Rule {
    Rule::Fixed { amount, window_us, align: super::Align::Epoch }
}

pub(super) fn log(amount: u64, window_us: u64) -> Rule {
    Rule::Log { amount, window_us }
}

pub(super) fn queue(amount: u64, window_us: u64, queue: u64, max_wait_us: Option<u64>) -> Rule {
    Rule::Queue { amount, window_us, queue, max_wait_us }
}
