//! Reservations over HTTP: what is held until it is settled or given back.

use std::borrow::Cow;
use std::cell::Cell;

use ratekeeper_core::{Decision, Verdict, retry_after_seconds};
use ratekeeper_sim::json::Flaw;

use crate::asking::Asking;
use crate::holds::{self, Ends, HOLD_TTL, MAX_HOLDS, NotEnded};
use crate::live::{Live, Taken};
use crate::transport::http::answer;
use crate::transport::http::planning::{MAX_HINTS, Material, of_store, parsed, plan, seen};
use crate::transport::http::problem::Problem;
use crate::transport::http::question::{CheckRequest, Ending};
use crate::transport::http::reply::Reply;
use crate::transport::http::service::{Call, Decided, Progress, Service};

impl Service {
    /// Takes what is asked for and keeps under an id what is needed to settle it.
    pub(super) fn reserve(
        &self,
        live: &Live,
        call: &Call<'_>,
        reply: &mut Reply,
    ) -> Result<Progress, Problem> {
        let request = parse_reserve(call)?;
        let material = Material::of(&request);
        let described = material.request(live, &request)?;
        let plan = plan(live, &request, &material, described.as_ref(), &Cell::new(MAX_HINTS))?;
        let asking = Asking::new(live, plan.applied(), seen(&request));
        if asking.waits {
            return Ok(Progress::Waits);
        }
        self.has_room(&asking)?;
        let (outcome, taken) = live.reserve(&asking).map_err(of_store)?;
        let decided = Decided { named: request.named(), asking: &asking, outcome: &outcome };
        self.hold(live, call, &decided, taken, reply);
        Ok(Progress::Answered)
    }

    /// Whether one more reservation may be open.
    pub(super) fn has_room(&self, asking: &Asking<'_>) -> Result<(), Problem> {
        if asking.checks().is_empty() && asking.shadows().next().is_none() {
            return Ok(());
        }
        let room = self.app().holds().room(self.now());
        room.map_err(|wait| Problem::too_many_holds(MAX_HOLDS, retry_after_seconds(wait)))
    }

    /// Keeps what was taken, and answers.
    pub(super) fn hold(
        &self,
        live: &Live,
        call: &Call<'_>,
        decided: &Decided<'_>,
        taken: Taken,
        reply: &mut Reply,
    ) {
        let Decided { asking, outcome, .. } = decided;
        live.note(asking, outcome);
        let id = outcome.allowed().then(|| {
            let name = answer::policy(live, asking, outcome).map(|policy| policy.name().clone());
            // A limit that takes what is left may have taken less than was asked for.
            let limits = outcome.decision.iter().flat_map(Decision::limits);
            let held = limits.map(Verdict::cost).max().unwrap_or(0);
            holds::written(self.app().holds().keep(name, held, taken, self.now()))
        });
        let held = id.as_deref().map(|id| answer::Held { id, ttl: HOLD_TTL });
        answer::write(live, decided, call, held.as_ref(), reply);
    }

    /// Ends a reservation: at what it came to, or at nothing. If that is to be waited for, it has begun.
    pub(super) fn settle(
        &self,
        ending: Result<Ending<'_>, Vec<Flaw>>,
        reply: &mut Reply,
    ) -> Result<Progress, Problem> {
        let (id, ends) = self.ends(ending)?;
        let Ends::Now(ending) = ends else { return Ok(Progress::Waits) };
        answer::ended(&id, &ending, reply);
        Ok(Progress::Answered)
    }

    /// Ends the reservation that is meant; its id.
    pub(super) fn ends<'e>(
        &self,
        ending: Result<Ending<'e>, Vec<Flaw>>,
    ) -> Result<(Cow<'e, str>, Ends), Problem> {
        let Ending { id, cost } = ending.map_err(|flaws| Problem::bad_input(&flaws))?;
        let known = holds::read(&id).ok_or_else(Problem::unknown_id)?;
        let ends = self.app().holds().end(known, cost, self.now()).map_err(not_ended)?;
        Ok((id, ends))
    }
}

/// Why a reservation is not ended.
pub(super) fn not_ended(wrong: NotEnded) -> Problem {
    match wrong {
        NotEnded::Unknown => Problem::unknown_id(),
        NotEnded::Otherwise(cost) => Problem::already_settled(cost),
        NotEnded::Cut => Problem::unavailable("the server ends".to_owned()),
    }
}

/// The body of a reservation.
pub(super) fn parse_reserve<'b>(call: &Call<'b>) -> Result<CheckRequest<'b>, Problem> {
    let request = parsed(CheckRequest::parse_reserve(call.body))?;
    if request.cost == Some(0) {
        let message = "a reservation holds at least 1".to_owned();
        return Err(Problem::bad_input(&[request.places.flaw("cost", message, None)]));
    }
    Ok(request)
}
