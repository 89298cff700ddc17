//! From moves to steps.

use super::{Act, Amount, Gap, MAX_INSTANT_US, Move, Op, Run, Step};
use crate::oracle::{Align, Answer, Reference, Rule};

const YEAR_US: i128 = 365 * 86_400_000_000;
const HOUR_US: i128 = 3_600_000_000;

/// A step, and what the reference says to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Played {
    /// The step.
    pub step: Step,
    /// What must be answered.
    pub answer: Answer,
}

/// Plays `moves` on a fresh reference of `rule`, beginning at `start_us`.
///
/// Time stays between 0 and [`horizon_us`].
#[must_use]
pub fn play(rule: &Rule, heals: bool, start_us: u64, moves: &[Move]) -> Vec<Played> {
    let mut player = Player::new(rule, heals, start_us);
    moves.iter().map(|&next| player.play(next)).collect()
}

/// The last instant that a trace of `rule` may reach.
#[must_use]
pub fn horizon_us(rule: &Rule) -> u64 {
    match rule {
        Rule::Fixed { align: Align::Periods(starts), .. } => {
            let last = starts.last().expect("a calendar that begins");
            MAX_INSTANT_US.min(last - 1)
        }
        _ => MAX_INSTANT_US,
    }
}

struct Player<'a> {
    rule: &'a Rule,
    run: Run<Reference>,
    now: i128,
    steps: usize,
    /// The numbers of the steps that asked for units.
    checks: Vec<usize>,
    /// When the key was last said to become fresh.
    fresh_at: i128,
    remaining: u64,
    /// The cost of the last refusal, and when it said to come again.
    refused: Option<(u64, i128)>,
    /// Evenly spaced arrivals: their pace in per cent, the first one, how many there were.
    even: Option<(u16, i128, i128)>,
}

impl<'a> Player<'a> {
    fn new(rule: &'a Rule, heals: bool, start_us: u64) -> Self {
        Self {
            rule,
            run: Run::new(Reference::new(rule.clone(), heals)),
            now: start_us.into(),
            steps: 0,
            checks: Vec::new(),
            fresh_at: start_us.into(),
            remaining: rule.capacity(),
            refused: None,
            even: None,
        }
    }

    fn play(&mut self, next: Move) -> Played {
        let then = self.after(next.gap).clamp(0, horizon_us(self.rule).into());
        if !matches!(next.gap, Gap::Even(_)) {
            self.even = None;
        }
        self.now = then;
        let op = match next.act {
            Act::Acquire(amount) => Op::Acquire(self.units(amount)),
            Act::Peek(amount) => Op::Peek(self.units(amount)),
            Act::Reset => Op::Reset,
            Act::Credit(amount) => Op::Credit(self.units(amount)),
            Act::Refund(back) => self.check(back).map_or(Op::Peek(0), Op::Refund),
            Act::RefundLast(back, amount) => {
                let units = self.units(amount);
                self.check(back).map_or(Op::Peek(0), |of| Op::RefundLast(of, units))
            }
        };
        let step = Step { t_us: u64::try_from(then).expect("clamped to instants"), op };
        let answer = self.run.step(step);
        if let Op::Acquire(cost) = op {
            self.checks.push(self.steps);
            if let (false, Some(retry)) = (answer.allowed, answer.retry_after_us) {
                self.refused = Some((cost, then + i128::from(retry)));
            }
        }
        self.steps += 1;
        self.fresh_at = then + i128::from(answer.reset_after_us);
        self.remaining = answer.remaining;
        Played { step, answer }
    }

    /// The step that was the check so many checks before.
    fn check(&self, back: u8) -> Option<usize> {
        let place = self.checks.len().checked_sub(1 + usize::from(back))?;
        Some(self.checks[place])
    }

    fn after(&mut self, gap: Gap) -> i128 {
        let now = self.now;
        let window = i128::from(self.rule.window_us());
        match gap {
            Gap::None => now,
            Gap::Ticks(ticks) => now + i128::from(ticks),
            Gap::Edge { windows, ticks } => {
                now.max(self.window().1 + i128::from(windows) * window + i128::from(ticks))
            }
            Gap::Retry(ticks) => self.refused.map_or(now, |(_, at)| now.max(at + i128::from(ticks))),
            Gap::Share(share) => now + ((i128::from(share) * window) >> 16),
            Gap::Even(per_cent) => {
                let (first, count) = match self.even {
                    Some((pace, first, count)) if pace == per_cent => (first, count + 1),
                    _ => (now, 1),
                };
                self.even = Some((per_cent, first, count));
                let pace = i128::from(self.rule.amount()) * i128::from(per_cent.max(1));
                now.max(first + count * window * 100 / pace)
            }
            Gap::Periods { count, ticks } => {
                let period = i128::from(self.rule.full_period_us());
                now.max(now + i128::from(count) * period + i128::from(ticks))
            }
            Gap::Years(years) => now + i128::from(years) * YEAR_US,
            Gap::Step(ticks) => now + i128::from(ticks),
            Gap::Guard(ticks) => self.window().0 - i128::from(self.rule.guard_us()) + i128::from(ticks),
            Gap::StepWindows { count, ticks } => now + i128::from(count) * window + i128::from(ticks),
            Gap::BackAnHour => now - HOUR_US,
        }
    }

    /// The window around now; of what has no windows, the time in which it becomes full.
    fn window(&self) -> (i128, i128) {
        let length = i128::from(self.rule.window_us());
        match self.rule {
            Rule::Fixed { align: Align::Periods(starts), .. } => {
                let next = starts.partition_point(|&start| i128::from(start) <= self.now);
                (starts[next - 1].into(), starts[next.min(starts.len() - 1)].into())
            }
            Rule::Fixed { align: Align::Epoch, .. } | Rule::Counter { .. } => {
                let start = self.now - self.now.rem_euclid(length);
                (start, start + length)
            }
            _ => {
                let end = if self.fresh_at > self.now { self.fresh_at } else { self.now + length };
                (end - length, end)
            }
        }
    }

    fn units(&self, amount: Amount) -> u64 {
        let capacity = self.rule.capacity();
        let near = |of: u64, more: i8| of.saturating_add_signed(more.into());
        match amount {
            Amount::Units(units) => units.into(),
            Amount::Capacity(more) => near(capacity, more),
            Amount::Remaining(more) => near(self.remaining, more),
            Amount::Share(share) => {
                u64::try_from((u128::from(capacity) * u128::from(share)) >> 16).unwrap_or(0)
            }
            Amount::Again => self.refused.map_or(1, |(cost, _)| cost),
            Amount::Huge => u64::MAX,
        }
    }
}
