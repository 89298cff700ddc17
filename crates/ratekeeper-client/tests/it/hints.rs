//! Rows 1 to 24: what answers say about waiting.

use ratekeeper_client::{
    Balance, Draw, GiveUp, HintSource, Next, Polite, PoliteOptions, Profile, ResponseHead, Settings, Wait,
    resolve,
};
use ratekeeper_core::{Limit, Micros};

use crate::support::{
    Answer, DATE, DATE_S, World, answer, assert_within, call, decided, fine, first_get, gated, get, ms, play,
    polite, refusal, s, waits, waits_of,
};

/// Two attempts, and a wait within these bounds between them.
async fn waits_between(answer: Answer, least: u64, most: u64) {
    let (pure_least, pure_most) = waits(&answer);
    assert!(pure_least >= least && pure_most <= most, "{pure_least} to {pure_most} after {answer:?}");
    let (status, report, gaps) = play(get(), &[answer, fine()]).await;
    assert_eq!((status, report.attempts, report.gave_up), (200, 2, None));
    assert_within(&gaps, &[(least, most)]);
}

/// One attempt: what was asked for is too long.
async fn gives_up(answer: Answer) {
    let next = decided(&Profile::Generic, &answer.head(), &first_get(), Draw::LEAST);
    assert!(matches!(next, Next::GiveUp(GiveUp::HintTooLong(_))), "{next:?} after {answer:?}");
    let (status, report, gaps) = play(get(), &[answer, fine()]).await;
    assert_eq!((status, report.attempts), (429, 1));
    assert!(gaps.is_empty());
    assert!(matches!(report.gave_up, Some(GiveUp::HintTooLong(_))), "{report:?}");
    assert!(report.retry_after.is_some_and(|wait| wait > s(60) && wait <= s(3_600)), "{report:?}");
}

#[tokio::test(start_paused = true)]
async fn row_01_an_answer_is_returned_at_once_and_earns_a_tenth_of_a_retry() {
    let (status, report, gaps) = play(get(), &[fine()]).await;
    assert_eq!((status, report.attempts, report.gave_up), (200, 1, None));
    assert!(gaps.is_empty() && report.waited.is_zero() && report.retry_after.is_none());
    let budget = Settings::DEFAULT.budget;
    let mut balance = Balance::new(&budget);
    let before = balance.milli();
    balance.succeeded(&budget, None, Micros::ZERO);
    assert_eq!(balance.milli(), before + 100);
}

#[tokio::test(start_paused = true)]
async fn row_02_a_hint_is_waited_for_and_a_little_longer() {
    assert_eq!(waits(&refusal(&[("retry-after", "2")])), (2_000, 2_250));
    waits_between(refusal(&[("retry-after", "2")]), 2_000, 2_250).await;
}

#[tokio::test(start_paused = true)]
async fn row_03_a_hint_of_0_is_no_reason_to_come_back_at_once() {
    let (status, report, gaps) = play(get(), &[refusal(&[("retry-after", "0")])]).await;
    assert_within(&gaps, &[(500, 1_000), (1_000, 2_000)]);
    assert_eq!((status, report.attempts, report.gave_up), (429, 3, Some(GiveUp::Attempts)));
}

#[tokio::test(start_paused = true)]
async fn row_04_without_a_hint_waits_grow_and_the_last_refusal_is_returned() {
    assert_eq!(waits(&refusal(&[])), (500, 1_000));
    let (status, report, gaps) = play(get(), &[refusal(&[])]).await;
    assert_within(&gaps, &[(500, 1_000), (1_000, 2_000)]);
    assert_eq!((status, report.attempts, report.gave_up), (429, 3, Some(GiveUp::Attempts)));
}

const IN_5_S: [&str; 3] =
    ["Mon, 03 Jun 2019 11:00:05 GMT", "Monday, 03-Jun-19 11:00:05 GMT", "Mon Jun  3 11:00:05 2019"];

#[tokio::test(start_paused = true)]
async fn row_05_a_date_is_measured_from_the_date_of_the_answer() {
    waits_between(refusal(&[("date", DATE), ("retry-after", IN_5_S[0])]), 5_000, 5_500).await;
}

