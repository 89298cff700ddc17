//! The run: step by step, the clock set to the time of each.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::io::{self, BufRead, Write};
use std::rc::Rc;

use ratekeeper_core::{Ask, Check, Decision, ManualClock, Micros, Name, Store, StoreError, Token};
use ratekeeper_policy::{Applied, Call, CallError, Config, Does, Policy, Which};

use crate::hints::{file_has, nearest, quoted};
use crate::json::{Flaw, Places};
use crate::report;
use crate::trace::{Lines, Op, Step, WrongLine};

/// A trace being decided: the stores, the clock they read, and what earlier steps took.
///
/// Memory grows with the number of steps, not with their keys' bytes: any admitted step may be given back
/// later, and a denied one may be asked for. A key is kept once, however many steps name it.
pub struct Simulation<'c, S> {
    config: &'c Config,
    policy: Option<&'c Policy>,
    stores: &'c [(Name, S)],
    clock: ManualClock,
    callers: HashSet<Rc<Caller>>,
    past: Vec<Past>,
    tokens: Vec<Token>,
}

/// Why a run ended early.
#[derive(Debug)]
#[non_exhaustive]
pub enum SimError {
    /// A line of the trace is wrong. All before it has been decided and printed.
    Wrong(WrongLine),
    /// The trace could not be read.
    Input(io::Error),
    /// The answers could not be written.
    Output(io::Error),
    /// The store could not answer.
    Store(StoreError),
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(line) => write!(f, "{}", line.in_file("trace")),
            Self::Input(wrong) => write!(f, "error: cannot read the trace: {wrong}"),
            Self::Output(wrong) => write!(f, "error: cannot write the answers: {wrong}"),
            Self::Store(wrong) => write!(f, "error: the store does not answer: {wrong}"),
        }
    }
}

impl std::error::Error for SimError {}

impl From<StoreError> for SimError {
    fn from(wrong: StoreError) -> Self {
        Self::Store(wrong)
    }
}

/// Whom a step was about, kept for a refund that names the step.
#[derive(PartialEq, Eq, Hash)]
struct Caller {
    policy: Name,
    key: Option<Box<str>>,
    keys: Box<[(Box<str>, Box<str>)]>,
}

/// What can become of an earlier step.
enum Past {
    /// It asked for nothing that could be given back.
    NoAcquire,
    /// It took nothing, or has been given back.
    Nothing(Rc<Caller>),
    /// It took `cost` in every limit of its policy; the tokens begin at `tokens`.
    Taken { caller: Rc<Caller>, cost: u64, tokens: usize },
}

/// What a step is about, looked up.
struct Subject<'p, 'a> {
    policy: &'p Policy,
    call: Call<'a>,
}

/// What a step came to: its answer, or what is wrong with its line.
type Outcome<T> = Result<Result<T, Vec<Flaw>>, SimError>;

impl<'c, S: Store> Simulation<'c, S> {
    /// A run over the policies of `config`. `policy` is for lines that name none; the default is the file's
    /// only one. `stores` are those that the configuration names, and all read `clock`.
    #[must_use]
    pub fn new(
        config: &'c Config,
        policy: Option<&'c Policy>,
        stores: &'c [(Name, S)],
        clock: ManualClock,
    ) -> Self {
        let only = match &config.policies[..] {
            [only] => Some(only),
            _ => None,
        };
        Self {
            config,
            policy: policy.or(only),
            stores,
            clock,
            callers: HashSet::new(),
            past: Vec::new(),
            tokens: Vec::new(),
        }
    }

    /// Decides every line of `input` and writes one answer per step to `output`, which is flushed at the end,
    /// also before a wrong line is reported.
    ///
    /// # Errors
    /// At the first wrong line, and when input, output or store fail.
    pub async fn run(&mut self, input: impl BufRead, mut output: impl Write) -> Result<(), SimError> {
        let mut lines = Lines::new(input);
        let ended = self.decide_lines(&mut lines, &mut output).await;
        output.flush().map_err(SimError::Output)?;
        ended
    }

    async fn decide_lines(
        &mut self,
        lines: &mut Lines<impl BufRead>,
        output: &mut impl Write,
    ) -> Result<(), SimError> {
        while lines.advance().map_err(SimError::Input)?.map_err(SimError::Wrong)? {
            let answered = match Step::parse(lines.current()) {
                Ok(step) => self.step(&step, output).await?,
                Err(flaws) => Err(flaws),
            };
            if let Err(flaws) = answered {
                return Err(SimError::Wrong(lines.wrong(flaws)));
            }
        }
        Ok(())
    }

