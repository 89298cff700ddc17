//! Those who wait for one store: a line per key, one agenda of instants, one lock.
//!
//! Whoever stands first in a line asks the store; the others do not. All that happens at some instant is in the agenda, so one
//! timer, or one sleeper of a [`ManualClock`](crate::ManualClock), serves everybody: whoever is woken calls
//! [`Lines::run`], which does what is due. It does not matter whether those who are served are being polled.
//!
//! Nothing foreign runs under the lock but the clock and the calendar: wakers are called, and dropped, after it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Wake, Waker};
use std::time::Duration;

use ratekeeper_core::{Micros, Reason, Refused};
#[cfg(feature = "tokio")]
use tokio::runtime::Id;

use super::newcomer::Newcomer;
use super::standing::{After, Stage, State};
use super::wanted::{Said, Wanted};
use crate::clock::StoreClock;
use crate::sync::{AtomicUsize, Mutex, lock};

/// The most that wait for one store, in all its lines and for all their starts: at 300 bytes each, 20 MB. More than
/// that have no chance anyway, and whoever makes up keys is not to take the memory.
pub(crate) const MAX_WAITING_IN_ALL: usize = 65_536;

/// See the module.
pub(crate) struct Lines {
    clock: StoreClock,
    /// The most in one line.
    max_waiting: usize,
    /// How many stand in lines: while none does, nobody looks at them.
    standing: AtomicUsize,
    state: Mutex<State>,
    /// What a clock wakes that wakes sleepers.
    alarm: OnceLock<Waker>,
    /// Whether the clock does; else a timer has to.
    is_woken_by_clock: AtomicBool,
}

/// What came of an entry.
pub(crate) enum Entry {
    Done(Result<Said, Refused>),
    Waits(usize),
}

impl Lines {
    pub(crate) fn new(clock: StoreClock, max_waiting: usize) -> Self {
        Self {
            clock,
            max_waiting,
            standing: AtomicUsize::new(0),
            state: Mutex::new(State::default()),
            alarm: OnceLock::new(),
            is_woken_by_clock: AtomicBool::new(false),
        }
    }

    /// Whether anybody stands in any line.
    pub(crate) fn is_anybody_in_line(&self) -> bool {
        // Whoever had entered before this call began is seen.
        self.standing.load(Ordering::Acquire) > 0
    }

    pub(crate) fn now(&self) -> Micros {
        self.clock.now()
    }

    /// The time since then.
    pub(crate) fn since(&self, then: Micros) -> Duration {
        then.until(self.clock.now())
    }

    /// Serves the request at once, refuses it at once, or gives it a place.
    pub(crate) fn enter(
        self: &Arc<Self>,
        wanted: &Arc<Wanted>,
        within: Option<Duration>,
        waker: &Waker,
    ) -> Entry {
        let newcomer = Newcomer { wanted, within, waker, clock: &self.clock, max_waiting: self.max_waiting };
        let mut unwanted = None;
        let entry = self.with(|state, _| {
            // Before it is asked: whoever gives back after the answer looks at the lines after that, and is to see it.
            self.standing.store(state.standing + 1, Ordering::Release);
            newcomer.enter(state, &mut unwanted)
        });
        if let Some(said) = unwanted {
            drop(wanted.reservation(&said));
        }
        entry
    }

    /// What has become of a place: its answer, once, or `None` while it waits.
    pub(crate) fn look(&self, place: usize, waker: &Waker) -> Option<Result<Said, Refused>> {
        let mut after = After::default();
        let answer = lock(&self.state).look(place, waker, &mut after);
        drop(after);
        answer
    }

    /// Gives a place up. What it had been given is handed out: the caller is to give it back to the store.
    pub(crate) fn leave(self: &Arc<Self>, place: usize) -> Option<Said> {
        self.with(|state, after| {
            let said = match std::mem::replace(&mut state.places[place].stage, Stage::Nobody) {
                Stage::Starting(said) | Stage::Done(Ok(said)) => Some(said),
                Stage::InLine => {
                    let (line, was_first) = state.unlink(place);
                    state.forget_tail(line);
                    if was_first {
                        state.serve(line, &self.clock, after);
                    }
                    None
                }
                Stage::Nobody | Stage::Done(Err(_)) => None,
            };
            state.vacate(place, after);
            said
        })
    }