#[tokio::test(start_paused = true)]
async fn row_06_a_wrong_clock_here_changes_nothing_if_the_answer_has_a_date() {
    let refused = refusal(&[("date", DATE), ("retry-after", IN_5_S[0])]);
    for wall in [DATE_S - 600, DATE_S + 600] {
        let head = ResponseHead { wall: s(wall), ..refused.head() };
        assert_eq!(waits_of(&Profile::Generic, &head, &first_get()), (5_000, 5_500));
        let world = World::new();
        let polite = Polite::builder().time_of_day(move || s(wall)).build().expect("good settings");
        let client = world.client_of(&polite, &[refused.clone(), fine()]);
        call(&client, get()).await.expect("an answer");
        assert_within(&world.gaps(), &[(5_000, 5_500)]);
    }
}

#[tokio::test(start_paused = true)]
async fn row_07_without_a_date_the_clock_here_counts() {
    let refused = refusal(&[("retry-after", IN_5_S[0])]);
    let ahead = ResponseHead { wall: s(DATE_S + 600), ..refused.head() };
    assert_eq!(waits_of(&Profile::Generic, &ahead, &first_get()), (500, 1_000));
    let behind = ResponseHead { wall: s(DATE_S - 600), ..refused.head() };
    let next = decided(&Profile::Generic, &behind, &first_get(), Draw::LEAST);
    assert_eq!(next, Next::GiveUp(GiveUp::HintTooLong(Wait::For(s(605)))));
    let world = World::new();
    let polite = Polite::builder().time_of_day(|| s(DATE_S - 600)).build().expect("good settings");
    let client = world.client_of(&polite, &[refused]);
    let (status, report) = call(&client, get()).await.expect("an answer");
    assert_eq!((status, report.attempts), (429, 1));
}

#[tokio::test(start_paused = true)]
async fn row_08_the_two_older_forms_of_a_date_are_dates() {
    for date in IN_5_S {
        waits_between(refusal(&[("date", DATE), ("retry-after", date)]), 5_000, 5_500).await;
    }
}

#[tokio::test(start_paused = true)]
async fn row_09_twenty_digits_are_for_ever_and_the_gate_is_closed_for_an_hour_at_most() {
    let refused = refusal(&[("retry-after", "99999999999999999999")]);
    let next = decided(&Profile::Generic, &refused.head(), &first_get(), Draw::MOST);
    assert_eq!(next, Next::GiveUp(GiveUp::HintTooLong(Wait::Forever)));
    gives_up(refused.clone()).await;
    let world = World::new();
    let client = world.client_of(&polite(), &[refused, fine()]);
    call(&client, get()).await.expect("an answer");
    let closed = gated(&call(&client, get()).await.expect_err("the gate is closed"));
    assert!(closed > s(30) && closed <= s(3_600), "{closed:?}");
    tokio::time::sleep(s(3_605)).await;
    assert_eq!(call(&client, get()).await.expect("it has ended by itself").0, 200);
}

#[tokio::test(start_paused = true)]
async fn row_10_a_sign_makes_it_no_number() {
    for value in ["-5", "+5"] {
        waits_between(refusal(&[("retry-after", value)]), 500, 1_000).await;
    }
}

#[tokio::test(start_paused = true)]
async fn row_11_a_date_that_is_past_asks_for_nothing() {
    let past = refusal(&[("date", DATE), ("retry-after", "Mon, 03 Jun 2019 10:59:00 GMT")]);
    assert_eq!(resolve(&past.head(), &Profile::Generic).wait, Some(Wait::For(s(0))));
    waits_between(past, 500, 1_000).await;
}

#[tokio::test(start_paused = true)]
async fn row_12_what_is_no_hint_counts_as_not_sent() {
    for value in ["soon", "", "5 seconds", "NaN", "inf", "1e3", "٥"] {
        let refused = refusal(&[("retry-after", value)]);
        assert_eq!(resolve(&refused.head(), &Profile::Generic).wait, None, "{value}");
        waits_between(refused, 500, 1_000).await;
    }
    gives_up(refusal(&[("retry-after", &"9".repeat(9 * 1024))])).await;
}

#[tokio::test(start_paused = true)]
async fn row_13_decimals_are_taken_as_they_are_meant() {
    waits_between(refusal(&[("retry-after", "2.5")]), 2_500, 2_750).await;
    waits_between(refusal(&[("retry-after", "2.0")]), 2_000, 2_250).await;
}

#[tokio::test(start_paused = true)]
async fn row_14_of_several_hints_the_longest_valid_one_counts() {
    for (other, least, most) in
        [("10", 10_000, 11_000), ("Mon, 03 Jun 2019 11:00:09 GMT", 9_000, 9_900), ("garbage", 5_000, 5_500)]
    {
        let two = refusal(&[("date", DATE), ("retry-after", "5"), ("retry-after", other)]);
        waits_between(two, least, most).await;
    }
    waits_between(refusal(&[("retry-after", "5, 10")]), 10_000, 11_000).await;
}

