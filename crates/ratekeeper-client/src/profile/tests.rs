use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::*;
use crate::hint::{HintSource, Wait};

/// 15 January 2026, 12:00:00 UTC.
const NOW_S: u64 = 1_768_478_400;

fn with<T>(
    profile: &Profile,
    status: u16,
    fields: &[(&'static str, &str)],
    body: &str,
    look: impl Fn(Class, Hint) -> T,
) -> T {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    let head = ResponseHead {
        wall: Duration::from_secs(NOW_S),
        body: (!body.is_empty()).then_some(body.as_bytes()),
        ..ResponseHead::new(StatusCode::from_u16(status).unwrap(), &headers)
    };
    look(profile.classify(&head), profile.hint(&head))
}

fn class(profile: &Profile, status: u16, fields: &[(&'static str, &str)], body: &str) -> Class {
    with(profile, status, fields, body, |class, _| class)
}

fn wait_ms(profile: &Profile, status: u16, fields: &[(&'static str, &str)], body: &str) -> Option<u128> {
    with(profile, status, fields, body, |_, hint| match hint.wait? {
        Wait::For(wait) => Some(wait.as_millis()),
        Wait::Forever => Some(u128::MAX),
    })
}

#[test]
fn hosts_tell_providers_apart_and_nothing_else_does() {
    for (host, name) in [
        ("api.github.com", "GitHub"),
        ("github.com", "GitHub"),
        ("notgithub.com", "Generic"),
        ("github.com.evil.test", "Generic"),
        ("api.openai.com", "OpenAi"),
        ("api.anthropic.com", "OpenAi"),
        ("api.stripe.com", "Stripe"),
        ("dynamodb.eu-west-1.amazonaws.com", "Aws"),
        ("discord.com", "Discord"),
        ("127.0.0.1", "Generic"),
        ("", "Generic"),
    ] {
        assert_eq!(format!("{:?}", Profile::of_host(host)), name, "{host}");
    }
    let none = HeaderMap::new();
    let head = ResponseHead {
        host: "api.anthropic.com",
        ..ResponseHead::new(StatusCode::from_u16(529).unwrap(), &none)
    };
    assert_eq!(Profile::Auto.classify(&head), Class::Overloaded);
    assert_eq!(Profile::Auto.classify(&ResponseHead { host: "a.test", ..head }), Class::Permanent);
}

#[test]
fn github_refuses_by_403_in_three_ways_and_forbids_by_it_in_others() {
    let github = Profile::GitHub;
    assert_eq!(class(&github, 403, &[], ""), Class::Permanent);
    assert_eq!(class(&github, 403, &[("x-ratelimit-remaining", "59")], ""), Class::Permanent);
    for fields in [&[("x-ratelimit-remaining", "0")][..], &[("retry-after", "60")]] {
        assert_eq!(class(&github, 403, fields, ""), Class::Throttled);
    }
    let text = r#"{"message":"You have exceeded a secondary rate limit. Please wait."}"#;
    assert_eq!(class(&github, 403, &[("x-ratelimit-remaining", "59")], text), Class::Throttled);
    with(&github, 403, &[("x-ratelimit-remaining", "59"), ("x-ratelimit-reset", "9")], text, |_, hint| {
        assert_eq!(hint.wait, Some(Wait::For(Duration::from_secs(60))));
        assert!(hint.grows && hint.source == HintSource::Profile);
    });
    with(
        &github,
        200,
        &[("x-ratelimit-remaining", "9"), ("x-ratelimit-reset", "9"), ("x-ratelimit-resource", "search")],
        "",
        |class, hint| {
            assert_eq!(
                (class, hint.limits.first().unwrap().name.as_str()),
                (Class::Success, "x-ratelimit:search")
            );
        },
    );
}

#[test]
fn openai_counts_requests_and_tokens_and_only_what_is_exhausted_waits() {
    let openai = Profile::OpenAi;
    let requests = |remaining, reset| {
        [("x-ratelimit-remaining-requests", remaining), ("x-ratelimit-reset-requests", reset)]
    };
    for (reset, ms) in [("6m0s", 360_000), ("12ms", 12), ("1m30.5s", 90_500)] {
        assert_eq!(wait_ms(&openai, 429, &requests("0", reset), ""), Some(ms));
        assert_eq!(wait_ms(&openai, 429, &requests("1", reset), ""), None, "it is not exhausted");
    }
    assert_eq!(wait_ms(&openai, 429, &requests("-1", "1s"), ""), None, "unknown");
    let both = [
        ("x-ratelimit-remaining-requests", "9"),
        ("x-ratelimit-reset-requests", "1h"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("x-ratelimit-reset-tokens", "2s"),
    ];
    assert_eq!(wait_ms(&openai, 429, &both, ""), Some(2_000));
    let anthropic = [
        ("anthropic-ratelimit-output-tokens-remaining", "0"),
        ("anthropic-ratelimit-output-tokens-reset", "2026-01-15T12:00:03Z"),
    ];
    assert_eq!(wait_ms(&openai, 429, &anthropic, ""), Some(3_000));
    for (status, fields, body, expected) in [
        (429, &[][..], r#"{"error":{"code":"insufficient_quota"}}"#, Class::Permanent),
        (429, &[], r#"{"error":{"code":"rate_limit_exceeded"}}"#, Class::Throttled),
        (500, &[("x-should-retry", "false")], "", Class::Permanent),
        (400, &[("x-should-retry", "true")], "", Class::Transient),
        (529, &[], "", Class::Overloaded),
        (409, &[], "", Class::Transient),
        (200, &[("x-should-retry", "false")], "", Class::Success),
    ] {
        assert_eq!(class(&openai, status, fields, body), expected, "{status} {fields:?} {body}");
    }
}

#[test]
fn stripe_says_itself_whether_to_try_again() {
    let says = |status, word| class(&Profile::Stripe, status, &[("stripe-should-retry", word)], "");
    assert_eq!(
        (says(429, "false"), says(409, "true"), says(200, "false")),
        (Class::Permanent, Class::Transient, Class::Success)
    );
    assert_eq!(says(429, "true"), Class::Throttled);
    assert_eq!(class(&Profile::Stripe, 409, &[], ""), Class::Permanent);
}

#[test]
fn aws_refuses_by_codes_in_a_field_or_in_either_kind_of_body() {
    let aws = Profile::Aws;
    let typed = [(
        "x-amzn-errortype",
        "com.amazon.coral.availability#ThrottlingException:http://internal.amazon.com/",
    )];
    assert_eq!(class(&aws, 400, &typed, ""), Class::Throttled);
    let json = r#"{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}"#;
    assert_eq!(class(&aws, 400, &[], json), Class::Throttled);
    let xml = "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code><Message>no</Message></Error>";
    assert_eq!(class(&aws, 503, &[], xml), Class::Throttled);
    assert_eq!(class(&aws, 400, &[], r#"{"__type":"ValidationException"}"#), Class::Permanent);
    assert_eq!(class(&aws, 400, &[], "<Error><Code>RequestTimeout</Code></Error>"), Class::Transient);
    assert_eq!(wait_ms(&aws, 429, &[("x-amz-retry-after", "1500")], ""), Some(1_500));
}

#[test]
fn discord_counts_by_bucket_and_in_decimals() {
    let fields = [
        ("x-ratelimit-bucket", "abcd"),
        ("x-ratelimit-limit", "5"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "1768478401.5"),
        ("x-ratelimit-reset-after", "1.5"),
    ];
    with(&Profile::Discord, 200, &fields, "", |class, hint| {
        let told = hint.limits.first().unwrap();
        assert_eq!(
            (class, told.name.as_str(), told.wait),
            (Class::Success, "bucket:abcd", Some(Duration::from_millis(1_500)))
        );
    });
    // What is shared with others is told by Retry-After.
    let mut shared = fields.to_vec();
    shared.extend([("x-ratelimit-scope", "shared"), ("retry-after", "4")]);
    assert_eq!(wait_ms(&Profile::Discord, 429, &shared, ""), Some(4_000));
}

#[test]
fn other_forms_of_retry_after_are_read_for_who_is_known_to_send_them() {
    for (value, ms) in [("1m0s", 60_000), ("2026-01-15T12:01:00Z", 60_000)] {
        let fields = [("retry-after", value)];
        assert_eq!(wait_ms(&Profile::Generic, 429, &fields, ""), None, "{value}");
        assert_eq!(wait_ms(&Profile::OpenAi, 429, &fields, ""), Some(ms), "{value}");
    }
}
