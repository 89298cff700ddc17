//! Overrides: what is different for some keys of a policy.

use core::net::IpAddr;
use std::collections::HashMap;

use ratekeeper_core::{Align, Limit, Name, NamedLimit, Part, Rate, parse_duration};

use crate::client_ip::Network;
use crate::fault::{Fault, code};
use crate::found::FoundKey;
use crate::glob::Glob;
use crate::limit::{limit_fault, window_fault};
use crate::options::{Action, OnExcess, Options};
use crate::policy::{Policy, PolicyLimit};

/// What is different for some keys of a policy.
#[derive(Clone, Debug)]
pub struct Override {
    key: OverrideKey,
    text: Box<str>,
    act: Act,
    line: usize,
}

/// What is done with a request.
#[derive(Clone, Debug)]
pub enum Act {
    /// It is done without asking any limit.
    Action(Action),
    /// These limits decide: all limits of the policy, some of them with other numbers.
    Limits(Vec<PolicyLimit>),
}

/// Which keys are meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OverrideKey {
    /// Values of this alternative.
    pub(crate) alternative: usize,
    /// One for each part of the alternative.
    pub(crate) parts: Vec<KeyPattern>,
}

/// Which values of a part are meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum KeyPattern {
    Text(Glob),
    Address(Network),
}

impl Override {
    pub(crate) const fn new(key: OverrideKey, text: Box<str>, act: Act, line: usize) -> Self {
        Self { key, text, act, line }
    }

    /// Whether every request has to be held against it: it begins with `*`, or is of several parts.
    pub(crate) fn is_unindexed(&self) -> bool {
        match self.key.parts.as_slice() {
            [KeyPattern::Text(glob)] => !glob.is_exact() && glob.literal_prefix().is_empty(),
            [KeyPattern::Address(_)] => false,
            _ => true,
        }
    }

    /// What is done with the requests of these keys.
    #[must_use]
    pub const fn act(&self) -> &Act {
        &self.act
    }

    /// The keys as the file says them.
    #[must_use]
    pub const fn text(&self) -> &str {
        &self.text
    }

    /// The line of the file, from 1.
    #[must_use]
    pub const fn line(&self) -> usize {
        self.line
    }
}

impl OverrideKey {
    /// Whether a key that was found is meant.
    fn fits(&self, key: &FoundKey<'_>) -> bool {
        self.alternative == key.alternative
            && self.parts.len() == key.values().len()
            && self.parts.iter().zip(key.values()).all(|(pattern, value)| pattern.fits(value, key.address))
    }
}

impl KeyPattern {
    /// Whether a value is meant. An address is looked at whole: a key holds only its network.
    fn fits(&self, value: &Part<'_>, address: Option<IpAddr>) -> bool {
        match (self, value) {
            (Self::Text(glob), Part::Bytes(bytes)) => glob.matches(bytes),
            (Self::Address(network), Part::Address(_)) => {
                address.is_some_and(|address| network.contains(address))
            }
            _ => false,
        }
    }
}

/// The overrides of a policy, the first that fits a key to be found without asking all.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    list: Vec<Override>,
    /// By the whole value.
    exact: ByText,
    /// By what a value begins with, for each length of that.
    prefixes: Vec<(usize, ByText)>,
    /// By the network, for each length of its prefix.
    networks: Vec<(NetworkKind, HashMap<u128, Vec<usize>>)>,
    /// Those of keys of several parts.
    compound: Vec<usize>,
}

/// Overrides by what a value is, or begins with.
type ByText = HashMap<Box<[u8]>, Vec<usize>>;

/// Networks that differ in their bits alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct NetworkKind {
    is_v6: bool,
    prefix_len: u8,
}

impl NetworkKind {
    /// The bits of the network of this kind that an address is in.
    fn bits_of(self, address: IpAddr) -> Option<u128> {
        let cut = |bits: u128, width: u32| {
            let host = width.saturating_sub(u32::from(self.prefix_len));
            bits.checked_shr(host).unwrap_or(0)
        };
        match address {
            IpAddr::V4(v4) if !self.is_v6 => Some(cut(u128::from(v4.to_bits()), 32)),
            IpAddr::V6(v6) if self.is_v6 => Some(cut(v6.to_bits(), 128)),
            _ => None,
        }
    }
}

