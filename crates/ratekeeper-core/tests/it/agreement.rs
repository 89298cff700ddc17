//! P1, P2, P8: every answer is the right one, to the tick.

use ratekeeper_core::Algorithm;
use ratekeeper_testkit::claims;
use ratekeeper_testkit::generate::{
    anything, cases, forward, nasty_rules, play, rules, small_rules, start_us, without_clock_steps,
};
use ratekeeper_testkit::oracle::{Rule, Subject};
use ratekeeper_testkit::property::check;

use crate::subject::Core;

#[test]
fn p01_answers_are_those_of_the_reference_under_a_clock_that_may_step_back() {
    check("p01_reference", 8_000, cases(rules(), anything()), |(rule, start, moves)| {
        claims::agrees_with_reference(&rule, true, Core::new(&rule, true), start, &moves)
    });
}

#[test]
fn p01_answers_are_those_of_the_reference_under_a_clock_read_out_of_order() {
    check("p01_no_healing", 4_000, cases(rules(), anything()), |(rule, start, moves)| {
        claims::agrees_with_reference(&rule, false, Core::new(&rule, false), start, &moves)
    });
}

#[test]
fn p01_answers_are_those_of_the_reference_at_the_bounds_of_every_number() {
    check("p01_nasty", 4_000, cases(nasty_rules(), anything()), |(rule, start, moves)| {
        claims::agrees_with_reference(&rule, true, Core::new(&rule, true), start, &moves)
    });
}

#[test]
fn p01_answers_follow_from_what_was_admitted_before() {
    check("p01_history", 4_000, cases(rules(), forward()), |(rule, start, moves)| {
        claims::agrees_with_history(&rule, Core::new(&rule, true), start, &moves)?;
        claims::agrees_with_history(&rule, Core::new(&rule, false), start, &moves)
    });
}

#[test]
fn p02_every_wait_is_the_least_and_every_count_the_most() {
    check("p02_small", 3_000, cases(small_rules(), anything()), |(rule, start, moves)| {
        claims::fields_are_minimal(&rule, &Core::new(&rule, true), start, &moves)
    });
    check("p02_any", 2_000, cases(rules(), without_clock_steps()), |(rule, start, moves)| {
        claims::fields_are_minimal(&rule, &Core::new(&rule, true), start, &moves)?;
        claims::fields_are_minimal(&rule, &Core::new(&rule, false), start, &moves)
    });
}

/// A bucket of tokens that are counted, in parts of a token: no arrival times.
struct Tokens {
    amount: i128,
    window: i128,
    burst: i128,
    /// Times `window`.
    tokens: i128,
    at: u64,
}

impl Tokens {
    fn take(&mut self, t_us: u64, cost: u64) -> bool {
        let flown_in = i128::from(t_us - self.at) * self.amount;
        let now = (self.tokens + flown_in).min(self.burst * self.window);
        let left = now - i128::from(cost) * self.window;
        if left < 0 {
            return false;
        }
        (self.tokens, self.at) = (left, t_us);
        true
    }
}

#[test]
fn p08_token_bucket_gcra_and_leaky_bucket_answer_alike() {
    let strategy = cases(rules(), anything());
    check("p08_three_names", 3_000, strategy, |(rule, start, moves)| {
        if !matches!(rule, Rule::Meter { .. }) {
            return Ok(());
        }
        for meter in [Algorithm::Gcra, Algorithm::LeakyBucket] {
            claims::agrees_with_reference(&rule, true, Core::named(&rule, true, meter), start, &moves)?;
        }
        Ok(())
    });
    let strategy = (small_rules(), start_us(), forward());
    check("p08_tokens", 3_000, strategy, |(rule, start, moves)| {
        let Rule::Meter { amount, window_us, burst } = rule else {
            return Ok(());
        };
        let (amount, window, burst) = (amount.into(), window_us.into(), burst.into());
        let mut tokens = Tokens { amount, window, burst, tokens: burst * window, at: start };
        let mut core = Core::new(&rule, true);
        for played in play(&rule, true, start, &moves) {
            let ratekeeper_testkit::generate::Op::Acquire(cost) = played.step.op else {
                continue;
            };
            let allowed = core.acquire(played.step.t_us, cost).0.allowed;
            if allowed != tokens.take(played.step.t_us, cost) {
                return Err(format!("{rule:?}: {cost} at {} allowed: {allowed}", played.step.t_us));
            }
        }
        Ok(())
    });
}
