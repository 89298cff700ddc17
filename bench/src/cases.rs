//! Who is measured, and at what.

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::DefaultClock;
use governor::state::keyed::{DashMapStateStore, DefaultKeyedStateStore};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use ratekeeper::{Algorithm, Clock as _, KeyedLimiter, Limit, Limiter, ProcessClock};

use crate::alternative::Sharded;
use crate::keys::{Stream, text};
use crate::latency::Probe;
use crate::measure::{Case, Load, Loop};

pub(crate) const GOVERNOR_STRING: &str = "governor, String (its default)";
pub(crate) const GOVERNOR_FAST: &str = "governor, String, foldhash";
pub(crate) const GOVERNOR_NUMBER: &str = "governor, u64 (its default)";
pub(crate) const GOVERNOR_DIRECT: &str = "governor, no key";
pub(crate) const RATEKEEPER_TEXT: &str = "ratekeeper, &str";
pub(crate) const RATEKEEPER_BATCH: &str = "ratekeeper, &str, 16 at a time";
pub(crate) const RATEKEEPER_NUMBER: &str = "ratekeeper, u64";
pub(crate) const RATEKEEPER_DIRECT: &str = "ratekeeper, no key";
pub(crate) const RATEKEEPER_LIVE: &str = "ratekeeper, &str, keys that stay live";
pub(crate) const RATEKEEPER_ROOMY: &str = "ratekeeper, &str, twice the room";
pub(crate) const SHARDED: &str = "64 shards of Mutex<HashMap<fingerprint, state>>";
pub(crate) const NEWCOMERS: &str = "ratekeeper, u64, every key new";
pub(crate) const LOOP: &str = "the loop alone";
pub(crate) const LOOP_WRITING: &str = "the loop alone, writing the key";
pub(crate) const LOADS: &str = "a line of 44 MB in random order";
pub(crate) const LOADS_DEPENDENT: &str = "… each address known only when the last line has arrived";
pub(crate) const LOADS_CLOCK: &str = "… with a reading of the clock in between";
pub(crate) const CLOCK_OURS: &str = "ratekeeper's ProcessClock";
pub(crate) const CLOCK_QUANTA: &str = "quanta";
pub(crate) const CLOCK_STD: &str = "std Instant";

pub(crate) const MILLION: u64 = 1_000_000;
pub(crate) const MANY: u64 = 100_000;
pub(crate) const SIZES: [u64; 3] = [1, MANY, MILLION];

/// So often that nearly all are allowed.
pub(crate) const OFTEN: Limit = Limit::per_second(1_000_000_000);
/// So rarely that all but the first are denied.
const RARELY: Limit = Limit::per_hour(1);
/// Keys that are used every second stay above fresh, and all is allowed.
const LIVE: Limit = Limit::per_hour(1_000_000).burst(1_000_000);

/// The other algorithms, for information: name, limit.
pub(crate) const ALGORITHMS: [(&str, Limit); 7] = [
    ("token-bucket, 10⁹ a second", OFTEN),
    ("gcra, 10⁹ a second", OFTEN.algorithm(Algorithm::Gcra)),
    ("fixed-window, 10⁹ a second", OFTEN.algorithm(Algorithm::FixedWindow)),
    ("sliding-window-counter, 10⁹ a second", OFTEN.algorithm(Algorithm::SlidingWindowCounter)),
    (
        "sliding-window-log, 10 in 10 ms",
        Limit::per(10, Duration::from_millis(10)).algorithm(Algorithm::SlidingWindowLog),
    ),
    ("sliding-window-log, 10 an hour", Limit::per_hour(10).algorithm(Algorithm::SlidingWindowLog)),
    ("leaky-bucket with a queue, 10⁹ a second", OFTEN.algorithm(Algorithm::LeakyBucket).queue(999_999_999)),
];

pub(crate) type GovernorKeyed<K> = RateLimiter<K, DefaultKeyedStateStore<K>, DefaultClock>;
type GovernorFast = RateLimiter<String, DashMapStateStore<String, foldhash::fast::RandomState>, DefaultClock>;

pub(crate) fn governor_quota() -> Quota {
    Quota::per_second(NonZeroU32::new(1_000_000_000).unwrap_or(NonZeroU32::MIN))
}

fn governor_rare_quota() -> Quota {
    Quota::per_hour(NonZeroU32::MIN)
}

pub(crate) fn ratekeeper_keyed(limit: Limit, max_keys: u64) -> KeyedLimiter {
    KeyedLimiter::builder(limit).max_keys(max_keys).build().expect("the machine has room for the table")
}

