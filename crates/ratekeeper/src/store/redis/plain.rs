//! The store itself: an answer from the servers or an error.

use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper_core::{
    Ask, Check, Decision, ManualClock, Store, StoreError, StoreUrl, Token, Topology as UrlTopology,
};

use super::codec;
use super::exact::Exact;
use super::link::{Endpoint, Failure, Link, LinkConfig, LinkEvents, ScriptKind, Topology};
use super::{StoreObserver, script};
use crate::BuildError;

/// The prefix of states in virtual time: no production key begins so.
const SIMULATED_PREFIX: &str = "rksim";
/// How long a step in virtual time may take: nobody waits for it but the one who reads the result.
const SIMULATED_WITHIN: Duration = Duration::from_secs(10);
/// How long an answer is waited for, unless said otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(50);
const DEFAULT_PREFIX: &str = "rk";
/// The longest prefix: names of states stay short.
const MAX_PREFIX_BYTES: usize = 32;

/// The states of limits in Redis or Valkey, decided there, on the clock of the server.
///
/// An answer is exact, or there is none: [`StoreError::Failed`] says why, within the timeout. What becomes of a request
/// then is the affair of the caller; a [`SharedStore`](super::SharedStore) knows what to do.
///
/// ```no_run
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// use ratekeeper::{Ask, Check, Limit, Name, NamedLimit, RedisStore, Store};
/// let store = RedisStore::builder("redis://127.0.0.1:6379".parse()?).build()?;
/// let policy = Name::new("api")?;
/// let minute = NamedLimit::new(&policy, Name::new("minute")?, Limit::per_minute(300));
/// let request = [Check { limit: &minute, key: "user:42".into(), cost: 1 }];
/// let decision = store.decide(&request, Ask::Acquire).await?;
/// assert!(decision.allowed || decision.retry_after.is_some());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisStore {
    pub(super) exact: Arc<Exact>,
    pub(super) observer: Arc<dyn StoreObserver>,
    allows_short_windows: bool,
}

/// How a [`RedisStore`] is reached.
#[derive(Clone)]
#[must_use]
pub struct RedisStoreBuilder {
    url: StoreUrl,
    timeout: Duration,
    prefix: Box<str>,
    username: Option<Box<str>>,
    password: Option<Box<str>>,
    root_pem: Option<Vec<u8>>,
    observer: Arc<dyn StoreObserver>,
    is_direct: bool,
}

impl RedisStoreBuilder {
    /// How long an answer is waited for; 50 ms unless said otherwise.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// What the names of states begin with; `rk` unless said otherwise. Stores of one prefix share their counts.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Who we are to the servers; more than what the URL says.
    pub fn credentials(mut self, username: Option<&str>, password: Option<&str>) -> Self {
        self.username = username.map(Into::into);
        self.password = password.map(Into::into);
        self
    }

    /// Certificates to be trusted besides those of the system, as PEM.
    pub fn root_certificates(mut self, pem: &[u8]) -> Self {
        self.root_pem = Some(pem.to_vec());
        self
    }

    /// Whoever is told what happens to it.
    pub fn observer(mut self, observer: Arc<dyn StoreObserver>) -> Self {
        self.observer = observer;
        self
    }

    /// Whether a caller that asks while nobody else does asks on a connection of its own runtime, instead of by the thread
    /// that gathers what many ask: an answer takes two thirds of the time. Not unless said so.
    ///
    /// It is one connection more, and one that the first such runtime has to serve: with I/O and timers enabled, and by
    /// tasks that do not block. Only of a runtime of tokio with several threads; not in a cluster, nor in virtual time.
    pub const fn direct(mut self, is_direct: bool) -> Self {
        self.is_direct = is_direct;
        self
    }

    /// The store. It does not wait for a connection: what is asked before there is one fails.
    ///
    /// # Errors
    /// If the prefix is none, a thread cannot be started or a certificate cannot be read.
    pub fn build(self) -> Result<RedisStore, BuildError> {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if !(1..=MAX_PREFIX_BYTES).contains(&self.prefix.len()) || !self.prefix.bytes().all(good) {
            return Err(BuildError::Prefix);
        }
        let link = self.link(self.timeout, script::scripts())?;
        let exact = Exact::new(link, &self.prefix, self.timeout, None);
        Ok(RedisStore { exact: Arc::new(exact), observer: self.observer, allows_short_windows: false })
    }

