//! How a layer is put together.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Extensions, Response};
use ratekeeper::{BuildError, Clock, IntoClock, KeyedLimiter, MAX_LIMITS, Name, NameError};
use ratekeeper_policy::{Config, ConfigErrors, Headers, MissingKey, Mode};

use crate::book::{Book, Page};
use crate::denied::Denied;
use crate::key::KeyError;
use crate::layer::{Asks, RateLimitLayer};
use crate::options::{Answered, Observed, Options, Warning};
use crate::rule::{Counted, Rule};
use crate::rules::{Built, Owner, Rules};

/// Keys of a limit that counts in the layer's own memory, unless said otherwise.
pub const DEFAULT_MAX_KEYS: u64 = 100_000;

/// Puts a layer together: its limits, and how it behaves.
#[must_use]
pub struct LayerBuilder {
    pub(crate) source: LimitsFrom,
    pub(crate) options: Options,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    name: String,
    headers: Headers,
    max_keys: u64,
    /// The first option that was set although the file rules it.
    misplaced: Option<&'static str>,
    #[cfg(feature = "redis")]
    pub(crate) store: Option<crate::shared::Shared>,
    #[cfg(feature = "redis")]
    pub(crate) on_store_error: ratekeeper::OnStoreError,
}

pub(crate) enum LimitsFrom {
    Rules(Vec<Rule>),
    Config(Box<Config>),
}

/// Why a layer cannot be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum LayerError {
    /// It has no limit.
    NoLimits,
    /// It has more than 16: [`MAX_LIMITS`].
    TooManyLimits,
    /// It has more than one leaky bucket with a queue: a request has one start.
    SeveralQueues,
    /// A name of a policy or limit is none.
    Name(String, NameError),
    /// Two limits have the same name.
    SameName(String),
    /// A mistake in a key.
    Key(KeyError),
    /// A store or limiter cannot be built.
    Store(BuildError),
    /// A limit that a shared store cannot hold: its window is below a millisecond.
    WindowTooShort(String),
    /// An option of limits in code, and the limits are those of a file, which says that itself.
    RuledByFile(&'static str),
    /// The file names a Redis store, and the feature `redis` is off.
    NeedsRedis(Name),
    /// The file cannot be read.
    Read(PathBuf, std::io::ErrorKind),
    /// The file has mistakes: all of them.
    Config(ConfigErrors),
}

impl fmt::Display for LayerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLimits => f.write_str("a layer has at least one limit"),
            Self::TooManyLimits => write!(f, "at most {MAX_LIMITS} limits decide one request"),
            Self::SeveralQueues => f.write_str("at most one limit of a layer is a leaky bucket with a queue"),
            Self::Name(name, wrong) => write!(f, "{name:?}: {wrong}"),
            Self::SameName(name) => write!(f, "two limits are called {name:?}: give one another by `named`"),
            Self::Key(wrong) => wrong.fmt(f),
            Self::Store(wrong) => wrong.fmt(f),
            Self::WindowTooShort(name) => {
                write!(f, "limit {name:?}: a shared store takes windows of 1 ms and more")
            }
            Self::RuledByFile(option) => {
                write!(f, "`{option}` is for limits in code: of a layer from a file, the file says it")
            }
            Self::NeedsRedis(store) => {
                write!(f, "store `{store}` is in Redis: enable the feature `redis` of ratekeeper-tower")
            }
            Self::Read(path, kind) => write!(f, "cannot read {}: {kind}", path.display()),
            Self::Config(errors) => f.write_str(&errors.render()),
        }
    }
}

impl std::error::Error for LayerError {}

impl From<BuildError> for LayerError {
    fn from(wrong: BuildError) -> Self {
        Self::Store(wrong)
    }
}

impl LayerBuilder {
    fn new(source: LimitsFrom) -> Self {
        Self {
            source,
            options: Options::default(),
            clock: None,
            name: "default".to_owned(),
            headers: Headers::default(),
            max_keys: DEFAULT_MAX_KEYS,
            misplaced: None,
            #[cfg(feature = "redis")]
            store: None,
            #[cfg(feature = "redis")]
            on_store_error: ratekeeper::OnStoreError::Local,
        }
    }

    pub(crate) fn of_rules() -> Self {
        Self::new(LimitsFrom::Rules(Vec::new()))
    }

    pub(crate) fn of_config(config: Config) -> Self {
        Self::new(LimitsFrom::Config(Box::new(config)))
    }

    /// Remembers an option that only limits in code have.
    pub(crate) const fn of_code(mut self, option: &'static str) -> Self {
        if matches!(self.source, LimitsFrom::Config(_)) && self.misplaced.is_none() {
            self.misplaced = Some(option);
        }
        self
    }

    /// One more limit. All limits of a layer are decided together, in one step, whoever owns them: every one of them takes
    /// its cost, or none does. A layer with the policies of a file takes none beside them: that is told by
    /// [`LayerBuilder::build`], as with every option here that such a file has of its own.
    pub fn limit(mut self, rule: impl Into<Rule>) -> Self {
        if let LimitsFrom::Rules(rules) = &mut self.source {
            rules.push(rule.into());
        }
        self.of_code("limit")
    }

