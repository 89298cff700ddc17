//! What lives as long as the process, around the configuration at work.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use ratekeeper::ProcessClock;
use ratekeeper_core::{Clock as _, ManualClock, Micros};
use ratekeeper_policy::Config;

use crate::exceptions::{Compiled, New, NotTaken, Said, Which};
use crate::holds::Holds;
use crate::live::{Live, log_settings};
use crate::telemetry::log::Log;
use crate::telemetry::metrics::exposition::Snapshot;
use crate::telemetry::secret::Secret;

/// A process at work.
pub(crate) struct App {
    live: ArcSwap<Live>,
    holds: Holds,
    time: Time,
    draining: AtomicBool,
    refused: Mutex<Option<Refused>>,
    /// The temporary overrides. Held while another pointer is put in `live`, so that no two are put at once.
    said: Mutex<Said>,
}

/// The process's clock. Where the server is fuzzed or tested, it may be one that is moved.
#[derive(Clone)]
pub(crate) struct Time {
    #[cfg(any(fuzzing, test))]
    moved: Option<ManualClock>,
}

/// A reload that failed, as long as none has succeeded since.
#[derive(Clone)]
pub(crate) struct Refused {
    pub(crate) at: Micros,
    /// What was wrong, the first lines of it: they may say texts of the file.
    pub(crate) lines: Vec<String>,
    /// The same for everybody: line, column and code.
    pub(crate) places: Vec<String>,
}

impl Time {
    fn new(moved: Option<ManualClock>) -> Self {
        #[cfg(not(any(fuzzing, test)))]
        drop(moved);
        Self {
            #[cfg(any(fuzzing, test))]
            moved,
        }
    }

    /// The instant.
    pub(crate) fn now(&self) -> Micros {
        self.moved().map_or_else(|| ProcessClock.now(), ManualClock::now)
    }

    /// The clock, if it is moved.
    #[cfg(any(fuzzing, test))]
    pub(crate) const fn moved(&self) -> Option<&ManualClock> {
        self.moved.as_ref()
    }

    /// The clock, if it is moved: here it never is.
    #[cfg(not(any(fuzzing, test)))]
    pub(crate) const fn moved(&self) -> Option<&ManualClock> {
        None
    }
}

impl App {
    /// Builds the stores of a configuration, on the process's own clock, and begins to log.
    ///
    /// # Errors
    /// If a store cannot be built, a thread cannot be started, or the system has no random bytes.
    pub(crate) fn new(config: Config) -> Result<Self, String> {
        Self::on(config, None)
    }

    /// The same on another clock, where there is one: fuzzing moves it.
    pub(crate) fn on(config: Config, clock: Option<ManualClock>) -> Result<Self, String> {
        Self::with(config, Time::new(clock), Live::first)
    }

    /// The same with stand-ins for shared stores, by their names.
    #[cfg(test)]
    pub(crate) fn with_fakes(file: &str, fakes: &[(&str, Arc<crate::live::fake::Fake>)]) -> Self {
        let config = Config::parse("t", file.as_bytes(), &|_| None).expect("a good file");
        let live = |config, log: &Log, time| Live::with_fakes(config, fakes, log, time);
        Self::with(config, Time::new(None), live).expect("stores")
    }

    fn with(
        config: Config,
        time: Time,
        live: impl FnOnce(Config, &Log, Time) -> Result<Live, String>,
    ) -> Result<Self, String> {
        let secret = Secret::new().map_err(|wrong| format!("the system has no random bytes: {wrong}"))?;
        let secret = Arc::new(secret);
        let log = Log::new(log_settings(config.log), Arc::new(ProcessClock), Arc::clone(&secret))
            .map_err(|wrong| format!("cannot start a thread: {wrong}"))?;
        let live = live(config, &log, time.clone())?;
        Ok(Self {
            live: ArcSwap::from_pointee(live),
            holds: Holds::new(secret),
            time,
            draining: AtomicBool::new(false),
            refused: Mutex::default(),
            said: Mutex::default(),
        })
    }

    /// The configuration of a text, for tests.
    #[cfg(test)]
    pub(crate) fn of(file: &str) -> Self {
        let config = Config::parse("t", file.as_bytes(), &|_| None).expect("a good file");
        Self::new(config).expect("a store")
    }

    /// The configuration at work, for one request: a reload meanwhile does not change it. Costs a few nanoseconds
    /// and no lock; it is not for keeping.
    pub(crate) fn live(&self) -> Guard<Arc<Live>> {
        self.live.load()
    }

