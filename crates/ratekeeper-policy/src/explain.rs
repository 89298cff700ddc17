//! Why a request is limited as it is: what each policy of a file makes of it, and for what reason.

use core::fmt;
use core::net::IpAddr;

use ratekeeper_core::{Name, Part};

use crate::client_ip::Walk;
use crate::found::FoundKey;
use crate::key::{Alternative, KeyPart, KeySpec};
use crate::matcher::{Match, Misfit};
use crate::options::{CostSpec, Mode};
use crate::plan::{Applied, Does, Exceptions, PlanError, Policies};
use crate::policy::{Call, CallError, Policy};
use crate::request::Request;

/// What the policies of a file make of a request.
#[derive(Clone, Debug)]
pub struct Explanation<'a> {
    /// How the client was found; None where the caller names the policy and the key.
    pub walk: Option<Walk>,
    /// Every policy of the file in its order, or the one that the caller names.
    pub policies: Vec<Explained<'a>>,
    /// Why the request cannot be decided at all: what [`Policies::plan`] answers for it.
    pub error: Option<PlanError>,
}

/// What one policy makes of a request.
#[derive(Clone, Debug)]
pub struct Explained<'a> {
    /// Where it is in the file.
    pub policy: usize,
    /// What becomes of it.
    pub fate: Fate<'a>,
}

/// Whether a policy applies to a request, and if not, why.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Fate<'a> {
    /// It applies, in its mode: [`Applied::mode`].
    Applies {
        /// What it does.
        applied: Box<Applied<'a>>,
        /// Who says what the request costs.
        cost: CostFrom<'a>,
        /// Limits that do not take part, by their place in the policy, with what of their key is not there.
        left_out: Vec<(usize, String)>,
    },
    /// It is off.
    Off,
    /// It is about other requests.
    NoMatch(Misfit<'a>),
    /// No limit of it finds its key: what is not there.
    NoKey(String),
    /// Another policy of its group goes before it.
    Grouped {
        /// The group.
        group: &'a Name,
        /// Where the other is in the file.
        by: usize,
    },
    /// Another policy takes its place.
    Replaced {
        /// Where the other is in the file.
        by: usize,
    },
    /// It insists on what the request lacks, so the request is bad input, unless the policy only shows itself.
    Wrong(PlanError),
}

/// Who says what a request costs by a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CostFrom<'a> {
    /// Whoever asks.
    Caller,
    /// The policy says it for every request.
    Policy,
    /// A header of the request.
    Header(&'a str),
    /// The policy, for requests without this header.
    Default(&'a str),
}

impl fmt::Display for CostFrom<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caller => f.write_str("as asked"),
            Self::Policy => f.write_str("by the policy"),
            Self::Header(name) => write!(f, "by header {name}"),
            Self::Default(name) => write!(f, "by default: header {name} is absent"),
        }
    }
}

impl Fate<'_> {
    /// The word of programs: `applies`, `off`, `no_match`, `no_key`, `group`, `replaced` or `error`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Applies { .. } => "applies",
            Self::Off => "off",
            Self::NoMatch(_) => "no_match",
            Self::NoKey(_) => "no_key",
            Self::Grouped { .. } => "group",
            Self::Replaced { .. } => "replaced",
            Self::Wrong(_) => "error",
        }
    }
}

impl<'a> Explanation<'a> {
    /// The policies that apply, in the order of the file: those of [`Policies::plan`], unless there is an error.
    pub fn applied(&self) -> impl Iterator<Item = &Applied<'a>> + Clone {
        self.policies.iter().filter_map(|explained| match &explained.fate {
            Fate::Applies { applied, .. } => Some(&**applied),
            _ => None,
        })
    }
}

