//! Requests to the servers: which keys they touch, in which order, and what their answers say.
//!
//! Limits that lie in one slot are one call of a script: all or nothing in one step. In a cluster the limits of a
//! request may lie in several; they are then taken one slot after another, and what has been taken comes back when a
//! later one refuses: so nothing is ever admitted that one of them would have refused.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use ratekeeper_core::{
    Ask, Check, Clock as _, Evaluation, MAX_LIMITS, MIN_SHARED_WINDOW, ManualClock, Micros, NamedLimit,
    Part as KeyPart, Step, StoreError, Token, Trouble, Verdict, decide_all,
};
use smallvec::SmallVec;
use tokio::sync::oneshot;

use super::codec::{self, Bounds, Op};
use super::keys::{Names, slot_of};
use super::link::{Answer, Failure, Job, Link, MAX_PARTS, Part, Question, SILENT, ScriptKind};
use crate::clock::ProcessClock;

/// How often a script may find itself outside the calendar periods that it was told, before it is given up: once is
/// a clock that differs, twice a boundary that passed meanwhile.
const MAX_REFRESHES: u32 = 3;
/// How long an undo is tried when nobody waits for it any more.
const UNDO_WITHIN: Duration = Duration::from_secs(1);

/// The last instant that a server decides at. Its numbers are whole up to 2^53, and an arrival time or the end of a
/// counter's second window lies up to two longest windows later.
pub const MAX_SHARED_INSTANT: Micros = Micros::new((1 << 53) - (1 << 46));

type Few<T> = SmallVec<[T; 2]>;

/// One state that a request asks: all its checks of one limit and key.
pub(super) struct Seat<'a> {
    pub(super) limit: &'a NamedLimit,
    pub(super) name: Vec<u8>,
    pub(super) slot: u16,
    pub(super) cost: u64,
    /// How widely its key is shared: those of everybody are taken last, so that who is refused by a limit of its own
    /// touches nobody else's.
    width: u8,
}

/// A request laid out for the servers.
pub(super) struct Layout<'a> {
    pub(super) seats: Few<Seat<'a>>,
    /// For each check its seat.
    index: Few<usize>,
}

/// What became of a request: of each check its verdict, and of each seat what gives it back.
pub(super) struct Decided {
    pub(super) verdicts: Vec<Verdict>,
    pub(super) tokens: Few<Option<Token>>,
    /// What was read of each seat, if one server was asked, and what its clock said.
    pub(super) readings: Few<Reading>,
    pub(super) now: Micros,
}

/// What a script has read of a state.
#[derive(Clone)]
pub(super) struct Reading {
    numbers: SmallVec<[i64; 5]>,
    bounds: Bounds,
}

impl Reading {
    /// What the limit of a seat says of that at `now`.
    pub(super) fn evaluate(&self, seat: &Seat<'_>, now: Micros, ask: Ask) -> Option<Evaluation> {
        codec::evaluation(seat.limit, &self.numbers, &self.bounds, now, (seat.cost, ask))
    }
}

/// What a group of seats said.
struct Group {
    evaluations: Few<Evaluation>,
    readings: Few<Reading>,
    step: Step,
    now: Micros,
}

impl Group {
    /// Of whose seats nothing is known.
    fn silent() -> Self {
        Self { evaluations: Few::new(), readings: Few::new(), step: Step::Nothing, now: Micros::ZERO }
    }
}

/// The way to the states.
pub(super) struct Exact {
    pub(super) link: Link,
    pub(super) names: Names,
    pub(super) timeout: Duration,
    is_cluster: bool,
    /// How far the servers' clock is ahead of ours: a guess at the calendar period that the script will ask for.
    ahead_us: AtomicI64,
    /// The hands of virtual time.
    hands: Option<ManualClock>,
    undone: [AtomicU64; 2],
    /// Answers that say of states that they are not ours.
    pub(super) unreadable: AtomicU64,
    /// Undos that nobody waits for.
    pending: Mutex<VecDeque<oneshot::Receiver<Result<Answer, Failure>>>>,
}

/// Undos that are remembered until their answer is there, only to be counted.
const MAX_PENDING: usize = 1_024;

impl Exact {
    pub(super) fn new(link: Link, prefix: &str, timeout: Duration, hands: Option<ManualClock>) -> Self {
        let is_cluster = link.is_cluster();
        Self {
            link,
            names: Names::new(prefix),
            timeout,
            is_cluster,
            ahead_us: AtomicI64::new(0),
            hands,
            undone: Default::default(),
            unreadable: AtomicU64::new(0),
            pending: Mutex::default(),
        }
    }

