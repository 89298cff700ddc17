//! What a limiter must answer, by two ways that do not know each other.
//!
//! [`Reference`] keeps a state and follows the decision rules; it finds `remaining`, `retry_after`,
//! `more_after` and `reset_after` by *trying*: it asks the rule about later ticks and further requests until the answer
//! changes. [`history`] keeps no state at all: it decides from the list of what was admitted. [`theorem`]
//! holds the bounds that no traffic may pass. [`Group`] decides several limits together.
//!
//! Arithmetic is `i128` over one common denominator (N, the amount of the limit): no reduced fractions, no
//! carries, no closed formulas for waits.

mod counter;
mod fixed;
mod group;
pub mod history;
mod log;
mod meter;
mod queue;
mod reference;
mod rule;
pub mod theorem;

#[cfg(test)]
mod tests;

pub use group::{Ask, Group, GroupAnswer, GroupToken, Share};
pub use reference::Reference;
pub use rule::{Align, GUARD_MAX_US, Rule};

/// An instant or a span in microseconds; wide enough for every product with an amount.
type Tick = i128;
/// Units of a limit.
type Units = i128;

/// What one check is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Whether the request may go.
    pub allowed: bool,
    /// Why not; `None` when allowed.
    pub reason: Option<Reason>,
    /// How many checks of cost 1 would be admitted now, one after another, after this one.
    pub remaining: u64,
    /// 0 when allowed; else the least wait after which the same check is admitted; `None`: never.
    pub retry_after_us: Option<u64>,
    /// The least time after which more than `remaining` checks of cost 1 could have been admitted since this one.
    pub more_after_us: u64,
    /// The least time after which the key cannot be told from a fresh one.
    pub reset_after_us: u64,
    /// How long an admitted request waits for its start, rounded up; 0 for all but queues.
    pub delay_us: u64,
}

/// Why a check was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It will pass later.
    Limited,
    /// It can never pass.
    CostExceedsCapacity,
}

impl Reason {
    /// The word of the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Limited => "limited",
            Self::CostExceedsCapacity => "cost_exceeds_capacity",
        }
    }
}

/// One admission, as it has to be named to give it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// When it was admitted.
    pub t_us: u64,
    /// What it took, and has not given back.
    pub cost: u64,
    place: Place,
}

/// Where an admission was entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the level of a bucket.
    Level,
    /// In the window that starts here (counter: in the window of this number).
    Window(Tick),
    /// As the entry of a log that was made here.
    Entry(Tick),
    /// In a slot of a queue, in ticks times amount.
    Slot { start: Tick, end: Tick },
}

/// One admission of a trace: what the history oracle and the theorems look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    /// When.
    pub t_us: u64,
    /// How much.
    pub cost: u64,
}

/// Anything that limits one key: the reference, the product's core, a store.
///
/// [`crate::claims`] are written against this, so that each runs on all of them.
pub trait Subject {
    /// What names an admission when it is given back.
    type Receipt: Clone;

    /// Takes `cost` units at `t_us`, or nothing; an admission of cost 1 or more comes with its receipt.
    fn acquire(&mut self, t_us: u64, cost: u64) -> (Answer, Option<Self::Receipt>);
    /// What `acquire` would answer, with the numbers of now; writes nothing.
    fn peek(&mut self, t_us: u64, cost: u64) -> Answer;
    /// Forgets the key.
    fn reset(&mut self);
    /// Gives one admission back as far as that is still safe.
    fn refund(&mut self, t_us: u64, receipt: &Self::Receipt);
    /// Gives back the last `units` of one admission, all if there are fewer, as far as that is still safe; the
    /// receipt for the rest of it.
    fn refund_last(&mut self, t_us: u64, receipt: &Self::Receipt, units: u64) -> Option<Self::Receipt>;
    /// Gives `units` back that no receipt names, at most up to full.
    fn credit(&mut self, t_us: u64, units: u64);
}

/// Anything that decides several limits of several keys together: [`Group`], the product's fold, a store.
pub trait GroupSubject {
    /// What names the admission of a request when it is given back.
    type Receipt;

    /// Takes every part of the request, or none.
    fn acquire(&mut self, t_us: u64, asks: &[Ask<'_>]) -> (GroupAnswer, Option<Self::Receipt>);
    /// What `acquire` would answer, with the numbers of now; writes nothing.
    fn peek(&mut self, t_us: u64, asks: &[Ask<'_>]) -> GroupAnswer;
    /// Forgets one limit's state of one key.
    fn reset(&mut self, limit: usize, key: &str);
    /// Gives a request back in every limit of it, as far as that is still safe.
    fn refund(&mut self, t_us: u64, receipt: Self::Receipt);
    /// Gives units back to one limit's state of one key, without a receipt and at most up to full.
    fn credit(&mut self, t_us: u64, ask: Ask<'_>);
}

/// One decision rule with its state. Nothing here answers questions about waits: [`Reference`] asks
/// `admits` again and again instead.
trait Engine {
    /// Maps a state from the future to the fullest legal state at `now`.
    fn heal(&mut self, now: Tick);
    /// Under a clock that does not heal: how a state from the future reads at `now`. Not written back.
    fn read_at(&mut self, now: Tick);
    /// The rule: the wait for the start, rounded up, of a check that is admitted; `None` if refused.
    /// A state ahead of `now` is taken as it is.
    fn admits(&self, now: Tick, cost: Units) -> Option<Tick>;
    /// Enters an admission, without asking the rule again.
    fn commit(&mut self, now: Tick, cost: Units) -> Place;
    /// Undoes the last `units` of an admission, at most all of it, as far as that is safe.
    fn give_back(&mut self, now: Tick, token: &Token, units: Units);
    /// Where an admission is entered once its last `units` are given back, whether or not anything came of that.
    fn shortened(&self, place: Place, _units: Units) -> Place {
        place
    }
    /// Adds units up to full.
    fn credit(&mut self, now: Tick, units: Units);
}

/// The least whole number that is not below the fraction.
fn rounded_up(numerator: i128, denominator: i128) -> i128 {
    numerator.div_euclid(denominator) + i128::from(numerator.rem_euclid(denominator) != 0)
}
