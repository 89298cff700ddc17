//! Clocks that do not go as one would wish, while somebody waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use ratekeeper::{Clock, KeyedLimiter, Limit, ManualClock, Micros};

use crate::crowd::{Crowd, for_seconds};

/// The hands of another clock, seen less far.
struct Odd {
    hands: ManualClock,
    behind_us: AtomicU64,
    /// Whether it may be set back, and so is an hour behind from its second reading on once it has been told to fall.
    may_fall: bool,
    falls: AtomicBool,
    readings: AtomicU64,
}

impl Odd {
    fn new(hands: &ManualClock, may_fall: bool) -> Arc<Self> {
        let (behind_us, readings) = (AtomicU64::new(0), AtomicU64::new(0));
        Arc::new(Self { hands: hands.clone(), behind_us, may_fall, falls: AtomicBool::new(false), readings })
    }
}

impl Clock for Odd {
    fn now(&self) -> Micros {
        if self.falls.load(Ordering::SeqCst) {
            match self.readings.fetch_add(1, Ordering::SeqCst) {
                0 => {}
                1 => self.behind_us.store(3_600_000_000, Ordering::SeqCst),
                n => assert!(n < 10_000, "it is read without end"),
            }
        }
        Micros::new(self.hands.now().get() - self.behind_us.load(Ordering::SeqCst))
    }

    fn may_step_back(&self) -> bool {
        self.may_fall
    }

    fn wake_at(&self, at: Micros, sleeper: &Waker) -> bool {
        let behind = Duration::from_micros(self.behind_us.load(Ordering::SeqCst));
        self.hands.wake_at(at.saturating_add(behind), sleeper)
    }
}

#[test]
fn a_clock_that_is_set_back_while_somebody_is_served_is_not_asked_for_ever() {
    let hands = ManualClock::at(Micros::new(36_000_000_000));
    let clock = Odd::new(&hands, true);
    let shared: Arc<dyn Clock> = clock.clone();
    let users = KeyedLimiter::builder(Limit::per_second(1)).max_keys(10).clock(shared).build().unwrap();
    assert!(users.try_acquire("k").allowed());
    let mut crowd = Crowd::new(&hands);
    let waits: Vec<usize> = (0..3).map(|_| crowd.come(users.acquire("k"))).collect();
    clock.falls.store(true, Ordering::SeqCst);
    for_seconds(&mut crowd, 4);
    let served: Vec<usize> = crowd.served().into_iter().map(|(number, _)| number).collect();
    assert_eq!(served, waits);
}
