//! What gives an admission back, in whole or in part, at most once.

use std::fmt;
use std::sync::Arc;

use ratekeeper_core::{Calendar, Limit, Token, Verdict};

use crate::store::memory::{Hash, Inner, Query, Shape};

/// What an admission took of one limit's key, by one token. It keeps no key: a hash finds the state.
pub(crate) struct Part {
    pub(crate) store: Arc<Inner>,
    pub(crate) calendar: Option<Arc<dyn Calendar>>,
    pub(crate) id: u64,
    pub(crate) hash: Hash,
    /// The limit that was charged, by its number.
    pub(crate) shape: Shape,
    /// None if nothing was taken: a cost of 0, or taken together with another part.
    pub(crate) token: Option<Token>,
}

impl Part {
    pub(crate) fn of(store: &Arc<Inner>, calendar: Option<&Arc<dyn Calendar>>, query: &Query<'_>) -> Self {
        let (id, hash, shape) = (query.id, query.hash, query.shape);
        Self { store: Arc::clone(store), calendar: calendar.cloned(), id, hash, shape, token: None }
    }

    fn limit(&self) -> Option<Limit> {
        self.store.limit_of(self.shape)
    }

    fn query<'q>(&'q self, limit: &'q Limit, cost: u64) -> Query<'q> {
        Query {
            store: &self.store,
            limit,
            shape: self.shape,
            id: self.id,
            hash: self.hash,
            cost,
            up_to: true,
            calendar: self.calendar.as_deref(),
        }
    }

    fn is_same_key(&self, other: &Self) -> bool {
        (self.id, self.hash) == (other.id, other.hash) && Arc::ptr_eq(&self.store, &other.store)
    }

    fn held(&self) -> u64 {
        self.token.map_or(0, |token| token.cost())
    }
}

/// Gives tokens back to the states that they were taken from, in one step; those that came last first, since
/// only then is each the end of what is left.
fn give_back(tokens: Vec<(&Part, Token)>) {
    let last_first = tokens.into_iter().rev();
    let limits: Vec<_> = last_first.filter_map(|(part, token)| Some((part, part.limit()?, token))).collect();
    let queries: Vec<Query<'_>> = limits.iter().map(|(part, limit, _)| part.query(limit, 0)).collect();
    let tokens: Vec<Token> = limits.iter().map(|(_, _, token)| *token).collect();
    if !queries.is_empty() {
        Inner::refund(&queries, &tokens);
    }
}

/// The proof of an admission. It is not `Clone` and giving it back consumes it, so an admission comes back at
/// most once. It keeps no key.
#[must_use = "a receipt that is dropped can no longer be given back"]
pub struct Receipt {
    /// One for each check of the request, in order; then those for what was charged later.
    parts: Vec<Part>,
    checks: usize,
}

impl Receipt {
    const NOTHING: Self = Self { parts: Vec::new(), checks: 0 };

    /// The units that the limit has charged for this admission, or of several limits the one that charged least.
    /// Less than what was [settled](Reservation::settle) if the units were not there.
    #[must_use]
    pub fn charged(&self) -> u64 {
        self.charged_each().min().unwrap_or(0)
    }

    /// The same for each check of the request, in order. A key that was named twice is charged once, with the sum,
    /// and says so at each of its places.
    pub fn charged_each(&self) -> impl Iterator<Item = u64> + '_ {
        let of =
            |check: &Part| self.parts.iter().filter(|part| part.is_same_key(check)).map(Part::held).sum();
        self.parts[..self.checks].iter().map(of)
    }

    /// Gives the units back to every limit that took them, in one step.
    pub(crate) fn give_back(self) {
        let held = self.parts.iter().filter_map(|part| Some((part, part.token?)));
        give_back(held.collect());
    }

    /// Makes the charge of each check what `actual` says, as far as the units are there.
    fn settle(&mut self, actual: impl Fn(usize) -> Option<u64>) {
        let mut wanted: Vec<Option<u64>> = vec![Some(0); self.checks];
        for check in 0..self.checks {
            let first = (0..check).find(|i| self.parts[*i].is_same_key(&self.parts[check])).unwrap_or(check);
            wanted[first] = wanted[first].zip(actual(check)).map(|(sum, more)| sum.saturating_add(more));
            if first < check {
                wanted[check] = None;
            }
        }
        let (mut unused, mut missing) = (Vec::new(), Vec::new());
        for (check, wanted) in wanted.into_iter().enumerate() {
            let (Some(wanted), part) = (wanted, &mut self.parts[check]) else { continue };
            let held = part.held();
            if let Some((rest, last)) = part.token.map(|token| token.split(held.saturating_sub(wanted))) {
                part.token = rest;
                unused.extend(last.map(|last| (check, last)));
            }
            if wanted > held {
                missing.push((check, wanted - held));
            }
        }
        give_back(unused.into_iter().map(|(check, token)| (&self.parts[check], token)).collect());
        self.charge(&missing);
    }

    /// Takes what is there of these units, and adds the tokens.
    fn charge(&mut self, missing: &[(usize, u64)]) {
        let parts = missing.iter().map(|(check, units)| (&self.parts[*check], *units));
        let asked: Vec<_> = parts.filter_map(|(part, units)| Some((part, part.limit()?, units))).collect();
        let queries: Vec<Query<'_>> =
            asked.iter().map(|(part, limit, units)| part.query(limit, *units)).collect();
        let more = Inner::charge(&queries).into_iter().zip(&asked).filter_map(|(verdict, (part, ..))| {
            // By the limit that was charged: another one than before, if it has changed meanwhile.
            let (token, shape) = (verdict.token()?, part.store.prepare(verdict.limit())?);
            let (store, calendar) = (Arc::clone(&part.store), part.calendar.clone());
            Some(Part { store, calendar, id: part.id, hash: part.hash, shape, token: Some(token) })
        });
        let more: Vec<Part> = more.collect();
        self.parts.extend(more);
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.parts[..self.checks].iter().map(Part::limit).zip(self.charged_each()))
            .finish()
    }
}

