//! The recorder, and the most in a window against a slow second opinion.

use ratekeeper_testkit::redis::history::{Event, Outcome, Recorder, admitted, max_in_window};

fn event(sent_us: u64, got_us: u64, cost: u64) -> Event {
    Event { caller: 0, sent_us, got_us, key: "k".into(), cost, outcome: Outcome::Allowed }
}

#[test]
fn recorder_notes_when_who_asked_for_what() {
    let recorder = Recorder::new();
    std::thread::scope(|scope| {
        for caller in 0..4 {
            let recorder = &recorder;
            scope.spawn(move || {
                recorder.call(caller, "a", 2, || Outcome::Allowed);
                recorder.call(caller, "a", 3, || Outcome::Denied);
                recorder.call(caller, "a", 5, || Outcome::Unknown)
            });
        }
    });
    let events = recorder.events();
    assert_eq!(events.len(), 12);
    assert_eq!(admitted(&events), 8);
    assert!(events.iter().all(|event| event.sent_us <= event.got_us && event.got_us <= recorder.now_us()));
    assert_eq!(max_in_window(&events, u64::MAX, 0), 8);
}

#[test]
fn window_is_closed_and_counts_whole_calls_only() {
    let events = [event(0, 0, 1), event(100, 100, 2), event(201, 201, 4)];
    assert_eq!(max_in_window(&events, 99, 0), 4);
    assert_eq!(max_in_window(&events, 100, 0), 4, "1 + 2 is less");
    assert_eq!(max_in_window(&events, 101, 0), 6, "both ends belong to it");
    assert_eq!(max_in_window(&events, 201, 0), 7);
    assert_eq!(max_in_window(&events, 201, 1), 6, "the uncertainty is taken off");
    assert_eq!(max_in_window(&events, 5, 6), 0);
    assert_eq!(max_in_window(&[], 5, 0), 0);
    // The store may have decided at 0 or at 300: it is in no window of 100 for certain.
    assert_eq!(max_in_window(&[event(0, 300, 9), event(50, 60, 1)], 100, 0), 1);
}

#[test]
fn most_in_a_window_is_what_trying_all_windows_finds() {
    // A sequence without a pattern that matters here; the same each time.
    let mut seed = 1_u64;
    let mut next = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for _ in 0..300 {
        let events: Vec<Event> = (0..next(12))
            .map(|_| {
                let sent = next(60);
                let mut event = event(sent, sent + next(25), 1 + next(4));
                if next(5) == 0 {
                    event.outcome = Outcome::Denied;
                }
                event
            })
            .collect();
        for window in [0, 1, 7, 20, 50, 100] {
            let inside = |event: &&Event, start: u64| {
                event.outcome == Outcome::Allowed && event.sent_us >= start && event.got_us <= start + window
            };
            let sum =
                |start| events.iter().filter(|event| inside(event, start)).map(|event| event.cost).sum();
            let most: u64 = (0..100).map(sum).max().unwrap();
            assert_eq!(max_in_window(&events, window, 0), most, "{window} {events:?}");
        }
    }
}