    /// A store that decides by the hands of `clock`, under names of its own that no other run shares: for virtual
    /// time only. Its states are gone an hour after they were last written.
    ///
    /// # Errors
    /// As [`RedisStoreBuilder::build`].
    pub fn simulated(self, clock: impl Into<ManualClock>) -> Result<RedisStore, BuildError> {
        let link = self.link(SIMULATED_WITHIN, script::simulated())?;
        // Two runs never meet: the random state of the process tells them apart.
        let run = foldhash::quality::RandomState::default().hash_one(std::process::id());
        let exact =
            Exact::new(link, &format!("{SIMULATED_PREFIX}{run:016x}-"), SIMULATED_WITHIN, Some(clock.into()));
        Ok(RedisStore { exact: Arc::new(exact), observer: self.observer, allows_short_windows: false })
    }

    fn link(&self, timeout: Duration, scripts: super::link::Scripts) -> Result<Link, BuildError> {
        let endpoint = Endpoint {
            topology: match self.url.topology() {
                UrlTopology::Standalone => Topology::Standalone,
                UrlTopology::Sentinel => {
                    Topology::Sentinel { master: self.url.master().unwrap_or_default().to_owned() }
                }
                UrlTopology::Cluster => Topology::Cluster,
            },
            hosts: self.url.hosts().to_vec(),
            is_tls: self.url.is_tls(),
            root_pem: self.root_pem.clone(),
            database: self.url.database(),
            username: self.username.as_deref().or_else(|| self.url.username()).map(str::to_owned),
            password: self.password.as_deref().or_else(|| self.url.password()).map(str::to_owned),
        };
        let events: Arc<dyn LinkEvents> = Arc::new(Events(Arc::clone(&self.observer)));
        Link::start(LinkConfig { endpoint, timeout, is_direct: self.is_direct }, scripts, events)
            .map_err(|wrong| BuildError::Connections(wrong.kind()))
    }
}

impl fmt::Debug for RedisStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisStoreBuilder({}, prefix {}, timeout {:?})", self.url, self.prefix, self.timeout)
    }
}

/// Tells the observer of commands.
struct Events(Arc<dyn StoreObserver>);

impl LinkEvents for Events {
    fn took(&self, script: ScriptKind, took: Duration, _jobs: usize) {
        let op = match script {
            ScriptKind::Decide => "decide",
            ScriptKind::Amend => "amend",
        };
        self.0.took(op, took);
    }
}

/// Tells nobody.
struct Silent;

impl StoreObserver for Silent {}

impl RedisStore {
    /// A store at `url`.
    pub fn builder(url: StoreUrl) -> RedisStoreBuilder {
        RedisStoreBuilder {
            url,
            timeout: DEFAULT_TIMEOUT,
            prefix: DEFAULT_PREFIX.into(),
            username: None,
            password: None,
            root_pem: None,
            observer: Arc::new(Silent),
            is_direct: false,
        }
    }

    /// Takes windows below a millisecond, too: for tests that count microseconds.
    #[doc(hidden)]
    #[must_use]
    pub fn with_short_windows(mut self) -> Self {
        self.allows_short_windows = true;
        self
    }

    async fn amend(&self, amendments: Vec<(Vec<u8>, Vec<u8>)>) -> Result<(), StoreError> {
        let within = self.exact.timeout;
        self.exact.amend(amendments, within).await.map_err(failed)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedisStore")
    }
}

/// The error of a failure.
pub(super) fn failed(failure: Failure) -> StoreError {
    StoreError::Failed(failure.trouble)
}

impl Store for RedisStore {
    async fn decide(&self, checks: &[Check<'_>], ask: Ask) -> Result<Decision, StoreError> {
        let layout = self.exact.layout(checks, self.allows_short_windows)?;
        if layout.seats.is_empty() {
            return Ok(Decision::of(Vec::new()));
        }
        let decided = self.exact.decide(&layout, ask, self.exact.timeout).await.map_err(failed)?;
        Ok(Decision::of(decided.verdicts))
    }

    async fn refund(&self, admitted: &[(Check<'_>, Token)]) -> Result<(), StoreError> {
        let name = |(check, token): &(Check<'_>, Token)| {
            let limit = check.limit.limit();
            (self.exact.names.of(check.limit, &check.key), codec::give_back(limit, token))
        };
        self.amend(admitted.iter().map(name).collect()).await
    }

    async fn credit(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
        let name = |check: &Check<'_>| {
            (self.exact.names.of(check.limit, &check.key), codec::credit(check.limit.limit(), check.cost))
        };
        self.amend(checks.iter().map(name).collect()).await
    }

    async fn reset(&self, checks: &[Check<'_>]) -> Result<(), StoreError> {
        let name = |check: &Check<'_>| (self.exact.names.of(check.limit, &check.key), codec::forget());
        self.amend(checks.iter().map(name).collect()).await
    }
}
