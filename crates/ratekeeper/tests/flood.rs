//! Strangers who make up keys take no memory and free no key that is limited. A process of its own, so that its
//! memory can be measured.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on may stop")]

use std::sync::Mutex;

use ratekeeper::{Algorithm, KeyedLimiter, Limit, ManualClock, OnFull, Source, hours, minutes, seconds};

/// Debug builds would take a minute for what a release build does in seconds.
const FLOOD: u64 = if cfg!(debug_assertions) { 1_000_000 } else { 10_000_000 };
const MAX_KEYS: u64 = 100_000;
const LOG_BYTES: u64 = 32 << 20;

/// One flood at a time: memory is the whole process's.
static ALONE: Mutex<()> = Mutex::new(());

/// Resident memory in bytes, where the system tells.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kb| kb * 1_024)
}

fn flood(limit: Limit, on_full: OnFull, strangers: u64) {
    let clock = ManualClock::new();
    let limiter = KeyedLimiter::builder(limit)
        .max_keys(MAX_KEYS)
        .max_bytes(LOG_BYTES)
        .on_full(on_full)
        .clock(&clock)
        .build()
        .unwrap();
    let limited = 0..100_u64;
    for key in limited.clone() {
        (0..3).for_each(|_| assert!(limiter.try_acquire(key).allowed()));
    }
    // Once strangers find no place any more, nothing may grow.
    let mut before = None;
    let mut placeless = 0_u64;
    for stranger in 0..strangers {
        let verdict = limiter.try_acquire(1_000_000 + stranger);
        placeless += u64::from(verdict.source() == Source::Overflow);
        if before.is_none() && placeless > 1_000 {
            before = resident();
        }
        if stranger.is_multiple_of(strangers / 20) {
            for key in limited.clone() {
                let verdict = limiter.try_acquire(key);
                assert!(!verdict.allowed(), "{limit:?}: key {key} stays limited after {stranger} strangers");
                assert_eq!(verdict.source(), Source::Exact);
            }
        }
    }
    assert!(placeless > strangers / 10, "{limit:?}: the flood did overflow, {placeless} times");
    if let (Some(before), Some(after)) = (before, resident()) {
        let grown = after.saturating_sub(before);
        // Entries of logs are allocated within their bound; everything else was there from the start.
        let is_log = limit.kind() == Algorithm::SlidingWindowLog;
        let may_grow = if is_log { LOG_BYTES } else { 256 << 10 };
        assert!(grown < may_grow, "{limit:?}: {grown} bytes more after {strangers} keys");
    }
    // Once all of it has drained, ordinary keys find places again.
    clock.advance(hours(3));
    for key in 0..MAX_KEYS {
        assert_eq!(limiter.try_acquire(u64::MAX - key).source(), Source::Exact, "{limit:?}");
    }
}

#[test]
fn a_flood_of_made_up_keys_takes_no_memory_and_frees_no_limited_key() {
    let _alone = ALONE.lock();
    let three_an_hour = Limit::per(3, hours(1));
    flood(three_an_hour, OnFull::Share, FLOOD);
    flood(three_an_hour, OnFull::Deny, FLOOD / 5);
    flood(three_an_hour.algorithm(Algorithm::SlidingWindowLog), OnFull::Share, FLOOD / 5);
}

#[test]
fn keys_of_a_flood_that_drains_as_it_comes_are_all_exact() {
    let _alone = ALONE.lock();
    // A thousand strangers a second, forgotten after a minute: 60,000 live at a time in a table for 100,000.
    let clock = ManualClock::new();
    let limiter =
        KeyedLimiter::builder(Limit::per(1, minutes(1))).max_keys(MAX_KEYS).clock(&clock).build().unwrap();
    for second in 0..FLOOD / 1_000 / 4 {
        for stranger in 0..1_000_u64 {
            let verdict = limiter.try_acquire((second, stranger));
            assert!(verdict.allowed());
            assert_eq!(verdict.source(), Source::Exact, "second {second}");
        }
        clock.advance(seconds(1));
    }
}
