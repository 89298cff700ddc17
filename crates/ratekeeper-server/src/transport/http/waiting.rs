//! Answers that wait for a store which a fleet shares. Each call is begun anew here: it had not been decided.

use std::cell::Cell;
use std::time::Duration;

use ratekeeper_policy::DEFAULT_DEADLINE;

use crate::asking::Asking;
use crate::live::Live;
use crate::transport::http::answer;
use crate::transport::http::planning::{self, MAX_HINTS, Material, of_store, parsed, plan, seen};
use crate::transport::http::problem::Problem;
use crate::transport::http::question::{CheckRequest, Ending, parse_batch};
use crate::transport::http::reply::Reply;
use crate::transport::http::reserving::{not_ended, parse_reserve};
use crate::transport::http::service::{
    Call, Decided, Service, Verb, begin_results, deliver, end_results, runs, write_check, write_result,
};

/// How long an answer of this listener waits for stores in all.
fn deadline(live: &Live) -> Duration {
    live.config().listen.http.as_ref().map_or(DEFAULT_DEADLINE, |listener| listener.deadline)
}

/// Who is handed the answers one after another, with their numbers.
pub(super) type Each<'e> = &'e mut (dyn FnMut(usize, &Reply) + Send);

impl Service {
    /// Answers calls in their order, all by one configuration, and waits for stores; those that only check are decided
    /// together.
    pub(super) async fn answer_waiting(
        &self,
        live: &Live,
        calls: &[Call<'_>],
        reply: &mut Reply,
        each: Each<'_>,
    ) {
        let mut index = 0;
        for run in runs(calls) {
            match run {
                [call] if call.verb != Verb::Check => {
                    let done = match call.verb {
                        Verb::Reserve => self.reserve_waiting(live, call, reply).await,
                        Verb::Settle => self.settle_waiting(Ending::parse_settle(call.body), reply).await,
                        Verb::Refund => self.settle_waiting(Ending::parse_refund(call.body), reply).await,
                        Verb::Batch | Verb::Check => batch(live, call, reply).await,
                    };
                    if let Err(problem) = done {
                        problem.write(reply);
                    }
                    each(index, reply);
                }
                run => {
                    let asked: Vec<_> =
                        run.iter().map(|call| parsed(CheckRequest::parse(call.body))).collect();
                    decide(live, &asked, |nth, outcome| {
                        write_check(live, outcome, &run[nth], reply);
                        each(index + nth, reply);
                    })
                    .await;
                }
            }
            index += run.len();
        }
    }

    async fn reserve_waiting(&self, live: &Live, call: &Call<'_>, reply: &mut Reply) -> Result<(), Problem> {
        let request = parse_reserve(call)?;
        let material = Material::of(&request);
        let described = material.request(live, &request)?;
        let plan = plan(live, &request, &material, described.as_ref(), &Cell::new(MAX_HINTS))?;
        let asking = Asking::new(live, plan.applied(), seen(&request));
        self.has_room(&asking)?;
        let (outcome, taken) = live.reserve_waiting(&asking, deadline(live)).await.map_err(of_store)?;
        let decided = Decided { named: request.named(), asking: &asking, outcome: &outcome };
        self.hold(live, call, &decided, taken, reply);
        Ok(())
    }

    async fn settle_waiting(
        &self,
        ending: Result<Ending<'_>, Vec<ratekeeper_sim::json::Flaw>>,
        reply: &mut Reply,
    ) -> Result<(), Problem> {
        let (id, ends) = self.ends(ending)?;
        let ending = ends.ending().await.map_err(not_ended)?;
        answer::ended(&id, &ending, reply);
        Ok(())
    }
}

async fn batch(live: &Live, call: &Call<'_>, reply: &mut Reply) -> Result<(), Problem> {
    let checks = parse_batch(call.body).map_err(|flaws| Problem::bad_input(&flaws))?;
    let asked: Vec<_> = checks.iter().map(|check| parsed(CheckRequest::parse(check.as_bytes()))).collect();
    begin_results(reply);
    decide(live, &asked, |index, outcome| write_result(live, index, outcome, &mut reply.body)).await;
    end_results(reply);
    Ok(())
}

/// Decides checks in their order, all at once.
async fn decide(
    live: &Live,
    asked: &[planning::Parsed<'_>],
    each: impl FnMut(usize, Result<Decided<'_>, Problem>),
) {
    let materials = planning::materials(asked);
    let described = planning::described(live, asked, &materials);
    let plans = planning::plans(live, asked, &materials, &described);
    let askings = planning::askings(live, asked, &plans);
    let questions = planning::questions(asked, &askings);
    let outcomes = live.decide_waiting(&questions, deadline(live)).await;
    deliver(live, asked, askings, outcomes, each);
}

#[cfg(test)]
mod tests;
