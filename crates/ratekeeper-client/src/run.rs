//! One call from its start to what is returned: what the adapters have in common.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::HeaderValue;
use http::{HeaderMap, Method, StatusCode};
use ratekeeper_core::Micros;
use tokio::time::{sleep_until, timeout_at};

use crate::decide::{Call, Failure, GiveUp, Next, Outcome, decide, is_idempotent, wait_for};
use crate::draw::Draw;
use crate::event::Event;
use crate::gate::Entry;
use crate::head::RequestHead;
use crate::hint::{Hint, ResponseHead, Wait, resolve};
use crate::lanes::{Lane, Place, Ticket};
use crate::polite::{Polite, PoliteOptions, Shared};
use crate::profile::{Class, Classify as _};
use crate::report::{Gated, RetryReport};
use crate::settings::{Generate, Settings};

const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// A call on its way.
pub(crate) struct Run {
    shared: Arc<Shared>,
    settings: Settings,
    lane: Arc<Lane>,
    host: String,
    idempotent: bool,
    has_key: bool,
    deadline: Option<Micros>,
    not_before: Micros,
    attempts: u32,
    previous: Duration,
    waited: Duration,
    /// What the last retry took from the budget.
    paid_milli: Option<u64>,
}

/// What to do with an answer.
pub(crate) enum Verdict {
    Return(RetryReport),
    Retry,
}

/// The key that a request needs if keys are to be made and it has none.
pub(crate) fn idempotency_key(
    polite: &Polite,
    method: &Method,
    headers: &HeaderMap,
) -> Option<(&'static str, HeaderValue)> {
    let wanted = polite.shared.settings.idempotency_keys == Generate::ForPostAndPatch
        && [Method::POST, Method::PATCH].contains(method)
        && !headers.contains_key(IDEMPOTENCY_KEY);
    if !wanted {
        return None;
    }
    let (Draw(one), Draw(two)) = (polite.shared.dice.draw(), polite.shared.dice.draw());
    // A structured field's String: the quotes belong to it.
    let value = HeaderValue::from_str(&format!("\"{one:016x}{two:016x}\"")).ok()?;
    Some((IDEMPOTENCY_KEY, value))
}

impl Run {
    pub(crate) fn new(polite: &Polite, head: &RequestHead<'_>, options: PoliteOptions) -> Self {
        let shared = Arc::clone(&polite.shared);
        let mut settings = shared.settings.clone();
        settings.max_attempts = options.max_attempts.unwrap_or(settings.max_attempts).max(1);
        let lane = shared.lanes.of(shared.key(head), &settings.budget);
        let now = shared.clock.now();
        Self {
            lane,
            host: head.host(),
            idempotent: is_idempotent(head.method),
            has_key: head.headers.contains_key(IDEMPOTENCY_KEY),
            deadline: options.within.map(|within| shared.clock.after(within)),
            not_before: now,
            attempts: 0,
            previous: Duration::ZERO,
            waited: Duration::ZERO,
            paid_milli: None,
            settings,
            shared,
        }
    }

    fn now(&self) -> Micros {
        self.shared.clock.now()
    }

    /// Waits until the call may be sent: for its own retry, and at the gate of its key, first come first served.
    pub(crate) async fn admitted(&mut self) -> Result<Ticket, Gated> {
        let began = self.now();
        let latest = self.not_before.max(began).saturating_add(self.settings.max_queue_wait);
        let latest = self.deadline.map_or(latest, |deadline| latest.min(deadline));
        let lane = Arc::clone(&self.lane);
        let admitted = self.at_the_gate(&lane, latest).await;
        self.waited = self.waited.saturating_add(began.until(self.now()));
        match admitted {
            Ok(send) => {
                self.attempts += 1;
                Ok(Ticket { lane, send, heard: false })
            }
            Err(opens) => {
                let retry_after = self.now().until(opens);
                self.shared.tell(&Event::Gated { key: &lane.key, retry_after });
                Err(Gated { key: Arc::clone(&lane.key), retry_after })
            }
        }
    }

    /// `Err`: when the gate opens, which is too late.
    async fn at_the_gate(&self, lane: &Lane, latest: Micros) -> Result<crate::gate::Send, Micros> {
        let clock = &self.shared.clock;
        let place = Place::take(lane).ok_or(latest)?;
        self.can_be_in_time(lane, place.others(), latest)?;
        loop {
            // The line is never closed: what is here is a turn.
            let Ok(turn) = timeout_at(clock.at(latest), lane.line.acquire()).await else {
                return Err(self.opens(lane).max(latest));
            };
            loop {
                let now = self.now();
                if now < self.not_before && self.opens(lane) <= now {
                    // Its own wait is nobody else's: others pass meanwhile.
                    break;
                }
                let mut changed = pin!(lane.changed.notified());
                changed.as_mut().enable();
                let entry = {
                    let mut kept = lane.kept();
                    kept.gate.may_send(&self.settings, place.others(), now, self.shared.dice.draw())
                };
                let look_again = match entry {
                    Entry::Go(send) => return Ok(send),
                    Entry::Wait(at) if at > latest => return Err(at),
                    Entry::Full(_) if now >= latest => return Err(latest),
                    Entry::Wait(at) => at,
                    Entry::Full(at) => at.min(latest),
                };
                if look_again > now {
                    self.shared.tell(&Event::Waiting { key: &lane.key, wait: now.until(look_again) });
                }
                // What has changed is looked at above; so is whether the time has come.
                let _ = timeout_at(clock.at(look_again), changed).await;
            }
            drop(turn);
            sleep_until(clock.at(self.not_before)).await;
        }
    }

