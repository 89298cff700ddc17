use super::*;

fn day(window: Window) -> (u64, u64) {
    (window.start.get() / DAY_US, window.end.get() / DAY_US)
}

#[test]
fn utc_months_have_their_lengths_over_four_centuries() {
    let (mut year, mut month, mut first) = (1970_u64, 1_u64, 0_u64);
    while first < 170 * 366 {
        let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let length = match month {
            2 => 28 + u64::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        for d in [first, first + 1, first + length - 1] {
            let w = UtcCalendar(Period::Month).window(Micros::new(d * DAY_US + 17));
            assert_eq!(day(w), (first, first + length), "{year}-{month}");
        }
        first += length;
        month += 1;
        if month == 13 {
            (year, month) = (year + 1, 1);
        }
    }
}

#[test]
fn utc_weeks_begin_on_monday() {
    // 1970-01-05 was a Monday.
    assert_eq!(day(UtcCalendar(Period::Week).window(Micros::ZERO)), (0, 4));
    assert_eq!(day(UtcCalendar(Period::Week).window(Micros::new(4 * DAY_US - 1))), (0, 4));
    assert_eq!(day(UtcCalendar(Period::Week).window(Micros::new(4 * DAY_US))), (4, 11));
    assert_eq!(day(UtcCalendar(Period::Day).window(Micros::new(4 * DAY_US))), (4, 5));
}

#[test]
fn instants_end_where_doubles_stop_being_exact() {
    assert_eq!(Micros::new(u64::MAX), Micros::MAX);
    let clock = ManualClock::at(Micros::MAX);
    clock.advance(Duration::MAX);
    assert_eq!(clock.now(), Micros::MAX);
    clock.step_back(Duration::MAX);
    assert_eq!(clock.now(), Micros::ZERO);
}
