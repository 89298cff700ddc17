//! Every interleaving of those who come, leave, give back and wake, by loom:
//! `RUSTFLAGS="--cfg loom" cargo test -p ratekeeper --lib --release`.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use loom::thread;
use ratekeeper_core::{Algorithm, Limit};

use super::{Acquire, Overflow, Shaper};
use crate::{KeyedLimiter, ManualClock, seconds};

/// Counts how often somebody was woken.
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Somebody who waits, and polls again only if it was woken.
struct Caller {
    future: Pin<Box<Acquire>>,
    woken: Arc<Woken>,
}

impl Caller {
    /// It comes; `None` if it is served at once.
    fn come(users: &KeyedLimiter, cost: u64) -> Option<Self> {
        let woken = Arc::new(Woken(AtomicUsize::new(1)));
        let mut it = Self { future: Box::pin(users.acquire("k").cost(cost)), woken };
        if it.is_served() { None } else { Some(it) }
    }

    fn is_served(&mut self) -> bool {
        if self.woken.0.swap(0, Ordering::SeqCst) == 0 {
            return false;
        }
        let waker = Waker::from(Arc::clone(&self.woken));
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => {
                answer.expect("nobody refuses");
                true
            }
            Poll::Pending => false,
        }
    }
}

fn users(limit: Limit) -> (KeyedLimiter, ManualClock) {
    let clock = ManualClock::shown();
    let users = KeyedLimiter::builder(limit).max_keys(1).clock(&clock).build().unwrap();
    // Before there are threads: loom does not see who has made them.
    let _ = users.shared.store.lines();
    (users, clock)
}

#[test]
fn somebody_who_comes_while_the_clock_moves_is_woken() {
    loom::model(|| {
        let (users, clock) = users(Limit::per_second(1));
        assert!(users.try_acquire("k").allowed());
        let (hands, comes) = (clock.clone(), users.clone());
        let moving = thread::spawn(move || hands.advance(seconds(1)));
        let caller = thread::spawn(move || Caller::come(&comes, 1));
        moving.join().unwrap();
        let served = caller.join().unwrap().is_none_or(|mut caller| caller.is_served());
        assert!(served, "nobody will move the clock again");
        assert!(!users.try_acquire("k").allowed());
    });
}

#[test]
fn somebody_who_comes_while_units_come_back_is_woken() {
    loom::model(|| {
        let (users, _clock) = users(Limit::per_hour(1));
        let held = users.reserve("k", 1).unwrap();
        let comes = users.clone();
        let back = thread::spawn(move || drop(held));
        let caller = thread::spawn(move || Caller::come(&comes, 1));
        back.join().unwrap();
        let served = caller.join().unwrap().is_none_or(|mut caller| caller.is_served());
        assert!(served, "the clock stands still");
    });
}

#[test]
fn somebody_who_comes_while_the_limit_is_raised_is_woken() {
    loom::model(|| {
        let (users, _clock) = users(Limit::per_hour(1));
        assert!(users.try_acquire("k").allowed());
        let (raises, comes) = (users.clone(), users.clone());
        let raising = thread::spawn(move || raises.set_limit(Limit::per_hour(2)).unwrap());
        let caller = thread::spawn(move || Caller::come(&comes, 1));
        raising.join().unwrap();
        let served = caller.join().unwrap().is_none_or(|mut caller| caller.is_served());
        assert!(served, "the clock stands still");
    });
}

#[test]
fn the_one_behind_is_served_when_the_first_leaves_at_the_moment_of_its_service() {
    loom::model(|| {
        let (users, clock) = users(Limit::per_second(1));
        assert!(users.try_acquire("k").allowed());
        let first = Caller::come(&users, 1).unwrap();
        let mut second = Caller::come(&users, 1).unwrap();
        let hands = clock.clone();
        let moving = thread::spawn(move || hands.advance(seconds(1)));
        let leaving = thread::spawn(move || drop(first));
        moving.join().unwrap();
        leaving.join().unwrap();
        // Served in vain or not at all: its unit is there for the next, in the same second.
        assert!(second.is_served());
        assert!(!users.try_acquire("k").allowed());
    });
}

#[test]
fn two_who_come_and_one_who_tries_get_exactly_what_there_is() {
    loom::model(|| {
        let (users, clock) = users(Limit::per(2, seconds(2)));
        let (a, b) = (users.clone(), users.clone());
        let large = thread::spawn(move || Caller::come(&a, 2));
        let small = thread::spawn(move || Caller::come(&b, 1));
        let tried = users.try_acquire("k").allowed();
        let mut waiting: Vec<Caller> =
            [large.join().unwrap(), small.join().unwrap()].into_iter().flatten().collect();
        let asked = 3 + u64::from(tried);
        assert!(!waiting.is_empty(), "there are two units");
        for _ in 0..asked {
            clock.advance(seconds(1));
            waiting.retain_mut(|caller| !caller.is_served());
        }
        assert!(waiting.is_empty());
        // Two at the beginning, one a second: whatever was taken is what was asked.
        clock.advance(seconds(1));
        assert!(users.peek("k").remaining() >= 1);
    });
}

#[test]
fn a_slot_that_is_given_up_is_for_the_next_or_a_hole_but_never_two_starts_at_once() {
    loom::model(|| {
        let limit = Limit::per_second(1).algorithm(Algorithm::LeakyBucket).queue(1);
        let clock = ManualClock::shown();
        let shaper = Shaper::builder(limit).max_keys(1).overflow(Overflow::Refuse).clock(&clock);
        let shaper = shaper.build().unwrap();
        let poll = |ready: &mut crate::Ready| Pin::new(ready).poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll(&mut shaper.ready("k")).is_ready());
        let mut first = shaper.ready("k");
        assert!(poll(&mut first).is_pending());
        let comes = shaper.clone();
        let leaving = thread::spawn(move || drop(first));
        let next = thread::spawn(move || {
            let mut next = comes.ready("k");
            match Pin::new(&mut next).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => Some(next),
                Poll::Ready(answer) => {
                    answer.expect_err("the slot of now is taken");
                    None
                }
            }
        });
        leaving.join().unwrap();
        let next = next.join().unwrap();
        clock.advance(seconds(1));
        if let Some(mut next) = next {
            assert!(matches!(poll(&mut next), Poll::Ready(Ok(_))));
        }
        // Its slot is its own: another starts a second later.
        assert!(shaper.peek("k").unwrap().delay() <= seconds(1));
    });
}
