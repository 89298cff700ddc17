//! What holds for every answer, whatever was asked.

use sfv::{BareItem, List, ListEntry, Parser};

use crate::support::Response;

/// One item of `RateLimit` or `RateLimit-Policy`, as a parser of structured fields reads it.
pub(crate) struct Item {
    pub(crate) name: String,
    pub(crate) parameters: Vec<(String, i64)>,
}

impl Item {
    pub(crate) fn number(&self, name: &str) -> Option<i64> {
        self.parameters.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}

/// The items of a field: a List of Strings with whole numbers as parameters, which is all that we send.
pub(crate) fn items(value: &str) -> Vec<Item> {
    let list: List = Parser::new(value).parse().unwrap_or_else(|wrong| panic!("{wrong}: {value}"));
    let item = |entry: ListEntry| {
        let ListEntry::Item(item) = entry else { panic!("an inner list: {value}") };
        let BareItem::String(name) = item.bare_item else { panic!("no String: {value}") };
        let parameters = item.params.into_iter().map(|(name, number)| {
            let BareItem::Integer(number) = number else { panic!("no Integer: {value}") };
            (name.as_str().to_owned(), i64::from(number))
        });
        Item { name: name.as_str().to_owned(), parameters: parameters.collect() }
    };
    list.into_iter().map(item).collect()
}

/// Panics if an answer breaks a rule that all of them keep.
#[track_caller]
pub(crate) fn check(answer: &Response) {
    let shown = format!("{answer:?}");
    for (name, _) in &answer.headers {
        let times = answer.headers.iter().filter(|(other, _)| other == name).count();
        assert_eq!(times, 1, "{name} twice: {shown}");
    }
    let is_problem = answer.header("content-type") == Some("application/problem+json");
    if is_problem && !answer.body.is_empty() {
        assert_eq!(answer.json()["status"], answer.status, "{shown}");
    }
    for item in answer.header("ratelimit-policy").map(items).unwrap_or_default() {
        let (quota, window) = (item.number("q"), item.number("w"));
        assert!(quota >= Some(1) && window >= Some(1) && item.parameters.len() == 2, "{shown}");
    }
    let waits: Vec<i64> = answer
        .header("ratelimit")
        .map(items)
        .unwrap_or_default()
        .iter()
        .map(|item| {
            // In the other dialect too, if it is there: the same numbers.
            let other = (item.number("a"), item.number("w"));
            let is_both = other == (item.number("r"), item.number("t"));
            assert!(is_both || other == (None, None), "{shown}");
            let parameters = if is_both { 4 } else { 2 };
            assert!(item.number("r") >= Some(0) && item.parameters.len() == parameters, "{shown}");
            item.number("t").expect("each item has a t")
        })
        .collect();
    assert!(waits.iter().all(|wait| *wait >= 1), "{shown}");
    let seconds = answer.header("retry-after").map(|value| value.parse::<i64>().expect("whole seconds"));
    assert_eq!(seconds.is_some(), matches!(answer.status, 429 | 503), "{shown}");
    if let Some(seconds) = seconds {
        assert!(seconds >= 1, "{shown}");
        assert_eq!(answer.header("cache-control"), Some("no-store").filter(|_| is_problem), "{shown}");
    }
    if answer.status == 429 {
        assert!(is_problem && answer.header("ratelimit-policy").is_some() && !waits.is_empty(), "{shown}");
        let body = answer.json();
        let millis = body["retry_after_ms"].as_i64().expect("a number");
        assert!(millis >= 1, "{shown}");
        // Rounded up, once, from the same exact wait.
        assert_eq!(body["retry_after"].as_i64(), seconds, "{shown}");
        assert_eq!(seconds, Some(millis.div_euclid(1_000) + i64::from(millis % 1_000 > 0)), "{shown}");
        assert!(waits.iter().all(|wait| Some(*wait) <= seconds), "earlier than an item says: {shown}");
        assert_eq!(waits.iter().max().copied(), seconds, "{shown}");
    }
}
