use http::{HeaderName, HeaderValue};

use super::*;
use crate::profile::Profile;

fn fields(all: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in all {
        headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn seconds(s: u64) -> Option<Wait> {
    Some(Wait::For(Duration::from_secs(s)))
}

#[test]
fn bodies_say_what_they_say_only_if_they_were_read_and_are_short() {
    let none = HeaderMap::new();
    let head = ResponseHead::new(StatusCode::TOO_MANY_REQUESTS, &none);
    for (body, wait) in [
        (r#"{"retry_after_ms": 4200}"#, Some(Wait::For(Duration::from_millis(4_200)))),
        (
            r#"{"message": "say \"retry_after\": 9", "retry_after": 1.5, "global": false}"#,
            Some(Wait::For(Duration::from_millis(1_500))),
        ),
        (r#"{"error":{"details":[{"retryDelay":"34.5s"}]}}"#, Some(Wait::For(Duration::from_millis(34_500)))),
        (r#"{"retry_after": null}"#, None),
        (r#"{"retry_after": -1}"#, None),
        (r#"{"retry_after"#, None),
        (r#"retry_after: 5"#, None),
        ("", None),
    ] {
        let hint = resolve(&ResponseHead { body: Some(body.as_bytes()), ..head }, &Profile::Generic);
        assert_eq!(hint.wait, wait, "{body}");
        assert_eq!(hint.source == HintSource::Body, wait.is_some());
    }
    let long = format!("{{\"retry_after\": 5{}", " ".repeat(MAX_BODY_BYTES));
    assert_eq!(resolve(&ResponseHead { body: Some(long.as_bytes()), ..head }, &Profile::Generic).wait, None);
    // Fields come first.
    let headers = fields(&[("retry-after", "2")]);
    let head = ResponseHead { headers: &headers, body: Some(b"{\"retry_after\": 5}"), ..head };
    assert_eq!(resolve(&head, &Profile::Generic).wait, seconds(2));
}

#[test]
fn quotas_of_the_policy_field_are_joined_to_their_limits_by_name() {
    let headers = fields(&[
        ("ratelimit-policy", r#""burst";q=10;w=1, "day";q=1000;w=86400"#),
        ("ratelimit", r#""day";r=7;t=3600"#),
    ]);
    let hint = resolve(&ResponseHead::new(StatusCode::OK, &headers), &Profile::Generic);
    assert_eq!(hint.wait, None);
    assert_eq!(
        hint.limits,
        [LimitInfo {
            name: "day".to_owned(),
            remaining: 7,
            wait: Some(Duration::from_secs(3_600)),
            margin: Duration::ZERO,
            quota: Some(1_000),
            window: Some(Duration::from_secs(86_400)),
        }]
    );
}

#[test]
fn counters_are_not_looked_at_where_ratelimit_tells_more() {
    // The reset of a bucket's counter is when it is full, which is later than when there is one more.
    let headers = fields(&[
        ("ratelimit", r#""d";r=0;t=1"#),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "60"),
    ]);
    let hint = resolve(&ResponseHead::new(StatusCode::OK, &headers), &Profile::Generic);
    assert_eq!((hint.wait, hint.limits.len()), (seconds(1), 1));
}

#[test]
fn a_counter_takes_the_first_number_of_its_quota() {
    let headers = fields(&[
        ("x-ratelimit-limit", "3, 3;w=3600"),
        ("x-ratelimit-remaining", "0.0"),
        ("x-ratelimit-reset", "10"),
    ]);
    let hint = resolve(&ResponseHead::new(StatusCode::OK, &headers), &Profile::Generic);
    let told = hint.limits.first().unwrap();
    assert_eq!((told.quota, told.remaining, told.wait), (Some(3), 0, Some(Duration::from_secs(10))));
}

#[test]
fn numbers_are_read_digit_by_digit() {
    use crate::numbers::{count, decimal, digits, go_duration, milliseconds};
    let read = |text| decimal(text).map(|n| (n.whole, n.nanos));
    for (text, number) in [
        ("0", Some((0, 0))),
        ("2.5", Some((2, 500_000_000))),
        ("0.0000000001", Some((0, 1))),
        ("0.9999999999", Some((1, 0))),
        ("18446744073709551615", Some((u64::MAX, 0))),
        ("99999999999999999999999", Some((u64::MAX, 0))),
        ("18446744073709551615.99999999999", Some((u64::MAX, 0))),
        (".5", None),
        ("5.", None),
        ("1.2.3", None),
        ("-0", None),
        ("0x10", None),
        ("", None),
    ] {
        assert_eq!(read(text), number, "{text}");
    }
    assert_eq!((digits("007"), digits("7 "), count("7.9"), count("-1")), (Some(7), None, Some(7), None));
    assert_eq!(decimal("1.0000001").and_then(milliseconds), Some(Duration::from_micros(1_001)));
    for (text, us) in [
        ("6m0s", Some(360_000_000)),
        ("12ms", Some(12_000)),
        ("1m30.5s", Some(90_500_000)),
        ("1h", Some(3_600_000_000)),
        ("1ns", Some(1)),
        ("2.5µs", Some(3)),
        ("5", None),
        ("s", None),
        ("5 s", None),
        ("5d", None),
        ("", None),
    ] {
        assert_eq!(go_duration(text), us.map(Duration::from_micros), "{text}");
    }
    assert!(
        go_duration(&"9".repeat(40).replace("99", "9h")).is_some_and(|span| span > Duration::from_secs(1))
    );
}

#[test]
fn dates_are_those_of_the_calendar() {
    use crate::dates::{http_date, javascript, rfc3339};
    let at = |s| Some(Duration::from_secs(s));
    for (text, date) in [
        ("2019-06-03T11:00:00Z", at(1_559_559_600)),
        ("2019-06-03T11:00Z", at(1_559_559_600)),
        ("2019-06-03t13:00:00+02:00", at(1_559_559_600)),
        ("2019-06-03T10:30:00-0030", at(1_559_559_600)),
        ("2000-02-29T00:00:00Z", at(951_782_400)),
        ("1970-01-01T00:00:00Z", at(0)),
        ("2019-06-03T11:00:00.5Z", Some(Duration::from_millis(1_559_559_600_500))),
        ("2019-02-29T00:00:00Z", None),
        ("2019-13-01T00:00:00Z", None),
        ("2019-06-03T24:00:00Z", None),
        ("2019-06-03T11:00:00", None),
        ("19-06-03T11:00:00Z", None),
        ("2019-06-03", None),
        ("-12:00T+", None),
    ] {
        assert_eq!(rfc3339(text), date, "{text}");
    }
    let script = "Thu Jan 15 2026 13:00:02 GMT+0100 (Central European Standard Time)";
    assert_eq!(javascript(script), at(1_768_478_402));
    for text in
        ["Mon, 03 Jun 2019 11:00:00 GMT", " Mon, 03 Jun 2019 11:00:00 UTC", "Mon, 03 Jun 2019 11:00:00 +0000"]
    {
        assert_eq!(http_date(text), at(1_559_559_600), "{text}");
    }
    for text in ["Wed, 99 Foo 2026", "Tue, 03 Jun 2019 11:00:00 GMT", "Mon, 03 Jun 2019 11:00:00 CET", ""] {
        assert_eq!(http_date(text), None, "{text}");
    }
    // By another calendar, day by day: the same days.
    for day in (0..400_000_u64).step_by(97) {
        let date = std::time::UNIX_EPOCH + Duration::from_secs(day * 86_400);
        let text = httpdate::fmt_http_date(date);
        let words: Vec<&str> = text.split([' ', ',']).collect();
        let month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
            .iter()
            .position(|name| *name == words[3])
            .unwrap();
        let iso = format!("{}-{:02}-{}T00:00:00Z", words[4], month + 1, words[2]);
        assert_eq!(rfc3339(&iso), at(day * 86_400), "{text}");
    }
}
