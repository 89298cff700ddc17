//! Claims can fail: each planted fault is caught by the claim that is named for it.

use proptest::strategy::Strategy;

use super::*;
use crate::generate::{
    anything, cases, changes, clock_steps, forward, group_cases, only_checks, queues, refunds, rules,
    small_rules, small_steps, tiny_rules, turns, without_clock_steps,
};
use crate::oracle::{Align, Answer, Ask, Group, GroupAnswer, GroupSubject, GroupToken, Reference, Token};
use crate::property::sample;

/// What is wrong with a limiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The wait is told a tick short.
    WaitTooShort,
    /// The wait is told a tick long.
    WaitTooLong,
    /// One unit more is said to remain.
    RemainingTooMany,
    /// One unit less is said to remain.
    RemainingTooFew,
    /// More than remains is said to be had a tick early.
    MoreTooEarly,
    /// More than remains is said to be had a tick late.
    MoreTooLate,
    /// The reset is told a tick early.
    ResetTooEarly,
    /// The start is told a tick early.
    DelayTooShort,
    /// A refusal takes a unit if there is one.
    RefusalsCount,
    /// A look takes a unit.
    LooksCount,
    /// A refund gives back all units, however long ago they were taken.
    RefundsGiveAll,
    /// A receipt works twice.
    RefundsTwice,
    /// After a part of it an admission is given back as a whole.
    PartsForgotten,
    /// A part comes back in full, however long ago it was taken.
    PartsGiveAll,
    /// A state from the future stays.
    NeverHeals,
    /// A step back forgets the key.
    ForgetsOnStepBack,
    /// One unit more than the limit is let in.
    OneTooMany,
    /// One unit less than the limit is let in.
    OneTooFew,
}

#[derive(Debug, Clone)]
struct Faulty {
    fault: Fault,
    right: Reference,
    latest: u64,
}

impl Faulty {
    fn new(rule: &Rule, fault: Fault) -> Self {
        let rule = match fault {
            Fault::OneTooMany => resized(rule, 1),
            Fault::OneTooFew => resized(rule, -1),
            _ => rule.clone(),
        };
        Self { fault, right: Reference::new(rule, fault != Fault::NeverHeals), latest: 0 }
    }

    fn meets(&mut self, t_us: u64) {
        if self.fault == Fault::ForgetsOnStepBack && t_us < self.latest {
            self.right.reset();
        }
        self.latest = t_us;
    }

    fn told(&self, mut answer: Answer) -> Answer {
        let limited = answer.retry_after_us.is_some_and(|us| us > 1);
        match self.fault {
            Fault::WaitTooShort if limited => answer.retry_after_us = answer.retry_after_us.map(|us| us - 1),
            Fault::WaitTooLong if limited => answer.retry_after_us = answer.retry_after_us.map(|us| us + 1),
            Fault::RemainingTooMany => answer.remaining += 1,
            Fault::RemainingTooFew => answer.remaining = answer.remaining.saturating_sub(1),
            Fault::MoreTooEarly => answer.more_after_us -= 1,
            Fault::MoreTooLate => answer.more_after_us += 1,
            Fault::ResetTooEarly => answer.reset_after_us = answer.reset_after_us.saturating_sub(1),
            Fault::DelayTooShort => answer.delay_us = answer.delay_us.saturating_sub(1),
            _ => {}
        }
        answer
    }
}

/// The same limit, of so many units more.
fn resized(rule: &Rule, more: i64) -> Rule {
    let sized = |units: u64| units.saturating_add_signed(more).max(1);
    match rule.clone() {
        Rule::Meter { amount, window_us, burst } => Rule::Meter { amount, window_us, burst: sized(burst) },
        Rule::Queue { amount, window_us, queue, max_wait_us } => {
            Rule::Queue { amount, window_us, queue: sized(queue), max_wait_us }
        }
        Rule::Fixed { amount, window_us, align } => Rule::Fixed { amount: sized(amount), window_us, align },
        Rule::Counter { amount, window_us } => Rule::Counter { amount: sized(amount), window_us },
        Rule::Log { amount, window_us } => Rule::Log { amount: sized(amount), window_us },
    }
}

