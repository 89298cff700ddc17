//! The futures of those who wait.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ratekeeper_core::{Ask, Decision, Refused, Verdict};
use smallvec::SmallVec;

use super::lines::{Entry, Lines};
use super::wanted::{One, Said, Wanted};
use crate::receipt::Reservation;

/// One that waits, whatever it waits for.
pub(crate) struct Waiter {
    wanted: Arc<Wanted>,
    within: Option<Duration>,
    place: Option<(Arc<Lines>, usize)>,
}

impl Waiter {
    pub(crate) fn new(parts: SmallVec<[One; 1]>) -> Self {
        Self { wanted: Arc::new(Wanted::new(parts)), within: None, place: None }
    }

    /// The question, as long as it has not been asked.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Wanted)) {
        if let Some(wanted) = Arc::get_mut(&mut self.wanted) {
            change(wanted);
        }
    }

    fn set_within(&mut self, within: Duration) {
        self.within = Some(within);
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Said, Refused>> {
        let answer = match &self.place {
            Some((lines, place)) => lines.look(*place, cx.waker()),
            None => self.begin(cx),
        };
        match (answer, &self.place) {
            (Some(answer), _) => {
                self.place = None;
                Poll::Ready(answer)
            }
            (None, _lines) => {
                #[cfg(feature = "tokio")]
                if let Some((lines, _)) = _lines {
                    super::timer::start_if_needed(lines);
                }
                Poll::Pending
            }
        }
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

    /// Another cost than 1, taken all or none; 0 looks, and never waits but for those ahead.
    pub fn cost(mut self, cost: u64) -> Self {
        self.waiter.change(|wanted| wanted.set_cost(cost));
        self
    }

    /// How long it may wait at most, by the limiter's clock and from the first poll on. If its turn comes later, it is
    /// refused at once, and told when it would have come. Zero: now or not at all, but never past those in line.
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
    type Output = Result<Verdict, Refused>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(self.waiter.poll(cx)) {
            Ok(Said::One(verdict)) => Ok(verdict),
            // One limit says one verdict.
            Ok(Said::All(decision)) => {
                decision.limits().first().copied().ok_or_else(|| {
                    decision.clone().refused_for(ratekeeper_core::Reason::StoreUnavailable, None)
                })
            }
            Err(refused) => Err(refused),
        })
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

    /// The same in a way that can be given back.
    pub fn reserve(self) -> AcquireReservation {
        AcquireReservation { waiter: self.waiter }
    }
}

impl Future for AcquireAll {
    type Output = Result<Decision, Refused>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(ready!(self.waiter.poll(cx)).map(Said::into_decision))
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
    type Output = Result<(Decision, Reservation), Refused>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let said = ready!(self.waiter.poll(cx));
        Poll::Ready(said.map(|said| {
            let reservation = self.waiter.reservation(&said);
            (said.into_decision(), reservation)
        }))
    }
}