    /// What header fields and refusals call the limits together: `default` unless said otherwise.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.to_owned();
        self.of_code("name")
    }

    /// Which header fields answers have; those of a file are its own affair. A 429 always has `Retry-After`, `RateLimit`
    /// and `RateLimit-Policy`.
    pub const fn headers(mut self, headers: Headers) -> Self {
        self.headers = headers;
        self.of_code("headers")
    }

    /// For how many keys each plain [`Limit`](ratekeeper::Limit) has room in memory; 100,000 unless said otherwise, at 44 bytes each.
    pub const fn max_keys(mut self, max_keys: u64) -> Self {
        self.max_keys = max_keys;
        self.of_code("max_keys")
    }

    /// Another clock than the process's, for plain limits and for stores in memory.
    pub fn clock(mut self, clock: impl IntoClock) -> Self {
        self.clock = Some(clock.into_clock());
        self
    }

    /// What a request costs, where its rule does not say; 1 unless said otherwise. 0 looks and takes nothing.
    pub fn cost(mut self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.options.cost = Some(Arc::new(cost));
        self
    }

    /// What becomes of a request without the key of a limit; that limit does not apply to it unless said otherwise. In a
    /// file each policy says so itself.
    pub const fn missing_key(mut self, missing: MissingKey) -> Self {
        self.options.missing_key = missing;
        self.of_code("missing_key")
    }

    /// What becomes of a request whose client's address nobody knows; all such requests are counted together unless said
    /// otherwise, so that a server that is put together wrongly is still limited. It is told once, to
    /// [`LayerBuilder::on_warning`] or on standard error.
    pub const fn missing_peer(mut self, missing: MissingKey) -> Self {
        self.options.missing_peer = missing;
        self
    }

    /// Where the address of whoever is connected stands among the extensions of a request, where neither axum nor tonic
    /// put it there.
    pub fn peer(
        mut self,
        find: impl Fn(&Extensions) -> Option<std::net::IpAddr> + Send + Sync + 'static,
    ) -> Self {
        self.options.peer = Some(Arc::new(find));
        self
    }

    /// Gives an admission back when the answer is of this kind: as far as that never lets in more than if the request had
    /// not been made. What the service behind never answered stays charged.
    ///
    /// ```
    /// # use ratekeeper::Limit;
    /// # use ratekeeper_tower::{LimitBy as _, RateLimitLayer, client_ip};
    /// let layer = RateLimitLayer::builder()
    ///     .limit(Limit::per_minute(60).by(client_ip()))
    ///     .refund_if(|response| response.status().is_server_error())
    ///     .build()?;
    /// # Ok::<(), ratekeeper_tower::LayerError>(())
    /// ```
    pub fn refund_if(mut self, is_free: impl Fn(&Answered<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.options.refund_if = Some(Arc::new(is_free));
        self
    }

    /// [`Mode::Shadow`] decides and tells, and refuses nobody; [`Mode::Off`] lets everything by.
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.options.mode = mode;
        self
    }

    /// Lets a request wait for its admission, and for its start in a queue, at most so long. Who cannot be let in in time is
    /// refused at once.
    ///
    /// Where all limits are in memory requests stand in line, one line per key (that of the first limit that is no
    /// [`global`](crate::global) one), and are served in the order in which they came; whoever goes away gives its place
    /// up. Limits in a shared store have no such line: who waits for one asks again when the wait that was told is over, and
    /// in which order those are served is not promised.
    pub const fn wait_within(mut self, longest: Duration) -> Self {
        self.options.wait = Some(longest);
        self
    }

    /// How many requests wait at a time, with [`wait_within`](Self::wait_within) or for their start in a queue; those beyond
    /// that would have to are refused at once. 1,024 unless said otherwise. A limiter of the program's bounds each of its lines besides
    /// ([`max_waiting`](ratekeeper::KeyedLimiterBuilder::max_waiting)).
    pub const fn max_waiting(mut self, most: usize) -> Self {
        self.options.max_waiting = most;
        self
    }

    /// The program's own answer to a refusal. `Retry-After`, the `RateLimit` fields and `Cache-Control: no-store` are added
    /// to it; calls of gRPC have their own form.
    pub fn on_denied(
        mut self,
        answer: impl Fn(&Denied<'_>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        self.options.on_denied = Some(Arc::new(answer));
        self
    }

    /// Who is told of every decision: to count or log them. Called on the way of the request: it must not block.
    pub fn observe(mut self, observe: impl Fn(&Observed<'_>) + Send + Sync + 'static) -> Self {
        self.options.observe = Some(Arc::new(observe));
        self
    }

    /// Who is told, once, that the program is put together wrongly; standard error unless said otherwise.
    pub fn on_warning(mut self, told: impl Fn(&Warning) + Send + Sync + 'static) -> Self {
        self.options.on_warning = Some(Arc::new(told));
        self
    }

    /// Counts what browsers ask before a request of another origin; it goes by untouched unless said so.
    pub const fn count_preflights(mut self) -> Self {
        self.options.counts_preflights = true;
        self
    }

    /// The layer.
    ///
    /// # Errors
    /// What is wrong with its limits, names and keys, that a store cannot be built, or which option does nothing beside a
    /// file.
    pub fn build(mut self) -> Result<RateLimitLayer, LayerError> {
        if let Some(option) = self.misplaced {
            return Err(LayerError::RuledByFile(option));
        }
        self.options.waiting = AtomicUsize::new(0);
        if let Some(clock) = &self.clock {
            self.options.clock = Arc::clone(clock);
        }
        match std::mem::replace(&mut self.source, LimitsFrom::Rules(Vec::new())) {
            LimitsFrom::Rules(rules) => self.build_rules(rules),
            LimitsFrom::Config(config) => crate::from_config::build(self, *config),
        }
    }

    fn build_rules(self, rules: Vec<Rule>) -> Result<RateLimitLayer, LayerError> {
        if rules.is_empty() {
            return Err(LayerError::NoLimits);
        }
        if rules.len() > MAX_LIMITS {
            return Err(LayerError::TooManyLimits);
        }
        let name = |text: &str| Name::new(text).map_err(|wrong| LayerError::Name(text.to_owned(), wrong));
        let policy = name(&self.name)?;
        let (mut built, mut limits, mut names) = (Vec::new(), Vec::new(), HashSet::new());
        let queues = rules.iter().filter(|rule| rule.limit.limit().is_queue()).count();
        if queues > 1 {
            return Err(LayerError::SeveralQueues);
        }
        let alone = rules.len() == 1;
        for (nth, rule) in rules.into_iter().enumerate() {
            if let Some(wrong) = rule.key.wrong() {
                return Err(LayerError::Key(wrong.clone()));
            }
            let called = name(&rule_name(&rule, nth, alone))?;
            if !names.insert(called.clone()) {
                return Err(LayerError::SameName(called.to_string()));
            }
            limits.push((called.clone(), rule.limit.limit()));
            let max_keys = if rule.key.is_global() { 1 } else { self.max_keys };
            let owner = self.owner(&policy, called, &rule.limit, max_keys)?;
            built.push(Built { owner, key: rule.key, cost: rule.cost });
        }
        let needs_peer = built.iter().any(|rule| rule.key.needs_peer());
        let book = Book { pages: vec![Page::new(policy, self.headers, limits)] };
        let is_shared = self.is_shared();
        let waits = is_shared || queues > 0 || self.options.wait.is_some();
        let rules = Rules {
            list: built,
            #[cfg(feature = "redis")]
            shared: self
                .store
                .map(|store| crate::shared::SharedSide { store, on_error: self.on_store_error }),
        };
        Ok(RateLimitLayer::new(Asks::Rules(rules), book, self.options, waits, needs_peer))
    }

    #[cfg(feature = "redis")]
    const fn is_shared(&self) -> bool {
        self.store.is_some()
    }

    #[cfg(not(feature = "redis"))]
    #[expect(clippy::unused_self, reason = "the same question with and without the feature")]
    const fn is_shared(&self) -> bool {
        false
    }

    #[cfg_attr(not(feature = "redis"), expect(unused_variables, reason = "names are for shared stores"))]
    fn owner(
        &self,
        policy: &Name,
        called: Name,
        counted: &Counted,
        max_keys: u64,
    ) -> Result<Owner, LayerError> {
        Ok(match counted {
            Counted::Keyed(limiter) => Owner::Keyed(limiter.clone()),
            Counted::One(limiter) => Owner::One(limiter.clone()),
            #[cfg(feature = "redis")]
            Counted::Here(limit) if self.store.is_some() => {
                if limit.window() < ratekeeper::MIN_SHARED_WINDOW {
                    return Err(LayerError::WindowTooShort(called.to_string()));
                }
                Owner::Shared(ratekeeper::NamedLimit::new(policy, called, *limit))
            }
            Counted::Here(limit) => {
                let limiter = KeyedLimiter::builder(*limit).max_keys(max_keys);
                let limiter = limiter.max_waiting(self.options.max_waiting);
                let limiter = match &self.clock {
                    Some(clock) => limiter.clock(Arc::clone(clock)),
                    None => limiter,
                };
                Owner::Keyed(limiter.build()?)
            }
        })
    }
}

/// What a rule is called: as it says, as its limiter is, or by its place.
fn rule_name(rule: &Rule, nth: usize, alone: bool) -> String {
    let of_limiter = match &rule.limit {
        Counted::Here(_) => None,
        Counted::Keyed(limiter) => limiter.name(),
        Counted::One(limiter) => limiter.name(),
    };
    match (&rule.name, of_limiter) {
        (Some(name), _) => name.clone(),
        (None, Some(name)) => name.to_string(),
        (None, None) if alone => "limit".to_owned(),
        (None, None) => format!("limit-{}", nth + 1),
    }
}
