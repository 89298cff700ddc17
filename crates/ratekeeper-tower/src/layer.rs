//! [`RateLimitLayer`] and what its clones share.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::request::Parts;
use ratekeeper::{Decision, Limit, Verdict};
use ratekeeper_policy::{Chance, Config, Jitter, Mode, Stretch};
use tower_layer::Layer;

use crate::book::{Book, Place, Places};
use crate::builder::{LayerBuilder, LayerError};
use crate::facts;
use crate::fields::{Fields, Told};
use crate::key::client_ip;
use crate::limited::Decided;
use crate::options::{Observed, Options, Warning};
use crate::outcome::{Outcome, Wrong};
use crate::policies::PolicySet;
use crate::rule::LimitBy as _;
use crate::rules::{Context, Rules};
use crate::service::RateLimit;

/// Limits the requests of a service. Clones share their counts, and so do all services that it is laid around: a
/// request that meets the same layer twice is charged once.
///
/// ```
/// use ratekeeper::Limit;
/// use ratekeeper_tower::RateLimitLayer;
/// let layer = RateLimitLayer::per_ip(Limit::per_second(10).burst(20));
/// # #[cfg(feature = "axum")]
/// let app: axum::Router = axum::Router::new().layer(layer);
/// ```
#[derive(Clone)]
pub struct RateLimitLayer {
    shared: Arc<Shared>,
}

/// What all clones of a layer share.
pub(crate) struct Shared {
    /// Tells the layers of a process apart.
    pub(crate) id: u64,
    pub(crate) asks: Asks,
    pub(crate) book: Book,
    pub(crate) options: Options,
    /// The answer may have to be waited for.
    pub(crate) waits: bool,
    needs_peer: bool,
    chance: Chance,
}

/// Where the limits come from.
pub(crate) enum Asks {
    Rules(Rules),
    Policies(Box<PolicySet>),
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl RateLimitLayer {
    /// A limit for each client address; an IPv6 client is its /64. Up to 100,000 addresses are told apart exactly.
    ///
    /// The address is the peer's: behind proxies use [`RateLimitLayer::builder`] with
    /// [`client_ip().behind(…)`](crate::KeyBy::behind). With axum, serve by `into_make_service_with_connect_info`.
    ///
    /// # Panics
    /// If there is no memory for the table of a few megabytes.
    #[must_use]
    pub fn per_ip(limit: Limit) -> Self {
        let rule = limit.by(client_ip()).named("ip");
        Self::builder().limit(rule).build().expect("one limit on a table of a few megabytes")
    }

    /// A layer with limits in code.
    pub fn builder() -> LayerBuilder {
        LayerBuilder::of_rules()
    }

    /// A layer with the policies of a file, which is read once, now: see [`RateLimitLayer::from_config`].
    ///
    /// # Errors
    /// [`LayerError::Read`] if there is no such file, [`LayerError::Config`] with every mistake in it, and those of
    /// [`LayerBuilder::build`].
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, LayerError> {
        let path = path.as_ref();
        let text = std::fs::read(path).map_err(|wrong| LayerError::Read(path.to_owned(), wrong.kind()))?;
        let env = |name: &str| std::env::var(name).ok();
        let config = Config::parse(&path.to_string_lossy(), &text, &env).map_err(LayerError::Config)?;
        Self::from_config(config).build()
    }

    /// A layer with the policies of a configuration: what they match, their keys, groups, overrides and modes, proxies and
    /// stores. Other sections (`listen`, `log`) are of the server.
    pub fn from_config(config: Config) -> LayerBuilder {
        LayerBuilder::of_config(config)
    }

    pub(crate) fn new(asks: Asks, book: Book, options: Options, waits: bool, needs_peer: bool) -> Self {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let shared = Shared { id, asks, book, options, waits, needs_peer, chance: Chance::new() };
        Self { shared: Arc::new(shared) }
    }
}

impl<S> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit::new(inner, Arc::clone(&self.shared))
    }
}

impl Shared {
    /// Whether a request goes by untouched.
    pub(crate) fn passes_by<B>(&self, request: &http::Request<B>) -> bool {
        self.options.mode == Mode::Off
            || request.extensions().get::<Decided>().is_some_and(|decided| decided.is_by(self.id))
            || !self.options.counts_preflights && facts::is_preflight(request)
    }

    /// What is known of a request before its limits are looked for.
    pub(crate) fn context<'r>(&'r self, parts: &'r Parts, reserves: bool) -> Context<'r> {
        let peer = if self.needs_peer { self.peer(parts) } else { None };
        Context { parts, peer, options: &self.options, reserves }
    }

