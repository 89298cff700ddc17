//! Which policies apply to a request, by which keys, at which cost, and what each of them does.

use core::fmt;
use core::ops::Deref;
use std::collections::HashMap;

use ratekeeper_core::{Check, Key, MAX_KEY_BYTES, MAX_LIMITS, Name};
use smallvec::SmallVec;

use crate::client_ip::ClientIp;
use crate::few::Few;
use crate::found::FoundKey;
use crate::index::Index;
use crate::key::KeySpec;
use crate::matcher::Match;
use crate::named::Which;
use crate::options::{Action, CostSpec, MissingKey, Mode};
use crate::overrides::Act;
use crate::policy::{Call, CallError, Policy, PolicyLimit};
use crate::request::Request;

/// The policies of a file, in its order, and how those that apply to a request are found.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    list: Vec<Policy>,
    by_name: HashMap<Box<str>, usize>,
    index: Index,
    /// For each policy the ones that it replaces.
    replaced: Vec<Vec<usize>>,
    client_ip: ClientIp,
}

impl Deref for Policies {
    type Target = [Policy];

    fn deref(&self) -> &[Policy] {
        &self.list
    }
}

impl<'p> IntoIterator for &'p Policies {
    type Item = &'p Policy;
    type IntoIter = core::slice::Iter<'p, Policy>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

/// What is done with a request by the policies that apply to it.
#[derive(Clone, Debug, Default)]
pub struct Plan<'a> {
    applied: Few<Applied<'a>>,
}

/// A policy that applies to a request.
#[derive(Clone, Debug)]
pub struct Applied<'a> {
    /// Where it is in the file.
    pub policy: usize,
    /// Whether it is enforced; never [`Mode::Off`].
    pub mode: Mode,
    /// What it does.
    pub does: Does<'a>,
    /// Which of its overrides says so, by its place among them.
    pub by_override: Option<usize>,
    /// Which exception says so instead, as [`Exceptions::find`] numbers them.
    pub by_exception: Option<usize>,
    /// What the request costs by it.
    pub cost: u64,
    /// By the policy's key, if it has been found.
    pub(crate) key: Option<FoundKey<'a>>,
    /// Limits that do not count by it.
    pub(crate) own: Few<(usize, FoundKey<'a>)>,
    /// Which limits take part: a bit for each.
    pub(crate) taking_part: u16,
}

/// What is different for single keys for a while, beside the file: it goes before its overrides.
pub trait Exceptions {
    /// What holds for a key of policy number `policy` now, with a number to find it again by; None if the file does.
    fn find(&self, policy: usize, key: &Key<'_>) -> Option<(usize, &Act)>;
}

/// Nothing is different.
impl Exceptions for () {
    fn find(&self, _: usize, _: &Key<'_>) -> Option<(usize, &Act)> {
        None
    }
}

/// What a policy does with a request.
#[derive(Clone, Copy, Debug)]
pub enum Does<'a> {
    /// Its limits decide.
    Limits(&'a [PolicyLimit]),
    /// No limit is asked.
    Action(Action),
}

impl Act {
    /// What this does.
    #[must_use]
    pub fn does(&self) -> Does<'_> {
        match self {
            Self::Action(action) => Does::Action(*action),
            Self::Limits(limits) => Does::Limits(limits),
        }
    }
}

impl<'a> Plan<'a> {
    /// The policies in the order of the file.
    #[must_use]
    pub fn applied(&self) -> &[Applied<'a>] {
        &self.applied
    }

    /// The policies alone.
    pub(crate) fn into_applied(self) -> Few<Applied<'a>> {
        self.applied
    }
}

impl<'a> Applied<'a> {
    /// Policy number `index` before its key and its limits are looked at.
    pub(crate) fn of(index: usize, policy: &'a Policy, cost: u64) -> Self {
        Self {
            policy: index,
            mode: policy.options().mode,
            does: Does::Limits(policy.limits()),
            by_override: None,
            by_exception: None,
            cost,
            key: None,
            own: Few::default(),
            taking_part: 0,
        }
    }

