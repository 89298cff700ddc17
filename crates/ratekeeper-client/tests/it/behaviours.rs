//! Faults that other clients have had, by their numbers in the collection that these tests are made from.

use std::time::Duration;

use ratekeeper_client::{
    Counter, Draw, GiveUp, Next, Polite, PoliteOptions, Profile, ResponseHead, Rules, Unit, Wait, resolve,
};

use crate::support::{
    Answer, DATE, DATE_S, World, answer, assert_within, call, decided, fine, first_get, get, ms, play,
    polite, refusal, s, waits_of,
};

fn wait(refused: &Answer, profile: &Profile) -> Option<Duration> {
    match resolve(&refused.head(), profile).wait? {
        Wait::For(wait) => Some(wait),
        Wait::Forever => Some(Duration::MAX),
    }
}

#[test]
fn b136_three_kinds_of_dates_are_one_instant() {
    for (date, seconds) in [
        ("Mon, 03 Jun 2019 11:30:12 GMT", 1_812),
        ("Monday, 03-Jun-19 11:30:12 GMT", 1_812),
        ("Mon Jun  3 11:30:12 2019", 1_812),
        // Past is now, and not "do not retry".
        ("Mon, 03 Jun 2019 10:00:00 GMT", 0),
    ] {
        let refused = refusal(&[("date", DATE), ("retry-after", date)]);
        assert_eq!(wait(&refused, &Profile::Generic), Some(s(seconds)), "{date}");
    }
}

#[tokio::test(start_paused = true)]
async fn b137_b139_values_that_are_none_are_backed_off_from() {
    for value in ["12 seconds", "0x10", "Wed, 99 Foo 2026", "-5", "-1", "-0", "1e3", "+5"] {
        let (_, report, gaps) = play(get(), &[refusal(&[("retry-after", value)]), fine()]).await;
        assert_eq!(report.attempts, 2, "{value}");
        assert_within(&gaps, &[(500, 1_000)]);
    }
}

#[tokio::test(start_paused = true)]
async fn b140_gigantic_waits_end_the_call_and_nothing_is_sent_after_a_shortened_one() {
    let many = "9".repeat(9 * 1024);
    for value in ["9999999999", "999999999999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT", &many] {
        let world = World::new();
        let client = world.client_of(&polite(), &[refusal(&[("date", DATE), ("retry-after", value)])]);
        let (status, report) = call(&client, get()).await.expect("an answer");
        assert_eq!((status, report.attempts), (429, 1));
        assert!(matches!(report.gave_up, Some(GiveUp::HintTooLong(_))), "{report:?}");
        assert!(report.retry_after.is_some_and(|closed| closed <= s(3_600)), "{report:?}");
        call(&client, get()).await.expect_err("the gate is closed");
        assert_eq!(world.sent().len(), 1);
    }
    let no_date = refusal(&[("date", DATE), ("retry-after", "Fri, 31 Dec 100000 23:59:59 GMT")]);
    assert_eq!(wait(&no_date, &Profile::Generic), None);
}

#[test]
fn b141_dialects_are_read_where_a_profile_says_so() {
    const MILLIS: Rules = Rules {
        counters: &[Counter {
            name: "d",
            limit: "x-rate-limit-limit",
            remaining: "x-rate-limit-remaining",
            reset: "x-rate-limit-reset",
            unit: Unit::Millis,
        }],
        ..Rules::GENERIC
    };
    let refused = refusal(&[("x-rate-limit-remaining", "0"), ("x-rate-limit-reset", "600000")]);
    assert_eq!(MILLIS.hint(&refused.head()).wait, Some(Wait::For(s(600))));
    let script = "Mon Jun 03 2019 13:00:07 GMT+0200 (CEST)";
    for (reset, seconds) in [(script, 7), (&(DATE_S + 30).to_string(), 30)] {
        let refused = refusal(&[("ratelimit-remaining", "0"), ("ratelimit-reset", reset), ("date", DATE)]);
        assert_eq!(wait(&refused, &Profile::Generic), Some(s(seconds)), "{reset}");
    }
    assert_eq!(wait(&refusal(&[("retry-after", "2.5")]), &Profile::Generic), Some(ms(2_500)));
}

