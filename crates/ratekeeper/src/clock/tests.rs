use super::*;

fn hands(origin_us: u64) -> Hands {
    Hands::new(quanta::Clock::new(), origin_us)
}

#[test]
fn steps_of_the_counter_are_the_microseconds_that_they_come_to() {
    let hands = hands(0);
    for steps in [0_u64, 1_000_000, 1 << 40, (1 << 52) + 12_345] {
        let exact = hands.counter.delta_as_nanos(0, steps) / 1_000;
        let ours = ((u128::from(steps) * u128::from(hands.us_per_step)) >> 64) as u64;
        assert!(exact.abs_diff(ours) <= 1 + exact / 1_000_000_000, "{steps}: {ours} of {exact}");
    }
}

#[test]
fn the_clock_starts_at_wall_time() {
    assert!(ProcessClock.offset_us().abs() < 5_000_000);
}

const SECOND: u64 = 1_000_000;

/// Lets the hands follow a wall clock that is `ahead` (or behind) for some minutes; all readings meanwhile.
fn follow(hands: &Hands, minutes: u64, wall: impl Fn(u64) -> u64) -> Vec<(u64, u64)> {
    let mut readings = Vec::new();
    for step in 1..=minutes * 60 * 10 {
        let elapsed = step * SECOND / 10;
        if elapsed >= hands.pivot_us.load(Ordering::Relaxed) + LEAD_US {
            hands.follow(elapsed, wall(elapsed));
        }
        for later in [0, 1, 100, 1_500, 5_000, 99_999] {
            readings.push((elapsed + later, hands.reading(elapsed + later)));
        }
    }
    readings
}

#[test]
fn it_follows_a_wall_clock_that_is_ahead_by_a_hundred_milliseconds_a_minute() {
    let origin = 1_000_000_000;
    let readings = follow(&hands(origin), 10, |elapsed| origin + elapsed + 3_600 * SECOND);
    let (elapsed, reading) = readings[readings.len() - 1];
    let ahead = reading - origin - elapsed;
    assert!((900_000..=1_000_000).contains(&ahead), "{ahead}");
}

#[test]
fn it_pauses_where_the_wall_clock_is_behind_and_never_goes_back() {
    let origin = 10_000 * SECOND;
    let readings = follow(&hands(origin), 10, |elapsed| origin / 2 + elapsed);
    assert!(readings.windows(2).all(|pair| pair[0].1 <= pair[1].1));
    let (elapsed, reading) = readings[readings.len() - 1];
    let behind = origin + elapsed - reading;
    assert!((900_000..=1_000_000).contains(&behind), "{behind}");
}

#[test]
fn a_small_distance_is_closed_at_once_and_not_overshot() {
    let origin = 1_000_000_000;
    for (wall, distance) in [(500_i64, 500_i64), (-500, -500)] {
        let hands = hands(origin);
        let readings = follow(&hands, 1, |elapsed| (origin + elapsed).saturating_add_signed(wall));
        let (elapsed, reading) = readings[readings.len() - 1];
        assert_eq!(reading as i64 - (origin + elapsed) as i64, distance);
    }
}

#[test]
fn a_correction_changes_no_reading_of_the_past() {
    let origin = 1_000_000_000;
    let hands = hands(origin);
    let stale = 2 * SECOND;
    let before = hands.reading(stale);
    hands.follow(stale, origin);
    // A reader that has read the counter before the hands were moved, and reads the hands after.
    assert_eq!(hands.reading(stale), before);
    assert_eq!(hands.reading(stale + LEAD_US - 1), before + LEAD_US - 1);
    assert!(hands.reading(stale + LEAD_US) >= before + LEAD_US - 1, "then it pauses");
}

#[test]
fn readings_of_a_thread_never_go_back() {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut last = Micros::ZERO;
                for _ in 0..200_000 {
                    let now = ProcessClock.now();
                    assert!(now >= last);
                    last = now;
                }
            });
        }
    });
}

#[test]
fn a_stopwatch_counts_what_the_clock_counts() {
    let (watch, began) = (Stopwatch::start(), ProcessClock.now());
    while ProcessClock.now().get() < began.get() + 2_000 {
        std::hint::spin_loop();
    }
    // The clock may be a twelfth of a percent off while it follows wall time; what comes between is on top.
    let ns = watch.elapsed_ns();
    assert!(ns > 1_990_000, "{ns}");
    assert!(watch.elapsed_ns() >= ns);
}
