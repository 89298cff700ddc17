//! Waiting for limits in a shared store: the futures.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ratekeeper_core::{Check, Refused, StoreError};

use super::turns::{Coming, Turn};
use super::{OnStoreError, SharedReservation, SharedStore};
use crate::waiting::Admitted;

impl SharedStore {
    /// Waits until all these limits let the request pass, and takes the cost of each.
    ///
    /// - **In order within this process.** The callers of one [`SharedStore`] and its clones stand in a line per key, that of
    ///   the first check: put the narrowest first. The one in front asks the store, waits as long as it says, by the
    ///   store's clock, and asks again. So a key is served once per round trip at most.
    /// - **Between processes there is no order.** Goes first whoever asks first when units are there; a large cost may wait
    ///   long behind the small ones of others. [`SharedStore::decide`] does not look at the lines either.
    /// - **Refused at once** if the store says a wait that is longer than [`within`](AcquireShared::within), if the one in
    ///   front is known to wait longer than that, if the cost never fits, or if too many wait
    ///   ([`SharedStoreBuilder::max_waiting`](crate::SharedStoreBuilder::max_waiting)). Behind others who are served sooner it may be
    ///   told at its deadline only: nobody foresees what other processes take.
    /// - **May be dropped** at any time: its place is free, and what it is given meanwhile comes back by the rule of
    ///   refunds.
    /// - A leaky bucket with a queue has its own waiting room, in the store: it waits there until its start, and is
    ///   refused at once if there is no room. See [`Shaper::shared`](crate::Shaper::shared).
    ///
    /// While the store does not answer, this instance's share of the limits is waited for, unless
    /// [`on_store_error`](AcquireShared::on_store_error) says otherwise.
    ///
    /// ```no_run
    /// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
    /// use ratekeeper::{Check, Limit, Name, NamedLimit, RedisStore, SharedStore, seconds};
    /// let redis = RedisStore::builder("redis://127.0.0.1:6379".parse()?).build()?;
    /// let store = SharedStore::builder(redis).instances(3).build()?;
    /// let calls = NamedLimit::new(&Name::new("partner")?, Name::new("calls")?, Limit::per_second(50));
    /// let call = [Check { limit: &calls, key: "example.org".into(), cost: 1 }];
    /// store.acquire(&call)?.within(seconds(2)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`StoreError::TooManyLimits`] and [`StoreError::WindowTooShort`].
    ///
    /// # Panics
    /// The future, outside a tokio runtime with timers.
    pub fn acquire(&self, checks: &[Check<'_>]) -> Result<AcquireShared, StoreError> {
        // Whatever is wrong with them is told now.
        let _ = self.inner.redis.exact.layout(checks, false)?;
        let stands_in_line = !checks.iter().any(|check| check.limit.limit().is_queue());
        let turn = Turn::new(self, &self.inner.room, checks, stands_in_line);
        Ok(AcquireShared { coming: Coming::Not(turn), store: self.clone() })
    }
}

/// Units of limits in a shared store, when it is one's turn: see [`SharedStore::acquire`]. It begins to wait when it is
/// polled first, and may be dropped at any time.
#[must_use = "it takes nothing until it is awaited"]
pub struct AcquireShared {
    coming: Coming,
    store: SharedStore,
}

impl AcquireShared {
    /// How long it may wait at most, by this process's clock and from the first poll on; but for what the answer of the
    /// store takes. Zero: now or not at all, but never past those in line.
    pub fn within(mut self, within: Duration) -> Self {
        self.coming.set_within(within);
        self
    }

    /// What becomes of the request while the store does not answer; [`OnStoreError::Local`] unless said otherwise.
    pub fn on_store_error(mut self, on_error: OnStoreError) -> Self {
        self.coming.set_on_error(on_error);
        self
    }

    /// The same in a way that can be given back: dropping the [`SharedReservation`] gives the units back.
    pub fn reserve(self) -> AcquireSharedReservation {
        AcquireSharedReservation { coming: self.coming, store: self.store }
    }
}

impl Future for AcquireShared {
    type Output = Result<Admitted, Refused>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let came = ready!(self.coming.poll(cx));
        Poll::Ready(came.map(|(admitted, held)| {
            if let Some(held) = held {
                held.keep();
            }
            admitted
        }))
    }
}

/// What [`AcquireShared::reserve`] waits for: units that may yet be given back.
#[must_use = "it takes nothing until it is awaited"]
pub struct AcquireSharedReservation {
    coming: Coming,
    store: SharedStore,
}

impl AcquireSharedReservation {
    /// How long it may wait at most: see [`AcquireShared::within`].
    pub fn within(mut self, within: Duration) -> Self {
        self.coming.set_within(within);
        self
    }
}

impl Future for AcquireSharedReservation {
    type Output = Result<(Admitted, SharedReservation), Refused>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let came = ready!(self.coming.poll(cx));
        Poll::Ready(came.map(|(admitted, held)| {
            // Without any limit nothing is held.
            let held = held.unwrap_or_else(|| SharedReservation::of_nothing(&self.store));
            (admitted, held)
        }))
    }
}

impl fmt::Debug for AcquireShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireShared").finish_non_exhaustive()
    }
}

impl fmt::Debug for AcquireSharedReservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcquireSharedReservation").finish_non_exhaustive()
    }
}