    /// Says what is done, now that the key is known: an exception goes before the overrides of the file, the first of
    /// those before what the policy does else.
    pub fn decide(&mut self, policy: &'a Policy, exceptions: &'a impl Exceptions) {
        let key = self.key.as_ref();
        (self.by_override, self.by_exception) = (None, None);
        if let Some((number, act)) = key.and_then(|key| exceptions.find(self.policy, &key.key())) {
            (self.does, self.by_exception) = (act.does(), Some(number));
        } else if let Some((place, over)) = key.and_then(|key| policy.overrides().find(key)) {
            (self.does, self.by_override) = (over.act().does(), Some(place));
        } else {
            let limits = || Does::Limits(policy.limits());
            self.does = policy.options().action.map_or_else(limits, Does::Action);
        }
    }

    /// The questions of its limits in their order, by their place in the policy. None if no limit is asked.
    pub fn checks<'s>(&'s self) -> impl Iterator<Item = (usize, Check<'s>)> + use<'s, 'a> {
        let limits = if let Does::Limits(limits) = self.does { limits } else { &[] };
        let taking_part = move |index: &usize| self.taking_part >> index & 1 == 1;
        limits.iter().enumerate().filter(move |(index, _)| taking_part(index)).filter_map(
            move |(index, limit)| {
                let own = self.own.iter().find(|(limit, _)| *limit == index).map(|(_, key)| key);
                let key = own.or(self.key.as_ref())?;
                Some((index, Check { limit: &limit.named, key: key.key(), cost: self.cost }))
            },
        )
    }

    /// Whether the limit at this place in the policy is asked.
    #[must_use]
    pub const fn takes_part(&self, place: usize) -> bool {
        place < MAX_LIMITS && self.taking_part >> place & 1 == 1
    }

    /// How many limits are asked.
    #[must_use]
    pub fn limit_count(&self) -> usize {
        match self.does {
            Does::Limits(_) => self.taking_part.count_ones() as usize,
            Does::Action(_) => 0,
        }
    }

    /// The key of the limits that have none of their own, if it was found.
    #[must_use]
    pub fn key(&self) -> Option<Key<'_>> {
        self.key.as_ref().map(FoundKey::key)
    }
}

/// Why a request cannot be decided.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PlanError {
    /// A policy with `missing_key: reject` finds no key.
    MissingKey {
        /// The policy.
        policy: Name,
        /// The key as the file says it.
        key: String,
    },
    /// The header that says the cost says no whole number from 1 to `max`.
    Cost {
        /// The policy.
        policy: Name,
        /// The header.
        header: Box<str>,
        /// The largest cost.
        max: u64,
    },
    /// The values of a key are longer than [`MAX_KEY_BYTES`] together.
    KeyTooLong {
        /// The policy.
        policy: Name,
    },
    /// More than [`MAX_LIMITS`] limits meet.
    TooManyLimits {
        /// Whose they are.
        policies: Vec<Name>,
    },
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MissingKey { policy, key } => {
                write!(f, "policy `{policy}` needs its key, and nothing of {key} is there")
            }
            Self::Cost { policy, header, max } => {
                write!(f, "`{header}`, the cost of policy `{policy}`, is a whole number from 1 to {max}")
            }
            Self::KeyTooLong { policy } => {
                write!(f, "the key of policy `{policy}` is longer than {MAX_KEY_BYTES} bytes")
            }
            Self::TooManyLimits { policies } => {
                let names: Vec<String> = policies.iter().map(|name| format!("`{name}`")).collect();
                write!(f, "more than {MAX_LIMITS} limits meet: those of {}", names.join(", "))
            }
        }
    }
}

impl core::error::Error for PlanError {}

impl Policies {
    /// The policies of a file. Names are unique, and those of `replaces` exist.
    pub(crate) fn new(list: Vec<Policy>, client_ip: ClientIp) -> Self {
        let names = list.iter().enumerate().map(|(index, policy)| (policy.name().as_str().into(), index));
        let by_name: HashMap<Box<str>, usize> = names.collect();
        let replaced = |policy: &Policy| {
            let names = policy.options().replaces.iter();
            names.filter_map(|name| by_name.get(name.as_str()).copied()).collect()
        };
        let replaced = list.iter().map(replaced).collect();
        let index = Index::new(list.iter().map(|policy| policy.matches().unwrap_or_else(|| Match::any())));
        Self { by_name, replaced, index, client_ip, list }
    }

    /// Where the policy of this name is.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// How clients' addresses are found.
    #[must_use]
    pub const fn client_ip(&self) -> &ClientIp {
        &self.client_ip
    }

