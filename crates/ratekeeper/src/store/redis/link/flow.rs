//! Jobs on their way: to a node, in commands, and what becomes of the replies.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use ratekeeper_core::Trouble;
use redis::{Pipeline, RedisResult, Value};
use tokio::time::{Instant, timeout_at};

use super::command::{Command, NOT_ASKED_FOR, Pending, encode, gather, split};
use super::connect::{telling, words};
use super::hub::{AskAll, Event, Hub, answer, fail_ask};
use super::node::{Ask, State};
use super::verdict::{Verdict, judge, presentable, trouble_of};
use super::{Answer, Failure};

/// How often a job follows a redirection, or is repeated because its keys are on the way.
const MAX_HOPS: u8 = 2;
/// How long a job waits whose keys are on the way: moving a key takes less.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(5);

impl Hub {
    /// Takes a job to the node that serves it; [`Hub::flush`] sends it.
    pub(super) fn route(&mut self, job: Pending, now: Instant) {
        match self.owner(job.question.slot) {
            Ok(node) => self.enqueue(node, job, now),
            Err(None) => {
                self.refresh_map(now);
                match self.despair() {
                    Some(trouble) => self.fail(job, trouble),
                    None => self.lobby.push_back(job),
                }
            }
            Err(Some(trouble)) => self.fail(job, trouble),
        }
    }

    /// A job for a node. If its last attempt has just failed, nobody waits for the next.
    fn enqueue(&mut self, at: usize, job: Pending, now: Instant) {
        match self.nodes[at].state {
            State::Down { retry_at, trouble } if retry_at > now => self.fail(job, trouble),
            State::Down { .. } | State::Idle => {
                self.start_attempt(at);
                self.nodes[at].queue.push_back(job);
            }
            State::Connecting | State::Up(_) => self.nodes[at].queue.push_back(job),
        }
    }

    /// Answers a job that was never written, or of which a reply says that it did not run.
    pub(super) fn fail(&self, mut job: Pending, trouble: Trouble) {
        answer(&self.ledger, &mut job, Err(Failure { trouble, may_have_run: false }));
    }

    pub(super) fn flush_all(&mut self, now: Instant) {
        for at in 0..self.nodes.len() {
            self.flush(at, now);
        }
    }

    /// Sends what waits, if not too much is on its way: then it gathers until something is answered.
    pub(super) fn flush(&mut self, at: usize, now: Instant) {
        while self.nodes[at].is_ready() {
            let node = &mut self.nodes[at];
            let mut commands: Vec<Command> = node.again.drain(..).collect();
            let mut gone = 0;
            commands.append(&mut gather(&mut node.queue, now, &mut gone));
            self.ledger.waiting.fetch_sub(gone, Relaxed);
            if commands.is_empty() {
                continue;
            }
            let round = self.next_id();
            self.nodes[at].rounds.push((round, commands.len()));
            for mut command in commands {
                command.round = round;
                self.send(at, command, now);
            }
            let suspect_at = self.nodes[at].suspect_at(self.patience);
            if let Some(suspect_at) = suspect_at {
                self.wake_by(suspect_at);
            }
        }
    }

    fn send(&mut self, at: usize, mut command: Command, now: Instant) {
        let id = self.next_id();
        let node = &mut self.nodes[at];
        let State::Up(live) = &node.state else { return };
        command.id = id;
        command.sent_at = now;
        let cmd = encode(command.questions(), self.connector.head(command.script, command.is_eval));
        let (mut connection, generation) = (live.connection.clone(), node.generation);
        self.ledger.commands.fetch_add(1, Relaxed);
        if command.is_asking {
            let mut pair = Pipeline::with_capacity(2);
            pair.cmd("ASKING").add_command(cmd);
            self.flights.push(Box::pin(async move {
                let result = connection.send_packed_commands(&pair, 1, 1).await;
                let result = result.map(|mut values| values.pop().unwrap_or(Value::Nil));
                Event::Reply { node: at, generation, id, result }
            }));
        } else {
            self.flights.push(Box::pin(async move {
                let result = connection.send_packed_command(&cmd).await;
                Event::Reply { node: at, generation, id, result }
            }));
        }
        node.in_flight.push(command);
    }

