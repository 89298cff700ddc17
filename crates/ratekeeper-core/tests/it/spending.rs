//! P2, by brute force: every way to spend what the numbers say, for limits so small that it can be tried.

use std::time::Duration;

use ratekeeper_core::{Algorithm, LimitSpec, Log};
use ratekeeper_testkit::claims;
use ratekeeper_testkit::generate::{
    Run, anything, cases, horizon_us, play, small_rules, tiny_rules, without_clock_steps,
};
use ratekeeper_testkit::oracle::{Rule, Subject};
use ratekeeper_testkit::property::check;

use crate::subject::Core;

#[test]
fn p02_no_way_to_spend_gets_more_than_the_answer_says_and_some_way_gets_that() {
    check("p02_spending", 3_000, cases(tiny_rules(), anything()), |(rule, start, moves)| {
        claims::no_spending_gets_more(&rule, Core::new(&rule, true), start, &moves)
    });
    check(
        "p02_spending_forward",
        2_000,
        cases(tiny_rules(), without_clock_steps()),
        |(rule, start, moves)| claims::no_spending_gets_more(&rule, Core::new(&rule, false), start, &moves),
    );
}

#[test]
fn p02_more_comes_when_it_is_said_to_after_a_limit_was_lowered() {
    let strategy = (cases(small_rules(), without_clock_steps()), 1_u64..8);
    check("p02_lowered", 3_000, strategy, |((rule, start, moves), amount)| {
        let mut run = Run::new(Core::new(&rule, true));
        let played = play(&rule, true, start, &moves);
        for step in &played {
            run.step(step.step);
        }
        let now = played.last().map_or(start, |last| last.step.t_us);
        let mut core = run.subject;
        let mut spec = core.limit.spec();
        spec.amount = spec.amount.min(amount);
        spec.burst = spec.burst.map(|burst| burst.min(amount));
        let lowered = spec.build().map_err(|error| error.to_string())?;
        core.state = lowered.convert(&core.limit, core.state, &core.moment(now));
        core.limit = lowered;
        let verdict = core.decide(now, 0);
        let more_at = now + u64::try_from(verdict.more_after().as_micros()).map_err(|e| e.to_string())?;
        for _ in 0..verdict.remaining() {
            if !core.acquire(now, 1).0.allowed {
                return Err(format!("{rule:?}, at most {amount}: less remains than {verdict:?}"));
            }
        }
        let passes = |t_us: u64| core.clone().acquire(t_us, 1).0.allowed;
        if passes(more_at - 1) || (more_at <= horizon_us(&rule) && !passes(more_at)) {
            return Err(format!("{rule:?}, at most {amount}: more comes at another time than {verdict:?}"));
        }
        Ok(())
    });
}

#[test]
fn a_log_with_more_in_it_than_a_lowered_limit_allows_waits_for_enough_of_it_to_leave() {
    let rule = |amount| Rule::Log { amount, window_us: 100 };
    let mut core = Core::new(&rule(9), true);
    for t_us in [10, 20, 30] {
        assert!(core.acquire(t_us, 3).0.allowed);
    }
    // 9 units in use: 4 allow one more when 6 have left, at 120.
    core.limit = Core::new(&rule(4), true).limit;
    let verdict = core.decide(40, 1);
    assert_eq!((verdict.remaining(), verdict.more_after()), (0, Duration::from_micros(80)));
    assert_eq!(verdict.retry_after(), Some(Duration::from_micros(80)));
}

#[test]
fn a_full_log_of_the_largest_limit_says_when_its_oldest_unit_leaves() {
    let most = ratekeeper_core::MAX_LOG_AMOUNT;
    let longest = ratekeeper_core::MAX_WINDOW_US;
    let limit = LimitSpec::new(Algorithm::SlidingWindowLog, most, longest).build().expect("within bounds");
    let mut core = Core::new(&Rule::Log { amount: most, window_us: longest }, true);
    assert_eq!(core.limit, limit);
    let fresh = core.decide(1, 0);
    assert_eq!((fresh.remaining(), fresh.more_after()), (most, Duration::from_micros(longest)));
    let first = core.decide(1, 1);
    assert_eq!((first.remaining(), first.more_after()), (most - 1, Duration::from_micros(longest)));
    let rest = core.decide(3, most - 1);
    assert_eq!((rest.remaining(), rest.more_after()), (0, Duration::from_micros(longest - 2)));
    // Far more in use than any limit allows is still more than it allows.
    core.limit = Core::new(&Rule::Log { amount: 1, window_us: longest }, true).limit;
    let refused = core.decide(4, 1);
    assert_eq!((refused.remaining(), refused.more_after()), (0, Duration::from_micros(longest - 1)));
    assert_eq!(refused.reset_after(), Duration::from_micros(longest - 1));
    core.log = Log::new();
    assert_eq!(core.decide(5, 0).remaining(), 1);
}
