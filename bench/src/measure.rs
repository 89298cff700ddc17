//! Samples: how long a number of decisions takes, on pinned threads, after a warm-up.

use std::sync::{Arc, Barrier, LazyLock};
use std::time::{Duration, Instant};

use core_affinity::CoreId;

use crate::keys::Random;

/// Decides `count` times from a place in the stream on; how many were allowed.
pub(crate) type Loop = Arc<dyn Fn(usize, usize) -> usize + Send + Sync>;

/// What is asked, to find a case again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Load {
    /// Keys from a ready stream, nearly all allowed.
    Allowed,
    /// Keys from a ready stream, nearly all denied.
    Denied,
    /// The key is written just before each call: nothing overlaps. Nearly all allowed.
    OneAtATime,
    /// No decision at all, or one that has no rival: for information.
    Information,
}

/// What is measured.
pub(crate) struct Case {
    pub(crate) subject: &'static str,
    pub(crate) load: Load,
    pub(crate) keys: u64,
    pub(crate) threads: usize,
    pub(crate) run: Loop,
    /// Decisions of each thread in a sample.
    count: usize,
    /// Nanoseconds per decision, round by round.
    pub(crate) samples: Vec<f64>,
    decided: usize,
    allowed: usize,
    wall: Duration,
    waited: Duration,
}

/// What one sample says.
struct Sample {
    /// Nanoseconds per decision of all threads together: from start to end, without the time in which the
    /// slowest thread had no CPU.
    ns: f64,
    decided: usize,
    allowed: usize,
    wall: Duration,
    waited: Duration,
}

impl Case {
    pub(crate) fn new(subject: &'static str, load: Load, keys: u64, threads: usize, run: &Loop) -> Self {
        Self {
            subject,
            load,
            keys,
            threads,
            run: Arc::clone(run),
            count: 0,
            samples: Vec::new(),
            decided: 0,
            allowed: 0,
            wall: Duration::ZERO,
            waited: Duration::ZERO,
        }
    }

    pub(crate) fn allowed_share(&self) -> f64 {
        self.allowed as f64 / self.decided.max(1) as f64
    }
}

/// One thread's part of a sample.
struct Part {
    /// From start to end.
    wall: Duration,
    /// How much of that it waited for a CPU that other programs had.
    waited: Duration,
    allowed: usize,
}

/// How long this thread has waited for a CPU so far, where the system says so.
fn waited() -> Duration {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = times.split_whitespace().nth(1).and_then(|n| n.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Runs one sample on as many threads as the case says, each on its core.
fn sample(case: &Case, offset: usize) -> Sample {
    let (run, count, threads) = (&case.run, case.count, case.threads);
    let barrier = Barrier::new(threads);
    let one = |thread: usize| {
        let offset = offset.wrapping_add(thread.wrapping_mul(0x55_5555));
        std::hint::black_box(run(offset, count / 8));
        barrier.wait();
        let (waited_before, start) = (waited(), Instant::now());
        let allowed = std::hint::black_box(run(offset.wrapping_add(count / 8), count));
        let (wall, waited) = (start.elapsed(), waited().saturating_sub(waited_before));
        Part { wall, waited, allowed }
    };
    let parts: Vec<Part> = if threads == 1 {
        vec![one(0)]
    } else {
        std::thread::scope(|scope| {
            let one = &one;
            let spawn = |thread| {
                scope.spawn(move || {
                    pin(thread);
                    one(thread)
                })
            };
            let spawned: Vec<_> = (0..threads).map(spawn).collect();
            spawned.into_iter().map(|thread| thread.join().expect("a sample does not panic")).collect()
        })
    };
    let decided = count * threads;
    let ran = parts.iter().map(|part| part.wall.saturating_sub(part.waited)).max();
    Sample {
        ns: ran.unwrap_or_default().as_nanos() as f64 / decided as f64,
        decided,
        allowed: parts.iter().map(|part| part.allowed).sum(),
        wall: parts.iter().map(|part| part.wall).sum(),
        waited: parts.iter().map(|part| part.waited).sum(),
    }
}

/// Puts this thread on the n-th core from the end: the first one often serves the devices.
pub(crate) fn pin(thread: usize) {
    let cores = cores();
    if let Some(core) = cores.iter().rev().nth(thread % cores.len().max(1)) {
        core_affinity::set_for_current(*core);
    }
}

/// The cores that this process may use, as they were before any thread was pinned.
pub(crate) fn cores() -> &'static [CoreId] {
    static CORES: LazyLock<Vec<CoreId>> = LazyLock::new(|| core_affinity::get_core_ids().unwrap_or_default());
    &CORES
}

/// Finds how many decisions make a sample of about `time`.
pub(crate) fn calibrate(cases: &mut [Case], time: Duration) {
    for case in cases {
        case.count = 1 << 14;
        loop {
            let ns = sample(case, 0).ns;
            let wanted = time.as_nanos() as f64 / (ns * case.threads as f64).max(0.1);
            if case.count as f64 * 4.0 > wanted {
                case.count = wanted as usize;
                break;
            }
            case.count *= 4;
        }
    }
}

/// One sample of each case, there and back in turn, from another place in the streams each time.
pub(crate) fn round(cases: &mut [Case], round: usize) {
    let mut random = Random::new(round as u64);
    let mut order: Vec<usize> = (0..cases.len()).collect();
    if round % 2 == 1 {
        order.reverse();
    }
    for index in order {
        let case = &mut cases[index];
        let sample = sample(case, random.next() as usize >> 8);
        case.samples.push(sample.ns);
        case.decided += sample.decided;
        case.allowed += sample.allowed;
        case.wall += sample.wall;
        case.waited += sample.waited;
    }
}

/// The value that so many of a hundred are below.
pub(crate) fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    if sorted.is_empty() {
        return f64::NAN;
    }
    let place = percent / 100.0 * (sorted.len() - 1) as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    low + (high - low) * place.fract()
}

pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 50.0)
}

/// Ours ÷ theirs, round by round: samples of one round were taken at nearly the same time.
pub(crate) fn ratios(ours: &Case, theirs: &Case) -> Vec<f64> {
    ours.samples.iter().zip(&theirs.samples).map(|(ours, theirs)| ours / theirs).collect()
}

/// The share of the measured time in which other programs had the CPU: how quiet the machine was.
pub(crate) fn waited_share(cases: &[Case]) -> f64 {
    let total = |time: fn(&Case) -> Duration| cases.iter().map(time).sum::<Duration>().as_secs_f64();
    total(|case| case.waited) / total(|case| case.wall).max(f64::MIN_POSITIVE)
}
