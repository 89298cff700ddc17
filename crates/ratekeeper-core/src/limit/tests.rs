use super::*;
use alloc::format;
use alloc::string::ToString;

#[test]
fn limits_are_read_by_the_grammar_and_written_back() {
    for (text, amount, window_us) in [
        ("10/s", 10, 1_000_000),
        ("10/second", 10, 1_000_000),
        ("5 per 10m", 5, 600_000_000),
        ("1000/day", 1_000, DAY_US),
        ("1/year", 1, 365 * DAY_US),
        ("3 per 366d", 3, MAX_WINDOW_US),
        ("7 per 1us", 7, 1),
        ("1000000000/week", MAX_AMOUNT, 7 * DAY_US),
    ] {
        let rate = Rate::parse(text).unwrap();
        assert_eq!((rate.amount, rate.window_us), (amount, window_us), "{text}");
        let limit: Limit = text.parse().unwrap();
        assert_eq!(limit.to_string().parse::<Limit>(), Ok(limit), "{text}");
    }
}

#[test]
fn what_the_grammar_does_not_know_is_refused_with_its_reason() {
    use LimitError::*;
    for (text, error) in [
        ("10/m", AmbiguousUnit),
        ("10 / s", Spaces),
        (" 10/s", Spaces),
        ("10/s ", Spaces),
        ("10 per minute", NotADuration),
        ("3.7/s", NotANumber),
        ("1k/s", NotANumber),
        ("+1/s", NotANumber),
        ("-1/s", NotANumber),
        ("01/s", NotANumber),
        ("1_000/s", NotANumber),
        ("/s", NotANumber),
        ("10/fortnight", UnknownUnit),
        ("10/S", UnknownUnit),
        ("10", NotALimit),
        ("", NotALimit),
        ("10 per 1m30s", NotADuration),
        ("10 per  1m", NotADuration),
        ("0/s", AmountZero),
        ("1000000001/s", AmountTooLarge),
        ("99999999999999999999999999/s", AmountTooLarge),
        ("1 per 0s", WindowZero),
        ("1 per 367d", WindowTooLong),
        ("1 per 99999999999999999999d", WindowTooLong),
        ("١/s", NotANumber),
    ] {
        assert_eq!(text.parse::<Limit>(), Err(error), "{text:?}");
    }
}

#[test]
fn every_bound_holds_at_it_and_refuses_one_past_it() {
    use Algorithm::*;
    let spec = |algorithm, amount, window_us| LimitSpec::new(algorithm, amount, window_us);
    for algorithm in Algorithm::ALL {
        let largest = if algorithm == SlidingWindowLog { MAX_LOG_AMOUNT } else { MAX_AMOUNT };
        for window_us in [1, 1_000, MAX_WINDOW_US] {
            assert!(spec(algorithm, 1, window_us).build().is_ok());
            assert!(spec(algorithm, largest, window_us).build().is_ok());
            assert!(spec(algorithm, largest + 1, window_us).build().is_err());
            assert_eq!(spec(algorithm, 0, window_us).build(), Err(LimitError::AmountZero));
        }
        assert_eq!(spec(algorithm, 1, 0).build(), Err(LimitError::WindowZero));
        assert_eq!(spec(algorithm, 1, MAX_WINDOW_US + 1).build(), Err(LimitError::WindowTooLong));
        assert_eq!(spec(algorithm, u64::MAX, u64::MAX).build(), Err(LimitError::AmountTooLarge));
    }
    let with = |change: &dyn Fn(&mut LimitSpec)| {
        let mut s = spec(LeakyBucket, MAX_AMOUNT, 1_000_000);
        change(&mut s);
        s.build().map(|l| l.capacity())
    };
    assert_eq!(with(&|s| s.burst = Some(MAX_AMOUNT)), Ok(MAX_AMOUNT));
    assert_eq!(with(&|s| s.burst = Some(MAX_AMOUNT + 1)), Err(LimitError::BurstOutOfRange));
    assert_eq!(with(&|s| s.burst = Some(0)), Err(LimitError::BurstOutOfRange));
    assert_eq!(with(&|s| s.queue = Some(MAX_AMOUNT - 1)), Ok(MAX_AMOUNT));
    assert_eq!(with(&|s| s.queue = Some(MAX_AMOUNT)), Err(LimitError::QueueTooLarge));
    assert_eq!(with(&|s| s.queue = Some(u64::MAX)), Err(LimitError::QueueTooLarge));
    assert_eq!(with(&|s| s.queue = Some(0)), Ok(1));
    assert_eq!(with(&|s| (s.queue, s.max_wait_us) = (Some(0), Some(0))), Err(LimitError::MaxWaitZero));
    assert_eq!(with(&|s| (s.queue, s.max_wait_us) = (Some(0), Some(MAX_WAIT_US))), Ok(1));
    let too_long = MAX_WAIT_US + 1;
    assert_eq!(
        with(&|s| (s.queue, s.max_wait_us) = (Some(0), Some(too_long))),
        Err(LimitError::MaxWaitTooLong)
    );
    // burst × window / N: 366 days exactly, and a microsecond more.
    let mut s = spec(Gcra, 2, 1);
    s.window_us = MAX_WINDOW_US;
    s.burst = Some(2);
    assert!(s.build().is_ok());
    s.burst = Some(3);
    assert_eq!(s.build(), Err(LimitError::RefillTooLong));
}

