//! Redis says what the reference says, and what memory says: to the microsecond, for all generators.

use std::env;

use ratekeeper::{MAX_SHARED_INSTANT, RedisStore, Token};
use ratekeeper_testkit::claims;
use ratekeeper_testkit::generate::{
    Run, anything, cases, changes, forward, group_cases, horizon_us, pairs, play, rules, start_us, turns,
};
use ratekeeper_testkit::oracle::{Answer, Rule, Subject};
use ratekeeper_testkit::property::{check, sample};
use ratekeeper_testkit::redis::{Stopwatch, is_left_out};
use ratekeeper_testkit::vector::{replay_on, vectors};

use crate::subject::{Held, OneKey};

/// So long before the last instant that a server can count to that few traces reach it.
pub(crate) const LATEST_START_US: u64 = MAX_SHARED_INSTANT.get() - (1 << 51);

#[test]
fn p01_one_key_is_answered_as_by_the_reference() {
    if is_left_out() {
        return;
    }
    check("redis_reference", 1_500, cases(rules(), anything()), |(rule, start, moves)| {
        let start = start.min(LATEST_START_US);
        if play(&rule, true, start, &moves).iter().any(|played| played.step.t_us > MAX_SHARED_INSTANT.get()) {
            return Ok(());
        }
        let subject = OneKey(Held::redis(std::slice::from_ref(&rule)));
        claims::agrees_with_reference(&rule, true, subject, start, &moves)
    });
}

#[test]
fn p10_requests_of_several_limits_are_answered_as_by_the_reference() {
    if is_left_out() {
        return;
    }
    check("redis_groups", 1_000, (group_cases(), start_us()), |((rules, moves), start)| {
        let start = start.min(LATEST_START_US);
        claims::groups_agree_with_reference(&rules, true, Held::redis(&rules), start, &moves)
    });
}

/// How many decisions are compared; `DECISIONS=10000000` for a long run.
const DECISIONS: u64 = 100_000;

#[test]
fn both_stores_say_the_same_for_a_hundred_thousand_decisions() {
    if is_left_out() {
        return;
    }
    let wanted = env::var("DECISIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(DECISIONS);
    let (mut decided, mut seed) = (0_u64, 1_u64);
    let strategy = cases(rules(), anything());
    let began = Stopwatch::start();
    while decided < wanted {
        seed += 1;
        let (rule, start, moves) = sample(&strategy, seed);
        let played = play(&rule, true, start.min(LATEST_START_US), &moves);
        if played.iter().any(|played| played.step.t_us > MAX_SHARED_INSTANT.get()) {
            continue;
        }
        let first = std::slice::from_ref(&rule);
        let mut run =
            Run::new(Both { redis: OneKey(Held::redis(first)), memory: OneKey(Held::memory(first)) });
        for played in &played {
            // The two are compared where they are asked.
            let answer = run.step(played.step);
            assert_eq!(answer, played.answer, "seed {seed}: {rule:?} {:?}", played.step);
            decided += 1;
        }
    }
    println!("{decided} decisions in {:?}, last seed {seed}", began.elapsed());
}

#[test]
fn every_decision_vector_is_answered_as_worked_out() {
    if is_left_out() {
        return;
    }
    let mut wrong = Vec::new();
    for vector in vectors() {
        let (first, last) = vector.instants_us();
        let rules: Vec<Rule> = vector.limits().iter().map(|limit| limit.rule(first, last)).collect();
        let mut held = Held::redis(&rules);
        for (step, outcome) in replay_on(&vector, &mut held).iter().enumerate() {
            wrong.extend(vector.mismatches(step, outcome));
        }
    }
    assert!(wrong.is_empty(), "{} mismatches:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn p14_a_change_keeps_what_is_used() {
    if is_left_out() {
        return;
    }
    let strategy = (changes(rules()), start_us(), forward(), forward());
    check("redis_changes", 700, strategy, |((old, new), start, before, after)| {
        let start = start.min(horizon_us(&old)).min(LATEST_START_US / 2);
        let subject = OneKey(Held::redis(std::slice::from_ref(&old)));
        let change = |subject: &mut OneKey<RedisStore>, _| change_to(&mut subject.0, &new);
        claims::changes_keep_what_is_used((&old, &new), subject, change, start, (&before, &after))
    });
}

#[test]
fn p14_two_limits_that_take_turns_on_a_key_admit_no_more_than_the_larger_one() {
    if is_left_out() {
        return;
    }
    let strategy = (pairs(rules()), start_us(), turns());
    check("redis_turns", 700, strategy, |((one, two), start, turns)| {
        let start = start.min(horizon_us(&one)).min(horizon_us(&two)).min(LATEST_START_US);
        let subject = OneKey(Held::redis(std::slice::from_ref(&one)));
        let change = |subject: &mut OneKey<RedisStore>, rule: &Rule| change_to(&mut subject.0, rule);
        claims::turns_give_nothing_away((&one, &two), subject, change, start, &turns)
    });
}

/// A key whose limit changes is answered alike by both stores, and gives back alike.
#[test]
fn p14_both_stores_convert_alike() {
    if is_left_out() {
        return;
    }
    let strategy = (pairs(rules()), start_us(), turns());
    check("redis_and_memory_turns", 700, strategy, |((one, two), start, turns)| {
        let start = start.min(horizon_us(&one)).min(horizon_us(&two)).min(LATEST_START_US);
        let first = std::slice::from_ref(&one);
        let subject = Both { redis: OneKey(Held::redis(first)), memory: OneKey(Held::memory(first)) };
        let change = |subject: &mut Both, rule: &Rule| {
            change_to(&mut subject.redis.0, rule);
            change_to(&mut subject.memory.0, rule);
        };
        claims::turns_give_nothing_away((&one, &two), subject, change, start, &turns)
    });
}

fn change_to<S>(held: &mut Held<S>, rule: &Rule) {
    let policy = held.limits[0].policy().to_string();
    held.limits = crate::subject::limits(std::slice::from_ref(rule), &policy);
}

/// Asks both and compares.
struct Both {
    redis: OneKey<RedisStore>,
    memory: OneKey<ratekeeper::MemoryStore>,
}

impl Subject for Both {
    type Receipt = (Token, Token);

    fn acquire(&mut self, t_us: u64, cost: u64) -> (Answer, Option<(Token, Token)>) {
        let (redis, memory) = (self.redis.acquire(t_us, cost), self.memory.acquire(t_us, cost));
        assert_eq!(redis.0, memory.0, "at {t_us} for {cost}");
        (memory.0, redis.1.zip(memory.1))
    }

    fn peek(&mut self, t_us: u64, cost: u64) -> Answer {
        let (redis, memory) = (self.redis.peek(t_us, cost), self.memory.peek(t_us, cost));
        assert_eq!(redis, memory, "a look at {t_us} for {cost}");
        memory
    }

    fn reset(&mut self) {
        Subject::reset(&mut self.redis);
        Subject::reset(&mut self.memory);
    }

    fn refund(&mut self, t_us: u64, (redis, memory): &(Token, Token)) {
        self.redis.refund(t_us, redis);
        self.memory.refund(t_us, memory);
    }

    fn refund_last(&mut self, t_us: u64, receipt: &(Token, Token), units: u64) -> Option<(Token, Token)> {
        let redis = self.redis.refund_last(t_us, &receipt.0, units);
        redis.zip(self.memory.refund_last(t_us, &receipt.1, units))
    }

    fn credit(&mut self, t_us: u64, units: u64) {
        Subject::credit(&mut self.redis, t_us, units);
        Subject::credit(&mut self.memory, t_us, units);
    }
}
