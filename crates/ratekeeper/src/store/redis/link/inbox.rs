//! What callers leave for the thread. It is woken for what it can use at once, and not for each question: while it
//! waits for a server that is at work, few more would only make it look up and lie down again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::hub::Message;

/// See the module.
#[derive(Default)]
pub(super) struct Inbox {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Default)]
struct State {
    messages: Vec<Message>,
    /// `None`: the thread is at work, and looks here before it sleeps.
    sleep: Option<Sleep>,
    is_closed: bool,
}

/// What ends a sleep.
#[derive(Clone, Copy)]
pub(super) struct Sleep {
    /// So many questions.
    pub(super) questions: usize,
    /// One that must be answered before this, when the thread looks up anyway.
    pub(super) until: Instant,
}

/// Closes the inbox when it is dropped, and throws away what nobody has taken: whoever waits for its answer is told.
pub(super) struct Closing(pub(super) Arc<Inbox>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
        let messages = std::mem::take(&mut self.0.lock().messages);
        drop(messages);
    }
}

impl Sleep {
    fn is_ended_by(&self, messages: &[Message]) -> bool {
        let is_urgent = |message: &Message| match message {
            Message::Job(_, deadline) => *deadline < self.until,
            Message::AskAll(_) => true,
        };
        messages.len() >= self.questions || messages.iter().any(is_urgent)
    }
}

impl Inbox {
    /// Leaves a message. It comes back if nobody is there any more.
    pub(super) fn send(&self, message: Message) -> Option<Message> {
        let mut state = self.lock();
        if state.is_closed {
            return Some(message);
        }
        state.messages.push(message);
        let newest = state.messages.len() - 1;
        // Those before it have not ended the sleep, so it is the last or the number of all that may.
        let ends = state.sleep.is_some_and(|sleep| {
            state.messages.len() >= sleep.questions || sleep.is_ended_by(&state.messages[newest..])
        });
        if ends {
            state.sleep = None;
        }
        drop(state);
        if ends {
            self.wake.notify_one();
        }
        None
    }

    /// Says that no message is to come: the thread takes what there is, and ends.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.sleep = None;
        drop(state);
        self.wake.notify_one();
    }

    /// Takes what there is. False if nothing is to come either.
    pub(super) fn take(&self, messages: &mut Vec<Message>) -> bool {
        let mut state = self.lock();
        state.sleep = None;
        if state.messages.is_empty() {
            return !state.is_closed;
        }
        std::mem::swap(&mut state.messages, messages);
        true
    }

    /// Comes back when the sleep is over, at once if it would not have begun.
    pub(super) async fn slept(&self, sleep: Sleep) {
        {
            let mut state = self.lock();
            if state.is_closed || sleep.is_ended_by(&state.messages) {
                return;
            }
            state.sleep = Some(sleep);
        }
        self.wake.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
