//! Lines about a server on stderr. Their fields are API: `docs/logs.md` has the list.
//!
//! One event is one line, whatever the texts in it contain. Nothing is written about a request that is simply
//! let in; refusals are written up to so many a second for each policy, and the next line says how many were
//! not. No line is a reason to wait: a thread of its own writes them, and what it cannot keep up with is
//! dropped and counted too.

use std::io::{self, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ratekeeper_core::{Check, Clock, Decision, Key, Micros, Name, Part, Reason, Source, Verdict};
use ratekeeper_policy::Mode;

use crate::digits::{hex, millis};

use super::Protocol;
use super::secret::Secret;
use super::sketch::{Sketch, Top};
pub(crate) use event::{Event, Excepted, Loaded, Refused};
use line::Line;
pub(crate) use line::instant;
use queue::Queue;
use sampler::Sampler;

mod event;
mod line;
mod queue;
mod sampler;

/// What a line looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Format {
    /// `TIME LEVEL EVENT name=value …`
    #[default]
    Text,
    /// One JSON object.
    Json,
}

/// How much a line matters; less is not written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Level {
    /// What admitted requests are told.
    Debug,
    /// What is as it should be, refusals among it.
    #[default]
    Info,
    /// What works, but not as it was meant.
    Warn,
    /// What did not work.
    Error,
}

impl Level {
    const fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// How a key is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Keys {
    /// By 16 hexadecimal digits that are the same for the same key as long as the process lives.
    #[default]
    Hash,
    /// As it is, escaped.
    Plain,
    /// Not at all.
    Off,
}

/// What the configuration says of lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogSettings {
    /// What a line looks like.
    pub(crate) format: Format,
    /// The least level that is written.
    pub(crate) level: Level,
    /// How keys are shown.
    pub(crate) keys: Keys,
    /// How many refusals of a policy, and how many delays, are written in a second.
    pub(crate) denied_per_second: u32,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self { format: Format::Text, level: Level::Info, keys: Keys::Hash, denied_per_second: 10 }
    }
}

/// Writes lines. Clones write to the same place.
#[derive(Clone)]
pub(crate) struct Log {
    settings: LogSettings,
    clock: Arc<dyn Clock>,
    secret: Arc<Secret>,
    queue: Arc<Queue>,
    /// Events that found no place in the queue, since one that did.
    dropped: Arc<AtomicU64>,
    /// Who is refused most, with keys as they are shown.
    sketch: Arc<Sketch>,
}

/// A policy's share of the lines: one for each policy of a configuration.
#[derive(Debug)]
pub(crate) struct PolicyLog {
    name: Name,
    denied: Sampler,
    shown: Sampler,
    delayed: Sampler,
    failed_open: Sampler,
}

impl PolicyLog {
    /// For the policy of this name.
    pub(crate) fn new(name: &Name) -> Self {
        Self {
            name: name.clone(),
            denied: Sampler::default(),
            shown: Sampler::default(),
            delayed: Sampler::default(),
            failed_open: Sampler::default(),
        }
    }
}

/// A decision and what was asked.
pub(crate) struct Decided<'a> {
    /// The limits that decided together, in the order of the decision's.
    pub(crate) checks: &'a [Check<'a>],
    /// The answer.
    pub(crate) decision: &'a Decision,
    /// The policy's mode.
    pub(crate) mode: &'static str,
    /// How the question came.
    pub(crate) request: Request<'a>,
}

/// How a question came. The texts are a stranger's and are escaped.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    /// Over which wire.
    pub(crate) protocol: Protocol,
    /// The method of the request that is limited.
    pub(crate) method: Option<&'a str>,
    /// Its path, without the query: that is where secrets are.
    pub(crate) path: Option<&'a str>,
    /// The trace it belongs to.
    pub(crate) trace_id: Option<&'a str>,
}

impl Request<'_> {
    fn write(&self, line: &mut Line) {
        line.text("protocol", self.protocol.name());
        for (name, value) in [("method", self.method), ("path", self.path), ("trace_id", self.trace_id)] {
            if let Some(value) = value {
                line.text(name, value);
            }
        }
    }
}

