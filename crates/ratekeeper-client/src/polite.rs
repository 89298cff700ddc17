//! The client itself: what all its calls share.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper_core::Limit;

use crate::backoff::Backoff;
use crate::budget::{Budget, Percent};
use crate::clock::{Clock, time_of_day};
use crate::dice::Dice;
use crate::event::Event;
use crate::head::RequestHead;
use crate::lanes::Lanes;
use crate::profile::{Classify, Profile};
use crate::settings::{Generate, Pace, Repeat, Settings, SettingsError};

type KeyOf = dyn Fn(&RequestHead<'_>) -> String + Send + Sync;
type Observer = dyn Fn(&Event<'_>) + Send + Sync;
type TimeOfDay = dyn Fn() -> Duration + Send + Sync;

/// A polite client's manners and memory: one gate and one budget per key. Clones share them.
///
/// By itself it sends nothing: it is put around a tower service or into a reqwest client.
#[derive(Clone)]
pub struct Polite {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) profile: Profile,
    #[cfg(feature = "reqwest")]
    pub(crate) read_bodies: bool,
    key_of: Option<Box<KeyOf>>,
    observer: Option<Box<Observer>>,
    time_of_day: Box<TimeOfDay>,
    pub(crate) lanes: Lanes,
    pub(crate) clock: Clock,
    pub(crate) dice: Dice,
}

impl Shared {
    pub(crate) fn key(&self, head: &RequestHead<'_>) -> String {
        self.key_of.as_ref().map_or_else(|| head.origin(), |key_of| key_of(head))
    }

    pub(crate) fn tell(&self, event: &Event<'_>) {
        if let Some(observer) = &self.observer {
            observer(event);
        }
    }

    pub(crate) fn wall(&self) -> Duration {
        (self.time_of_day)()
    }
}

impl fmt::Debug for Polite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Polite")
            .field("settings", &self.shared.settings)
            .field("profile", &self.shared.profile)
            .finish_non_exhaustive()
    }
}

impl Default for Polite {
    fn default() -> Self {
        Self::with(Builder::default())
    }
}

impl Polite {
    /// All defaults, to be changed one by one.
    pub fn builder() -> Builder {
        Builder::default()
    }

    fn with(builder: Builder) -> Self {
        let shared = Shared {
            settings: builder.settings,
            profile: builder.profile,
            #[cfg(feature = "reqwest")]
            read_bodies: builder.read_bodies,
            key_of: builder.key_of,
            observer: builder.observer,
            time_of_day: builder.time_of_day,
            lanes: Lanes::default(),
            clock: Clock::default(),
            dice: Dice::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }
}

/// A [`Polite`] to be. What is not set is as in [`Settings::DEFAULT`].
#[must_use]
pub struct Builder {
    settings: Settings,
    profile: Profile,
    #[cfg(feature = "reqwest")]
    read_bodies: bool,
    key_of: Option<Box<KeyOf>>,
    observer: Option<Box<Observer>>,
    time_of_day: Box<TimeOfDay>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            settings: Settings::DEFAULT,
            profile: Profile::Auto,
            #[cfg(feature = "reqwest")]
            read_bodies: false,
            key_of: None,
            observer: None,
            time_of_day: Box::new(time_of_day),
        }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Builder {
    /// Sends of one call in all. 1 waits at the gate and never repeats.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.settings.max_attempts = attempts;
        self
    }

    /// Waits after failures that may pass.
    pub fn transient(mut self, backoff: Backoff) -> Self {
        self.settings.transient = backoff;
        self
    }

    /// Waits after refusals that name no time.
    pub fn quota(mut self, backoff: Backoff) -> Self {
        self.settings.quota = backoff;
        self
    }

    /// The longest wait that is obeyed by waiting. A longer one returns the refusal, and closes the gate.
    pub fn max_hint(mut self, wait: Duration) -> Self {
        self.settings.max_hint = wait;
        self
    }