    /// The same for who waits for something while using it.
    pub(crate) fn live_for_long(&self) -> Arc<Live> {
        self.live.load_full()
    }

    /// Puts another configuration to work, without asking its stores whether they can serve; what of the counts is lost
    /// by that. One at a time: who calls it sees
    /// to that.
    ///
    /// # Errors
    /// If it cannot be put to work. Then the present one stays, and [`App::refuse`] should say so.
    #[cfg(test)]
    pub(crate) fn reload(&self, config: Config) -> Result<Vec<String>, String> {
        self.reload_if(config, |_, _| Ok(Vec::new()))
    }

    /// Puts another configuration to work, if `check` of the present one and the next has nothing against it; what of
    /// the counts is lost by that, and its notes. One at a time: who calls it sees to that.
    ///
    /// # Errors
    /// If it cannot be put to work. Then the present one stays, and [`App::refuse`] should say so.
    pub(crate) fn reload_if(
        &self,
        config: Config,
        check: impl FnOnce(&Live, &Live) -> Result<Vec<String>, String>,
    ) -> Result<Vec<String>, String> {
        let before = self.live_for_long();
        let (next, mut losses) = before.followed_by(config)?;
        losses.extend(check(&before, &next)?);
        let mut said = self.said();
        let exceptions = said.compiled_for(&next, &mut losses);
        next.metrics().reload_succeeded(next.since());
        self.live.store(Arc::new(next.with_exceptions(exceptions)));
        drop(said);
        *self.lock_refused() = None;
        Ok(losses)
    }

    /// What is different for single keys for a while, without what has expired by now.
    pub(crate) fn said(&self) -> MutexGuard<'_, Said> {
        // Nothing is left half done by a panic that could not be gone on from.
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.now();
        if said.expire(now) {
            let live = self.live_for_long();
            self.put(&live, live.exceptions().alive(now));
        }
        said
    }

    /// Makes something different for one key from the next request on. `new` makes it for the configuration at work,
    /// which stays so until it is done.
    ///
    /// # Errors
    /// Those of `new`, or why it cannot be taken.
    pub(crate) fn except<E: From<NotTaken>>(
        &self,
        new: impl FnOnce(&Live) -> Result<New, E>,
    ) -> Result<(), E> {
        let mut said = self.said();
        let live = self.live_for_long();
        let exceptions = said.add(&live, new(&live)?)?;
        self.put(&live, exceptions);
        Ok(())
    }

    /// Ends what is different for one key, from the next request on; whether there was anything. `which` says whose.
    ///
    /// # Errors
    /// Those of `which`.
    pub(crate) fn end_exception<E>(&self, which: impl FnOnce(&Live) -> Result<Which, E>) -> Result<bool, E> {
        let mut said = self.said();
        let live = self.live_for_long();
        let Some(exceptions) = said.remove(&live, &which(&live)?) else { return Ok(false) };
        self.put(&live, exceptions);
        Ok(true)
    }

    /// Puts the same configuration to work with other exceptions. Who calls it holds `said`.
    fn put(&self, live: &Live, exceptions: Compiled) {
        self.live.store(Arc::new(live.with_exceptions(exceptions)));
    }

    /// Notes that another configuration was refused, and why.
    pub(crate) fn refuse(&self, lines: Vec<String>, places: Vec<String>) {
        self.live().metrics().reload_failed();
        *self.lock_refused() = Some(Refused { at: self.now(), lines, places });
    }

    /// The last reload, if it failed.
    pub(crate) fn refused(&self) -> Option<Refused> {
        self.lock_refused().clone()
    }

    fn lock_refused(&self) -> MutexGuard<'_, Option<Refused>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Open reservations.
    pub(crate) const fn holds(&self) -> &Holds {
        &self.holds
    }

    /// The process's clock.
    pub(crate) fn now(&self) -> Micros {
        self.time.now()
    }

    /// What is counted elsewhere, for the page of metrics.
    pub(crate) fn snapshot(&self, live: &Live) -> Snapshot {
        Snapshot {
            stores: live.stores_snapshot(),
            clock_offset_us: ProcessClock.offset_us(),
            holds: self.holds.len(self.now()) as u64,
            overrides: self.said().len() as u64,
        }
    }

    /// Says that the server is about to end: `/readyz` tells.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether the server is about to end.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}
