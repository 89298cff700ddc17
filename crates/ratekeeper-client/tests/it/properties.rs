//! What holds whatever servers send.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;
use ratekeeper_client::{
    Backoff, Balance, Budget, Call, Class, Classify as _, Draw, Entry, Gate, LimitInfo, MAX_LEARNED, Next,
    Outcome, Percent, Profile, ResponseHead, Settings, Wait, decide, resolve,
};
use ratekeeper_core::Micros;
use ratekeeper_testkit::property::check;

const FIELDS: [&str; 12] = [
    "retry-after",
    "retry-after-ms",
    "date",
    "age",
    "ratelimit",
    "ratelimit-policy",
    "ratelimit-reset",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-ratelimit-reset-requests",
    "x-amzn-errortype",
];

fn profiles() -> impl Strategy<Value = Profile> {
    prop::sample::select(vec![
        Profile::Auto,
        Profile::Generic,
        Profile::GitHub,
        Profile::OpenAi,
        Profile::Stripe,
        Profile::Aws,
        Profile::Discord,
    ])
}

/// Values that are nearly right, and bytes.
fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[0-9]{1,25}(\\.[0-9]{1,12})?".prop_map(String::into_bytes),
        "[0-9]{1,4}(ms|s|m|h|us|ns|d)?([0-9]{1,2}s)?".prop_map(String::into_bytes),
        r#""[a-c]";[rtaqw]=[0-9]{1,3}(;[rtaqw]=[0-9]{1,3})?(, "[a-c]";r=0;t=[0-9]{1,9})?"#
            .prop_map(String::into_bytes),
        "(Mon|Tue), [0-9]{2} (Jun|Feb) (20|99)[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} (GMT|UTC)"
            .prop_map(String::into_bytes),
        "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{4,9}(Z|[+-][0-9:]{4,5})".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..40),
    ]
}

type Fields = Vec<(usize, Vec<u8>)>;

fn answers() -> impl Strategy<Value = (u16, Fields, Vec<u8>)> {
    let status =
        prop::sample::select(vec![200, 301, 400, 403, 408, 409, 425, 429, 429, 429, 500, 503, 503, 529]);
    let fields = prop::collection::vec((0..FIELDS.len(), value()), 0..6);
    (status, fields, prop::collection::vec(any::<u8>(), 0..60))
}

fn headers(fields: &Fields) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        // Bytes that no field can hold are refused before they could come here.
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(HeaderName::from_static(FIELDS[*name]), value);
        }
    }
    headers
}

#[test]
fn whatever_is_sent_no_wait_is_shorter_than_its_hint_and_no_balance_is_overdrawn() {
    let calls = (1_u32..4, any::<bool>(), any::<bool>(), any::<bool>(), prop::option::of(0_u64..200_000_000));
    let all = (answers(), profiles(), calls, any::<u64>(), any::<u64>());
    check("client_decisions", 20_000, all, |((status, fields, body), profile, call, draw, now)| {
        let headers = headers(&fields);
        let status = StatusCode::from_u16(status).map_err(|error| error.to_string())?;
        let wall = Duration::from_secs(1_559_559_600);
        let head = ResponseHead { wall, body: Some(&body), ..ResponseHead::new(status, &headers) };
        let (class, hint) = (profile.classify(&head), resolve(&head, &profile));
        let (attempts, idempotent, has_key, replayable, deadline) = call;
        let now = Micros::new(now >> 14);
        let deadline = deadline.map(|us| Micros::new(now.get() + us));
        let call = Call { attempts, idempotent, has_key, replayable, previous: Duration::ZERO, deadline };
        let settings = Settings::DEFAULT;
        let mut balance = Balance::new(&settings.budget);
        let before = balance.milli();
        let outcome = Outcome::Answer { status, class, hint: &hint };
        let next = decide(&settings, &call, &outcome, &mut balance, now, Draw(draw));
        if hint.limits.len() > 16 {
            return Err(format!("{} limits", hint.limits.len()));
        }
        let Next::Retry { not_before, paid_milli, .. } = next else {
            return if balance.milli() == before { Ok(()) } else { Err(format!("{next:?} was paid for")) };
        };
        if balance.milli() + paid_milli != before {
            return Err("the balance does not add up".to_owned());
        }
        if deadline.is_some_and(|deadline| not_before > deadline) {
            return Err(format!("{not_before:?} is after {deadline:?}"));
        }
        let waited = Duration::from_micros(not_before.get() - now.get());
        match hint.least() {
            Some(Wait::For(least)) if waited < least => Err(format!("{waited:?} is less than {least:?}")),
            Some(Wait::For(least)) if least > settings.max_hint + hint.margin => {
                Err(format!("{least:?} is too long"))
            }
            Some(Wait::Forever) => Err("for ever is too long".to_owned()),
            _ if class == Class::Throttled && waited < Duration::from_millis(500) => {
                Err(format!("{waited:?}"))
            }
            _ => Ok(()),
        }
    });
}

