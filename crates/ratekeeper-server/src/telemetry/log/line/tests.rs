use ratekeeper_core::Micros;

use super::{Line, MAX_TEXT_CHARS, write_instant};
use crate::telemetry::log::{Format, Level};

fn instant(us: u64) -> String {
    let mut text = String::new();
    write_instant(&mut text, Micros::new(us));
    text
}

fn line(format: Format, value: &str) -> String {
    let mut line = Line::start(format, Micros::ZERO, Level::Info, "denied");
    line.text("key", value);
    line.end(0)
}

#[test]
fn instants_are_dates_of_utc() {
    for (seconds, text) in [
        (0, "1970-01-01T00:00:00.000000Z"),
        (951_782_399, "2000-02-28T23:59:59.000000Z"),
        (951_782_400, "2000-02-29T00:00:00.000000Z"),
        (1_709_164_800, "2024-02-29T00:00:00.000000Z"),
        (1_735_689_599, "2024-12-31T23:59:59.000000Z"),
        (1_767_225_600, "2026-01-01T00:00:00.000000Z"),
        (4_107_542_400, "2100-03-01T00:00:00.000000Z"),
    ] {
        assert_eq!(instant(seconds * 1_000_000), text);
    }
    assert_eq!(instant(1_767_225_600_000_042), "2026-01-01T00:00:00.000042Z");
    assert_eq!(instant(u64::MAX), "2255-06-05T23:47:34.740991Z");
}

#[test]
fn days_follow_each_other() {
    let months = |leap: bool| [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut day = 0;
    for year in 1970..2256 {
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        for (month, days) in (1..).zip(months(is_leap)) {
            for of_month in 1..=days {
                assert_eq!(super::civil(day), (year, month, of_month));
                day += 1;
            }
        }
    }
}

#[test]
fn nothing_hidden_is_written_as_it_is() {
    let hidden = ('\0'..='\u{1f}')
        .chain('\u{7f}'..='\u{9f}')
        .chain("\u{ad}\u{61c}\u{180e}\u{200b}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}".chars())
        .chain("\u{2060}\u{2066}\u{2069}\u{feff}\u{fff9}\u{e0001}\u{e0041}".chars());
    for c in hidden {
        let value = format!("a{c}b");
        for format in [Format::Text, Format::Json] {
            let line = line(format, &value);
            let body = line.strip_suffix('\n').expect("an end");
            assert!(!body.contains(c) && !body.contains(char::is_control), "{c:?} in {body:?}");
            // What is escaped is not lost: a value in quotes is a JSON string in both formats.
            let start = body.find("\"a").expect("in quotes");
            let quoted = &body[start..=body.rfind('"').expect("an end")];
            assert_eq!(serde_json::from_str::<String>(quoted).expect("a JSON string"), value);
        }
    }
}

#[test]
fn value_cannot_look_like_other_fields() {
    for (value, shown) in [
        ("plain-1.2:3/4", "plain-1.2:3/4"),
        ("", "\"\""),
        ("a b", "\"a b\""),
        ("a=b", "\"a=b\""),
        ("x policy=other", "\"x policy=other\""),
        ("\" policy=other key=\"", "\"\\\" policy=other key=\\\"\""),
        ("back\\slash", "\"back\\\\slash\""),
        ("Grüße", "\"Grüße\""),
        ("tab\there", "\"tab\\there\""),
    ] {
        assert_eq!(
            line(Format::Text, value),
            format!("1970-01-01T00:00:00.000000Z info denied key={shown}\n")
        );
        let json: serde_json::Value = serde_json::from_str(&line(Format::Json, value)).expect("JSON");
        assert_eq!(json["key"], value);
        assert_eq!(json.as_object().map(serde_json::Map::len), Some(4));
    }
}

#[test]
fn text_is_cut_at_its_bound_and_not_before() {
    let longest = "k".repeat(MAX_TEXT_CHARS);
    for format in [Format::Text, Format::Json] {
        assert!(line(format, &longest).contains(&longest));
        assert!(!line(format, &longest).contains('…'));
        let cut = line(format, &format!("{longest}k"));
        assert!(cut.contains(&format!("\"{longest}…\"")));
    }
}
