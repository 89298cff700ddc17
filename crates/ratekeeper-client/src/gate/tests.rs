use super::*;
use crate::settings::Settings;

const SETTINGS: Settings = Settings::DEFAULT;

fn at(ms: u64) -> Micros {
    Micros::new(ms * 1_000)
}

fn told(name: &str, remaining: u64, seconds: u64, policy: Option<(u64, u64)>) -> LimitInfo {
    LimitInfo {
        name: name.to_owned(),
        remaining,
        wait: Some(Duration::from_secs(seconds)),
        margin: Duration::ZERO,
        quota: policy.map(|(quota, _)| quota),
        window: policy.map(|(_, window)| Duration::from_secs(window)),
    }
}

fn go(gate: &mut Gate, behind: usize, now: Micros) -> Send {
    match gate.may_send(&SETTINGS, behind, now, Draw::LEAST) {
        Entry::Go(send) => send,
        other => panic!("{other:?}"),
    }
}

#[test]
fn those_who_waited_leave_as_the_quota_comes_until_an_answer_tells_more() {
    let mut gate = Gate::new();
    let first = go(&mut gate, 0, at(0));
    gate.learn(&SETTINGS, first, &[told("d", 0, 5, Some((10, 20)))], at(0), Draw::LEAST);
    assert_eq!(gate.may_send(&SETTINGS, 3, at(0), Draw::LEAST), Entry::Wait(at(5_000)));
    let second = go(&mut gate, 2, at(5_000));
    assert_eq!(
        gate.may_send(&SETTINGS, 1, at(5_000), Draw::LEAST),
        Entry::Wait(at(7_000)),
        "20 s / 10 apart"
    );
    // Five are left: nobody has to be held back for them.
    gate.learn(&SETTINGS, second, &[told("d", 5, 5, Some((10, 20)))], at(5_100), Draw::LEAST);
    go(&mut gate, 1, at(5_100));
    go(&mut gate, 0, at(5_100));
}

#[test]
fn a_closed_gate_is_never_opened_earlier_than_it_was_to_be() {
    let mut gate = Gate::new();
    gate.close(Duration::from_secs(9), at(0));
    gate.close(Duration::from_secs(2), at(0));
    assert_eq!(gate.opens(&SETTINGS, at(0)), Some(at(9_000)));
    assert_eq!(gate.opens(&SETTINGS, at(9_000)), None);
    gate.close(Duration::MAX, at(0));
    assert_eq!(gate.closed, Some(at(3_600_000)));
}

#[test]
fn a_probe_that_passes_opens_what_its_answer_does_not_close() {
    let mut gate = Gate::new();
    gate.close(MAX_CLOSED, at(0));
    assert_eq!(gate.may_send(&SETTINGS, 0, at(0), Draw::LEAST), Entry::Wait(at(600_000)));
    let probe = go(&mut gate, 0, at(600_000));
    assert_eq!(gate.may_send(&SETTINGS, 0, at(600_000), Draw::LEAST), Entry::Wait(at(1_200_000)), "one only");
    gate.probed(&SETTINGS, probe, &[], at(600_000));
    go(&mut gate, 0, at(600_001));
}

#[test]
fn what_is_sent_meanwhile_is_taken_from_what_an_answer_says_is_left() {
    let mut gate = Gate::new();
    let first = go(&mut gate, 0, at(0));
    go(&mut gate, 0, at(0));
    go(&mut gate, 0, at(0));
    gate.learn(&SETTINGS, first, &[told("d", 3, 60, None)], at(0), Draw::LEAST);
    go(&mut gate, 0, at(0));
    assert_eq!(gate.may_send(&SETTINGS, 0, at(0), Draw::LEAST), Entry::Full(at(60_000)));
}

#[test]
fn an_answer_on_its_way_opens_a_gate_that_our_own_count_has_closed() {
    let mut gate = Gate::new();
    let first = go(&mut gate, 0, at(0));
    gate.learn(&SETTINGS, first, &[told("d", 1, 9, None)], at(0), Draw::LEAST);
    let second = go(&mut gate, 0, at(0));
    assert_eq!(gate.may_send(&SETTINGS, 0, at(0), Draw::LEAST), Entry::Full(at(9_000)));
    gate.learn(&SETTINGS, second, &[told("d", 4, 9, None)], at(100), Draw::LEAST);
    go(&mut gate, 0, at(100));
}

#[test]
fn answers_that_come_in_another_order_than_they_were_made_in_leave_no_more_than_there_is() {
    let mut gate = Gate::new();
    let (first, second) = (go(&mut gate, 0, at(0)), go(&mut gate, 0, at(0)));
    // The server took the second one first: 5 were left, and then 4.
    gate.learn(&SETTINGS, first, &[told("d", 4, 9, None)], at(0), Draw::LEAST);
    gate.learn(&SETTINGS, second, &[told("d", 5, 9, None)], at(0), Draw::LEAST);
    for _ in 0..4 {
        go(&mut gate, 0, at(0));
    }
    assert_eq!(gate.may_send(&SETTINGS, 0, at(0), Draw::LEAST), Entry::Full(at(9_000)));
}

#[test]
fn what_has_no_answer_yet_is_waited_for_and_what_will_have_none_counts_as_taken() {
    let mut gate = Gate::new();
    let first = go(&mut gate, 0, at(0));
    gate.learn(&SETTINGS, first, &[told("day", 2, 36_000, None)], at(0), Draw::LEAST);
    let (second, _lost) = (go(&mut gate, 0, at(0)), go(&mut gate, 0, at(0)));
    assert!(matches!(gate.may_send(&SETTINGS, 0, at(0), Draw::LEAST), Entry::Full(_)));
    assert_eq!(gate.opens(&SETTINGS, at(0)), None, "an answer may say that more is left");
    gate.learn(&SETTINGS, second, &[told("day", 9, 36_000, None)], at(0), Draw::LEAST);
    gate.lost();
    for _ in 0..8 {
        go(&mut gate, 0, at(0));
    }
    assert!(matches!(gate.may_send(&SETTINGS, 0, at(0), Draw::LEAST), Entry::Full(_)));
}