#[test]
fn backoff_is_within_its_bounds_at_every_retry() {
    let times = (1_u64..5_000, 0_u64..100_000, 0_u32..100, any::<u64>(), 0_u64..1_000_000);
    check("client_backoff", 10_000, times, |(base, more, retry, draw, previous)| {
        let (base, cap) = (Duration::from_millis(base), Duration::from_millis(base + more));
        let previous = Duration::from_millis(previous);
        for (backoff, least) in [
            (Backoff::full_jitter(base, cap), Duration::ZERO),
            (Backoff::equal_jitter(base, cap), base / 2),
            (Backoff::decorrelated_jitter(base, cap), base),
        ] {
            let wait = backoff.wait(retry, previous, Draw(draw));
            if wait < least || wait > cap {
                return Err(format!("{backoff:?}: {wait:?} before retry {retry}"));
            }
        }
        Ok(())
    });
}

#[derive(Clone, Debug)]
enum Step {
    Ask { behind: usize },
    Learn { send: usize, name: u8, remaining: u64, wait_s: u64, quota: Option<u64> },
    Close { ms: u64 },
    Lost,
    Pass { ms: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_usize..3).prop_map(|behind| Step::Ask { behind }),
        3 => (0_usize..9, any::<u8>(), 0_u64..5, 0_u64..90, prop::option::of(0_u64..200))
            .prop_map(|(send, name, remaining, wait_s, quota)| Step::Learn { send, name, remaining, wait_s, quota }),
        1 => any::<u64>().prop_map(|ms| Step::Close { ms: ms % 8_000_000 }),
        1 => Just(Step::Lost),
        3 => (0_u64..20_000).prop_map(|ms| Step::Pass { ms }),
    ];
    prop::collection::vec(step, 0..80)
}

#[test]
fn a_gate_lets_nobody_through_before_it_was_to_open_and_always_opens_in_the_end() {
    check("client_gate", 6_000, (steps(), any::<u64>()), |(steps, draw)| {
        let settings = Settings::DEFAULT;
        let (mut gate, mut now, mut sends) = (Gate::new(), Micros::ZERO, Vec::new());
        let mut closed = Micros::ZERO;
        let mut last_probe = None;
        for step in steps {
            match step {
                Step::Ask { behind } => match gate.may_send(&settings, behind, now, Draw(draw)) {
                    Entry::Go(send) => {
                        let is_probe = now < closed;
                        if is_probe && last_probe.is_some_and(|at| now < at) {
                            return Err(format!("sent at {now:?}, and it is closed until {closed:?}"));
                        }
                        if is_probe {
                            last_probe = Some(now.saturating_add(Duration::from_secs(600)));
                        }
                        sends.push(send);
                    }
                    Entry::Wait(at) if at <= now => return Err(format!("to wait until {at:?} at {now:?}")),
                    Entry::Wait(_) => {}
                    Entry::Full(at) if at <= now => return Err(format!("to wait until {at:?} at {now:?}")),
                    Entry::Full(_) => {}
                },
                Step::Learn { send, name, remaining, wait_s, quota } => {
                    let Some(send) = sends.get(send).copied() else { continue };
                    let told = LimitInfo {
                        name: name.to_string(),
                        remaining,
                        wait: Some(Duration::from_secs(wait_s)),
                        margin: Duration::ZERO,
                        quota,
                        window: quota.map(|_| Duration::from_secs(wait_s)),
                    };
                    gate.learn(&settings, send, &[told], now, Draw(draw));
                }
                Step::Close { ms } => {
                    let wait = Duration::from_millis(ms);
                    gate.close(wait, now);
                    closed = closed.max(now.saturating_add(wait.min(Duration::from_secs(3_600))));
                    last_probe = last_probe.or_else(|| Some(now.saturating_add(Duration::from_secs(600))));
                }
                Step::Lost => gate.lost(),
                Step::Pass { ms } => now = now.saturating_add(Duration::from_millis(ms)),
            }
            if now >= closed {
                last_probe = None;
            }
        }
        if gate.learned() > MAX_LEARNED {
            return Err(format!("{} limits", gate.learned()));
        }
        // An hour, and what a quota of one in 90 s still keeps apart.
        let end = now.saturating_add(Duration::from_secs(4_000));
        match gate.may_send(&settings, 0, end, Draw(draw)) {
            Entry::Go(_) => Ok(()),
            other => Err(format!("{other:?} at {end:?}")),
        }
    });
}

