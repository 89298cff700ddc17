//! Many callers at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;

use crate::Failed;
use crate::cases::Subject;
use crate::server::Server;

/// Callers, each with one decision under way.
pub(crate) const CALLERS: u64 = 64;
/// Keys that they ask about, in no order.
pub(crate) const KEYS: u64 = 50_000;

/// What a load came to.
pub(crate) struct Sample {
    pub(crate) per_second: f64,
    /// Microseconds of the server for each decision.
    pub(crate) redis_us: f64,
    /// Microseconds of this process for each decision.
    pub(crate) client_us: f64,
    /// The share that was allowed.
    pub(crate) allowed: f64,
}

/// Processor time of this process in microseconds; a tick is 10 ms wherever the kernel shows it.
fn own_cpu_us() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may contain anything; `utime` and `stime` are fields 14 and 15.
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks: u64 = rest.split(' ').skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
    ticks as f64 * 1e4
}

/// The next number of a row without end; its upper bits are as good as random.
const fn next(seed: u64) -> u64 {
    seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

/// Loads the server for a while.
pub(crate) fn sample(
    runtime: &Runtime,
    server: &mut Server,
    subject: &Subject,
    span: Duration,
) -> Result<Sample, Failed> {
    let (is_over, allowed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (redis, own, begun) = (server.used_cpu_us()?, own_cpu_us(), Instant::now());
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let (subject, is_over, allowed) = (subject.clone(), Arc::clone(&is_over), Arc::clone(&allowed));
            runtime.spawn(async move {
                let (mut seed, mut count) = (caller, 0_u64);
                while !is_over.load(Relaxed) {
                    seed = next(seed);
                    if subject.decide((seed >> 33) % KEYS).await? {
                        allowed.fetch_add(1, Relaxed);
                    }
                    count += 1;
                }
                Ok::<u64, Failed>(count)
            })
        })
        .collect();
    // Callers are loaded for so long in real time.
    std::thread::sleep(span);
    is_over.store(true, Relaxed);
    let mut decisions = 0;
    for caller in callers {
        decisions += runtime.block_on(caller)??;
    }
    let seconds = begun.elapsed().as_secs_f64();
    let decisions = decisions as f64;
    Ok(Sample {
        per_second: decisions / seconds,
        redis_us: (server.used_cpu_us()? - redis) / decisions,
        client_us: (own_cpu_us() - own) / decisions,
        allowed: allowed.load(Relaxed) as f64 / decisions,
    })
}

/// Asks every one of these keys so many times, many at once.
pub(crate) fn fill(runtime: &Runtime, subject: &Subject, keys: u64, times: u64) -> Result<(), Failed> {
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let subject = subject.clone();
            runtime.spawn(async move {
                for key in (caller..keys).step_by(CALLERS as usize) {
                    for _ in 0..times {
                        subject.decide(key).await?;
                    }
                }
                Ok::<(), Failed>(())
            })
        })
        .collect();
    for caller in callers {
        runtime.block_on(caller)??;
    }
    Ok(())
}