impl Subject for Faulty {
    type Receipt = Token;

    fn acquire(&mut self, t_us: u64, cost: u64) -> (Answer, Option<Token>) {
        self.meets(t_us);
        let (answer, token) = self.right.acquire(t_us, cost);
        if self.fault == Fault::RefusalsCount && !answer.allowed {
            let _ = self.right.acquire(t_us, 1);
        }
        (self.told(answer), token)
    }

    fn peek(&mut self, t_us: u64, cost: u64) -> Answer {
        let answer = self.right.peek(t_us, cost);
        if self.fault == Fault::LooksCount {
            let _ = self.right.acquire(t_us, 1);
        }
        self.told(answer)
    }

    fn reset(&mut self) {
        self.right.reset();
    }

    fn refund(&mut self, t_us: u64, receipt: &Token) {
        match self.fault {
            Fault::RefundsGiveAll => self.right.credit(t_us, receipt.cost),
            Fault::RefundsTwice => {
                self.right.refund(t_us, receipt);
                self.right.refund(t_us, receipt);
            }
            _ => self.right.refund(t_us, receipt),
        }
    }

    fn refund_last(&mut self, t_us: u64, receipt: &Token, units: u64) -> Option<Token> {
        let rest = self.right.refund_last(t_us, receipt, units);
        match self.fault {
            Fault::PartsForgotten => Some(receipt.clone()),
            Fault::PartsGiveAll => {
                self.right.credit(t_us, units);
                rest
            }
            _ => rest,
        }
    }

    fn credit(&mut self, t_us: u64, units: u64) {
        self.right.credit(t_us, units);
    }
}

/// Whether the claim finds the fault in some of 400 traces, and nothing where there is no fault.
fn catches<M: Strategy<Value = Vec<crate::generate::Move>> + 'static>(
    fault: Fault,
    limits: impl Strategy<Value = Rule> + Clone + 'static,
    moves: impl Fn() -> M,
    claim: impl Fn(&Rule, Faulty, u64, &[crate::generate::Move]) -> Result<(), String>,
) -> bool {
    (0..400).any(|seed| {
        let (rule, start, moves) = sample(&cases(limits.clone(), moves()), seed);
        claim(&rule, Faulty::new(&rule, fault), start, &moves).is_err()
    })
}

#[test]
fn every_fault_is_a_difference_from_the_reference() {
    for fault in [
        Fault::WaitTooShort,
        Fault::WaitTooLong,
        Fault::RemainingTooMany,
        Fault::RemainingTooFew,
        Fault::MoreTooEarly,
        Fault::MoreTooLate,
        Fault::ResetTooEarly,
        Fault::DelayTooShort,
        Fault::RefusalsCount,
        Fault::LooksCount,
        Fault::RefundsGiveAll,
        Fault::RefundsTwice,
        Fault::PartsForgotten,
        Fault::PartsGiveAll,
        Fault::NeverHeals,
        Fault::ForgetsOnStepBack,
        Fault::OneTooMany,
        Fault::OneTooFew,
    ] {
        let agrees = |rule: &Rule, subject: Faulty, start: u64, moves: &[crate::generate::Move]| {
            agrees_with_reference(rule, true, subject, start, moves)
        };
        assert!(catches(fault, rules(), anything, agrees), "{fault:?}");
    }
}

#[test]
fn decisions_that_are_wrong_contradict_their_history() {
    for fault in
        [Fault::RefusalsCount, Fault::LooksCount, Fault::OneTooMany, Fault::OneTooFew, Fault::DelayTooShort]
    {
        assert!(catches(fault, rules(), forward, agrees_with_history), "{fault:?}");
    }
}