/// A keyed limiter for the table's sizes: what `new` gives, and room for all where that is not enough.
fn ratekeeper_sized(limit: Limit, keys: u64) -> KeyedLimiter {
    if keys <= MANY { KeyedLimiter::new(limit) } else { ratekeeper_keyed(limit, keys) }
}

/// The measured loop; one copy of the machine code for each subject.
fn stream_loop<K: Send + Sync + 'static>(
    stream: &Arc<Stream>,
    keys: impl Fn(&Stream) -> &[K] + Send + Sync + 'static,
    decide: impl Fn(&K) -> bool + Send + Sync + 'static,
) -> Loop {
    let stream = Arc::clone(stream);
    Arc::new(move |offset, count| {
        let keys = keys(&stream);
        // Lengths are powers of two.
        let mask = keys.len() - 1;
        let mut allowed = 0;
        for i in offset..offset + count {
            let answer = black_box(decide(black_box(&keys[i & mask])));
            allowed += usize::from(answer);
        }
        allowed
    })
}

fn texts(stream: &Arc<Stream>, decide: impl Fn(&String) -> bool + Send + Sync + 'static) -> Loop {
    stream_loop(stream, |stream| &stream.texts, decide)
}

/// Keys of a batch.
pub(crate) const BATCH: usize = 16;

/// The same, several keys at a time.
fn batches(stream: &Arc<Stream>, table: KeyedLimiter) -> Loop {
    let stream = Arc::clone(stream);
    Arc::new(move |offset, count| {
        let keys = &stream.texts;
        let (mut allowed, mut verdicts) = (0, Vec::with_capacity(BATCH));
        for batch in offset / BATCH..offset / BATCH + count.div_ceil(BATCH) {
            // A stream of one key is asked for it as often.
            let place = batch * BATCH & (keys.len() - 1);
            verdicts.clear();
            match keys.get(place..place + BATCH) {
                Some(keys) => table.try_acquire_batch(black_box(keys), &mut verdicts),
                None => table.try_acquire_batch(black_box([&keys[0]; BATCH]), &mut verdicts),
            }
            let answers = black_box(&verdicts);
            allowed += answers.iter().filter(|verdict| verdict.allowed()).count();
        }
        allowed
    })
}

fn numbers(stream: &Arc<Stream>, decide: impl Fn(&u64) -> bool + Send + Sync + 'static) -> Loop {
    stream_loop(stream, |stream| &stream.numbers, decide)
}

/// The same with the key's bytes written one by one just before each decision: the hash has to wait until they
/// have arrived, and that waits for all that went before.
fn written(stream: &Arc<Stream>, decide: impl Fn(&String) -> bool + Send + Sync + 'static) -> Loop {
    let stream = Arc::clone(stream);
    Arc::new(move |offset, count| {
        let keys = &stream.texts;
        let mask = keys.len() - 1;
        let (mut allowed, mut key) = (0, String::with_capacity(64));
        for i in offset..offset + count {
            key.clear();
            for byte in keys[i & mask].bytes() {
                key.push(char::from(black_box(byte)));
            }
            let answer = black_box(decide(black_box(&key)));
            allowed += usize::from(answer);
        }
        allowed
    })
}

fn repeat(once: impl Fn() -> bool + Send + Sync + 'static) -> Loop {
    Arc::new(move |_, count| (0..count).filter(|_| black_box(once())).count())
}

/// Shows every key to a map, once.
fn fill_texts(keys: u64, decide: impl Fn(&String) -> bool) {
    for number in 0..keys {
        black_box(decide(&text(number)));
    }
}

fn fill_numbers(keys: u64, decide: impl Fn(&u64) -> bool) {
    for number in 0..keys {
        black_box(decide(&number));
    }
}

#[derive(Default)]
struct Cases {
    cases: Vec<Case>,
}

impl Cases {
    fn add(&mut self, subject: &'static str, load: Load, keys: u64, threads: &[usize], run: &Loop) {
        for threads in threads {
            self.cases.push(Case::new(subject, load, keys, *threads, run));
        }
    }

