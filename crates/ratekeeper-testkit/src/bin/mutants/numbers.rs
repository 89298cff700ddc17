//! Faults of the numbers that go with a decision: when more comes, and what the HTTP fields say.

use super::{CORE, COUNTER, LOG, METER, Mutant, QUEUE};

const HEADERS: &str = "crates/ratekeeper-core/src/headers.rs";

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "more-by-waiting",
        what: "more_after of a sliding counter leaves the room unused until all of it fits at once",
        file: COUNTER,
        good: "    counts.current += room(limit, counts, now);
    wait_for(limit, counts, now, 1)",
        bad: "    let cost = (room(limit, counts, now) + 1).min(limit.capacity());
    counts.current += 0;
    wait_for(limit, counts, now, cost)",
        tests: CORE,
    },
    Mutant {
        name: "more-is-the-next-unit",
        what: "more_after of a bucket forgets what remains",
        file: METER,
        good: "retry_after(limit, view, now, remaining(limit, view, now) + 1)",
        bad: "retry_after(limit, view, now, remaining(limit, view, now).max(1))",
        tests: CORE,
    },
    Mutant {
        name: "more-without-max-wait",
        what: "more_after of a queue asks for room only",
        file: QUEUE,
        good: "    for_room.max(line.minus",
        bad: "    for_room.max(0 * line.minus",
        tests: CORE,
    },
    Mutant {
        name: "more-by-newest",
        what: "more_after of a log waits for its newest entry",
        file: LOG,
        good: "Some(oldest) if used <= limit.capacity() => oldest.wait(limit, now),",
        bad: "Some(oldest) if used <= limit.capacity() => newest.unwrap_or(oldest).wait(limit, now),",
        tests: CORE,
    },
    Mutant {
        name: "more-by-oldest-of-too-many",
        what: "a log above its lowered limit says that the end of its oldest entry is enough",
        file: LOG,
        good: "Some(oldest) if used <= limit.capacity() => oldest",
        bad: "Some(oldest) if used <= u64::MAX => oldest",
        tests: CORE,
    },
    Mutant {
        name: "retry-after-truncated",
        what: "Retry-After is cut to whole seconds",
        file: HEADERS,
        good: "span.as_secs().saturating_add(if span.subsec_nanos() > 0 { 1 } else { 0 })",
        bad: "span.as_secs()",
        tests: CORE,
    },
    Mutant {
        name: "retry-after-one-more",
        what: "Retry-After is cut and one second added",
        file: HEADERS,
        good: "if seconds == 0 { 1 } else { seconds }",
        bad: "{ let _ = seconds; wait.as_secs() + 1 }",
        tests: CORE,
    },
    Mutant {
        name: "retry-after-zero",
        what: "Retry-After may be 0",
        file: HEADERS,
        good: "if seconds == 0 { 1 } else { seconds }",
        bad: "if seconds == 0 && wait.subsec_nanos() > 0 { 1 } else { seconds }",
        tests: CORE,
    },
    Mutant {
        name: "t-of-the-next-unit",
        what: "a refusing limit tells when more comes, not when this request passes",
        file: HEADERS,
        good: "if verdict.allowed() { Some(verdict.more_after()) } else { verdict.retry_after() }",
        bad: "verdict.retry_after().map(|_| verdict.more_after())",
        tests: CORE,
    },
    Mutant {
        name: "passing-limits-listed",
        what: "a refusal lists the limits that pass, too",
        file: HEADERS,
        good: "verdict.allowed() == passes && verdict.retry_after().is_some()",
        bad: "(passes || !passes) && verdict.retry_after().is_some()",
        tests: CORE,
    },
    Mutant {
        name: "quota-of-the-rate",
        what: "the policy of a bucket says N and not what it holds",
        file: HEADERS,
        good: "Self { units: limit.capacity(), seconds",
        bad: "Self { units: limit.amount(), seconds",
        tests: CORE,
    },
    Mutant {
        name: "window-truncated",
        what: "the policy's window is cut to whole seconds",
        file: HEADERS,
        good: "seconds: span_us.div_ceil(SECOND_US) }",
        bad: "seconds: span_us / SECOND_US }",
        tests: CORE,
    },
    Mutant {
        name: "short-window-as-it-is",
        what: "a span below a second is told as one, its quota as it is",
        file: HEADERS,
        good: "capped(limit.amount() * SECOND_US / limit.window_us())",
        bad: "capped(limit.capacity())",
        tests: CORE,
    },
    Mutant {
        name: "reset-rounded-twice",
        what: "the clock and the time to go are rounded each for itself",
        file: HEADERS,
        good: "reset: reset_us.div_ceil(SECOND_US), ..Self::delta(verdict)",
        bad: "reset: now.get().div_ceil(SECOND_US) + (reset_us - now.get()).div_ceil(SECOND_US), ..Self::delta(verdict)",
        tests: CORE,
    },
];
