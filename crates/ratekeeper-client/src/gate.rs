//! What one key has learned from all its answers: when it may be sent to.

use std::time::Duration;

use ratekeeper_core::{Ask, Limit, Micros, Moment, State, decide_one};

use crate::draw::{Draw, micros_up};
use crate::hint::LimitInfo;
use crate::settings::{Pace, Settings};

/// Limits that a key remembers; of more, those that were not heard of for longest are forgotten.
pub const MAX_LEARNED: usize = 32;
/// A gate is closed for no longer than this by one refusal, however long it asks for: then somebody asks again.
pub const MAX_CLOSED: Duration = Duration::from_secs(3_600);
/// A gate that is closed for longer lets one call through after so long, to see whether it still must be.
pub const PROBE_AFTER: Duration = Duration::from_secs(600);
/// How far apart calls leave after a pause if nothing is known of the rate.
const LEAST_STEP: Duration = Duration::from_millis(10);
/// Calls that waited leave one after another for at least so long.
const LEAST_SPREAD: Duration = Duration::from_secs(1);

/// Answers about one limit that are remembered, of those that may have been made in another order than they came in.
const MAX_READINGS: usize = 16;

/// What one answer told about a limit.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// Its place in the order in which answers came.
    heard: u64,
    left: u64,
    /// When there is more, and how much later than that we come.
    until: Micros,
    jitter: Duration,
}

impl Reading {
    fn opens(&self) -> Micros {
        self.until.saturating_add(self.jitter)
    }
}

/// What is known about one limit of the server's.
///
/// Answers to calls that were under way together may come in another order than they were made in, so no single one
/// says what is left: all of them together do. A reading counts until one is there of a call that was sent after
/// it came, and at most until its own time is over.
#[derive(Clone, Debug)]
struct Learned {
    name: String,
    readings: Vec<Reading>,
    step: Duration,
    /// The last answer that told about it.
    heard: u64,
}

impl Learned {
    /// The least that is left by all readings that still count, and when that ends.
    fn least(&self, now: Micros) -> Option<&Reading> {
        self.readings.iter().filter(|reading| reading.opens() > now).min_by_key(|reading| reading.left)
    }

    /// Takes a reading of a call before which so many answers had come.
    fn take(&mut self, reading: Reading, heard_before: u64) {
        self.readings.retain(|known| known.heard > heard_before);
        if self.readings.len() >= MAX_READINGS {
            // The most that is left says the least.
            if let Some((place, _)) = self.readings.iter().enumerate().max_by_key(|(_, known)| known.left) {
                self.readings.swap_remove(place);
            }
        }
        self.readings.push(reading);
    }
}

/// Calls leave one after another for a while after a pause.
#[derive(Clone, Copy, Debug)]
struct Spread {
    next: Micros,
    step: Duration,
    ends: Micros,
}

/// The number of a send, which its answer is to bring back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Send {
    number: u64,
    /// Answers that had come before it was sent.
    heard_before: u64,
    probe: bool,
}

/// Whether a call may be sent now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// It may, and counts as sent.
    Go(Send),
    /// Not before this.
    Wait(Micros),
    /// Not before another call has its answer, or this.
    Full(Micros),
}

/// The gate of one key: pure, and of bounded size.
///
/// Whoever drives it asks [`may_send`](Self::may_send) before each send, in the order of arrival, and ends each by
/// [`learn`](Self::learn) with what its answer told, or [`lost`](Self::lost) if there is none. A refusal is
/// [`close`](Self::close) besides.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    learned: Vec<Learned>,
    closed: Option<Micros>,
    probe: Option<Micros>,
    spread: Option<Spread>,
    own: Option<State>,
    in_flight: u32,
    sends: u64,
    /// Sends that were made when the gate was last closed.
    sends_at_close: u64,
    answers: u64,
}

impl Gate {
    /// The gate of a key that nothing is known of.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the next call may be sent now; if so, it counts as sent. `behind` calls wait for their turn after it.
    pub fn may_send(&mut self, settings: &Settings, behind: usize, now: Micros, draw: Draw) -> Entry {
        if settings.max_in_flight.is_some_and(|most| self.in_flight >= most) {
            return Entry::Full(Micros::MAX);
        }
        let probe = match self.closed_until(settings, now) {
            None => {
                self.reopened(now);
                false
            }
            Some((opens, step)) => {
                self.expect_probe(opens, now);
                match self.probe {
                    Some(at) if at <= now => {
                        self.probe = Some(now.saturating_add(PROBE_AFTER));
                        true
                    }
                    at => {
                        self.spread_from(opens, step, now);
                        return Entry::Wait(at.map_or(opens, |at| at.min(opens)));
                    }
                }
            }
        };
        if let Some(spread) = self.spread.filter(|spread| now < spread.next && !probe) {
            return Entry::Wait(spread.next);
        }
        if let Some(at) = self.taken_until(settings, now).filter(|_| !probe) {
            return Entry::Full(at);
        }
        if let Some(wait) = settings.own_limit.and_then(|own| self.own_wait(&own, now)) {
            return Entry::Wait(now.saturating_add(wait));
        }
        self.leave(settings, behind, now, draw);
        Entry::Go(Send { number: self.sends, heard_before: self.answers, probe })
    }

