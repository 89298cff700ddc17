//! Limits in memory that are waited for in line: who came first is served first.

use std::time::Duration;

use ratekeeper::{AcquireAll, Check, Decision, MemoryStore, Overflow, Reason, Refused, Verdict, all_of};
use smallvec::SmallVec;

use crate::book::{Place, Places};
use crate::facts;
use crate::outcome::{Held, Outcome, Wrong, failed};
use crate::policies::{Laid, PolicySet};
use crate::rules::{Checks, Context, Rules};
use crate::waiting::Waiting;

/// Waits until all limits let the request pass, and until its start.
async fn turn(of: &Context<'_>, turn: AcquireAll, held: &mut Held) -> Decision {
    let options = of.options;
    let place = Waiting::enter(&options.waiting, options.max_waiting);
    // Whoever finds no place may still be served if nobody has to wait for that.
    let within = if place.is_some() { options.wait.unwrap_or_default() } else { Duration::ZERO };
    let turn = turn.overflow(Overflow::Wait).within(within);
    let admitted = if of.reserves {
        turn.reserve().await.map(|(admitted, reservation)| {
            held.memory.push(reservation);
            admitted
        })
    } else {
        turn.await
    };
    admitted.map_or_else(|refused| told(&refused, place.is_none()), ratekeeper::Admitted::into_decision)
}

/// The refusal as a decision, with a wait if any helps: a line that is closed, or a time that is over, says none.
fn told(refused: &Refused, had_no_place: bool) -> Decision {
    let decision = refused.decision().clone();
    let reason = match refused.reason() {
        Some(Reason::TooLate) if had_no_place => Reason::QueueFull,
        Some(reason @ (Reason::TooLate | Reason::QueueFull | Reason::Closed)) => reason,
        _ => return decision,
    };
    let of_limits = || decision.limits().iter().filter_map(Verdict::retry_after).max().unwrap_or_default();
    let wait = refused.retry_after().unwrap_or_else(of_limits);
    decision.refused_for(reason, Some(wait)).decision().clone()
}

/// The order in which limits are waited for: those of one key first, then what all share, so that nobody who waits for its
/// own units holds up the others.
fn narrowest_first<T>(asked: impl Iterator<Item = (bool, Place, T)>) -> SmallVec<[(bool, Place, T); 4]> {
    let mut asked: SmallVec<[_; 4]> = asked.collect();
    asked.sort_by_key(|(is_global, ..)| *is_global);
    asked
}

/// What was said, in the order of the limits.
fn in_order(decision: &Decision, places: Places, all: &Places) -> (Decision, Places) {
    let said = |place: &Place| {
        let nth = places.iter().position(|other| other == place)?;
        Some((*place, *decision.limits().get(nth)?))
    };
    let (places, verdicts): (Places, Vec<Verdict>) = all.iter().filter_map(said).unzip();
    let mut ordered = Decision::of(verdicts);
    // The line's own reason and wait are no limit's.
    if !decision.allowed {
        let reason = decision.reason.unwrap_or(Reason::Limited);
        ordered = ordered.refused_for(reason, decision.retry_after).decision().clone();
    }
    (ordered, places)
}

impl Rules {
    /// Decides a request whose limits are all in memory, when it is its turn.
    pub(crate) async fn ask_in_line(&self, of: &Context<'_>) -> Result<Outcome, Wrong> {
        let mut outcome = Outcome::default();
        let (mut checks, mut all) = (Checks::new(), Places::new());
        self.ask_of_memory(of, &mut checks, &mut all)?;
        if checks.is_empty() {
            return Ok(outcome);
        }
        let is_global = |place: &Place| self.list[usize::from(place.limit)].key.is_global();
        let asked = all.iter().zip(checks).map(|(place, check)| (is_global(place), *place, check));
        let (places, checks): (Places, Checks<'_>) =
            narrowest_first(asked).into_iter().map(|(_, place, check)| (place, check)).unzip();
        let acquire = all_of(&checks).map_err(failed)?.acquire();
        drop(checks);
        let decision = turn(of, acquire, &mut outcome.held).await;
        let (decision, places) = in_order(&decision, places, &all);
        (outcome.decision, outcome.places) = (Some(decision), places);
        Ok(outcome)
    }
}

impl PolicySet {
    /// Decides a request whose limits are all in memory, when it is its turn. Policies in shadow mode are asked after that.
    pub(crate) async fn ask_in_line(&self, of: &Context<'_>) -> Result<Outcome, Wrong> {
        let lines = facts::lines(of.parts);
        let described = self.describe(of, &lines)?;
        let plan = self.plan(&described, of)?;
        let laid = Laid::of(plan.applied());
        let mut outcome = Outcome { blocked: laid.blocked, ..Outcome::default() };
        let asked = laid.places.iter().zip(&laid.checks).filter_map(|(place, check)| {
            let memory = self.memory(*place)?;
            Some((check.key.parts().is_empty(), *place, (memory, *check)))
        });
        let (places, parts): (Places, SmallVec<[(&MemoryStore, Check<'_>); 4]>) =
            narrowest_first(asked).into_iter().map(|(_, place, part)| (place, part)).unzip();
        if !parts.is_empty() {
            let acquire = MemoryStore::acquire_across(&parts).map_err(failed)?;
            let decision = turn(of, acquire, &mut outcome.held).await;
            let (decision, places) = in_order(&decision, places, &laid.places);
            (outcome.decision, outcome.places) = (Some(decision), places);
        }
        if outcome.allowed() {
            for applied in &laid.shadows {
                self.show(applied, of.reserves, &mut outcome).map_err(failed)?;
            }
        }
        Ok(outcome)
    }
}
