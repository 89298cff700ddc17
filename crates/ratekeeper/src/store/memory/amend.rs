//! What happens to states besides decisions: refunds, credits, resets, and charges of what was reserved too low.

use ratekeeper_core::{
    Ask, Check, Decision, Evaluation, Limit, Source, State, StateRef, StoreError, Token, Verdict,
};

use super::query::Query;
use super::request::{self, Found, Reach};
use super::{Inner, MemoryStore, decide_queries};
use crate::receipt::{Part, Reservation};

impl Inner {
    /// Gives an admission back.
    pub(crate) fn refund(queries: &[Query<'_>], tokens: &[Token]) {
        request::amend(queries, Reach::Shared, &mut |at, found| match found {
            // Under other parameters it is not known what the units have become: they stay used.
            // Nor do they come back to a state that they were not taken from.
            Found::Words { query, limit, state, shared } => {
                if limit.counts_like(queries[query].limit) && tokens[query].is_of_overflow() == shared {
                    *state = limit.refund(*state, at.now, &tokens[query]);
                }
            }
            Found::Log { query, log, shared, .. } => {
                if tokens[query].is_of_overflow() == shared {
                    log.refund(&tokens[query]);
                }
            }
        });
        Self::came_back(queries);
    }

    /// Credits each query's cost to its key, if it has a place of its own.
    pub(crate) fn credit(queries: &[Query<'_>]) {
        request::amend(queries, Reach::Own, &mut |at, found| match found {
            Found::Words { query, limit, state, .. } => {
                *state = limit.credit(*state, at.now, queries[query].cost);
            }
            Found::Log { query, limit, log, .. } => log.credit(limit, at.now, queries[query].cost),
        });
        Self::came_back(queries);
    }

    /// Forgets the keys.
    pub(crate) fn reset(queries: &[Query<'_>]) {
        request::amend(queries, Reach::Own, &mut |_, found| match found {
            Found::Words { state, .. } => *state = State::FRESH,
            Found::Log { log, .. } => log.clear(),
        });
        Self::came_back(queries);
    }

    /// Whoever waits for these keys may be served.
    fn came_back(queries: &[Query<'_>]) {
        #[cfg(any(feature = "tokio", loom))]
        queries.iter().for_each(|query| query.store.ask_again(Some(query.hash)));
        #[cfg(not(any(feature = "tokio", loom)))]
        let _ = queries;
    }

    /// Takes as much of each query's cost as there is, each for itself. By the limit that its state was written with,
    /// whatever it is by now: a conversion to a limit of the past could forget units.
    pub(crate) fn charge(queries: &[Query<'_>]) -> Vec<Verdict> {
        let mut verdicts: Vec<Option<Verdict>> = vec![None; queries.len()];
        let mut written: Vec<Limit> = queries.iter().map(|query| *query.limit).collect();
        request::amend(queries, Reach::Shared, &mut |at, found| {
            let (query, limit, state, shared) = match found {
                Found::Words { query, limit, state, shared } => (query, limit, state, shared),
                // Logs convert nothing, and an entry may have to find memory: they are decided below.
                Found::Log { query, limit, .. } => {
                    written[query] = *limit;
                    return;
                }
            };
            let asked = Query { limit, ..queries[query] };
            let source = if shared { Source::Overflow } else { Source::Exact };
            // The period of another calendar is not known here.
            let evaluation = if limit.alignment() == queries[query].limit.alignment() {
                asked.evaluate(StateRef::Words(*state), &at, asked.cost, Ask::Acquire).with_source(source)
            } else {
                Evaluation::no_room(limit, &at, asked.cost)
            };
            verdicts[query] = Some(if evaluation.allowed() {
                *state = evaluation.next();
                evaluation.taken()
            } else {
                evaluation.untouched()
            });
        });
        let decided = |((query, limit), verdict): ((&Query<'_>, &Limit), Option<Verdict>)| {
            verdict.unwrap_or_else(|| {
                let shape = query.store.prepare(limit).unwrap_or(query.shape);
                query.store.decide_one(&Query { limit, shape, ..*query }, Ask::Acquire)
            })
        };
        queries.iter().zip(&written).zip(verdicts).map(decided).collect()
    }
}

impl MemoryStore {
    /// Decides a request from all its limits like [`MemoryStore::decide_now`]; if it is allowed, what it took may
    /// yet be [settled](Reservation::settle), given back or kept: the reservation owns all that this takes.
    ///
    /// ```
    /// use ratekeeper::{Check, Limit, MemoryStore, Name, NamedLimit};
    /// let policy = Name::new("llm")?;
    /// let tokens = NamedLimit::new(&policy, Name::new("tokens")?, Limit::per_hour(10_000));
    /// let store = MemoryStore::builder().max_keys(100_000).build()?;
    /// let estimate = Check { limit: &tokens, key: "tenant-7".into(), cost: 4_000 };
    /// let (decision, reservation) = store.reserve_now(&[estimate])?;
    /// assert!(decision.allowed);
    /// let receipt = reservation.expect("it is allowed").settle(1_500);
    /// assert_eq!(receipt.charged(), 1_500);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`MemoryStore::decide_now`].
    pub fn reserve_now(&self, checks: &[Check<'_>]) -> Result<(Decision, Option<Reservation>), StoreError> {
        let queries = self.queries(checks)?;
        let verdicts = match &queries[..] {
            [query] => vec![self.inner.decide_one(query, Ask::Acquire)],
            queries => decide_queries(queries, Ask::Acquire),
        };
        let decision = Decision::of(verdicts);
        let part = |(query, check): (&Query<'_>, &Check<'_>)| {
            Part::of(self.inner(), check.limit.shared_calendar(), query)
        };
        let parts = || queries.iter().zip(checks).map(part).collect();
        let reservation = decision.allowed.then(|| Reservation::new(parts(), decision.limits()));
        Ok((decision, reservation))
    }

    /// Decides a request whose limits lie in several stores so that it can be settled: [`MemoryStore::reserve_now`]
    /// and [`MemoryStore::decide_across`].
    ///
    /// # Errors
    /// Those of [`MemoryStore::decide_now`].
    pub fn reserve_across(
        parts: &[(&Self, Check<'_>)],
    ) -> Result<(Decision, Option<Reservation>), StoreError> {
        let queries = Self::queries_across(parts)?;
        let decision = Decision::of(decide_queries(&queries, Ask::Acquire));
        let part = |(query, (store, check)): (&Query<'_>, &(&Self, Check<'_>))| {
            Part::of(store.inner(), check.limit.shared_calendar(), query)
        };
        let taken = || queries.iter().zip(parts).map(part).collect();
        let reservation = decision.allowed.then(|| Reservation::new(taken(), decision.limits()));
        Ok((decision, reservation))
    }

    /// Gives admissions back by the safe rule, as [`Store::refund`](ratekeeper_core::Store::refund) does; a plain
    /// function. The caller sees to it that no token is used twice.
    ///
    /// # Errors
    /// Those of [`MemoryStore::decide_now`].
    pub fn refund_now(&self, admitted: &[(Check<'_>, Token)]) -> Result<(), StoreError> {
        let (checks, tokens): (Vec<Check<'_>>, Vec<Token>) = admitted.iter().copied().unzip();
        Inner::refund(&self.queries(&checks)?, &tokens);
        Ok(())
    }
}