    /// Undos that succeeded, and that did not.
    pub(super) fn undone(&self) -> [u64; 2] {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.retain_mut(|answer| match answer.try_recv() {
            Ok(answer) => {
                self.count_undo(answer.is_ok());
                false
            }
            Err(oneshot::error::TryRecvError::Empty) => true,
            Err(oneshot::error::TryRecvError::Closed) => {
                self.count_undo(false);
                false
            }
        });
        drop(pending);
        [&self.undone[0], &self.undone[1]].map(|count| count.load(Ordering::Relaxed))
    }

    /// The slot of a name, where there are slots.
    fn slot(&self, name: &[u8]) -> u16 {
        if self.is_cluster { slot_of(name) } else { 0 }
    }

    fn count_undo(&self, succeeded: bool) {
        self.undone[usize::from(!succeeded)].fetch_add(1, Ordering::Relaxed);
    }

    /// Lays a request out: one seat for each key and limit, with the sum of the costs, or each would pass alone.
    pub(super) fn layout<'a>(
        &self,
        checks: &[Check<'a>],
        allows_short_windows: bool,
    ) -> Result<Layout<'a>, StoreError> {
        if checks.len() > MAX_LIMITS {
            return Err(StoreError::TooManyLimits);
        }
        if self.hands.as_ref().is_some_and(|hands| hands.now() > MAX_SHARED_INSTANT) {
            return Err(StoreError::BeyondTime);
        }
        let mut layout = Layout { seats: Few::new(), index: Few::new() };
        for check in checks {
            if check.limit.limit().window() < MIN_SHARED_WINDOW && !allows_short_windows {
                return Err(StoreError::WindowTooShort);
            }
            let name = self.names.of(check.limit, &check.key);
            if let Some(seat) = layout.seats.iter().position(|seat| seat.name == name) {
                let seat_of = &mut layout.seats[seat];
                seat_of.cost = seat_of.cost.saturating_add(check.cost);
                layout.index.push(seat);
                continue;
            }
            let slot = self.slot(&name);
            layout.index.push(layout.seats.len());
            layout.seats.push(Seat {
                limit: check.limit,
                name,
                slot,
                cost: check.cost,
                width: width_of(check),
            });
        }
        Ok(layout)
    }

    /// Decides a request, all or nothing.
    pub(super) async fn decide(
        &self,
        layout: &Layout<'_>,
        ask: Ask,
        within: Duration,
    ) -> Result<Decided, Failure> {
        let order = self.groups(layout);
        if let [only] = &order[..] {
            let group = self.ask_group(layout, only, ask, within).await?;
            return Ok(layout.decided(&order, &[group]));
        }
        self.decide_over_slots(layout, &order, ask, within).await
    }

    /// Seats by slot, in the order in which they are taken: those that are shared by many last.
    fn groups(&self, layout: &Layout<'_>) -> Few<Few<usize>> {
        let mut groups: Few<Few<usize>> = Few::new();
        for (i, seat) in layout.seats.iter().enumerate() {
            match groups.iter_mut().find(|group| layout.seats[group[0]].slot == seat.slot) {
                Some(group) => group.push(i),
                None => groups.push(Few::from_iter([i])),
            }
        }
        groups.sort_by_key(|group| group.iter().map(|i| layout.seats[*i].width).max());
        groups
    }

    async fn decide_over_slots(
        &self,
        layout: &Layout<'_>,
        order: &[Few<usize>],
        ask: Ask,
        within: Duration,
    ) -> Result<Decided, Failure> {
        let ask = if layout.takes_nothing() { Ask::Peek } else { ask };
        let began = ProcessClock.now();
        let left = || within.saturating_sub(since(began));
        let peek = |group: &Few<usize>| {
            let group = group.clone();
            async move { self.ask_group(layout, &group, Ask::Peek, within.saturating_sub(since(began))).await }
        };
        if ask == Ask::Peek {
            let groups: Result<Vec<Group>, Failure> =
                join_all(order.iter().map(peek)).await.into_iter().collect();
            return Ok(layout.decided(order, &groups?));
        }
        // Whoever stops waiting in the middle has taken nothing in the end.
        let mut taken = Taken { exact: self, layout, order, groups: Vec::new() };
        for (number, group) in order.iter().enumerate() {
            // What other slots took comes back, so the request has taken nothing that is known, and all of it is owed by
            // whoever lets it pass: one slot may be charged twice, none is forgotten.
            let answer = self.ask_group(layout, group, Ask::Acquire, left()).await;
            let answer = answer.map_err(|failure| Failure { may_have_run: false, ..failure })?;
            // A group that is asked for nothing takes nothing, and refuses nobody.
            let refuses = answer.evaluations.iter().any(|evaluation| !evaluation.allowed());
            taken.groups.push(answer);
            if !refuses {
                continue;
            }
            // It refuses. The rest is only looked at, while what was taken comes back.
            let undos = taken.undo(left());
            let undone = async {
                for undo in undos {
                    self.count_undo(matches!(undo.await, Ok(Ok(_))));
                }
            };
            let rest = join_all(order[number + 1..].iter().map(peek));
            let ((), rest) = futures_util::future::join(undone, rest).await;
            let mut groups = std::mem::take(&mut taken.groups);
            groups.iter_mut().for_each(|group| group.step = Step::Heal);
            // It is refused whatever the rest says, and also if the rest says nothing.
            groups.extend(rest.into_iter().map(|group| group.unwrap_or_else(|_| Group::silent())));
            return Ok(layout.decided(order, &groups));
        }
        let groups = std::mem::take(&mut taken.groups);
        Ok(layout.decided(order, &groups))
    }

    /// Asks the seats of one slot together.
    async fn ask_group(
        &self,
        layout: &Layout<'_>,
        group: &[usize],
        ask: Ask,
        within: Duration,
    ) -> Result<Group, Failure> {
        let began = ProcessClock.now();
        let mut about = self.guess();
        for _ in 0..MAX_REFRESHES {
            let bounds: Few<Bounds> =
                group.iter().map(|i| codec::bounds(layout.seats[*i].limit, about)).collect();
            let left = within.saturating_sub(since(began));
            let answer = self.send(layout, group, &bounds, ask, left).await?;
            let now = Micros::new(answer.now_us);
            match answer.numbers.first() {
                Some(&codec::CALENDAR_TOO_SHORT) => {
                    self.learn(now);
                    about = now;
                }
                Some(&codec::NOT_OURS) | None => break,
                Some(verdict) => {
                    let group = read_group(layout, group, &bounds, (*verdict, &answer), ask);
                    return group.ok_or_else(|| self.unreadable());
                }
            }
        }
        Err(self.unreadable())
    }

    /// What is stored is not ours, or cannot be read.
    fn unreadable(&self) -> Failure {
        self.unreadable.fetch_add(1, Ordering::Relaxed);
        Failure { trouble: Trouble::Corrupt, may_have_run: false }
    }

    async fn send(
        &self,
        layout: &Layout<'_>,
        group: &[usize],
        bounds: &[Bounds],
        ask: Ask,
        within: Duration,
    ) -> Result<Answer, Failure> {
        let op = if ask == Ask::Peek || layout.takes_nothing() { Op::Peek } else { Op::Acquire };
        let part = |(i, bounds): (&usize, &Bounds)| {
            let seat = &layout.seats[*i];
            Part { key: seat.name.clone(), arg: codec::question(op, seat.limit, seat.cost, bounds) }
        };
        let parts = group.iter().zip(bounds).map(part).collect();
        let of_seats = group.iter().map(|i| codec::numbers_of(layout.seats[*i].limit.limit()));
        let slot = layout.seats[group[0]].slot;
        let numbers = 1 + of_seats.sum::<usize>();
        self.link.ask(self.question(ScriptKind::Decide, slot, parts, numbers), within).await
    }

    fn question(&self, script: ScriptKind, slot: u16, parts: Vec<Part>, numbers: usize) -> Question {
        let tail = self.hands.as_ref().map(|hands| hands.now().get().to_string().into_bytes());
        let brief_from = (script == ScriptKind::Decide).then_some(codec::BRIEF);
        Question { script, slot, parts, tail, numbers, brief_from }
    }

    /// Sends a question. `within` bounds how long its answer is waited for, `lasts` how long it is asked although
    /// nobody waits.
    fn submit(
        &self,
        question: Question,
        (within, lasts): (Duration, Duration),
    ) -> oneshot::Receiver<Result<Answer, Failure>> {
        let (reply, answer) = oneshot::channel();
        self.link.submit(Job { question, within, lasts, reply });
        answer
    }

    /// Our guess at the servers' time.
    fn guess(&self) -> Micros {
        if let Some(hands) = &self.hands {
            return hands.now();
        }
        let now = ProcessClock.now().get();
        Micros::new(now.saturating_add_signed(self.ahead_us.load(Ordering::Relaxed)))
    }

    fn learn(&self, now: Micros) {
        let ahead = i128::from(now.get()) - i128::from(ProcessClock.now().get());
        self.ahead_us.store(i64::try_from(ahead).unwrap_or(0), Ordering::Relaxed);
    }

    /// Takes as many of these units as are there, whether anybody waits for the answer or not.
    pub(super) fn debit(
        &self,
        name: Vec<u8>,
        limit: &NamedLimit,
        units: u64,
    ) -> oneshot::Receiver<Result<Answer, Failure>> {
        let bounds = codec::bounds(limit, self.guess());
        let slot = self.slot(&name);
        let part = Part { key: name, arg: codec::question(Op::Acquire, limit, units, &bounds) };
        let numbers = 1 + codec::numbers_of(limit.limit());
        let question = self.question(ScriptKind::Decide, slot, vec![part], numbers);
        self.submit(question, (UNDO_WITHIN, UNDO_WITHIN))
    }

    /// Changes states that exist, each by itself: `argument` says how.
    pub(super) async fn amend(
        &self,
        amendments: Vec<(Vec<u8>, Vec<u8>)>,
        within: Duration,
    ) -> Result<(), Failure> {
        for answer in join_all(self.submit_amendments(amendments, within)).await {
            if answer.unwrap_or(Err(SILENT))?.numbers.contains(&codec::NOT_OURS) {
                return Err(self.unreadable());
            }
        }
        Ok(())
    }

    /// The same without waiting for it.
    pub(super) fn amend_unheard(&self, amendments: Vec<(Vec<u8>, Vec<u8>)>) {
        drop(self.submit_amendments(amendments, UNDO_WITHIN));
    }

    /// Sends them, a call for each slot. What gives back is wanted also when nobody waits for it any more.
    fn submit_amendments(
        &self,
        amendments: Vec<(Vec<u8>, Vec<u8>)>,
        within: Duration,
    ) -> Vec<oneshot::Receiver<Result<Answer, Failure>>> {
        let call = |(slot, parts): (u16, Vec<Part>)| {
            let numbers = parts.len();
            self.submit(self.question(ScriptKind::Amend, slot, parts, numbers), (within, UNDO_WITHIN))
        };
        self.by_slot(amendments).into_iter().map(call).collect()
    }

    /// One check on a state whose name is known.
    pub(super) fn layout_named<'a>(&self, check: &Check<'a>, name: &[u8]) -> Layout<'a> {
        let slot = self.slot(name);
        let seat = Seat { limit: check.limit, name: name.to_vec(), slot, cost: check.cost, width: 0 };
        Layout { seats: Few::from_iter([seat]), index: Few::from_iter([0]) }
    }

    /// Calls of one slot each, as few as hold them.
    fn by_slot(&self, amendments: Vec<(Vec<u8>, Vec<u8>)>) -> Few<(u16, Vec<Part>)> {
        let mut slots: Few<(u16, Vec<Part>)> = Few::new();
        for (key, arg) in amendments {
            let slot = self.slot(&key);
            match slots.iter_mut().find(|(other, parts)| *other == slot && parts.len() < MAX_PARTS) {
                Some((_, parts)) => parts.push(Part { key, arg }),
                None => slots.push((slot, vec![Part { key, arg }])),
            }
        }
        slots
    }
}