    /// What is added to a hint: up to this share of it, which is at least and at most so long.
    pub fn hint_jitter(mut self, share: Percent, bounds: RangeInclusive<Duration>) -> Self {
        (self.settings.hint_jitter, self.settings.hint_jitter_bounds) = (share, bounds);
        self
    }

    /// How long a call may wait at the gate.
    pub fn max_queue_wait(mut self, wait: Duration) -> Self {
        self.settings.max_queue_wait = wait;
        self
    }

    /// Retries for this share of the successes of first tries, and the reserve that there was before.
    pub fn retry_budget(mut self, of_successes: Percent) -> Self {
        self.settings.budget = Budget::share(of_successes);
        self
    }

    /// So many retries in every span, whatever succeeds. It belongs after [`retry_budget`](Self::retry_budget).
    pub fn budget_reserve(mut self, retries: u32, span: Duration) -> Self {
        self.settings.budget = self.settings.budget.reserve(retries, span);
        self
    }

    /// Another budget.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.settings.budget = budget;
        self
    }

    /// What is repeated that is not idempotent.
    pub fn non_idempotent(mut self, repeat: Repeat) -> Self {
        self.settings.non_idempotent = repeat;
        self
    }

    /// Whether keys for idempotency are made.
    pub fn idempotency_keys(mut self, generate: Generate) -> Self {
        self.settings.idempotency_keys = generate;
        self
    }

    /// How calls are held back before they are refused.
    pub fn pace(mut self, pace: Pace) -> Self {
        self.settings.pace = pace;
        self
    }

    /// A limit of our own for every key, whatever servers say.
    pub fn own_limit(mut self, limit: Limit) -> Self {
        self.settings.own_limit = Some(limit);
        self
    }

    /// Calls of a key whose answer has not begun, at most.
    pub fn max_in_flight(mut self, calls: u32) -> Self {
        self.settings.max_in_flight = Some(calls);
        self
    }

    /// Whose quota a request uses: calls with one key share gate and budget. Default: the origin. Where a server
    /// counts by credential or by route, say so here, by a digest of the credential.
    pub fn key(mut self, key_of: impl Fn(&RequestHead<'_>) -> String + Send + Sync + 'static) -> Self {
        self.key_of = Some(Box::new(key_of));
        self
    }

    /// What the provider means by its answers. Default: [`Profile::Auto`].
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// The same by rules of your own.
    pub fn classify(self, classify: impl Classify + 'static) -> Self {
        self.profile(Profile::Custom(Arc::new(classify)))
    }

    /// Looks into short bodies of refusals, for what some providers say only there. By reqwest only: a tower service
    /// has no body that could be put back.
    #[cfg(feature = "reqwest")]
    pub fn read_bodies(mut self, read: bool) -> Self {
        self.read_bodies = read;
        self
    }

    /// Is told what the client does, as it does it, on the task that does it.
    pub fn observe(mut self, observer: impl Fn(&Event<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// The time of day since the Unix epoch, in place of the system's: for tests.
    pub fn time_of_day(mut self, clock: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        self.time_of_day = Box::new(clock);
        self
    }

    /// The client.
    ///
    /// # Errors
    /// [`SettingsError`] names a setting that cannot be.
    pub fn build(self) -> Result<Polite, SettingsError> {
        self.settings.check()?;
        Ok(Polite::with(self))
    }
}

/// What one call wants otherwise: an extension of its request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PoliteOptions {
    /// The time that waits may take in all, from the start of the call. One that would take longer is not begun.
    pub within: Option<Duration>,
    /// Sends in all.
    pub max_attempts: Option<u32>,
}

impl PoliteOptions {
    /// No wait ends later than this after the call began.
    #[must_use]
    pub const fn within(mut self, span: Duration) -> Self {
        self.within = Some(span);
        self
    }

    /// Sends in all; 0 is 1.
    #[must_use]
    pub const fn max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = Some(attempts);
        self
    }
}
