//! Limits in code: which of them a request is asked by, under which keys.

use std::net::IpAddr;

use http::request::Parts;
use ratekeeper::{Key, KeyedLimiter, Limiter, LimiterCheck, MAX_KEY_BYTES, Part, all_of};
use ratekeeper_policy::MissingKey;
use smallvec::SmallVec;

use crate::book::{Place, Places};
use crate::key::{Found, KeyBy, Pieces, with_key};
use crate::options::Options;
use crate::outcome::{Outcome, Wrong, bad_input, failed};
use crate::rule::CostOf;

/// The limits of a layer that are written in code.
pub(crate) struct Rules {
    pub(crate) list: Vec<Built>,
    #[cfg(feature = "redis")]
    pub(crate) shared: Option<crate::shared::SharedSide>,
}

/// A rule, checked.
pub(crate) struct Built {
    pub(crate) owner: Owner,
    pub(crate) key: KeyBy,
    pub(crate) cost: Option<CostOf>,
}

pub(crate) enum Owner {
    Keyed(KeyedLimiter),
    One(Limiter),
    #[cfg(feature = "redis")]
    Shared(ratekeeper::NamedLimit),
}

/// What is known of a request before its limits are looked for.
pub(crate) struct Context<'r> {
    pub(crate) parts: &'r Parts,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) options: &'r Options,
    /// What is taken may have to be given back.
    pub(crate) reserves: bool,
}

/// A key of a request: that of all who have none has no parts.
pub(crate) type KeyPieces<'r> = Pieces<'r>;

impl Built {
    /// The key of a request; `None` if the rule does not apply to it.
    pub(crate) fn key<'r>(&'r self, of: &Context<'r>) -> Result<Option<KeyPieces<'r>>, Wrong> {
        let missing = match self.key.find(of.parts, of.peer) {
            Found::Key(pieces) => return Ok(Some(pieces)),
            Found::Missing => of.options.missing_key,
            Found::NoPeer => of.options.missing_peer,
        };
        match missing {
            MissingKey::Skip => Ok(None),
            MissingKey::Shared => Ok(Some(Pieces::new())),
            MissingKey::Reject => Err(bad_input(format!("the limits of this service need {}", self.key))),
        }
    }

    pub(crate) fn cost(&self, of: &Context<'_>) -> u64 {
        let cost = self.cost.as_ref().or(of.options.cost.as_ref());
        cost.map_or(1, |cost| cost(of.parts))
    }

    /// The question to a limiter; `None` to a shared store, which is asked elsewhere.
    fn check(&self, pieces: &[crate::key::Piece<'_>]) -> Result<Option<LimiterCheck<'_>>, Wrong> {
        Ok(match &self.owner {
            Owner::One(limiter) => Some(limiter.check()),
            Owner::Keyed(limiter) if pieces.is_empty() => {
                const NOBODY: &[Part<'_>] = &[];
                Some(limiter.check(Key::from(NOBODY)))
            }
            Owner::Keyed(limiter) => {
                Some(with_key(pieces, |key| limiter.check(key)).ok_or_else(|| too_long(&self.key))?)
            }
            #[cfg(feature = "redis")]
            Owner::Shared(_) => None,
        })
    }
}

pub(crate) fn too_long(key: &KeyBy) -> Wrong {
    bad_input(format!("{key} is longer than {MAX_KEY_BYTES} bytes"))
}

/// The questions of a request to limits in memory.
pub(crate) type Checks<'l> = SmallVec<[LimiterCheck<'l>; 4]>;

impl Rules {
    /// Adds the questions of a request to limits in memory, and whose they are.
    pub(crate) fn ask_of_memory<'l>(
        &'l self,
        of: &Context<'l>,
        checks: &mut Checks<'l>,
        places: &mut Places,
    ) -> Result<(), Wrong> {
        for (nth, rule) in self.list.iter().enumerate() {
            let Some(pieces) = rule.key(of)? else { continue };
            if let Some(check) = rule.check(&pieces)? {
                checks.push(check.cost(rule.cost(of)));
                places.push(place(nth));
            }
        }
        Ok(())
    }

    /// Decides a request whose limits are all in memory.
    pub(crate) fn ask_now(&self, of: &Context<'_>, outcome: &mut Outcome) -> Result<(), Wrong> {
        let mut checks = Checks::new();
        self.ask_of_memory(of, &mut checks, &mut outcome.places)?;
        if checks.is_empty() {
            return Ok(());
        }
        // The builder takes no more rules than that.
        let all = all_of(&checks).map_err(failed)?;
        outcome.decision = Some(if of.reserves {
            let (decision, reservation) = all.reserve();
            outcome.held.memory.extend(reservation);
            decision
        } else {
            all.try_acquire()
        });
        Ok(())
    }
}

pub(crate) fn place(nth: usize) -> Place {
    // At most 16 rules.
    Place { policy: 0, limit: u16::try_from(nth).unwrap_or(u16::MAX) }
}