/// What has been taken from some slots while others are still to be asked. Dropped in between, it is given back.
struct Taken<'t, 'a> {
    exact: &'t Exact,
    layout: &'t Layout<'a>,
    order: &'t [Few<usize>],
    groups: Vec<Group>,
}

impl Taken<'_, '_> {
    /// Gives back what was taken, one attempt each. It is waited for by `within` at most, and goes on when nobody waits.
    fn undo(&mut self, within: Duration) -> Vec<oneshot::Receiver<Result<Answer, Failure>>> {
        let mut undone = Vec::new();
        for (group, seats) in self.groups.iter_mut().zip(self.order) {
            if group.step != Step::Take {
                continue;
            }
            group.step = Step::Heal;
            let token = |(evaluation, i): (&Evaluation, &usize)| {
                let seat = &self.layout.seats[*i];
                let token = evaluation.taken().token().filter(|_| evaluation.cost() > 0)?;
                Some((seat.name.clone(), codec::give_back(seat.limit.limit(), &token)))
            };
            let given = group.evaluations.iter().zip(seats).filter_map(token).collect();
            undone.extend(self.exact.submit_amendments(given, within));
        }
        undone
    }
}

impl Drop for Taken<'_, '_> {
    fn drop(&mut self) {
        let undone = self.undo(UNDO_WITHIN);
        if undone.is_empty() {
            return;
        }
        let mut pending = self.exact.pending.lock().unwrap_or_else(PoisonError::into_inner);
        for undo in undone {
            if pending.len() >= MAX_PENDING {
                self.exact.count_undo(false);
            } else {
                pending.push_back(undo);
            }
        }
    }
}

