//! What somebody who waits has asked for: the question, owned, so that it can be asked again at any time.

use std::sync::Arc;
use std::time::Duration;

use ratekeeper_core::{Ask, Calendar, Decision, Limit, Micros, Reason, Refused, Verdict, Window};
use smallvec::SmallVec;

use crate::keyed::{LimiterCheck, Shared};
use crate::receipt::{Part, Reservation};
use crate::store::memory::{Hash, Inner, Query, decide_queries};

/// One limit's part of it.
pub(crate) struct One {
    owner: Owner,
    hash: Hash,
    cost: u64,
    up_to: bool,
}

enum Owner {
    /// Without a limit: by the one that the limiter has when it is asked.
    Limiter(Arc<Shared>, Option<Limit>),
    Store {
        store: Arc<Inner>,
        id: u64,
        calendar: Option<Arc<dyn Calendar>>,
        limit: Limit,
    },
}

impl One {
    pub(crate) fn of_limiter(limiter: &Arc<Shared>, hash: Hash, limit: Option<Limit>, cost: u64) -> Self {
        Self { owner: Owner::Limiter(Arc::clone(limiter), limit), hash, cost, up_to: false }
    }

    pub(crate) fn of_check(check: &LimiterCheck<'_>) -> Self {
        // A limiter's own limit may change until it is asked; that of a key is what was found for it.
        let limit = check.limiter.has_limits_of_keys().then_some(check.limit);
        Self::of_limiter(check.limiter, check.hash, limit, check.cost)
    }

    pub(crate) fn of_store(store: &Arc<Inner>, check: &ratekeeper_core::Check<'_>) -> Self {
        let named = check.limit;
        let owner = Owner::Store {
            store: Arc::clone(store),
            id: named.id(),
            calendar: named.shared_calendar().map(Arc::clone),
            limit: *named.limit(),
        };
        let hash = store.hash(named.id(), &check.key);
        Self { owner, hash, cost: check.cost, up_to: named.is_draining() }
    }

    fn store(&self) -> &Arc<Inner> {
        match &self.owner {
            Owner::Limiter(limiter, _) => &limiter.store,
            Owner::Store { store, .. } => store,
        }
    }

    fn calendar(&self) -> Option<&Arc<dyn Calendar>> {
        match &self.owner {
            Owner::Limiter(limiter, _) => limiter.calendar.as_ref(),
            Owner::Store { calendar, .. } => calendar.as_ref(),
        }
    }

    fn limit(&self) -> &Limit {
        match &self.owner {
            Owner::Limiter(_, Some(limit)) | Owner::Store { limit, .. } => limit,
            Owner::Limiter(limiter, None) => limiter.own_limit(),
        }
    }

    fn query(&self, cost: u64) -> Option<Query<'_>> {
        match &self.owner {
            Owner::Limiter(limiter, None) => Some(limiter.own_query(self.hash, cost, false)),
            Owner::Limiter(limiter, Some(limit)) => limiter.query(limit, self.hash, cost, false),
            Owner::Store { store, id, calendar, limit } => {
                let shape = store.prepare(limit)?;
                let (hash, up_to, calendar) = (self.hash, self.up_to, calendar.as_deref());
                Some(Query { store, limit, shape, id: *id, hash, cost, up_to, calendar })
            }
        }
    }

    fn part(&self, verdict: &Verdict) -> Option<Part> {
        // By the limit that was charged, which may be another by now.
        let store = self.store();
        let shape = store.prepare(verdict.limit())?;
        let query = Query { limit: verdict.limit(), shape, ..self.query(0)? };
        Some(Part::of(store, self.calendar(), &query))
    }
}

/// The whole question.
pub(crate) struct Wanted {
    /// At least one. The first is the one in whose line it waits.
    parts: SmallVec<[One; 1]>,
    /// What becomes of it when a queue has no place.
    pub(crate) stands_in_line_for_a_queue: bool,
}

/// What was answered.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    One(Verdict),
    All(Decision),
}

impl Said {
    pub(crate) fn allowed(&self) -> bool {
        match self {
            Self::One(verdict) => verdict.allowed(),
            Self::All(decision) => decision.allowed,
        }
    }

    pub(crate) fn delay(&self) -> Duration {
        match self {
            Self::One(verdict) => verdict.delay(),
            Self::All(decision) => decision.delay,
        }
    }

