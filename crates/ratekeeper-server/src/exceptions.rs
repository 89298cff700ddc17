//! Temporary overrides: what is different for single keys of a policy for a while, beside the file.
//!
//! What was said is kept for as long as it holds ([`Said`]), and outlives a reload; what it means under the
//! configuration at work ([`Compiled`]) is a part of that configuration, so that a request sees one state of both and
//! takes no lock for it. A restart forgets all.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper_core::{Key, Micros, Name, StoreError};
use ratekeeper_policy::{
    Act, Action, Applied, Call, CallError, Does, Exception, ExceptionError, KeyDoubt, KeySpec, Numbers,
    Policy, canonical,
};

use crate::live::Live;
use crate::transport::http::Texts;

/// How many hold at once: as many as a policy of the file may have. They are for single customers and for a while; with
/// all that they mean some 20 MB.
pub(crate) const MAX_EXCEPTIONS: usize = 10_000;
/// How many different limits a store must be able to meet yet when an override brings other numbers: a store forgets
/// none, and the next file needs some too.
pub(crate) const MIN_LIMITS_LEFT: usize = 4_096;
/// The shortest time that one holds: less would be over before anybody has looked.
pub(crate) const MIN_TTL: Duration = Duration::from_secs(1);
/// The longest: what is to stay belongs into the file.
pub(crate) const MAX_TTL: Duration = Duration::from_secs(30 * 86_400);

/// Whose it is: the policy, and the canonical text of the key.
pub(crate) type Which = (Name, Vec<u8>);

/// What is to be different.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    /// No limit is asked.
    Action(Action),
    /// Limits have other numbers, by their names.
    Limits(Vec<(String, OwnNumbers)>),
}

/// [`Numbers`] that outlive the text in which they were said.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct OwnNumbers {
    pub(crate) limit: Option<String>,
    pub(crate) burst: Option<u64>,
    pub(crate) queue: Option<u64>,
    pub(crate) max_wait: Option<String>,
}

impl OwnNumbers {
    fn borrowed(&self) -> Numbers<'_> {
        Numbers {
            limit: self.limit.as_deref(),
            burst: self.burst,
            queue: self.queue,
            max_wait: self.max_wait.as_deref(),
        }
    }
}

impl Wish {
    /// What it comes to for a key of a policy, as [`meant`] found it: what is not said stays as the file has it for
    /// that key.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub(crate) fn act(&self, policy: &Policy, of: &Applied<'_>) -> Result<Act, Vec<ExceptionError>> {
        match self {
            Self::Action(action) => Ok(Act::Action(*action)),
            Self::Limits(limits) => {
                let limits: Vec<_> =
                    limits.iter().map(|(name, numbers)| (name.as_str(), numbers.borrowed())).collect();
                let base = if let Does::Limits(limits) = of.does { limits } else { policy.limits() };
                policy.exception_upon(base, &Exception::Limits(&limits))
            }
        }
    }
}

/// A key of a policy that something can be different for.
///
/// # Errors
/// If the text is no key of the policy, or its key tells nobody apart.
pub(crate) fn meant<'a>(policy: &'a Policy, key: &'a str) -> Result<Applied<'a>, NoKey> {
    // Without a `key` none is found in requests: there is nothing that could be different for one.
    if policy.key().is_none_or(KeySpec::is_global) {
        return Err(NoKey::Everybody);
    }
    let call = Call { key: Some(key), keys: &[], cost: 1 };
    let applied = policy.named(&call, ratekeeper_policy::Which::Seen).map_err(NoKey::Wrong)?;
    if let Some(doubt) = policy.doubt(key) {
        return Err(NoKey::Doubtful(doubt));
    }
    if applied.key().is_some() { Ok(applied) } else { Err(NoKey::Unusable) }
}

/// Why a text is no key that something can be different for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NoKey {
    Everybody,
    Wrong(CallError),
    Doubtful(KeyDoubt),
    Unusable,
}

impl fmt::Display for NoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everybody => f.write_str("overrides are of the policy's `key`, and it tells nobody apart"),
            Self::Wrong(wrong) => wrong.fmt(f),
            Self::Doubtful(doubt) => doubt.fmt(f),
            Self::Unusable => f.write_str("this is no key of the policy"),
        }
    }
}

/// What is to be different for a key from now on.
pub(crate) struct New {
    /// The number of the policy.
    pub(crate) policy: usize,
    /// The key as it was said.
    pub(crate) key: String,
    /// Its canonical text.
    pub(crate) canonical: Vec<u8>,
    pub(crate) wish: Wish,
    /// What that comes to.
    pub(crate) act: Act,
    pub(crate) until: Micros,
}