    /// A command was answered, or its connection broke.
    pub(super) fn replied(
        &mut self,
        at: usize,
        generation: u64,
        id: u64,
        result: RedisResult<Value>,
        now: Instant,
    ) {
        let node = &mut self.nodes[at];
        if node.generation != generation {
            return;
        }
        let value = match result {
            Ok(value) => value,
            // Nothing that is on this connection has a known end, and it is not asked for again.
            Err(error) => return self.lost(at, Trouble::Connect, &telling(&error), now),
        };
        let Some(found) = node.in_flight.iter().position(|command| command.id == id) else { return };
        let command = node.in_flight.swap_remove(found);
        node.close_round(command.round);
        if let State::Up(live) = &mut node.state {
            live.heard_at = now;
        }
        let took = now.saturating_duration_since(command.sent_at);
        self.ledger.took(took);
        self.events.took(command.script, took, command.jobs.len());
        match value {
            Value::ServerError(error) => self.erred(at, command, &words(&error), now),
            Value::Array(values) => self.deliver(command, values, now),
            _ => self.fail_all(command, Trouble::Corrupt, true),
        }
        self.leave_if_done(at, now);
        self.flush(at, now);
    }

    /// Gives every job its numbers. What comes after a deadline is thrown away.
    fn deliver(&self, mut command: Command, values: Vec<Value>, now: Instant) {
        let Some((now_us, answers)) = split(command.questions(), values) else {
            self.ledger.set_error(NOT_ASKED_FOR);
            return self.fail_all(command, Trouble::Corrupt, true);
        };
        for (job, numbers) in command.jobs.iter_mut().zip(answers) {
            let result = if job.deadline > now {
                Ok(Answer { now_us, numbers })
            } else {
                Err(Failure { trouble: Trouble::Timeout, may_have_run: true })
            };
            answer(&self.ledger, job, result);
        }
    }

    pub(super) fn fail_all(&self, mut command: Command, trouble: Trouble, may_have_run: bool) {
        for job in &mut command.jobs {
            answer(&self.ledger, job, Err(Failure { trouble, may_have_run }));
        }
    }

    /// An error reply to a command.
    fn erred(&mut self, at: usize, mut command: Command, text: &str, now: Instant) {
        let verdict = judge(text);
        // Whoever has no time left knows from now on that nothing ran; it has been told otherwise, which is allowed.
        command.jobs.retain(|job| job.reply.is_some() || job.lasts_until > now);
        command.keys = command.jobs.iter().map(|job| job.question.parts.len()).sum();
        match verdict {
            Verdict::NoScript if !command.is_eval => {
                self.ledger.reloads.fetch_add(1, Relaxed);
                command.is_eval = true;
                if !command.jobs.is_empty() {
                    self.nodes[at].again.push_back(command);
                }
            }
            Verdict::Moved { slot, host, port } if self.map.is_some() => {
                let to = self.moved(at, slot, host, port, now);
                for mut job in command.jobs {
                    job.hops += 1;
                    match to {
                        Some(to) if job.hops <= MAX_HOPS => self.enqueue(to, job, now),
                        _ => self.fail(job, Trouble::Loading),
                    }
                }
                if let Some(to) = to {
                    self.flush(to, now);
                }
            }
            Verdict::Ask { host, port } if self.map.is_some() => self.asked(at, command, host, port, now),
            Verdict::TryAgain => {
                let is_split = command.jobs.len() > 1;
                for job in command.jobs {
                    self.try_again(job, is_split, now);
                }
            }
            Verdict::Readonly => self.readonly(at, command, text, now),
            Verdict::NoScript | Verdict::Moved { .. } | Verdict::Ask { .. } => {
                self.ledger.set_error(&presentable(text, command.keys()));
                self.fail_all(command, Trouble::Other, false);
            }
            Verdict::Final(failure) => {
                self.ledger.set_error(&presentable(text, command.keys()));
                self.fail_all(command, failure.trouble, failure.may_have_run);
            }
        }
    }

