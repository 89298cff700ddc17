//! The way of one request through its stores: those in memory first, all at once; then each shared store in the order
//! of the file. When one refuses, nothing stays taken anywhere, and the others are looked at for their numbers.

use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use ratekeeper::{Demand, MemoryStore, OnStoreError};
use ratekeeper_core::{Ask, Check, Decision, Micros, StoreError, Verdict};
use ratekeeper_policy::{Applied, Does, Few};

use super::stores::Shared;
use super::taken::Held;
use super::{Live, Taken};
use crate::asking::Asking;

/// The limits of a request that lie in one shared store, in their order.
pub(super) struct Group<'s> {
    pub(super) store: usize,
    pub(super) shared: &'s Shared,
    checks: Vec<Check<'s>>,
    on_error: Vec<OnStoreError>,
    /// Their places among all limits of the request.
    pub(super) places: Vec<usize>,
}

impl Group<'_> {
    pub(super) fn demand(&self, ask: Ask) -> Demand<'_> {
        Demand { checks: &self.checks, on_error: &self.on_error, ask }
    }
}

/// The limits of a request by where they lie.
#[derive(Default)]
pub(super) struct Split<'s> {
    pub(super) memory: Vec<(&'s MemoryStore, Check<'s>)>,
    /// The places of those among all.
    pub(super) places: Vec<usize>,
    /// The numbers of the memory stores.
    stores: Few<usize>,
    /// In the order of the file.
    pub(super) shared: Vec<Group<'s>>,
}

/// What the limits of a request have said so far, in the order of its limits.
#[derive(Default)]
pub(super) struct Said(Vec<Option<Verdict>>);

impl Said {
    pub(super) fn add(&mut self, places: &[usize], decision: &Decision) {
        for (place, verdict) in places.iter().zip(decision.limits()) {
            if self.0.len() <= *place {
                self.0.resize(*place + 1, None);
            }
            self.0[*place] = Some(*verdict);
        }
    }

    pub(super) fn decision(self) -> Decision {
        Decision::of(self.0.into_iter().flatten().collect())
    }
}

/// A request on its way through several stores.
pub(super) struct Way<'s> {
    split: Split<'s>,
    said: Said,
    taken: Taken,
    is_refused: bool,
}

impl Live {
    pub(super) fn split<'s>(&'s self, asking: &Asking<'s>) -> Split<'s> {
        let mut split = Split::default();
        for (place, (of, check)) in asking.places().iter().zip(asking.checks()).enumerate() {
            let Some(applied) = asking.applied().get(of.applied) else { continue };
            let number = self.store_number(applied.policy);
            let store = self.store_of(applied.policy);
            if let Some(memory) = store.memory() {
                split.memory.push((memory, *check));
                split.places.push(place);
                if !split.stores.contains(&number) {
                    split.stores.push(number);
                }
            } else if let Some(shared) = store.shared() {
                let at = split.shared.iter().position(|group| group.store == number);
                let at = at.unwrap_or_else(|| {
                    split.shared.push(Group::new(number, shared));
                    split.shared.len() - 1
                });
                split.shared[at].add(*check, self.served[applied.policy].on_error, place);
            }
        }
        split.shared.sort_by_key(|group| group.store);
        split
    }

    /// The limits of one policy, if they lie in a shared store.
    pub(super) fn group_of<'s>(&'s self, applied: &'s Applied<'s>) -> Option<Group<'s>> {
        if !self.is_shared(applied) {
            return None;
        }
        let mut group =
            Group::new(self.store_number(applied.policy), self.store_of(applied.policy).shared()?);
        for (place, (_, check)) in applied.checks().enumerate() {
            group.add(check, self.served[applied.policy].on_error, place);
        }
        Some(group)
    }

    /// Whether a policy asks limits in a shared store.
    pub(crate) fn is_shared(&self, applied: &Applied<'_>) -> bool {
        matches!(applied.does, Does::Limits(_)) && self.store_of(applied.policy).shared().is_some()
    }

    pub(super) fn look_in_memory(&self, split: &Split<'_>, said: &mut Said) -> Result<(), StoreError> {
        if !split.memory.is_empty() {
            let look = || MemoryStore::decide_across(&split.memory, Ask::Peek);
            said.add(&split.places, &self.timed_in(&split.stores, look)?);
        }
        Ok(())
    }

    /// Takes what lies in memory, all stores at once.
    pub(super) fn begin<'s>(&self, split: Split<'s>) -> Result<Way<'s>, StoreError> {
        let mut way = Way { split, said: Said::default(), taken: Taken::default(), is_refused: false };
        if !way.split.memory.is_empty() {
            let reserve = || MemoryStore::reserve_across(&way.split.memory);
            let (decision, reservation) = self.timed_in(&way.split.stores, reserve)?;
            way.said.add(&way.split.places, &decision);
            way.taken.enforced = reservation;
            way.is_refused = !decision.allowed;
        }
        Ok(way)
    }

    /// Takes what lies in shared stores, one after another. When one refuses, nothing stays taken anywhere.
    pub(super) async fn go_on(&self, way: Way<'_>, until: Micros) -> Result<(Decision, Taken), StoreError> {
        let Way { split, mut said, mut taken, mut is_refused } = way;
        // Who refuses keeps its numbers; all others are asked again, or for the first time.
        let mut refusing = None;
        for (nth, group) in split.shared.iter().enumerate() {
            if is_refused {
                break;
            }
            let (decision, held) = self.reserve_in(group, until).await?;
            said.add(&group.places, &decision);
            taken.shared.extend(held);
            if !decision.allowed {
                (is_refused, refusing) = (true, Some(nth));
            }
        }
        if is_refused {
            let had_memory = taken.enforced.is_some();
            std::mem::take(&mut taken).cancel(self.left(until)).await;
            if had_memory {
                self.look_in_memory(&split, &mut said)?;
            }
            let others = split.shared.iter().enumerate().filter(|(nth, _)| Some(*nth) != refusing);
            let looks = others.map(|(_, group)| -> BoxFuture<'_, _> {
                Box::pin(async move { (group, self.look_in(group, until).await) })
            });
            for (group, decision) in join_all(looks).await {
                said.add(&group.places, &decision?);
            }
        }
        Ok((said.decision(), taken))
    }

    pub(super) async fn reserve_in(
        &self,
        group: &Group<'_>,
        until: Micros,
    ) -> Result<(Decision, Option<Held>), StoreError> {
        let started = self.now();
        let within = group.shared.within(self.left(until));
        let answer = group.shared.reserve(group.demand(Ask::Acquire), within).await;
        self.metrics.decision_took(group.store, self.since_then(started));
        answer
    }

    async fn look_in(&self, group: &Group<'_>, until: Micros) -> Result<Decision, StoreError> {
        group.shared.decide(group.demand(Ask::Peek), group.shared.within(self.left(until))).await
    }

    pub(super) fn left(&self, until: Micros) -> Duration {
        self.now().until(until)
    }
}

impl<'s> Group<'s> {
    const fn new(store: usize, shared: &'s Shared) -> Self {
        Self { store, shared, checks: Vec::new(), on_error: Vec::new(), places: Vec::new() }
    }

    fn add(&mut self, check: Check<'s>, on_error: OnStoreError, place: usize) {
        self.checks.push(check);
        self.on_error.push(on_error);
        self.places.push(place);
    }
}