/// Why something that is right in itself is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotTaken {
    /// There are [`MAX_EXCEPTIONS`].
    Full,
    /// The store cannot hold other limits.
    Store(StoreError),
}

/// All that was said and holds.
#[derive(Default)]
pub(crate) struct Said {
    entries: HashMap<Which, Entry>,
    /// How many have been said, to know the later one.
    made: u64,
}

/// One that holds.
pub(crate) struct Entry {
    /// The key as it was said.
    pub(crate) key: String,
    pub(crate) wish: Wish,
    pub(crate) until: Micros,
    nth: u64,
}

impl Said {
    /// How many hold.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// That of one key.
    pub(crate) fn get(&self, which: &Which) -> Option<&Entry> {
        self.entries.get(which)
    }

    /// All of them, by policy and key.
    pub(crate) fn in_order(&self) -> Vec<(&Name, &Entry)> {
        let mut all: Vec<_> = self.entries.iter().map(|((policy, _), entry)| (policy, entry)).collect();
        all.sort_by_key(|(policy, entry)| (*policy, &entry.key));
        all
    }

    /// Forgets what does not hold any more at `now`; whether there was any.
    pub(crate) fn expire(&mut self, now: Micros) -> bool {
        let before = self.entries.len();
        self.entries.retain(|_, entry| entry.until > now);
        self.entries.len() < before
    }

    /// Adds one, in place of what was said for this key before; what holds then under `live`.
    ///
    /// # Errors
    /// If there is no room for it. Then nothing has changed.
    pub(crate) fn add(&mut self, live: &Live, new: New) -> Result<Compiled, NotTaken> {
        let New { policy, key, canonical, wish, act, until } = new;
        let Some(of) = live.config().policies.get(policy) else { return Ok(live.exceptions().clone()) };
        let which = (of.name().clone(), canonical);
        if self.entries.len() >= MAX_EXCEPTIONS && !self.entries.contains_key(&which) {
            return Err(NotTaken::Full);
        }
        let has_limits = matches!(act, Act::Limits(_));
        if has_limits && live.store_of(policy).distinct_limits_left() < MIN_LIMITS_LEFT {
            return Err(NotTaken::Store(StoreError::TooManyShapes));
        }
        let item = Item::new(live, policy, act, until).map_err(NotTaken::Store)?;
        let mut compiled = live.exceptions().clone();
        compiled.set(place(policy, &which.1), item);
        self.made += 1;
        self.entries.insert(which, Entry { key, wish, until, nth: self.made });
        Ok(compiled)
    }

    /// Removes one; what holds then under `live`. None if there was none.
    pub(crate) fn remove(&mut self, live: &Live, which: &Which) -> Option<Compiled> {
        self.entries.remove(which)?;
        let mut compiled = live.exceptions().clone();
        if let Some(policy) = live.config().policy_index(which.0.as_str()) {
            compiled.remove(&place(policy, &which.1));
        }
        Some(compiled)
    }

    /// What holds under another configuration. What cannot hold there is forgotten, and told in `notes`.
    pub(crate) fn compiled_for(&mut self, next: &Live, notes: &mut Vec<String>) -> Compiled {
        let mut compiled = Compiled::default();
        let mut dropped = Dropped::default();
        let mut all: Vec<_> = std::mem::take(&mut self.entries).into_iter().collect();
        // Two keys may be one now, as when addresses are cut shorter: what was said last holds.
        all.sort_by_key(|(_, entry)| entry.nth);
        for ((name, _), entry) in all {
            match entry.compiled(next, &name) {
                Ok((policy, canonical, item)) => {
                    compiled.set(place(policy, &canonical), item);
                    self.entries.insert((name, canonical), entry);
                }
                Err(why) => dropped.add(&name, why),
            }
        }
        dropped.tell(notes);
        compiled
    }
}

impl Entry {
    fn compiled(&self, live: &Live, name: &Name) -> Result<(usize, Vec<u8>, Item), String> {
        let config = live.config();
        let found = config.policy_index(name.as_str());
        let (index, policy) = found
            .and_then(|index| Some((index, config.policies.get(index)?)))
            .ok_or_else(|| "there is no such policy any more".to_owned())?;
        let applied = meant(policy, &self.key).map_err(|wrong| wrong.to_string())?;
        let key = applied.key().ok_or_else(|| NoKey::Unusable.to_string())?;
        let act = self.wish.act(policy, &applied).map_err(|wrong| match wrong.first() {
            Some(ExceptionError::UnknownLimit(limit)) => format!("there is no limit `{limit}` of its key"),
            Some(ExceptionError::Numbers { limit, message, .. }) => format!("limit `{limit}`: {message}"),
            None => String::new(),
        })?;
        let item = Item::new(live, index, act, self.until).map_err(|wrong| wrong.to_string())?;
        Ok((index, canonical(&key), item))
    }
}

