//! The one timer of a store: a task that sleeps until something is due. It is there only while somebody waits.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use super::lines::Lines;

/// The longest that it sleeps at a time: after that it looks at the clock of decisions, which may have been corrected
/// meanwhile.
const LONGEST_SLEEP: Duration = Duration::from_secs(3_600);

/// Starts a timer, if one is needed and none is there.
pub(super) fn start_if_needed(lines: &Arc<Lines>) {
    if lines.lacks_timer() {
        // Outside a runtime this panics, as all timers of tokio do; dropping the timer then says that it is gone.
        let timer = Timer { lines: Arc::clone(lines), sleep: None, is_over: false };
        drop(tokio::spawn(timer));
    }
}

struct Timer {
    lines: Arc<Lines>,
    sleep: Option<Pin<Box<Sleep>>>,
    is_over: bool,
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let Some(wait) = self.lines.run_timer(cx.waker()) else {
                self.is_over = true;
                return Poll::Ready(());
            };
            // tokio rounds up to its next millisecond, so this is never early.
            let until = Instant::now() + wait.min(LONGEST_SLEEP);
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
            sleep.as_mut().reset(until);
            ready!(sleep.as_mut().poll(cx));
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if !self.is_over {
            self.lines.lose_timer();
        }
    }
}