    fn opens(&self, lane: &Lane) -> Micros {
        let now = self.now();
        lane.kept().gate.opens(&self.settings, now).unwrap_or(now)
    }

    /// Whether somebody who comes now, behind so many, could be sent before `latest`: who cannot is told at once.
    fn can_be_in_time(&self, lane: &Lane, others: usize, latest: Micros) -> Result<(), Micros> {
        let now = self.now();
        let kept = lane.kept();
        let Some(opens) = kept.gate.opens(&self.settings, now) else { return Ok(()) };
        let in_line = kept.gate.step().saturating_mul(u32::try_from(others).unwrap_or(u32::MAX));
        let expected = opens.saturating_add(in_line);
        if expected > latest { Err(expected) } else { Ok(()) }
    }

    fn call(&self, replayable: bool) -> Call {
        Call {
            attempts: self.attempts,
            idempotent: self.idempotent,
            has_key: self.has_key,
            replayable,
            previous: self.previous,
            deadline: self.deadline,
        }
    }

    /// Takes the head of an answer: what it tells is learned by all, and this call is done or will try again.
    pub(crate) fn answered(
        &mut self,
        mut ticket: Ticket,
        status: StatusCode,
        headers: &HeaderMap,
        body: Option<&[u8]>,
        replayable: bool,
    ) -> Verdict {
        let head = ResponseHead { status, headers, host: &self.host, wall: self.shared.wall(), body };
        let class = self.shared.profile.classify(&head);
        let hint = resolve(&head, &self.shared.profile);
        let (now, draw) = (self.now(), self.shared.dice.draw());
        let call = self.call(replayable);
        let mut kept = self.lane.kept();
        kept.gate.learn(&self.settings, ticket.send, &hint.limits, now, draw);
        ticket.heard = true;
        if class == Class::Success {
            kept.gate.probed(&self.settings, ticket.send, &hint.limits, now);
        }
        if let Some(pause) = pause(&self.settings, &call, status, class, &hint, draw) {
            kept.gate.close(pause, now);
        }
        let outcome = Outcome::Answer { status, class, hint: &hint };
        let next = decide(&self.settings, &call, &outcome, &mut kept.balance, now, draw);
        if class == Class::Success {
            kept.balance.succeeded(&self.settings.budget, self.paid_milli, now);
        }
        drop(kept);
        // Its drop wakes the head of the line, which looks at what was learned.
        drop(ticket);
        for limit in &hint.limits {
            self.shared.tell(&Event::Learned { key: &self.lane.key, limit });
        }
        match self.follow(next, now) {
            Ok(()) => Verdict::Retry,
            Err(gave_up) => Verdict::Return(self.report(gave_up)),
        }
    }

    /// Takes a failure; whether to try again.
    pub(crate) fn failed(&mut self, ticket: Ticket, failure: Failure, replayable: bool) -> bool {
        drop(ticket);
        let (now, draw) = (self.now(), self.shared.dice.draw());
        let call = self.call(replayable);
        let outcome = Outcome::Failed(failure);
        let next = decide(&self.settings, &call, &outcome, &mut self.lane.kept().balance, now, draw);
        self.follow(next, now).is_ok()
    }

    /// Does as was decided; `Err`: the call is over.
    fn follow(&mut self, next: Next, now: Micros) -> Result<(), Option<GiveUp>> {
        match next {
            Next::Done => Err(None),
            Next::Retry { not_before, why, paid_milli } => {
                let wait = now.until(not_before);
                self.shared.tell(&Event::Retrying {
                    key: &self.lane.key,
                    attempts: self.attempts,
                    wait,
                    why,
                });
                (self.not_before, self.previous, self.paid_milli) = (not_before, wait, Some(paid_milli));
                Ok(())
            }
            Next::GiveUp(why) => {
                self.shared.tell(&Event::GaveUp { key: &self.lane.key, attempts: self.attempts, why });
                Err(Some(why))
            }
        }
    }

    fn report(&self, gave_up: Option<GiveUp>) -> RetryReport {
        let now = self.now();
        let opens = self.lane.kept().gate.opens(&self.settings, now);
        RetryReport {
            attempts: self.attempts,
            waited: self.waited,
            gave_up,
            retry_after: opens.map(|opens| now.until(opens)),
        }
    }

    /// How long the next attempt waits: refused bodies are read meanwhile.
    pub(crate) fn pause(&self) -> Duration {
        self.now().until(self.not_before)
    }
}

/// For how long an answer closes the gate of its key, if it does.
fn pause(
    settings: &Settings,
    call: &Call,
    status: StatusCode,
    class: Class,
    hint: &Hint,
    draw: Draw,
) -> Option<Duration> {
    let says_when = hint.wait.is_some();
    let closes = match class {
        Class::Throttled | Class::Abuse => true,
        // By themselves other failures are those of a request, not of a key.
        Class::Overloaded => says_when,
        // The wait before the request that a redirection asks for.
        Class::Success => status.is_redirection() && hint.source <= crate::hint::HintSource::RetryAfter,
        Class::Transient | Class::Permanent => false,
    };
    closes.then(|| match wait_for(settings, call, hint, draw) {
        Ok(wait) => wait,
        Err(Wait::For(wait)) => wait.saturating_add(draw.up_to(settings.most_jitter(wait))),
        Err(Wait::Forever) => Duration::MAX,
    })
}
