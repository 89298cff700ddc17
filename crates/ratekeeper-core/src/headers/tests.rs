use alloc::string::ToString;

use super::*;
use crate::algorithm::{Algorithm, Moment, State};
use crate::decision::{Ask, Evaluation, NO_ROOM_RETRY, StateRef, decide_one, evaluate};
use crate::limit::{Align, LimitSpec, MAX_AMOUNT, MAX_WINDOW_US};
use crate::time::{DAY_US, Period};

const START: u64 = 1_764_547_200_000_000;

fn item(policy: &str, name: &str, limit: &Limit) -> LimitItem {
    LimitItem::new(&Name::new(policy).unwrap(), &Name::new(name).unwrap(), limit)
}

fn limit(algorithm: Algorithm, amount: u64, window_us: u64) -> Limit {
    LimitSpec::new(algorithm, amount, window_us).build().unwrap()
}

/// A first-request window of `units` that was opened at `START`.
fn opened(units: u64, window_us: u64) -> (Limit, State) {
    let limit = limit(Algorithm::FixedWindow, units, window_us).align(Align::FirstRequest);
    (limit, decide(&limit, State::FRESH, START, 1).0)
}

fn decide(limit: &Limit, state: State, at: u64, cost: u64) -> (State, Verdict) {
    let (write, verdict) = decide_one(limit, state, &Moment::at(Micros::new(at)), cost, Ask::Acquire);
    (write.unwrap_or(state), verdict)
}

fn written(item: &LimitItem, verdict: &Verdict) -> String {
    let mut out = Vec::new();
    item.write(&mut out, verdict);
    String::from_utf8(out).unwrap()
}

fn field(limits: &[(&LimitItem, &Verdict)]) -> Option<String> {
    let mut out = Vec::new();
    let any = write_limit_field(&mut out, limits.iter().copied());
    assert_eq!(any, !out.is_empty());
    any.then(|| String::from_utf8(out).unwrap())
}

#[test]
fn decimals_are_those_of_the_standard_library_and_are_appended() {
    let mut numbers = alloc::vec![0, 1, 9, 10, 11, 99, 100, 101, MAX_FIELD_INTEGER, u64::MAX];
    numbers.extend((0..20).map(|power| 10_u64.pow(power)));
    numbers.extend((1..20).map(|power| 10_u64.pow(power) - 1));
    for n in numbers {
        let mut out = b"r=".to_vec();
        write_decimal(&mut out, n);
        assert_eq!(out, alloc::format!("r={n}").into_bytes());
    }
}

#[test]
fn retry_after_is_whole_seconds_rounded_up_once_and_never_0() {
    for (ms, seconds) in [(1, 1), (999, 1), (1_000, 1), (1_001, 2), (2_000, 2), (7_000, 7)] {
        assert_eq!(retry_after_seconds(Duration::from_millis(ms)), seconds, "{ms} ms");
        // As a wait that a limit has come to: a window of that length, full.
        let (limit, state) = opened(1, ms * 1_000);
        let wait = decide(&limit, state, START, 1).1.retry_after().unwrap();
        assert_eq!(retry_after_seconds(wait), seconds, "{ms} ms");
    }
    for (wait, seconds) in [
        (Duration::ZERO, 1),
        (Duration::from_nanos(1), 1),
        (Duration::from_micros(1_000_001), 2),
        (Duration::new(1, 1), 2),
        (Duration::from_secs(366 * 86_400), 31_622_400),
        (Duration::MAX, u64::MAX),
    ] {
        assert_eq!(retry_after_seconds(wait), seconds, "{wait:?}");
    }
}

