use super::*;

const NOW: Micros = Micros::new(1_767_225_600_000_000);

fn told(object: &str, key: Option<&str>, cost: u64, peek: bool) -> String {
    let answer: Answer = serde_json::from_str(object).expect("an answer");
    answer.told(&Asked { request: None, key, cost: Some(cost), peek }, NOW, &TimeZone::UTC)
}

#[test]
fn the_binding_limit_is_told_first_and_in_full() {
    let object = r#"{"allowed":true,"policy":"api","limit":"global","remaining":2,"retry_after_ms":0,
        "reset_after_ms":60000,"delay_ms":0,"source":"exact","shadow_denied":[],"limits":[
        {"policy":"api","name":"burst","capacity":20,"window_ms":2000,"remaining":17,"reset_after_ms":300},
        {"policy":"api","name":"global","capacity":500,"window_ms":3000,"remaining":2,"reset_after_ms":2988}]}"#;
    assert_eq!(
        told(object, Some("user:42"), 3, false),
        "ALLOWED  api · user:42 · cost 3     global 2 of 500 left, full in 3 s     burst 17 of 20\n"
    );
    assert_eq!(
        told(&object.replace("exact", "overflow"), None, 0, true),
        "ALLOWED  api · cost 0 · peek     global 2 of 500 left, full in 3 s     burst 17 of 20     source: overflow\n"
    );
}

#[test]
fn a_refusal_says_when_or_that_it_never_passes() {
    let object = r#"{"allowed":false,"reason":"limited","policy":"login","limit":"tries","remaining":0,
        "retry_after_ms":213874,"reset_after_ms":1,"delay_ms":0,"source":"exact","limits":[
        {"policy":"login","name":"tries","capacity":10,"remaining":0,"reset_after_ms":213874}]}"#;
    assert_eq!(
        told(object, Some("203.0.113.9"), 1, false),
        "DENIED   login · 203.0.113.9 · cost 1     tries 0 of 10 left     again in 3 min 34 s (00:03:34)     reason: limited\n"
    );
    let never = object
        .replace("limited", "cost_exceeds_capacity")
        .replace(":213874,\"reset_after_ms\":1", ":null,\"reset_after_ms\":1");
    assert_eq!(
        told(&never, Some("203.0.113.9"), 11, false),
        "DENIED   login · 203.0.113.9 · cost 11     tries holds 10: this cost can never pass     reason: cost_exceeds_capacity\n"
    );
}

#[test]
fn a_start_that_lies_ahead_is_told_before_what_is_left() {
    let object = r#"{"allowed":true,"policy":"exports","limit":"paced","retry_after_ms":0,"delay_ms":2997,
        "source":"exact","limits":[{"policy":"exports","name":"paced","capacity":11,"remaining":2,"reset_after_ms":3997}]}"#;
    assert_eq!(
        told(object, Some("203.0.113.9"), 1, false),
        "ALLOWED  exports · 203.0.113.9 · cost 1     start in 3 s     paced 2 of 11 left\n"
    );
}

#[test]
fn a_key_cannot_write_on_the_terminal() {
    let object = r#"{"allowed":true,"policy":"p","limit":"l","retry_after_ms":0,"delay_ms":0,"source":"exact","limits":[{"policy":"p","name":"l","capacity":2,"remaining":1,"reset_after_ms":0}]}"#;
    assert_eq!(
        told(object, Some("a\u{1b}[2J\nb"), 1, false),
        "ALLOWED  p · a\u{fffd}[2J\u{fffd}b · cost 1     l 1 of 2 left\n"
    );
}

/// What is told of a request whose policies were found.
fn told_of(object: &str) -> String {
    let answer: Answer = serde_json::from_str(object).expect("an answer");
    let asked = Asked { request: Some("POST /login"), key: None, cost: None, peek: false };
    answer.told(&asked, NOW, &TimeZone::UTC)
}

#[test]
fn a_request_is_told_with_the_policies_of_its_limits() {
    let object = r#"{"allowed":true,"policy":"b","limit":"l","remaining":2,"retry_after_ms":0,"reset_after_ms":60000,
        "delay_ms":0,"source":"exact","shadow_denied":["reports.daily"],"limits":[
        {"policy":"a","name":"l","capacity":20,"remaining":17,"reset_after_ms":300},
        {"policy":"b","name":"l","capacity":5,"remaining":2,"reset_after_ms":0}]}"#;
    assert_eq!(
        told_of(object),
        "ALLOWED  POST /login     b.l 2 of 5 left     a.l 17 of 20     would have been denied by reports.daily (shadow)\n"
    );
}

#[test]
fn an_answer_without_a_limit_says_why_there_is_none() {
    let object = r#"{"allowed":true,"policy":null,"limit":null,"remaining":null,"retry_after_ms":0,"reset_after_ms":null,
        "delay_ms":0,"source":"exact","limits":[],"shadow_denied":[]}"#;
    assert_eq!(told_of(object), "ALLOWED  POST /login     no policy applies\n");
    let bypass = object.replace(r#""policy":null"#, r#""policy":"health""#);
    assert_eq!(told_of(&bypass), "ALLOWED  POST /login     policy health asks no limit\n");
    let blocked = object
        .replace(r#""policy":null"#, r#""policy":"closed""#)
        .replace(r#"true,"#, r#"false,"reason":"blocked","#)
        .replace(r#""retry_after_ms":0"#, r#""retry_after_ms":null"#);
    assert_eq!(told_of(&blocked), "DENIED   POST /login     policy closed blocks it     reason: blocked\n");
}
