//! Real Redis servers on free loopback ports, and the tools that break them.
//!
//! - [`RedisServer`]: one `redis-server`, which can be killed, stopped, continued and restarted on its data, and
//!   whose wall clock can be shifted.
//! - [`Cluster`]: several of them as a Redis Cluster, whose slots move step by step.
//! - [`Sentinels`]: a primary, its replicas, and the sentinels that watch them.
//! - [`FaultProxy`]: TCP that is late, silent, cut, or short of one reply.
//! - [`FakeRedis`]: answers that a real server gives only in trouble.
//! - [`history`]: who asked for what and when, and the most that was admitted in any window.
//!
//! Whatever is started is ended with its handle, and nothing else is. Should the test process die without
//! dropping its handles, a guard beside each server ends it. All of it blocks; none of it needs a runtime.
//! A tool that cannot do what it promises panics and says why: it serves tests, where that is the report.

mod cluster;
mod fake;
mod folder;
pub mod history;
mod ports;
mod process;
mod proxy;
mod resp;
mod sentinel;
mod server;
mod skew;
mod wait;

use std::io::Write as _;

pub use cluster::Cluster;
pub use fake::FakeRedis;
pub use proxy::{Close, FaultProxy};
pub use resp::{Connection, Reply, raw};
pub use sentinel::Sentinels;
pub use server::{AppendFsync, Builder, RedisServer, Ttl};
pub use wait::{Stopwatch, wait_until};

/// The variable that leaves out the tests that need Redis, if it is set and not empty.
pub const WITHOUT_REDIS: &str = "RATEKEEPER_TEST_WITHOUT_REDIS";

/// The variable that names another server to test with, for example `valkey-server`.
pub const SERVER_BINARY: &str = "RATEKEEPER_TEST_REDIS_SERVER";

/// Whether the tests that need Redis are left out; says so on standard error, one line per test.
///
/// Such a test begins with `if redis::is_left_out() { return; }`. The test runner counts it as passed;
/// `./test` counts these lines and takes them off. Leaving them out is never the default: a missing
/// `redis-server` fails the tests.
#[must_use]
pub fn is_left_out() -> bool {
    let is_left_out = std::env::var_os(WITHOUT_REDIS).is_some_and(|value| !value.is_empty());
    if is_left_out {
        // The runner names a test's thread after the test. The handle is used directly because the macros
        // write into the buffer that the runner throws away when a test passes.
        let thread = std::thread::current();
        let line = format!("skipped: {} ({WITHOUT_REDIS} is set)\n", thread.name().unwrap_or("a test"));
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
    is_left_out
}
