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
    policy: Name,
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
        Self { id: identity(&parts), policy: policy.clone(), name, limit, drains: false, calendar: None }
    }

    /// The same limit for costs that are known only after the fact: it admits as long as anything is left, and
    /// takes what is left where the cost is more. No debt, so nobody waits longer than for what was there.
    #[must_use]
    pub const fn draining(mut self) -> Self {
        self.drains = true;
        self
    }

    /// The same counts by other numbers of the same algorithm: what a share of it or a part of a fleet decides by.
    #[must_use]
    pub fn with_limit(&self, limit: Limit) -> Self {
        Self { limit, ..self.clone() }
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

    /// The name of the policy.
    #[must_use]
    pub const fn policy(&self) -> &Name {
        &self.policy
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

/// Why a shared store could not answer, by the words of metrics and logs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Trouble {
    /// No answer came in time. Whether the units were taken is not known; they are not asked for again.
    Timeout,
    /// There is no connection, or it broke.
    Connect,
    /// It is a replica, or too few replicas are there.
    Readonly,
    /// It is loading its data, or its cluster is down.
    Loading,
    /// It has no memory left.
    Oom,
    /// What is stored under the key is not ours, or cannot be read. It is left as it is.
    Corrupt,
    /// It does not let us in, or does not let us do what is needed.
    Auth,
    /// Nobody is asked: it has failed too often just now.
    Open,
    /// More requests wait than may.
    Full,
    /// Something else.
    Other,
}

impl Trouble {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Timeout,
        Self::Connect,
        Self::Readonly,
        Self::Loading,
        Self::Oom,
        Self::Corrupt,
        Self::Auth,
        Self::Open,
        Self::Full,
        Self::Other,
    ];

    /// The word in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Connect => "connect",
            Self::Readonly => "readonly",
            Self::Loading => "loading",
            Self::Oom => "oom",
            Self::Corrupt => "corrupt",
            Self::Auth => "auth",
            Self::Open => "open",
            Self::Full => "full",
            Self::Other => "other",
        }
    }
}

/// A store could not answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// More limits than [`MAX_LIMITS`] were asked at once.
    TooManyLimits,
    /// The store has met more different limits than it can tell apart.
    TooManyShapes,
    /// A limit that a shared store cannot hold: its window is below a millisecond.
    WindowTooShort,
    /// The clock of a shared store is beyond what its numbers can count to: the year 2253.
    BeyondTime,
    /// The shared store did not answer.
    Failed(Trouble),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyLimits => write!(f, "at most {MAX_LIMITS} limits decide one request"),
            Self::TooManyShapes => f.write_str("the store has met too many different limits"),
            Self::WindowTooShort => f.write_str("a shared store takes windows of 1 ms and more"),
            Self::BeyondTime => f.write_str("a shared store counts time up to the year 2253 only"),
            Self::Failed(trouble) => write!(f, "the store did not answer: {}", trouble.name()),
        }
    }
}

impl core::error::Error for StoreError {}