    /// The subjects of one cell stand next to each other, so that they are measured one after another.
    fn keyed(&mut self, load: Load, keys: u64, streams: &Arc<Stream>, probes: &mut Vec<Probe>) {
        let (quota, limit) = match load {
            Load::Denied => (governor_rare_quota(), RARELY),
            _ => (governor_quota(), OFTEN),
        };
        let both = &[1, 2];

        let map: Arc<GovernorKeyed<String>> = Arc::new(RateLimiter::keyed(quota));
        fill_texts(keys, |key| map.check_key(key).is_ok());
        let governor = Arc::clone(&map);
        let run = texts(streams, move |key| governor.check_key(key).is_ok());
        self.add(GOVERNOR_STRING, load, keys, both, &run);

        let table = ratekeeper_sized(limit, keys);
        fill_texts(keys, |key| table.try_acquire(key.as_str()).allowed());
        let ours = table.clone();
        let run = texts(streams, move |key| ours.try_acquire(key.as_str()).allowed());
        self.add(RATEKEEPER_TEXT, load, keys, both, &run);

        self.add(RATEKEEPER_BATCH, load, keys, both, &batches(streams, table.clone()));

        if load == Load::Allowed && keys > 1 {
            let (governor, ours) = (Arc::clone(&map), table.clone());
            let run = written(streams, move |key| governor.check_key(key).is_ok());
            self.add(GOVERNOR_STRING, Load::OneAtATime, keys, &[1], &run);
            let run = written(streams, move |key| ours.try_acquire(key.as_str()).allowed());
            self.add(RATEKEEPER_TEXT, Load::OneAtATime, keys, &[1], &run);
        }
        if load == Load::Allowed {
            let map: GovernorFast = RateLimiter::dashmap_with_hasher(quota, Default::default());
            fill_texts(keys, |key| map.check_key(key).is_ok());
            let run = texts(streams, move |key| map.check_key(key).is_ok());
            self.add(GOVERNOR_FAST, load, keys, both, &run);
        }
        if load == Load::Allowed && keys == MILLION {
            self.at_a_million(streams, probes, map, table);
        }

        let map: GovernorKeyed<u64> = RateLimiter::keyed(quota);
        fill_numbers(keys, |key| map.check_key(key).is_ok());
        let run = numbers(streams, move |key| map.check_key(key).is_ok());
        self.add(GOVERNOR_NUMBER, load, keys, both, &run);

        let table = ratekeeper_sized(limit, keys);
        fill_numbers(keys, |key| table.try_acquire(*key).allowed());
        let run = numbers(streams, move |key| table.try_acquire(*key).allowed());
        self.add(RATEKEEPER_NUMBER, load, keys, both, &run);
    }

    /// What is asked at a million keys only.
    fn at_a_million(
        &mut self,
        stream: &Arc<Stream>,
        probes: &mut Vec<Probe>,
        governor: Arc<GovernorKeyed<String>>,
        table: KeyedLimiter,
    ) {
        let both = &[1, 2];
        let room = usize::try_from(MILLION).expect("a million");
        let map = Arc::new(Sharded::new(OFTEN, room));
        fill_texts(MILLION, |key| map.try_acquire(key).allowed());
        let sharded = Arc::clone(&map);
        let run = texts(stream, move |key| sharded.try_acquire(key).allowed());
        self.add(SHARDED, Load::Allowed, MILLION, both, &run);

        for (subject, limit, max_keys) in
            [(RATEKEEPER_LIVE, LIVE, MILLION), (RATEKEEPER_ROOMY, OFTEN, 2 * MILLION)]
        {
            let table = ratekeeper_keyed(limit, max_keys);
            fill_texts(MILLION, |key| table.try_acquire(key.as_str()).allowed());
            let run = texts(stream, move |key| table.try_acquire(key.as_str()).allowed());
            self.add(subject, Load::Allowed, MILLION, both, &run);
        }

        let mut probe = |subject, decide: Box<dyn Fn(&String) -> bool>| {
            let stream = Arc::clone(stream);
            probes.push(Probe { subject, stream, decide });
        };
        probe("nothing: the timer alone", Box::new(|_| true));
        probe(GOVERNOR_STRING, Box::new(move |key| governor.check_key(key).is_ok()));
        probe(RATEKEEPER_TEXT, Box::new(move |key| table.try_acquire(key.as_str()).allowed()));
        probe(SHARDED, Box::new(move |key| map.try_acquire(key).allowed()));
    }

    fn without_key(&mut self, load: Load) {
        let (quota, limit) = match load {
            Load::Denied => (governor_rare_quota(), RARELY),
            _ => (governor_quota(), OFTEN),
        };
        let governor: DefaultDirectRateLimiter = RateLimiter::direct(quota);
        let run = repeat(move || governor.check().is_ok());
        self.add(GOVERNOR_DIRECT, load, 0, &[1, 2], &run);
        let ours = Limiter::new(limit);
        let run = repeat(move || ours.try_acquire().allowed());
        self.add(RATEKEEPER_DIRECT, load, 0, &[1, 2], &run);
    }

