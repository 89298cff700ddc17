//! The general path: several limits, several stores, newcomers to full buckets, logs, overflow. The common
//! case, one limit whose key lies in its first bucket, takes the short cut in [`super`].

use ratekeeper_core::{
    Ask, Evaluation, Limit, Log, Moment, Source, State, StateRef, Step, Verdict, decide_all,
};
use smallvec::SmallVec;

use super::both::Reading;
use super::overflow::Overflows;
use super::query::{Place, Query};
use super::rows::{Before, Rows};
use super::table::{Array, BOTH, Shape, Spilled};
use super::{Inner, OnFull};

/// A list with an entry per limit of a request: most have one or two, and then nothing is allocated.
type Few<T> = SmallVec<[T; 2]>;

struct Held<'q> {
    place: Place,
    rows: Rows<'q>,
}

/// Where a query's state is.
enum Seat {
    /// In a slot of a held bucket; `before` is who had it, if this request has claimed it.
    Slot { held: usize, slot: usize, before: Option<Before> },
    /// Not found in any array up to this one; later ones cannot hold it.
    Absent { reach: Array },
    /// There is no place: the state that keys of this shape share decides, or nobody.
    Overflow { shape: Shape },
}

/// What makes a place free.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Vacancy {
    /// Nobody has it.
    Empty,
    /// Its entry equals fresh.
    Idle,
}

/// What the states are wanted for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To decide: newcomers get places.
    Decide,
    /// To amend what there is.
    Amend(Reach),
}

/// Which states an amendment reaches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The keys' own only: a reset must not clear what is everybody's.
    Own,
    /// The overflow state too, for a key that has taken units there.
    Shared,
}

/// A state that exists, to be amended, the limit that it was written with, and whether it is the overflow state.
pub(super) enum Found<'a> {
    Words { query: usize, limit: &'a Limit, state: &'a mut State, shared: bool },
    Log { query: usize, limit: &'a Limit, log: &'a mut Log, shared: bool },
}

/// What a request locks besides what it must.
#[derive(Clone, Copy, Default)]
struct Plan {
    /// Every array and overflow state in which a newcomer could find a place.
    everything: bool,
    /// Queries (by bit) whose logs have no memory: the overflow state decides them.
    placeless: u32,
}

struct Request<'q, 'a> {
    queries: &'a [Query<'q>],
    plan: Plan,
    held: Few<Held<'q>>,
    overflows: Overflows<'q>,
    seats: Few<Seat>,
    moments: Few<Moment>,
}

/// Decides all of them at once: all or nothing, at one instant. One verdict per query, in order.
pub(super) fn decide(queries: &[Query<'_>], ask: Ask) -> Vec<Verdict> {
    let (merged, index) = merge(queries);
    let verdicts = decide_merged(&merged, ask);
    let mut seen = 0;
    let of = |i: usize| {
        let verdict = verdicts[i];
        let is_first = i == seen;
        seen += usize::from(is_first);
        if is_first { verdict } else { verdict.of_twin() }
    };
    index.into_iter().map(of).collect()
}

/// Decides one limit.
pub(super) fn decide_alone(query: &Query<'_>, ask: Ask) -> Verdict {
    decide_merged(std::slice::from_ref(query), ask)[0]
}

fn decide_merged(queries: &[Query<'_>], ask: Ask) -> Few<Verdict> {
    let mut plan = Plan::default();
    loop {
        // Each turn locks more than the one before, and the last turn everything there is.
        match Request::open(queries, plan, Purpose::Decide).decide(ask) {
            Ok(verdicts) => return verdicts,
            Err(more) => plan = more,
        }
    }
}

/// Amends the states that exist, under the locks of all of them; a state that is fresh afterwards leaves.
pub(super) fn amend(queries: &[Query<'_>], reach: Reach, amend: &mut dyn FnMut(Moment, Found<'_>)) {
    Request::open(queries, Plan::default(), Purpose::Amend(reach)).amend(amend);
}

/// One query per key and limit, with the sum of the costs: otherwise each would pass alone.
fn merge<'q>(queries: &[Query<'q>]) -> (Few<Query<'q>>, Few<usize>) {
    let mut merged: Few<Query<'q>> = Few::new();
    let mut index = Few::new();
    for query in queries {
        let same =
            |q: &Query<'_>| q.hash == query.hash && q.id == query.id && q.store.serial == query.store.serial;
        match merged.iter().position(same) {
            Some(i) => {
                merged[i].cost = merged[i].cost.saturating_add(query.cost);
                index.push(i);
            }
            None => {
                index.push(merged.len());
                merged.push(*query);
            }
        }
    }
    (merged, index)
}