#[test]
fn numbers_that_are_wrong_are_not_minimal() {
    for fault in [
        Fault::WaitTooShort,
        Fault::WaitTooLong,
        Fault::RemainingTooMany,
        Fault::RemainingTooFew,
        Fault::MoreTooEarly,
        Fault::MoreTooLate,
        Fault::ResetTooEarly,
        Fault::RefusalsCount,
    ] {
        let minimal = |rule: &Rule, subject: Faulty, start: u64, moves: &[crate::generate::Move]| {
            fields_are_minimal(rule, &subject, start, moves)
        };
        assert!(catches(fault, small_rules(), without_clock_steps, minimal), "{fault:?}");
    }
}

#[test]
fn numbers_that_are_wrong_are_refuted_by_some_way_to_spend() {
    for fault in [
        Fault::WaitTooShort,
        Fault::WaitTooLong,
        Fault::RemainingTooMany,
        Fault::RemainingTooFew,
        Fault::MoreTooEarly,
        Fault::MoreTooLate,
        Fault::ResetTooEarly,
    ] {
        assert!(catches(fault, tiny_rules(), without_clock_steps, no_spending_gets_more), "{fault:?}");
    }
    let holds = |seed| {
        let (rule, start, moves) = sample(&cases(tiny_rules(), without_clock_steps()), seed);
        no_spending_gets_more(&rule, Reference::new(rule.clone(), true), start, &moves)
    };
    for seed in 0..400 {
        assert_eq!(holds(seed), Ok(()));
    }
}

#[test]
fn too_much_breaks_a_bound() {
    assert!(catches(Fault::OneTooMany, small_rules(), forward, admissions_keep_their_bound));
    for fault in [Fault::RefundsGiveAll, Fault::RefundsTwice, Fault::PartsForgotten, Fault::PartsGiveAll] {
        assert!(catches(fault, small_rules(), refunds, net_admissions_keep_their_bound), "{fault:?}");
    }
}

#[test]
fn a_change_that_gives_units_away_or_takes_some_is_seen() {
    let wrong = |change: fn(&mut Reference, &Rule, u64)| {
        (0..400).any(|seed| {
            let strategy = (changes(small_rules()), forward(), forward());
            let ((old, new), before, after) = sample(&strategy, seed);
            let subject = Reference::new(old.clone(), false);
            let change = |subject: &mut Reference, now| {
                *subject = Reference::new(new.clone(), false);
                change(subject, &new, now);
            };
            changes_keep_what_is_used((&old, &new), subject, change, 0, (&before, &after)).is_err()
        })
    };
    // Whoever is fresh after a change got what it had used; whoever has nothing lost what it had not.
    assert!(wrong(|_, _, _| {}));
    assert!(wrong(|subject, new, now| {
        let _ = subject.acquire(now, new.capacity());
    }));
}

/// Two buckets of one rate that take turns on one level; `forgets` on a refusal what the smaller one cannot hold.
struct Turns {
    burst: u64,
    unit_us: u64,
    tat: u64,
    forgets: bool,
    counts_refusals: bool,
}

impl Turns {
    fn told(&self, t_us: u64, cost: u64) -> Answer {
        let (span, base) = (self.burst * self.unit_us, self.tat.max(t_us));
        let wait = (base + cost * self.unit_us).saturating_sub(span).saturating_sub(t_us);
        let allowed = wait == 0;
        Answer {
            allowed,
            reason: None,
            remaining: (t_us + span).saturating_sub(base) / self.unit_us,
            retry_after_us: Some(wait),
            more_after_us: 0,
            reset_after_us: base - t_us,
            delay_us: 0,
        }
    }
}

impl Subject for Turns {
    type Receipt = ();