    /// Decides one step and writes its answer.
    async fn step(&mut self, step: &Step<'_>, output: &mut impl Write) -> Outcome<()> {
        self.clock.set(step.at);
        if let Op::Refund(of) = step.op {
            return self.give_back(of, step, output).await;
        }
        let policy = match self.policy_of(step) {
            Ok(policy) => policy,
            Err(flaw) => return Ok(Err(vec![flaw])),
        };
        let keys = borrowed(&step.keys);
        let call = Call { key: step.key.as_deref(), keys: &keys, cost: step.cost };
        if policy.limits().is_empty() {
            let message =
                format!("policy `{}` has an action and no limits: there is nothing to decide", policy.name());
            return Ok(Err(vec![step.places.flaw("policy", message, None)]));
        }
        let asked = match limits_asked(policy, &call, Which::All) {
            Ok(asked) => asked,
            Err(wrong) => return Ok(Err(vec![call_flaw(&step.places, &wrong)])),
        };
        let checks = checks(&asked);
        let store = self.store_of(policy);
        let mut past = Past::NoAcquire;
        let decision = match step.op {
            Op::Acquire => {
                let decision = store.decide(&checks, Ask::Acquire).await?;
                past = self.remember(&Subject { policy, call }, &decision);
                decision
            }
            Op::Peek => store.decide(&checks, Ask::Peek).await?,
            Op::Reset => {
                let forgotten = match limits_asked(policy, &call, Which::Reset) {
                    Ok(forgotten) => forgotten,
                    Err(wrong) => return Ok(Err(vec![call_flaw(&step.places, &wrong)])),
                };
                store.reset(&self::checks(&forgotten)).await?;
                look(store, &checks).await?
            }
            Op::Credit | Op::Refund(_) => {
                store.credit(&checks).await?;
                look(store, &checks).await?
            }
        };
        self.past.push(past);
        print(output, step.at, &checks, &decision)
    }

    /// A refund that names its step: policy, keys and cost are that step's.
    async fn give_back(&mut self, of: u64, step: &Step<'_>, output: &mut impl Write) -> Outcome<()> {
        let number = self.past.len();
        let wrong = |why: String| {
            let hint = "`of` is the number of a step, from 0; empty lines are not counted".to_owned();
            Ok(Err(vec![step.places.flaw("of", why, Some(hint))]))
        };
        let Some(index) = usize::try_from(of).ok().filter(|index| *index < number) else {
            return wrong(format!("`of` names step {of}, but this line is step {number}"));
        };
        let (caller, taken) = match &self.past[index] {
            Past::NoAcquire => return wrong(format!("`of` names step {of}, which is no `acquire`")),
            Past::Nothing(caller) => (Rc::clone(caller), None),
            Past::Taken { caller, cost, tokens } => (Rc::clone(caller), Some((*cost, *tokens))),
        };
        let Some(policy) = self.config.policy(caller.policy.as_str()) else {
            return wrong(format!("`of` names step {of}, whose policy is gone"));
        };
        let keys: Vec<(&str, &str)> = caller.keys.iter().map(|(name, key)| (&**name, &**key)).collect();
        let cost = taken.map_or(0, |(cost, _)| cost);
        let call = Call { key: caller.key.as_deref(), keys: &keys, cost };
        let asked = match limits_asked(policy, &call, Which::All) {
            Ok(asked) => asked,
            Err(wrong) => return Ok(Err(vec![call_flaw(&step.places, &wrong)])),
        };
        let checks = checks(&asked);
        let store = self.store_of(policy);
        if let Some((_, first)) = taken {
            let admitted: Vec<(Check<'_>, Token)> =
                checks.iter().copied().zip(self.tokens[first..].iter().copied()).collect();
            store.refund(&admitted).await?;
            self.past[index] = Past::Nothing(Rc::clone(&caller));
        }
        self.past.push(Past::NoAcquire);
        let decision = look(store, &checks).await?;
        print(output, step.at, &checks, &decision)
    }

    fn policy_of(&self, step: &Step<'_>) -> Result<&'c Policy, Flaw> {
        let names = || self.config.policies.iter().map(|policy| policy.name().as_str());
        match &step.policy {
            Some(name) if self.config.is_from_flags() => {
                let hint = "`--limit` has no policies: leave `policy` out".to_owned();
                Err(step.places.flaw("policy", format!("unknown policy {}", quoted(name)), Some(hint)))
            }
            Some(name) => self.config.policy(name).ok_or_else(|| {
                let hint = match nearest(name, names()) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => file_has(names()),
                };
                step.places.flaw("policy", format!("unknown policy {}", quoted(name)), Some(hint))
            }),
            None => self.policy.ok_or_else(|| {
                let (message, hint) = match self.config.policies.len() {
                    0 => (
                        "no policy is named, and the file has none".to_owned(),
                        "add one to the file".to_owned(),
                    ),
                    n => (
                        format!("no policy is named, and there are {n}"),
                        format!(
                            "add `\"policy\":\"…\"` to the line, or give `--policy`: {}",
                            file_has(names())
                        ),
                    ),
                };
                step.places.flaw("policy", message, Some(hint))
            }),
        }
    }

    fn store_of(&self, policy: &Policy) -> &'c S {
        let named = self.stores.iter().find(|(name, _)| name == policy.store());
        // The configuration is refused if a policy names a store that it does not have.
        let (_, store) = named.or_else(|| self.stores.first()).expect("every configuration has a store");
        store
    }