impl Policies {
    /// Why what [`Policies::plan_except`] says of a request is so, policy by policy. It looks at all of them, and goes
    /// on where a policy makes the request bad input: what the others would do is said too.
    #[must_use]
    pub fn explain<'a>(
        &'a self,
        request: &'a Request<'_>,
        cost: Option<u64>,
        exceptions: &'a impl Exceptions,
    ) -> Explanation<'a> {
        let fate = |(index, policy)| self.fate(index, policy, (request, cost), exceptions);
        let fates = self.iter().enumerate().map(fate);
        let mut fates: Vec<Fate<'a>> = fates.collect();
        let is_enforced = |index: usize| self.get(index).is_some_and(|p| p.options().mode == Mode::Enforce);
        let is_present = |fate: &Fate<'_>| matches!(fate, Fate::Applies { .. } | Fate::Wrong(_));
        let present = (0..fates.len()).filter(|index| is_enforced(*index) && is_present(&fates[*index]));
        let replaced: Vec<(usize, usize)> =
            present.flat_map(|by| self.replaced_by(by).iter().map(move |other| (*other, by))).collect();
        for (index, by) in replaced {
            if let Some(fate) = fates.get_mut(index).filter(|fate| is_present(fate)) {
                *fate = Fate::Replaced { by };
            }
        }
        let mut firsts: Vec<(&Name, usize)> = Vec::new();
        for (index, (policy, fate)) in self.iter().zip(&mut fates).enumerate() {
            let Some(group) = policy.options().group.as_ref().filter(|_| is_present(fate)) else { continue };
            match firsts.iter().find(|(other, _)| *other == group) {
                Some((_, by)) => *fate = Fate::Grouped { group, by: *by },
                None if is_enforced(index) => firsts.push((group, index)),
                None => {}
            }
        }
        let error = fates.iter().enumerate().find_map(|(index, fate)| match fate {
            Fate::Wrong(wrong) if is_enforced(index) => Some(wrong.clone()),
            _ => None,
        });
        let policies = fates.into_iter().enumerate();
        let policies = policies.map(|(policy, fate)| Explained { policy, fate }).collect();
        let facts = request.seen.facts();
        let walk = Some(self.client_ip().walk(facts.source, facts.headers));
        let mut explanation = Explanation { walk, policies, error };
        if explanation.error.is_none() {
            explanation.error = self.check_bound(explanation.applied()).err();
        }
        explanation
    }

    fn fate<'a>(
        &'a self,
        index: usize,
        policy: &'a Policy,
        (request, cost): (&'a Request<'_>, Option<u64>),
        exceptions: &'a impl Exceptions,
    ) -> Fate<'a> {
        let options = policy.options();
        if options.mode == Mode::Off {
            return Fate::Off;
        }
        if let Some(Err(misfit)) = policy.matches().map(|fits| fits.fits(&request.seen)) {
            return Fate::NoMatch(misfit);
        }
        let missing = |spec: &KeySpec| spec.missing(request, policy.matches());
        match self.apply(index, policy, (request, cost), exceptions) {
            Err(wrong) => Fate::Wrong(wrong),
            Ok(None) => {
                let own = policy.limits().iter().filter_map(|limit| limit.key.as_ref());
                let mut specs: Vec<String> = policy.key().into_iter().chain(own).map(missing).collect();
                specs.dedup();
                Fate::NoKey(specs.join("; "))
            }
            Ok(Some(applied)) => {
                let left_out = policy.limits().iter().enumerate().filter_map(|(place, limit)| {
                    let spec = limit.key.as_ref().or_else(|| policy.key())?;
                    (!applied.takes_part(place)).then(|| (place, missing(spec)))
                });
                let left_out =
                    if matches!(applied.does, Does::Limits(_)) { left_out.collect() } else { Vec::new() };
                let cost = policy.options().cost.from(cost.is_some(), request);
                Fate::Applies { applied: Box::new(applied), cost, left_out }
            }
        }
    }

    /// Why what [`Policies::named_except`] says of a call is so.
    ///
    /// # Errors
    /// As for [`Policies::named_except`].
    pub fn explain_named<'a>(
        &'a self,
        index: usize,
        call: &Call<'a>,
        exceptions: &'a impl Exceptions,
    ) -> Result<Explanation<'a>, CallError> {
        let applied = self.named_except(index, call, exceptions)?.into_applied();
        let fate = |applied| Fate::Applies {
            applied: Box::new(applied),
            cost: CostFrom::Caller,
            left_out: Vec::new(),
        };
        let fate = applied.into_iter().next().map_or(Fate::Off, fate);
        Ok(Explanation { walk: None, policies: vec![Explained { policy: index, fate }], error: None })
    }
}