    fn acquire(&mut self, t_us: u64, cost: u64) -> (Answer, Option<()>) {
        let answer = self.told(t_us, cost);
        if answer.allowed {
            self.tat = self.tat.max(t_us) + cost * self.unit_us;
        } else if self.forgets {
            self.tat = self.tat.min(t_us + self.burst * self.unit_us);
        } else if self.counts_refusals {
            self.tat += self.unit_us;
        }
        (answer, None)
    }

    fn peek(&mut self, t_us: u64, cost: u64) -> Answer {
        self.told(t_us, cost)
    }

    fn reset(&mut self) {}

    fn refund(&mut self, _: u64, (): &()) {}

    fn refund_last(&mut self, _: u64, (): &(), _: u64) -> Option<()> {
        None
    }

    fn credit(&mut self, _: u64, _: u64) {}
}

#[test]
fn a_refusal_that_forgets_what_the_other_limit_knows_is_seen() {
    let holds = |forgets: bool, counts_refusals: bool| {
        (0..400).all(|seed| {
            let ((small, large, unit_us), turns) = sample(&((1..9_u64, 9..60_u64, 1..9_u64), turns()), seed);
            let [small, large] =
                [small, large].map(|burst| Rule::Meter { amount: 1, window_us: unit_us, burst });
            let subject = Turns { burst: 0, unit_us, tat: 0, forgets, counts_refusals };
            let change = |subject: &mut Turns, rule: &Rule| subject.burst = rule.capacity();
            turns_give_nothing_away((&small, &large), subject, change, 0, &turns).is_ok()
        })
    };
    assert!(holds(false, false));
    assert!(!holds(true, false));
    assert!(!holds(false, true));
}

#[test]
fn starts_that_are_too_close_are_seen() {
    let found = (0..200).any(|seed| {
        let (rule, start, moves) = sample(&cases(queues(), forward()), seed);
        let mut faster = rule.clone();
        if let Rule::Queue { amount, .. } = &mut faster {
            *amount += 1;
        }
        starts_are_spaced(&rule, Reference::new(faster, true), start, &moves).is_err()
    });
    assert!(found);
}

#[test]
fn clocks_that_step_are_minded() {
    let locked = |rule: &Rule, subject: Faulty, start: u64, moves: &[crate::generate::Move]| {
        jumps_lock_nobody_out(rule, subject, start, moves, 1 << 40)
    };
    assert!(catches(Fault::NeverHeals, rules(), forward, locked));
    let more = |rule: &Rule, subject: Faulty, start: u64, moves: &[crate::generate::Move]| {
        let moves = only_checks(moves);
        jumps_admit_little_more(rule, subject, start, &moves)
    };
    assert!(catches(Fault::ForgetsOnStepBack, rules(), clock_steps, more));
    let small = |rule: &Rule, subject: Faulty, start: u64, moves: &[crate::generate::Move]| {
        let moves = small_steps(&only_checks(moves), rule.guard_us());
        small_steps_admit_no_more(rule, subject, start, &moves)
    };
    assert!(catches(Fault::ForgetsOnStepBack, rules(), clock_steps, small));
}

#[test]
fn a_limiter_that_is_too_strict_or_too_lax_reaches_another_bound() {
    let fixed = Rule::Fixed { amount: 3, window_us: 10, align: Align::Epoch };
    let meter = Rule::Meter { amount: 3, window_us: 10, burst: 4 };
    let queue = Rule::Queue { amount: 3, window_us: 10, queue: 4, max_wait_us: None };
    let counter = Rule::Counter { amount: 5, window_us: 10 };
    let log = Rule::Log { amount: 3, window_us: 10 };
    for fault in [Fault::OneTooMany, Fault::OneTooFew] {
        let faulty = |rule: &Rule| Faulty::new(rule, fault);
        assert!(meter_reaches_its_worst_case(&meter, faulty(&meter)).is_err());
        assert!(counter_reaches_twice_the_limit_less_one(&counter, faulty(&counter)).is_err());
        assert!(log_reaches_its_worst_case(&log, faulty(&log)).is_err());
        assert!(fixed_window_reaches_its_worst_case(&fixed, faulty(&fixed), &[0, 10, 20]).is_err());
    }
    assert!(queue_reaches_its_worst_case(&queue, Faulty::new(&queue, Fault::DelayTooShort)).is_err());
}

