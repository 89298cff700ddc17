//! Jobs, and the commands they are put together into.

use std::collections::VecDeque;

use redis::{Cmd, Value};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Answer, Failure, Job, Part, ScriptKind};

/// Jobs in one command: what a server does without looking up from it. 64 take it about a third of a millisecond.
pub(super) const MAX_JOBS: usize = 64;
/// Keys in one command. A job alone may have more.
pub(super) const MAX_KEYS: usize = 256;
/// Commands that are written together; in a cluster each has a slot of its own.
pub(super) const MAX_COMMANDS: usize = 64;
/// Jobs that are written together: what is written must be answered within a few milliseconds.
pub(super) const MAX_ROUND: usize = 512;

/// A job that is not answered yet.
pub(super) struct Pending {
    pub(super) script: ScriptKind,
    pub(super) slot: u16,
    pub(super) parts: Vec<Part>,
    pub(super) tail: Option<Vec<u8>>,
    pub(super) numbers: usize,
    pub(super) deadline: Instant,
    /// Until then it is asked although nobody waits for it.
    pub(super) lasts_until: Instant,
    /// `None`: it was answered, because its time was up.
    pub(super) reply: Option<oneshot::Sender<Result<Answer, Failure>>>,
    /// Redirections and repetitions so far.
    pub(super) hops: u8,
    /// It has been sent again, because a server had become a replica.
    pub(super) is_repeated: bool,
    /// It has seen an attempt to connect fail.
    pub(super) is_spurned: bool,
    /// It goes alone, because its slot is on its way to another node: together with others it would meet keys on
    /// both sides, and neither would serve it.
    pub(super) is_alone: bool,
}

impl Pending {
    pub(super) fn new(job: Job, now: Instant, deadline: Instant, is_cluster: bool) -> Self {
        Self {
            script: job.script,
            slot: if is_cluster { job.slot } else { 0 },
            parts: job.parts,
            is_alone: job.tail.is_some(),
            tail: job.tail,
            numbers: job.numbers,
            deadline,
            lasts_until: now + job.lasts,
            reply: Some(job.reply),
            hops: 0,
            is_repeated: false,
            is_spurned: false,
        }
    }

    /// Whether it is to be asked: somebody waits for it, or it goes on without.
    pub(super) fn is_wanted(&self, now: Instant) -> bool {
        self.lasts_until > now || self.reply.as_ref().is_some_and(|reply| !reply.is_closed())
    }
}

/// One call of a script.
pub(super) struct Command {
    pub(super) id: u64,
    /// What was written together with it.
    pub(super) round: u64,
    pub(super) script: ScriptKind,
    pub(super) slot: u16,
    pub(super) jobs: Vec<Pending>,
    pub(super) keys: usize,
    /// With the text of the script instead of its digest.
    pub(super) is_eval: bool,
    /// To a node that is taking the slot over.
    pub(super) is_asking: bool,
    pub(super) sent_at: Instant,
}

impl Command {
    pub(super) fn new(first: Pending, now: Instant) -> Self {
        Self {
            id: 0,
            round: 0,
            script: first.script,
            slot: first.slot,
            keys: first.parts.len(),
            jobs: vec![first],
            is_eval: false,
            is_asking: false,
            sent_at: now,
        }
    }

    fn takes(&self, job: &Pending) -> bool {
        self.script == job.script
            && self.slot == job.slot
            && self.jobs.len() < MAX_JOBS
            && self.keys + job.parts.len() <= MAX_KEYS
            && self.jobs.first().is_some_and(|first| !first.is_alone)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.jobs.iter().flat_map(|job| &job.parts).map(|part| &part.key[..])
    }

    /// Its bytes: `head` is the digest or the text.
    pub(super) fn encode(&self, head: &str) -> Cmd {
        let parts = || self.jobs.iter().flat_map(|job| &job.parts);
        let size: usize = parts().map(|part| part.key.len() + part.arg.len()).sum();
        let mut cmd = Cmd::with_capacity(4 + 2 * self.keys, size + head.len() + 16);
        cmd.arg(if self.is_eval { "EVAL" } else { "EVALSHA" }).arg(head).arg(self.keys);
        for part in parts() {
            cmd.arg(&part.key[..]);
        }
        for part in parts() {
            cmd.arg(&part.arg[..]);
        }
        for tail in self.jobs.iter().filter_map(|job| job.tail.as_ref()) {
            cmd.arg(&tail[..]);
        }
        cmd
    }

    /// Takes the reply apart: the time, then the numbers of one job after the other. `None`: it is something else.
    pub(super) fn split(&self, values: Vec<Value>) -> Option<(u64, Vec<i64>)> {
        let wanted: usize = self.jobs.iter().map(|job| job.numbers).sum();
        if values.len() != wanted.checked_add(1)? {
            return None;
        }
        let mut numbers = values.into_iter().map(|value| match value {
            Value::Int(number) => Some(number),
            _ => None,
        });
        let now_us = u64::try_from(numbers.next()??).ok()?;
        Some((now_us, numbers.collect::<Option<_>>()?))
    }
}

/// Puts what waits into the commands of one round, in the order of arrival. Jobs whose callers have gone are left
/// out: nobody is debited for them. `gone` counts them.
pub(super) fn gather(queue: &mut VecDeque<Pending>, now: Instant, gone: &mut usize) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    let mut jobs = 0;
    while jobs < MAX_ROUND
        && let Some(job) = queue.pop_front()
    {
        if !job.is_wanted(now) {
            *gone += usize::from(job.reply.is_some());
            continue;
        }
        jobs += 1;
        let open = if job.is_alone { None } else { commands.iter().rposition(|command| command.takes(&job)) };
        match open {
            Some(at) => {
                commands[at].keys += job.parts.len();
                commands[at].jobs.push(job);
            }
            None if commands.len() == MAX_COMMANDS => {
                queue.push_front(job);
                break;
            }
            None => commands.push(Command::new(job, now)),
        }
    }
    commands
}
