//! Clocks of servers that step: nobody is locked out longer than a full period, and little more is admitted.

use std::time::Duration;

use ratekeeper::{Algorithm, Arithmetic, Limit, NamedLimit, Source, millis};
use ratekeeper_testkit::redis::{RedisServer, Stopwatch, is_left_out, wait_until};

use crate::support::{LATE, Load, PATIENT, all_end, ask, each, full_again, long, named, pause, peek, shared};

const HOUR_US: i64 = 3_600_000_000;
const WINDOW: Duration = millis(400);

/// Theorem H: how long until a unit is admitted after the clock went back, whatever the step.
fn longest_lock(limit: &NamedLimit) -> Duration {
    match limit.limit().arithmetic() {
        // A window that is stored may lie a window or a second ahead and be gone on with, the shorter.
        Arithmetic::Fixed | Arithmetic::Counter => limit.limit().full_period() + WINDOW,
        _ => limit.limit().full_period(),
    }
}

/// Each limit is used up, then the clock steps: how long until a unit, and until everything, is admitted again.
fn nobody_is_locked_out(step_us: i64) {
    let server = RedisServer::builder().skewed().start();
    let store = shared(&server.url(), PATIENT);
    let limits = each(10, WINDOW);
    let first: Vec<_> = limits.iter().map(|limit| ask(&store, limit, "k", 10)).collect();
    assert!(first.iter().all(|decision| decision.allowed && decision.source == Source::Exact), "{first:?}");
    server.set_skew_us(step_us);
    // From the first check after the step on: it heals.
    let watch = Stopwatch::start();
    for limit in &limits {
        let decision = ask(&store, limit, "k", 1);
        assert_eq!(decision.source, Source::Exact);
        let (told, most) = (decision.retry_after.expect("it is admitted some time"), longest_lock(limit));
        assert!(told <= most, "{limit:?} is locked for {told:?}, not {most:?}");
    }
    for limit in &limits {
        wait_until("a unit is admitted", PATIENT, || ask(&store, limit, "k", 1).allowed);
        let waited = watch.elapsed();
        assert!(waited <= longest_lock(limit) + LATE, "{limit:?} has waited {waited:?}");
    }
    all_end(&[&server], 3 * WINDOW);
    full_again(&server.url(), &limits, "k");
}

#[test]
fn a_clock_that_goes_back_an_hour_locks_nobody_out() {
    if is_left_out() {
        return;
    }
    nobody_is_locked_out(-HOUR_US);
}

#[test]
fn a_clock_that_goes_back_a_little_locks_nobody_out() {
    if is_left_out() {
        return;
    }
    nobody_is_locked_out(-300_000);
}

#[test]
fn a_clock_that_goes_forward_locks_nobody_out() {
    if is_left_out() {
        return;
    }
    nobody_is_locked_out(HOUR_US);
    nobody_is_locked_out(300_000);
}

/// Each step forward gives at most a capacity more, each step back at most one more to windows and counters.
#[test]
fn clocks_that_step_under_load_admit_no_more_than_stated() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::builder().skewed().start();
    let store = shared(&server.url(), PATIENT);
    let limits = each(10, WINDOW);
    let steps = [300_000, 0, -300_000, 0, HOUR_US, 0, -HOUR_US, 0];
    let history = Load { within: PATIENT, ..Load::new(&store, &limits) }.during(|_| {
        for step in steps {
            pause(250);
            server.set_skew_us(step);
        }
        pause(250);
    });
    // Half of the steps are forward, half of them back. What the clock was ahead by is allowed for as a loss.
    history.keeps_the_theorem(steps.len() as u64);
    assert!(history.answers.iter().all(|answered| matches!(answered.source, Source::Exact | Source::Cached)));
    all_end(&[&server], 3 * WINDOW);
    full_again(&server.url(), &limits, "k");
}

/// Theorem J for a step back: meters and logs give nothing at all.
#[test]
fn a_step_back_gives_nothing_to_buckets_and_logs() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::builder().skewed().start();
    let store = shared(&server.url(), PATIENT);
    for step in [-300_000, -HOUR_US] {
        for limit in each(10, Duration::from_hours(2)) {
            server.set_skew_us(0);
            server.command(&["FLUSHALL"]).good();
            assert!(ask(&store, &limit, "k", 7).allowed);
            server.set_skew_us(step);
            let admitted = (0..20).filter(|_| ask(&store, &limit, "k", 1).allowed).count();
            assert!(admitted <= 3, "{limit:?}: {admitted} after {step}");
        }
    }
}

/// A replica whose clock is ahead is no reason to believe it more than its own: expiry follows the same clock.
#[test]
fn keys_that_a_fast_clock_has_ended_are_fresh() {
    if is_left_out() {
        return;
    }
    let server = RedisServer::builder().skewed().start();
    let store = shared(&server.url(), PATIENT);
    let limits = [
        named("bucket", Limit::per_minute(10)),
        named("log", Limit::per_minute(10).algorithm(Algorithm::SlidingWindowLog)),
        named("lasting", long(10)),
    ];
    for limit in &limits {
        assert!(ask(&store, limit, "k", 10).allowed);
    }
    server.set_skew_us(HOUR_US);
    assert_eq!(peek(&store, &limits[0], "k", 0).remaining, 10);
    assert_eq!(peek(&store, &limits[1], "k", 0).remaining, 10);
    assert_eq!(peek(&store, &limits[2], "k", 0).remaining, 0);
}