impl Layout<'_> {
    /// Whether the request takes nothing, whatever the states are: it asks for nothing, or for more than ever fits.
    fn takes_nothing(&self) -> bool {
        let never = |seat: &Seat<'_>| !seat.limit.is_draining() && seat.cost > seat.limit.limit().capacity();
        self.seats.iter().any(never) || self.seats.iter().all(|seat| seat.cost == 0)
    }

    /// The name of the state of a check.
    pub(super) fn name_of(&self, check: usize) -> &[u8] {
        &self.seats[self.index[check]].name
    }

    /// How many checks share a seat.
    pub(super) fn checks_of(&self, seat: usize) -> u64 {
        self.index.iter().filter(|other| **other == seat).count() as u64
    }

    /// The verdicts of checks by those of their seats: a key that was named twice has taken its units once.
    pub(super) fn of_checks(&self, seats: &[Verdict]) -> Vec<Verdict> {
        let mut seen = 0;
        let of_check = |seat: &usize| {
            let verdict = *seats.get(*seat)?;
            let is_first = *seat == seen;
            seen += usize::from(is_first);
            Some(if is_first { verdict } else { verdict.of_twin() })
        };
        self.index.iter().filter_map(of_check).collect()
    }

    fn decided(&self, order: &[Few<usize>], groups: &[Group]) -> Decided {
        let mut of_seats: Few<Option<(Verdict, Option<Token>)>> = self.seats.iter().map(|_| None).collect();
        for (group, seats) in groups.iter().zip(order) {
            for (evaluation, i) in group.evaluations.iter().zip(seats) {
                let takes = group.step == Step::Take && evaluation.cost() > 0;
                let verdict = if takes { evaluation.taken() } else { evaluation.untouched() };
                of_seats[*i] = Some((verdict, verdict.token()));
            }
        }
        // A seat that was silent has no numbers, and is not what refuses.
        let silent = |seat: &Seat<'_>| Verdict::failed_open(seat.limit.limit(), seat.cost);
        let verdicts: Vec<Verdict> = of_seats
            .iter()
            .zip(&self.seats)
            .map(|(said, seat)| said.map_or_else(|| silent(seat), |(verdict, _)| verdict))
            .collect();
        let mut readings: Few<Reading> = Few::new();
        if let ([group], [_]) = (groups, order) {
            readings.clone_from(&group.readings);
        }
        Decided {
            verdicts: self.of_checks(&verdicts),
            tokens: of_seats.iter().map(|seat| seat.and_then(|(_, token)| token)).collect(),
            readings,
            now: groups.first().map_or(Micros::ZERO, |group| group.now),
        }
    }
}

