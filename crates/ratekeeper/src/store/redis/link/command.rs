//! Jobs, and the commands they are put together into.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use foldhash::fast::RandomState;
use redis::{Cmd, Value};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Answer, Failure, Job, Numbers, Question, ScriptKind};

/// Jobs in one command: what a server does without looking up from it. 64 take it about a third of a millisecond.
pub(super) const MAX_JOBS: usize = 64;
/// Parts of one command, and of one job: a byte numbers them.
pub(crate) const MAX_PARTS: usize = 255;
/// Commands that are written together; in a cluster each has a slot of its own.
pub(super) const MAX_COMMANDS: usize = 64;
/// Jobs that are written together: what is written must be answered within a few milliseconds.
pub(super) const MAX_ROUND: usize = 512;

/// What is said of a reply with other numbers.
pub(super) const NOT_ASKED_FOR: &str = "the script's reply is not what was asked for";

/// A job that is not answered yet.
pub(super) struct Pending {
    pub(super) question: Question,
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
        let slot = if is_cluster { job.question.slot } else { 0 };
        Self {
            is_alone: job.question.tail.is_some(),
            question: Question { slot, ..job.question },
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
            script: first.question.script,
            slot: first.question.slot,
            keys: first.question.parts.len(),
            jobs: vec![first],
            is_eval: false,
            is_asking: false,
            sent_at: now,
        }
    }

    fn takes(&self, job: &Pending) -> bool {
        self.script == job.question.script
            && self.slot == job.question.slot
            && self.jobs.len() < MAX_JOBS
            && self.keys + job.question.parts.len() <= MAX_PARTS
            && self.jobs.first().is_some_and(|first| !first.is_alone)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.jobs.iter().flat_map(|job| &job.question.parts).map(|part| &part.key[..])
    }

    /// Its questions.
    pub(super) fn questions(&self) -> impl Iterator<Item = &Question> + Clone {
        self.jobs.iter().map(|job| &job.question)
    }
}

/// How a script is called.
#[derive(Clone, Copy)]
pub(super) enum Head<'a> {
    Digest(&'a str),
    Text(&'a str),
}

/// The bytes of one call that asks these questions.
pub(super) fn encode<'a>(questions: impl Iterator<Item = &'a Question> + Clone, head: Head<'_>) -> Cmd {
    let parts = || questions.clone().flat_map(|question| &question.parts);
    let (keys, args) =
        (Numbered::of(parts().map(|part| &part.key)), Numbered::of(parts().map(|part| &part.arg)));
    // Those that more than one part is about come first.
    let mut order: Vec<usize> = (0..keys.words.len()).collect();
    order.sort_by_key(|key| keys.words[*key].1 == 1);
    let shared = keys.words.iter().filter(|(_, times)| *times > 1).count();
    let mut place = vec![0; order.len()];
    order.iter().enumerate().for_each(|(at, key)| place[*key] = at);

    let byte = |number: usize| u8::try_from(number).expect("a command has no more parts than a byte says");
    let mut plan = Vec::with_capacity(2 + 3 * keys.numbers.len());
    plan.push(byte(shared));
    let mut seats = keys.numbers.iter().zip(&args.numbers);
    for question in questions.clone() {
        plan.push(byte(question.parts.len()));
        for (key, arg) in seats.by_ref().take(question.parts.len()) {
            plan.extend([byte(place[*key] + 1), byte(arg + 1)]);
        }
    }

    let (name, head) = match head {
        Head::Digest(digest) => ("EVALSHA", digest),
        Head::Text(text) => ("EVAL", text),
    };
    let bytes = |words: &[(&[u8], usize)]| words.iter().map(|(word, _)| word.len()).sum::<usize>();
    let size = bytes(&keys.words) + bytes(&args.words) + plan.len() + head.len() + 16;
    let mut cmd = Cmd::with_capacity(5 + keys.words.len() + args.words.len(), size);
    cmd.arg(name).arg(head).arg(order.len());
    for key in order {
        cmd.arg(keys.words[key].0);
    }
    cmd.arg(plan);
    for (arg, _) in args.words {
        cmd.arg(arg);
    }
    for tail in questions.filter_map(|question| question.tail.as_ref()) {
        cmd.arg(&tail[..]);
    }
    cmd
}

/// Takes the reply to these questions apart: the time, and the numbers of each. `None`: it is something else.
pub(super) fn split<'a>(
    questions: impl Iterator<Item = &'a Question>,
    values: Vec<Value>,
) -> Option<(u64, Vec<Numbers>)> {
    let mut numbers = values.into_iter().map(|value| match value {
        Value::Int(number) => Some(number),
        _ => None,
    });
    let now_us = u64::try_from(numbers.next()??).ok()?;
    let mut answers = Vec::with_capacity(questions.size_hint().0);
    for question in questions {
        let first = numbers.next()??;
        let is_brief = question.brief_from.is_some_and(|brief| first >= brief);
        let more = if is_brief { question.parts.len() } else { question.numbers.checked_sub(1)? };
        let mut answer = Numbers::with_capacity(1 + more);
        answer.push(first);
        for _ in 0..more {
            answer.push(numbers.next()??);
        }
        answers.push(answer);
    }
    numbers.next().is_none().then_some((now_us, answers))
}

/// Words as they came, by number, and each of them once with how often it came.
struct Numbered<'a> {
    numbers: Vec<usize>,
    words: Vec<(&'a [u8], usize)>,
}

impl<'a> Numbered<'a> {
    fn of(all: impl Iterator<Item = &'a Vec<u8>>) -> Self {
        let mut known: HashMap<&[u8], usize, RandomState> = HashMap::default();
        let (mut numbers, mut words) = (Vec::new(), Vec::<(&[u8], usize)>::new());
        for word in all {
            let number = match known.entry(&word[..]) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(free) => {
                    words.push((word, 0));
                    *free.insert(words.len() - 1)
                }
            };
            words[number].1 += 1;
            numbers.push(number);
        }
        Self { numbers, words }
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
                commands[at].keys += job.question.parts.len();
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