impl<'q, 'a> Request<'q, 'a> {
    /// Locks all that the request needs, in order, looks where the keys are, and then reads each clock once.
    fn open(queries: &'a [Query<'q>], plan: Plan, purpose: Purpose) -> Self {
        let mut request = Self {
            queries,
            plan,
            held: Few::new(),
            overflows: Overflows::default(),
            seats: queries.iter().map(|_| Seat::Absent { reach: Array::First }).collect(),
            moments: Few::new(),
        };
        request.search(Array::First);
        let newcomers = purpose == Purpose::Decide;
        request.go_on(Array::Second, Spilled::ToSecond, newcomers);
        request.go_on(Array::Attic, Spilled::ToAttic, newcomers);
        if purpose != Purpose::Amend(Reach::Own) {
            request.lock_overflows(newcomers);
        }
        for (i, query) in queries.iter().enumerate() {
            let same = queries[..i].iter().position(|q| q.store.clock.is_same(&query.store.clock));
            let now = same.map_or_else(|| query.store.clock.now(), |i| request.moments[i].now);
            request.moments.push(query.store.moment(query, now));
        }
        request
    }

    /// Locks the buckets of an array for the keys that may be there, in order, and looks.
    fn search(&mut self, array: Array) {
        let mut wanted: Few<(Place, usize)> = Few::new();
        for i in self.absent(array) {
            wanted.extend(self.queries[i].places(array).into_iter().map(|place| (place, i)));
        }
        wanted.sort_unstable_by_key(|(place, _)| *place);
        wanted.dedup_by_key(|(place, _)| *place);
        for (place, query) in wanted {
            let rows = self.queries[query].lock(place);
            self.held.push(Held { place, rows });
        }
        for i in self.absent(array) {
            for place in self.queries[i].places(array) {
                let held = self.held_at(place);
                if let Some(slot) = self.held[held].rows.find(self.queries[i].hash) {
                    self.seats[i] = Seat::Slot { held, slot, before: None };
                    break;
                }
            }
        }
    }

    /// Goes on to an array for the keys that may be there, and for those that may need a place there.
    fn go_on(&mut self, array: Array, spilled: Spilled, newcomers: bool) {
        for i in 0..self.seats.len() {
            let Seat::Absent { reach } = self.seats[i] else { continue };
            let may_be_there = self.held[self.first_of(i)].rows.has_spilled(spilled);
            let is_full = || newcomers && !self.has_empty(i, reach);
            let next_to =
                matches!((reach, array), (Array::First, Array::Second) | (Array::Second, Array::Attic));
            if next_to && (may_be_there || self.plan.everything || is_full()) {
                self.seats[i] = Seat::Absent { reach: array };
            }
        }
        self.search(array);
    }

    /// Locks the overflow states where a key may have taken units, or may have to.
    fn lock_overflows(&mut self, newcomers: bool) {
        let mut stores: Few<&'q Inner> = Few::new();
        for (i, query) in self.queries.iter().enumerate() {
            let Seat::Absent { reach } = self.seats[i] else { continue };
            let is_full = || newcomers && reach == Array::Attic && !self.has_empty(i, reach);
            let is_placeless = self.plan.placeless & 1 << i != 0;
            if self.plan.everything || is_placeless || query.store.is_overflowing() || is_full() {
                stores.push(query.store);
            }
        }
        self.overflows = Overflows::lock(stores);
    }

    /// Queries without a seat that have come as far as this array.
    fn absent(&self, array: Array) -> Few<usize> {
        let there = |seat: &Seat| matches!(seat, Seat::Absent { reach } if *reach == array);
        (0..self.seats.len()).filter(|i| there(&self.seats[*i])).collect()
    }

    fn held_at(&self, place: Place) -> usize {
        // Buckets are locked in their order, array by array.
        self.held.partition_point(|held| held.place < place)
    }

    /// The first bucket of a query's key, among those held.
    fn first_of(&self, query: usize) -> usize {
        let q = &self.queries[query];
        self.held_at(q.place(Array::First, q.index(Array::First)))
    }

    fn arrays_up_to(reach: Array) -> impl Iterator<Item = Array> {
        [Array::First, Array::Second, Array::Attic].into_iter().take_while(move |array| *array <= reach)
    }

    fn has_empty(&self, query: usize, reach: Array) -> bool {
        Self::arrays_up_to(reach)
            .flat_map(|array| self.queries[query].places(array))
            .any(|place| self.held[self.held_at(place)].rows.find_empty().is_some())
    }

    /// Gives places to newcomers, or sends them to the overflow state.
    ///
    /// # Errors
    /// If one finds none because not all locks are held.
    fn seat_newcomers(&mut self) -> Result<(), Plan> {
        for i in 0..self.seats.len() {
            let Seat::Absent { reach } = self.seats[i] else { continue };
            let query = &self.queries[i];
            let is_placeless = self.plan.placeless & 1 << i != 0;
            // Keys that have taken units on the overflow state stay there until those no longer matter.
            if is_placeless || self.overflows.hold(query, &self.moments[i]) {
                self.seats[i] = Seat::Overflow { shape: self.overflows.shape_for(query, &self.moments[i]) };
            } else if !self.claim(i, reach) {
                if reach != Array::Attic || !self.overflows.has(query.store) {
                    self.give_up();
                    return Err(Plan { everything: true, ..self.plan });
                }
                self.seats[i] = Seat::Overflow { shape: self.overflows.shape_for(query, &self.moments[i]) };
            }
        }
        Ok(())
    }

    /// Claims a place in one of the arrays up to `reach`.
    ///
    /// Under a clock that never steps back nobody can tell an idle entry from none, so its place is taken as soon
    /// as the bucket is full. Under one that may, an idle entry can come to life again: as long as all keys are
    /// within `max_keys` it leaves only when there is no empty place in any array.
    fn claim(&mut self, query: usize, reach: Array) -> bool {
        let empty_first = self.moments[query].heals && self.queries[query].store.is_within_max_keys();
        if !empty_first {
            return Self::arrays_up_to(reach).any(|array| {
                self.claim_in(query, array, Vacancy::Empty) || self.claim_in(query, array, Vacancy::Idle)
            });
        }
        Self::arrays_up_to(reach).any(|array| self.claim_in(query, array, Vacancy::Empty))
            || (reach == Array::Attic
                && Self::arrays_up_to(reach).any(|array| self.claim_in(query, array, Vacancy::Idle)))
    }

    fn claim_in(&mut self, query: usize, array: Array, kind: Vacancy) -> bool {
        let q = &self.queries[query];
        for place in q.places(array) {
            let held = self.held_at(place);
            let (seats, rows) = (&self.seats, &self.held[held].rows);
            let taken = |slot: usize| {
                let here =
                    |s: &Seat| matches!(s, Seat::Slot { held: h, slot: s, .. } if (*h, *s) == (held, slot));
                seats.iter().any(here)
            };
            let free = match kind {
                Vacancy::Empty => rows.find_empty(),
                Vacancy::Idle => rows.find_idle(self.moments[query].now, &q.store.shapes, taken),
            };
            if let Some(slot) = free {
                if kind == Vacancy::Empty {
                    q.store.occupy();
                }
                let before = Some(self.held[held].rows.take_over(slot, q.hash, q.shape));
                self.seats[query] = Seat::Slot { held, slot, before };
                return true;
            }
        }
        false
    }

    /// Puts every claim back.
    fn give_up(&mut self) {
        for i in 0..self.seats.len() {
            self.settle_claim(i, false);
        }
    }

    /// Keeps a claimed place and notes in the first bucket where the key went, or gives it back.
    fn settle_claim(&mut self, query: usize, keep: bool) {
        let Seat::Slot { held, slot, before } = &mut self.seats[query] else { return };
        let (held, slot) = (*held, *slot);
        let Some(before) = before.take() else { return };
        let q = &self.queries[query];
        let unneeded = if keep {
            let array = self.held[held].place.array;
            let first = self.first_of(query);
            let rows = &mut self.held[first].rows;
            if array >= Array::Second {
                rows.set_spilled(Spilled::ToSecond);
            }
            if array == Array::Attic {
                rows.set_spilled(Spilled::ToAttic);
            }
            before.into_log()
        } else {
            q.store.vacated(u64::from(before.was_empty()));
            self.held[held].rows.put_back(slot, before)
        };
        q.store.log_memory.release(unneeded);
    }

    fn decide(mut self, ask: Ask) -> Result<Few<Verdict>, Plan> {
        self.seat_newcomers()?;
        let costs = self.costs();
        let mut evaluations: Few<Evaluation> = Few::new();
        for i in 0..self.queries.len() {
            // Who shares an overflow state was evaluated with the first of them, by the sum.
            let evaluation = match self.leader(i) {
                leader if leader < i => evaluations[leader],
                _ => self.evaluate(i, costs[i], ask),
            };
            evaluations.push(evaluation);
        }
        let mut step = decide_all(&evaluations, ask);
        if step == Step::Take {
            // Logs that cannot grow change the answer.
            for i in 0..self.queries.len() {
                let evaluation = &mut evaluations[i];
                if let Err(plan) = self.make_room(i, evaluation) {
                    self.give_up();
                    return Err(plan);
                }
            }
            step = decide_all(&evaluations, ask);
        }
        let takes = |e: &Evaluation| step == Step::Take && e.cost() > 0;
        for (i, evaluation) in evaluations.iter().enumerate() {
            let leads = self.leader(i) == i;
            match step {
                Step::Take if takes(evaluation) => self.take(i, leads, evaluation),
                Step::Heal if leads => self.heal(i, evaluation),
                Step::Take | Step::Heal | Step::Nothing => {}
            }
            self.settle_claim(i, takes(evaluation));
            if ask == Ask::Acquire && evaluation.untouched().source() == Source::Overflow {
                self.queries[i].store.count_overflow();
            }
        }
        let verdict = |(i, e): (usize, &Evaluation)| match takes(e) {
            true if self.leader(i) == i => e.taken(),
            true => e.taken().of_twin(),
            false => e.untouched(),
        };
        Ok(evaluations.iter().enumerate().map(verdict).collect())
    }

    /// The first query that is decided on the same state: itself, unless both are on one overflow state.
    fn leader(&self, query: usize) -> usize {
        let key = |i: usize| match &self.seats[i] {
            Seat::Overflow { shape } => Some((self.queries[i].store.serial, self.queries[i].id, *shape)),
            Seat::Slot { .. } | Seat::Absent { .. } => None,
        };
        match key(query) {
            // Nothing is shared where all are refused.
            Some(mine) if self.queries[query].store.on_full == OnFull::Share => {
                (0..query).find(|i| key(*i) == Some(mine)).unwrap_or(query)
            }
            _ => query,
        }
    }

    /// What each state is asked for: the costs of all who share it.
    fn costs(&self) -> Few<u64> {
        let mut costs: Few<u64> = self.queries.iter().map(|q| q.cost).collect();
        for i in 0..self.queries.len() {
            let leader = self.leader(i);
            if leader < i {
                costs[leader] = costs[leader].saturating_add(self.queries[i].cost);
            }
        }
        costs
    }

    /// The state that a seat holds, as this query's limit reads it.
    fn reading(&self, query: usize, held: usize, slot: usize) -> Reading {
        let (q, rows) = (&self.queries[query], &self.held[held].rows);
        q.store.read(q, rows.shape(slot), rows.state(slot), self.moments[query])
    }

    fn evaluate(&mut self, query: usize, cost: u64, ask: Ask) -> Evaluation {
        static NO_ENTRIES: Log = Log::new();
        let (q, at) = (&self.queries[query], &self.moments[query]);
        match &self.seats[query] {
            Seat::Slot { held, slot, .. } if q.is_log() => {
                let log = self.held[*held].rows.log(*slot).unwrap_or(&NO_ENTRIES);
                q.evaluate(StateRef::Log(log), at, cost, ask)
            }
            Seat::Slot { held, slot, .. } => {
                let reading = self.reading(query, *held, *slot);
                q.evaluate(StateRef::Words(reading.state), &reading.at, cost, ask)
            }
            // Together they want more than one state can ever hold, but each alone may pass: not now.
            Seat::Overflow { .. } if cost > q.limit.capacity() && q.cost <= q.limit.capacity() => {
                q.no_room(at, q.cost)
            }
            Seat::Overflow { shape } => self.overflows.evaluate(q, *shape, at, cost, ask),
            Seat::Absent { .. } => q.no_room(at, cost),
        }
    }

    /// Sees to it that an admitted log entry can be written. A log that cannot grow makes the answer coarser
    /// (`share`), or a refusal.
    ///
    /// # Errors
    /// If a newcomer's log gets no memory at all and is to be decided on the overflow state instead.
    fn make_room(&mut self, query: usize, evaluation: &mut Evaluation) -> Result<(), Plan> {
        let (q, at) = (&self.queries[query], self.moments[query]);
        if !q.is_log() || evaluation.cost() == 0 {
            return Ok(());
        }
        let log = match &self.seats[query] {
            Seat::Slot { held, slot, .. } => self.held[*held].rows.log_mut(*slot),
            Seat::Overflow { shape } => self.overflows.log_mut(q, *shape),
            Seat::Absent { .. } => None,
        };
        let Some(log) = log else { return Ok(()) };
        if q.store.make_room(q, log, at.now) {
            return Ok(());
        }
        match (q.store.on_full, log.is_empty(), &self.seats[query]) {
            (OnFull::Share, false, _) => *evaluation = evaluation.with_source(Source::Overflow),
            (OnFull::Share, true, Seat::Slot { .. }) => {
                return Err(Plan { placeless: self.plan.placeless | 1 << query, ..self.plan });
            }
            _ => *evaluation = q.no_room(&at, evaluation.cost()),
        }
        Ok(())
    }

    fn take(&mut self, query: usize, leads: bool, evaluation: &Evaluation) {
        let (q, at) = (&self.queries[query], self.moments[query]);
        match &self.seats[query] {
            Seat::Slot { held, slot, .. } => {
                let (shape, state) = if q.is_log() {
                    (q.shape, State::FRESH)
                } else {
                    self.reading(query, *held, *slot).with(q, evaluation.next())
                };
                let rows = &mut self.held[*held].rows;
                rows.write(*slot, q.hash, shape, state);
                if let Some(log) = rows.log_mut(*slot) {
                    q.store.record(q, log, &at, evaluation.cost());
                }
            }
            Seat::Overflow { shape } => {
                self.overflows.mark(q, &at);
                if leads {
                    self.overflows.take(q, *shape, &at, evaluation);
                }
            }
            Seat::Absent { .. } => {}
        }
    }

    /// Writes what a refusal leaves: a healed state, or one that another limit had written, as this one reads it.
    fn heal(&mut self, query: usize, evaluation: &Evaluation) {
        let (q, at) = (&self.queries[query], self.moments[query]);
        match (&self.seats[query], evaluation.healed()) {
            (Seat::Slot { held, slot, before: None }, healed) if q.is_log() => {
                if let (Some(_), Some(log)) = (healed, self.held[*held].rows.log_mut(*slot)) {
                    log.heal(&at);
                }
            }
            // Who asks for nothing converts nothing.
            (Seat::Slot { held, slot, before: None }, healed) if q.cost > 0 => {
                let reading = self.reading(query, *held, *slot);
                let write = match healed {
                    Some(healed) => Some(reading.with(q, healed)),
                    None => reading.refused(q),
                };
                if let Some((shape, state)) = write {
                    self.held[*held].rows.write(*slot, q.hash, shape, state);
                }
            }
            (Seat::Overflow { shape }, Some(healed)) => self.overflows.heal(q, *shape, &at, healed),
            // A claimed place is fresh: there is nothing to heal.
            (Seat::Slot { .. } | Seat::Overflow { .. } | Seat::Absent { .. }, _) => {}
        }
    }

    fn amend(mut self, amend: &mut dyn FnMut(Moment, Found<'_>)) {
        for i in 0..self.queries.len() {
            let (q, at) = (&self.queries[i], self.moments[i]);
            let Seat::Slot { held, slot, .. } = self.seats[i] else {
                self.overflows.amend(i, q, &at, amend);
                continue;
            };
            let rows = &mut self.held[held].rows;
            // States are amended as they were written: one of two limits by that of the query. A key that is named
            // twice may have left already.
            let sides = match rows.shape(slot) {
                BOTH => q.store.sides(q.shape, rows.state(slot), &at),
                _ => None,
            };
            let (shape, mut state) = match sides {
                Some((mine, _)) => (mine.shape, mine.state()),
                None => (rows.shape(slot), rows.state(slot)),
            };
            let Some(limit) = q.store.shapes.limit(shape) else { continue };
            let is_fresh = if let Some(log) = rows.log_mut(slot) {
                amend(at, Found::Log { query: i, limit: &limit, log, shared: false });
                q.store.log_memory.trim(log);
                log.is_empty()
            } else {
                amend(at, Found::Words { query: i, limit: &limit, state: &mut state, shared: false });
                let is_fresh = state == State::FRESH;
                let (shape, state) = match sides {
                    Some(sides) => q.store.amended(&limit, sides, state, &at),
                    None => (shape, state),
                };
                rows.write(slot, q.hash, shape, state);
                is_fresh
            };
            if is_fresh {
                q.store.log_memory.release(rows.vacate(slot));
                q.store.vacated(1);
            }
        }
    }
}
