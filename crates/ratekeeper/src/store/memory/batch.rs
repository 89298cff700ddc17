//! Many decisions at a time: their buckets come from memory together instead of one after another.

use ratekeeper_core::{Ask, Check, Decision, MAX_LIMITS, Micros, StoreError, Verdict};
use smallvec::SmallVec;

use super::query::Query;
use super::table::{Bucket, Hash};
use super::{Inner, MemoryStore, decide_queries};

/// Keys whose buckets are on their way at once: what is in sight is fetched together, and then one latency is
/// waited for. A decision at a million keys took 97 ns with 4, 75 with 8, 68 with 16, 63 with 32; a core has not
/// many more misses under way than that.
pub(crate) const CHUNK: usize = 32;

/// One request of a batch: see [`MemoryStore::decide_batch`].
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Its limits, at most [`MAX_LIMITS`], decided all or nothing.
    pub checks: &'a [Check<'a>],
    /// Whether the units are taken or looked at.
    pub ask: Ask,
}

impl Inner {
    /// Asks memory for the first bucket of each of these keys, and waits for none. Nothing else happens in
    /// this loop: what a processor overlaps is what it sees ahead of the first load that has not come back.
    #[inline(always)]
    pub(crate) fn touch(&self, hashes: impl IntoIterator<Item = Hash>) {
        for hash in hashes {
            self.words.first(self.words.first_index(hash)).touch();
        }
    }

    /// A reading of a clock that never steps back, for decisions that follow: state that is newer by then is taken
    /// as it is. None of one that may step back: that is read under each decision's lock, or what it heals was not
    /// ill.
    #[inline(always)]
    pub(crate) fn reading_ahead(&self) -> Option<Micros> {
        if self.clock.heals() { None } else { Some(self.clock.now()) }
    }

    /// Decides one limit of several questions in turn, by one reading as far as that goes: no decision may be
    /// older than one before it, or it would be refused units that have come in since.
    #[inline(always)]
    pub(crate) fn decide_in_turn(&self, query: &Query<'_>, ask: Ask, early: &mut Option<Micros>) -> Verdict {
        self.decide_one_at(query, ask, *early, || *early = self.reading_ahead())
    }

    /// The same for the bucket of one limit, wherever its states lie.
    pub(crate) fn touch_for(&self, query: &Query<'_>) {
        match self.logs_of(query) {
            Some(logs) => logs.first(logs.first_index(query.hash)).touch(),
            None => self.touch([query.hash]),
        }
    }
}

impl MemoryStore {
    /// Decides many requests, in order and each for itself: the answers are those of [`MemoryStore::decide_now`]
    /// one after another, at a fraction of the time where the table is larger than the processor's caches.
    ///
    /// The process clock is read once for 32 requests of one limit; other clocks at each decision.
    ///
    /// ```
    /// use ratekeeper::{Ask, Check, Limit, MemoryStore, Name, NamedLimit, Question};
    /// let policy = Name::new("api")?;
    /// let minute = NamedLimit::new(&policy, Name::new("minute")?, Limit::per_minute(2));
    /// let store = MemoryStore::builder().max_keys(100_000).build()?;
    /// let check = |key| [Check { limit: &minute, key, cost: 1 }];
    /// let checks = ["ann", "bob", "ann", "ann"].map(|key| check(key.into()));
    /// let questions = checks.each_ref().map(|checks| Question { checks, ask: Ask::Acquire });
    /// let mut allowed = Vec::new();
    /// for decision in store.decide_batch(&questions) {
    ///     allowed.push(decision?.allowed);
    /// }
    /// assert_eq!(allowed, [true, true, true, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// For each request by itself those of [`MemoryStore::decide_now`]; the others are decided.
    pub fn decide_batch(&self, questions: &[Question<'_>]) -> Vec<Result<Decision, StoreError>> {
        let mut decisions = Vec::with_capacity(questions.len());
        for chunk in questions.chunks(CHUNK) {
            let mut queries: SmallVec<[Query<'_>; CHUNK]> = SmallVec::new();
            // How many queries each question has, or why none.
            let parts: SmallVec<[Result<usize, StoreError>; CHUNK]> =
                chunk.iter().map(|question| self.add_queries(question.checks, &mut queries)).collect();
            queries.iter().for_each(|query| self.inner.touch_for(query));
            let mut early = self.inner.reading_ahead();
            let mut rest = &queries[..];
            decisions.extend(chunk.iter().zip(parts).map(|(question, parts)| {
                let (own, others) = rest.split_at(parts?);
                rest = others;
                let verdicts = if let [query] = own {
                    vec![self.inner.decide_in_turn(query, question.ask, &mut early)]
                } else {
                    let verdicts = decide_queries(own, question.ask);
                    early = self.inner.reading_ahead();
                    verdicts
                };
                Ok(Decision::of(verdicts))
            }));
        }
        decisions
    }

    /// Adds the queries of a request; how many. None if one of them is not to be had.
    fn add_queries<'q>(
        &'q self,
        checks: &[Check<'q>],
        queries: &mut SmallVec<[Query<'q>; CHUNK]>,
    ) -> Result<usize, StoreError> {
        if checks.len() > MAX_LIMITS {
            return Err(StoreError::TooManyLimits);
        }
        let before = queries.len();
        for check in checks {
            // A batch asks few limits many times: the number of their parameters is looked up once.
            let known = queries.iter().find(|query| std::ptr::eq(query.limit, check.limit.limit()));
            let query = match known.map(|query| query.shape) {
                Some(shape) => Ok(self.query_of(check, shape)),
                None => self.query(check),
            };
            match query {
                Ok(query) => queries.push(query),
                Err(error) => {
                    queries.truncate(before);
                    return Err(error);
                }
            }
        }
        Ok(checks.len())
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
