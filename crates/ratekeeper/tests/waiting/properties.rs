//! What holds for any callers, whoever leaves: order, bounds, and that no unit stays unused while somebody waits.

use std::time::Duration;

use proptest::prelude::*;
use ratekeeper::{
    Admitted as Served, Algorithm, Clock as _, KeyedLimiter, ManualClock, Micros, Reason, Refused,
};
use ratekeeper_testkit::generate::{large_rules, small_rules};
use ratekeeper_testkit::oracle::{Admitted, Align, Rule, theorem};
use ratekeeper_testkit::product::limit;
use ratekeeper_testkit::property::check;

use crate::crowd::Crowd;

/// The same numbers in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// What happens.
#[derive(Clone, Copy, Debug)]
enum Move {
    /// Somebody comes, with a cost by the capacity, and maybe a deadline by the full period, in percents of both.
    Come { cost: u8, within: Option<u8> },
    /// One of those who came goes away, maybe without knowing that it has been served.
    Go { which: u16, knows: bool },
    /// Time passes, in percents of the time of one unit.
    Pass { percent: u16 },
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let come = (0_u8..=100, prop_oneof![2 => Just(None), 1 => (0_u8..=200).prop_map(Some)]);
    let some = prop_oneof![
        4 => come.prop_map(|(cost, within)| Move::Come { cost, within }),
        1 => (any::<u16>(), any::<bool>()).prop_map(|(which, knows)| Move::Go { which, knows }),
        4 => prop_oneof![Just(100_u16), 0_u16..300].prop_map(|percent| Move::Pass { percent }),
    ];
    proptest::collection::vec(some, 1..60)
}

/// One who has come.
#[derive(Clone, Copy)]
struct Came {
    number: usize,
    at: Micros,
    cost: u64,
    within: Option<Duration>,
    is_gone: bool,
}

struct World {
    rule: Rule,
    users: KeyedLimiter,
    clock: ManualClock,
    crowd: Crowd<Served>,
    came: Vec<Came>,
}

impl World {
    fn new(rule: &Rule) -> Self {
        let clock = ManualClock::at(Micros::new(1_000_000_007));
        let builder = KeyedLimiter::builder(limit(rule, Algorithm::Gcra)).max_keys(10).clock(&clock);
        let (users, crowd) = (builder.build().unwrap(), Crowd::new(&clock));
        Self { rule: rule.clone(), users, clock, crowd, came: Vec::new() }
    }

    fn unit_us(&self) -> u64 {
        (self.rule.window_us() / self.rule.amount()).max(1)
    }

    fn step(&mut self, step: Move) -> Result<(), String> {
        match step {
            Move::Come { cost, within } => {
                let cost = (self.rule.capacity() * u64::from(cost)).div_ceil(100).max(1);
                let within = within.map(|percent| {
                    Duration::from_micros(self.rule.full_period_us() * u64::from(percent) / 100)
                });
                let acquire = self.users.acquire("k").cost(cost);
                let acquire = match within {
                    Some(within) => acquire.within(within),
                    None => acquire,
                };
                let (at, number) = (self.clock.now(), self.crowd.come(acquire));
                self.came.push(Came { number, at, cost, within, is_gone: false });
            }
            Move::Go { which, knows } => {
                let waiting: Vec<usize> =
                    (0..self.came.len()).filter(|i| self.crowd.is_waiting(self.came[*i].number)).collect();
                if let Some(which) = waiting.get(usize::from(which) % waiting.len().max(1)) {
                    if !knows {
                        self.clock.advance(Duration::from_micros(self.unit_us()));
                    }
                    let number = self.came[*which].number;
                    self.came[*which].is_gone = true;
                    self.crowd.go(number);
                    self.crowd.settle();
                }
            }
            Move::Pass { percent } => {
                let us = (self.unit_us() * u64::from(percent)).div_ceil(100);
                self.crowd.advance(Duration::from_micros(us));
            }
        }
        self.nothing_lies_idle()
    }

    /// Whoever is first in line does not find what it waits for.
    fn nothing_lies_idle(&self) -> Result<(), String> {
        let first = self.came.iter().find(|it| self.crowd.is_waiting(it.number));
        let idle = first.filter(|it| self.users.peek_n("k", it.cost).allowed());
        idle.map_or(Ok(()), |it| Err(format!("{} waits for what is there", it.number)))
    }

    fn ends(&self) -> impl Iterator<Item = (&Came, Micros, Result<&Served, &Refused>)> {
        self.crowd.ends.iter().map(|(number, at, end)| (&self.came[*number], *at, end.as_ref()))
    }

    fn first_come_first_served(&self) -> Result<(), String> {
        let served: Vec<usize> =
            self.ends().filter(|(.., end)| end.is_ok()).map(|(it, ..)| it.number).collect();
        if served.is_sorted() { Ok(()) } else { Err(format!("served in the order {served:?}")) }
    }