    /// Does what is due.
    pub(crate) fn run(self: &Arc<Self>) {
        self.with(|state, after| state.do_what_is_due(&self.clock, after));
    }

    /// Units have come back to a key, or its limit has changed; `None`: to any.
    pub(crate) fn ask_again(self: &Arc<Self>, line: Option<u64>) {
        self.with(|state, after| {
            let lines: Vec<u64> = match line {
                Some(line) => vec![line],
                None => state.lines.keys().copied().collect(),
            };
            for line in lines {
                state.forget_tail(line);
                state.serve(line, &self.clock, after);
            }
        });
    }

    /// Refuses all who stand in line, and from now on all who would have to.
    pub(crate) fn close(self: &Arc<Self>) {
        self.with(|state, after| {
            state.is_closed = true;
            let lines: Vec<u64> = state.lines.keys().copied().collect();
            for line in lines {
                while let Some(first) = state.lines.get(&line).map(|line| line.first) {
                    state.unlink(first);
                    state.refuse(first, Some((Reason::Closed, None)), after);
                }
            }
        });
    }

    /// Changes the state; then wakes those who were served, and sees to it that somebody comes back in time.
    fn with<T>(self: &Arc<Self>, change: impl FnOnce(&mut State, &mut After) -> T) -> T {
        let mut after = After::default();
        let answer = {
            let mut state = lock(&self.state);
            state.read(&self.clock);
            let answer = change(&mut state, &mut after);
            self.standing.store(state.standing, Ordering::Release);
            after.next = state.agenda.first().map(|(at, _)| *at);
            #[cfg(feature = "tokio")]
            state.timers.rouse(after.next, &mut after);
            answer
        };
        drop(after.dropped);
        after.woken.into_iter().for_each(Waker::wake);
        if let Some(at) = after.next {
            let alarm = self.alarm.get_or_init(|| Arc::new(Alarm(Arc::downgrade(self))).into());
            self.is_woken_by_clock.store(self.clock.wake_at(at, alarm), Ordering::Relaxed);
        }
        answer
    }

    /// Whether the clock wakes those who wait; else they need a timer.
    #[cfg(feature = "tokio")]
    pub(crate) fn is_woken_by_clock(&self) -> bool {
        self.is_woken_by_clock.load(Ordering::Relaxed)
    }

    /// Whether a timer is to be started on this runtime, by the one who is told so.
    #[cfg(feature = "tokio")]
    pub(super) fn lacks_timer(&self, runtime: Id) -> bool {
        let mut state = lock(&self.state);
        !state.agenda.is_empty() && state.timers.add(runtime)
    }

    /// Does what is due, for the timer of this runtime: how long it is to sleep, or `None` if nobody waits any more, and
    /// it is to end.
    #[cfg(feature = "tokio")]
    pub(super) fn run_timer(self: &Arc<Self>, runtime: Id, waker: &Waker) -> Option<Duration> {
        self.with(|state, after| {
            state.do_what_is_due(&self.clock, after);
            let next = state.agenda.first().map(|(at, _)| *at);
            state.timers.set(runtime, next.map(|next| (next, waker.clone())), after);
            Some(self.clock.now().until(next?))
        })
    }

    /// The timer of this runtime is gone before its time: those who have moved to another are to start one there.
    #[cfg(feature = "tokio")]
    pub(super) fn lose_timer(self: &Arc<Self>, runtime: Id) {
        self.with(|state, after| {
            state.timers.set(runtime, None, after);
            after.woken.extend(state.places.iter().filter_map(|place| place.waker.clone()));
        });
    }
}

/// What a clock wakes. It keeps nothing alive.
struct Alarm(Weak<Lines>);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        if let Some(lines) = self.0.upgrade() {
            lines.run();
        }
    }
}
