//! The timers of a store: on each runtime from which somebody waits a task that sleeps until something is due. They are
//! there only while somebody waits.
//!
//! One of them serves everybody. There is one on each runtime all the same, since no runtime can rely on another being
//! driven: one of a single thread stands still between two calls of `block_on`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use ratekeeper_core::Micros;
use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, Sleep};

use super::lines::Lines;
use super::standing::After;

/// The longest that one sleeps at a time: after that it looks at the clock of decisions, which may have been corrected
/// meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(3_600);

/// Starts a timer on the runtime of whoever is being polled, if one is needed and none is there.
///
/// # Panics
/// Outside a runtime, and on one without timers, as all timers of tokio do.
pub(super) fn start_if_needed(lines: &Arc<Lines>) {
    if lines.is_woken_by_clock() {
        return;
    }
    let runtime = Handle::current().id();
    if lines.lacks_timer(runtime) {
        // If the next line panics, dropping this says that there is no timer.
        let mut timer = Timer { lines: Arc::clone(lines), runtime, sleep: None, is_over: false };
        // Here and not in the task: there nobody would see the panic, and another would be started in its place.
        timer.sleep = Some(Box::pin(tokio::time::sleep_until(Instant::now())));
        drop(tokio::spawn(timer));
    }
}

struct Timer {
    lines: Arc<Lines>,
    runtime: Id,
    /// Always there once it has been started.
    sleep: Option<Pin<Box<Sleep>>>,
    is_over: bool,
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let wait = self.lines.run_timer(self.runtime, cx.waker());
            let Some((wait, sleep)) = wait.zip(self.sleep.as_mut()) else {
                self.is_over = true;
                return Poll::Ready(());
            };
            // tokio rounds up to its next millisecond, so this is never early.
            sleep.as_mut().reset(Instant::now() + wait.min(LONGEST_SLEEP));
            ready!(sleep.as_mut().poll(cx));
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if !self.is_over {
            self.lines.lose_timer(self.runtime);
        }
    }
}

/// Which timers there are: at most one for each runtime of the process.
#[derive(Default)]
pub(super) struct Timers(Vec<Known>);

struct Known {
    runtime: Id,
    /// Until when it sleeps; none if it will look at the agenda anyway.
    asleep: Option<(Micros, Waker)>,
}

impl Timers {
    /// Whether this runtime has none yet. From now on it has one, which is awake.
    pub(super) fn add(&mut self, runtime: Id) -> bool {
        let is_new = self.0.iter().all(|known| known.runtime != runtime);
        if is_new {
            self.0.push(Known { runtime, asleep: None });
        }
        is_new
    }

    /// One of them goes to sleep, or is no more.
    pub(super) fn set(&mut self, runtime: Id, asleep: Option<(Micros, Waker)>, after: &mut After) {
        let Some(i) = self.0.iter().position(|known| known.runtime == runtime) else { return };
        let before = match asleep {
            Some(asleep) => self.0[i].asleep.replace(asleep),
            None => self.0.swap_remove(i).asleep,
        };
        after.dropped.extend(before.map(|(_, waker)| waker));
    }

    /// Wakes those that are to sleep for less long, or not at all.
    pub(super) fn rouse(&mut self, first: Option<Micros>, after: &mut After) {
        for known in &mut self.0 {
            let sleeps_too_long = |(until, _): &mut (Micros, Waker)| first.is_none_or(|first| first < *until);
            after.woken.extend(known.asleep.take_if(sleeps_too_long).map(|(_, waker)| waker));
        }
    }
}