impl Overrides {
    pub(crate) fn new(list: Vec<Override>) -> Self {
        let mut overrides = Self::default();
        for (index, item) in list.iter().enumerate() {
            overrides.place(index, &item.key);
        }
        overrides.list = list;
        overrides
    }

    fn place(&mut self, index: usize, key: &OverrideKey) {
        match key.parts.as_slice() {
            [KeyPattern::Text(glob)] if glob.is_exact() => {
                self.exact.entry(glob.literal_prefix().as_bytes().into()).or_default().push(index);
            }
            [KeyPattern::Text(glob)] => {
                let prefix = glob.literal_prefix().as_bytes();
                let at = position_or_push(&mut self.prefixes, &prefix.len());
                self.prefixes[at].1.entry(prefix.into()).or_default().push(index);
            }
            [KeyPattern::Address(network)] => {
                let address = network.address();
                let kind = NetworkKind { is_v6: address.is_ipv6(), prefix_len: network.prefix_len() };
                let at = position_or_push(&mut self.networks, &kind);
                let bits = kind.bits_of(address).unwrap_or_default();
                self.networks[at].1.entry(bits).or_default().push(index);
            }
            _ => self.compound.push(index),
        }
    }

    /// The overrides in the order of the file.
    #[must_use]
    pub fn as_slice(&self) -> &[Override] {
        &self.list
    }

    /// The first override that a key is meant by, and its place in [`Overrides::as_slice`].
    pub(crate) fn find(&self, key: &FoundKey<'_>) -> Option<(usize, &Override)> {
        if self.list.is_empty() || !key.has_value() {
            return None;
        }
        let mut first: Option<usize> = None;
        let mut look = |indexes: &[usize]| {
            for index in indexes {
                if first.is_some_and(|first| first <= *index) {
                    return;
                }
                if self.list.get(*index).is_some_and(|item| item.key.fits(key)) {
                    first = Some(*index);
                }
            }
        };
        match key.values() {
            [Part::Bytes(value)] => {
                if let Some(indexes) = self.exact.get(&**value) {
                    look(indexes);
                }
                for (length, by_prefix) in &self.prefixes {
                    if let Some(indexes) = value.get(..*length).and_then(|prefix| by_prefix.get(prefix)) {
                        look(indexes);
                    }
                }
            }
            [Part::Address(_)] => {
                for (kind, by_bits) in &self.networks {
                    let bits = key.address.and_then(|address| kind.bits_of(address));
                    if let Some(indexes) = bits.and_then(|bits| by_bits.get(&bits)) {
                        look(indexes);
                    }
                }
            }
            _ => look(&self.compound),
        }
        first.and_then(|index| Some((index, self.list.get(index)?)))
    }
}

/// Where the entry of a key is, made if there is none.
fn position_or_push<K: PartialEq + Copy, V: Default>(list: &mut Vec<(K, V)>, key: &K) -> usize {
    list.iter().position(|(other, _)| other == key).unwrap_or_else(|| {
        list.push((*key, V::default()));
        list.len() - 1
    })
}

/// Other numbers for a limit: what is not said stays as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Numbers<'a> {
    /// `30/s`.
    pub limit: Option<&'a str>,
    /// Units.
    pub burst: Option<u64>,
    /// Units.
    pub queue: Option<u64>,
    /// `5s`.
    pub max_wait: Option<&'a str>,
}

