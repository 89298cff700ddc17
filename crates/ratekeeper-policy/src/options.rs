//! What a policy says beside its limits: whether they are enforced, what a request costs, and what is told of
//! them.

use ratekeeper_core::Name;

use crate::headers::Headers;

/// Everything a policy says beside its name, match, key, limits and overrides.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Whether its limits are enforced.
    pub mode: Mode,
    /// What it does instead of having limits.
    pub action: Option<Action>,
    /// Of the policies of one group only the first whose match fits applies.
    pub group: Option<Name>,
    /// Policies that do not apply to a request that this one applies to.
    pub replaces: Vec<Name>,
    /// What becomes of a request without any alternative of a key.
    pub missing_key: MissingKey,
    /// What a request costs that does not say so itself.
    pub cost: CostSpec,
    /// What becomes of a cost above what is left.
    pub on_excess: OnExcess,
    /// What is answered while its store is not. A store in memory always answers.
    pub on_store_error: OnStoreError,
    /// The header fields of answers: its own, else those of `defaults`.
    pub headers: Headers,
}

/// Whether the limits of a policy are enforced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// They refuse.
    #[default]
    Enforce,
    /// They decide and are counted, but refuse nobody.
    Shadow,
    /// They are not looked at.
    Off,
}

impl Mode {
    /// The words of the file, and what they mean.
    pub(crate) const WORDS: [(&'static str, Self); 3] =
        [("enforce", Self::Enforce), ("shadow", Self::Shadow), ("off", Self::Off)];

    /// The word of the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Shadow => "shadow",
            Self::Off => "off",
        }
    }
}

/// What is done with a request without asking any limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// It is refused, and no wait helps.
    Block,
    /// It passes; other policies may still refuse it.
    Bypass,
}

impl Action {
    pub(crate) const WORDS: [(&'static str, Self); 2] = [("block", Self::Block), ("bypass", Self::Bypass)];

    /// The word of the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Bypass => "bypass",
        }
    }
}

/// What becomes of a request that has no alternative of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MissingKey {
    /// The limits with that key do not apply to it.
    #[default]
    Skip,
    /// All such requests are counted together.
    Shared,
    /// It is bad input.
    Reject,
}

impl MissingKey {
    pub(crate) const WORDS: [(&'static str, Self); 3] =
        [("skip", Self::Skip), ("shared", Self::Shared), ("reject", Self::Reject)];
}

/// What a request costs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CostSpec {
    /// Always as much; at least 1.
    Constant(u64),
    /// What a header says.
    Header {
        /// The name of the header, in lower case.
        name: Box<str>,
        /// The cost of a request without it; at least 1.
        default: u64,
        /// A larger cost is bad input; at most the least capacity of the policy.
        max: u64,
    },
}

impl Default for CostSpec {
    fn default() -> Self {
        Self::Constant(1)
    }
}

impl CostSpec {
    /// What a request costs that says nothing.
    #[must_use]
    pub const fn default_cost(&self) -> u64 {
        match self {
            Self::Constant(cost) => *cost,
            Self::Header { default, .. } => *default,
        }
    }

    /// The largest cost that a request can have by this policy.
    #[must_use]
    pub const fn max(&self) -> u64 {
        match self {
            Self::Constant(cost) => *cost,
            Self::Header { max, .. } => *max,
        }
    }
}

/// What becomes of a cost above what is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnExcess {
    /// The request is refused.
    #[default]
    Refuse,
    /// The request passes as long as anything is left, and takes what is left: for costs that are known only
    /// after the fact.
    Drain,
}

impl OnExcess {
    pub(crate) const WORDS: [(&'static str, Self); 2] = [("refuse", Self::Refuse), ("drain", Self::Drain)];
}

/// What is answered while a store does not answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnStoreError {
    /// This instance's share of the limit decides.
    #[default]
    Local,
    /// Everything passes.
    Allow,
    /// Nothing passes.
    Deny,
}

impl OnStoreError {
    pub(crate) const WORDS: [(&'static str, Self); 3] =
        [("local", Self::Local), ("allow", Self::Allow), ("deny", Self::Deny)];

    /// The word of the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Allow => "allow",
            Self::Deny => "deny",
        }
    }
}