#[test]
fn options_belong_to_their_algorithms() {
    let with = |algorithm, change: &dyn Fn(&mut LimitSpec)| {
        let mut s = LimitSpec::new(algorithm, 10, 1_000_000);
        change(&mut s);
        s.build().map(|_| ())
    };
    for algorithm in Algorithm::ALL {
        assert_eq!(with(algorithm, &|s| s.burst = Some(5)).is_ok(), algorithm.takes_burst());
        let leaky = algorithm == Algorithm::LeakyBucket;
        assert_eq!(with(algorithm, &|s| s.queue = Some(5)).is_ok(), leaky);
        let fixed = algorithm == Algorithm::FixedWindow;
        assert_eq!(with(algorithm, &|s| s.align = Align::FirstRequest).is_ok(), fixed);
        assert!(with(algorithm, &|s| s.max_wait_us = Some(5)).is_err());
    }
    let both = |s: &mut LimitSpec| (s.burst, s.queue) = (Some(5), Some(5));
    assert_eq!(with(Algorithm::LeakyBucket, &both), Err(LimitError::QueueWithBurst));
    let daily = |s: &mut LimitSpec| s.align = Align::Calendar(Period::Day);
    assert_eq!(with(Algorithm::FixedWindow, &daily), Err(LimitError::CalendarWindow));
}

#[test]
fn worst_cases_are_those_of_the_theorems() {
    let x = |limit: Limit, s: u64| limit.worst_case(Duration::from_secs(s));
    let ten = Limit::per(10, Duration::from_secs(10));
    assert_eq!([x(ten, 0), x(ten, 1), x(ten, 10)], [10, 11, 20]);
    assert_eq!(x(ten.burst(3), 10), 13);
    let fixed = ten.algorithm(Algorithm::FixedWindow);
    assert_eq!([x(fixed, 0), x(fixed, 1), x(fixed, 10), x(fixed, 11)], [10, 20, 20, 30]);
    let first = fixed.align(Align::FirstRequest);
    assert_eq!([x(first, 0), x(first, 1), x(first, 10), x(first, 11)], [10, 20, 20, 30]);
    let one = Limit::per(1, Duration::from_secs(10)).algorithm(Algorithm::FixedWindow);
    assert_eq!([x(one, 0), x(one, 1), x(one, 10), x(one, 11)], [1, 2, 2, 3]);
    let first = one.align(Align::FirstRequest);
    assert_eq!([x(first, 0), x(first, 9), x(first, 10), x(first, 19), x(first, 20)], [1, 1, 2, 2, 3]);
    let log = ten.algorithm(Algorithm::SlidingWindowLog);
    assert_eq!([x(log, 0), x(log, 9), x(log, 10)], [10, 10, 20]);
    let counter = ten.algorithm(Algorithm::SlidingWindowCounter);
    assert_eq!([x(counter, 0), x(counter, 5), x(counter, 10)], [10, 15, 20]);
    let queue = ten.algorithm(Algorithm::LeakyBucket).queue(5);
    assert_eq!([x(queue, 0), x(queue, 5)], [1, 6]);
    assert_eq!(Limit::per_second(MAX_AMOUNT).worst_case(Duration::MAX), u64::MAX);
}

#[test]
fn debug_prints_the_worst_case() {
    let text = format!("{:?}", Limit::per_second(10).burst(20));
    assert_eq!(text, "Limit(token-bucket 10/s, burst 20; at most 30 in 1s)");
}
