//! What was taken from a shared store in a way that can be settled.

use std::fmt;
use std::time::Duration;

use futures_util::future::join_all;
use ratekeeper_core::{Ask, Check, Clock as _, NamedLimit, Token};

use super::super::codec;
use super::super::exact::{Decided, Layout, since};
use super::SharedStore;
use super::owed::Debt;
use crate::Reservation;
use crate::clock::ProcessClock;

/// Units that have been taken and may yet be given back. Dropped, it gives them back: once, without waiting for it.
#[must_use = "a reservation that is dropped gives its units back"]
pub struct SharedReservation {
    store: SharedStore,
    /// What the servers have taken.
    seats: Vec<Held>,
    /// What was taken of this instance's share while they did not answer.
    alone: Option<Reservation>,
    /// What they are to debit of that when they are back, if it becomes final.
    owed: Vec<Owing>,
}

/// What becomes a debt of one state.
struct Owing {
    limit: NamedLimit,
    name: Vec<u8>,
    checks: u64,
    units: u64,
}

/// What was taken of one state.
struct Held {
    limit: NamedLimit,
    name: Vec<u8>,
    /// How many checks of the request it stands for.
    checks: u64,
    /// What gives it back; the last units last.
    tokens: Vec<Token>,
}

impl Held {
    fn charged(&self) -> u64 {
        self.tokens.iter().map(Token::cost).sum()
    }
}

impl SharedReservation {
    pub(super) fn of(store: &SharedStore, layout: &Layout<'_>, decided: &Decided) -> Self {
        let held = |(i, (seat, token)): (usize, (&super::super::exact::Seat<'_>, &Option<Token>))| Held {
            limit: seat.limit.clone(),
            name: seat.name.clone(),
            checks: layout.checks_of(i),
            tokens: token.iter().copied().collect(),
        };
        let seats = layout.seats.iter().zip(&decided.tokens).enumerate().map(held).collect();
        Self { store: store.clone(), seats, alone: None, owed: Vec::new() }
    }

    /// Of a request without limits.
    #[cfg(feature = "tokio")]
    pub(super) fn of_nothing(store: &SharedStore) -> Self {
        Self { store: store.clone(), seats: Vec::new(), alone: None, owed: Vec::new() }
    }

    pub(super) fn alone(
        store: &SharedStore,
        layout: &Layout<'_>,
        alone: Option<Reservation>,
        owes: bool,
    ) -> Self {
        let owing = |(i, seat): (usize, &super::super::exact::Seat<'_>)| Owing {
            limit: seat.limit.clone(),
            name: seat.name.clone(),
            checks: layout.checks_of(i),
            units: seat.cost,
        };
        let owed = if owes { layout.seats.iter().enumerate().map(owing).collect() } else { Vec::new() };
        Self { store: store.clone(), seats: Vec::new(), alone, owed }
    }

    /// Makes the admission final at what it has turned out to cost: `actual` units of every limit. Less than was
    /// reserved gives the difference back, by the safe rule of a refund; more takes what is there of it. What is charged
    /// in the end, of several limits the least. If the servers do not answer, what was reserved stays charged.
    pub async fn settle(mut self, actual: u64, within: Duration) -> u64 {
        let alone = self.alone.take().map(|alone| alone.settle(actual).charged());
        for Owing { limit, name, checks, .. } in self.owed.drain(..) {
            let units = actual.saturating_mul(checks);
            self.store.inner.owed.add_units(&name, &Debt { limit, units });
        }
        // From here on it is final: whoever stops waiting gives nothing back.
        let mut seats = std::mem::take(&mut self.seats);
        let (mut unused, mut missing) = (Vec::new(), Vec::new());
        for (i, seat) in seats.iter_mut().enumerate() {
            let wanted = actual.saturating_mul(seat.checks);
            let held = seat.charged();
            if let Some(token) = seat.tokens.pop() {
                let (kept, last) = token.split(held.saturating_sub(wanted));
                seat.tokens.extend(kept);
                let back = last.map(|last| (seat.name.clone(), codec::give_back(seat.limit.limit(), &last)));
                unused.extend(back);
            }
            if wanted > held {
                missing.push((i, wanted - held));
            }
        }
        let (inner, began) = (std::sync::Arc::clone(&self.store.inner), ProcessClock.now());
        if !unused.is_empty() {
            // Whether they came back or not, they are not asked for again.
            let _ = inner.amend(unused, within).await;
        }
        let left = within.saturating_sub(since(began));
        let charges = missing.iter().map(|(i, units)| {
            let seat = &seats[*i];
            inner.charge(&seat.limit, &seat.name, *units, left)
        });
        let charges = join_all(charges).await;
        for ((i, _), token) in missing.iter().zip(charges) {
            seats[*i].tokens.extend(token);
        }
        seats.iter().map(Held::charged).chain(alone).min().unwrap_or(0)
    }

    /// Gives everything back.
    pub async fn cancel(mut self, within: Duration) {
        drop(self.alone.take());
        let amendments = self.take_back();
        if !amendments.is_empty() {
            let _ = self.store.inner.amend(amendments, within).await;
        }
    }

    /// Makes the admission final as it is.
    pub fn keep(mut self) {
        self.seats.clear();
        if let Some(alone) = self.alone.take() {
            drop(alone.keep());
        }
        for Owing { limit, name, units, .. } in self.owed.drain(..) {
            self.store.inner.owed.add_units(&name, &Debt { limit, units });
        }
    }

    fn take_back(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let back = |seat: Held| {
            let Held { limit, name, tokens, .. } = seat;
            tokens.into_iter().rev().map(move |token| (name.clone(), codec::give_back(limit.limit(), &token)))
        };
        std::mem::take(&mut self.seats).into_iter().flat_map(back).collect()
    }
}

impl Drop for SharedReservation {
    fn drop(&mut self) {
        let amendments = self.take_back();
        if !amendments.is_empty() {
            let names = amendments.iter().map(|(name, _)| name);
            names.for_each(|name| self.store.inner.remembered.forget(name));
            self.store.inner.redis.exact.amend_unheard(amendments);
        }
    }
}

impl super::Inner {
    /// Takes as many of these units as there are.
    async fn charge(&self, limit: &NamedLimit, name: &[u8], units: u64, within: Duration) -> Option<Token> {
        let exact = &self.redis.exact;
        if within.is_zero() || self.breaker.is_open() {
            return None;
        }
        let limit = &limit.clone().draining();
        let check = Check { limit, key: "".into(), cost: units };
        let layout = exact.layout_named(&check, name);
        match exact.decide(&layout, Ask::Acquire, within.min(exact.timeout)).await {
            Ok(decided) => {
                self.answered();
                self.share.debit(&layout.seats);
                decided.tokens.first().copied().flatten()
            }
            Err(failure) => {
                self.failed(&failure);
                None
            }
        }
    }
}

impl fmt::Debug for SharedReservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.seats.iter().map(|seat| (&seat.limit, seat.charged()))).finish()
    }
}
