//! The futures of those who wait.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ratekeeper_core::{Ask, Decision, Micros, Refused};
use smallvec::SmallVec;

use super::lines::{Entry, Lines};
use super::shaper::Overflow;
use super::wanted::{One, Said, Wanted};
use crate::receipt::Reservation;

/// A request that has been served in its turn: its units are taken, and its start has come.
#[derive(Clone, Debug)]
pub struct Admitted {
    said: Said,
    waited: Duration,
}

impl Admitted {
    pub(crate) const fn new(said: Said, waited: Duration) -> Self {
        Self { said, waited }
    }

    /// How long it has waited, by the limiter's clock; zero if it was served at once.
    #[must_use]
    pub const fn waited(&self) -> Duration {
        self.waited
    }

    /// How many requests of cost 1 would have been admitted right then, after this one.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        match &self.said {
            Said::One(verdict) => verdict.remaining(),
            Said::All(decision) => decision.remaining,
        }
    }

    /// The decision with all its numbers, of the instant at which the units were taken. Whatever its `delay` says is
    /// over.
    pub fn into_decision(self) -> Decision {
        self.said.into_decision()
    }
}

/// One that waits, whatever it waits for.
pub(crate) struct Waiter {
    wanted: Arc<Wanted>,
    within: Option<Duration>,
    place: Option<(Arc<Lines>, usize)>,
    /// When it began to wait, if it had to.
    began: Option<Micros>,
}

impl Waiter {
    pub(crate) fn new(parts: SmallVec<[One; 1]>) -> Self {
        Self { wanted: Arc::new(Wanted::new(parts)), within: None, place: None, began: None }
    }

    /// The question, as long as it has not been asked.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Wanted)) {
        if let Some(wanted) = Arc::get_mut(&mut self.wanted) {
            change(wanted);
        }
    }

    pub(crate) fn set_within(&mut self, within: Duration) {
        self.within = Some(within);
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Admitted, Refused>> {
        let answer = match &self.place {
            Some((lines, place)) => lines.look(*place, cx.waker()),
            None => self.begin(cx),
        };
        let Some(answer) = answer else {
            #[cfg(feature = "tokio")]
            if let Some((lines, _)) = &self.place {
                super::timer::start_if_needed(lines);
            }
            return Poll::Pending;
        };
        let waited = self.place.take().zip(self.began).map(|((lines, _), began)| lines.since(began));
        Poll::Ready(answer.map(|said| Admitted::new(said, waited.unwrap_or_default())))
    }

    fn begin(&mut self, cx: &mut Context<'_>) -> Option<Result<Said, Refused>> {
        let Some(store) = self.wanted.store() else {
            return Some(Ok(Said::All(Decision::of(Vec::new()))));
        };
        // Nobody in line, so nobody is passed by; and no slot that could be too late.
        if !store.is_anybody_in_line() && !self.wanted.has_queue() {
            let said = self.wanted.ask(Ask::Acquire);
            if said.allowed() {
                return Some(Ok(said));
            }
        }
        let lines = store.lines();
        match lines.enter(&self.wanted, self.within, cx.waker()) {
            Entry::Done(answer) => Some(answer),
            Entry::Waits(place) => {
                self.began = Some(lines.now());
                self.place = Some((Arc::clone(lines), place));
                None
            }
        }
    }

    fn reservation(&self, said: &Said) -> Reservation {
        self.wanted.reservation(said)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some((lines, place)) = self.place.take()
            && let Some(said) = lines.leave(place)
        {
            // It has been served and will never know.
            drop(self.reservation(&said));
        }
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiter")
            .field("limit", &self.wanted.limit())
            .field("within", &self.within)
            .field("waits", &self.place.is_some())
            .finish()
    }
}

/// Units of one limit, when it is one's turn: see [`KeyedLimiter::acquire`](crate::KeyedLimiter::acquire). It begins
/// to wait when it is polled first, and may be dropped at any time.
#[derive(Debug)]
#[must_use = "it takes nothing until it is awaited"]
pub struct Acquire {
    waiter: Waiter,
}

impl Acquire {
    pub(crate) fn new(one: One) -> Self {
        Self { waiter: Waiter::new(SmallVec::from_buf([one])) }
    }

    /// Another cost than 1, taken all or none; 0 looks, and never waits but for those ahead. It changes nothing any more
    /// once the future has been polled and waits.
    pub fn cost(mut self, cost: u64) -> Self {
        self.waiter.change(|wanted| wanted.set_cost(cost));
        self
    }

    /// How long it may wait at most, by the limiter's clock and from the first poll on. If its turn comes later, it is
    /// refused at once, and told when it would have come. Zero: now or not at all, but never past those in line.
    /// It changes nothing any more once the future has been polled.
    pub fn within(mut self, within: Duration) -> Self {
        self.waiter.set_within(within);
        self
    }

    /// The same in a way that can be given back: dropping the [`Reservation`] gives the units back.
    pub fn reserve(self) -> AcquireReservation {
        AcquireReservation { waiter: self.waiter }
    }
}

impl Future for Acquire {
    type Output = Result<Admitted, Refused>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.waiter.poll(cx)
    }
}

/// Units of several limits at once: see [`All::acquire`](crate::All::acquire).
#[derive(Debug)]
#[must_use = "it takes nothing until it is awaited"]
pub struct AcquireAll {
    waiter: Waiter,
}

impl AcquireAll {
    pub(crate) fn new(parts: SmallVec<[One; 1]>) -> Self {
        Self { waiter: Waiter::new(parts) }
    }

    /// How long it may wait at most: see [`Acquire::within`].
    pub fn within(mut self, within: Duration) -> Self {
        self.waiter.set_within(within);
        self
    }

    /// What becomes of it if one of the limits is a leaky bucket with a queue, and some limit has no room for it now:
    /// unless said otherwise it is refused, and with [`Overflow::Wait`] it stands in line. Without such a limit it stands in
    /// line anyway.
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.waiter.change(|wanted| wanted.stands_in_line_for_a_queue = overflow == Overflow::Wait);
        self
    }

    /// The same in a way that can be given back.
    pub fn reserve(self) -> AcquireReservation {
        AcquireReservation { waiter: self.waiter }
    }
}

impl Future for AcquireAll {
    type Output = Result<Admitted, Refused>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.waiter.poll(cx)
    }
}

/// What [`Acquire::reserve`] and [`AcquireAll::reserve`] wait for: units that may yet be given back.
#[derive(Debug)]
#[must_use = "it takes nothing until it is awaited"]
pub struct AcquireReservation {
    waiter: Waiter,
}

impl AcquireReservation {
    /// How long it may wait at most: see [`Acquire::within`].
    pub fn within(mut self, within: Duration) -> Self {
        self.waiter.set_within(within);
        self
    }
}

impl Future for AcquireReservation {
    type Output = Result<(Admitted, Reservation), Refused>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let admitted = ready!(self.waiter.poll(cx));
        Poll::Ready(admitted.map(|admitted| {
            let reservation = self.waiter.reservation(&admitted.said);
            (admitted, reservation)
        }))
    }
}