/// A server with a quota, which takes calls that are under way in any order, and whose answers come in any order.
#[test]
fn in_whatever_order_calls_are_taken_and_answered_a_quota_that_was_told_is_not_exceeded() {
    let choices = prop::collection::vec((0_u8..3, any::<prop::sample::Index>()), 0..200);
    check("client_reordering", 6_000, (2_u64..40, 1_usize..12, choices), |(quota, workers, choices)| {
        let settings = Settings::DEFAULT;
        let mut gate = Gate::new();
        let (mut used, mut sent) = (0, 0);
        let (mut under_way, mut taken) = (Vec::new(), Vec::new());
        // What a server has never told cannot be kept to: the first call is alone.
        let first = [0, 1, 2].map(|what| (what, None));
        for (what, index) in
            first.into_iter().chain(choices.into_iter().map(|(what, index)| (what, Some(index))))
        {
            let place = |len: usize| index.map_or(0, |index| index.index(len));
            match what {
                0 if under_way.len() + taken.len() < workers => {
                    if let Entry::Go(send) = gate.may_send(&settings, 0, Micros::ZERO, Draw::LEAST) {
                        sent += 1;
                        under_way.push(send);
                    }
                }
                1 if !under_way.is_empty() => {
                    let send = under_way.swap_remove(place(under_way.len()));
                    used += 1;
                    if used > quota {
                        return Err(format!("call {used} of {quota} is refused"));
                    }
                    taken.push((send, quota - used));
                }
                2 if !taken.is_empty() => {
                    let (send, remaining) = taken.swap_remove(place(taken.len()));
                    let wait = Some(Duration::from_secs(60));
                    let (name, margin) = ("d".to_owned(), Duration::ZERO);
                    let told = LimitInfo { name, remaining, wait, margin, quota: None, window: None };
                    gate.learn(&settings, send, &[told], Micros::ZERO, Draw::LEAST);
                }
                _ => {}
            }
        }
        if under_way.is_empty() && taken.is_empty() && sent < quota {
            // And nothing of it is kept back once everything is answered.
            let next = gate.may_send(&settings, 0, Micros::ZERO, Draw::LEAST);
            return if matches!(next, Entry::Go(_)) {
                Ok(())
            } else {
                Err(format!("{next:?}, {sent} of {quota}"))
            };
        }
        Ok(())
    });
}

#[test]
fn a_balance_is_never_more_than_was_earned_and_reserved() {
    let moves = prop::collection::vec((0_u8..3, 0_u64..15_000), 0..200);
    check("client_budget", 4_000, (moves, 0_u32..200, 0_u32..20), |(moves, percent, reserve)| {
        let budget = Budget::share(Percent(percent)).reserve(reserve, Duration::from_secs(10));
        let mut balance = Balance::new(&budget);
        let (mut now, mut earned, mut paid, mut spans) = (Micros::ZERO, 0, 0, 1);
        let mut passed_ms = 0;
        for (what, ms) in moves {
            match what {
                0 => {
                    balance.succeeded(&budget, None, now);
                    earned += u64::from(percent) * 10;
                }
                1 => paid += balance.withdraw(&budget, true, now).unwrap_or(0),
                _ => {
                    now = now.saturating_add(Duration::from_millis(ms));
                    passed_ms += ms;
                    spans = 2 + passed_ms / 10_000;
                }
            }
            if paid > earned + spans * u64::from(reserve) * 1_000 {
                return Err(format!("{paid} of {earned} earned and {spans} reserves of {reserve}"));
            }
        }
        Ok(())
    });
}
