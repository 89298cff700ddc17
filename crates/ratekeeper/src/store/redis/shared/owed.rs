//! Units that were admitted without the store, to be debited there when it answers again, so that the fleet knows.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ratekeeper_core::NamedLimit;

use super::super::exact::{Exact, Seat};

/// Keys that are remembered; of those beyond the store learns nothing. About 15 MB.
const MAX_OWED: usize = 65_536;
/// How many are debited with one success, so that what waits is not stopped by it.
const AT_ONCE: usize = 512;

type Map = HashMap<Vec<u8>, Debt, foldhash::quality::RandomState>;

#[derive(Default)]
pub(super) struct Owed {
    debts: Mutex<Map>,
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

    pub(super) fn is_empty(&self) -> bool {
        self.debts().is_empty()
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

    /// Debits some of them: as much of each as is there. Nobody waits for that, and it is tried once.
    pub(super) fn pay(&self, exact: &Exact) {
        let mut debts = self.debts();
        if debts.is_empty() {
            return;
        }
        let names: Vec<Vec<u8>> = debts.keys().take(AT_ONCE).cloned().collect();
        let due: Vec<(Vec<u8>, Debt)> = names.iter().filter_map(|name| debts.remove_entry(name)).collect();
        if debts.is_empty() {
            *debts = Map::default();
        }
        drop(debts);
        for (name, debt) in due {
            exact.debit(name, &debt.limit, debt.units);
        }
    }
}