impl Numbers<'_> {
    /// A limit with these numbers, on a store that counts windows of `min_window_us` or more. Algorithm, key and alignment stay, and so do the counts: they are kept under
    /// the name of the limit.
    ///
    /// # Errors
    /// What is wrong with the numbers, and at which of them.
    pub(crate) fn of(
        &self,
        policy: &Name,
        base: &PolicyLimit,
        min_window_us: u64,
    ) -> Result<PolicyLimit, (&'static str, Fault)> {
        let mut spec = base.named.limit().spec();
        if let Some(text) = self.limit {
            let rate = Rate::parse(text).map_err(|wrong| ("limit", limit_fault(wrong)))?;
            if let Align::Calendar(period) = spec.align
                && rate.period != Some(period)
            {
                let message = "the windows of a calendar keep their length: only how many can change";
                let fault = Fault::new(code::CALENDAR_WINDOW, message);
                return Err(("limit", fault.hint("write the same unit as the limit has")));
            }
            if let Some(fault) = window_fault(rate.window_us, min_window_us) {
                return Err(("limit", fault));
            }
            spec.amount = rate.amount;
            spec.window_us = rate.window_us;
        }
        for (field, is_said) in [("queue", self.queue.is_some()), ("max_wait", self.max_wait.is_some())] {
            // A limit that refuses would begin to delay, and what is checked of queues is checked of the limits.
            if is_said && spec.queue.is_none() {
                let fault =
                    Fault::new(code::OPTION_NEEDS, format!("`{field}` is of limits that have a `queue`"));
                return Err((field, fault.hint("leave it out, or give the limit a `queue`")));
            }
        }
        spec.burst = self.burst.or(spec.burst);
        spec.queue = self.queue.or(spec.queue);
        if let Some(text) = self.max_wait {
            spec.max_wait_us = Some(parse_duration(text).map_err(|wrong| ("max_wait", limit_fault(wrong)))?);
        }
        let limit: Limit = spec.build().map_err(|wrong| (wrong.field(), limit_fault(wrong)))?;
        let mut named = NamedLimit::new(policy, base.named.name().clone(), limit);
        if base.named.is_draining() {
            named = named.draining();
        }
        if let Some(calendar) = base.named.shared_calendar() {
            named = named.with_calendar(calendar.clone());
        }
        Ok(PolicyLimit { named, key: base.key.clone(), zone: base.zone.clone() })
    }
}

/// What a temporary override says, unread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Exception<'a> {
    /// Instead of the limits.
    Action(Action),
    /// Other numbers, by the names of the limits.
    Limits(&'a [(&'a str, Numbers<'a>)]),
}

/// What is wrong with an exception.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExceptionError {
    /// The policy has no limit of this name that counts by the policy's key.
    UnknownLimit(String),
    /// The numbers of this limit cannot be.
    Numbers {
        /// The limit.
        limit: String,
        /// Which of its numbers: `limit`, `burst`, `queue` or `max_wait`.
        field: &'static str,
        /// Why.
        message: String,
        /// What to write instead.
        hint: Option<String>,
    },
}

impl Policy {
    /// What an exception for one of this policy's keys comes to.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn exception(&self, exception: &Exception<'_>) -> Result<Act, Vec<ExceptionError>> {
        self.exception_upon(self.limits(), exception)
    }

    /// The same for a key that has other limits already, as by an override of the file: of those stays what is not
    /// said. `base` is [`Policy::limits`] with other numbers.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn exception_upon(
        &self,
        base: &[PolicyLimit],
        exception: &Exception<'_>,
    ) -> Result<Act, Vec<ExceptionError>> {
        let limits = match exception {
            Exception::Action(action) => return Ok(Act::Action(*action)),
            Exception::Limits(limits) => limits,
        };
        let mut wrong = Vec::new();
        let mut all = base.to_vec();
        for (name, numbers) in *limits {
            let own = |limit: &&mut PolicyLimit| limit.key.is_none() && limit.named.name().as_str() == *name;
            let Some(limit) = all.iter_mut().find(own) else {
                wrong.push(ExceptionError::UnknownLimit((*name).to_owned()));
                continue;
            };
            match numbers.of(self.name(), limit, self.min_window_us()) {
                Ok(other) => {
                    wrong.extend(self.cost_never_fits(&other, numbers));
                    *limit = other;
                }
                Err((field, fault)) => {
                    wrong.push(ExceptionError::Numbers {
                        limit: (*name).to_owned(),
                        field,
                        message: fault.message,
                        hint: fault.hint,
                    });
                }
            }
        }
        if wrong.is_empty() { Ok(Act::Limits(all)) } else { Err(wrong) }
    }

    /// That what a request costs by this policy is above what a limit ever holds, as a file may not say it either.
    fn cost_never_fits(&self, limit: &PolicyLimit, numbers: &Numbers<'_>) -> Option<ExceptionError> {
        let Options { cost, on_excess, .. } = self.options();
        let (most, capacity) = (cost.max(), limit.named.limit().capacity());
        if *on_excess == OnExcess::Drain || most <= capacity {
            return None;
        }
        let said = [(numbers.burst.is_some(), "burst"), (numbers.limit.is_some(), "limit")];
        Some(ExceptionError::Numbers {
            limit: limit.named.name().to_string(),
            field: said.iter().find(|(is_said, _)| *is_said).map_or("queue", |(_, field)| field),
            message: format!(
                "it never holds more than {capacity}, and a request costs up to {most} by the policy"
            ),
            hint: Some(format!("let it hold at least {most}")),
        })
    }
}
