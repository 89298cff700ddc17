//! GitHub: primary limits have fields, secondary ones may have none.

use std::time::Duration;

use http::StatusCode;

use super::{Class, generic};
use crate::hint::{Hint, HintSource, ResponseHead, Rules, Wait};
use crate::numbers::count;

/// What GitHub asks for after a refusal that names no time.
const SECONDARY: Duration = Duration::from_secs(60);

const RULES: Rules = Rules { scope: Some("x-ratelimit-resource"), ..Rules::GENERIC };

/// A 403 is a refusal if it says when to come back, that nothing remains, or so in its text.
pub(super) fn classify(head: &ResponseHead<'_>) -> Class {
    if head.status != StatusCode::FORBIDDEN {
        return generic(head);
    }
    let exhausted = head.text("x-ratelimit-remaining").and_then(count) == Some(0);
    let says_so = head.json().is_some_and(|json| json.contains("secondary rate limit"));
    if exhausted || says_so || head.headers.contains_key("retry-after") {
        Class::Throttled
    } else {
        Class::Permanent
    }
}

pub(super) fn hint(head: &ResponseHead<'_>) -> Hint {
    let hint = RULES.hint(head);
    if hint.wait.is_none() && classify(head) == Class::Throttled {
        return Hint { wait: Some(Wait::For(SECONDARY)), source: HintSource::Profile, grows: true, ..hint };
    }
    hint
}
