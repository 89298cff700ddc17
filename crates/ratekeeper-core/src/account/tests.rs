use alloc::vec;

use super::*;
use crate::{Algorithm, Ask, Limit, Log, Moment, State, StateRef, evaluate};

const NOW: u64 = 1_000_000_000;

/// The account of a key after admissions at these moments, each of this cost, seen at the last of `at`.
fn after(limit: &Limit, admitted: &[(u64, u64)], at: u64) -> Account {
    let (mut state, mut log) = (State::FRESH, Log::new());
    for (at, cost) in admitted {
        let moment = Moment::at(Micros::new(*at));
        if limit.kind() == Algorithm::SlidingWindowLog {
            assert!(evaluate(limit, StateRef::Log(&log), &moment, *cost, Ask::Acquire).allowed());
            log.admit(limit, &moment, *cost);
        } else {
            let evaluation = evaluate(limit, StateRef::Words(state), &moment, *cost, Ask::Acquire);
            assert!(evaluation.allowed());
            state = evaluation.next();
        }
    }
    let held = if limit.kind() == Algorithm::SlidingWindowLog {
        StateRef::Log(&log)
    } else {
        StateRef::Words(state)
    };
    let verdict = evaluate(limit, held, &Moment::at(Micros::new(at)), 0, Ask::Peek).untouched();
    assert_eq!(verdict.now().get(), at);
    verdict.account().expect("there is a place")
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_bucket_tells_its_level_to_the_thousandth_rounded_up() {
    let limit = Limit::per_second(10).burst(20);
    let level = |at| after(&limit, &[(NOW, 20)], at);
    assert_eq!(level(NOW), Account::Level { thousandths: 20_000 });
    assert_eq!(level(NOW + 40_000), Account::Level { thousandths: 19_600 });
    assert_eq!(level(NOW + 40_001), Account::Level { thousandths: 19_600 });
    assert_eq!(level(NOW + 40_101), Account::Level { thousandths: 19_599 });
    assert_eq!(level(NOW + 1_999_999), Account::Level { thousandths: 1 });
    assert_eq!(level(NOW + 2_000_000), Account::Level { thousandths: 0 });
    // A unit takes a seventh of a second, which is no whole number of microseconds.
    assert_eq!(
        after(&Limit::per_second(7), &[(NOW, 3)], NOW + 142_857),
        Account::Level { thousandths: 2_001 }
    );
    assert_eq!(
        after(&Limit::per_second(7), &[(NOW, 3)], NOW + 142_858),
        Account::Level { thousandths: 2_000 }
    );
}

#[test]
fn a_queue_tells_who_waits_and_when_the_next_starts() {
    let limit = Limit::per_second(1).algorithm(Algorithm::LeakyBucket).queue(10);
    let line = |n, at| after(&limit, &vec![(NOW, 1); n], at);
    let of = |waiting, start| Account::Line { waiting, start_after: ms(start) };
    assert_eq!(line(0, NOW), of(0, 0));
    assert_eq!(line(1, NOW), of(0, 1_000));
    assert_eq!(line(3, NOW), of(2, 3_000));
    assert_eq!(line(3, NOW + 500_000), of(2, 2_500));
    assert_eq!(line(3, NOW + 1_000_000), of(1, 2_000));
    assert_eq!(line(3, NOW + 3_000_000), of(0, 0));
}

#[test]
fn a_window_tells_its_count_and_its_end() {
    let limit = Limit::per_minute(10).algorithm(Algorithm::FixedWindow);
    let start = NOW - NOW % 60_000_000;
    assert_eq!(
        after(&limit, &[(start, 7)], start + 47_700_000),
        Account::Window { count: 7, ends_after: ms(12_300) }
    );
    assert_eq!(
        after(&limit, &[(start, 7)], start + 60_000_000),
        Account::Window { count: 0, ends_after: ms(60_000) }
    );
}

#[test]
fn a_counter_tells_both_windows_and_how_much_of_the_first_counts() {
    let limit = Limit::per_second(100).algorithm(Algorithm::SlidingWindowCounter);
    let counts = |at| after(&limit, &[(NOW, 80), (NOW + 1_600_000, 12)], at);
    assert_eq!(counts(NOW + 1_650_000), Account::Fading { previous: 80, share: 350, current: 12, used: 40 });
    // What is left of a unit counts as one, and of a thousandth too.
    assert_eq!(counts(NOW + 1_650_001), Account::Fading { previous: 80, share: 350, current: 12, used: 40 });
    assert_eq!(counts(NOW + 1_651_001), Account::Fading { previous: 80, share: 349, current: 12, used: 40 });
    assert_eq!(counts(NOW + 2_000_000), Account::Fading { previous: 12, share: 1_000, current: 0, used: 12 });
}

#[test]
fn a_log_tells_its_oldest_and_its_newest() {
    let limit = Limit::per(10, Duration::from_secs(600)).algorithm(Algorithm::SlidingWindowLog);
    let log = |admitted: &[(u64, u64)], at| after(&limit, admitted, at);
    let of = |used, oldest, newest| {
        let at = |at: u64| (at > 0).then(|| Micros::new(at));
        Account::Log { used, oldest: at(oldest), newest: at(newest) }
    };
    assert_eq!(log(&[], NOW), of(0, 0, 0));
    assert_eq!(log(&[(NOW, 3)], NOW + 5), of(3, NOW, NOW));
    let later = NOW + 400_000_000;
    assert_eq!(log(&[(NOW, 3), (later, 7)], later + 5), of(10, NOW, later));
    assert_eq!(log(&[(NOW, 3), (later, 7)], NOW + 600_000_000), of(7, later, later));
    // A limit that was lowered below what is used: which is the oldest cannot be told from the wait.
    let mut held = Log::new();
    held.admit(&limit, &Moment::at(Micros::new(NOW)), 3);
    held.admit(&limit, &Moment::at(Micros::new(later)), 7);
    let lower = Limit::per(5, Duration::from_secs(600)).algorithm(Algorithm::SlidingWindowLog);
    let verdict = evaluate(&lower, StateRef::Log(&held), &Moment::at(Micros::new(later)), 0, Ask::Peek);
    assert_eq!(verdict.untouched().account(), Some(of(10, 0, later)));
}

#[test]
fn a_key_without_a_place_has_no_account() {
    let limit = Limit::per_second(10);
    let evaluation = crate::Evaluation::no_room(&limit, &Moment::at(Micros::new(NOW)), 1);
    assert_eq!(evaluation.untouched().account(), None);
}
