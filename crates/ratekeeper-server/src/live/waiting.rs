//! Decisions that some shared store takes part in, which are waited for. What is asked of one store at one time goes
//! to it together; a request that meets several stores goes from one to the next, and back if one refuses.
//!
//! Whoever has asked may go away at any moment: what was taken for it in a way that can be given back is given back
//! with [`Taken`], and nothing else is left behind.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use ratekeeper::{Demand, OnStoreError};
use ratekeeper_core::{Ask, Check, Decision, Micros, StoreError};

use super::deciding::Asked;
use super::stores::Shared;
use super::ways::{Group, Said};
use super::{Live, Taken};
use crate::asking::{Asking, Outcome, Stores};

/// What is asked of one store together: for each of it which request it is of, and its limits.
struct Batch<'s> {
    store: usize,
    shared: &'s Shared,
    groups: Vec<(usize, Ask, Group<'s>)>,
}

type Batches<'s> = BTreeMap<usize, Batch<'s>>;
type Decisions = Vec<Result<Option<Decision>, StoreError>>;

/// What came of what was waited for.
enum Came<'s> {
    Batch(Batch<'s>, Vec<Result<Decision, StoreError>>),
    /// Of a request on its way.
    Way(usize, Result<Decision, StoreError>),
}

impl Live {
    /// Decides requests, each all or nothing, and waits for shared stores no longer than `deadline` in all: what one of
    /// them is asked goes to it together.
    pub(crate) async fn decide_waiting<'s>(
        &'s self,
        asked: Asked<'_, 's>,
        deadline: Duration,
    ) -> Vec<Result<Outcome, StoreError>> {
        let until = self.now().saturating_add(deadline);
        let decisions = self.enforced_waiting(asked, until).await;
        self.shown_waiting(asked, decisions, until).await
    }

    /// What the enforced limits of requests say.
    async fn enforced_waiting<'s>(&'s self, asked: Asked<'_, 's>, until: Micros) -> Decisions {
        let mut decisions: Decisions = Vec::with_capacity(asked.len());
        let (mut batches, mut ways) = (Batches::default(), Vec::new());
        let mut parts: BTreeMap<usize, Said> = BTreeMap::new();
        let is_alike = |a: &Asking<'_>, b: &Asking<'_>| a.stores == b.stores && a.is_shared == b.is_shared;
        // What lies in memory is asked first, in the order of the requests.
        for run in asked.chunk_by(|(a, _), (b, _)| is_alike(a, b)) {
            match run {
                [(first, _), ..] if !first.is_shared => self.enforced_in_memory(run, &mut decisions),
                run => {
                    for (asking, ask) in run {
                        let (index, split) = (decisions.len(), self.split(asking));
                        decisions.push(Ok(None));
                        let is_one = split.memory.is_empty() && split.shared.len() == 1;
                        if is_one || *ask == Ask::Peek {
                            let mut said = Said::default();
                            match self.look_in_memory(&split, &mut said) {
                                Ok(()) => add_to(&mut batches, index, *ask, split.shared),
                                Err(wrong) => decisions[index] = Err(wrong),
                            }
                            parts.insert(index, said);
                        } else {
                            match self.begin(split) {
                                Ok(way) => ways.push((index, way)),
                                Err(wrong) => decisions[index] = Err(wrong),
                            }
                        }
                    }
                }
            }
        }
        let mut waited: Vec<BoxFuture<'_, Came<'s>>> = Vec::with_capacity(batches.len() + ways.len());
        for batch in batches.into_values() {
            waited.push(Box::pin(self.ask_batch(batch, until)));
        }
        for (index, way) in ways {
            waited.push(Box::pin(async move {
                let decided = self.go_on(way, until).await;
                Came::Way(index, decided.map(|(decision, taken)| (taken.keep(), decision).1))
            }));
        }
        for came in join_all(waited).await {
            match came {
                Came::Way(index, decided) => decisions[index] = decided.map(Some),
                Came::Batch(batch, answers) => {
                    for ((index, _, group), answer) in batch.groups.iter().zip(answers) {
                        match (answer, parts.get_mut(index)) {
                            (Ok(decision), Some(said)) => said.add(&group.places, &decision),
                            (Err(wrong), _) => decisions[*index] = Err(wrong),
                            (Ok(_), None) => {}
                        }
                    }
                }
            }
        }
        for (index, said) in parts {
            if decisions[index].is_ok() {
                decisions[index] = Ok(Some(said.decision()));
            }
        }
        decisions
    }

    /// The same of requests whose limits lie in the same stores, all of them in memory.
    fn enforced_in_memory(&self, run: &[(&Asking<'_>, Ask)], decisions: &mut Decisions) {
        match run {
            [(first, _), _, ..] if let Stores::One(store) = first.stores => {
                let answers = self.enforced_batch(store, run).into_iter();
                decisions.extend(answers.map(|answer| answer.map(Some)));
            }
            run => decisions.extend(run.iter().map(|(asking, ask)| self.enforced(asking, *ask))),
        }
    }

    /// Asks those that only show themselves of the requests that pass: each alone, as if it alone were enforced.
    async fn shown_waiting<'s>(
        &'s self,
        asked: Asked<'_, 's>,
        decisions: Decisions,
        until: Micros,
    ) -> Vec<Result<Outcome, StoreError>> {
        let mut outcomes = Vec::with_capacity(asked.len());
        let mut batches = Batches::default();
        let mut nth = 0;
        // Each question has a number of its own: they are asked and told in the same order.
        for ((asking, ask), decision) in asked.iter().zip(decisions) {
            let outcome = decision.map(|decision| Outcome::of(asking, decision));
            if outcome.as_ref().is_ok_and(Outcome::allowed) {
                for applied in asking.shadows() {
                    if let Some(group) = self.group_of(applied) {
                        add_to(&mut batches, nth, *ask, vec![group]);
                        nth += 1;
                    }
                }
            }
            outcomes.push(outcome);
        }
        let batches = batches.into_values();
        let waited =
            batches.map(|batch| -> BoxFuture<'_, Came<'s>> { Box::pin(self.ask_batch(batch, until)) });
        let mut answers = BTreeMap::new();
        for came in join_all(waited).await {
            if let Came::Batch(batch, decided) = came {
                answers.extend(batch.groups.iter().map(|(nth, ..)| *nth).zip(decided));
            }
        }
        let mut answers = answers.into_values();
        for ((asking, ask), outcome) in asked.iter().zip(&mut outcomes) {
            let Ok(found) = outcome else { continue };
            if !found.allowed() {
                continue;
            }
            let shown = asking.shadows().try_for_each(|applied| {
                let is_shared = self.is_shared(applied);
                let answer = if is_shared { answers.next() } else { None };
                self.show((asking, applied), found, *ask, |checks| match answer {
                    Some(answer) => answer,
                    None => self.ask_shadow(applied, checks, *ask),
                })
            });
            if let Err(wrong) = shown {
                *outcome = Err(wrong);
            }
        }
        outcomes
    }

    /// Takes what a request asks for in a way that can be settled, and waits for shared stores no longer than
    /// `deadline` in all.
    ///
    /// # Errors
    /// If a store cannot answer.
    pub(crate) async fn reserve_waiting<'s>(
        &'s self,
        asking: &'s Asking<'s>,
        deadline: Duration,
    ) -> Result<(Outcome, Taken), StoreError> {
        let until = self.now().saturating_add(deadline);
        let (mut decision, mut taken) = (None, Taken::default());
        if !asking.checks().is_empty() {
            let way = self.begin(self.split(asking))?;
            let (decided, held) = self.go_on(way, until).await?;
            (decision, taken) = (Some(decided), held);
        }
        let mut outcome = Outcome::of(asking, decision);
        if outcome.allowed() {
            for applied in asking.shadows() {
                let mut answer = None;
                if let Some(group) = self.group_of(applied) {
                    let (decided, held) = self.reserve_in(&group, until).await?;
                    taken.shared.extend(held.map(|mut held| {
                        held.is_shadow = true;
                        held
                    }));
                    answer = Some(decided);
                }
                self.show((asking, applied), &mut outcome, Ask::Acquire, |checks| match answer {
                    Some(decided) => Ok(decided),
                    None => self.reserve_shadow(applied, checks, &mut taken),
                })?;
            }
        }
        taken.bound(deadline);
        Ok((outcome, taken))
    }

    async fn ask_batch<'s>(&'s self, batch: Batch<'s>, until: Micros) -> Came<'s> {
        let demands: Vec<Demand<'_>> =
            batch.groups.iter().map(|(_, ask, group)| group.demand(*ask)).collect();
        let started = self.now();
        let answers = batch.shared.decide_batch(&demands, batch.shared.within(self.left(until))).await;
        self.metrics.decision_took(batch.store, self.since_then(started));
        drop(demands);
        Came::Batch(batch, answers)
    }

    /// What limits of policy number `policy` say of keys, without taking anything.
    ///
    /// # Errors
    /// If the store does not answer; with `on_error` a shared one has an answer even then.
    pub(crate) async fn look(
        &self,
        policy: usize,
        checks: &[Check<'_>],
        on_error: OnStoreError,
    ) -> Result<Decision, StoreError> {
        let (number, store) = (self.store_number(policy), self.store_of(policy));
        let Some(shared) = store.shared() else {
            let memory = self.memory(number)?;
            return memory.decide_now(checks, Ask::Peek);
        };
        let on_error = vec![on_error; checks.len()];
        shared.decide(Demand { checks, on_error: &on_error, ask: Ask::Peek }, shared.timeout()).await
    }

    /// Forgets keys of policy number `policy`.
    ///
    /// # Errors
    /// If the store does not answer.
    pub(crate) async fn forget(&self, policy: usize, checks: &[Check<'_>]) -> Result<(), StoreError> {
        use ratekeeper_core::Store as _;
        match self.store_of(policy).shared() {
            Some(shared) => shared.reset(checks).await,
            None => self.memory(self.store_number(policy))?.reset(checks).await,
        }
    }
}

fn add_to<'s>(batches: &mut Batches<'s>, index: usize, ask: Ask, groups: Vec<Group<'s>>) {
    for group in groups {
        let batch = batches.entry(group.store).or_insert_with(|| Batch {
            store: group.store,
            shared: group.shared,
            groups: Vec::new(),
        });
        batch.groups.push((index, ask, group));
    }
}

#[cfg(test)]
mod tests;
