//! A server: its connection, what waits for it, and what it has been asked.

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use ratekeeper_core::Trouble;
use redis::Cmd;
use redis::aio::MultiplexedConnection;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Said;
use super::command::{Command, Pending};

/// Rounds that are on the way to one server at once. With one it idles while its answer travels; with more, jobs
/// are spread over more and smaller commands.
pub(super) const MAX_IN_FLIGHT: usize = 2;

/// The first pause after a failed attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// A plain command that waits for a connection.
pub(super) struct Ask {
    pub(super) command: Cmd,
    pub(super) deadline: Instant,
    pub(super) reply: oneshot::Sender<Said>,
}

/// A connection that serves.
pub(super) struct Live {
    pub(super) connection: MultiplexedConnection,
    /// Dropped, it ends the driver, and with it the connection.
    pub(super) _end: oneshot::Sender<()>,
    pub(super) since: Instant,
    /// When something came last.
    pub(super) heard_at: Instant,
    /// It is asked nothing more, and replaced when what it has been asked is answered.
    pub(super) is_leaving: bool,
}

pub(super) enum State {
    /// Nobody needs it.
    Idle,
    Connecting,
    Up(Live),
    /// The last attempt has failed, or was not worth making yet.
    Down {
        retry_at: Instant,
        trouble: Trouble,
    },
}

pub(super) struct Node {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) state: State,
    /// Counts attempts: what belongs to an older one is not listened to.
    pub(super) generation: u64,
    /// It is to be connected all the time.
    pub(super) is_wanted: bool,
    /// It stands in the configuration.
    pub(super) is_seed: bool,
    pub(super) queue: VecDeque<Pending>,
    /// Commands that go as they are: with the text of their script, or with ASKING.
    pub(super) again: VecDeque<Command>,
    pub(super) asks: Vec<Ask>,
    pub(super) in_flight: Vec<Command>,
    /// The rounds on the way, and how many commands of each are not answered.
    pub(super) rounds: Vec<(u64, usize)>,
    pause: Duration,
}

impl Node {
    pub(super) fn new(host: String, port: u16, is_seed: bool) -> Self {
        Self {
            host,
            port,
            state: State::Idle,
            generation: 0,
            is_wanted: false,
            is_seed,
            queue: VecDeque::new(),
            again: VecDeque::new(),
            asks: Vec::new(),
            in_flight: Vec::new(),
            rounds: Vec::new(),
            pause: FIRST_PAUSE,
        }
    }

    pub(super) fn name(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Up(_))
    }

    /// Whether nobody would miss it.
    pub(super) fn is_forgettable(&self) -> bool {
        matches!(self.state, State::Idle)
            && !self.is_seed
            && !self.is_wanted
            && self.queue.is_empty()
            && self.again.is_empty()
            && self.asks.is_empty()
            && self.in_flight.is_empty()
    }

    /// Whether another round may go.
    pub(super) fn is_ready(&self) -> bool {
        matches!(&self.state, State::Up(live) if !live.is_leaving)
            && self.rounds.len() < MAX_IN_FLIGHT
            && (!self.again.is_empty() || !self.queue.is_empty() && self.room() == 0)
    }

    /// How many more questions make a round that may go: the first goes at once, and behind it one that is as large as
    /// what is on its way. A smaller one would be answered no sooner, for the server is at work; so it and its callers are
    /// at work at the same time, each with half of the questions.
    pub(super) fn room(&self) -> usize {
        let wanted = match self.rounds.len() {
            MAX_IN_FLIGHT.. => return usize::MAX,
            0 => 1,
            _ => self.in_flight.iter().map(|command| command.jobs.len()).sum::<usize>().max(1),
        };
        wanted.saturating_sub(self.queue.len())
    }

    /// When the silence of its connection becomes too long, if it has been asked something.
    pub(super) fn suspect_at(&self, patience: Duration) -> Option<Instant> {
        let State::Up(live) = &self.state else { return None };
        let oldest = self.in_flight.iter().map(|command| command.sent_at).min()?;
        Some(oldest.max(live.heard_at) + patience)
    }

    /// Marks a command of a round as answered.
    pub(super) fn close_round(&mut self, round: u64) {
        if let Some(at) = self.rounds.iter().position(|(id, _)| *id == round) {
            self.rounds[at].1 -= 1;
            if self.rounds[at].1 == 0 {
                self.rounds.swap_remove(at);
            }
        }
    }

    pub(super) fn reset_pause(&mut self) {
        self.pause = FIRST_PAUSE;
    }

    /// How long to wait before the next attempt: twice as long each time, up to `longest`, and up to a quarter
    /// more, so that a fleet does not come back in step.
    pub(super) fn next_pause(&mut self, longest: Duration) -> Duration {
        let pause = self.pause.min(longest);
        self.pause = (pause * 2).min(longest);
        let quarters = u32::try_from(RandomState::new().hash_one(0) % 256).unwrap_or(0);
        pause + pause / 1024 * quarters
    }
}