    /// Keeps what a refund of this step needs.
    fn remember(&mut self, subject: &Subject<'_, '_>, decision: &Decision) -> Past {
        let caller = self.caller(subject);
        let tokens = self.tokens.len();
        self.tokens.extend(decision.limits().iter().filter_map(|verdict| verdict.token()));
        if !decision.allowed || self.tokens.len() - tokens != decision.limits().len() {
            self.tokens.truncate(tokens); // Refused, or of cost 0: nothing was taken.
            return Past::Nothing(caller);
        }
        Past::Taken { caller, cost: subject.call.cost, tokens }
    }

    fn caller(&mut self, subject: &Subject<'_, '_>) -> Rc<Caller> {
        let keys = subject.call.keys.iter().map(|(name, key)| ((*name).into(), (*key).into()));
        let caller = Caller {
            policy: subject.policy.name().clone(),
            key: subject.call.key.map(Into::into),
            keys: keys.collect(),
        };
        if let Some(known) = self.callers.get(&caller) {
            return Rc::clone(known);
        }
        let caller = Rc::new(caller);
        self.callers.insert(Rc::clone(&caller));
        caller
    }
}

/// What a look of cost 0 sees.
async fn look<S: Store>(store: &S, checks: &[Check<'_>]) -> Result<Decision, StoreError> {
    let free: Vec<Check<'_>> = checks.iter().map(|check| Check { cost: 0, ..*check }).collect();
    store.decide(&free, Ask::Peek).await
}

fn print(output: &mut impl Write, at: Micros, checks: &[Check<'_>], decision: &Decision) -> Outcome<()> {
    report::write_line(output, at, checks, decision).map_err(SimError::Output)?;
    Ok(Ok(()))
}

fn borrowed<'s>(keys: &'s [(Cow<'_, str>, Cow<'_, str>)]) -> Vec<(&'s str, &'s str)> {
    keys.iter().map(|(name, key)| (name.as_ref(), key.as_ref())).collect()
}

/// What a call asks of a policy's own limits: modes, actions and overrides are not looked at.
fn limits_asked<'a>(policy: &'a Policy, call: &Call<'a>, which: Which) -> Result<Applied<'a>, CallError> {
    let mut applied = policy.named(call, which)?;
    applied.does = Does::Limits(policy.limits());
    Ok(applied)
}

fn checks<'a>(asked: &'a Applied<'_>) -> Vec<Check<'a>> {
    asked.checks().map(|(_, check)| check).collect()
}

/// What is wrong with a call, at its place in the object it came from.
#[must_use]
pub fn call_flaw(places: &Places<'_>, wrong: &CallError) -> Flaw {
    let message = wrong.to_string();
    if let CallError::UnknownLimit { name, .. } = wrong {
        return places.flaw_within("keys", name, message, None);
    }
    match wrong.field().split_once('/') {
        Some((field, limit)) => places.flaw_within(field, limit, message, None),
        None => places.flaw(&wrong.field(), message, None),
    }
}

#[cfg(test)]
mod tests;
