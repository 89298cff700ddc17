use super::*;

#[test]
fn numbers_may_have_their_zeros_counted() {
    for (text, n) in [
        ("1", Some(1)),
        ("1e6", Some(1_000_000)),
        ("12E0", Some(12)),
        ("", None),
        ("e6", None),
        ("1e", None),
        ("-1", None),
        ("+1", None),
        ("1.5e3", None),
        ("1e19", Some(10_000_000_000_000_000_000)),
        ("1e20", None),
        ("1e99999999999", None),
    ] {
        assert_eq!(whole(text), n, "{text}");
    }
}

#[test]
fn threads_and_keys_have_bounds() {
    assert!(threads("256").is_ok() && threads("257").is_err() && threads("0").is_err());
    assert!(keys("1e8").is_ok() && keys("100000001").is_err() && keys("0").is_err());
}

#[test]
fn every_algorithm_has_a_limit_to_be_measured_by() {
    for algorithm in Algorithm::ALL {
        let case = Case { algorithm, threads: 1, keys: 10, seconds: 1 };
        let config = configuration(&case).unwrap_or_else(|_| panic!("{}", algorithm.name()));
        assert_eq!(config.policies[0].limits()[0].named.limit().kind(), algorithm);
        assert_eq!(config.stores[0].memory().map(|memory| memory.max_keys), Some(10));
    }
}