impl CostSpec {
    /// Who says the cost.
    fn from(&self, is_asked: bool, request: &Request<'_>) -> CostFrom<'_> {
        match self {
            _ if is_asked => CostFrom::Caller,
            Self::Constant(_) => CostFrom::Policy,
            Self::Header { name, .. } if request.seen.facts().header(name).is_some() => {
                CostFrom::Header(name)
            }
            Self::Header { name, .. } => CostFrom::Default(name),
        }
    }
}

impl KeySpec {
    /// What of each alternative is not there.
    fn missing(&self, request: &Request<'_>, of: Option<&Match>) -> String {
        let missing = |alternative: &Alternative| {
            let parts = alternative.parts().iter();
            let absent = parts.filter(|part| request.value(part, of).is_none()).map(absent);
            absent.collect::<Vec<_>>().join(" and ")
        };
        let mut all: Vec<String> = self.alternatives().iter().map(missing).collect();
        all.retain(|missing| !missing.is_empty());
        all.join(", ")
    }
}

/// That a part of a key is not there.
fn absent(part: &KeyPart) -> String {
    match part {
        KeyPart::Ip => "the client's address is not known".to_owned(),
        KeyPart::Header(name) => format!("header {name} is absent"),
        KeyPart::Cookie(name) => format!("cookie {name} is absent"),
        KeyPart::Query(name) => format!("query parameter {name} is absent"),
        KeyPart::PathId(id) => format!("the path has no {{{id}}}"),
        KeyPart::Path => "there is no path".to_owned(),
        KeyPart::Host => "the host is not known".to_owned(),
        KeyPart::Method => "the method is not known".to_owned(),
        KeyPart::Global => String::new(),
        KeyPart::Descriptor | KeyPart::DescriptorEntry { .. } => format!("{part} is absent"),
    }
}

impl Applied<'_> {
    /// The key of the limits that have none of their own, in words: `ip = 203.0.113.9`. An IPv6 network is written
    /// with its prefix, of which the file says how long it is.
    #[must_use]
    pub fn key_text(&self, policies: &Policies) -> Option<String> {
        self.key.as_ref().map(|key| key.text(policies.client_ip().ipv6_prefix))
    }

    /// The same for the limit at this place in the policy, if it does not count by the policy's key.
    #[must_use]
    pub fn own_key_text(&self, place: usize, policies: &Policies) -> Option<String> {
        let own = self.own.iter().find(|(limit, _)| *limit == place)?;
        Some(own.1.text(policies.client_ip().ipv6_prefix))
    }
}

impl FoundKey<'_> {
    /// In words; bytes that are no text are replaced.
    fn text(&self, ipv6_prefix: u8) -> String {
        let values: Vec<String> = self.values().iter().map(|value| value_text(value, ipv6_prefix)).collect();
        let values = values.join(", ");
        match self.kind() {
            "global" => "global".to_owned(),
            "missing" => "shared by all without a key".to_owned(),
            "" => values,
            kind => format!("{kind} = {values}"),
        }
    }
}

fn value_text(value: &Part<'_>, ipv6_prefix: u8) -> String {
    match value {
        Part::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Part::Address(address @ IpAddr::V6(_)) if ipv6_prefix < 128 => format!("{address}/{ipv6_prefix}"),
        Part::Address(address) => address.to_string(),
        // Other kinds of parts are of other protocols.
        other => format!("{other:?}"),
    }
}
