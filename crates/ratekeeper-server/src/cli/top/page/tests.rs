use super::*;

fn sample(policies: &[(&str, u64, u64, u64)], exact: u64, took: &[(u64, u64)]) -> Sample {
    let counts = |(name, decisions, denied, would_deny): &(&str, u64, u64, u64)| {
        let counts = Counts { decisions: *decisions, denied: *denied, would_deny: *would_deny };
        ((*name).to_owned(), counts)
    };
    Sample {
        policies: policies.iter().map(counts).collect(),
        sources: BTreeMap::from([("exact".to_owned(), exact), ("overflow".to_owned(), 0)]),
        took: took.iter().copied().collect(),
        sha: Some("3f9c1a2".to_owned()),
        started_s: Some(1_000),
    }
}

fn top(key: &str) -> Top {
    let denied =
        Denied { policy: "api".into(), limit: Some("l".into()), key: key.into(), count: 1_370, error: 2 };
    Top { window_s: 600, denied: vec![denied] }
}

#[test]
fn a_page_says_what_happened_between_two_looks() {
    let before = sample(&[("api", 100, 10, 0), ("new", 0, 0, 0)], 100, &[(10_000, 50), (u64::MAX, 50)]);
    let after = sample(
        &[("api", 20_100, 290, 0), ("new", 600, 0, 18)],
        20_700,
        &[(10_000, 149), (25_000, 150), (u64::MAX, 150)],
    );
    let top = top("9f86d081884c7d65");
    let tick = Tick::between("127.0.0.1:9090", &before, (&after, &top), 2_000, 1_000 + 3 * 86_400);
    let mut history = History::default();
    history.add(&tick);
    assert_eq!(
        lines(&tick, &history),
        [
            "ratekeeper 127.0.0.1:9090   up 3 d   config 3f9c1a2   10,300 decisions/s   p50 ≤ 10 µs   p99 ≤ 10 µs   exact 100.0 %",
            "",
            "policy   decisions/s   last 2 s   denied   would deny   most denied",
            "api           10,000   █           1.4 %            –   9f86d081884c7d65  1,370 in 10 min",
            "new              300   █               –        3.0 %",
        ]
    );
}

#[test]
fn bars_are_as_high_as_the_busiest_of_the_last_minute_and_forget_what_is_older() {
    let mut history = History::default();
    let top = Top::default();
    for decisions in [0, 1, 350, 700] {
        let (before, after) = (sample(&[("p", 0, 0, 0)], 0, &[]), sample(&[("p", decisions, 0, 0)], 0, &[]));
        history.add(&Tick::between("s", &before, (&after, &top), 1_000, 0));
    }
    assert_eq!(history.bars("p"), "▁▂▅█");
    let (before, after) = (sample(&[("p", 0, 0, 0)], 0, &[]), sample(&[("p", 7, 0, 0)], 0, &[]));
    for _ in 0..MAX_BARS {
        history.add(&Tick::between("s", &before, (&after, &top), 1_000, 0));
    }
    assert_eq!(history.bars("p"), "█".repeat(MAX_BARS));
    let after = sample(&[], 0, &[]);
    history.add(&Tick::between("s", &before, (&after, &top), 1_000, 0));
    assert_eq!(history.bars("p"), "", "a policy that is gone");
}

#[test]
fn a_server_that_has_begun_anew_has_decided_what_it_says() {
    let (before, after) = (sample(&[("p", 900, 90, 0)], 0, &[]), sample(&[("p", 30, 3, 0)], 0, &[]));
    let top = Top::default();
    let tick = Tick::between("s", &before, (&after, &top), 1_000, 0);
    assert_eq!((tick.decisions, tick.policies[0].denied), (30, 3));
}

#[test]
fn quantiles_are_bounds_of_what_was_measured() {
    let took = |pairs: &[(u64, u64)]| pairs.iter().copied().collect::<BTreeMap<_, _>>();
    assert_eq!(quantile_us(&took(&[]), 50), None);
    assert_eq!(quantile_us(&took(&[(10_000, 0), (u64::MAX, 0)]), 50), None);
    let hundred = took(&[(10_000, 50), (25_000, 98), (50_000, 99), (u64::MAX, 100)]);
    assert_eq!((quantile_us(&hundred, 50), quantile_us(&hundred, 51)), (Some(10), Some(25)));
    assert_eq!((quantile_us(&hundred, 99), quantile_us(&hundred, 100)), (Some(50), None));
}

#[test]
fn a_key_cannot_move_the_cursor_or_fill_the_screen() {
    let (before, after) = (sample(&[("api", 0, 0, 0)], 0, &[]), sample(&[("api", 1, 1, 0)], 0, &[]));
    let top = top(&format!("\u{1b}[2J\u{202e}\n{}", "x".repeat(1_000)));
    let tick = Tick::between("s\u{7}", &before, (&after, &top), 1_000, 0);
    for line in lines(&tick, &History::default()) {
        assert!(!line.chars().any(|c| c.is_control() || is_invisible(c)), "{line:?}");
        assert!(line.chars().count() < 200, "{line}");
    }
}
