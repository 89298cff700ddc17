//! Bytes per key: growth of resident memory, in a fresh process for each map.

use std::hint::black_box;
use std::process::Command;

use ratekeeper::KeyedLimiter;

use crate::cases::{self, MILLION};

pub(crate) const SUBCOMMAND: &str = "memory-of";

pub(crate) const SUBJECTS: [&str; 4] =
    [cases::GOVERNOR_STRING, cases::GOVERNOR_NUMBER, cases::RATEKEEPER_TEXT, cases::RATEKEEPER_NUMBER];

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1_024)
}

/// Makes the map, gives it a million keys, and says by how much the process has grown.
pub(crate) fn grow(subject: &str) -> Option<u64> {
    fn growth<M>(make: impl FnOnce() -> M, each: impl Fn(&M, u64, &mut String)) -> Option<u64> {
        // The clocks are made, and the key's text exists, before we begin to count.
        let mut text = String::with_capacity(64);
        black_box(ratekeeper::Clock::now(&ratekeeper::ProcessClock));
        black_box(governor::clock::Clock::now(&governor::clock::DefaultClock::default()));
        let before = resident_bytes()?;
        let map = black_box(make());
        for number in 0..MILLION {
            each(&map, number, &mut text);
        }
        let after = resident_bytes()?;
        black_box(&map);
        after.checked_sub(before)
    }
    fn rewrite(text: &mut String, number: u64) {
        use std::fmt::Write as _;
        text.clear();
        let _ = write!(text, "user:{number:07}");
    }
    match subject {
        cases::GOVERNOR_STRING => growth(
            || governor::RateLimiter::keyed(cases::governor_quota()),
            |map: &cases::GovernorKeyed<String>, number, text| {
                rewrite(text, number);
                black_box(map.check_key(text).is_ok());
            },
        ),
        cases::GOVERNOR_NUMBER => growth(
            || governor::RateLimiter::keyed(cases::governor_quota()),
            |map: &cases::GovernorKeyed<u64>, number, _| {
                black_box(map.check_key(&number).is_ok());
            },
        ),
        cases::RATEKEEPER_TEXT => growth(
            || cases::ratekeeper_keyed(cases::OFTEN, MILLION),
            |map: &KeyedLimiter, number, text| {
                rewrite(text, number);
                black_box(map.try_acquire(text.as_str()).allowed());
            },
        ),
        cases::RATEKEEPER_NUMBER => growth(
            || cases::ratekeeper_keyed(cases::OFTEN, MILLION),
            |map: &KeyedLimiter, number, _| {
                black_box(map.try_acquire(number).allowed());
            },
        ),
        _ => None,
    }
}

/// Bytes per key of each subject, where it can be measured.
pub(crate) fn all() -> Vec<(&'static str, Option<f64>)> {
    let grown = |subject: &str| {
        let program = std::env::current_exe().ok()?;
        let output = Command::new(program).args([SUBCOMMAND, subject]).output().ok()?;
        let bytes: u64 = String::from_utf8(output.stdout).ok()?.trim().parse().ok()?;
        Some(bytes as f64 / MILLION as f64)
    };
    SUBJECTS.map(|subject| (subject, grown(subject))).to_vec()
}
