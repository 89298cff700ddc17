//! How somebody comes to wait: served at once, refused at once, or at the end of a line.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use ratekeeper_core::{Ask, Reason};

use super::lines::{Entry, MAX_WAITING_IN_ALL};
use super::standing::{Stage, State};
use super::wanted::{Said, Wanted};
use crate::clock::StoreClock;

/// Somebody who asks for a place.
pub(super) struct Newcomer<'a> {
    pub(super) wanted: &'a Arc<Wanted>,
    pub(super) within: Option<Duration>,
    pub(super) waker: &'a Waker,
    pub(super) clock: &'a StoreClock,
    pub(super) max_waiting: usize,
}

fn refuse(said: Said, reason: Reason, wait: Option<Duration>) -> Entry {
    Entry::Done(Err(said.refused(Some((reason, wait)))))
}

impl Newcomer<'_> {
    fn is_late(&self, wait: Duration) -> bool {
        self.within.is_some_and(|within| wait > within)
    }

    /// `unwanted` is what was taken and is to be given back.
    pub(super) fn enter(&self, state: &mut State, unwanted: &mut Option<Said>) -> Entry {
        let has_line = state.lines.contains_key(&self.wanted.line());
        if has_line && !self.wanted.waits_in_queues_only() {
            let said = self.wanted.ask(Ask::Peek);
            let own = if said.allowed() { Some(Duration::ZERO) } else { said.wait() };
            return self.stand(state, said, own);
        }
        // A slot that is not to be had is not taken: given back later, it might stay as a hole.
        if (self.within.is_some() || state.is_closed) && self.wanted.has_queue() {
            let look = self.wanted.ask(Ask::Peek);
            if look.allowed()
                && let Some((reason, wait)) = self.why_not(state, look.delay())
            {
                return refuse(look, reason, wait);
            }
        }
        let said = self.wanted.ask(Ask::Acquire);
        if said.allowed() {
            return self.start(state, said, unwanted);
        }
        let own = said.wait();
        self.stand(state, said, own)
    }

    /// Why it is not to wait so long for a start, and the wait that it is told.
    fn why_not(&self, state: &State, delay: Duration) -> Option<(Reason, Option<Duration>)> {
        if state.is_closed && !delay.is_zero() {
            Some((Reason::Closed, None))
        } else {
            self.is_late(delay).then_some((Reason::TooLate, Some(delay)))
        }
    }

    /// It is admitted: now, or from the beginning of its slot on.
    fn start(&self, state: &mut State, said: Said, unwanted: &mut Option<Said>) -> Entry {
        let delay = said.delay();
        let (reason, wait) = if let Some(why) = self.why_not(state, delay) {
            // Somebody who does not wait came between the look and the slot.
            why
        } else if delay.is_zero() {
            return Entry::Done(Ok(said));
        } else if state.len() >= MAX_WAITING_IN_ALL {
            (Reason::QueueFull, Some(delay))
        } else {
            let start = self.clock.now().saturating_add(delay);
            let place = state.place(self.wanted, Stage::Starting(said), self.waker);
            state.note(place, Some(start));
            return Entry::Waits(place);
        };
        *unwanted = Some(said.clone());
        refuse(said, reason, wait)
    }

    /// It would have to wait, at least for so long as it would alone.
    fn stand(&self, state: &mut State, said: Said, own: Option<Duration>) -> Entry {
        let Some(own) = own else { return Entry::Done(Err(said.refused(None))) };
        if state.is_closed {
            return refuse(said, Reason::Closed, None);
        }
        if self.wanted.is_refused_by_its_queue(&said) {
            return refuse(said, Reason::QueueFull, Some(own));
        }
        let now = state.last;
        let line = self.wanted.line();
        let has_line = state.lines.contains_key(&line);
        let mut wait = own;
        if self.within.is_some() && (has_line || self.wanted.has_queue()) {
            wait = state.wait_behind(self.wanted, now).map_or(own, |behind| behind.max(own));
        }
        let zero_is_late = wait.is_zero() && has_line && self.within.is_some_and(|within| within.is_zero());
        if self.is_late(wait) || zero_is_late {
            return refuse(said, Reason::TooLate, Some(wait));
        }
        let len = state.lines.get(&line).map_or(0, |line| line.len);
        if len >= self.max_waiting || state.len() >= MAX_WAITING_IN_ALL {
            return refuse(said, Reason::QueueFull, Some(wait));
        }
        let place = state.place(self.wanted, Stage::InLine, self.waker);
        // Its time begins with a reading after the answer, its turn with one before: rounding makes nobody late.
        state.places[place].deadline = self.within.map(|within| self.clock.now().saturating_add(within));
        state.join(place, self.wanted);
        state.note_due(place, (!has_line).then(|| now.saturating_add(own)));
        Entry::Waits(place)
    }
}
