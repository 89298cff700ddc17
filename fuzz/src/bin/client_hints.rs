//! Answers of strangers as the polite client reads them: no panic, no wait shorter than what was read, and what is read
//! of `RateLimit` is what another parser of structured fields takes for well formed.
//!
//! A case is lines: a digit for the profile and a status, then fields as HTTP writes them, an empty line, a body.
#![no_main]

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use libfuzzer_sys::fuzz_target;
use ratekeeper_client::{
    Balance, Call, Classify as _, Draw, Next, Outcome, Profile, ResponseHead, Settings, Wait, decide, resolve,
};
use ratekeeper_core::{MAX_FIELD_BYTES, Micros, read_limit_field};
use sfv::{Dictionary, List, Parser};

const PROFILES: [Profile; 7] = [
    Profile::Auto,
    Profile::Generic,
    Profile::GitHub,
    Profile::OpenAi,
    Profile::Stripe,
    Profile::Aws,
    Profile::Discord,
];

fuzz_target!(|data: &[u8]| {
    let mut lines = data.split(|byte| *byte == b'\n');
    let Some((profile, status)) = lines.next().and_then(|line| line.split_first()) else { return };
    let profile = &PROFILES[usize::from(*profile) % PROFILES.len()];
    let status = StatusCode::from_bytes(status).unwrap_or(StatusCode::TOO_MANY_REQUESTS);
    let mut headers = HeaderMap::new();
    for line in lines.by_ref().take_while(|line| !line.is_empty()) {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (Some(name), Some(value)) = (parts.next(), parts.next()) else { continue };
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    let body = lines.next();
    let wall = Duration::from_secs(1_559_559_600);
    decides(profile, &ResponseHead { wall, body, ..ResponseHead::new(status, &headers) });
    for field in headers.get_all("ratelimit").iter().filter_map(|field| field.to_str().ok()) {
        reads(field);
    }
});

fn decides(profile: &Profile, head: &ResponseHead<'_>) {
    let hint = resolve(head, profile);
    assert!(hint.limits.len() <= 16);
    let outcome = Outcome::Answer { status: head.status, class: profile.classify(head), hint: &hint };
    let call = Call {
        attempts: 1,
        idempotent: true,
        has_key: false,
        replayable: true,
        previous: Duration::ZERO,
        deadline: None,
    };
    for draw in [Draw::LEAST, Draw::MOST] {
        let mut balance = Balance::new(&Settings::DEFAULT.budget);
        let next = decide(&Settings::DEFAULT, &call, &outcome, &mut balance, Micros::ZERO, draw);
        if let Next::Retry { not_before, .. } = next {
            let waited = Duration::from_micros(not_before.get());
            match hint.least() {
                None => {}
                Some(Wait::For(least)) => assert!(waited >= least, "{waited:?} after {hint:?}"),
                Some(Wait::Forever) => panic!("{next:?} after {hint:?}"),
            }
        }
    }
}

fn reads(field: &str) {
    // Types whose values the other parser looks at more closely than their form.
    if field.len() > MAX_FIELD_BYTES || field.contains([':', '@', '%']) {
        return;
    }
    let well_formed =
        Parser::new(field).parse::<List>().is_ok() || Parser::new(field).parse::<Dictionary>().is_ok();
    assert_eq!(read_limit_field(field).is_some(), well_formed, "{field:?}");
}
