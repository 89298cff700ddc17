//! Discord counts by bucket, in decimals, and shares some limits among all callers.

use crate::hint::{Counter, Hint, ResponseHead, Rules};

const RULES: Rules = Rules {
    odd_retry_after: false,
    // `-Reset-After` needs no clock, so it is taken instead of `-Reset`.
    counters: &[Counter::prefixed(
        "bucket",
        ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset-after"],
    )],
    scope: Some("x-ratelimit-bucket"),
};

pub(super) fn hint(head: &ResponseHead<'_>) -> Hint {
    RULES.hint(head)
}
