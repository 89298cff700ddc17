use super::*;

fn number(text: &str) -> Result<u64, Option<String>> {
    parse_number("burst", text).map_err(|fault| fault.hint)
}

#[test]
fn numbers_are_plain_digits() {
    for (text, value) in
        [("0", 0), ("1", 1), ("1000000000", 1_000_000_000), ("18446744073709551615", u64::MAX)]
    {
        assert_eq!(number(text), Ok(value));
    }
    assert_eq!(number("99999999999999999999999"), Ok(u64::MAX), "every bound refuses it");
    for (text, hint) in [
        ("007", "write `7`"),
        ("00", "write `0`"),
        ("1_000", "write `1000`"),
        ("1,000", "write `1000`"),
        ("+5", "write `5`"),
    ] {
        assert_eq!(number(text), Err(Some(hint.to_owned())));
    }
    for text in ["", "-1", "1.0", "1e3", "0x10", "ten", "١", "_", "+", "1s"] {
        assert!(number(text).is_err(), "{text}");
    }
}

#[test]
fn a_limit_of_another_dialect_is_translated() {
    for (text, meant) in [
        ("10 / s", "10/s"),
        ("10/ minute", "10/minute"),
        ("10 per minute", "10/minute"),
        ("10/min", "10/minute"),
        ("10/sec", "10/s"),
        ("5 per hour", "5/hour"),
    ] {
        assert_eq!(meant_rate(text).as_deref(), Some(meant), "{text}");
    }
    for text in ["10", "10/m", "0/min", "3.7/s", "1k/s", "10/fortnight"] {
        assert_eq!(meant_rate(text), None, "{text}");
    }
}

#[test]
fn limits_of_one_zone_and_period_share_a_calendar() {
    let mut zones = Zones::default();
    let mut calendar = |zone, period| zones.calendar(zone, period).unwrap();
    let first = calendar("Europe/Paris", Period::Day);
    assert!(Arc::ptr_eq(&first, &calendar("Europe/Paris", Period::Day)));
    assert!(!Arc::ptr_eq(&first, &calendar("Europe/Paris", Period::Week)));
    assert!(!Arc::ptr_eq(&first, &calendar("Europe/Rome", Period::Day)));
}

#[test]
fn every_algorithm_refuses_the_options_it_does_not_take() {
    let names = |faults: Vec<LimitFault>| faults.into_iter().map(|f| f.fault.message).collect::<Vec<_>>();
    for algorithm in Algorithm::ALL {
        let words = |burst, queue, align| LimitWords {
            algorithm: Given::Text(algorithm.name()),
            limit: Given::Text("10/day"),
            burst,
            queue,
            align,
            ..LimitWords::default()
        };
        let built = |words: LimitWords<'_>| words.build(&mut Zones::default()).map(|_| ()).map_err(names);
        let given = Given::Text("5");
        let burst = built(words(given, Given::Absent, Given::Absent));
        assert_eq!(burst.is_ok(), algorithm.takes_burst(), "{algorithm}");
        let queue = built(words(Given::Absent, given, Given::Absent));
        assert_eq!(queue.is_ok(), algorithm == Algorithm::LeakyBucket, "{algorithm}");
        let align = built(words(Given::Absent, Given::Absent, Given::Text("epoch")));
        assert_eq!(align.is_ok(), algorithm == Algorithm::FixedWindow, "{algorithm}");
        assert_eq!(built(words(Given::Absent, Given::Absent, Given::Absent)), Ok(()));
    }
}
