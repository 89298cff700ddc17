//! What is seen of a shared store from outside: how long it takes, and when it stops answering.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use ratekeeper::StoreObserver;
use ratekeeper_core::Name;

use crate::telemetry::log::{Event, Log};
use crate::telemetry::metrics::Operations;

/// Counts and tells what happens to one store. It lives as long as the store, over reloads.
pub(crate) struct Watch {
    name: Name,
    /// Nobody is told without one.
    log: ArcSwapOption<Log>,
    operations: Operations,
    /// It has been told that the store does not answer.
    is_down: AtomicBool,
}

impl Watch {
    pub(crate) fn new(name: &Name, log: Option<&Log>) -> Self {
        Self {
            name: name.clone(),
            log: ArcSwapOption::from_pointee(log.cloned()),
            operations: Operations::default(),
            is_down: AtomicBool::new(false),
        }
    }

    /// How long it took, by what was asked.
    pub(crate) const fn operations(&self) -> &Operations {
        &self.operations
    }

    /// Tells by other settings from now on.
    pub(super) fn tell_by(&self, log: &Log) {
        self.log.store(Some(log.clone().into()));
    }

    /// Says that it was silent when it was asked first. That is no change: whoever asks it next finds out how it is.
    pub(super) fn was_silent(&self, why: &str) {
        self.tell(&Event::StoreDown { store: self.name.as_str(), message: why });
    }

    fn tell(&self, event: &Event<'_>) {
        if let Some(log) = &*self.log.load() {
            log.event(event);
        }
    }
}

impl StoreObserver for Watch {
    fn took(&self, op: &'static str, took: Duration) {
        self.operations.took(op, took);
    }

    fn went_down(&self, why: &str) {
        // One line a change, whoever notices it.
        if !self.is_down.swap(true, Ordering::Relaxed) {
            self.tell(&Event::StoreDown { store: self.name.as_str(), message: why });
        }
    }

    fn came_back(&self, after: Duration) {
        if self.is_down.swap(false, Ordering::Relaxed) {
            self.tell(&Event::StoreUp { store: self.name.as_str(), after });
        }
    }
}
