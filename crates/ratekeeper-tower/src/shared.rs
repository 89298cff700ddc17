//! Limits in a store that a fleet shares, beside those in memory: reserved in memory first, then in each shared store.
//! When one refuses, nothing stays taken anywhere, and the others are looked at for their numbers.

use std::time::Duration;

use ratekeeper::{
    Ask, BuildError, Check, Decision, Demand, Key, OnStoreError, Part, RedisStore, SharedStore, StoreError,
    Verdict, all_of,
};
use ratekeeper_policy::RedisConfig;
use smallvec::SmallVec;

use crate::book::Places;
use crate::builder::LayerBuilder;
use crate::facts;
use crate::key::{Piece, Pieces};
use crate::outcome::{Held, Outcome, Wrong, failed};
use crate::policies::{Laid, PolicySet, decide, place as place_in};
use crate::rules::{Checks, Context, Owner, Rules, place, too_long};

/// A store that a fleet shares, and how long its answers are waited for.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) store: SharedStore,
    pub(crate) within: Duration,
}

/// Where the plain limits of a layer count, and what becomes of them when it does not answer.
pub(crate) struct SharedSide {
    pub(crate) store: Shared,
    pub(crate) on_error: OnStoreError,
}

/// How long an answer is waited for if nobody says; a store's own timeout is mostly shorter.
const DEFAULT_WITHIN: Duration = Duration::from_secs(1);

impl LayerBuilder {
    /// Counts plain limits in this store, for all who share it. Limiters of the program stay where they are; all of them
    /// are decided together all the same.
    pub fn store(mut self, store: &SharedStore) -> Self {
        self.store = Some(Shared { store: store.clone(), within: DEFAULT_WITHIN });
        self.of_code("store")
    }

    /// What becomes of those limits when the store does not answer; this instance's share of them unless said otherwise.
    pub const fn on_store_error(mut self, on_error: OnStoreError) -> Self {
        self.on_store_error = on_error;
        self.of_code("on_store_error")
    }
}

impl Shared {
    /// The store of a configuration. Nobody is asked yet.
    pub(crate) fn connect(redis: &RedisConfig) -> Result<Self, BuildError> {
        let password = redis.password.as_ref().map(|password| password.expose());
        let plain = RedisStore::builder(redis.url.clone())
            .timeout(redis.timeout)
            .prefix(&redis.prefix)
            .credentials(redis.username.as_deref(), password)
            .direct(true)
            .build()?;
        let store = SharedStore::builder(plain).instances(redis.instances).build()?;
        Ok(Self { store, within: redis.timeout })
    }
}

/// The limits of a request that lie in one shared store.
struct Group<'s> {
    shared: &'s Shared,
    checks: SmallVec<[Check<'s>; 4]>,
    on_error: SmallVec<[OnStoreError; 4]>,
    /// Their places among all limits of the request.
    nth: SmallVec<[usize; 4]>,
}

impl<'s> Group<'s> {
    fn new(shared: &'s Shared) -> Self {
        Self { shared, checks: SmallVec::new(), on_error: SmallVec::new(), nth: SmallVec::new() }
    }

    fn add(&mut self, check: Check<'s>, on_error: OnStoreError, nth: usize) {
        self.checks.push(check);
        self.on_error.push(on_error);
        self.nth.push(nth);
    }

    fn demand(&self, ask: Ask) -> Demand<'_> {
        Demand { checks: &self.checks, on_error: &self.on_error, ask }
    }
}

/// What the limits of a request have said so far.
struct Said(SmallVec<[Option<Verdict>; 4]>);

impl Said {
    fn add(&mut self, nth: &[usize], decision: &Decision) {
        for (nth, verdict) in nth.iter().zip(decision.limits()) {
            if let Some(said) = self.0.get_mut(*nth) {
                *said = Some(*verdict);
            }
        }
    }
}

/// The limits in memory of a request, whoever owns them.
trait Memory {
    fn reserve(&self, held: &mut Held) -> Result<Decision, StoreError>;
    fn peek(&self) -> Result<Decision, StoreError>;
}

