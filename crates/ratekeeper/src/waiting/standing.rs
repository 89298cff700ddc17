//! Who waits, where, and until when: what the lock of [`Lines`](super::lines::Lines) is around.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use ratekeeper_core::{Algorithm, Ask, Forecast, Micros, Reason, Refused};

#[cfg(feature = "tokio")]
use super::timer::Timers;
use super::wanted::{Said, Wanted};
use crate::clock::StoreClock;

#[derive(Default)]
pub(super) struct State {
    pub(super) places: Vec<Place>,
    pub(super) free: Vec<usize>,
    pub(super) lines: HashMap<u64, Line>,
    /// How many stand in them.
    pub(super) standing: usize,
    /// When something is to be done for whom.
    pub(super) agenda: BTreeSet<(Micros, usize)>,
    /// The last reading: if one is earlier, the clock was set back.
    pub(super) last: Micros,
    #[cfg(feature = "tokio")]
    pub(super) timers: Timers,
    pub(super) is_closed: bool,
}

/// The line of one key. It is there only while somebody stands in it.
pub(super) struct Line {
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) len: usize,
    /// What they want, together.
    pub(super) units: u64,
    /// When the next to come would be served; none if that has to be worked out anew.
    pub(super) tail: Option<Forecast>,
}

/// Somebody who waits. It belongs to one future, from its entry until it has left.
pub(super) struct Place {
    pub(super) wanted: Option<Arc<Wanted>>,
    pub(super) stage: Stage,
    pub(super) waker: Option<Waker>,
    pub(super) deadline: Option<Micros>,
    /// Its entry in the agenda.
    pub(super) noted: Option<Micros>,
    pub(super) ahead: Option<usize>,
    pub(super) behind: Option<usize>,
}

pub(super) enum Stage {
    Nobody,
    InLine,
    /// Admitted; its start is in the agenda.
    Starting(Said),
    Done(Result<Said, Refused>),
}

/// Wakers to be called, and things to be dropped, after the lock.
#[derive(Default)]
pub(super) struct After {
    pub(super) woken: Vec<Waker>,
    pub(super) dropped: Vec<Waker>,
    /// When the agenda goes on.
    pub(super) next: Option<Micros>,
}

/// Why somebody is refused if not for the limits' own reason, and the wait that is told.
type Why = Option<(Reason, Option<Duration>)>;

impl State {
    /// How many wait, or have not been told their answer.
    pub(super) const fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Reads the clock. If it was set back, all that was to happen moves with it, and the limits, which have healed, are
    /// asked again. A clock that is never set back has only been read a tick early, by another processor.
    pub(super) fn read(&mut self, clock: &StoreClock) {
        let now = if clock.heals() { clock.now() } else { clock.now().max(self.last) };
        if now < self.last {
            let back = now.until(self.last);
            let earlier = |at: Option<Micros>| at.map(|at| at.saturating_sub(back));
            let firsts: Vec<usize> = self.lines.values().map(|line| line.first).collect();
            self.lines.values_mut().for_each(|line| line.tail = None);
            for place in &mut self.places {
                place.deadline = earlier(place.deadline);
                place.noted = earlier(place.noted);
            }
            for first in firsts {
                self.places[first].noted = Some(now);
            }
            let noted = self.places.iter().enumerate();
            self.agenda = noted.filter_map(|(i, place)| Some((place.noted?, i))).collect();
        }
        self.last = now;
    }

    pub(super) fn place(&mut self, wanted: &Arc<Wanted>, stage: Stage, waker: &Waker) -> usize {
        let place = Place {
            wanted: Some(Arc::clone(wanted)),
            stage,
            waker: Some(waker.clone()),
            deadline: None,
            noted: None,
            ahead: None,
            behind: None,
        };
        match self.free.pop() {
            Some(free) => {
                self.places[free] = place;
                free
            }
            None => {
                self.places.push(place);
                self.places.len() - 1
            }
        }
    }

    /// Frees a place that is in no line.
    pub(super) fn vacate(&mut self, place: usize, after: &mut After) {
        self.note(place, None);
        let it = &mut self.places[place];
        it.stage = Stage::Nobody;
        it.wanted = None;
        after.dropped.extend(it.waker.take());
        self.free.push(place);
        if self.free.len() == self.places.len() {
            // Nobody is left: what a crowd has taken is given back.
            (self.places, self.free) = (Vec::new(), Vec::new());
        }
    }

