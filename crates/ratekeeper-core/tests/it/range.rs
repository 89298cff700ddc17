//! P16: nothing overflows on the whole range that the constructor lets through, and it lets nothing else.

use proptest::prelude::*;
use ratekeeper_core::{
    Algorithm, Align, LimitSpec, MAX_AMOUNT, MAX_LOG_AMOUNT, MAX_WAIT_US, MAX_WINDOW_US, Micros, Period,
};
use ratekeeper_testkit::claims;
use ratekeeper_testkit::generate::{MAX_INSTANT_US, anything, nasty_rules};
use ratekeeper_testkit::oracle::{Rule, Subject};
use ratekeeper_testkit::property::check;

use crate::subject::Core;

/// What the contract says of the numbers of a limit, without its arithmetic.
fn is_admissible(spec: &LimitSpec) -> bool {
    let queued = spec.queue.is_some();
    let takes_burst = spec.algorithm.takes_burst() && !queued;
    let is_log = spec.algorithm == Algorithm::SlidingWindowLog;
    let is_fixed = spec.algorithm == Algorithm::FixedWindow;
    let most = if is_log { MAX_LOG_AMOUNT } else { MAX_AMOUNT };
    let capacity = match (spec.queue, spec.burst) {
        (Some(queue), _) => u128::from(queue) + 1,
        (None, Some(burst)) => burst.into(),
        (None, None) => spec.amount.into(),
    };
    let refills =
        capacity * u128::from(spec.window_us) <= u128::from(MAX_WINDOW_US) * u128::from(spec.amount);
    (1..=most).contains(&spec.amount)
        && (1..=MAX_WINDOW_US).contains(&spec.window_us)
        && (1..=u128::from(MAX_AMOUNT)).contains(&capacity)
        && refills
        && (spec.burst.is_none() || takes_burst)
        && (!queued || spec.algorithm == Algorithm::LeakyBucket)
        && spec.max_wait_us.is_none_or(|wait| queued && (1..=MAX_WAIT_US).contains(&wait))
        && match spec.align {
            Align::Epoch => true,
            Align::FirstRequest => is_fixed,
            Align::Calendar(period) => is_fixed && spec.window_us == period.nominal_us(),
        }
}

fn near(bound: u64) -> BoxedStrategy<u64> {
    prop_oneof![
        3 => (-2_i64..=2).prop_map(move |more| bound.saturating_add_signed(more)),
        2 => 1..=bound,
        2 => 1_u64..20,
        1 => any::<u64>(),
        1 => Just(0),
    ]
    .boxed()
}

fn specs() -> impl Strategy<Value = LimitSpec> {
    let algorithm = prop::sample::select(&Algorithm::ALL[..]);
    let window = prop_oneof![
        4 => near(MAX_WINDOW_US),
        1 => Just(Period::Day.nominal_us()),
        1 => Just(Period::Week.nominal_us()),
        1 => Just(Period::Month.nominal_us()),
    ];
    let amount = prop_oneof![near(MAX_AMOUNT), near(MAX_LOG_AMOUNT)];
    let align = prop_oneof![
        6 => Just(Align::Epoch),
        1 => Just(Align::FirstRequest),
        1 => Just(Align::Calendar(Period::Day)),
        1 => Just(Align::Calendar(Period::Week)),
        1 => Just(Align::Calendar(Period::Month)),
    ];
    let maybe = |numbers: BoxedStrategy<u64>| prop_oneof![2 => Just(None), 1 => numbers.prop_map(Some)];
    let options = (maybe(near(MAX_AMOUNT)), maybe(near(MAX_AMOUNT)), maybe(near(MAX_WAIT_US)));
    (algorithm, amount, window, options, align).prop_map(
        |(algorithm, amount, window_us, (burst, queue, max_wait_us), align)| {
            let mut spec = LimitSpec::new(algorithm, amount, window_us);
            (spec.burst, spec.queue, spec.max_wait_us, spec.align) = (burst, queue, max_wait_us, align);
            spec
        },
    )
}

