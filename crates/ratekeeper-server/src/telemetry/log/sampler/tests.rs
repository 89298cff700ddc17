use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratekeeper_core::{Clock as _, ManualClock, Micros};

use super::Sampler;

#[test]
fn each_second_has_its_share_and_the_next_line_tells_what_was_dropped() {
    let (sampler, clock) = (Sampler::default(), ManualClock::at(Micros::new(1_999_999)));
    let take = |n: usize| -> Vec<Option<u64>> { (0..n).map(|_| sampler.take(clock.now(), 2)).collect() };
    assert_eq!(take(5), [Some(0), Some(0), None, None, None]);
    clock.advance(Duration::from_micros(1));
    assert_eq!(take(3), [Some(3), Some(0), None]);
    clock.advance(Duration::from_secs(3_600));
    assert_eq!(take(1), [Some(1)]);
}

#[test]
fn what_could_not_be_written_is_told_later() {
    let sampler = Sampler::default();
    let now = Micros::new(5_000_000);
    assert_eq!(sampler.take(now, 1), Some(0));
    sampler.give_back(0);
    assert_eq!(sampler.take(now, 1), None);
    assert_eq!(sampler.take(Micros::new(6_000_000), 1), Some(2));
}

#[test]
fn none_a_second_is_none() {
    let sampler = Sampler::default();
    for second in 0..10 {
        assert_eq!(sampler.take(Micros::new(second * 1_000_000), 0), None);
    }
}

#[test]
fn late_reading_of_the_second_before_opens_no_new_one() {
    let sampler = Sampler::default();
    let (before, after) = (Micros::new(1_999_999), Micros::new(2_000_000));
    assert_eq!(sampler.take(after, 1), Some(0));
    assert_eq!(sampler.take(before, 1), None);
    assert_eq!(sampler.take(after, 1), None);
    // A clock that was set back by more is another time.
    assert_eq!(sampler.take(Micros::ZERO, 1), Some(2));
}

#[test]
fn threads_together_keep_the_bound_and_lose_no_count() {
    let (sampler, written, told) = (Sampler::default(), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for i in 0..40_000_u64 {
                    if let Some(dropped) = sampler.take(Micros::new(7_000_000 + i), 10) {
                        written.fetch_add(1, Ordering::Relaxed);
                        told.fetch_add(dropped, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(written.load(Ordering::Relaxed), 10);
    let rest = sampler.take(Micros::new(9_000_000), 10).expect("another second");
    assert_eq!(told.load(Ordering::Relaxed) + rest, 160_000 - 10);
}
