#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

use std::sync::Arc;
use std::time::Duration;

use ratekeeper_core::{Algorithm, Clock, Key, Limit, ManualClock, Micros, Name, NamedLimit};
use ratekeeper_testkit::property;

use super::*;
use crate::{KeyedLimiter, OnFull};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn of<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.below(these.len() as u64) as usize]
    }
}

/// Set by hand, but said never to step back.
struct Steady(ManualClock);

impl Clock for Steady {
    fn now(&self) -> Micros {
        self.0.now()
    }

    fn may_step_back(&self) -> bool {
        false
    }
}

/// A store like `twin`, with the same seed: the same keys meet in the same buckets.
fn store_like(twin: Option<&MemoryStore>, max_keys: u64, share: bool, clock: Arc<dyn Clock>) -> MemoryStore {
    let on_full = if share { OnFull::Share } else { OnFull::Deny };
    let builder = MemoryStore::builder().max_keys(max_keys).max_bytes(3_000).on_full(on_full);
    let mut store = builder.clock(clock).build().unwrap();
    if let Some(twin) = twin {
        Arc::get_mut(&mut store.inner).unwrap().seed = twin.inner.seed.clone();
    }
    store
}

/// Every algorithm; and of each name limits of two parameters, so that one key's state is converted to and fro.
fn limits() -> Vec<NamedLimit> {
    let policy = Name::new("p").unwrap();
    let of = |algorithm: Algorithm| {
        let name = Name::new(algorithm.name()).unwrap();
        [Limit::per_minute(5), Limit::per_hour(9)]
            .map(|limit| NamedLimit::new(&policy, name.clone(), limit.algorithm(algorithm)))
    };
    Algorithm::ALL.into_iter().flat_map(of).collect()
}

fn clocks(heals: bool) -> (ManualClock, Arc<dyn Clock>) {
    let hands = ManualClock::at(Micros::new(1_000_000_000));
    let clock: Arc<dyn Clock> = if heals { Arc::new(hands.clone()) } else { Arc::new(Steady(hands.clone())) };
    (hands, clock)
}

fn move_on(random: &mut Random, hands: &ManualClock, heals: bool) {
    match random.below(8) {
        0 if heals => hands.step_back(Duration::from_secs(random.below(90))),
        0..4 => hands.advance(Duration::from_millis(random.below(20_000))),
        4 => hands.advance(Duration::from_secs(7_200)),
        _ => {}
    }
}

fn told(decision: &Result<Decision, StoreError>) -> String {
    let tokens = decision.iter().flat_map(|decision| decision.limits()).map(|verdict| verdict.token());
    format!("{decision:?} {:?}", tokens.collect::<Vec<_>>())
}

fn held(store: &MemoryStore) -> (u64, u64, u64) {
    (store.keys(), store.log_bytes(), store.overflow_decisions())
}

