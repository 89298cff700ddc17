use std::time::Duration;

use super::{DECISION_BOUNDS, DELAY_BOUNDS, Histogram};

#[test]
fn bounds_rise() {
    for bounds in [&DECISION_BOUNDS[..], &DELAY_BOUNDS[..]] {
        assert!(bounds.is_sorted_by(|a, b| a < b));
    }
}

#[test]
fn duration_at_a_bound_counts_below_it_and_one_past_it_above() {
    for (i, bound) in DECISION_BOUNDS.into_iter().enumerate() {
        let histogram = Histogram::of_decisions();
        histogram.observe(bound);
        histogram.observe(bound + Duration::from_nanos(1));
        let counts: Vec<u64> = histogram.buckets().into_iter().map(|(_, count)| count).collect();
        assert_eq!((counts[i], counts[i + 1], counts.iter().sum::<u64>()), (1, 1, 2), "{bound:?}");
    }
}

#[test]
fn sum_keeps_nanoseconds_and_years() {
    let histogram = Histogram::of_delays();
    histogram.observe(Duration::from_nanos(250_000_000));
    histogram.observe(Duration::new(1, 750_000_000));
    assert_eq!(histogram.sum(), 2.0);
    for _ in 0..1_000 {
        histogram.observe(Duration::from_secs(366 * 86_400));
    }
    assert_eq!(histogram.sum(), 31_622_400_002.0);
}
