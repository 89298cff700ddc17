use super::*;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

fn calendar(zone: &str, period: Period) -> ZoneCalendar {
    ZoneCalendar::new(zone, period).unwrap()
}

/// Seconds since the epoch of an instant written in UTC.
fn utc(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_second()
}

fn at(second: i64) -> Micros {
    Micros::new(u64::try_from(second).unwrap() * 1_000_000)
}

/// The period around an instant, in seconds, asked twice: found and remembered.
fn around(calendar: &ZoneCalendar, second: i64) -> (i64, i64) {
    let seconds = |us: Micros| i64::try_from(us.get() / 1_000_000).unwrap();
    let window = calendar.window(at(second));
    assert_eq!(window, calendar.window(at(second)));
    (seconds(window.start), seconds(window.end))
}

#[test]
fn days_have_the_length_that_the_clocks_give_them() {
    for (zone, noon, start, end) in [
        ("Europe/Paris", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
        ("Europe/Paris", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"),
        // Half an hour forward and back.
        ("Australia/Lord_Howe", "2026-10-04T00:00:00Z", "2026-10-03T13:30:00Z", "2026-10-04T13:00:00Z"),
        ("Australia/Lord_Howe", "2026-04-05T00:00:00Z", "2026-04-04T13:00:00Z", "2026-04-05T13:30:00Z"),
        ("Asia/Kathmandu", "2026-01-01T00:00:00Z", "2025-12-31T18:15:00Z", "2026-01-01T18:15:00Z"),
        ("UTC", "2026-01-01T12:00:00Z", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
    ] {
        assert_eq!(around(&calendar(zone, Period::Day), utc(noon)), (utc(start), utc(end)), "{zone} {noon}");
    }
}

#[test]
fn a_day_without_midnight_begins_with_the_leap() {
    for (zone, leap, next) in [
        ("Africa/Cairo", "2024-04-25T22:00:00Z", "2024-04-26T21:00:00Z"),
        ("America/Sao_Paulo", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z"),
        ("Asia/Beirut", "2024-03-30T22:00:00Z", "2024-03-31T21:00:00Z"),
    ] {
        let day = calendar(zone, Period::Day);
        assert_eq!(around(&day, utc(leap)), (utc(leap), utc(next)), "{zone}");
        assert_eq!(around(&day, utc(leap) - 1).1, utc(leap), "{zone}");
    }
}

#[test]
fn a_midnight_that_comes_twice_counts_the_first_time() {
    // Sao Paulo, 2018-02-18 00:00 summer time: the clocks go back to 23:00 of the 17th. At that instant
    // they show the 17th again, so the 18th begins an hour later.
    let day = calendar("America/Sao_Paulo", Period::Day);
    assert_eq!(
        around(&day, utc("2018-02-18T02:30:00Z")),
        (utc("2018-02-17T02:00:00Z"), utc("2018-02-18T03:00:00Z"))
    );
    // Havana, 2023-11-05 01:00 summer time: back to 00:00, so midnight comes twice.
    let day = calendar("America/Havana", Period::Day);
    assert_eq!(
        around(&day, utc("2023-11-05T05:30:00Z")),
        (utc("2023-11-05T04:00:00Z"), utc("2023-11-06T05:00:00Z"))
    );
    // St. John's, 2006-10-29 00:01: back to 23:01 of the 28th. The 29th has begun for good at its first minute.
    let day = calendar("America/St_Johns", Period::Day);
    let begin = utc("2006-10-29T02:30:00Z");
    assert_eq!(around(&day, begin - 1).1, begin);
    for second in [0, 59, 60, 1_800, HOUR] {
        assert_eq!(around(&day, begin + second), (begin, begin + 25 * HOUR), "{second}");
    }
}

#[test]
fn a_date_that_was_left_out_has_no_day() {
    // Samoa went from 2011-12-29 to 2011-12-31 overnight.
    let day = calendar("Pacific/Apia", Period::Day);
    let leap = utc("2011-12-30T10:00:00Z");
    assert_eq!(around(&day, leap - 1), (leap - DAY, leap));
    assert_eq!(around(&day, leap), (leap, leap + DAY));
    let week = calendar("Pacific/Apia", Period::Week);
    assert_eq!(around(&week, leap), (utc("2011-12-26T10:00:00Z"), utc("2012-01-01T10:00:00Z")));
    // Kiritimati left out the last day of 1994: its month ends with the 30th.
    let month = calendar("Pacific/Kiritimati", Period::Month);
    let new_year = utc("1994-12-31T10:00:00Z");
    assert_eq!(around(&month, new_year - 1).1, new_year);
}

#[test]
fn weeks_begin_on_monday_and_months_on_the_first() {
    let week = calendar("Europe/Paris", Period::Week);
    let monday = utc("2026-03-22T23:00:00Z");
    assert_eq!(around(&week, monday), (monday, utc("2026-03-29T22:00:00Z")));
    assert_eq!(around(&week, monday - 1).1, monday);
    let month = calendar("America/New_York", Period::Month);
    for (instant, start, end) in [
        ("2024-02-29T23:59:59Z", "2024-02-01T05:00:00Z", "2024-03-01T05:00:00Z"),
        ("2026-03-01T05:00:00Z", "2026-03-01T05:00:00Z", "2026-04-01T04:00:00Z"),
        ("2026-12-31T12:00:00Z", "2026-12-01T05:00:00Z", "2027-01-01T05:00:00Z"),
    ] {
        assert_eq!(around(&month, utc(instant)), (utc(start), utc(end)), "{instant}");
    }
}

#[test]
fn utc_is_the_calendar_of_utc() {
    use ratekeeper_core::UtcCalendar;
    for period in [Period::Day, Period::Week, Period::Month] {
        let zone = calendar("UTC", period);
        let step = 86_400_000_000 * 13 / 3 + 7;
        let mut now = 0;
        while now < Micros::MAX.get() {
            let now_us = Micros::new(now);
            assert_eq!(zone.window(now_us), UtcCalendar(period).window(now_us), "{period:?} {now}");
            now += step;
        }
    }
}

#[test]
fn both_ends_of_time_have_a_period() {
    for zone in ["UTC", "Pacific/Kiritimati", "Pacific/Niue", "America/New_York", "Africa/Monrovia"] {
        for period in [Period::Day, Period::Week, Period::Month] {
            let calendar = calendar(zone, period);
            let first = calendar.window(Micros::ZERO);
            assert_eq!(first.start, Micros::ZERO, "{zone}");
            assert!(first.end > Micros::ZERO);
            let before_last = Micros::new(Micros::MAX.get() - 1);
            for now in [before_last, Micros::MAX] {
                let last = calendar.window(now);
                assert!(last.start < now && last.end == Micros::MAX, "{zone} {period:?} {last:?}");
            }
        }
    }
}

/// The rule itself, by looking at local dates only: no instant before the start shows a date of the period or
/// a later one, the start does, and the next period begins where this one ends.
fn check_around(calendar: &ZoneCalendar, second: i64) {
    let date = |second: i64| calendar.zone.to_datetime(Timestamp::from_second(second).unwrap()).date();
    let (start, end) = around(calendar, second);
    let what = format!("{calendar:?} at {second}: {start}..{end}");
    assert!(start <= second && second < end, "{what}");
    assert_eq!(around(calendar, end).0, end, "{what}");
    let first = calendar.first_date(date(start)).unwrap();
    assert!(calendar.first_date(date(start - 1)).unwrap() < first, "{what}");
    let before = (1..=50).map(|halves| date(start - halves * HOUR / 2)).max();
    assert!(before < Some(first), "{what}");
}

#[test]
fn every_period_around_every_change_of_every_zone_begins_at_its_first_instant() {
    let (from, to) = (utc("1970-02-15T00:00:00Z"), utc("2045-01-01T00:00:00Z"));
    let database = TimeZoneDatabase::bundled();
    let names: Vec<String> = database.available().map(|name| name.to_string()).collect();
    assert!(names.len() > 500);
    for name in names {
        let Ok(day) = ZoneCalendar::new(&name, Period::Day) else { panic!("{name}") };
        let (week, month) = (calendar(&name, Period::Week), calendar(&name, Period::Month));
        let changes = day.zone.following(Timestamp::from_second(from).unwrap());
        let changes: Vec<i64> =
            changes.map(|change| change.timestamp().as_second()).take_while(|at| *at < to).collect();
        for change in changes {
            for second in [change - DAY, change - 1, change, change + HOUR / 3, change + DAY] {
                check_around(&day, second);
            }
            check_around(&week, change);
            check_around(&month, change);
        }
    }
}

#[test]
fn zones_are_spelt_as_iana_spells_them_and_a_near_name_is_offered() {
    for (typed, meant) in [
        ("Europe/Pariss", Some("Europe/Paris")),
        ("europe/paris", Some("Europe/Paris")),
        ("Paris", Some("Europe/Paris")),
        ("new york", Some("America/New_York")),
        ("America/New York", Some("America/New_York")),
        ("utc", Some("UTC")),
        ("CET+1", Some("CET")),
        ("", None),
        ("Nowhere/At_All", None),
        ("localtime", None),
        ("../../etc/passwd", None),
        ("CET-1CEST,M3.5.0,M10.5.0/3", None),
        ("Etc/Unknown", None),
    ] {
        let error = ZoneCalendar::new(typed, Period::Day).expect_err(typed);
        assert_eq!(error.nearest(), meant, "{typed}");
    }
    for zone in ["UTC", "Etc/UTC", "Europe/Paris", "America/Argentina/Buenos_Aires", "CET", "Etc/GMT+12"] {
        assert_eq!(calendar(zone, Period::Day).zone(), zone);
    }
}