    pub(super) fn look(
        &mut self,
        place: usize,
        waker: &Waker,
        after: &mut After,
    ) -> Option<Result<Said, Refused>> {
        let it = &mut self.places[place];
        match std::mem::replace(&mut it.stage, Stage::Nobody) {
            Stage::Done(answer) => {
                self.vacate(place, after);
                Some(answer)
            }
            stage => {
                it.stage = stage;
                if !it.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
                    after.dropped.extend(it.waker.replace(waker.clone()));
                }
                None
            }
        }
    }

    /// Puts a place at the end of its line, which may be a new one.
    pub(super) fn join(&mut self, place: usize, wanted: &Wanted) {
        self.standing += 1;
        let units = wanted.units();
        let Some(line) = self.lines.get_mut(&wanted.line()) else {
            let line = Line { first: place, last: place, len: 1, units, tail: None };
            self.lines.insert(wanted.line(), line);
            return;
        };
        if let Some(tail) = &mut line.tail {
            let _ = tail.admit(units, |now| wanted.period(now));
        }
        line.len += 1;
        line.units = line.units.saturating_add(units);
        let ahead = std::mem::replace(&mut line.last, place);
        self.places[ahead].behind = Some(place);
        self.places[place].ahead = Some(ahead);
    }

    /// Takes a place out of its line: which that was, and whether it was the first in it.
    pub(super) fn unlink(&mut self, place: usize) -> (u64, bool) {
        self.note(place, None);
        let it = &mut self.places[place];
        let (ahead, behind) = (it.ahead.take(), it.behind.take());
        let (id, units) = it.wanted.as_ref().map_or((0, 0), |wanted| (wanted.line(), wanted.units()));
        if let Some(ahead) = ahead {
            self.places[ahead].behind = behind;
        }
        if let Some(behind) = behind {
            self.places[behind].ahead = ahead;
        }
        self.standing -= 1;
        match (ahead, behind, self.lines.get_mut(&id)) {
            (None, None, _) => {
                self.lines.remove(&id);
            }
            (_, _, Some(line)) => {
                line.len -= 1;
                line.units = line.units.saturating_sub(units);
                line.first = behind.filter(|_| ahead.is_none()).unwrap_or(line.first);
                line.last = ahead.filter(|_| behind.is_none()).unwrap_or(line.last);
            }
            (_, _, None) => {}
        }
        (id, ahead.is_none())
    }

    pub(super) fn forget_tail(&mut self, line: u64) {
        if let Some(line) = self.lines.get_mut(&line) {
            line.tail = None;
        }
    }

    /// Writes into the agenda when a place is to be looked at.
    pub(super) fn note(&mut self, place: usize, at: Option<Micros>) {
        if let Some(noted) = std::mem::replace(&mut self.places[place].noted, at) {
            self.agenda.remove(&(noted, place));
        }
        self.agenda.extend(at.map(|at| (at, place)));
    }

    /// The same for one in line, who is to be looked at when its time is over, too. That is never before the next reading:
    /// the clock may have been set back since the last, and whoever does what is due is to come to an end.
    pub(super) fn note_due(&mut self, place: usize, due: Option<Micros>) {
        let deadline = self.places[place].deadline;
        let next = self.last.saturating_add(Duration::from_micros(1));
        self.note(place, due.into_iter().chain(deadline).min().map(|at| at.max(next)));
    }

    /// How long somebody would wait for its start behind those who stand in line, at least: exactly, if nobody else
    /// takes or gives back units, and of a log if all in it have the same cost. `None`: never, or nobody can tell.
    pub(super) fn wait_behind(&mut self, wanted: &Wanted, now: Micros) -> Option<Duration> {
        let limit = wanted.limit()?;
        let line = self.lines.get(&wanted.line());
        if limit.kind() == Algorithm::SlidingWindowLog {
            // Any unit and the one that is a capacity behind it are a window apart.
            let last = line.map_or(0, |line| line.units).saturating_add(wanted.units()).saturating_sub(1);
            let (windows, rest) = (last / limit.capacity(), last % limit.capacity());
            let first = wanted.look(rest + 1)?.retry_after()?;
            let windows = u32::try_from(windows).unwrap_or(u32::MAX);
            return Some(first.saturating_add(limit.window().saturating_mul(windows)));
        }
        let mut tail = match line.and_then(|line| line.tail) {
            Some(tail) => tail,
            None => {
                let mut tail = wanted.look(0)?.forecast()?;
                let mut next = line.map(|line| line.first);
                while let Some(place) = next.map(|place| &self.places[place]) {
                    let units = place.wanted.as_ref().map_or(0, |wanted| wanted.units());
                    let _ = tail.admit(units, |now| wanted.period(now));
                    next = place.behind;
                }
                if let Some(line) = self.lines.get_mut(&wanted.line()) {
                    line.tail = Some(tail);
                }
                tail
            }
        };
        Some(now.until(tail.admit(wanted.units(), |now| wanted.period(now))?))
    }

    /// Serves a line as far as the limit lets it, and notes when the next is to be asked.
    pub(super) fn serve(&mut self, line: u64, clock: &StoreClock, after: &mut After) {
        while let Some(first) = self.lines.get(&line).map(|line| line.first) {
            let Some(wanted) = self.places[first].wanted.clone() else { return };
            let deadline = self.places[first].deadline;
            let is_late = |at: Micros| deadline.is_some_and(|deadline| at > deadline);
            let before = clock.now();
            if deadline.is_some() && wanted.has_queue() {
                let look = wanted.ask(Ask::Peek);
                if look.allowed() && is_late(before.saturating_add(look.delay())) {
                    self.unlink(first);
                    self.forget_tail(line);
                    self.refuse(first, Some((Reason::TooLate, Some(look.delay()))), after);
                    continue;
                }
            }
            let said = wanted.ask(Ask::Acquire);
            if said.allowed() {
                self.unlink(first);
                self.admit(first, said, clock, after);
                continue;
            }
            // It takes longer than was foretold: somebody who does not wait has taken units.
            self.forget_tail(line);
            // By the earlier reading, so that rounding makes nobody late.
            let due = said.wait().map(|wait| before.saturating_add(wait));
            let why: Why = match due {
                Some(due) if !is_late(due) => {
                    self.note_due(first, Some(due));
                    return;
                }
                Some(_) => Some((Reason::TooLate, said.wait())),
                None => None,
            };
            self.unlink(first);
            self.finish(first, Err(said.refused(why)), after);
        }
    }

    /// What has been admitted starts now, or when its slot begins.
    fn admit(&mut self, place: usize, said: Said, clock: &StoreClock, after: &mut After) {
        let delay = said.delay();
        if delay.is_zero() {
            return self.finish(place, Ok(said), after);
        }
        // By a reading after the answer: never before the start.
        self.note(place, Some(clock.now().saturating_add(delay)));
        self.places[place].stage = Stage::Starting(said);
    }

    /// Refuses somebody who stands in no line any more, with the numbers of now.
    pub(super) fn refuse(&mut self, place: usize, why: Why, after: &mut After) {
        let Some(wanted) = self.places[place].wanted.clone() else { return };
        let said = wanted.ask(Ask::Peek);
        let why = why.map(|(reason, wait)| (reason, wait.or_else(|| said.wait())));
        self.finish(place, Err(said.refused(why)), after);
    }

    fn finish(&mut self, place: usize, answer: Result<Said, Refused>, after: &mut After) {
        self.note(place, None);
        self.places[place].stage = Stage::Done(answer);
        after.woken.extend(self.places[place].waker.take());
    }

    pub(super) fn do_what_is_due(&mut self, clock: &StoreClock, after: &mut After) {
        let now = self.last;
        while let Some((_, place)) = self.agenda.first().copied().filter(|(at, _)| *at <= now) {
            match std::mem::replace(&mut self.places[place].stage, Stage::Nobody) {
                Stage::Starting(said) => self.finish(place, Ok(said), after),
                Stage::InLine => {
                    self.places[place].stage = Stage::InLine;
                    self.look_after(place, now, clock, after);
                }
                other => {
                    self.places[place].stage = other;
                    self.note(place, None);
                }
            }
        }
        // If the clock was set back meanwhile, those who were asked are asked again, and not so much later.
        self.read(clock);
    }

    /// Somebody in line is due, or its time is over. Whoever is first is asked for first: those whose units are there
    /// are not late, however late the timer is.
    fn look_after(&mut self, place: usize, now: Micros, clock: &StoreClock, after: &mut After) {
        let line = self.places[place].wanted.as_ref().map_or(0, |wanted| wanted.line());
        let first = self.lines.get(&line).map_or(place, |line| line.first);
        if self.places[first].noted.is_some_and(|due| due <= now) {
            self.serve(line, clock, after);
        }
        let it = &self.places[place];
        let is_over = it.deadline.is_some_and(|deadline| deadline <= now);
        if matches!(it.stage, Stage::InLine) && it.noted.is_some_and(|at| at <= now) && is_over {
            self.unlink(place);
            self.forget_tail(line);
            self.refuse(place, Some((Reason::TooLate, None)), after);
        }
    }
}