/// Batches on one store, and the same questions one by one on its twin.
fn batches_and_single_decisions_agree(seed: u64, rounds: usize, heals: bool) -> Result<(), String> {
    let mut random = Random(seed);
    let limits = limits();
    let (hands, clock) = clocks(heals);
    let (max_keys, share) = (random.of(&[1, 8, 40]), random.below(2) == 0);
    let alone = store_like(None, max_keys, share, Arc::clone(&clock));
    let together = store_like(Some(&alone), max_keys, share, clock);
    for round in 0..rounds {
        move_on(&mut random, &hands, heals);
        let mut requests: Vec<(Vec<Check<'_>>, Ask)> = Vec::new();
        for _ in 0..random.below(40) {
            let parts = random.of(&[0, 1, 1, 1, 1, 2, 2, 3, MAX_LIMITS as u64 + 1]);
            let of = random.of(&[2, 30]);
            let mut check = |_| Check {
                limit: &limits[random.below(limits.len() as u64) as usize],
                key: random.below(of).into(),
                cost: random.of(&[0, 1, 1, 1, 2, 5, 10]),
            };
            let checks = (0..parts).map(&mut check).collect();
            requests.push((checks, random.of(&[Ask::Acquire, Ask::Acquire, Ask::Peek])));
        }
        let questions: Vec<Question<'_>> =
            requests.iter().map(|(checks, ask)| Question { checks, ask: *ask }).collect();
        let singly: Vec<String> =
            questions.iter().map(|q| told(&alone.decide_now(q.checks, q.ask))).collect();
        let batch: Vec<String> = together.decide_batch(&questions).iter().map(told).collect();
        if let Some(i) = (0..singly.len().max(batch.len())).find(|i| singly.get(*i) != batch.get(*i)) {
            let (one, many) = (singly.get(i), batch.get(i));
            return Err(format!(
                "round {round}, {:?}:\nalone    {one:?}\ntogether {many:?}",
                requests.get(i)
            ));
        }
        if held(&alone) != held(&together) {
            return Err(format!("round {round}: {:?} and {:?} are held", held(&alone), held(&together)));
        }
    }
    Ok(())
}

#[test]
fn a_batch_is_answered_as_its_requests_one_after_another() {
    property::check("batch", 400, (0..u64::MAX, 1_usize..12), |(seed, rounds)| {
        batches_and_single_decisions_agree(seed, rounds, true)?;
        batches_and_single_decisions_agree(seed, rounds, false)
    });
}

/// The same of a keyed limiter, with a limit of its own for some keys or without.
fn keyed_batches_and_single_decisions_agree(seed: u64, heals: bool) -> Result<(), String> {
    let mut random = Random(seed);
    let (hands, clock) = clocks(heals);
    let limit = Limit::per_minute(3).algorithm(random.of(&Algorithm::ALL));
    let (max_keys, plans) = (random.of(&[4, 50]), random.below(2) == 0);
    let build = || {
        let builder = KeyedLimiter::builder(limit).max_keys(max_keys).clock(Arc::clone(&clock));
        let rich = Limit::per_minute(7).algorithm(limit.kind());
        let is_rich = |key: &Key<'_>| *key == Key::from(1) || *key == Key::from(7);
        if plans { builder.limit_for(move |key| is_rich(key).then_some(rich)) } else { builder }.build()
    };
    let (alone, mut together) = (build().unwrap(), build().unwrap());
    let shared = Arc::get_mut(&mut together.shared).unwrap();
    Arc::get_mut(&mut shared.store).unwrap().seed = alone.shared.store.seed.clone();
    let mut verdicts = Vec::new();
    for _ in 0..10 {
        move_on(&mut random, &hands, heals);
        let of = random.of(&[3, 60]);
        let asks: Vec<(u64, u64)> =
            (0..random.below(50)).map(|_| (random.below(of), random.of(&[0, 1, 1, 2, 9]))).collect();
        let before = verdicts.len();
        together.try_acquire_batch_n(asks.iter().copied(), &mut verdicts);
        let singly: Vec<_> = asks.iter().map(|(key, cost)| alone.try_acquire_n(*key, *cost)).collect();
        let told = |verdicts: &[crate::Verdict]| {
            verdicts.iter().map(|verdict| format!("{verdict:?} {:?}", verdict.token())).collect::<Vec<_>>()
        };
        let (singly, batch) = (told(&singly), told(&verdicts[before..]));
        if singly != batch {
            return Err(format!("{limit:?} {asks:?}\nalone    {singly:#?}\ntogether {batch:#?}"));
        }
    }
    Ok(())
}

#[test]
fn a_batch_of_keys_is_answered_as_the_keys_one_after_another() {
    property::check("keyed_batch", 1_500, 0..u64::MAX, |seed| {
        keyed_batches_and_single_decisions_agree(seed, true)?;
        keyed_batches_and_single_decisions_agree(seed, false)
    });
}

#[test]
fn a_batch_reads_a_clock_that_may_step_back_at_each_decision_and_another_once_for_all() {
    /// Goes on by a microsecond at each reading.
    struct Ticking(std::sync::atomic::AtomicU64, bool);
    impl Clock for Ticking {
        fn now(&self) -> Micros {
            Micros::new(self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
        }
        fn may_step_back(&self) -> bool {
            self.1
        }
    }
    for (heals, readings) in [(true, CHUNK as u64), (false, 1)] {
        let ticking = Arc::new(Ticking(1_000.into(), heals));
        let clock: Arc<dyn Clock> = ticking.clone();
        let limiter = KeyedLimiter::builder(Limit::per_minute(100)).clock(clock).build().unwrap();
        let mut verdicts = Vec::new();
        // Where they lie in their first bucket.
        limiter.try_acquire_batch([7; CHUNK], &mut verdicts);
        let before = ticking.0.load(std::sync::atomic::Ordering::SeqCst);
        limiter.try_acquire_batch([7; CHUNK], &mut verdicts);
        assert_eq!(ticking.0.load(std::sync::atomic::Ordering::SeqCst) - before, readings);
    }
}

#[test]
fn a_newcomer_that_comes_twice_in_a_batch_finds_all_of_its_burst() {
    // A newcomer reads the clock again; what it leaves lies ahead of the reading of the batch.
    for algorithm in Algorithm::ALL {
        let limiter = KeyedLimiter::new(Limit::per(2, crate::days(365)).algorithm(algorithm));
        for round in 0..300_u64 {
            let (one, other) = (round, round + 1_000);
            let mut verdicts = Vec::new();
            limiter.try_acquire_batch([one, other, one, one, other], &mut verdicts);
            let allowed: Vec<bool> = verdicts.iter().map(crate::Verdict::allowed).collect();
            assert_eq!(allowed, [true, true, true, false, true], "{algorithm}");
        }
    }
}

#[test]
fn a_request_that_cannot_be_asked_leaves_its_neighbours_alone() {
    let limits = limits();
    let store = store_like(None, 10, true, clocks(true).1);
    let good = [Check { limit: &limits[0], key: "k".into(), cost: 1 }];
    let bad = [good[0]; MAX_LIMITS + 1];
    let question = |checks| Question { checks, ask: Ask::Acquire };
    let answers = store.decide_batch(&[question(&good), question(&bad), question(&good), question(&[])]);
    assert!(matches!(answers[1], Err(StoreError::TooManyLimits)));
    let remaining = |i: usize| answers[i].as_ref().unwrap().remaining;
    assert_eq!((answers.len(), remaining(0), remaining(2)), (4, 4, 3));
    assert!(answers[3].as_ref().unwrap().allowed, "no limit refuses nothing");
}

#[test]
fn a_request_with_one_limit_too_many_for_the_store_leaves_its_other_limits_to_nobody() {
    let policy = Name::new("p").unwrap();
    let named = |limit| NamedLimit::new(&policy, policy.clone(), limit);
    let store = store_like(None, 10, true, clocks(true).1);
    let known = named(Limit::per_hour(9));
    assert!(store.inner.prepare(known.limit()).is_some());
    let shapes = (1..).map_while(|n| store.inner.prepare(&Limit::per_minute(n)));
    assert_eq!(shapes.count(), super::super::shapes::MAX_SHAPES - 1);
    let one_too_many = named(Limit::per_second(1));
    let check = |limit, cost| Check { limit, key: "k".into(), cost };
    let (cheap, dear) = ([check(&known, 1)], [check(&known, 2)]);
    let bad = [check(&known, 5), check(&one_too_many, 1)];
    let question = |checks| Question { checks, ask: Ask::Acquire };
    let answers = store.decide_batch(&[question(&cheap), question(&bad), question(&dear)]);
    assert!(matches!(answers[1], Err(StoreError::TooManyShapes)));
    assert_eq!(answers[2].as_ref().unwrap().remaining, 6);
}