    /// The policies that apply to a request: those whose match fits, without those that are off, that another of
    /// their group goes before, that another replaces, or that find no key and skip it. `cost` is what whoever
    /// asks says; without it each policy says itself.
    ///
    /// A policy in shadow mode takes the place of no other: it shows what it would do, and no more.
    ///
    /// # Errors
    /// What the request lacks, if a policy insists on it, or too many limits.
    pub fn plan<'a>(&'a self, request: &'a Request<'_>, cost: Option<u64>) -> Result<Plan<'a>, PlanError> {
        self.plan_except(request, cost, &())
    }

    /// The same where `exceptions` hold beside the file.
    ///
    /// # Errors
    /// As for [`Policies::plan`].
    pub fn plan_except<'a>(
        &'a self,
        request: &'a Request<'_>,
        cost: Option<u64>,
        exceptions: &'a impl Exceptions,
    ) -> Result<Plan<'a>, PlanError> {
        let mut plan = Plan::default();
        // What insists on something that is not there is an error only if nothing takes its place.
        let mut wrong: Vec<(usize, PlanError)> = Vec::new();
        let mut replaced: SmallVec<[usize; 4]> = SmallVec::new();
        let mut has_groups = false;
        for index in self.index.candidates(&request.seen) {
            let Some(policy) = self.list.get(index) else { continue };
            let options = policy.options();
            if options.mode == Mode::Off
                || policy.matches().is_some_and(|fits| fits.fits(&request.seen).is_err())
            {
                continue;
            }
            let is_enforced = options.mode == Mode::Enforce;
            match self.apply(index, policy, (request, cost), exceptions) {
                Ok(Some(applied)) => plan.applied.push(applied),
                Err(error) if is_enforced => wrong.push((index, error)),
                // What only shows itself never makes a request bad input.
                Ok(None) | Err(_) => continue,
            }
            if is_enforced {
                replaced.extend_from_slice(self.replaced_by(index));
            }
            has_groups |= options.group.is_some();
        }
        if !replaced.is_empty() {
            plan.applied.retain(|applied| !replaced.contains(&applied.policy));
            wrong.retain(|(index, _)| !replaced.contains(index));
        }
        if has_groups {
            self.keep_firsts(&mut plan, &mut wrong);
        }
        if let Some((_, error)) = wrong.into_iter().next() {
            return Err(error);
        }
        self.check_bound(plan.applied.iter())?;
        Ok(plan)
    }

    /// Keeps of each group the first that is enforced, and what shows itself before it.
    fn keep_firsts(&self, plan: &mut Plan<'_>, wrong: &mut Vec<(usize, PlanError)>) {
        let mut firsts: SmallVec<[(&Name, usize); 4]> = SmallVec::new();
        let group = |index: usize| self.list.get(index).and_then(|policy| policy.options().group.as_ref());
        let enforced = plan.applied.iter().filter(|applied| applied.mode == Mode::Enforce);
        for index in enforced.map(|applied| applied.policy).chain(wrong.iter().map(|(index, _)| *index)) {
            let Some(group) = group(index) else { continue };
            match firsts.iter_mut().find(|(other, _)| *other == group) {
                Some((_, first)) => *first = index.min(*first),
                None => firsts.push((group, index)),
            }
        }
        let stays = |index: usize| {
            let first = group(index).and_then(|group| firsts.iter().find(|(other, _)| *other == group));
            first.is_none_or(|(_, first)| index <= *first)
        };
        plan.applied.retain(|applied| stays(applied.policy));
        wrong.retain(|(index, _)| stays(*index));
    }

    /// Whether the limits that are enforced are few enough for one decision.
    pub(crate) fn check_bound<'p, 'a: 'p>(
        &self,
        applied: impl Iterator<Item = &'p Applied<'a>> + Clone,
    ) -> Result<(), PlanError> {
        let enforced = || applied.clone().filter(|applied| applied.mode == Mode::Enforce);
        if enforced().map(Applied::limit_count).sum::<usize>() <= MAX_LIMITS {
            return Ok(());
        }
        let names = enforced().filter_map(|applied| Some(self.list.get(applied.policy)?.name().clone()));
        Err(PlanError::TooManyLimits { policies: names.collect() })
    }

    /// The policies that policy number `index` takes the place of.
    pub(crate) fn replaced_by(&self, index: usize) -> &[usize] {
        self.replaced.get(index).map(Vec::as_slice).unwrap_or_default()
    }

    /// What a policy whose match fits does with a request; None if none of its limits finds its key, or, where it has
    /// an action, it finds no key and skips those without.
    pub(crate) fn apply<'a>(
        &'a self,
        index: usize,
        policy: &'a Policy,
        (request, cost): (&'a Request<'_>, Option<u64>),
        exceptions: &'a impl Exceptions,
    ) -> Result<Option<Applied<'a>>, PlanError> {
        let finder = Finder { policy, request };
        let key = match policy.key() {
            Some(spec) => finder.key(spec)?,
            None => None,
        };
        if key.is_none() && policy.key().is_some() && policy.options().action.is_some() {
            return Ok(None);
        }
        let mut applied = Applied::of(index, policy, 1);
        applied.key = key;
        applied.decide(policy, exceptions);
        // No limit is asked then, so nothing that only limits need is looked for.
        if matches!(applied.does, Does::Action(_)) {
            return Ok(Some(applied));
        }
        for (place, limit) in policy.limits().iter().enumerate() {
            let takes_part = match &limit.key {
                None => applied.key.is_some(),
                Some(spec) => match finder.key(spec)? {
                    Some(key) => {
                        applied.own.push((place, key));
                        true
                    }
                    None => false,
                },
            };
            applied.taking_part |= u16::from(takes_part) << place;
        }
        if applied.taking_part == 0 {
            return Ok(None);
        }
        applied.cost = match cost {
            Some(cost) => cost,
            None => finder.cost()?,
        };
        Ok(Some(applied))
    }

    /// What policy number `index` does with a request whose caller names it; nothing if it is off. What it
    /// matches, its group and what it replaces are not looked at: the caller has chosen.
    ///
    /// # Errors
    /// As for [`Policy::named`].
    pub fn named<'a>(&'a self, index: usize, call: &Call<'a>) -> Result<Plan<'a>, CallError> {
        self.named_except(index, call, &())
    }

    /// The same where `exceptions` hold beside the file.
    ///
    /// # Errors
    /// As for [`Policy::named`].
    pub fn named_except<'a>(
        &'a self,
        index: usize,
        call: &Call<'a>,
        exceptions: &'a impl Exceptions,
    ) -> Result<Plan<'a>, CallError> {
        let mut plan = Plan::default();
        if let Some(policy) = self.list.get(index) {
            let mut applied = Applied { policy: index, ..policy.named(call, Which::All)? };
            if applied.mode != Mode::Off {
                applied.decide(policy, exceptions);
                plan.applied.push(applied);
            }
        }
        Ok(plan)
    }
}

