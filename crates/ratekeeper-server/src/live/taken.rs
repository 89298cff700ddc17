//! What was taken for a request in a way that can be settled, in memory and in shared stores.

use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use ratekeeper::{Reservation, SharedReservation};
use tokio::runtime::Handle;

#[cfg(test)]
use super::fake::FakeReservation;

/// What was taken for a request, to be settled. Dropping it gives everything back.
#[derive(Default)]
pub(crate) struct Taken {
    /// By the limits that are enforced.
    pub(crate) enforced: Option<Reservation>,
    /// By each policy that only shows itself.
    pub(crate) shadows: Vec<Reservation>,
    /// In stores that are shared, by either.
    pub(crate) shared: Vec<Held>,
}

impl Taken {
    /// Ends what lies in memory at `cost`, if nothing lies elsewhere; what is charged for it now by the limits that are
    /// enforced. Else it is to be waited for.
    ///
    /// # Errors
    /// The same, if some of it lies in a shared store.
    pub(crate) fn settle_now(self, cost: u64) -> Result<u64, Self> {
        if !self.shared.is_empty() {
            return Err(self);
        }
        for shadow in self.shadows {
            let _ = shadow.settle(cost);
        }
        Ok(self.enforced.map_or(0, |taken| taken.settle(cost).charged()))
    }

    /// Ends it at `cost`, wherever it lies; what is charged for it now by the limits that are enforced.
    pub(crate) async fn settle(mut self, cost: u64) -> u64 {
        let shared = std::mem::take(&mut self.shared);
        let enforced = self.enforced.is_some();
        let in_memory = self.settle_now(cost).unwrap_or(0);
        let settling = shared.into_iter().map(|held| -> BoxFuture<'_, Option<u64>> {
            Box::pin(async move {
                let is_shadow = held.is_shadow;
                let charged = held.settle(cost).await;
                (!is_shadow).then_some(charged)
            })
        });
        let elsewhere = join_all(settling).await.into_iter().flatten().min();
        match elsewhere {
            Some(charged) if enforced => charged.min(in_memory),
            Some(charged) => charged,
            None => in_memory,
        }
    }

    /// Gives everything back. It is waited for, unless there is no time `left` for that.
    pub(crate) async fn cancel(mut self, left: Duration) {
        if left.is_zero() {
            return;
        }
        self.bound(left);
        let cancelling = self.shared.into_iter().map(|held| -> BoxFuture<'_, ()> { Box::pin(held.cancel()) });
        join_all(cancelling).await;
    }

    /// Lets no end of it take longer than `deadline`.
    pub(super) fn bound(&mut self, deadline: Duration) {
        for held in &mut self.shared {
            held.within = held.within.min(deadline);
        }
    }

    /// Whether no limit was asked, so that there is nothing to settle.
    pub(crate) const fn is_nothing(&self) -> bool {
        self.enforced.is_none() && self.shadows.is_empty() && self.shared.is_empty()
    }

    /// Ends it as it is.
    pub(crate) fn keep(self) {
        for taken in self.shadows.into_iter().chain(self.enforced) {
            drop(taken.keep());
        }
        for held in self.shared {
            held.keep();
        }
    }
}

/// What was taken in a shared store. Dropping it gives it back in the background: whoever asked has gone away.
pub(crate) struct Held {
    ticket: Option<Ticket>,
    /// How long an end of it may take.
    within: Duration,
    /// By a policy that only shows itself.
    pub(crate) is_shadow: bool,
}

/// What a shared store hands out.
pub(super) enum Ticket {
    Store(SharedReservation),
    #[cfg(test)]
    Fake(FakeReservation),
}

impl Held {
    pub(super) const fn new(ticket: Ticket, within: Duration) -> Self {
        Self { ticket: Some(ticket), within, is_shadow: false }
    }

    async fn settle(mut self, cost: u64) -> u64 {
        let within = self.within;
        match self.ticket.take() {
            Some(Ticket::Store(reservation)) => reservation.settle(cost, within).await,
            #[cfg(test)]
            Some(Ticket::Fake(reservation)) => reservation.settle(cost).await,
            None => 0,
        }
    }

    async fn cancel(mut self) {
        let within = self.within;
        if let Some(ticket) = self.ticket.take() {
            ticket.cancel(within).await;
        }
    }

    fn keep(mut self) {
        if let Some(ticket) = self.ticket.take() {
            ticket.keep();
        }
    }
}

impl Ticket {
    async fn cancel(self, within: Duration) {
        match self {
            Self::Store(reservation) => reservation.cancel(within).await,
            #[cfg(test)]
            Self::Fake(reservation) => reservation.cancel().await,
        }
    }

    fn keep(self) {
        match self {
            Self::Store(reservation) => reservation.keep(),
            #[cfg(test)]
            Self::Fake(reservation) => reservation.keep(),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(ticket.cancel(self.within))),
            // The process ends: what nobody has settled stays charged.
            Err(_) => ticket.keep(),
        }
    }
}