/// How many reasons are told one by one.
const MAX_NOTES: usize = 20;

/// What could not be kept, by policy and reason: keys are no affair of notes.
#[derive(Default)]
struct Dropped(Vec<(Name, String, usize)>);

impl Dropped {
    fn add(&mut self, policy: &Name, why: String) {
        let same = self.0.iter().position(|(name, reason, _)| name == policy && *reason == why);
        if same.is_none() && self.0.len() < MAX_NOTES {
            self.0.push((policy.clone(), why, 1));
            return;
        }
        // Of too many reasons the rest is counted with the last.
        let last = self.0.len().saturating_sub(1);
        if let Some((_, _, count)) = self.0.get_mut(same.unwrap_or(last)) {
            *count += 1;
        }
    }

    fn tell(self, notes: &mut Vec<String>) {
        notes.extend(self.0.into_iter().map(|(policy, why, count)| {
            let overrides = if count == 1 { "temporary override" } else { "temporary overrides" };
            format!("{count} {overrides} of policy `{policy}` ended: {why}")
        }));
    }
}

/// What holds under one configuration, found by policy and key.
#[derive(Clone, Default)]
pub(crate) struct Compiled {
    items: Vec<(Arc<[u8]>, Arc<Item>)>,
    by_place: HashMap<Arc<[u8]>, usize>,
}

/// What one comes to.
struct Item {
    act: Act,
    /// What is the same in all answers by its limits.
    texts: Option<Texts>,
    until: Micros,
}

impl Item {
    fn new(live: &Live, policy: usize, act: Act, until: Micros) -> Result<Self, StoreError> {
        let texts = match (&act, live.config().policies.get(policy)) {
            (Act::Limits(limits), Some(of)) => {
                live.hold(policy, limits)?;
                Some(Texts::new(of, limits))
            }
            _ => None,
        };
        Ok(Self { act, texts, until })
    }
}

impl Compiled {
    /// Whether nothing is different for anybody.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// What holds for a key at the time that `now` tells, and its number.
    pub(crate) fn find(
        &self,
        policy: usize,
        key: &Key<'_>,
        now: impl FnOnce() -> Micros,
    ) -> Option<(usize, &Act)> {
        let number = *self.by_place.get(place(policy, &canonical(key)).as_slice())?;
        let (_, item) = self.items.get(number)?;
        (item.until > now()).then_some((number, &item.act))
    }

    /// What is the same in all answers by the limits of that number.
    pub(crate) fn texts(&self, number: usize) -> Option<&Texts> {
        self.items.get(number)?.1.texts.as_ref()
    }

    /// Those that hold at `now`.
    pub(crate) fn alive(&self, now: Micros) -> Self {
        let items: Vec<_> = self.items.iter().filter(|(_, item)| item.until > now).cloned().collect();
        let by_place = items.iter().enumerate().map(|(number, (place, _))| (Arc::clone(place), number));
        Self { by_place: by_place.collect(), items }
    }

    fn set(&mut self, place: Vec<u8>, item: Item) {
        let item = Arc::new(item);
        match self.by_place.get(place.as_slice()).and_then(|number| self.items.get_mut(*number)) {
            Some((_, before)) => *before = item,
            None => {
                let place: Arc<[u8]> = place.into();
                self.by_place.insert(Arc::clone(&place), self.items.len());
                self.items.push((place, item));
            }
        }
    }

    fn remove(&mut self, place: &[u8]) {
        let Some(number) = self.by_place.remove(place) else { return };
        self.items.swap_remove(number);
        if let Some((moved, _)) = self.items.get(number) {
            self.by_place.insert(Arc::clone(moved), number);
        }
    }
}

/// A key of a policy as one text: the number of the policy ends at its first letter that is no digit.
fn place(policy: usize, canonical: &[u8]) -> Vec<u8> {
    let mut place = policy.to_string().into_bytes();
    place.push(b' ');
    place.extend_from_slice(canonical);
    place
}

#[cfg(test)]
mod tests;