    /// When the gate opens, or would let a probe through; `None` if it is open. What is left of a queue before it,
    /// or of our own limit, is not looked at.
    #[must_use]
    pub fn opens(&self, settings: &Settings, now: Micros) -> Option<Micros> {
        let (opens, _) = self.closed_until(settings, now)?;
        Some(self.probe.map_or(opens, |probe| probe.min(opens)).max(now))
    }

    /// How far apart calls that wait leave.
    #[must_use]
    pub fn step(&self) -> Duration {
        self.spread.map_or(Duration::ZERO, |spread| spread.step)
    }

    fn own_wait(&mut self, own: &Limit, now: Micros) -> Option<Duration> {
        let state = self.own.unwrap_or(State::FRESH);
        let (written, verdict) = decide_one(own, state, &Moment::at(now), 1, Ask::Acquire);
        self.own = written.or(self.own);
        if verdict.allowed() { None } else { Some(verdict.retry_after().unwrap_or(MAX_CLOSED)) }
    }

    /// Counts a call as sent.
    fn leave(&mut self, settings: &Settings, behind: usize, now: Micros, draw: Draw) {
        self.sends += 1;
        self.in_flight = self.in_flight.saturating_add(1);
        let smooth = match settings.pace {
            Pace::Smooth { .. } => self.smooth_step(now),
            Pace::Off | Pace::GateAtZero => None,
        };
        match &mut self.spread {
            Some(spread) if behind > 0 => {
                spread.next = now.saturating_add(spread.step).saturating_add(draw.up_to(spread.step / 4));
            }
            _ => {
                self.spread = smooth.map(|step| {
                    let next = now.saturating_add(step);
                    Spread { next, step, ends: next }
                });
            }
        }
    }

    /// The longest distance that lets what is left last until there is more.
    fn smooth_step(&self, now: Micros) -> Option<Duration> {
        let in_flight = u64::from(self.in_flight);
        let steps = self.learned.iter().filter_map(|limit| {
            let reading = limit.least(now)?;
            let left = u32::try_from(reading.left.saturating_sub(in_flight).max(1)).unwrap_or(u32::MAX);
            let rest = now.until(reading.until);
            Some((rest / left).max(limit.step.min(rest)))
        });
        steps.max().filter(|step| !step.is_zero())
    }

    /// When the gate opens by all that is known, and how far apart calls leave then; `None` if it is open.
    fn closed_until(&self, settings: &Settings, now: Micros) -> Option<(Micros, Duration)> {
        let reserve = reserve(settings);
        let exhausted = self.learned.iter().filter_map(|limit| {
            let used_up = limit.readings.iter().filter(|reading| Some(reading.left) <= reserve);
            Some((used_up.map(Reading::opens).max()?, limit.step))
        });
        let closed = self.closed.map(|closed| (closed, LEAST_STEP));
        exhausted.max().max(closed).filter(|(opens, _)| *opens > now)
    }

    /// When the gate opens if what is left may already be taken by calls that have no answer yet.
    fn taken_until(&self, settings: &Settings, now: Micros) -> Option<Micros> {
        let reserve = reserve(settings)?;
        let taken = self.learned.iter().filter_map(|limit| limit.least(now));
        let taken = taken.filter(|reading| reading.left.saturating_sub(u64::from(self.in_flight)) <= reserve);
        taken.map(Reading::opens).max()
    }

    fn expect_probe(&mut self, opens: Micros, now: Micros) {
        if self.probe.is_none() && now.until(opens) > PROBE_AFTER {
            self.probe = Some(now.saturating_add(PROBE_AFTER));
        }
    }

    /// Whoever waits now leaves one after another once the gate opens.
    fn spread_from(&mut self, opens: Micros, step: Duration, now: Micros) {
        if self.spread.is_none_or(|spread| spread.next < opens) {
            let ends = opens.saturating_add(now.until(opens).max(LEAST_SPREAD));
            self.spread = Some(Spread { next: opens, step, ends });
            self.sends_at_close = self.sends;
        }
    }

