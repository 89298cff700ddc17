//! Callers that wait, each polled only when it was woken, on no runtime.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use ratekeeper::{Clock as _, KeyedLimiter, Limit, ManualClock, Micros, Reason, Refused, seconds};

/// Says that somebody was woken.
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(false)))
    }

    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

type Waiting<T> = Pin<Box<dyn Future<Output = Result<T, Refused>>>>;

struct Caller<T> {
    future: Option<Waiting<T>>,
    flag: Arc<Flag>,
}

/// How a wait has ended.
pub(crate) type End<T> = Result<T, Refused>;

/// Callers in the order in which they came. Each is known by its number.
pub(crate) struct Crowd<T> {
    pub(crate) clock: ManualClock,
    callers: Vec<Caller<T>>,
    /// Who has been served or refused, and when, in that order.
    pub(crate) ends: Vec<(usize, Micros, End<T>)>,
}

impl<T> Crowd<T> {
    pub(crate) fn new(clock: &ManualClock) -> Self {
        Self { clock: clock.clone(), callers: Vec::new(), ends: Vec::new() }
    }

    /// Somebody comes, and is polled once.
    pub(crate) fn come(&mut self, future: impl Future<Output = End<T>> + 'static) -> usize {
        self.callers.push(Caller { future: Some(Box::pin(future)), flag: Flag::new() });
        let number = self.callers.len() - 1;
        self.poll(number);
        number
    }

    fn poll(&mut self, number: usize) {
        let caller = &mut self.callers[number];
        let Some(future) = &mut caller.future else { return };
        let waker = Waker::from(Arc::clone(&caller.flag));
        if let Poll::Ready(end) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            caller.future = None;
            self.ends.push((number, self.clock.now(), end));
        }
    }

    /// Polls whoever was woken, until nobody is.
    pub(crate) fn settle(&mut self) {
        while let Some(woken) = self.callers.iter().position(|caller| caller.flag.take()) {
            self.poll(woken);
        }
    }

    /// Somebody goes away.
    pub(crate) fn go(&mut self, number: usize) {
        self.callers[number].future = None;
        self.settle();
    }

    pub(crate) fn advance(&mut self, by: Duration) {
        self.clock.advance(by);
        self.settle();
    }

    pub(crate) fn is_waiting(&self, number: usize) -> bool {
        self.callers[number].future.is_some()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.callers.iter().filter(|caller| caller.future.is_some()).count()
    }

    /// Who was served, and in which second.
    pub(crate) fn served(&self) -> Vec<(usize, u64)> {
        let served = self.ends.iter().filter(|(.., end)| end.is_ok());
        served.map(|(number, at, _)| (*number, at.get() / 1_000_000)).collect()
    }

    /// Why somebody was refused, what it was told, and in which second.
    #[track_caller]
    pub(crate) fn refused(&self, number: usize) -> (Reason, Option<Duration>, u64) {
        let (_, at, end) = self.ends.iter().find(|(it, ..)| *it == number).expect("it has an answer");
        let refused = end.as_ref().err().expect("a refusal");
        assert!(!refused.decision().allowed);
        (refused.reason().unwrap(), refused.retry_after(), at.get() / 1_000_000)
    }
}

/// A limiter under a clock at the epoch, with so many units of the key `k` taken.
pub(crate) fn limiter(limit: Limit, taken: u64) -> (KeyedLimiter, ManualClock) {
    let clock = ManualClock::new();
    let limiter = KeyedLimiter::builder(limit).max_keys(100).clock(&clock).build().unwrap();
    assert!(limiter.try_acquire_n("k", taken).allowed());
    (limiter, clock)
}

/// Moves the clock on by whole seconds, and lets everybody see each.
pub(crate) fn for_seconds<T>(crowd: &mut Crowd<T>, n: u64) {
    for _ in 0..n {
        crowd.advance(seconds(1));
    }
}
