//! Bodies of questions: nothing panics, and what is accepted means what another reader of JSON makes of it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ratekeeper_server::fuzzing::{self, Question};
use serde_json::Value;

fuzz_target!(|body: &[u8]| {
    for (question, peeks) in [(fuzzing::check(body), true), (fuzzing::reserve(body), false)] {
        if let Some(mut question) = question {
            question.keys.sort();
            assert_eq!(question, meant(&value(body), peeks));
        }
    }
    if let Some((id, cost)) = fuzzing::settle(body) {
        let value = value(body);
        assert_eq!((value["id"].as_str(), value["cost"].as_u64()), (Some(id.as_str()), Some(cost)));
    }
    if let Some(id) = fuzzing::refund(body) {
        assert_eq!(value(body)["id"].as_str(), Some(id.as_str()));
    }
    if let Some(checks) = fuzzing::batch(body) {
        let bad = checks.iter().filter(|check| fuzzing::check(check.as_bytes()).is_none()).count();
        // The items are not read with the list: one may be a text or a number that has no value.
        let Ok(value) = serde_json::from_slice::<Value>(body) else {
            assert!(bad > 0);
            return;
        };
        let items: Vec<Value> = checks.iter().map(|check| self::value(check.as_bytes())).collect();
        assert_eq!(value["checks"].as_array(), Some(&items));
    }
});

fn value(body: &[u8]) -> Value {
    serde_json::from_slice(body).expect("what is accepted is JSON")
}

/// What an object asks, as a reader that knows nothing of us sees it.
fn meant(value: &Value, peeks: bool) -> Question {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let members = value.as_object().expect("an object");
    let keys = members.get("keys").map(|keys| keys.as_object().expect("an object"));
    let mut keys: Vec<(String, String)> =
        keys.into_iter().flatten().map(|(name, key)| (name.clone(), text(key))).collect();
    keys.sort();
    Question {
        policy: text(&members["policy"]),
        key: members.get("key").map(text),
        keys,
        cost: members.get("cost").map_or(1, |cost| cost.as_u64().expect("a whole number")),
        peeks: peeks && members.get("peek").is_some_and(|peek| peek.as_bool().expect("a flag")),
    }
}