#[tokio::test(start_paused = true)]
async fn row_15_milliseconds_of_a_vendor_are_more_exact_unless_they_contradict() {
    let both = |millis| refusal(&[("retry-after-ms", millis), ("retry-after", "2")]);
    waits_between(both("1500"), 1_500, 1_750).await;
    waits_between(both("500"), 2_000, 2_250).await;
    waits_between(both("4000"), 4_000, 4_400).await;
}

#[tokio::test(start_paused = true)]
async fn row_16_retry_after_takes_precedence_over_ratelimit() {
    let both = refusal(&[("retry-after", "2"), ("ratelimit", r#""d";r=0;t=30"#)]);
    waits_between(both, 2_000, 2_250).await;
}

#[tokio::test(start_paused = true)]
async fn row_17_every_dialect_of_ratelimit_is_a_hint() {
    for (name, value) in [
        ("ratelimit", r#""d";r=0;t=7"#),
        ("ratelimit", r#""d";a=0;w=7"#),
        ("ratelimit", "limit=10, remaining=0, reset=7"),
        ("ratelimit-reset", "7"),
    ] {
        let refused = refusal(&[(name, value)]);
        assert_eq!(waits(&refused), (7_000, 7_700), "{name}: {value}");
        waits_between(refused, 7_000, 7_700).await;
    }
    // Several lines are one list, and only what is exhausted counts.
    let lines = refusal(&[("ratelimit", r#""a";r=3;t=60"#), ("ratelimit", r#""b";r=0;t=2, "c";r=0;t=3"#)]);
    assert_eq!(resolve(&lines.head(), &Profile::Generic).source, HintSource::RateLimit);
    waits_between(lines, 3_000, 3_300).await;
}

#[tokio::test(start_paused = true)]
async fn row_18_the_next_call_waits_when_nothing_remains() {
    let world = World::new();
    let client = world.client_of(&polite(), &[answer(200, &[("ratelimit", r#""d";r=0;t=3"#)]), fine()]);
    let (status, report) = call(&client, get()).await.expect("an answer");
    assert_eq!((status, report.attempts), (200, 1));
    assert!(world.now().is_zero() && report.retry_after.is_some_and(|wait| wait >= s(3)));
    let (status, report) = call(&client, get()).await.expect("an answer");
    assert_eq!((status, report.attempts), (200, 1));
    assert!(report.waited >= s(3));
    assert_within(&world.gaps(), &[(3_000, 3_300)]);
}

#[tokio::test(start_paused = true)]
async fn row_19_an_exhausted_day_gates_at_once_and_is_looked_at_every_10_minutes() {
    let world = World::new();
    let told = |day| answer(200, &[("ratelimit", &format!(r#""burst";r=9;t=1, "day";r={day};t=36000"#))]);
    let client = world.client_of(&polite(), &[told(1), told(0)]);
    call(&client, get()).await.expect("an answer");
    call(&client, get()).await.expect("one more remains");
    let waits = gated(&call(&client, get()).await.expect_err("the day is used up"));
    assert!(world.now().is_zero() && waits > s(590) && waits <= s(600), "{waits:?}");
    for round in 1..=2 {
        tokio::time::sleep(s(560)).await;
        gated(&call(&client, get()).await.expect_err("not yet"));
        tokio::time::sleep(s(40)).await;
        assert_eq!(call(&client, get()).await.expect("a probe").0, 200, "round {round}");
        gated(&call(&client, get()).await.expect_err("it said that nothing remains"));
    }
    assert_eq!(world.sent().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn row_20_fields_that_are_wrong_are_ignored_without_an_error() {
    for value in [
        "r=1, garbage@@",
        r#""d";r=0;t=1234567890123456"#,
        r#""d";r=-1;t=9"#,
        r#""d";t=9"#,
        r#""d";r=0.0;t=9"#,
    ] {
        let told = answer(200, &[("ratelimit", value)]);
        let hint = resolve(&told.head(), &Profile::Generic);
        assert_eq!((hint.wait, hint.limits), (None, Vec::new()), "{value}");
        let world = World::new();
        let client = world.client_of(&polite(), &[told]);
        for _ in 0..3 {
            call(&client, get()).await.expect("an answer");
        }
        assert!(world.now().is_zero(), "{value}");
    }
}

#[tokio::test(start_paused = true)]
async fn row_21_our_own_limits_rule_whatever_a_server_allows() {
    let generous = answer(200, &[("ratelimit", r#""d";r=999999999;t=1"#)]);
    let polite = Polite::builder().own_limit(Limit::per_second(2).burst(1)).max_in_flight(1).build();
    let world = World::new();
    let client = world.client_of(&polite.expect("good settings"), &[generous]);
    for _ in 0..4 {
        call(&client, get()).await.expect("an answer");
    }
    assert_within(&world.gaps(), &[(500, 500), (500, 500), (500, 500)]);
}

#[tokio::test(start_paused = true)]
async fn row_22_a_reset_is_read_by_its_shape_and_size() {
    let at = DATE_S + 5;
    let forms = [
        format!("{at}"),
        format!("{at}000"),
        format!("{at}000000"),
        format!("{at}000000000"),
        "5".to_owned(),
        "5.0".to_owned(),
        "2019-06-03T11:00:05Z".to_owned(),
        "2019-06-03T13:00:05.000+02:00".to_owned(),
        "Mon, 03 Jun 2019 11:00:05 GMT".to_owned(),
        "5s".to_owned(),
        "4999.5ms500us".to_owned(),
    ];
    for form in &forms {
        for (remaining, reset) in
            [("x-ratelimit-remaining", "x-ratelimit-reset"), ("x-rate-limit-remaining", "x-rate-limit-reset")]
        {
            let refused = refusal(&[("date", DATE), (remaining, "0"), (reset, form)]);
            waits_between(refused, 5_000, 6_500).await;
        }
    }
    // Between seconds from now and instants there is nothing that is meant; -1 is unknown.
    for (remaining, reset) in [("0", "500000000"), ("-1", "5")] {
        let refused = refusal(&[("x-ratelimit-remaining", remaining), ("x-ratelimit-reset", reset)]);
        waits_between(refused, 500, 1_000).await;
    }
}

#[tokio::test(start_paused = true)]
async fn row_23_a_403_is_a_refusal_where_it_is_known_to_be_one() {
    let reset = (DATE_S + 5).to_string();
    let forbidden =
        answer(403, &[("date", DATE), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &reset)]);
    let github = |head: &ResponseHead<'_>| waits_of(&Profile::GitHub, head, &first_get());
    assert_eq!(github(&forbidden.head()), (6_000, 6_500));
    assert_eq!(decided(&Profile::Generic, &forbidden.head(), &first_get(), Draw::LEAST), Next::Done);
    let (status, report, gaps) = play(get(), &[forbidden.clone(), fine()]).await;
    assert_eq!((status, report.attempts, gaps.len()), (403, 1, 0));
    let world = World::new();
    let polite = Polite::builder().profile(Profile::GitHub).build().expect("good settings");
    let client = world.client_of(&polite, &[forbidden, fine()]);
    call(&client, get()).await.expect("an answer");
    assert_within(&world.gaps(), &[(6_000, 6_500)]);
    // A secondary limit: a minute, then two, whatever remains of the primary one.
    let secondary = refusal(&[("x-ratelimit-remaining", "4000"), ("x-ratelimit-reset", &reset)]);
    assert_eq!(github(&secondary.head()), (60_000, 65_000));
    let second = ratekeeper_client::Call { attempts: 2, ..first_get() };
    assert_eq!(waits_of(&Profile::GitHub, &secondary.head(), &second), (120_000, 125_000));
}

#[tokio::test(start_paused = true)]
async fn row_24_a_deadline_is_kept_by_not_beginning_to_wait() {
    let busy = answer(503, &[("retry-after", "120")]);
    assert_eq!(waits(&busy), (120_000, 125_000));
    for (within, waits) in [(s(600), true), (s(60), false)] {
        let world = World::new();
        let client = world.client_of(&polite(), &[busy.clone(), fine()]);
        let mut request = get();
        request.extensions_mut().insert(PoliteOptions::default().within(within));
        let (status, report) = call(&client, request).await.expect("an answer");
        if waits {
            assert_eq!((status, report.attempts), (200, 2));
            assert_within(&world.gaps(), &[(120_000, 125_000)]);
        } else {
            assert_eq!((status, report.gave_up), (503, Some(GiveUp::Deadline)));
            assert!(world.now() < ms(1));
        }
    }
}