impl Memory for SmallVec<[ratekeeper::LimiterCheck<'_>; 4]> {
    fn reserve(&self, held: &mut Held) -> Result<Decision, StoreError> {
        let (decision, reservation) = all_of(self)?.reserve();
        held.memory.extend(reservation);
        Ok(decision)
    }

    fn peek(&self) -> Result<Decision, StoreError> {
        Ok(all_of(self)?.peek())
    }
}

impl Memory for SmallVec<[(&ratekeeper::MemoryStore, Check<'_>); 4]> {
    fn reserve(&self, held: &mut Held) -> Result<Decision, StoreError> {
        decide(self, true, held)
    }

    fn peek(&self) -> Result<Decision, StoreError> {
        ratekeeper::MemoryStore::decide_across(self, Ask::Peek)
    }
}

/// Decides `count` limits wherever they lie: all are charged, or none is.
async fn go<M: Memory>(
    memory: (&M, &[usize]),
    groups: &[Group<'_>],
    count: usize,
    held: &mut Held,
) -> Result<Decision, StoreError> {
    let mut said = Said(SmallVec::from_elem(None, count));
    let (memory, in_memory) = memory;
    let mut is_refused = false;
    if !in_memory.is_empty() {
        let decision = memory.reserve(held)?;
        said.add(in_memory, &decision);
        is_refused = !decision.allowed;
    }
    let mut refusing = None;
    for (number, group) in groups.iter().enumerate() {
        if is_refused {
            break;
        }
        let Shared { store, within } = group.shared;
        let (decision, reservation) = store.reserve(group.demand(Ask::Acquire), *within).await?;
        said.add(&group.nth, &decision);
        held.shared.extend(reservation);
        if !decision.allowed {
            (is_refused, refusing) = (true, Some(number));
        }
    }
    if is_refused {
        let taken = std::mem::take(held);
        let had_memory = !taken.memory.is_empty();
        drop(taken);
        if had_memory {
            said.add(in_memory, &memory.peek()?);
        }
        for (number, group) in groups.iter().enumerate() {
            if refusing != Some(number) {
                let Shared { store, within } = group.shared;
                said.add(&group.nth, &store.decide(group.demand(Ask::Peek), *within).await?);
            }
        }
    }
    Ok(Decision::of(said.0.into_iter().flatten().collect()))
}

/// The key of a rule, and which rule it is of.
type Keyed<'r> = (usize, u64, Pieces<'r>);

impl Rules {
    /// Decides a request some of whose limits may lie in a shared store.
    pub(crate) async fn ask(&self, of: &Context<'_>) -> Result<Outcome, Wrong> {
        let mut outcome = Outcome::default();
        let Some(side) = &self.shared else { return self.ask_now(of, &mut outcome).map(|()| outcome) };
        let (mut checks, mut all) = (Checks::new(), Places::new());
        self.ask_of_memory(of, &mut checks, &mut all)?;
        let mut keys: SmallVec<[Keyed<'_>; 4]> = SmallVec::new();
        for (nth, rule) in self.list.iter().enumerate() {
            if matches!(rule.owner, Owner::Shared(_))
                && let Some(pieces) = rule.key(of)?
            {
                keys.push((nth, rule.cost(of), pieces));
            }
        }
        let in_memory: SmallVec<[usize; 4]> = (0..checks.len()).collect();
        let parts: SmallVec<[SmallVec<[Part<'_>; 4]>; 4]> =
            keys.iter().map(|(.., pieces)| pieces.iter().map(Piece::part).collect()).collect();
        let mut group = Group::new(&side.store);
        for ((nth, cost, _), parts) in keys.iter().zip(&parts) {
            let rule = &self.list[*nth];
            let Owner::Shared(limit) = &rule.owner else { continue };
            let key = Key::from(&parts[..]);
            if key.byte_len() > ratekeeper::MAX_KEY_BYTES {
                return Err(too_long(&rule.key));
            }
            group.add(Check { limit, key, cost: *cost }, side.on_error, all.len());
            all.push(place(*nth));
        }
        if all.is_empty() {
            return Ok(outcome);
        }
        let groups = if group.checks.is_empty() { Vec::new() } else { vec![group] };
        let mut held = Held::default();
        let decided = go((&checks, &in_memory), &groups, all.len(), &mut held).await;
        let decision = decided.map_err(failed)?;
        drop(groups);
        Ok(in_order(decision, all, held))
    }
}

/// The verdicts in the order of the limits.
fn in_order(decision: Decision, places: Places, held: Held) -> Outcome {
    let mut both: SmallVec<[_; 4]> = places.into_iter().zip(decision.limits().iter().copied()).collect();
    both.sort_by_key(|(place, _)| place.limit);
    let places = both.iter().map(|(place, _)| *place).collect();
    let decision = Decision::of(both.into_iter().map(|(_, verdict)| verdict).collect());
    Outcome { decision: Some(decision), places, held, ..Outcome::default() }
}

/// The words of the file as the store's own.
const fn on_error(policy: &ratekeeper_policy::Policy) -> OnStoreError {
    match policy.options().on_store_error {
        ratekeeper_policy::OnStoreError::Local => OnStoreError::Local,
        ratekeeper_policy::OnStoreError::Allow => OnStoreError::Allow,
        ratekeeper_policy::OnStoreError::Deny => OnStoreError::Deny,
    }
}

impl PolicySet {
    /// Decides a request some of whose limits may lie in shared stores.
    pub(crate) async fn ask(&self, of: &Context<'_>) -> Result<Outcome, Wrong> {
        let lines = facts::lines(of.parts);
        let described = self.describe(of, &lines)?;
        let plan = self.plan(&described, of)?;
        let laid = Laid::of(plan.applied());
        let mut outcome = Outcome { blocked: laid.blocked, ..Outcome::default() };
        if !laid.checks.is_empty() {
            let asked = laid.places.iter().copied().zip(laid.checks.iter().copied());
            outcome.decision = Some(self.go(asked, &mut outcome.held).await.map_err(failed)?);
            outcome.places = laid.places.clone();
        }
        if outcome.allowed() {
            for applied in &laid.shadows {
                let places: Places =
                    applied.checks().map(|(limit, _)| place_in(applied.policy, limit)).collect();
                if places.is_empty() {
                    continue;
                }
                let asked = places.iter().copied().zip(applied.checks().map(|(_, check)| check));
                let mut held = Held::default();
                let decision = self.go(asked, &mut held).await.map_err(failed)?;
                outcome.held.memory.extend(held.memory);
                outcome.held.shared.extend(held.shared);
                outcome.shadows.push((decision, places));
            }
        }
        Ok(outcome)
    }

    async fn go<'s>(
        &'s self,
        asked: impl Iterator<Item = (crate::book::Place, Check<'s>)>,
        held: &mut Held,
    ) -> Result<Decision, StoreError> {
        let mut memory: SmallVec<[(&ratekeeper::MemoryStore, Check<'_>); 4]> = SmallVec::new();
        let (mut in_memory, mut groups, mut count) =
            (SmallVec::<[usize; 4]>::new(), Vec::<Group<'_>>::new(), 0);
        for (nth, (place, check)) in asked.enumerate() {
            count = nth + 1;
            if let Some(store) = self.memory(place) {
                memory.push((store, check));
                in_memory.push(nth);
            } else if let Some(shared) = self.shared(place) {
                let same = |group: &Group<'_>| std::ptr::eq(group.shared, shared);
                let at = groups.iter().position(same).unwrap_or_else(|| {
                    groups.push(Group::new(shared));
                    groups.len() - 1
                });
                let policy = self.policies().get(usize::from(place.policy));
                groups[at].add(check, policy.map_or(OnStoreError::Local, on_error), nth);
            }
        }
        go((&memory, &in_memory), &groups, count, held).await
    }
}
