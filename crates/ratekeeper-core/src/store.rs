//! What a store promises, and what it is asked.

use alloc::sync::Arc;
use core::fmt;
use core::future::Future;

use crate::algorithm::Token;
use crate::decision::{Ask, Decision};
use crate::key::Key;
use crate::limit::Limit;
use crate::time::Calendar;

/// The most limits that decide one request.
pub const MAX_LIMITS: usize = 16;

/// The name of a policy, a limit or a store: `[A-Za-z0-9_-]{1,64}`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// The longest name, so that metric labels and header items stay short.
    pub const MAX_LEN: usize = 64;

    /// Checks a name.
    ///
    /// # Errors
    /// If it is empty, longer than 64 bytes, or has another character than `A-Z a-z 0-9 _ -`.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let good = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if (1..=Self::MAX_LEN).contains(&name.len()) && name.bytes().all(good) {
            Ok(Self(name.into()))
        } else {
            Err(NameError)
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A text that is no [`Name`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NameError;

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name is 1 to 64 of A-Z, a-z, 0-9, `_` and `-`")
    }
}

impl core::error::Error for NameError {}

/// A limit with the identity that its counts are kept under.
#[derive(Clone)]
pub struct NamedLimit {
    name: Name,
    limit: Limit,
    id: u64,
    drains: bool,
    calendar: Option<Arc<dyn Calendar>>,
}

impl NamedLimit {
    /// A limit of a policy. Counts are kept per policy, limit name and algorithm, so a limit keeps them when
    /// its numbers change and starts afresh when its algorithm does.
    #[must_use]
    pub fn new(policy: &Name, name: Name, limit: Limit) -> Self {
        let parts = [policy.as_str(), name.as_str(), limit.kind().name()];
        Self { id: identity(&parts), name, limit, drains: false, calendar: None }
    }

    /// The same limit for costs that are known only after the fact: it admits as long as anything is left, and
    /// takes what is left where the cost is more. No debt, so nobody waits longer than for what was there.
    #[must_use]
    pub const fn draining(mut self) -> Self {
        self.drains = true;
        self
    }

    /// Whether it takes what is left instead of refusing a cost above it.
    #[must_use]
    pub const fn is_draining(&self) -> bool {
        self.drains
    }

    /// The same limit, its calendar windows following `calendar` instead of UTC.
    #[must_use]
    pub fn with_calendar(mut self, calendar: Arc<dyn Calendar>) -> Self {
        self.calendar = Some(calendar);
        self
    }

    /// The calendar that was given, for a handle that outlives the limit.
    #[must_use]
    pub const fn shared_calendar(&self) -> Option<&Arc<dyn Calendar>> {
        self.calendar.as_ref()
    }

    /// The name of the limit within its policy.
    #[must_use]
    pub const fn name(&self) -> &Name {
        &self.name
    }

    /// The numbers.
    #[must_use]
    pub const fn limit(&self) -> &Limit {
        &self.limit
    }

    /// The identity of the counts.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// The calendar, if one was given.
    #[must_use]
    pub fn calendar(&self) -> Option<&dyn Calendar> {
        self.calendar.as_deref()
    }
}

impl fmt::Debug for NamedLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.name, self.limit)
    }
}

/// FNV-1a over length-prefixed parts: stable, and the parts are the operator's, not a stranger's.
fn identity(parts: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        let length = u8::try_from(part.len()).unwrap_or(u8::MAX);
        for byte in core::iter::once(length).chain(part.bytes()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    hash
}

/// One question of a request: does this limit let this key take this cost?
#[derive(Clone, Copy, Debug)]
pub struct Check<'a> {
    /// Which limit.
    pub limit: &'a NamedLimit,
    /// Whose units.
    pub key: Key<'a>,
    /// How many; 0 looks.
    pub cost: u64,
}

/// A place where states live and decisions are made, next to the clock that times them.
///
/// A store never hands out states to be decided elsewhere: the question travels to the state. Whatever
/// a store answers is one linearization point: all limits of the call, at one reading of its clock.
pub trait Store: Send + Sync {
    /// Decides a request from all its limits, at most [`MAX_LIMITS`], all or nothing.
    ///
    /// # Errors
    /// If the store could not answer. A refusal is not an error.
    fn decide(
        &self,
        checks: &[Check<'_>],
        ask: Ask,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send;

    /// Gives admissions back by the safe rule ([`Limit::refund`]); the caller sees to it that no token is used
    /// twice.
    ///
    /// # Errors
    /// If the store could not be reached.
    fn refund(&self, admitted: &[(Check<'_>, Token)]) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Credits the cost of each check to its key, at most up to full ([`Limit::credit`]).
    ///
    /// # Errors
    /// If the store could not be reached.
    fn credit(&self, checks: &[Check<'_>]) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Forgets the keys; costs are not looked at.
    ///
    /// # Errors
    /// If the store could not be reached.
    fn reset(&self, checks: &[Check<'_>]) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// A store could not answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// More limits than [`MAX_LIMITS`] were asked at once.
    TooManyLimits,
    /// The store has met more different limits than it can tell apart.
    TooManyShapes,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyLimits => write!(f, "at most {MAX_LIMITS} limits decide one request"),
            Self::TooManyShapes => f.write_str("the store has met too many different limits"),
        }
    }
}

impl core::error::Error for StoreError {}