#[test]
fn b142_a_reset_is_an_instant_or_a_time_by_its_size() {
    let now = 1_698_097_722;
    for (reset, millis) in [
        ("1698097722", 0),
        ("1698097782", 60_000),
        ("1698097000", 0),
        ("60", 60_000),
        ("1698097782000", 60_000),
        ("1698097782.5", 60_500),
    ] {
        let refused = refusal(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", reset)]);
        let hint = resolve(&ResponseHead { wall: s(now), ..refused.head() }, &Profile::Generic);
        assert_eq!(hint.wait, Some(Wait::For(ms(millis))), "{reset}");
        assert!(hint.margin <= s(1));
    }
}

#[tokio::test(start_paused = true)]
async fn b143_the_servers_date_is_the_measure() {
    let in_10_s = (DATE_S + 10).to_string();
    for fields in [
        [("date", DATE), ("retry-after", "Mon, 03 Jun 2019 11:00:10 GMT"), ("x-ratelimit-remaining", "1")],
        [("date", DATE), ("x-ratelimit-reset", in_10_s.as_str()), ("x-ratelimit-remaining", "0")],
    ] {
        for wall in [DATE_S - 300, DATE_S + 300] {
            let polite = Polite::builder().time_of_day(move || s(wall)).build().expect("good settings");
            let world = World::new();
            let client = world.client_of(&polite, &[refusal(&fields), fine()]);
            call(&client, get()).await.expect("an answer");
            assert_within(&world.gaps(), &[(10_000, 12_500)]);
        }
    }
}

#[test]
fn b144_ten_thousand_clients_come_when_they_were_asked_to_or_later_and_not_together() {
    let refused = refusal(&[("retry-after", "60")]);
    let mut buckets = [0_u32; 50];
    for client in 0..10_000_u64 {
        let draw = Draw(client.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let Next::Retry { not_before, .. } = decided(&Profile::Generic, &refused.head(), &first_get(), draw)
        else {
            panic!("a minute may be waited")
        };
        let late_us = not_before.get().checked_sub(60_000_000).expect("never earlier");
        assert!(late_us <= 5_000_000);
        buckets[usize::try_from(late_us / 100_001).expect("small")] += 1;
    }
    assert!(buckets.iter().all(|clients| (150..=250).contains(clients)), "{buckets:?}");
}

#[tokio::test(start_paused = true)]
async fn b146_attempts_are_not_used_up_before_the_announced_time() {
    for (within, attempts, gave_up) in
        [(None, 2, None), (Some(s(30)), 1, Some(GiveUp::Deadline)), (Some(s(65)), 2, None)]
    {
        let world = World::new();
        let client = world.client_of(&polite(), &[refusal(&[("retry-after", "60")]), fine()]);
        let mut request = get();
        if let Some(within) = within {
            request.extensions_mut().insert(PoliteOptions::default().within(within));
        }
        let (_, report) = call(&client, request).await.expect("an answer");
        assert_eq!((report.attempts, report.gave_up), (attempts, gave_up), "{within:?}");
        assert!(world.gaps().iter().all(|gap| *gap >= s(60)));
    }
}

#[test]
fn b151_each_answer_is_tried_again_or_not_as_it_means() {
    let exhausted = &[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "9")][..];
    let asked = &[("retry-after", "9")][..];
    for (status, fields, generic, github) in [
        (429, &[][..], true, true),
        (503, &[], true, true),
        (503, asked, true, true),
        (403, exhausted, false, true),
        (403, &[], false, false),
        (413, asked, false, false),
        (420, &[], false, false),
        (529, &[], false, false),
        (501, &[], false, false),
        (408, &[], true, true),
        (425, &[], true, true),
        (404, &[], false, false),
    ] {
        let told = answer(status, fields);
        for (profile, expected) in [(Profile::Generic, generic), (Profile::GitHub, github)] {
            let next = decided(&profile, &told.head(), &first_get(), Draw::LEAST);
            assert_eq!(matches!(next, Next::Retry { .. }), expected, "{status} {fields:?} {profile:?}");
        }
    }
    let asked = answer(503, asked);
    assert_eq!(waits_of(&Profile::Generic, &asked.head(), &first_get()), (9_000, 9_900));
}
