//! One request: the limits of all policies that apply to it, asked together, and what came of it.

use ratekeeper_core::{Check, Decision};
use ratekeeper_policy::{Action, Applied, Does, Few, Mode};

use crate::live::{Live, Seen};

/// What the policies of a request ask, laid out for the stores.
pub(crate) struct Asking<'p> {
    applied: &'p [Applied<'p>],
    /// What is told of it.
    seen: Seen<'p>,
    /// The limits that are enforced, in the order of the policies.
    checks: Few<Check<'p>>,
    /// Whose they are, in the same order.
    places: Few<Place>,
    /// The policy that refuses without asking any limit.
    blocked: Option<usize>,
    pub(crate) stores: Stores,
    /// Some of the limits that are enforced lie in a shared store.
    pub(crate) is_shared: bool,
    /// A shared store is asked, if only by a policy that shows itself: the answer is to be waited for.
    pub(crate) waits: bool,
}

/// Whose limit it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    /// Which of the policies that apply.
    pub(crate) applied: usize,
    /// Which limit of that policy.
    pub(crate) limit: usize,
}

/// Where the limits of a request lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stores {
    /// There are none to be asked.
    None,
    /// In this store, by its number.
    One(usize),
    /// In several.
    Several,
}

impl<'p> Asking<'p> {
    /// Lays out what `applied` ask.
    pub(crate) fn new(live: &Live, applied: &'p [Applied<'p>], seen: Seen<'p>) -> Self {
        let mut asking = Self {
            applied,
            seen,
            checks: Few::default(),
            places: Few::default(),
            blocked: None,
            stores: Stores::None,
            is_shared: false,
            waits: false,
        };
        for (index, part) in applied.iter().enumerate() {
            match part.does {
                _ if part.mode == Mode::Shadow => asking.waits |= live.is_shared(part),
                _ if part.mode != Mode::Enforce => {}
                Does::Action(Action::Bypass) => {}
                Does::Action(Action::Block) => asking.blocked = asking.blocked.or(Some(index)),
                Does::Limits(_) => asking.add(live, index, part),
            }
        }
        if asking.blocked.is_some() {
            // All or nothing: what is refused anyway takes nothing.
            asking.checks = Few::default();
            asking.places = Few::default();
            asking.stores = Stores::None;
            (asking.is_shared, asking.waits) = (false, false);
        }
        asking.waits |= asking.is_shared;
        asking
    }

    fn add(&mut self, live: &Live, index: usize, part: &'p Applied<'p>) {
        let before = self.checks.len();
        for (limit, check) in part.checks() {
            self.checks.push(check);
            self.places.push(Place { applied: index, limit });
        }
        if self.checks.len() > before {
            let store = live.store_number(part.policy);
            self.is_shared |= live.store_of(part.policy).shared().is_some();
            self.stores = match self.stores {
                Stores::None => Stores::One(store),
                Stores::One(other) if other == store => Stores::One(store),
                _ => Stores::Several,
            };
        }
    }

    /// The policies that apply.
    pub(crate) const fn applied(&self) -> &'p [Applied<'p>] {
        self.applied
    }

    /// What is told of the request in the log.
    pub(crate) const fn seen(&self) -> &Seen<'p> {
        &self.seen
    }

    /// The limits that are enforced.
    pub(crate) fn checks(&self) -> &[Check<'p>] {
        &self.checks
    }

    /// Whose they are.
    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    /// The policy that refuses without asking any limit.
    pub(crate) fn blocked(&self) -> Option<&'p Applied<'p>> {
        self.applied.get(self.blocked?)
    }

    /// All policies that do, the one that is named first.
    pub(crate) fn blockers(&self) -> impl Iterator<Item = &'p Applied<'p>> + use<'p> {
        let is_blocker = |applied: &&Applied<'_>| {
            applied.mode == Mode::Enforce && matches!(applied.does, Does::Action(Action::Block))
        };
        self.blocked.and_then(|first| self.applied.get(first..)).unwrap_or_default().iter().filter(is_blocker)
    }

    /// The policies that only show what they would do.
    pub(crate) fn shadows(&self) -> impl Iterator<Item = &'p Applied<'p>> + use<'p> {
        self.applied.iter().filter(|applied| applied.mode == Mode::Shadow)
    }

    /// The limits of each enforced policy, by their places among the checks.
    pub(crate) fn by_policy(&self) -> impl Iterator<Item = (&'p Applied<'p>, core::ops::Range<usize>)> + '_ {
        let mut start = 0;
        self.places.chunk_by(|a, b| a.applied == b.applied).filter_map(move |chunk| {
            let range = start..start + chunk.len();
            start = range.end;
            Some((self.applied.get(chunk.first()?.applied)?, range))
        })
    }
}

/// What came of a request.
#[derive(Default)]
pub(crate) struct Outcome {
    /// What the limits said; `None` if none was asked.
    pub(crate) decision: Option<Decision>,
    /// A policy refuses without asking any limit.
    pub(crate) is_blocked: bool,
    /// `policy.limit` of those that would have refused it: they only show themselves.
    pub(crate) shadow_denied: Vec<String>,
}

impl Outcome {
    /// What the enforced limits of a request have said.
    pub(crate) const fn of(asking: &Asking<'_>, decision: Option<Decision>) -> Self {
        Self { decision, is_blocked: asking.blocked.is_some(), shadow_denied: Vec::new() }
    }

    /// Whether the request may proceed.
    pub(crate) fn allowed(&self) -> bool {
        !self.is_blocked && self.decision.as_ref().is_none_or(|decision| decision.allowed)
    }
}