#[test]
fn p16_the_constructor_lets_through_what_the_contract_says_and_nothing_else() {
    check("p16_constructor", 40_000, specs(), |spec| {
        let built = spec.build();
        if built.is_ok() != is_admissible(&spec) {
            return Err(format!("{spec:?}: {built:?}"));
        }
        match built {
            Ok(limit) if limit.spec() != spec => Err(format!("{spec:?} becomes {:?}", limit.spec())),
            _ => Ok(()),
        }
    });
}

#[test]
fn p16_half_a_microsecond_more_than_the_longest_refill_is_refused() {
    // 41 × 1,542,556,097,561 us / 2 is 366 days and half a microsecond.
    let built = |burst| {
        let mut spec = LimitSpec::new(Algorithm::TokenBucket, 2, 1_542_556_097_561);
        spec.burst = Some(burst);
        spec.build().is_ok()
    };
    assert_eq!((built(40), built(41)), (true, false));
}

#[test]
fn p16_nothing_overflows_at_the_end_of_time() {
    let late = (0_u64..400 * 86_400_000_000).prop_map(|less| MAX_INSTANT_US - less);
    check("p16_late", 3_000, (nasty_rules(), late, anything()), |(rule, start, moves)| {
        claims::agrees_with_reference(&rule, true, Core::new(&rule, true), start, &moves)?;
        claims::agrees_with_reference(&rule, false, Core::new(&rule, false), start, &moves)
    });
}

#[test]
fn p16_nothing_overflows_when_the_clock_leaps_from_one_end_of_time_to_the_other() {
    let instants = prop::collection::vec(
        prop_oneof![Just(0), 0_u64..10, Just(Micros::MAX.get()), 0..=Micros::MAX.get()],
        1..30,
    );
    let costs = prop::collection::vec(any::<u64>(), 30);
    check("p16_leaps", 3_000, (nasty_rules(), instants, costs), |(rule, instants, costs)| {
        for heals in [true, false] {
            let mut core = Core::new(&rule, heals);
            let mut reference = ratekeeper_testkit::oracle::Reference::new(rule.clone(), heals);
            for (t_us, cost) in instants.iter().zip(&costs) {
                let cost = cost % (rule.capacity() + 2);
                let (got, token) = core.acquire(*t_us, cost);
                let (wanted, right) = reference.acquire(*t_us, cost);
                if got != wanted {
                    return Err(format!("{rule:?} {cost} at {t_us}: {got:?}, should be {wanted:?}"));
                }
                if let (Some(token), Some(right), true) = (token, right, cost % 3 == 0) {
                    core.refund(*t_us, &token);
                    reference.refund(*t_us, &right);
                }
            }
        }
        Ok(())
    });
}

#[test]
fn p16_the_largest_of_everything_is_exact() {
    let longest = MAX_WINDOW_US;
    for rule in [
        Rule::Meter { amount: MAX_AMOUNT, window_us: longest, burst: MAX_AMOUNT },
        Rule::Meter { amount: MAX_AMOUNT, window_us: 1, burst: MAX_AMOUNT },
        Rule::Meter { amount: 1, window_us: longest, burst: 1 },
        Rule::Queue {
            amount: MAX_AMOUNT,
            window_us: longest,
            queue: MAX_AMOUNT - 1,
            max_wait_us: Some(longest),
        },
        Rule::Counter { amount: MAX_AMOUNT, window_us: longest },
        Rule::Fixed {
            amount: MAX_AMOUNT,
            window_us: longest,
            align: ratekeeper_testkit::oracle::Align::Epoch,
        },
        Rule::Log { amount: MAX_LOG_AMOUNT, window_us: longest },
    ] {
        for t_us in [0, MAX_INSTANT_US - longest, MAX_INSTANT_US] {
            let mut core = Core::new(&rule, true);
            let mut reference = ratekeeper_testkit::oracle::Reference::new(rule.clone(), true);
            for cost in [u64::MAX, rule.capacity() + 1, rule.capacity(), 1, rule.capacity()] {
                assert_eq!(
                    core.acquire(t_us, cost).0,
                    reference.acquire(t_us, cost).0,
                    "{rule:?} {cost} at {t_us}"
                );
            }
        }
    }
}
