//! A door for the fuzz targets, which are a workspace of their own: what reads bytes of strangers, as functions.
//! Compiled for them only (`--cfg fuzzing`).

use std::sync::Arc;
use std::time::Duration;

use ratekeeper_core::{Ask, Clock as _, ManualClock, Micros};
use ratekeeper_policy::Config;

use crate::app::App;
use crate::transport::http::lane::{self, Desk};
use crate::transport::http::question::{CheckRequest, Ending, parse_batch};
use crate::transport::http::service::Service;
use crate::transport::http::wishes;

/// A check or a reservation that was accepted.
#[derive(PartialEq, Eq, Debug)]
pub struct Question {
    pub policy: String,
    pub key: Option<String>,
    pub keys: Vec<(String, String)>,
    pub cost: u64,
    pub peeks: bool,
}

impl Question {
    fn of(request: CheckRequest<'_>) -> Self {
        Self {
            policy: request.policy.into_owned(),
            key: request.key.map(Into::into),
            keys: request.keys.into_iter().map(|(name, key)| (name.into(), key.into())).collect(),
            cost: request.cost.unwrap_or(1),
            peeks: request.ask == Ask::Peek,
        }
    }
}

#[must_use]
pub fn check(body: &[u8]) -> Option<Question> {
    CheckRequest::parse(body).ok().map(Question::of)
}

#[must_use]
pub fn reserve(body: &[u8]) -> Option<Question> {
    CheckRequest::parse_reserve(body).ok().map(Question::of)
}

#[must_use]
pub fn batch(body: &[u8]) -> Option<Vec<&str>> {
    parse_batch(body).ok()
}

/// The id and the cost.
#[must_use]
pub fn settle(body: &[u8]) -> Option<(String, u64)> {
    Ending::parse_settle(body).ok().map(|ending| (ending.id.into_owned(), ending.cost))
}

#[must_use]
pub fn refund(body: &[u8]) -> Option<String> {
    Ending::parse_refund(body).ok().map(|ending| ending.id.into_owned())
}

/// What the fields of a request wish for: a status, JSON, no coding.
#[must_use]
pub fn wishes(value: &[u8]) -> [bool; 3] {
    [wishes::asks_for_status(value), wishes::is_json(value), wishes::is_identity(value)]
}

/// What is to happen to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    Read,
    HandOver,
    Close,
}

/// A server without sockets, on a clock that stands.
pub struct Server {
    service: Service,
    clock: ManualClock,
    file: String,
    /// Longer than any state of the configuration lasts, and a multiple of its windows.
    rest: Duration,
}

impl Server {
    /// # Panics
    /// If the configuration is none.
    #[must_use]
    pub fn new(file: &str, rest: Duration) -> Self {
        let config = Config::parse("fuzz", file.as_bytes(), &|_| None).expect("a good file");
        let clock = ManualClock::at(Micros::new(0));
        let app = App::on(config, Some(clock.clone())).expect("a store");
        Self { service: Service::new(Arc::new(app)), clock, file: file.to_owned(), rest }
    }

    /// Lets so much time pass that nothing is left of what was asked before.
    pub fn rest(&mut self) {
        self.clock.advance(self.rest);
        // Time ends, fuzzing does not.
        if self.clock.now().saturating_add(self.rest) == Micros::MAX {
            *self = Self::new(&self.file, self.rest);
        }
    }

    /// A connection's input in the parts in which it is read: all answers, how much of it was used, and what is next.
    #[must_use]
    pub fn connection(&self, parts: &[&[u8]]) -> (Vec<u8>, usize, Next) {
        let (mut input, mut output, mut desk) = (Vec::new(), Vec::new(), Desk::default());
        let (mut all_used, mut next) = (0, Next::Read);
        for part in parts {
            input.extend_from_slice(part);
            let lane::Round { used, next: then, rest } =
                lane::round(&self.service, &input, &mut output, &mut desk);
            assert!(rest.is_none(), "memory is not waited for");
            input.drain(..used);
            all_used += used;
            next = match then {
                lane::Next::Read => Next::Read,
                lane::Next::HandOver => Next::HandOver,
                lane::Next::Close => Next::Close,
            };
            if next != Next::Read {
                break;
            }
        }
        (output, all_used, next)
    }
}
