//! OpenAI and Anthropic, and those who answer like them.

use http::StatusCode;

use super::{Class, generic};
use crate::hint::{Counter, ResponseHead, Rules};

/// What Anthropic answers when it is overloaded.
const OVERLOADED: u16 = 529;

pub(super) const RULES: Rules = Rules {
    odd_retry_after: true,
    counters: &[
        Counter::prefixed(
            "requests",
            ["x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"],
        ),
        Counter::prefixed(
            "tokens",
            ["x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"],
        ),
        Counter::prefixed(
            "requests",
            [
                "anthropic-ratelimit-requests-limit",
                "anthropic-ratelimit-requests-remaining",
                "anthropic-ratelimit-requests-reset",
            ],
        ),
        Counter::prefixed(
            "tokens",
            [
                "anthropic-ratelimit-tokens-limit",
                "anthropic-ratelimit-tokens-remaining",
                "anthropic-ratelimit-tokens-reset",
            ],
        ),
        Counter::prefixed(
            "input-tokens",
            [
                "anthropic-ratelimit-input-tokens-limit",
                "anthropic-ratelimit-input-tokens-remaining",
                "anthropic-ratelimit-input-tokens-reset",
            ],
        ),
        Counter::prefixed(
            "output-tokens",
            [
                "anthropic-ratelimit-output-tokens-limit",
                "anthropic-ratelimit-output-tokens-remaining",
                "anthropic-ratelimit-output-tokens-reset",
            ],
        ),
    ],
    scope: None,
};

pub(super) fn classify(head: &ResponseHead<'_>) -> Class {
    let paid_for_nothing = head.json().is_some_and(|json| json.contains("\"insufficient_quota\""));
    if head.text("x-should-retry") == Some("false") || paid_for_nothing {
        return if head.status.is_success() { Class::Success } else { Class::Permanent };
    }
    match generic(head) {
        Class::Permanent if head.status.as_u16() == OVERLOADED => Class::Overloaded,
        Class::Permanent if head.text("x-should-retry") == Some("true") => Class::Transient,
        Class::Permanent if head.status == StatusCode::CONFLICT => Class::Transient,
        class => class,
    }
}
