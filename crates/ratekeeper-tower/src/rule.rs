//! A limit with the key that it is counted by.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use ratekeeper::{KeyedLimiter, Limit, Limiter};

use crate::key::{IntoKey, KeyBy, global};

/// What a request costs.
pub(crate) type CostOf = Arc<dyn Fn(&Parts) -> u64 + Send + Sync>;

/// A limit of a layer, with the key that it is counted by: made by [`LimitBy::by`], or of a
/// [`Limiter`] as it is.
#[derive(Clone)]
#[must_use]
pub struct Rule {
    pub(crate) limit: Counted,
    pub(crate) key: KeyBy,
    pub(crate) name: Option<String>,
    pub(crate) cost: Option<CostOf>,
}

/// Where a rule counts.
#[derive(Clone)]
pub(crate) enum Counted {
    /// In the layer's store.
    Here(Limit),
    /// In a limiter of the program's.
    Keyed(KeyedLimiter),
    /// In a limiter without keys.
    One(Limiter),
}

impl Counted {
    pub(crate) fn limit(&self) -> Limit {
        match self {
            Self::Here(limit) => *limit,
            Self::Keyed(limiter) => *limiter.limit(),
            Self::One(limiter) => *limiter.limit(),
        }
    }
}

impl Rule {
    fn new(limit: Counted, key: KeyBy) -> Self {
        Self { limit, key, name: None, cost: None }
    }

    /// What header fields and refusals call it: 1 to 64 of A-Z, a-z, 0-9, `_` and `-`. Else it is called as its
    /// limiter is, or `limit`.
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// What a request costs by this rule; else what the layer says. 0 looks and takes nothing.
    pub fn cost(mut self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.cost = Some(Arc::new(cost));
        self
    }
}

/// Counts a limit by a key.
pub trait LimitBy {
    /// The rule: this limit for each value of `key`.
    ///
    /// A [`KeyedLimiter`] counts where the program sees it too, and can [reset](KeyedLimiter::reset) or look; a plain
    /// [`Limit`] counts in the store of the layer.
    ///
    /// Whether there is a queue to wait in is asked when the layer is built: of a limiter that is
    /// [set](KeyedLimiter::set_limit) to a leaky bucket with a queue later, requests do not wait for their
    /// start, unless the layer waits for something else.
    ///
    /// ```
    /// use ratekeeper::{KeyedLimiter, Limit, Limiter};
    /// use ratekeeper_tower::{LimitBy as _, RateLimitLayer, client_ip, header};
    /// let users = KeyedLimiter::new(Limit::per_second(10).burst(20));
    /// let global = Limiter::new(Limit::per_second(1_000));
    /// let layer = RateLimitLayer::builder()
    ///     .limit(users.by(header("x-api-key").or(client_ip())).named("user"))
    ///     .limit(Limit::per_minute(600).by(client_ip()).named("address"))
    ///     .limit(&global)
    ///     .build()?;
    /// # Ok::<(), ratekeeper_tower::LayerError>(())
    /// ```
    fn by(&self, key: impl IntoKey) -> Rule;
}

impl LimitBy for Limit {
    fn by(&self, key: impl IntoKey) -> Rule {
        Rule::new(Counted::Here(*self), key.into_key())
    }
}

impl LimitBy for KeyedLimiter {
    fn by(&self, key: impl IntoKey) -> Rule {
        Rule::new(Counted::Keyed(self.clone()), key.into_key())
    }
}

impl From<Limiter> for Rule {
    fn from(limiter: Limiter) -> Self {
        Self::new(Counted::One(limiter), global())
    }
}

impl From<&Limiter> for Rule {
    fn from(limiter: &Limiter) -> Self {
        limiter.clone().into()
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("limit", &self.limit.limit())
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
