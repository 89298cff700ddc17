//! What happens to the server itself, and the fields of its lines.

use std::time::Duration;

use ratekeeper_core::Key;

use super::Level;
use super::line::Line;
use crate::digits::millis;
use crate::telemetry::Listener;

/// What happens to the server itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event<'a> {
    /// A configuration is at work from the start.
    Config(Loaded<'a>),
    /// A listener is open.
    Listen {
        /// Which.
        listener: Listener,
        /// Where.
        address: &'a str,
    },
    /// Another configuration is at work.
    Reload {
        /// Which.
        loaded: Loaded<'a>,
        /// What was lost by it, or waits for a restart.
        message: Option<&'a str>,
    },
    /// Another configuration was refused; the one before stays at work.
    ReloadFailed(Refused<'a>),
    /// The system has no connection to give, as when no file descriptor is left.
    AcceptFailed {
        /// To which.
        listener: Listener,
        /// Why.
        message: &'a str,
    },
    /// Something is different for one key of a policy, for a while.
    Override(Excepted<'a>),
    /// It is not any more, before its time.
    OverrideRemoved(Excepted<'a>),
    /// A shared store has stopped answering.
    StoreDown {
        /// Which.
        store: &'a str,
        /// Why, in the words of the system or of the store.
        message: &'a str,
    },
    /// It answers again.
    StoreUp {
        /// Which.
        store: &'a str,
        /// For how long it did not.
        after: Duration,
    },
    /// The server is about to end.
    Drain,
}

/// A key of a policy for which something is different.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Excepted<'a> {
    /// The policy.
    pub(crate) policy: &'a str,
    /// The key, shown as all keys are.
    pub(crate) key: Key<'a>,
    /// Another action, or other limits, for so long.
    pub(crate) says: Option<(&'static str, &'a str, Duration)>,
}

/// A configuration that was loaded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loaded<'a> {
    /// What people call it.
    pub(crate) file: &'a str,
    /// Its version.
    pub(crate) sha: &'a str,
    /// How many policies it has.
    pub(crate) policies: usize,
}

impl Loaded<'_> {
    fn write(&self, line: &mut Line) {
        line.text("file", self.file);
        line.text("sha", self.sha);
        line.number("policies", number(self.policies));
    }
}

/// A configuration that was refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused<'a> {
    /// What people call it.
    pub(crate) file: &'a str,
    /// Its version, if it could be read.
    pub(crate) sha: Option<&'a str>,
    /// Line and column of what is wrong first, if it has a place.
    pub(crate) place: Option<(usize, usize)>,
    /// What kind of mistake that is, as in the report of `validate`.
    pub(crate) code: &'static str,
    /// Why.
    pub(crate) message: &'a str,
}

impl Refused<'_> {
    fn write(&self, line: &mut Line) {
        line.text("file", self.file);
        if let Some(sha) = self.sha {
            line.text("sha", sha);
        }
        if let Some((row, column)) = self.place {
            line.number("line", number(row));
            line.number("column", number(column));
        }
        line.text("code", self.code);
        line.text("message", self.message);
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

impl Event<'_> {
    pub(super) const fn name(&self) -> (&'static str, Level) {
        match self {
            Self::Config(_) => ("config", Level::Info),
            Self::Listen { .. } => ("listen", Level::Info),
            // What was lost is not as it was meant.
            Self::Reload { message: Some(_), .. } => ("reload", Level::Warn),
            Self::Reload { message: None, .. } => ("reload", Level::Info),
            Self::ReloadFailed(_) => ("reload_failed", Level::Error),
            Self::AcceptFailed { .. } => ("accept_failed", Level::Warn),
            Self::Override(_) => ("override", Level::Info),
            Self::OverrideRemoved(_) => ("override_removed", Level::Info),
            Self::StoreDown { .. } => ("store_down", Level::Warn),
            Self::StoreUp { .. } => ("store_up", Level::Info),
            Self::Drain => ("drain", Level::Info),
        }
    }

    /// Writes its fields; `key_of` shows a key as all keys are.
    pub(super) fn write(&self, line: &mut Line, key_of: impl Fn(&mut Line, &Key<'_>)) {
        match *self {
            Self::Config(loaded) => loaded.write(line),
            Self::Reload { loaded, message } => {
                loaded.write(line);
                if let Some(message) = message {
                    line.text("message", message);
                }
            }
            Self::Listen { listener, address } => {
                line.text("listener", listener.name());
                line.text("address", address);
            }
            Self::ReloadFailed(refused) => refused.write(line),
            Self::AcceptFailed { listener, message } => {
                line.text("listener", listener.name());
                line.text("message", message);
            }
            Self::Override(Excepted { policy, key, says })
            | Self::OverrideRemoved(Excepted { policy, key, says }) => {
                line.text("policy", policy);
                key_of(line, &key);
                if let Some((what, value, ttl)) = says {
                    line.text(what, value);
                    line.number("ttl_ms", millis(ttl));
                }
            }
            Self::StoreDown { store, message } => {
                line.text("store", store);
                line.text("message", message);
            }
            Self::StoreUp { store, after } => {
                line.text("store", store);
                line.number("after_ms", millis(after));
            }
            Self::Drain => {}
        }
    }
}
