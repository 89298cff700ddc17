//! Traces that hit edges.
//!
//! A trace is made in two steps. [`Move`]s say what shall happen in the words of the limit - "one tick before
//! the window ends take all but one" - and so shrink and fit every limit; [`play`] turns them into [`Step`]s
//! with plain numbers by watching a reference, since "when the refused request may come again" is known only
//! then. What comes out is a trace like those of `ratekeeper simulate`.

mod groups;
mod moves;
mod play;
mod rules;
mod step;

#[cfg(test)]
mod tests;

pub use groups::{GroupAct, GroupMove, GroupOp, GroupPlayed, GroupStep, Part, group_cases, play_group};
pub use moves::{
    anything, boundary_bursts, clock_steps, costs, forward, idle_gaps, instant_bursts, only_checks, refunds,
    retry_probes, saturation, small_steps, without_clock_steps,
};
pub use play::{Played, horizon_us, play};
pub use rules::{
    MAX_INSTANT_US, Turn, cases, changes, large_rules, nasty_rules, pairs, queues, rules, small_rules,
    start_us, tiny_rules, turns,
};
pub use step::{Op, Run, Step};

/// One step of a trace, in the words of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// How time passes before it.
    pub gap: Gap,
    /// What is done then.
    pub act: Act,
}

/// How time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// Not at all.
    None,
    /// By so many ticks.
    Ticks(u32),
    /// To the end of the window (buckets: to full), and so many windows and ticks further.
    Edge {
        /// Whole windows beyond it.
        windows: u8,
        /// Ticks beyond it.
        ticks: i8,
    },
    /// To when the last refusal said, and so many ticks further.
    Retry(i8),
    /// By so many 65536ths of the window.
    Share(u16),
    /// To the next of arrivals that are evenly spaced at so many per cent of the rate.
    Even(u16),
    /// By whole periods of the limit, and so many ticks.
    Periods {
        /// How many full periods.
        count: u8,
        /// Ticks beyond them.
        ticks: i16,
    },
    /// By years.
    Years(u8),
    /// The clock steps by so many ticks, forward or back.
    Step(i32),
    /// The clock steps back to the guard before the current window, and so many ticks from there.
    Guard(i8),
    /// The clock steps by windows, forward or back, and so many ticks.
    StepWindows {
        /// How many windows.
        count: i8,
        /// Ticks beyond them.
        ticks: i8,
    },
    /// The clock steps back by an hour.
    BackAnHour,
}

impl Gap {
    /// Whether this is a clock that was set rather than time that passes.
    #[must_use]
    pub fn steps_the_clock(self) -> bool {
        matches!(self, Self::Step(_) | Self::Guard(_) | Self::StepWindows { .. } | Self::BackAnHour)
    }
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// A check.
    Acquire(Amount),
    /// A dry run.
    Peek(Amount),
    /// The key is forgotten.
    Reset,
    /// The check that came so many checks before is given back, whether it was admitted or not, once or twice.
    Refund(u8),
    /// Units of the check that came so many checks before are given back, those that it took last.
    RefundLast(u8, Amount),
    /// Units are given back without a token.
    Credit(Amount),
}

/// How many units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// So many.
    Units(u32),
    /// The capacity, and so many more.
    Capacity(i8),
    /// What remains, and so many more.
    Remaining(i8),
    /// So many 65536ths of the capacity.
    Share(u16),
    /// What was refused last.
    Again,
    /// As many as 64 bits hold.
    Huge,
}
