use http::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use ratekeeper::{Limit, ManualClock, MemoryStore, Name, NamedLimit, millis};

use super::{Fields, Told, add_wait};
use crate::book::{Book, Page, Place};
use ratekeeper_policy::{Dialect, Headers, Stretch, XRateLimit};

fn name(text: &str) -> Name {
    Name::new(text).expect("a name")
}

/// The fields after `cost` units were taken, and then one more was asked for.
fn fields(headers: Headers, limit: Limit, cost: u64) -> Fields {
    let clock = ManualClock::new();
    clock.advance(millis(12_300));
    let store = MemoryStore::builder().max_keys(10).clock(&clock).build().expect("small");
    let named = NamedLimit::new(&name("default"), name("all"), limit);
    let check = |cost| [ratekeeper::Check { limit: &named, key: "k".into(), cost }];
    if cost > 0 {
        assert!(store.decide_now(&check(cost), ratekeeper::Ask::Acquire).expect("memory").allowed);
    }
    let decision = store.decide_now(&check(1), ratekeeper::Ask::Acquire).expect("memory");
    let book = Book { pages: vec![Page::new(name("default"), headers, [(name("all"), limit)])] };
    let places = [Place { policy: 0, limit: 0 }].into_iter().collect();
    Told { book: &book, decision: &decision, places: &places, clock: &clock, stretch: Stretch::NONE }
        .fields(false)
}

fn lines(fields: Fields, before: &[(&'static str, &str)]) -> Vec<String> {
    let mut head = Response::new(()).into_parts().0;
    for (name, value) in before {
        head.headers.append(*name, HeaderValue::from_str(value).expect("a value"));
    }
    fields.add_to(&mut head);
    let mut lines: Vec<String> = head
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().expect("text")))
        .collect();
    lines.sort();
    lines
}

const ALL: Headers = Headers {
    ratelimit: true,
    retry_after: true,
    x_ratelimit: XRateLimit::Unix,
    dialect: Dialect::Rt,
    retry_jitter: ratekeeper_policy::Jitter::NONE,
};
const WINDOW: Limit = Limit::per_minute(100).algorithm(ratekeeper::Algorithm::FixedWindow);

#[test]
fn the_fields_are_exact() {
    // B128: 30 used, and 47.7 s of the window left.
    assert_eq!(
        lines(fields(ALL, WINDOW, 30), &[]),
        [
            r#"ratelimit-policy: "default.all";q=100;w=60"#,
            r#"ratelimit: "default.all";r=69;t=48"#,
            "x-ratelimit-limit: 100",
            "x-ratelimit-remaining: 69",
            "x-ratelimit-reset: 60",
        ]
    );
    let delta = Headers { x_ratelimit: XRateLimit::Delta, dialect: Dialect::Both, ..ALL };
    assert_eq!(
        lines(fields(delta, WINDOW, 99), &[]),
        [
            r#"ratelimit-policy: "default.all";q=100;w=60"#,
            r#"ratelimit: "default.all";r=0;t=48;a=0;w=48"#,
            "x-ratelimit-limit: 100",
            "x-ratelimit-remaining: 0",
            "x-ratelimit-reset: 48",
        ]
    );
    let none = Headers { ratelimit: false, x_ratelimit: XRateLimit::Off, ..ALL };
    assert!(lines(fields(none, WINDOW, 0), &[]).is_empty());
}

#[test]
fn another_limiters_fields_stay_and_ours_come_behind_them_on_one_line() {
    let before = [
        ("ratelimit", r#""inner";r=3;t=2"#),
        ("ratelimit", r#""other";r=1;t=1"#),
        ("ratelimit-policy", r#""inner";q=5;w=10"#),
        ("x-ratelimit-limit", "5"),
    ];
    assert_eq!(
        lines(fields(ALL, WINDOW, 30), &before),
        [
            r#"ratelimit-policy: "inner";q=5;w=10, "default.all";q=100;w=60"#,
            r#"ratelimit: "inner";r=3;t=2, "other";r=1;t=1, "default.all";r=69;t=48"#,
            "x-ratelimit-limit: 5",
        ]
    );
}

#[test]
fn answers_that_are_not_about_this_client_get_no_fields() {
    for (status, cache) in [
        (429, None),
        (503, None),
        (304, None),
        (302, None),
        (101, None),
        (200, Some("public, max-age=60")),
        (200, Some("max-age=1, s-maxage=60")),
    ] {
        let mut head = Response::new(()).into_parts().0;
        head.status = StatusCode::from_u16(status).expect("a status");
        if let Some(cache) = cache {
            head.headers.insert("cache-control", HeaderValue::from_static(cache));
        }
        fields(ALL, WINDOW, 0).add_to(&mut head);
        assert!(!head.headers.contains_key("ratelimit"), "{status} {cache:?}");
    }
    let mut head = Response::new(()).into_parts().0;
    head.headers.insert("cache-control", HeaderValue::from_static("private, max-age=60"));
    fields(ALL, WINDOW, 0).add_to(&mut head);
    assert!(head.headers.contains_key("ratelimit"));
}

#[test]
fn the_longer_of_two_waits_is_told() {
    const DATE: &str = "Fri, 31 Dec 2100 23:59:59 GMT";
    for (said, ours, told) in
        [(Some("9"), 5, "9"), (Some("2"), 5, "5"), (Some(""), 5, "5"), (Some(DATE), 5, DATE), (None, 5, "5")]
    {
        let mut headers = HeaderMap::new();
        if let Some(said) = said {
            headers.insert(RETRY_AFTER, HeaderValue::from_static(said));
        }
        add_wait(&mut headers, Some(ours));
        assert_eq!(headers[RETRY_AFTER], told, "{said:?}");
        assert_eq!(headers.get_all(RETRY_AFTER).iter().count(), 1);
        assert_eq!(headers["cache-control"], "no-store");
    }
}
