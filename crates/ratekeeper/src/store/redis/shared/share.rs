//! This instance's share of every limit, decided in its own memory: what is left when the store does not answer.
//!
//! Each admission is debited from the share, also while the store answers, so switching to the share does not begin
//! with a full one: over any span the two together admit at most what each of them would alone.

use ratekeeper_core::{Ask, Check, Decision, Limit, NamedLimit, Source, Store as _, StoreError, Verdict};

use super::super::exact::{Layout, Seat};
use super::{Demand, OnStoreError};
use crate::{BuildError, MemoryStore, Reservation};

/// Keys of a share that are held exactly, and so the memory of it: 11 MB. Those beyond share a state, stricter than
/// they should find it.
pub(super) const DEFAULT_MAX_KEYS: u64 = 250_000;

pub(super) struct Share {
    memory: MemoryStore,
    instances: u64,
}

impl Share {
    pub(super) fn new(instances: u32, max_keys: u64) -> Result<Self, BuildError> {
        let memory = MemoryStore::builder().max_keys(max_keys).build()?;
        Ok(Self { memory, instances: u64::from(instances.max(1)) })
    }

    fn limit(&self, limit: &NamedLimit) -> NamedLimit {
        limit.with_limit(share_of(limit.limit(), self.instances))
    }

    /// Takes from the share what the store has admitted, as far as it is there.
    pub(super) fn debit(&self, seats: &[Seat<'_>]) {
        for seat in seats.iter().filter(|seat| seat.cost > 0) {
            let limit = self.limit(seat.limit).draining();
            let check = Check { limit: &limit, key: seat.name.as_slice().into(), cost: seat.cost };
            // Nobody is refused by it, and there is nothing to be said if the share cannot hold the limit.
            let _ = self.memory.decide_now(&[check], Ask::Acquire);
        }
    }

    /// Forgets what was taken from it.
    pub(super) async fn forget(&self, seats: &[Seat<'_>]) {
        for seat in seats {
            let limit = self.limit(seat.limit);
            let check = Check { limit: &limit, key: seat.name.as_slice().into(), cost: 0 };
            // A limit that the share cannot hold has nothing there.
            let _ = self.memory.reset(&[check]).await;
        }
    }

    /// Decides a request without the store, by what each of its limits says of that.
    pub(super) fn decide(
        &self,
        demand: &Demand<'_>,
        layout: &Layout<'_>,
        retry_after: std::time::Duration,
    ) -> Result<(Decision, Option<Reservation>), StoreError> {
        let behaviour = |check: usize| demand.on_error.get(check).copied().unwrap_or_default();
        let denies = (0..demand.checks.len()).any(|check| behaviour(check) == OnStoreError::Deny);
        // All or nothing: what is refused anyway takes nothing.
        let ask = if denies { Ask::Peek } else { demand.ask };
        let local: Vec<usize> =
            (0..demand.checks.len()).filter(|check| behaviour(*check) == OnStoreError::Local).collect();
        let limits: Vec<NamedLimit> =
            local.iter().map(|check| self.limit(demand.checks[*check].limit)).collect();
        let checks: Vec<Check<'_>> = local
            .iter()
            .zip(&limits)
            .map(|(check, limit)| Check {
                limit,
                key: layout.name_of(*check).into(),
                cost: demand.checks[*check].cost,
            })
            .collect();
        let (decision, reservation) = match (ask, checks.is_empty()) {
            (_, true) => (Decision::of(Vec::new()), None),
            (Ask::Acquire, false) => self.memory.reserve_now(&checks)?,
            (Ask::Peek, false) => (self.memory.decide_now(&checks, Ask::Peek)?, None),
        };
        let mut of_share = decision.limits().iter();
        let verdict = |(number, check): (usize, &Check<'_>)| {
            let (limit, cost) = (check.limit.limit(), check.cost);
            match behaviour(number) {
                OnStoreError::Local => of_share
                    .next()
                    .map_or_else(|| Verdict::failed_open(limit, cost), |v| v.with_source(Source::Local)),
                OnStoreError::Allow => Verdict::failed_open(limit, cost),
                OnStoreError::Deny => Verdict::failed_closed(limit, cost, retry_after),
            }
        };
        Ok((Decision::of(demand.checks.iter().enumerate().map(verdict).collect()), reservation))
    }
}

/// A limit by this instance's part of it: at least one unit, at the same window.
pub(super) fn share_of(limit: &Limit, instances: u64) -> Limit {
    if instances <= 1 {
        return *limit;
    }
    let part = |units: u64| (units / instances).max(1);
    let mut shared = limit.spec();
    shared.amount = part(shared.amount);
    shared.burst = shared.burst.map(part);
    shared.queue = shared.queue.map(|queue| part(queue + 1) - 1);
    // A large burst at a rate that was rounded down can take too long to refill: then a window's worth.
    let mut smaller = shared;
    smaller.burst = shared.burst.map(|burst| burst.min(shared.amount));
    smaller.queue = shared.queue.map(|queue| queue.min(shared.amount - 1));
    shared.build().or_else(|_| smaller.build()).unwrap_or(*limit)
}

#[cfg(test)]
mod tests {
    use ratekeeper_core::{Algorithm, Limit, MAX_AMOUNT};

    use super::share_of;

    #[test]
    fn a_share_is_the_part_of_an_instance_and_never_nothing() {
        let share = share_of(&Limit::per_minute(10).burst(7), 3);
        assert_eq!((share.amount(), share.capacity()), (3, 2));
        assert_eq!(share_of(&Limit::per_minute(1), 100).amount(), 1);
        let queue = Limit::per_second(10).algorithm(Algorithm::LeakyBucket).queue(8);
        assert_eq!(share_of(&queue, 3).capacity(), 3);
        assert_eq!(share_of(&queue, 1), queue);
        let slow = Limit::per(1, ratekeeper_core::Limit::per_day(1).window()).burst(366);
        assert_eq!(share_of(&slow, 2).capacity(), 183);
        assert_eq!(share_of(&Limit::per_second(MAX_AMOUNT), 10_000).amount(), 100_000);
    }
}