    fn deadlines_are_kept(&self) -> Result<(), String> {
        for (it, at, end) in self.ends() {
            let waited = Duration::from_micros(at.get() - it.at.get());
            match (end, it.within) {
                (Err(refused), None) => return Err(format!("{} is refused: {refused}", it.number)),
                (Err(refused), Some(within)) => {
                    let told = refused.retry_after().unwrap_or_default();
                    if refused.reason() != Some(Reason::TooLate)
                        || waited.is_zero() && told <= within && !within.is_zero()
                    {
                        return Err(format!("{}: {refused}, told {told:?} within {within:?}", it.number));
                    }
                }
                (Ok(_), _) => {}
            }
        }
        Ok(())
    }

    /// What was spent is what was served: the net trace keeps the theorem, and in the end nothing is owed.
    fn keeps_the_theorem(&self) -> Result<(), String> {
        let admitted = self.ends().filter(|(.., end)| end.is_ok());
        let admitted: Vec<Admitted> =
            admitted.map(|(it, at, _)| Admitted { t_us: at.get(), cost: it.cost }).collect();
        theorem::check(&self.rule, &admitted)
    }

    fn everybody_has_an_answer(&mut self) -> Result<(), String> {
        let most = self.came.iter().map(|it| it.cost).sum::<u64>();
        let periods = most / self.rule.capacity() + 2;
        for _ in 0..periods * 2 {
            self.crowd.advance(Duration::from_micros(self.rule.full_period_us()));
            self.nothing_lies_idle()?;
        }
        let answers = self.crowd.ends.len() + self.came.iter().filter(|it| it.is_gone).count();
        if answers != self.came.len() {
            return Err(format!("{answers} answers to {}", self.came.len()));
        }
        self.clock.advance(Duration::from_micros(self.rule.full_period_us() * 2));
        let rest = self.users.peek("k");
        let is_fresh = rest.remaining() == self.rule.capacity() && rest.reset_after().is_zero();
        if is_fresh { Ok(()) } else { Err(format!("something is owed: {rest:?}")) }
    }
}

fn holds(rule: &Rule, moves: &[Move]) -> Result<(), String> {
    let mut world = World::new(rule);
    for step in moves {
        world.step(*step)?;
    }
    world.everybody_has_an_answer()?;
    world.first_come_first_served()?;
    world.deadlines_are_kept()?;
    world.keeps_the_theorem()
}

/// A queue has a line of its own, and a list of calendar periods has an end beyond which nobody is served.
fn lines(rules: impl Strategy<Value = Rule> + 'static) -> impl Strategy<Value = Rule> {
    rules.prop_filter("it has a line, and for ever", |rule| {
        !matches!(rule, Rule::Queue { .. } | Rule::Fixed { align: Align::Periods(_), .. })
    })
}

#[test]
fn lines_of_small_limits_keep_order_bounds_and_every_unit() {
    let cases = (lines(small_rules()), moves());
    check("lines_of_small_limits", 3_000, cases, |(rule, moves)| holds(&rule, &moves));
}

#[test]
fn lines_of_usual_limits_keep_order_bounds_and_every_unit() {
    let cases = (lines(large_rules()), moves());
    check("lines_of_usual_limits", 1_000, cases, |(rule, moves)| holds(&rule, &moves));
}

/// The wait that is foreseen at the end of a line, with nobody leaving and nobody in between, is the wait that it takes.
#[test]
fn what_is_foreseen_behind_a_line_comes_true() {
    let costs = proptest::collection::vec(1_u8..=100, 1..8);
    check("foreseen", 2_000, (lines(small_rules()), costs), |(rule, costs)| {
        let exact = !matches!(rule, Rule::Log { .. });
        let mut world = World::new(&rule);
        for cost in &costs {
            world.step(Move::Come { cost: *cost, within: None })?;
        }
        let last = *costs.last().expect("one at least");
        world.step(Move::Come { cost: last, within: Some(0) })?;
        let end = world.crowd.ends.iter().find(|(number, ..)| *number == costs.len());
        let Some((.., end)) = end else { return Err("it does not wait".to_owned()) };
        // Served at once, nothing was foreseen.
        let Err(refused) = end else { return Ok(()) };
        let told = refused.retry_after().unwrap_or_default();
        // The same caller, with all the time it takes.
        world.step(Move::Come { cost: last, within: None })?;
        let number = world.came.len() - 1;
        let mut waited = Duration::ZERO;
        while world.crowd.is_waiting(number) {
            world.crowd.advance(Duration::from_micros(1));
            waited += Duration::from_micros(1);
        }
        let is_true = if exact { told == waited } else { told <= waited };
        if is_true { Ok(()) } else { Err(format!("told {told:?}, waited {waited:?}")) }
    });
}
