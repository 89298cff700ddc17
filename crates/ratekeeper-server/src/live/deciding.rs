//! Decisions by stores in memory, which answer at once. Whoever calls these knows that no other is asked
//! ([`Asking::waits`]).

use std::time::Duration;

use ratekeeper::{MemoryStore, Question};
use ratekeeper_core::{Ask, Check, Decision, Micros, StoreError, Trouble};
use ratekeeper_policy::{Action, Applied, Does, Few};

use super::{Live, Taken};
use crate::asking::{Asking, Outcome, Place, Stores};

/// Requests that are decided together, and what for.
pub(crate) type Asked<'a, 's> = &'a [(&'s Asking<'s>, Ask)];

impl Live {
    /// Decides requests in their order, each all or nothing; those that follow one another in one store together, so
    /// that their waits for memory overlap.
    pub(crate) fn decide_batch(&self, asked: &[(&Asking<'_>, Ask)]) -> Vec<Result<Outcome, StoreError>> {
        let mut outcomes = Vec::with_capacity(asked.len());
        for run in asked.chunk_by(|(a, _), (b, _)| a.stores == b.stores) {
            match run {
                [(first, _), _, ..] if let Stores::One(store) = first.stores => {
                    let decisions = self.enforced_batch(store, run);
                    for ((asking, ask), decision) in run.iter().zip(decisions) {
                        outcomes.push(decision.and_then(|decision| self.shown(asking, Some(decision), *ask)));
                    }
                }
                run => outcomes.extend(run.iter().map(|(asking, ask)| self.decide(asking, *ask))),
            }
        }
        outcomes
    }

    /// Decides one request.
    ///
    /// # Errors
    /// Those of the stores.
    pub(crate) fn decide(&self, asking: &Asking<'_>, ask: Ask) -> Result<Outcome, StoreError> {
        let decision = self.enforced(asking, ask)?;
        self.shown(asking, decision, ask)
    }

    /// What the enforced limits of requests say that all lie in store number `store`.
    pub(super) fn enforced_batch(
        &self,
        store: usize,
        run: &[(&Asking<'_>, Ask)],
    ) -> Vec<Result<Decision, StoreError>> {
        let memory = match self.memory(store) {
            Ok(memory) => memory,
            Err(wrong) => return run.iter().map(|_| Err(wrong)).collect(),
        };
        let questions: Vec<Question<'_>> =
            run.iter().map(|(asking, ask)| Question { checks: asking.checks(), ask: *ask }).collect();
        self.timed(store, || memory.decide_batch(&questions))
    }

    /// What the enforced limits of one request say; `None` if there are none.
    pub(super) fn enforced(&self, asking: &Asking<'_>, ask: Ask) -> Result<Option<Decision>, StoreError> {
        Ok(match asking.stores {
            Stores::None => None,
            Stores::One(store) => {
                let memory = self.memory(store)?;
                Some(self.timed(store, || memory.decide_now(asking.checks(), ask))?)
            }
            Stores::Several => {
                Some(self.timed_across(asking, |parts| MemoryStore::decide_across(parts, ask))?)
            }
        })
    }

    /// Takes what a request asks for in a way that can be settled: the enforced limits together, and what those take
    /// that only show themselves.
    ///
    /// # Errors
    /// If a store cannot answer.
    pub(crate) fn reserve(&self, asking: &Asking<'_>) -> Result<(Outcome, Taken), StoreError> {
        let mut taken = Taken::default();
        let decided = match asking.stores {
            Stores::None => None,
            Stores::One(store) => {
                let memory = self.memory(store)?;
                Some(self.timed(store, || memory.reserve_now(asking.checks()))?)
            }
            Stores::Several => Some(self.timed_across(asking, MemoryStore::reserve_across)?),
        };
        let decision = decided.map(|(decision, reservation)| {
            taken.enforced = reservation;
            decision
        });
        let mut outcome = Outcome::of(asking, decision);
        if outcome.allowed() {
            for applied in asking.shadows() {
                self.show((asking, applied), &mut outcome, Ask::Acquire, |checks| {
                    self.reserve_shadow(applied, checks, &mut taken)
                })?;
            }
        }
        Ok((outcome, taken))
    }

    /// Takes what a policy asks for that only shows itself.
    pub(super) fn reserve_shadow(
        &self,
        applied: &Applied<'_>,
        checks: &[Check<'_>],
        taken: &mut Taken,
    ) -> Result<Decision, StoreError> {
        let store = self.store_number(applied.policy);
        let memory = self.memory(store)?;
        let (decision, reservation) = self.timed(store, || memory.reserve_now(checks))?;
        taken.shadows.extend(reservation);
        Ok(decision)
    }

    /// Asks the stores that the limits of a request lie in together, and notes of each of them how long that took.
    fn timed_across<'s, T>(
        &'s self,
        asking: &Asking<'s>,
        ask: impl FnOnce(&[(&'s MemoryStore, Check<'s>)]) -> T,
    ) -> T {
        let number = |place: &Place| Some(self.store_number(asking.applied().get(place.applied)?.policy));
        let numbered = asking.places().iter().map(number).zip(asking.checks());
        let mut numbers: Few<usize> = Few::default();
        let mut parts: Vec<(&MemoryStore, Check<'_>)> = Vec::with_capacity(asking.checks().len());
        for (number, check) in numbered {
            let Some((number, store)) = number.and_then(|n| Some((n, self.memory(n).ok()?))) else {
                continue;
            };
            parts.push((store, *check));
            if !numbers.contains(&number) {
                numbers.push(number);
            }
        }
        self.timed_in(&numbers, || ask(&parts))
    }

    /// Asks those that only show themselves, if the request passes: each alone, as if it alone were enforced.
    fn shown(
        &self,
        asking: &Asking<'_>,
        decision: Option<Decision>,
        ask: Ask,
    ) -> Result<Outcome, StoreError> {
        let mut outcome = Outcome::of(asking, decision);
        if outcome.allowed() {
            for applied in asking.shadows() {
                self.show((asking, applied), &mut outcome, ask, |checks| {
                    self.ask_shadow(applied, checks, ask)
                })?;
            }
        }
        Ok(outcome)
    }

    /// Asks the limits of a policy that only shows itself.
    pub(super) fn ask_shadow(
        &self,
        applied: &Applied<'_>,
        checks: &[Check<'_>],
        ask: Ask,
    ) -> Result<Decision, StoreError> {
        let store = self.store_number(applied.policy);
        let memory = self.memory(store)?;
        self.timed(store, || memory.decide_now(checks, ask))
    }

    /// Adds to an outcome what a policy says that only shows itself. `decide` asks its limits.
    pub(super) fn show(
        &self,
        (asking, applied): (&Asking<'_>, &Applied<'_>),
        outcome: &mut Outcome,
        why: Ask,
        decide: impl FnOnce(&[Check<'_>]) -> Result<Decision, StoreError>,
    ) -> Result<(), StoreError> {
        let Some(policy) = self.config.policies.get(applied.policy) else { return Ok(()) };
        match applied.does {
            Does::Action(action) => {
                if why == Ask::Acquire {
                    self.count_action(applied, action);
                }
                if action == Action::Block {
                    if let (Ask::Acquire, Some(served)) = (why, self.served.get(applied.policy)) {
                        let request = asking.seen().request();
                        self.log.would_block(&served.log, applied.key().as_ref(), request);
                    }
                    outcome.shadow_denied.push(policy.name().to_string());
                }
            }
            Does::Limits(_) => {
                let checks: Few<Check<'_>> = applied.checks().map(|(_, check)| check).collect();
                let decision = decide(&checks)?;
                if why == Ask::Acquire {
                    self.note_decision(applied, &checks, &decision, asking.seen());
                }
                let refusing = checks.iter().zip(decision.limits()).filter(|(_, verdict)| !verdict.allowed());
                let name = |(check, _): (&Check<'_>, _)| format!("{}.{}", policy.name(), check.limit.name());
                outcome.shadow_denied.extend(refusing.map(name));
            }
        }
        Ok(())
    }

    /// Store number `store`, which is in memory.
    pub(super) fn memory(&self, store: usize) -> Result<&MemoryStore, StoreError> {
        let found = self.stores.get(store).and_then(|(_, store)| store.memory());
        // Whoever asks a shared store without waiting would have no answer.
        found.ok_or(StoreError::Failed(Trouble::Other))
    }

    /// Asks store number `store`, and notes how long it took.
    pub(super) fn timed<T>(&self, store: usize, ask: impl FnOnce() -> T) -> T {
        let started = self.now();
        let answer = ask();
        self.metrics.decision_took(store, self.since_then(started));
        answer
    }

    /// Asks several stores at once, and notes of each of them how long that took.
    pub(super) fn timed_in<T>(&self, stores: &[usize], ask: impl FnOnce() -> T) -> T {
        let started = self.now();
        let answer = ask();
        let took = self.since_then(started);
        for store in stores {
            self.metrics.decision_took(*store, took);
        }
        answer
    }

    pub(super) fn since_then(&self, started: Micros) -> Duration {
        Duration::from_micros(self.now().get().saturating_sub(started.get()))
    }
}