    fn peer(&self, parts: &Parts) -> Option<IpAddr> {
        let peer = facts::peer(&parts.extensions, self.options.peer.as_ref());
        if peer.is_none() && !self.options.has_warned.swap(true, Ordering::Relaxed) {
            let warning = Warning::NoPeerAddress;
            match &self.options.on_warning {
                Some(told) => told(&warning),
                None => eprintln!("ratekeeper: {warning}"),
            }
        }
        peer
    }

    /// Whether what is taken may have to be given back after the inner service has answered.
    pub(crate) fn refunds(&self) -> bool {
        self.options.refund_if.is_some()
    }

    /// Decides a request whose limits are all in memory. `outcome` is one in which nothing has been said.
    pub(crate) fn ask_now(&self, parts: &Parts, reserves: bool, outcome: &mut Outcome) -> Result<(), Wrong> {
        let context = self.context(parts, reserves);
        match &self.asks {
            Asks::Rules(rules) => rules.ask_now(&context, outcome),
            Asks::Policies(policies) => policies.ask_now(&context, outcome),
        }
    }

    /// Decides a request wherever its limits are.
    pub(crate) async fn ask(&self, parts: &Parts, reserves: bool) -> Result<Outcome, Wrong> {
        #[cfg(feature = "redis")]
        match &self.asks {
            Asks::Rules(rules) if rules.shared.is_some() => {
                return rules.ask(&self.context(parts, reserves)).await;
            }
            Asks::Policies(policies) if policies.is_shared() => {
                return policies.ask(&self.context(parts, reserves)).await;
            }
            _ => {}
        }
        let mut outcome = Outcome::default();
        self.ask_now(parts, reserves, &mut outcome).map(|()| outcome)
    }

    /// Decides a request whose limits are all in memory, when it is its turn: in order, within the layer's time.
    pub(crate) async fn ask_in_line(&self, parts: &Parts) -> Result<Outcome, Wrong> {
        let context = self.context(parts, self.refunds());
        match &self.asks {
            Asks::Rules(rules) => rules.ask_in_line(&context).await,
            Asks::Policies(policies) => policies.ask_in_line(&context).await,
        }
    }

    /// Whether all limits count in the memory of this process.
    pub(crate) fn is_in_memory(&self) -> bool {
        match &self.asks {
            #[cfg(feature = "redis")]
            Asks::Rules(rules) => rules.shared.is_none(),
            #[cfg(not(feature = "redis"))]
            Asks::Rules(_) => true,
            Asks::Policies(policies) => !policies.is_shared(),
        }
    }

    /// Tells whoever wants to know.
    pub(crate) fn observe(&self, parts: &Parts, outcome: &Outcome) {
        let Some(observe) = &self.options.observe else { return };
        let is_shadow = self.options.mode == Mode::Shadow;
        let tell = |decision: &Decision, places: &Places, is_shadow: bool| {
            let names = places.get(decision.binding).map(|place| self.book.names(*place));
            let (policy, limit) = names.unwrap_or(("", ""));
            observe(&Observed { request: parts, decision, policy, limit, is_shadow });
        };
        if let Some(decision) = &outcome.decision {
            tell(decision, &outcome.places, is_shadow);
        }
        outcome.shadows.iter().for_each(|(decision, places)| tell(decision, places, true));
    }

    /// What an answer that lets pass is told.
    pub(crate) fn fields(&self, outcome: &Outcome) -> Fields {
        let Some(decision) = outcome.decision.as_ref().filter(|_| self.options.mode == Mode::Enforce) else {
            return Fields::default();
        };
        let clock = &*self.options.clock;
        Told { book: &self.book, decision, places: &outcome.places, clock, stretch: Stretch::NONE }
            .fields(false)
    }

    /// By how much the waits of this refusal are told longer.
    pub(crate) fn stretch(&self, outcome: &Outcome) -> Stretch {
        let jitter = outcome.binding().map_or(Jitter::NONE, |place| self.book.headers(place).retry_jitter);
        jitter.draw(&self.chance)
    }

    /// The limits that refuse, as `policy.limit`.
    pub(crate) fn violated(&self, outcome: &Outcome) -> Vec<String> {
        let verdicts = outcome.decision.as_ref().map_or(&[][..], Decision::limits);
        // Whom only a line turns away, the limit of that line refuses.
        let by_line = verdicts.iter().all(Verdict::allowed).then(|| outcome.binding()).flatten();
        let refuses = |(place, verdict): &(&Place, &Verdict)| !verdict.allowed() || by_line == Some(**place);
        let refusing = outcome.places.iter().zip(verdicts).filter(refuses);
        refusing
            .map(|(place, _)| {
                let (policy, limit) = self.book.names(*place);
                format!("{policy}.{limit}")
            })
            .collect()
    }
}

impl fmt::Debug for RateLimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policies: Vec<&str> = self.shared.book.pages.iter().map(|page| page.name.as_str()).collect();
        f.debug_struct("RateLimitLayer").field("policies", &policies).finish_non_exhaustive()
    }
}