/// What the seats of a group say, by what was read of them. The script has decided by the same rules; if it said
/// otherwise, what is stored means something else to one of the two, and nobody can rely on it.
fn read_group(
    layout: &Layout<'_>,
    group: &[usize],
    bounds: &[Bounds],
    (verdict, answer): (i64, &Answer),
    ask: Ask,
) -> Option<Group> {
    let now = Micros::new(answer.now_us);
    let is_brief = verdict >= codec::BRIEF;
    let verdict = if is_brief { verdict - codec::BRIEF } else { verdict };
    let mut rest = answer.numbers.get(1..).unwrap_or_default();
    let mut evaluations: Few<Evaluation> = Few::new();
    let mut readings: Few<Reading> = Few::new();
    for (i, bounds) in group.iter().zip(bounds) {
        let seat = &layout.seats[*i];
        let count = codec::numbers_of(seat.limit.limit());
        let (numbers, after) = rest.split_at_checked(if is_brief { 1 } else { count })?;
        rest = after;
        let mut numbers = SmallVec::from_slice(numbers);
        numbers.resize(count, 0);
        let reading = Reading { numbers, bounds: bounds.clone() };
        evaluations.push(reading.evaluate(seat, now, ask)?);
        readings.push(reading);
    }
    let step = decide_all(&evaluations, ask);
    let says = match step {
        Step::Take => codec::ALLOWED,
        Step::Heal => codec::REFUSED,
        Step::Nothing => verdict,
    };
    (says == verdict).then_some(Group { evaluations, readings, step, now })
}

pub(super) fn since(began: Micros) -> Duration {
    began.until(ProcessClock.now())
}

/// 0 for a key of somebody's own, 1 for one that many share, 2 for everybody's: by the kind that a policy's key says
/// first.
fn width_of(check: &Check<'_>) -> u8 {
    match check.key.parts() {
        [KeyPart::Bytes(b"global"), ..] => 2,
        [KeyPart::Bytes(b"host" | b"path" | b"method"), ..] => 1,
        _ => 0,
    }
}
