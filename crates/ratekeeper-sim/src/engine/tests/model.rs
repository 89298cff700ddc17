//! A store to run traces on.

use std::collections::HashMap;
use std::future::{Future, ready};
use std::sync::Mutex;

use ratekeeper_core::{
    Clock as _, Evaluation, Limit, Log, Moment, Part, State, StateRef, Step as Fold, decide_all, evaluate,
};

use super::*;

/// A store without a bound, written for clarity: one lock, and what core says. It is also what the product's
/// store is compared with elsewhere, so it shares no code with it.
pub(super) struct Model {
    clock: ManualClock,
    entries: Mutex<HashMap<(u64, String), (State, Log)>>,
}

impl Model {
    pub(super) fn new(clock: &ManualClock) -> Self {
        Self { clock: clock.clone(), entries: Mutex::default() }
    }

    fn slot(check: &Check<'_>) -> (u64, String) {
        (check.limit.id(), format!("{:?}", check.key.parts() as &[Part<'_>]))
    }

    fn moment(&self, check: &Check<'_>) -> Moment {
        let now = self.clock.now();
        let mut at = Moment::at(now);
        at.period = check.limit.calendar().map(|calendar| calendar.window(now));
        at
    }

    fn change(&self, checks: &[Check<'_>], mut how: impl FnMut(usize, &Limit, Micros, &mut State, &mut Log)) {
        let mut entries = self.entries.lock().expect("no test panics with it");
        for (i, check) in checks.iter().enumerate() {
            let (state, log) = entries.entry(Self::slot(check)).or_default();
            how(i, check.limit.limit(), self.clock.now(), state, log);
        }
    }

    fn decide_now(&self, checks: &[Check<'_>], ask: Ask) -> Decision {
        let mut entries = self.entries.lock().expect("no test panics with it");
        let evaluations: Vec<Evaluation> = checks
            .iter()
            .map(|check| {
                let (state, log) = entries.entry(Self::slot(check)).or_default();
                let limit = check.limit.limit();
                let is_log = limit.kind() == ratekeeper_core::Algorithm::SlidingWindowLog;
                let state = if is_log { StateRef::Log(log) } else { StateRef::Words(*state) };
                evaluate(limit, state, &self.moment(check), check.cost, ask)
            })
            .collect();
        let fold = decide_all(&evaluations, ask);
        let verdict = |(check, evaluation): (&Check<'_>, &Evaluation)| {
            let (state, log) = entries.entry(Self::slot(check)).or_default();
            match fold {
                Fold::Take => {
                    *state = evaluation.next();
                    if check.limit.limit().kind() == ratekeeper_core::Algorithm::SlidingWindowLog {
                        log.reserve(check.limit.limit().capacity() as usize);
                        log.admit(check.limit.limit(), &self.moment(check), check.cost);
                    }
                    evaluation.taken()
                }
                Fold::Heal => {
                    *state = evaluation.healed().unwrap_or(*state);
                    log.heal(&self.moment(check));
                    evaluation.untouched()
                }
                Fold::Nothing => evaluation.untouched(),
            }
        };
        Decision::of(checks.iter().zip(&evaluations).map(verdict).collect())
    }
}

impl Store for Model {
    fn decide(
        &self,
        checks: &[Check<'_>],
        ask: Ask,
    ) -> impl Future<Output = Result<Decision, StoreError>> + Send {
        ready(Ok(self.decide_now(checks, ask)))
    }

    fn refund(&self, admitted: &[(Check<'_>, Token)]) -> impl Future<Output = Result<(), StoreError>> + Send {
        let checks: Vec<Check<'_>> = admitted.iter().map(|(check, _)| *check).collect();
        self.change(&checks, |i, limit, now, state, log| {
            *state = limit.refund(*state, now, &admitted[i].1);
            log.refund(&admitted[i].1);
        });
        ready(Ok(()))
    }

    fn credit(&self, checks: &[Check<'_>]) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.change(checks, |i, limit, now, state, log| {
            *state = limit.credit(*state, now, checks[i].cost);
            log.credit(limit, now, checks[i].cost);
        });
        ready(Ok(()))
    }

    fn reset(&self, checks: &[Check<'_>]) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.change(checks, |_, _, _, state, log| {
            *state = State::FRESH;
            *log = Log::new();
        });
        ready(Ok(()))
    }
}
