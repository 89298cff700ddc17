use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::Denial;
use crate::{Ask, Decision, Limit, Micros, Moment, Reason, State, StateRef, Verdict, evaluate};

fn text(denial: &Denial<'_>, violated: &[&str]) -> String {
    let mut out = Vec::new();
    denial.write_json(violated.iter().copied(), &mut out);
    String::from_utf8(out).expect("JSON is UTF-8")
}

fn verdict(limit: &Limit, cost: u64) -> Verdict {
    let at = Moment::at(Micros::new(0));
    let full = evaluate(limit, StateRef::Words(State::FRESH), &at, limit.capacity(), Ask::Acquire).next();
    evaluate(limit, StateRef::Words(full), &at, cost, Ask::Acquire).untouched()
}

#[test]
fn a_used_up_limit_is_told_with_its_numbers_and_its_exact_wait() {
    let decision = Decision::of(vec![verdict(&Limit::per_minute(100), 7)]);
    let denial = Denial::of(&decision, "api", "minute", Some(Duration::from_micros(4_200_001)));
    assert_eq!((denial.status(), denial.retry_after()), (429, Some(5)));
    assert_eq!(
        text(&denial, &["api.minute"]),
        "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\",\"title\":\"Quota exceeded\",\
         \"status\":429,\"detail\":\"Limit api.minute allows 100 requests per 60 s. Retry in 5 s.\",\
         \"violated-policies\":[\"api.minute\"],\"error\":\"rate_limited\",\"reason\":\"limited\",\
         \"retry_after\":5,\"retry_after_ms\":4201,\"policy\":\"api\",\"limit\":\"minute\"}"
    );
}

#[test]
fn what_can_never_pass_has_no_wait() {
    let decision = Decision::of(vec![verdict(&Limit::per_minute(1).burst(6), 10)]);
    let denial = Denial::of(&decision, "api", "minute", decision.retry_after);
    assert_eq!((denial.status(), denial.wait()), (413, None));
    assert_eq!(
        text(&denial, &["api.minute"]),
        "{\"type\":\"urn:ratekeeper:problem:cost-exceeds-capacity\",\"title\":\"Cost exceeds capacity\",\"status\":413,\
         \"detail\":\"Limit api.minute never holds more than 6: a cost of 10 can never pass.\",\
         \"error\":\"cost_exceeds_capacity\",\"reason\":\"cost_exceeds_capacity\",\"retry_after\":null,\
         \"retry_after_ms\":null,\"policy\":\"api\",\"limit\":\"minute\"}"
    );
}

#[test]
fn who_is_blocked_is_told_the_policy_and_no_wait() {
    assert_eq!(
        text(&Denial::blocked("admin"), &[]),
        "{\"type\":\"urn:ratekeeper:problem:blocked\",\"title\":\"Blocked\",\"status\":403,\
         \"detail\":\"Policy admin blocks this request.\",\"error\":\"blocked\",\"reason\":\"blocked\",\
         \"retry_after\":null,\"retry_after_ms\":null,\"policy\":\"admin\",\"limit\":null}"
    );
}

#[test]
fn who_is_not_let_wait_is_not_told_that_its_cost_can_never_pass() {
    let limit = Limit::per_minute(1);
    let refused = |reason| {
        let mut decision = Decision::of(vec![Verdict::failed_closed(&limit, 1, Duration::ZERO)]);
        (decision.reason, decision.retry_after) = (Some(reason), None);
        decision
    };
    for (reason, status, error) in [
        (Reason::QueueFull, 429, "rate_limited"),
        (Reason::TooLate, 429, "rate_limited"),
        (Reason::Limited, 429, "rate_limited"),
        (Reason::Closed, 503, "unavailable"),
        (Reason::Blocked, 403, "blocked"),
        (Reason::CostExceedsCapacity, 413, "cost_exceeds_capacity"),
    ] {
        let decision = refused(reason);
        let denial = Denial::of(&decision, "api", "minute", None);
        assert_eq!((denial.status(), denial.reason(), denial.wait()), (status, Some(reason), None));
        let text = text(&denial, &[]);
        assert!(text.contains(&format!("\"error\":\"{error}\"")), "{text}");
        assert!(!denial.detail().contains("Retry in"), "nobody knows when: {text}");
    }
    let (full, wait) = (refused(Reason::QueueFull), Some(Duration::from_secs(3)));
    let denial = Denial::of(&full, "api", "minute", wait);
    assert_eq!((denial.status(), denial.retry_after()), (429, Some(3)));
    assert_eq!(denial.detail(), "Limit api.minute allows 1 request per 60 s. Retry in 3 s.");
}

#[test]
fn a_store_that_does_not_answer_is_no_quota_of_the_caller() {
    let limit = Limit::per_minute(1);
    let closed = Verdict::failed_closed(&limit, 1, Duration::from_millis(1_500));
    let decision = Decision::of(vec![closed]);
    let denial = Denial::of(&decision, "api", "minute", decision.retry_after);
    assert_eq!(denial.status(), 503);
    assert_eq!(
        text(&denial, &[]),
        "{\"type\":\"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity\",\
         \"title\":\"Temporarily reduced capacity\",\"status\":503,\"detail\":\"The store of policy api does not answer, \
         and on_store_error is deny. Retry in 2 s.\",\"error\":\"unavailable\",\"reason\":\"store_unavailable\",\
         \"retry_after\":2}"
    );
}

#[test]
fn texts_are_escaped() {
    let denial = Denial::bad_input("a \"b\"\n\u{1f}\\ é".to_string());
    assert_eq!(
        text(&denial, &[]),
        "{\"type\":\"urn:ratekeeper:problem:bad-input\",\"title\":\"Bad input\",\"status\":400,\
         \"detail\":\"a \\\"b\\\"\\u000a\\u001f\\\\ é\"}"
    );
}