    fn algorithms(&mut self, stream: &Arc<Stream>) {
        for (name, limit) in ALGORITHMS {
            let table = KeyedLimiter::new(limit);
            // A log is filled to its limit.
            let visits = if limit.kind() == Algorithm::SlidingWindowLog { 10 } else { 1 };
            for _ in 0..visits {
                fill_texts(MANY, |key| table.try_acquire(key.as_str()).allowed());
            }
            let run = texts(stream, move |key| table.try_acquire(key.as_str()).allowed());
            self.add(name, Load::Information, MANY, &[1], &run);
        }
    }

    fn newcomers(&mut self) {
        let table = KeyedLimiter::new(OFTEN);
        let next = AtomicU64::new(0);
        let newcomer = move || {
            let key = next.load(Ordering::Relaxed);
            next.store(key + 1, Ordering::Relaxed);
            table.try_acquire(key).allowed()
        };
        // Until the table has no empty place.
        for _ in 0..10 * MANY {
            newcomer();
        }
        let run = repeat(newcomer);
        self.add(NEWCOMERS, Load::Information, MANY, &[1], &run);
    }

    /// What memory alone costs at a million keys, and whether misses overlap when the clock is read in between:
    /// on some processors it waits for all loads before it.
    fn loads(&mut self, stream: &Arc<Stream>) {
        #[repr(align(128))]
        struct Line(AtomicU64);
        let lines: Arc<Vec<Line>> = Arc::new((0..343_000).map(|_| Line(AtomicU64::new(0))).collect());
        let load = |lines: &[Line], key: u64| {
            // Spread without a division.
            let place = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) as u128 * lines.len() as u128) >> 64;
            lines[place as usize].0.load(Ordering::Relaxed)
        };

        let all = Arc::clone(&lines);
        let run = numbers(stream, move |key| load(&all, *key) == 0);
        self.add(LOADS, Load::Information, MILLION, &[1], &run);

        let (all, clock) = (Arc::clone(&lines), quanta::Clock::new());
        let run = numbers(stream, move |key| load(&all, *key) == 0 && black_box(clock.raw()) > 0);
        self.add(LOADS_CLOCK, Load::Information, MILLION, &[1], &run);

        let keys = Arc::clone(stream);
        let run: Loop = Arc::new(move |offset, count| {
            let (keys, mut last) = (&keys.numbers, 0);
            for i in offset..offset + count {
                // Always zero, which only we know.
                last = load(&lines, keys[i & (keys.len() - 1)] + last);
            }
            count + last as usize
        });
        self.add(LOADS_DEPENDENT, Load::Information, MILLION, &[1], &run);
    }

    fn floors(&mut self, stream: &Arc<Stream>) {
        let run = texts(stream, |_| true);
        self.add(LOOP, Load::Information, MILLION, &[1], &run);
        let run = written(stream, |_| true);
        self.add(LOOP_WRITING, Load::Information, MILLION, &[1], &run);
        self.loads(stream);
        let run = repeat(|| black_box(ProcessClock.now()).get() > 0);
        self.add(CLOCK_OURS, Load::Information, 0, &[1], &run);
        let clock = quanta::Clock::new();
        let run = repeat(move || {
            black_box(clock.now());
            true
        });
        self.add(CLOCK_QUANTA, Load::Information, 0, &[1], &run);
        let run = repeat(|| {
            black_box(std::time::Instant::now());
            true
        });
        self.add(CLOCK_STD, Load::Information, 0, &[1], &run);
    }
}

/// All cases in the order in which they are measured, and the subjects whose single decisions are timed.
pub(crate) fn all() -> (Vec<Case>, Vec<Probe>) {
    let (mut cases, mut probes) = (Cases::default(), Vec::new());
    for keys in SIZES {
        let stream = Arc::new(Stream::new(keys));
        for load in [Load::Allowed, Load::Denied] {
            cases.keyed(load, keys, &stream, &mut probes);
        }
        match keys {
            1 => {}
            MANY => cases.algorithms(&stream),
            _ => cases.floors(&stream),
        }
    }
    cases.without_key(Load::Allowed);
    cases.without_key(Load::Denied);
    cases.newcomers();
    (cases.cases, probes)
}