impl Log {
    /// Writes to stderr, its instants being those of `clock`.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn new(settings: LogSettings, clock: Arc<dyn Clock>, secret: Arc<Secret>) -> io::Result<Self> {
        Self::to(Box::new(io::stderr()), settings, clock, secret)
    }

    /// The same, to anywhere.
    fn to(
        sink: Box<dyn Write + Send>,
        settings: LogSettings,
        clock: Arc<dyn Clock>,
        secret: Arc<Secret>,
    ) -> io::Result<Self> {
        let queue = Arc::new(Queue::start(sink)?);
        let sketch = Arc::new(Sketch::new(clock.now()));
        Ok(Self { settings, clock, secret, queue, dropped: Arc::default(), sketch })
    }

    /// The same place under other settings.
    pub(crate) fn with(&self, settings: LogSettings) -> Self {
        let mut other = Self { settings, ..self.clone() };
        if settings.keys != self.settings.keys {
            // What was kept is shown as it may not be any more.
            other.sketch = Arc::new(Sketch::new(self.clock.now()));
        }
        other
    }

    /// Writes a decision, if it is one that is written: a refusal, an admission without an answer from the store, or at
    /// level `debug` a delay.
    #[inline]
    pub(crate) fn decided(&self, policy: &PolicyLog, decided: &Decided<'_>) {
        let decision = decided.decision;
        if !decision.allowed {
            if let Some(check) = decided.checks.get(decision.binding) {
                self.refused(policy, Some(check.limit.name()), &check.key);
            }
            self.sample(&policy.denied, Level::Info, |log, now| log.line_of(now, "denied", policy, decided));
        } else if decision.source == Source::FailedOpen {
            let line = |log: &Self, now| log.line_of(now, "failed_open", policy, decided);
            self.sample(&policy.failed_open, Level::Warn, line);
        } else if !decision.delay.is_zero() {
            self.sample(&policy.delayed, Level::Debug, |log, now| {
                log.line_of(now, "delayed", policy, decided)
            });
        }
    }

    /// Writes a decision of a policy that only shows itself, if it would have refused.
    pub(crate) fn shown(&self, policy: &PolicyLog, decided: &Decided<'_>) {
        if !decided.decision.allowed {
            let line = |log: &Self, now| log.line_of(now, "shadow_denied", policy, decided);
            self.sample(&policy.shown, Level::Info, line);
        }
    }

    /// Writes that a policy refused without asking any limit.
    pub(crate) fn blocked(&self, policy: &PolicyLog, key: Option<&Key<'_>>, request: Request<'_>) {
        if let Some(key) = key {
            self.refused(policy, None, key);
        }
        self.sample(&policy.denied, Level::Info, |log, now| {
            log.line_of_block(now, ("denied", Mode::Enforce), policy, key, request)
        });
    }

    /// Writes that a policy that only shows itself would have refused without asking any limit.
    pub(crate) fn would_block(&self, policy: &PolicyLog, key: Option<&Key<'_>>, request: Request<'_>) {
        self.sample(&policy.shown, Level::Info, |log, now| {
            log.line_of_block(now, ("shadow_denied", Mode::Shadow), policy, key, request)
        });
    }

    fn line_of_block(
        &self,
        now: Micros,
        (event, mode): (&'static str, Mode),
        policy: &PolicyLog,
        key: Option<&Key<'_>>,
        request: Request<'_>,
    ) -> Line {
        let mut line = Line::start(self.settings.format, now, Level::Info, event);
        line.text("policy", policy.name.as_str());
        if let Some(key) = key {
            self.key(&mut line, key);
        }
        line.text("reason", Reason::Blocked.name());
        line.text("mode", mode.name());
        request.write(&mut line);
        line
    }

    fn key(&self, line: &mut Line, key: &Key<'_>) {
        if let Some(text) = self.shown_key(&plain(key)) {
            line.text("key", &text);
        }
    }

    /// A key as it is shown; None if keys are not.
    fn shown_key(&self, plain: &[u8]) -> Option<String> {
        match self.settings.keys {
            Keys::Hash => Some(hashed(&self.secret, plain)),
            Keys::Plain => Some(String::from_utf8_lossy(plain).into_owned()),
            Keys::Off => None,
        }
    }

    /// Counts a refusal for [`Log::top`], whether a line of it is written or not.
    #[cold]
    fn refused(&self, policy: &PolicyLog, limit: Option<&Name>, key: &Key<'_>) {
        if self.settings.keys != Keys::Off {
            self.sketch
                .refused(self.clock.now(), (&policy.name, limit), key, |bytes| write_plain(key, bytes));
        }
    }

    /// The `most` keys that were refused most in the last minutes, shown as in lines; none if keys are not shown.
    pub(crate) fn top(&self, most: usize) -> Top {
        self.sketch.top(self.clock.now(), most, |plain| self.shown_key(plain).unwrap_or_default())
    }

    /// Writes what happens to the server.
    pub(crate) fn event(&self, event: &Event<'_>) {
        let (name, level) = event.name();
        if level < self.settings.level {
            return;
        }
        let mut line = Line::start(self.settings.format, self.clock.now(), level, name);
        event.write(&mut line, |line, key| self.key(line, key));
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if !self.queue.push(line.end(dropped)) {
            self.dropped.fetch_add(dropped.saturating_add(1), Ordering::Relaxed);
        }
    }

    /// Waits until all that was written is out, but not longer than `patience`: whoever should read it may
    /// have stopped to.
    pub(crate) fn flush(&self, patience: Duration) {
        self.queue.flush(patience);
    }

    #[cold]
    fn sample(&self, sampler: &Sampler, level: Level, line: impl FnOnce(&Self, Micros) -> Line) {
        if level < self.settings.level {
            return;
        }
        let now = self.clock.now();
        let Some(dropped) = sampler.take(now, self.settings.denied_per_second) else { return };
        if !self.queue.push(line(self, now).end(dropped)) {
            sampler.give_back(dropped);
        }
    }

    fn line_of(&self, now: Micros, event: &'static str, policy: &PolicyLog, decided: &Decided<'_>) -> Line {
        let Decided { checks, decision, mode, request } = decided;
        let level = match event {
            "failed_open" => Level::Warn,
            "delayed" => Level::Debug,
            _ => Level::Info,
        };
        let mut line = Line::start(self.settings.format, now, level, event);
        line.text("policy", policy.name.as_str());
        if let Some(check) = checks.get(decision.binding) {
            line.text("limit", check.limit.name().as_str());
            self.key(&mut line, &check.key);
            line.number("cost", check.cost);
        }
        // A limit that was not asked has no numbers.
        let has_numbers = decision.limits().get(decision.binding).is_none_or(Verdict::has_numbers);
        if has_numbers {
            line.number("remaining", decision.remaining);
        }
        if decision.allowed && has_numbers {
            line.number("delay_ms", millis(decision.delay));
        } else if let Some(wait) = decision.retry_after.filter(|_| !decision.allowed) {
            line.number("retry_after_ms", millis(wait));
        }
        if let Some(reason) = decision.reason {
            line.text("reason", reason.name());
        }
        line.text("mode", mode);
        line.text("source", decision.source.name());
        request.write(&mut line);
        line
    }
}

/// A key as callers write it: `ALTERNATIVE=VALUE`, without what is empty.
fn plain(key: &Key<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_plain(key, &mut bytes);
    bytes
}

/// The same, into a buffer that is empty.
fn write_plain(key: &Key<'_>, bytes: &mut Vec<u8>) {
    for (i, part) in key.parts().iter().enumerate() {
        let text = match part {
            Part::Bytes(text) => text.to_vec(),
            Part::Number(number) => number.to_string().into_bytes(),
            Part::Address(IpAddr::V4(address)) => address.to_string().into_bytes(),
            Part::Address(IpAddr::V6(address)) => address.to_string().into_bytes(),
        };
        if !bytes.is_empty() && !text.is_empty() {
            bytes.push(if i == 1 { b'=' } else { b',' });
        }
        bytes.extend(text);
    }
}

/// The first 16 hexadecimal digits of the key's digest. Who lists all addresses cannot look one up without the
/// secret, and nobody keeps that.
fn hashed(secret: &Secret, plain: &[u8]) -> String {
    let digest = secret.digest(&[b"key", plain]);
    hex(&digest[..8])
}

#[cfg(test)]
mod tests;