    /// How long it is to wait; `None` if that would not help, or not by this clock.
    pub(crate) fn wait(&self) -> Option<Duration> {
        let (reason, wait) = match self {
            Self::One(verdict) => (verdict.reason(), verdict.retry_after()),
            Self::All(decision) => (decision.reason, decision.retry_after),
        };
        if matches!(reason, None | Some(Reason::Limited)) { wait } else { None }
    }

    /// Each limit's part of the answer.
    fn verdicts(&self) -> &[Verdict] {
        match self {
            Self::One(verdict) => std::slice::from_ref(verdict),
            Self::All(decision) => decision.limits(),
        }
    }

    pub(crate) fn into_decision(self) -> Decision {
        match self {
            Self::One(verdict) => Decision::of(vec![verdict]),
            Self::All(decision) => decision,
        }
    }

    /// The refusal for a reason of the line, or for the limits' own.
    pub(crate) fn refused(self, why: Option<(Reason, Option<Duration>)>) -> Refused {
        let decision = self.into_decision();
        let own = (decision.reason.unwrap_or(Reason::Limited), decision.retry_after);
        let (reason, retry_after) = why.unwrap_or(own);
        decision.refused_for(reason, retry_after)
    }
}

impl Wanted {
    pub(crate) fn new(parts: SmallVec<[One; 1]>) -> Self {
        Self { parts, stands_in_line_for_a_queue: false }
    }

    pub(crate) fn set_cost(&mut self, cost: u64) {
        self.parts.iter_mut().for_each(|part| part.cost = cost);
    }

    /// The store in whose line it waits; `None` without any limit.
    pub(crate) fn store(&self) -> Option<&Arc<Inner>> {
        self.parts.first().map(One::store)
    }

    /// Which line.
    pub(crate) fn line(&self) -> u64 {
        self.parts.first().map_or(0, |part| part.hash.0)
    }

    /// The units it wants of the limit in whose line it waits, as far as that limit must have them at once.
    pub(crate) fn units(&self) -> u64 {
        self.parts.first().map_or(0, |part| if part.up_to { part.cost.min(1) } else { part.cost })
    }

    pub(crate) fn limit(&self) -> Option<&Limit> {
        self.parts.first().map(One::limit)
    }

    pub(crate) fn period(&self, now: Micros) -> Option<Window> {
        let calendar = self.parts.first()?.calendar()?;
        Some(calendar.window(now))
    }

    /// Whether what is admitted may have to wait for its start.
    pub(crate) fn has_queue(&self) -> bool {
        self.parts.iter().any(|part| part.limit().is_queue())
    }

    /// Whether it stands in no line, since its limits say themselves how many may wait.
    pub(crate) fn waits_in_queues_only(&self) -> bool {
        !self.stands_in_line_for_a_queue && self.parts.iter().all(|part| part.limit().is_queue())
    }

    /// Whether it was refused by a queue that it does not stand in line for.
    pub(crate) fn is_refused_by_its_queue(&self, said: &Said) -> bool {
        let refuses = |verdict: &Verdict| verdict.limit().is_queue() && !verdict.allowed();
        !self.stands_in_line_for_a_queue && said.verdicts().iter().any(refuses)
    }

    pub(crate) fn ask(&self, ask: Ask) -> Said {
        if let [one] = &self.parts[..] {
            return Said::One(match one.query(one.cost) {
                Some(query) => query.store.decide_one(&query, ask),
                None => crate::keyed::no_room(one.limit(), one.cost),
            });
        }
        let queries: Option<Vec<_>> = self.parts.iter().map(|one| one.query(one.cost)).collect();
        let none = || self.parts.iter().map(|one| crate::keyed::no_room(one.limit(), one.cost)).collect();
        Said::All(Decision::of(queries.map_or_else(none, |queries| decide_queries(&queries, ask))))
    }

    /// A look at so many units of the limit in whose line it waits.
    pub(crate) fn look(&self, units: u64) -> Option<Verdict> {
        let query = self.parts.first()?.query(units)?;
        Some(query.store.decide_one(&query, Ask::Peek))
    }

    /// What gives back what was said to be admitted.
    pub(crate) fn reservation(&self, said: &Said) -> Reservation {
        let verdicts = said.verdicts();
        let parts = self.parts.iter().zip(verdicts).filter_map(|(one, verdict)| one.part(verdict));
        Reservation::new(parts.collect(), verdicts)
    }
}