    /// Forgets what has ended by itself.
    fn reopened(&mut self, now: Micros) {
        self.probe = None;
        self.closed = None;
        self.spread = self.spread.filter(|spread| now < spread.ends);
        for limit in &mut self.learned {
            limit.readings.retain(|reading| reading.opens() > now);
        }
    }

    /// Ends a send with what its answer tells about limits.
    pub fn learn(&mut self, settings: &Settings, send: Send, told: &[LimitInfo], now: Micros, draw: Draw) {
        self.answers += 1;
        self.in_flight = self.in_flight.saturating_sub(1);
        let heard = self.answers;
        let mut there_is_more = false;
        for limit in told {
            // Without a time there is nothing to wait for.
            let Some(wait) = limit.wait else { continue };
            there_is_more |= limit.remaining > 0;
            let reading = Reading {
                heard,
                left: limit.remaining,
                until: now.saturating_add(wait).saturating_add(limit.margin),
                jitter: draw.up_to(settings.most_jitter(wait)),
            };
            let step = step_of(limit, wait);
            match self.learned.iter_mut().find(|known| known.name == limit.name) {
                Some(known) => {
                    (known.heard, known.step) = (heard, step);
                    known.take(reading, send.heard_before);
                }
                None => {
                    let (name, readings) = (limit.name.clone(), vec![reading]);
                    self.remember(Learned { name, readings, step, heard });
                }
            }
        }
        if told.is_empty() {
            self.charge();
        }
        let is_news = send.number > self.sends_at_close;
        self.settle(settings, there_is_more && is_news, now);
    }

    /// Ends a send that has no answer, and will not get any: it may have been counted.
    pub fn lost(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.charge();
    }

    /// A call may have taken a unit of every limit: nothing says of which. (An answer that tells about some says that
    /// it was counted by those.)
    fn charge(&mut self) {
        for reading in self.learned.iter_mut().flat_map(|limit| &mut limit.readings) {
            reading.left = reading.left.saturating_sub(1);
        }
    }

    /// What an answer changes for those who wait.
    fn settle(&mut self, settings: &Settings, there_is_more: bool, now: Micros) {
        if there_is_more && settings.pace == Pace::GateAtZero {
            self.spread = None;
        }
        match (self.closed_until(settings, now), &mut self.spread) {
            (Some((opens, _)), _) => self.expect_probe(opens, now),
            // It has opened earlier than it was to, and nobody has left yet.
            (None, Some(spread)) if self.sends == self.sends_at_close => spread.next = spread.next.min(now),
            (None, _) => {}
        }
    }

    fn remember(&mut self, news: Learned) {
        if self.learned.len() < MAX_LEARNED {
            self.learned.push(news);
        } else if let Some(oldest) = self.learned.iter_mut().min_by_key(|limit| limit.heard) {
            *oldest = news;
        }
    }

    /// Closes the gate for a wait, its jitter included, and at most for [`MAX_CLOSED`]. It is never opened earlier
    /// than it was to be.
    pub fn close(&mut self, wait: Duration, now: Micros) {
        let opens = now.saturating_add(micros_up(wait).min(MAX_CLOSED));
        self.closed = self.closed.max(Some(opens));
        self.sends_at_close = self.sends;
        self.expect_probe(opens, now);
    }

    /// A probe was let through: what was remembered is over, but for what its own answer has told.
    pub fn probed(&mut self, settings: &Settings, send: Send, told: &[LimitInfo], now: Micros) {
        if !send.probe {
            return;
        }
        self.closed = None;
        self.probe = None;
        for limit in self.learned.iter_mut().filter(|limit| told.iter().all(|told| told.name != limit.name)) {
            limit.readings.clear();
        }
        // Those who wait begin to leave now.
        self.sends_at_close = self.sends;
        self.settle(settings, false, now);
    }

    /// How many limits of the server's it remembers: [`MAX_LEARNED`] at most.
    #[must_use]
    pub fn learned(&self) -> usize {
        self.learned.len()
    }
}

/// What is left of every limit to others; `None`: what remains is not looked at.
const fn reserve(settings: &Settings) -> Option<u64> {
    match settings.pace {
        Pace::Off => None,
        Pace::GateAtZero => Some(0),
        Pace::Smooth { reserve } => Some(reserve),
    }
}

/// How far apart calls leave once a limit has more: as its quota and window say, or as if the quota came evenly.
fn step_of(limit: &LimitInfo, wait: Duration) -> Duration {
    let Some(quota) = limit.quota.map(|quota| u32::try_from(quota).unwrap_or(u32::MAX).max(1)) else {
        return LEAST_STEP;
    };
    match limit.window {
        Some(window) => window / quota,
        None => (wait / quota).max(LEAST_STEP),
    }
}

#[cfg(test)]
mod tests;
