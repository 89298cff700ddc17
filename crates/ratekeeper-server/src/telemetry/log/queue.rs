//! Lines on their way to whoever reads them, who may be slow: bounded, and written by a thread of their own.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How many bytes of lines wait: about four thousand of the usual 250. A pipe holds 64 KiB; whoever lets that and
/// sixteen times as much lie has stopped reading.
pub(super) const MAX_WAITING_BYTES: usize = 1_024 * 1_024;

/// Takes lines without waiting for their reader.
pub(super) struct Queue {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// There is something to do for the writer.
    more: Condvar,
    /// There is nothing left to do.
    idle: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<String>,
    waiting_bytes: usize,
    is_writing: bool,
    is_closed: bool,
}

impl Queue {
    /// Starts the thread that writes to `sink`. It ends with the queue, when what waits is written.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(super) fn start(sink: Box<dyn Write + Send>) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let writer = Arc::clone(&shared);
        thread::Builder::new().name("log".to_owned()).spawn(move || writer.write_all(sink))?;
        Ok(Self { shared })
    }

    /// Takes a line, or says that there is no place for it.
    pub(super) fn push(&self, line: String) -> bool {
        let mut state = self.shared.lock();
        if state.waiting_bytes + line.len() > MAX_WAITING_BYTES {
            return false;
        }
        state.waiting_bytes += line.len();
        state.waiting.push_back(line);
        drop(state);
        self.shared.more.notify_one();
        true
    }

    /// Waits until nothing waits, or for as long as `patience`.
    pub(super) fn flush(&self, patience: Duration) {
        let state = self.shared.lock();
        let is_busy = |state: &mut State| state.is_writing || !state.waiting.is_empty();
        // Poisoned or timed out: nothing more can be done for the lines.
        let _ = self.shared.idle.wait_timeout_while(state, patience, is_busy);
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.more.notify_one();
    }
}

impl Shared {
    /// Nothing is half done under the lock, so a poisoned one is as good.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes lines, each with one call, until the queue is closed and empty.
    fn write_all(&self, mut sink: Box<dyn Write + Send>) {
        let mut is_torn = false;
        while let Some(mut line) = self.next() {
            if is_torn {
                // A part of the line before may have been written: this one begins on its own.
                line.insert(0, '\n');
            }
            // Closed or full: there is nobody else to tell, and it is no reason to stop serving.
            is_torn = sink.write_all(line.as_bytes()).is_err();
        }
    }

    /// The next line; `None` when there will be no more.
    fn next(&self) -> Option<String> {
        let mut state = self.lock();
        state.is_writing = false;
        if state.waiting.is_empty() {
            self.idle.notify_all();
        }
        let waits = |state: &mut State| state.waiting.is_empty() && !state.is_closed;
        let mut state = self.more.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        let line = state.waiting.pop_front();
        state.waiting_bytes -= line.as_ref().map_or(0, String::len);
        state.is_writing = line.is_some();
        line
    }
}

#[cfg(test)]
mod tests;
