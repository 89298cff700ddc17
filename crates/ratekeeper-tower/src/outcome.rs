//! What came of a request, and what gives it back.

use std::time::Duration;

use ratekeeper::{Decision, Denial, Reason, Reservation, StoreError};
use ratekeeper_policy::Stretch;
use smallvec::SmallVec;

use crate::book::{Book, Place, Places};

/// What is wrong with a request, or with a store: boxed, since nearly all requests are none of it.
pub(crate) type Wrong = Box<Denial<'static>>;

pub(crate) fn bad_input(detail: impl Into<String>) -> Wrong {
    Box::new(Denial::bad_input(detail.into()))
}

/// A store has said something that is no decision.
pub(crate) fn failed(wrong: StoreError) -> Wrong {
    Box::new(Denial::unavailable(wrong.to_string()))
}

/// What the limits of a request said.
#[derive(Default)]
pub(crate) struct Outcome {
    /// What those said that are enforced; `None` if none was asked.
    pub(crate) decision: Option<Decision>,
    /// Whose verdicts they are.
    pub(crate) places: Places,
    /// The page of the policy that refuses without asking any limit.
    pub(crate) blocked: Option<usize>,
    /// What each policy in shadow mode would have said.
    pub(crate) shadows: Vec<(Decision, Places)>,
    pub(crate) held: Held,
}

impl Outcome {
    pub(crate) fn allowed(&self) -> bool {
        self.blocked.is_none() && self.decision.as_ref().is_none_or(|decision| decision.allowed)
    }

    /// Refuses what the limits let pass, and gives it back.
    pub(crate) fn refuse(&mut self, reason: Reason, wait: Duration) {
        self.held = Held::default();
        let decision = self.decision.take().map(|decision| decision.refused_for(reason, Some(wait)));
        self.decision = decision.map(|refused| refused.decision().clone());
    }

    /// The place of the limit that binds.
    pub(crate) fn binding(&self) -> Option<Place> {
        self.places.get(self.decision.as_ref()?.binding).copied()
    }

    /// The refusal in words, its waits told longer by so much.
    pub(crate) fn denial<'b>(&self, book: &'b Book, stretch: Stretch) -> Denial<'b> {
        if let Some(page) = self.blocked.and_then(|page| book.pages.get(page)) {
            return Denial::blocked(page.name.as_str());
        }
        let Some(decision) = &self.decision else {
            return Denial::unavailable("nothing was decided".to_owned());
        };
        let (policy, limit) = self.binding().map_or(("", ""), |place| book.names(place));
        let told = decision.retry_after.map(|wait| stretch.of(wait));
        Denial::of(decision, policy, limit, told)
    }
}

/// What was taken for a request. Dropped, it gives everything back.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) memory: SmallVec<[Reservation; 1]>,
    #[cfg(feature = "redis")]
    pub(crate) shared: Vec<ratekeeper::SharedReservation>,
}

impl Held {
    pub(crate) fn is_nothing(&self) -> bool {
        #[cfg(feature = "redis")]
        if !self.shared.is_empty() {
            return false;
        }
        self.memory.is_empty()
    }

    /// Makes it final.
    pub(crate) fn keep(self) {
        for reservation in self.memory {
            drop(reservation.keep());
        }
        #[cfg(feature = "redis")]
        for reservation in self.shared {
            reservation.keep();
        }
    }
}

/// What a request has been charged that has reached the inner service: final, unless its answer says otherwise.
pub(crate) struct Charged(Option<Held>);

impl Charged {
    pub(crate) const fn new(held: Held) -> Self {
        Self(Some(held))
    }

    /// Gives it back, by the safe rule.
    pub(crate) fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Charged {
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            held.keep();
        }
    }
}