#[test]
fn a_refusal_of_a_fast_limit_still_waits_for_a_second() {
    for limit in [Limit::per_second(10).burst(1), Limit::per_second(1_000).burst(1)] {
        let (state, _) = decide(&limit, State::FRESH, START, 1);
        let (_, refused) = decide(&limit, state, START, 1);
        let wait = refused.retry_after().unwrap();
        assert!(wait >= Duration::from_millis(1));
        assert_eq!(retry_after_seconds(wait), 1);
        assert_eq!(written(&item("api", "fast", &limit), &refused), r#""api.fast";r=0;t=1"#);
    }
}

#[test]
fn policies_say_the_capacity_and_the_time_in_which_it_comes_back() {
    let window = |n, ms: u64| limit(Algorithm::FixedWindow, n, ms * 1_000);
    let calendar = |period: Period| {
        limit(Algorithm::FixedWindow, 1_000, period.nominal_us()).align(Align::Calendar(period))
    };
    let queue = |limit: Limit, waiting| limit.algorithm(Algorithm::LeakyBucket).queue(waiting);
    for (limit, units, seconds) in [
        (Limit::per_minute(100).algorithm(Algorithm::Gcra).burst(20), 20, 12),
        (Limit::per_second(10), 10, 1),
        (Limit::per_minute(100), 100, 60),
        // A bucket of 20 at 10 a second, one of 7 at 3 a second: 2 s, and 2 1/3 s rounded up.
        (Limit::per_second(10).burst(20), 20, 2),
        (Limit::per_second(3).burst(7), 7, 3),
        (limit(Algorithm::SlidingWindowLog, 10, 600_000_000), 10, 600),
        (limit(Algorithm::SlidingWindowCounter, 300, 60_000_000), 300, 60),
        (window(5, 1_001), 5, 2),
        (window(5, 1_000), 5, 1),
        // Less than a second is told per second.
        (window(10, 100), 100, 1),
        (window(5, 999), 5, 1),
        (window(1, 300), 3, 1),
        (window(7, 400), 17, 1),
        (Limit::per_second(10).burst(1), 10, 1),
        (Limit::per_second(1_000).burst(1), 1_000, 1),
        // A span of 999,999.5 us is less than a second, one of 1,000,000.5 us is more.
        (limit(Algorithm::TokenBucket, 2, 1_999_999), 2, 2),
        (limit(Algorithm::TokenBucket, 2, 1_999_999).burst(1), 1, 1),
        (limit(Algorithm::TokenBucket, 2, 2_000_001).burst(1), 1, 2),
        (queue(Limit::per_second(1), 10), 11, 11),
        (queue(Limit::per_second(100), 9), 100, 1),
        (calendar(Period::Day), 1_000, 86_400),
        (calendar(Period::Week), 1_000, 604_800),
        (calendar(Period::Month), 1_000, 2_592_000),
        // The ends of the range, and 15 digits at most.
        (limit(Algorithm::FixedWindow, MAX_AMOUNT, 1), MAX_FIELD_INTEGER, 1),
        (limit(Algorithm::TokenBucket, MAX_AMOUNT, 1).burst(1), MAX_FIELD_INTEGER, 1),
        (limit(Algorithm::TokenBucket, 1, 1), 1_000_000, 1),
        (limit(Algorithm::TokenBucket, MAX_AMOUNT, MAX_WINDOW_US), MAX_AMOUNT, 31_622_400),
        (limit(Algorithm::SlidingWindowCounter, 1, MAX_WINDOW_US), 1, 31_622_400),
        (
            limit(Algorithm::TokenBucket, 1_000_000, 366 * DAY_US / 1_000).burst(MAX_AMOUNT),
            MAX_AMOUNT,
            31_622_400,
        ),
    ] {
        assert_eq!(Quota::of(&limit), Quota { units, seconds }, "{limit:?}");
        let item = item("a-b", "C_1", &limit);
        assert_eq!(item.policy(), alloc::format!(r#""a-b.C_1";q={units};w={seconds}"#));
        assert_eq!(item.quoted_name(), r#""a-b.C_1""#);
    }
}

#[test]
fn an_answer_that_passes_says_when_more_can_be_had() {
    let limit = Limit::per_minute(100).algorithm(Algorithm::Gcra).burst(20);
    let item = item("api", "default", &limit);
    // 13 units are taken; 0.29 s later 7 remain, and 0.31 s are missing for one more.
    let (state, _) = decide(&limit, State::FRESH, START, 13);
    let (_, verdict) = decide(&limit, state, START + 290_000, 0);
    assert_eq!((verdict.remaining(), verdict.more_after()), (7, Duration::from_millis(310)));
    assert_eq!(policy_field([&item]), r#""api.default";q=20;w=12"#);
    assert_eq!(field(&[(&item, &verdict)]).unwrap(), r#""api.default";r=7;t=1"#);
}

#[test]
fn a_refusal_lists_the_refusing_limits_only() {
    let burst = Limit::per_second(10);
    let minute = limit(Algorithm::FixedWindow, 100, 60_000_000);
    let (burst_item, minute_item) = (item("api", "burst", &burst), item("api", "minute", &minute));
    let (_, passes) = decide(&burst, State::FRESH, START + 55_800_000, 0);
    let (full, _) = decide(&minute, State::FRESH, START, 100);
    let (_, refuses) = decide(&minute, full, START + 55_800_000, 1);
    let items = [&burst_item, &minute_item];
    assert_eq!(policy_field(items), r#""api.burst";q=10;w=1, "api.minute";q=100;w=60"#);
    let limits = [(&burst_item, &passes), (&minute_item, &refuses)];
    assert_eq!(field(&limits).unwrap(), r#""api.minute";r=0;t=5"#);
    assert_eq!(retry_after_seconds(refuses.retry_after().unwrap()), 5);
    assert_eq!(field(&[limits[0], limits[0]]).unwrap(), r#""api.burst";r=10;t=1, "api.burst";r=10;t=1"#);
    assert_eq!(
        field(&[limits[1], limits[0], limits[1]]).unwrap(),
        r#""api.minute";r=0;t=5, "api.minute";r=0;t=5"#
    );
}

#[test]
fn what_can_never_pass_has_no_item() {
    let limit = Limit::per_second(10);
    let item = item("api", "burst", &limit);
    let (_, never) = decide(&limit, State::FRESH, START, 11);
    let (full, passes) = decide(&limit, State::FRESH, START, 10);
    let (_, later) = decide(&limit, full, START, 1);
    let mut out = b"x".to_vec();
    assert!(!item.write(&mut out, &never));
    assert_eq!(out, b"x");
    assert_eq!(field(&[(&item, &never), (&item, &passes)]), None);
    assert_eq!(field(&[]), None);
    for limits in [[(&item, &never), (&item, &later)], [(&item, &later), (&item, &never)]] {
        assert_eq!(field(&limits).unwrap(), r#""api.burst";r=0;t=1"#);
    }
}

#[test]
fn a_refusal_tells_its_own_wait_not_when_the_next_unit_comes() {
    let limit = Limit::per_second(1).burst(10);
    let (state, _) = decide(&limit, State::FRESH, START, 8);
    let (_, refused) = decide(&limit, state, START, 7);
    assert_eq!((refused.remaining(), refused.more_after()), (2, Duration::from_secs(1)));
    assert_eq!(written(&item("api", "burst", &limit), &refused), r#""api.burst";r=2;t=5"#);
}

#[test]
fn fields_are_exact_where_other_limiters_are_not() {
    // 30 of 100 used, 12.3 s of the window left; one more; then all the rest, and one too many.
    let limit = limit(Algorithm::FixedWindow, 100, 60_000_000);
    let item = item("default", "all", &limit);
    let at = START + 47_700_000;
    let (state, _) = decide(&limit, State::FRESH, START, 30);
    let (state, passes) = decide(&limit, state, at, 1);
    assert_eq!(item.policy(), r#""default.all";q=100;w=60"#);
    assert_eq!(written(&item, &passes), r#""default.all";r=69;t=13"#);
    let reset = START / 1_000_000 + 60;
    assert_eq!(XRateLimit::unix(&passes, Micros::new(at)), XRateLimit { limit: 100, remaining: 69, reset });
    assert_eq!(XRateLimit::delta(&passes), XRateLimit { limit: 100, remaining: 69, reset: 13 });
    let (state, _) = decide(&limit, state, at, 69);
    let (_, refused) = decide(&limit, state, at, 1);
    assert_eq!(written(&item, &refused), r#""default.all";r=0;t=13"#);
    assert_eq!(XRateLimit::unix(&refused, Micros::new(at)), XRateLimit { limit: 100, remaining: 0, reset });
}

#[test]
fn the_reset_is_added_to_the_time_before_it_is_rounded() {
    // 0.6 s into a second, 0.3 s to go: the end of this second, not of the next.
    let (limit, state) = opened(2, 900_000);
    let (_, verdict) = decide(&limit, state, START + 600_000, 0);
    let second = START / 1_000_000;
    assert_eq!(XRateLimit::unix(&verdict, Micros::new(START + 600_000)).reset, second + 1);
    assert_eq!(XRateLimit::delta(&verdict).reset, 1);
    // Where the sum is whole nothing is added; a clock that reads a microsecond later is a second later.
    assert_eq!(XRateLimit::unix(&verdict, Micros::new(START + 700_000)).reset, second + 1);
    assert_eq!(XRateLimit::unix(&verdict, Micros::new(START + 700_001)).reset, second + 2);
}

#[test]
fn small_values_are_written_as_they_are() {
    // The last half millisecond of a window of 2 a minute.
    let limit = limit(Algorithm::FixedWindow, 2, 60_000_000);
    let item = item("login", "tries", &limit);
    let at = START + 59_999_500;
    let (state, first) = decide(&limit, State::FRESH, at, 1);
    let (state, second) = decide(&limit, state, at, 1);
    let (_, refused) = decide(&limit, state, at + 499, 1);
    assert_eq!(written(&item, &first), r#""login.tries";r=1;t=1"#);
    assert_eq!(written(&item, &second), r#""login.tries";r=0;t=1"#);
    assert_eq!(written(&item, &refused), r#""login.tries";r=0;t=1"#);
    let reset = START / 1_000_000 + 60;
    assert_eq!(
        XRateLimit::unix(&refused, Micros::new(at + 499)),
        XRateLimit { limit: 2, remaining: 0, reset }
    );
    assert_eq!(XRateLimit::delta(&refused).reset, 1);
    let (_, fresh) = decide(&limit, State::FRESH, at, 0);
    assert_eq!(XRateLimit::delta(&fresh), XRateLimit { limit: 2, remaining: 2, reset: 0 });
}

#[test]
fn an_empty_window_that_begins_with_a_request_gives_more_after_a_whole_one() {
    let limit = limit(Algorithm::FixedWindow, 2, 60_000_000).align(Align::FirstRequest);
    let (_, fresh) = decide(&limit, State::FRESH, START + 1, 0);
    assert_eq!((fresh.remaining(), fresh.more_after()), (2, Duration::from_secs(60)));
    let (state, _) = decide(&limit, State::FRESH, START, 1);
    let (_, later) = decide(&limit, state, START + 10_000_000, 0);
    assert_eq!((later.remaining(), later.more_after()), (1, Duration::from_secs(50)));
}

#[test]
fn a_refusal_for_want_of_a_place_asks_to_come_again_in_a_second() {
    for algorithm in Algorithm::ALL {
        let limit = limit(algorithm, 5, 60_000_000);
        let item = item("api", "all", &limit);
        let at = Moment::at(Micros::new(START + 1));
        let no_room = Evaluation::no_room(&limit, &at, 1).untouched();
        assert_eq!(no_room.more_after(), NO_ROOM_RETRY);
        assert_eq!(written(&item, &no_room), r#""api.all";r=0;t=1"#);
        // What is too large for any place has the numbers of a fresh key.
        let too_large = Evaluation::no_room(&limit, &at, 6).untouched();
        let log = crate::Log::new();
        let state = if algorithm == Algorithm::SlidingWindowLog {
            StateRef::Log(&log)
        } else {
            StateRef::Words(State::FRESH)
        };
        let fresh = evaluate(&limit, state, &at, 6, Ask::Acquire).untouched();
        assert_eq!(too_large.more_after(), fresh.more_after(), "{algorithm}");
        assert!(fresh.more_after() > Duration::ZERO, "{algorithm}");
        assert_eq!((too_large.remaining(), too_large.reset_after()), (5, Duration::ZERO));
    }
}

#[test]
fn numbers_larger_than_fifteen_digits_are_told_as_the_largest() {
    let item = item("api", "all", &Limit::per_second(1));
    let mut out = Vec::new();
    item.write_numbers(&mut out, u64::MAX, Duration::MAX);
    assert_eq!(out, br#""api.all";r=999999999999999;t=999999999999999"#);
    assert_eq!(MAX_FIELD_INTEGER.to_string().len(), 15);
}
