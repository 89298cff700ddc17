//! Limits by a policy file: which policies apply to a request, and what they say.

use ratekeeper::{Ask, Check, Decision, MemoryStore, StoreError};
use ratekeeper_policy::{
    Action, Applied, Config, Does, MissingKey, Mode, Plan, Policy, Request as Described, Source,
};
use smallvec::SmallVec;

use crate::book::{Place, Places};
use crate::facts;
use crate::outcome::{Held, Outcome, Wrong, bad_input, failed};
use crate::rules::Context;

/// Where the counts of a policy are kept.
#[derive(Clone)]
pub(crate) enum AnyStore {
    Memory(MemoryStore),
    #[cfg(feature = "redis")]
    Shared(crate::shared::Shared),
}

/// The policies of a file, and the stores that they count in.
pub(crate) struct PolicySet {
    pub(crate) config: Config,
    pub(crate) stores: Vec<AnyStore>,
    /// The store of each policy.
    pub(crate) store_of: Vec<usize>,
    /// Some key is the address of the client.
    pub(crate) needs_peer: bool,
}

/// What the policies that apply to a request ask.
pub(crate) struct Laid<'p> {
    /// The limits that are enforced.
    pub(crate) checks: SmallVec<[Check<'p>; 4]>,
    pub(crate) places: Places,
    pub(crate) blocked: Option<usize>,
    /// The policies that only show what they would do.
    pub(crate) shadows: SmallVec<[&'p Applied<'p>; 2]>,
}

impl<'p> Laid<'p> {
    pub(crate) fn of(applied: &'p [Applied<'p>]) -> Self {
        let mut laid =
            Self { checks: SmallVec::new(), places: Places::new(), blocked: None, shadows: SmallVec::new() };
        for part in applied {
            match part.does {
                _ if part.mode == Mode::Shadow => laid.shadows.push(part),
                _ if part.mode != Mode::Enforce => {}
                Does::Action(Action::Bypass) => {}
                Does::Action(Action::Block) => laid.blocked = laid.blocked.or(Some(part.policy)),
                Does::Limits(_) => {
                    for (limit, check) in part.checks() {
                        laid.checks.push(check);
                        laid.places.push(place(part.policy, limit));
                    }
                }
            }
        }
        if laid.blocked.is_some() {
            // All or nothing: what is refused anyway takes nothing.
            laid.checks.clear();
            laid.places.clear();
        }
        laid
    }
}

pub(crate) fn place(policy: usize, limit: usize) -> Place {
    // A file has fewer policies, and a policy fewer limits.
    let short = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    Place { policy: short(policy), limit: short(limit) }
}

impl PolicySet {
    /// A request in the form of policies.
    pub(crate) fn describe<'r>(
        &self,
        of: &Context<'r>,
        lines: &'r [(&'r str, &'r [u8])],
    ) -> Result<Described<'r>, Wrong> {
        let source = match (of.peer, of.options.missing_peer) {
            (Some(peer), _) => Source::Peer(peer),
            // Who has no address has this one: nobody else can.
            (None, MissingKey::Shared) => Source::Client(std::net::Ipv4Addr::UNSPECIFIED.into()),
            (None, MissingKey::Reject) if self.needs_peer => {
                let detail = "the limits of this service need the address of the client";
                return Err(bad_input(detail));
            }
            (None, _) => Source::Unknown,
        };
        let facts = facts::facts(of.parts, lines, source);
        Described::new(&facts, &self.config.client_ip).map_err(|wrong| bad_input(wrong.to_string()))
    }

    /// The policies that apply to it.
    pub(crate) fn plan<'p>(
        &'p self,
        described: &'p Described<'_>,
        of: &Context<'_>,
    ) -> Result<Plan<'p>, Wrong> {
        let cost = of.options.cost.as_ref().map(|cost| cost(of.parts));
        self.config.policies.plan(described, cost).map_err(|wrong| bad_input(wrong.to_string()))
    }

    /// Whether some policy counts in a shared store.
    pub(crate) fn is_shared(&self) -> bool {
        let is_memory = |store: &usize| matches!(self.stores.get(*store), None | Some(AnyStore::Memory(_)));
        !self.store_of.iter().all(is_memory)
    }

    fn store(&self, place: Place) -> Option<&AnyStore> {
        self.stores.get(*self.store_of.get(usize::from(place.policy))?)
    }

    pub(crate) fn memory(&self, place: Place) -> Option<&MemoryStore> {
        match self.store(place)? {
            AnyStore::Memory(memory) => Some(memory),
            #[cfg(feature = "redis")]
            AnyStore::Shared(_) => None,
        }
    }

    #[cfg(feature = "redis")]
    pub(crate) fn shared(&self, place: Place) -> Option<&crate::shared::Shared> {
        match self.store(place)? {
            AnyStore::Memory(_) => None,
            AnyStore::Shared(shared) => Some(shared),
        }
    }

    /// Decides a request whose limits are all in memory.
    pub(crate) fn ask_now(&self, of: &Context<'_>, outcome: &mut Outcome) -> Result<(), Wrong> {
        let lines = facts::lines(of.parts);
        let described = self.describe(of, &lines)?;
        let plan = self.plan(&described, of)?;
        let laid = Laid::of(plan.applied());
        outcome.blocked = laid.blocked;
        if !laid.checks.is_empty() {
            let parts: SmallVec<[(&MemoryStore, Check<'_>); 4]> = laid
                .places
                .iter()
                .zip(&laid.checks)
                .filter_map(|(p, c)| Some((self.memory(*p)?, *c)))
                .collect();
            outcome.decision = Some(decide(&parts, of.reserves, &mut outcome.held).map_err(failed)?);
            outcome.places = laid.places;
        }
        if outcome.allowed() {
            for applied in &laid.shadows {
                self.show(applied, of.reserves, outcome).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Asks a policy that only shows itself, alone.
    pub(crate) fn show(
        &self,
        applied: &Applied<'_>,
        reserves: bool,
        outcome: &mut Outcome,
    ) -> Result<(), StoreError> {
        let mut places = Places::new();
        let mut parts: SmallVec<[(&MemoryStore, Check<'_>); 4]> = SmallVec::new();
        for (limit, check) in applied.checks() {
            let place = place(applied.policy, limit);
            let Some(memory) = self.memory(place) else { continue };
            parts.push((memory, check));
            places.push(place);
        }
        if !parts.is_empty() {
            let decision = decide(&parts, reserves, &mut outcome.held)?;
            outcome.shadows.push((decision, places));
        }
        Ok(())
    }

    /// The policies in the order of the file.
    pub(crate) fn policies(&self) -> &[Policy] {
        &self.config.policies
    }
}

/// Decides limits in memory, wherever they lie.
pub(crate) fn decide(
    parts: &[(&MemoryStore, Check<'_>)],
    reserves: bool,
    held: &mut Held,
) -> Result<Decision, StoreError> {
    if reserves {
        let (decision, reservation) = MemoryStore::reserve_across(parts)?;
        held.memory.extend(reservation);
        return Ok(decision);
    }
    match parts {
        [(store, check)] => store.decide_now(std::slice::from_ref(check), Ask::Acquire),
        parts => MemoryStore::decide_across(parts, Ask::Acquire),
    }
}