    /// Follows an ASK, each job by itself: the new node refuses those whose keys it has only in part, and those of
    /// other callers must not suffer.
    fn asked(&mut self, at: usize, command: Command, host: String, port: u16, now: Instant) {
        let Some(to) = self.find_node(at, host, port) else {
            return self.fail_all(command, Trouble::Loading, false);
        };
        let is_eval = command.is_eval;
        for mut job in command.jobs {
            job.hops += 1;
            job.is_alone = true;
            if job.hops > MAX_HOPS {
                self.fail(job, Trouble::Loading);
                continue;
            }
            match self.nodes[to].state {
                State::Down { retry_at, trouble } if retry_at > now => {
                    self.fail(job, trouble);
                    continue;
                }
                State::Down { .. } | State::Idle => self.start_attempt(to),
                State::Connecting | State::Up(_) => {}
            }
            let single = Command { is_eval, is_asking: true, ..Command::new(job, now) };
            self.nodes[to].again.push_back(single);
        }
        self.flush(to, now);
    }

    /// Asks again by itself: at once if it was together with others, whose keys may be the reason; else a little
    /// later. That it was taken apart is not held against it.
    fn try_again(&mut self, mut job: Pending, is_split: bool, now: Instant) {
        job.is_alone = true;
        if is_split {
            return self.route(job, now);
        }
        job.hops += 1;
        let at = now + TRY_AGAIN_AFTER * u32::from(job.hops);
        if job.hops > MAX_HOPS || at >= job.deadline {
            return self.fail(job, Trouble::Loading);
        }
        self.later.push((at, job));
        self.wake_by(at);
    }

    /// A replica: the connection is left, the master is looked for, and whoever has not been repeated yet waits.
    fn readonly(&mut self, at: usize, command: Command, text: &str, now: Instant) {
        self.ledger.set_error(&presentable(text, command.keys()));
        if let State::Up(live) = &mut self.nodes[at].state {
            live.is_leaving = true;
        }
        self.ledger.set_serving(None);
        self.stale_map(now);
        for mut job in command.jobs {
            if job.is_repeated {
                self.fail(job, Trouble::Readonly);
                continue;
            }
            job.is_repeated = true;
            match &self.map {
                // Its owner is asked for again.
                Some(_) => self.lobby.push_back(job),
                None => self.nodes[at].queue.push_back(job),
            }
        }
    }

    /// Asks all masters, as soon as they are known.
    pub(super) fn ask_all(&mut self, ask: AskAll, now: Instant) {
        let Some(masters) = self.masters() else {
            self.asks.push(ask);
            return self.refresh_map(now);
        };
        let mut receivers = Vec::with_capacity(masters.len());
        for at in masters {
            let (reply, receiver) = tokio::sync::oneshot::channel();
            receivers.push(receiver);
            let mut command = redis::Cmd::new();
            for word in &ask.command {
                command.arg(&word[..]);
            }
            let one = Ask { command, deadline: ask.deadline, reply };
            match self.nodes[at].state {
                State::Down { trouble, .. } => {
                    fail_ask(one, &self.nodes[at].name(), trouble, "not connected");
                    continue;
                }
                State::Idle => self.start_attempt(at),
                State::Connecting | State::Up(_) => {}
            }
            self.nodes[at].asks.push(one);
            self.send_asks(at);
        }
        let _ = ask.reply.send(receivers);
    }

    /// Sends the plain commands that wait for this node.
    pub(super) fn send_asks(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let State::Up(live) = &node.state else { return };
        let name = node.name();
        for ask in node.asks.drain(..) {
            let (mut connection, name) = (live.connection.clone(), name.clone());
            self.flights.push(Box::pin(async move {
                let Ask { command, deadline, reply } = ask;
                let said = match timeout_at(deadline, connection.send_packed_command(&command)).await {
                    Ok(Ok(Value::ServerError(error))) => {
                        let text = words(&error);
                        let failure = Failure { trouble: trouble_of(&text), may_have_run: false };
                        Err((failure, presentable(&text, std::iter::empty())))
                    }
                    Ok(Ok(value)) => Ok(value),
                    Ok(Err(error)) => {
                        Err((Failure { trouble: Trouble::Connect, may_have_run: true }, telling(&error)))
                    }
                    Err(_) => {
                        let failure = Failure { trouble: Trouble::Timeout, may_have_run: true };
                        Err((failure, "no answer in time".to_owned()))
                    }
                };
                let _ = reply.send((name, said));
                Event::Said
            }));
        }
    }
}
