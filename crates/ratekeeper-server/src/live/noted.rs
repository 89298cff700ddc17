//! What is counted and told of decisions.

use ratekeeper_core::{Check, Decision};
use ratekeeper_policy::{Action, Applied, Does, Mode};

use super::{Live, Seen};
use crate::asking::{Asking, Outcome};
use crate::telemetry::log::Decided;

impl Live {
    /// Counts what became of a request that asked for units, and tells of refusals. Looks are no decisions.
    pub(crate) fn note(&self, asking: &Asking<'_>, outcome: &Outcome) {
        let seen = asking.seen();
        // Of a refused request only those count it that refuse it; one line tells of it, under the name of the answer.
        for applied in asking.blockers() {
            self.count_action(applied, Action::Block);
        }
        if let Some(applied) = asking.blocked() {
            if let Some(served) = self.served.get(applied.policy) {
                self.log.blocked(&served.log, applied.key().as_ref(), seen.request());
            }
            return;
        }
        if outcome.allowed() {
            for applied in asking.applied().iter().filter(|applied| applied.mode == Mode::Enforce) {
                if let Does::Action(action) = applied.does {
                    self.count_action(applied, action);
                }
            }
        }
        let Some(decision) = &outcome.decision else { return };
        let mut parts = asking.by_policy();
        if let (Some((applied, _)), None) = (parts.next(), parts.next()) {
            // Most requests meet one policy, which has the whole decision for itself.
            self.note_decision(applied, asking.checks(), decision, seen);
        } else {
            for (applied, range) in asking.by_policy() {
                let verdicts = decision.limits().get(range.clone()).unwrap_or_default();
                let own = Decision::of(verdicts.to_vec());
                // Of a refused request only those count it that refuse it: the others took nothing.
                if own.allowed == decision.allowed {
                    self.note_decision(applied, asking.checks().get(range).unwrap_or_default(), &own, seen);
                }
            }
        }
    }

    /// Counts and tells what a policy has decided, or in shadow mode would have done.
    pub(super) fn note_decision(
        &self,
        applied: &Applied<'_>,
        checks: &[Check<'_>],
        decision: &Decision,
        seen: &Seen<'_>,
    ) {
        let binding = applied.checks().nth(decision.binding).map(|(place, _)| place);
        let is_shadow = applied.mode == Mode::Shadow;
        if let Some(metrics) = self.metrics.policy(applied.policy) {
            if is_shadow { metrics.shown(decision, binding) } else { metrics.decided(decision, binding) }
        }
        let decided = Decided { checks, decision, mode: applied.mode.name(), request: seen.request() };
        if let Some(served) = self.served.get(applied.policy) {
            if is_shadow {
                self.log.shown(&served.log, &decided)
            } else {
                self.log.decided(&served.log, &decided)
            }
        }
    }

    /// Counts what a policy does without asking any limit, or would do.
    pub(super) fn count_action(&self, applied: &Applied<'_>, action: Action) {
        if let Some(metrics) = self.metrics.policy(applied.policy) {
            metrics.acted(action, applied.mode);
        }
    }
}