/// What is wrong with the fold over several limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupFault {
    None,
    /// Each limit that lets the request pass takes its part, whatever the others say.
    EachForItself,
    /// Parts on one state are not put together.
    Doubles,
    /// The longest reset is told as the wait.
    WaitsForReset,
    /// The first refusal ends it: later limits are not asked and not healed.
    StopsAtFirst,
}

#[derive(Debug, Clone)]
struct FaultyGroup {
    fault: GroupFault,
    right: Group,
}

impl GroupSubject for FaultyGroup {
    type Receipt = GroupToken;

    fn acquire(&mut self, t_us: u64, asks: &[Ask<'_>]) -> (GroupAnswer, Option<GroupToken>) {
        let looked = self.right.peek(t_us, asks);
        match self.fault {
            GroupFault::EachForItself if !looked.headline.allowed => {
                for ask in asks {
                    let _ = self.right.acquire(t_us, &[*ask]);
                }
                (looked, None)
            }
            GroupFault::Doubles if asks.iter().all(|ask| self.right.peek(t_us, &[*ask]).headline.allowed) => {
                let singly = asks.iter().map(|ask| self.right.acquire(t_us, &[*ask])).last();
                singly.expect("something is asked")
            }
            GroupFault::StopsAtFirst => {
                let refusing = asks.iter().position(|ask| !self.right.peek(t_us, &[*ask]).headline.allowed);
                let asked = refusing.map_or(asks, |refusing| &asks[..=refusing]);
                self.right.acquire(t_us, asked)
            }
            GroupFault::WaitsForReset if !looked.headline.allowed => {
                let (mut answer, token) = self.right.acquire(t_us, asks);
                answer.headline.retry_after_us =
                    answer.headline.retry_after_us.map(|_| answer.headline.reset_after_us);
                (answer, token)
            }
            _ => self.right.acquire(t_us, asks),
        }
    }

    fn peek(&mut self, t_us: u64, asks: &[Ask<'_>]) -> GroupAnswer {
        self.right.peek(t_us, asks)
    }

    fn reset(&mut self, limit: usize, key: &str) {
        self.right.reset(limit, key);
    }

    fn refund(&mut self, t_us: u64, receipt: GroupToken) {
        self.right.refund(t_us, &receipt);
    }

    fn credit(&mut self, t_us: u64, ask: Ask<'_>) {
        self.right.credit(t_us, ask);
    }
}

#[test]
fn a_fold_that_is_wrong_is_told_from_the_reference() {
    let wrong = |fault: GroupFault| {
        (0..400).any(|seed| {
            let (rules, moves) = sample(&group_cases(), seed);
            let subject = FaultyGroup { fault, right: Group::new(rules.clone(), true) };
            groups_agree_with_reference(&rules, true, subject, 0, &moves).is_err()
        })
    };
    assert!(!wrong(GroupFault::None));
    for fault in
        [GroupFault::EachForItself, GroupFault::Doubles, GroupFault::WaitsForReset, GroupFault::StopsAtFirst]
    {
        assert!(wrong(fault), "{fault:?}");
    }
}

#[test]
fn waits_of_several_limits_are_exact_and_the_longest_reset_is_not() {
    let wrong = |fault: GroupFault| {
        (0..400).any(|seed| {
            let (rules, moves) = sample(&group_cases(), seed);
            let subject = FaultyGroup { fault, right: Group::new(rules.clone(), true) };
            group_waits_are_exact(&rules, subject, 0, &moves).is_err()
        })
    };
    assert!(!wrong(GroupFault::None));
    assert!(wrong(GroupFault::WaitsForReset));
    assert!(wrong(GroupFault::StopsAtFirst));
}