/// Looks for the keys of a policy in a request.
struct Finder<'a, 'r> {
    policy: &'a Policy,
    request: &'a Request<'r>,
}

impl<'a> Finder<'a, '_> {
    /// A key, or what the policy has for those without one.
    fn key(&self, spec: &'a KeySpec) -> Result<Option<FoundKey<'a>>, PlanError> {
        let name = || self.policy.name().clone();
        match (spec.find(self.request, self.policy.matches()), self.policy.options().missing_key) {
            (Some(key), _) if key.is_too_long() => Err(PlanError::KeyTooLong { policy: name() }),
            (Some(key), _) => Ok(Some(key)),
            (None, MissingKey::Skip) => Ok(None),
            (None, MissingKey::Shared) => Ok(Some(FoundKey::missing())),
            (None, MissingKey::Reject) => {
                Err(PlanError::MissingKey { policy: name(), key: spec.to_string() })
            }
        }
    }

    /// What the request costs that says so itself, or not.
    fn cost(&self) -> Result<u64, PlanError> {
        let (name, default, max) = match &self.policy.options().cost {
            CostSpec::Constant(cost) => return Ok(*cost),
            CostSpec::Header { name, default, max } => (name, *default, *max),
        };
        let mut lines = self.request.seen.facts().header_lines(name);
        let Some(line) = lines.next() else { return Ok(default) };
        // Of two lines nobody knows which one is meant, so neither is.
        let line = if lines.next().is_none() { line } else { b"" };
        let digits =
            str::from_utf8(line.trim_ascii()).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        let cost = digits.and_then(|digits| digits.parse().ok()).filter(|cost| (1..=max).contains(cost));
        cost.ok_or_else(|| PlanError::Cost { policy: self.policy.name().clone(), header: name.clone(), max })
    }
}
