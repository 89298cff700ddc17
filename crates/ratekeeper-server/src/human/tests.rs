use jiff::civil::date;
use jiff::tz::{TimeZone, offset};

use super::*;

#[test]
fn durations_have_two_units_at_most_and_are_rounded_up() {
    for (ms, text) in [
        (0, "0 ms"),
        (300, "300 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (1_001, "2 s"),
        (2_997, "3 s"),
        (59_000, "59 s"),
        (59_001, "1 min"),
        (60_001, "1 min 1 s"),
        (213_874, "3 min 34 s"),
        (3_599_000, "59 min 59 s"),
        (3_599_001, "1 h"),
        (3_600_001, "1 h 1 min"),
        (82_801_000, "23 h 1 min"),
        (86_340_000, "23 h 59 min"),
        (86_341_000, "1 d"),
        (86_400_001, "1 d 1 h"),
        (31 * 86_400_000 + 3_600_000, "31 d 1 h"),
        (u64::MAX, "213503982334 d 15 h"),
    ] {
        assert_eq!(duration(ms), text, "{ms}");
    }
}

#[test]
fn measured_times_have_a_unit_that_leaves_few_digits() {
    for (ns, text) in [
        (0, "0 ns"),
        (9_999, "9999 ns"),
        (10_001, "11 µs"),
        (9_999_999, "10000 µs"),
        (10_000_000, "10 ms"),
        (u64::MAX, "18446744073710 ms"),
    ] {
        assert_eq!(nanos(ns), text);
    }
}

#[test]
fn the_end_of_a_wait_is_told_as_the_clock_on_the_wall_will_show_it() {
    let zone = TimeZone::fixed(offset(2));
    let now = date(2026, 3, 1).at(13, 4, 7, 126_000_000).to_zoned_datetime(zone.clone()).expect("a time");
    let now = Micros::new(u64::try_from(now.timestamp().as_microsecond()).expect("after 1970"));
    let told = |wait| time_of_day(now, wait, &zone);
    assert_eq!(told(213_874).as_deref(), Some("13:07:41"));
    assert_eq!(told(213_875).as_deref(), Some("13:07:42"), "rounded up");
    assert_eq!(told(86_400_000).as_deref(), Some("2026-03-02 13:04:08"));
    assert_eq!(told(u64::MAX), None);
}

#[test]
fn exact_durations_keep_their_milliseconds_below_a_minute() {
    for (ms, text) in [
        (0, "0 ms"),
        (60, "60 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (12_300, "12.3 s"),
        (59_999, "59.999 s"),
        (60_000, "1 min"),
        (213_874, "3 min 34 s"),
    ] {
        assert_eq!(exact(ms), text);
    }
    assert_eq!(
        (thousandths(19_600), thousandths(20), thousandths(0)),
        ("19.6".into(), "0.02".into(), "0".into())
    );
}

#[test]
fn a_moment_has_its_date_if_that_is_another_one() {
    let noon = 1_767_268_662_120;
    let zone = TimeZone::UTC;
    assert_eq!(clock(noon, noon, &zone).as_deref(), Some("11:57:42.120"));
    assert_eq!(clock(noon, noon + 86_400_000, &zone).as_deref(), Some("2026-01-01 11:57:42.120"));
    assert_eq!(clock(u64::MAX, noon, &zone), None);
}