/// Units that have been taken and may yet be given back. Dropping it gives them back.
///
/// It can be kept anywhere and ended by any thread: it owns a hash of the key, and refers to the store.
#[derive(Debug)]
#[must_use = "a reservation that is dropped gives its units back"]
pub struct Reservation {
    receipt: Option<Receipt>,
}

impl Reservation {
    /// The reservation of an admitted request: its parts, without tokens yet, and the verdicts on them.
    pub(crate) fn new(mut parts: Vec<Part>, verdicts: &[Verdict]) -> Self {
        for (i, verdict) in verdicts.iter().enumerate().take(parts.len()) {
            parts[i].token = verdict.token();
            if verdict.cost() > 0 && parts[i].token.is_none() {
                // It was charged together with another check. One that shares an overflow state with it goes by
                // that one's key from now on, as if it had been named twice.
                let shares = |part: &Part| {
                    part.id == parts[i].id
                        && Arc::ptr_eq(&part.store, &parts[i].store)
                        && part.token.is_some_and(|token| token.is_of_overflow())
                };
                let is_twin = parts[..i].iter().any(|part| part.is_same_key(&parts[i]));
                if let Some(other) = parts[..i].iter().position(shares).filter(|_| !is_twin) {
                    parts[i].hash = parts[other].hash;
                }
            }
        }
        Self { receipt: Some(Receipt { checks: parts.len(), parts }) }
    }

    /// Of a request without limits.
    pub(crate) const fn of_nothing() -> Self {
        Self { receipt: None }
    }

    /// Makes the admission final. The receipt can still give it back.
    pub fn keep(mut self) -> Receipt {
        self.receipt.take().unwrap_or(Receipt::NOTHING)
    }

    /// Makes the admission final at what it has turned out to cost: `actual` units of every limit.
    ///
    /// - Less than was reserved gives the difference back, by the same safe rule as a
    ///   [refund](crate::KeyedLimiter::refund): a bucket gives back what has not drained meanwhile, a window what it
    ///   still counts, a queue the end of its last place.
    /// - More takes what is there of the difference, down to empty and not below. [`Receipt::charged`] says how
    ///   much was charged in all.
    ///
    /// Each limit goes as far as it can, whatever the others do. A key that was named twice is charged twice.
    ///
    /// ```
    /// # use ratekeeper::{KeyedLimiter, Limit, ManualClock};
    /// let tokens = KeyedLimiter::builder(Limit::per_minute(1_000)).clock(ManualClock::new()).build()?;
    /// let reservation = tokens.reserve("tenant-7", 400).expect("an estimate that fits");
    /// assert_eq!(tokens.peek("tenant-7").remaining(), 600);
    /// let receipt = reservation.settle(250); // the model was brief
    /// assert_eq!((receipt.charged(), tokens.peek("tenant-7").remaining()), (250, 750));
    ///
    /// let receipt = tokens.reserve("tenant-7", 700).expect("another").settle(900);
    /// assert_eq!((receipt.charged(), tokens.peek("tenant-7").remaining()), (750, 0));
    /// # Ok::<(), ratekeeper::BuildError>(())
    /// ```
    ///
    /// An admission is settled once:
    ///
    /// ```compile_fail,E0382
    /// # use ratekeeper::{KeyedLimiter, Limit};
    /// let reservation = KeyedLimiter::new(Limit::per_minute(1_000)).reserve("tenant-7", 400).expect("fits");
    /// let receipt = reservation.settle(250);
    /// let again = reservation.settle(0);
    /// ```
    pub fn settle(self, actual: u64) -> Receipt {
        self.settle_by(|_| Some(actual))
    }

    /// The same with a number for each check of the request, in order. A check without a number keeps what
    /// it has reserved, numbers without a check are not looked at; what is said of a key that was named twice
    /// is added up.
    ///
    /// ```
    /// # use ratekeeper::{KeyedLimiter, Limit, Limiter, all};
    /// let requests = KeyedLimiter::new(Limit::per_hour(10));
    /// let tokens = KeyedLimiter::new(Limit::per_hour(1_000));
    /// let both = all([requests.check("ann"), tokens.check("ann").cost(500)]);
    /// let receipt = both.reserve()?.settle_each(&[1, 20]);
    /// assert_eq!(receipt.charged_each().collect::<Vec<_>>(), [1, 20]);
    /// # Ok::<(), ratekeeper::Refused>(())
    /// ```
    pub fn settle_each(self, actual: &[u64]) -> Receipt {
        self.settle_by(|check| actual.get(check).copied())
    }

    fn settle_by(self, actual: impl Fn(usize) -> Option<u64>) -> Receipt {
        let mut receipt = self.keep();
        receipt.settle(actual);
        receipt
    }

    /// Gives the units back now, as dropping does.
    pub fn cancel(self) {}
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(receipt) = self.receipt.take() {
            receipt.give_back();
        }
    }
}
