//! What every limiter must keep, written against [`Subject`] so that it runs on the core, on every store and
//! on the oracle itself.
//!
//! Each claim plays a trace and says what is wrong, with the trace up to there, as lines that
//! `ratekeeper simulate` takes. The names P1, P2, ... are used by the tests that run them.

mod agreement;
mod bounds;
mod changes;
mod clocks;
mod groups;
mod parts;
mod spending;
mod tightness;

#[cfg(test)]
mod tests;

use std::fmt::Write;

pub use agreement::{agrees_with_history, agrees_with_reference, fields_are_minimal};
pub use bounds::{admissions_keep_their_bound, net_admissions_keep_their_bound, starts_are_spaced};
pub use changes::{changes_keep_what_is_used, turns_give_nothing_away};
pub use clocks::{jumps_admit_little_more, jumps_lock_nobody_out, small_steps_admit_no_more};
pub use groups::{group_waits_are_exact, groups_agree_with_reference};
pub use parts::parts_keep_their_bound_in_all_short_traces;
pub use spending::no_spending_gets_more;
pub use tightness::{
    counter_reaches_twice_the_limit_less_one, fixed_window_reaches_its_worst_case,
    log_reaches_its_worst_case, meter_reaches_its_worst_case, queue_reaches_its_worst_case,
};

use crate::generate::Played;
use crate::oracle::{Rule, Subject};

/// The trace up to the step of this number, and what is wrong there.
fn failure(rule: &Rule, played: &[Played], step: usize, what: &str) -> String {
    let mut text = format!("{rule:?}\n");
    for (number, played) in played.iter().take(step + 1).enumerate() {
        let _ = writeln!(text, "{number:>4}: {}", played.step);
    }
    let _ = write!(text, "step {step}: {what}");
    text
}

/// Whether a check of `cost` at `t_us` would pass; nothing is taken.
fn passes<S: Subject + Clone>(subject: &S, t_us: u64, cost: u64) -> bool {
    subject.clone().acquire(t_us, cost).0.allowed
}
