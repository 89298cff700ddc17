//! Units that were admitted without the store, to be debited there when it answers again, so that the fleet knows.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ratekeeper_core::{Clock as _, Micros, NamedLimit};
use tokio::sync::oneshot;

use super::super::exact::{Exact, Seat};
use super::super::link::{Answer, Failure};
use crate::clock::ProcessClock;

/// Keys that are remembered; of those beyond the store learns nothing. About 15 MB.
const MAX_OWED: usize = 65_536;
/// How many are debited together, so that what waits is not stopped by it.
const AT_ONCE: usize = 512;
/// How soon after some others: a store that has just come back is not asked for all at once.
const PAUSE: Duration = Duration::from_millis(20);

type Map = HashMap<Vec<u8>, Debt, foldhash::quality::RandomState>;

#[derive(Default)]
pub(super) struct Owed {
    debts: Mutex<Map>,
    /// Those that are being debited, and since when.
    paying: Mutex<Paying>,
    /// How many of them have not been seen to be answered.
    under_way: AtomicUsize,
}

#[derive(Default)]
struct Paying {
    since: Micros,
    payments: Vec<Payment>,
}

/// Of which state, how much, and what becomes of it.
type Payment = (Vec<u8>, Debt, oneshot::Receiver<Result<Answer, Failure>>);

impl Paying {
    /// Takes out those that have been answered; what surely was not debited is still owed.
    fn failed(&mut self) -> Vec<(Vec<u8>, Debt)> {
        let mut failed = Vec::new();
        for (name, debt, mut answer) in std::mem::take(&mut self.payments) {
            match answer.try_recv() {
                Err(oneshot::error::TryRecvError::Empty) => self.payments.push((name, debt, answer)),
                Ok(Err(failure)) if !failure.may_have_run => failed.push((name, debt)),
                Ok(_) | Err(oneshot::error::TryRecvError::Closed) => {}
            }
        }
        failed
    }
}

pub(super) struct Debt {
    pub(super) limit: NamedLimit,
    pub(super) units: u64,
}

impl Owed {
    fn debts(&self) -> MutexGuard<'_, Map> {
        self.debts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keys whose units are to be debited.
    pub(super) fn len(&self) -> usize {
        self.debts().len()
    }

    /// Whether there is nothing to be debited, nor to be looked after.
    pub(super) fn is_settled(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) == 0 && self.debts().is_empty()
    }

    /// Notes what was admitted.
    pub(super) fn add(&self, seats: &[Seat<'_>]) {
        for seat in seats {
            self.add_units(&seat.name, &Debt { limit: seat.limit.clone(), units: seat.cost });
        }
    }

    /// Notes what was admitted of one state.
    pub(super) fn add_units(&self, name: &[u8], Debt { limit, units }: &Debt) {
        let units = *units;
        if units == 0 {
            return;
        }
        let mut debts = self.debts();
        let most = limit.limit().capacity();
        if let Some(debt) = debts.get_mut(name) {
            debt.units = debt.units.saturating_add(units).min(most);
        } else if debts.len() < MAX_OWED {
            let debt = Debt { limit: limit.clone().draining(), units: units.min(most) };
            debts.insert(name.to_vec(), debt);
        }
    }

    /// Forgets what is to be debited of these states: it is handed out.
    pub(super) fn take(&self, seats: &[Seat<'_>]) -> Vec<(Vec<u8>, Debt)> {
        let mut debts = self.debts();
        seats.iter().filter_map(|seat| debts.remove_entry(&seat.name)).collect()
    }

    /// Debits some of them: as much of each as is there. Nobody waits for that. What did not reach the servers is tried
    /// again.
    pub(super) fn pay(&self, exact: &Exact) {
        // Somebody else is at it.
        let Ok(mut paying) = self.paying.try_lock() else { return };
        let now = ProcessClock.now();
        if now < paying.since.saturating_add(PAUSE) {
            return;
        }
        for (name, debt) in paying.failed() {
            self.add_units(&name, &debt);
        }
        self.under_way.store(paying.payments.len(), Ordering::Relaxed);
        if !paying.payments.is_empty() {
            return;
        }
        let mut debts = self.debts();
        let names: Vec<Vec<u8>> = debts.keys().take(AT_ONCE).cloned().collect();
        let due: Vec<(Vec<u8>, Debt)> = names.iter().filter_map(|name| debts.remove_entry(name)).collect();
        if debts.is_empty() {
            *debts = Map::default();
        }
        drop(debts);
        paying.since = now;
        let payment = |(name, debt): (Vec<u8>, Debt)| {
            let answer = exact.debit(name.clone(), &debt.limit, debt.units);
            (name, debt, answer)
        };
        paying.payments = due.into_iter().map(payment).collect();
        self.under_way.store(paying.payments.len(), Ordering::Relaxed);
    }
}
