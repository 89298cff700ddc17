//! Where counts are kept: stores in memory, and those in Redis or Valkey.

use core::time::Duration;

use ratekeeper_core::{MIN_SHARED_WINDOW, Name, StoreUrl};

use crate::listen::Secret;

/// Most keys of a memory store: about 44 GB of buckets, more than a machine spends on this.
pub const MAX_MAX_KEYS: u64 = 1_000_000_000;
/// Least bytes for the logs of a memory store: a log of a few entries per table.
pub const MIN_MAX_BYTES: u64 = 4 * KIB;
/// Most bytes for the logs of a memory store: 1 TiB.
pub const MAX_MAX_BYTES: u64 = 1_024 * GIB;
/// How long a Redis store may take to answer, unless said otherwise: as long as a listener waits.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_millis(50);
/// Shortest timeout: a server on the same machine may take as long when it is busy.
pub const MIN_TIMEOUT: Duration = Duration::from_millis(1);
/// Longest timeout: whoever is asked for longer is away.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(10);
/// Most instances that share a Redis store: a share of a limit is an N-th of it, and smaller ones are worth nothing.
pub const MAX_INSTANCES: u32 = 10_000;
/// What keys in Redis begin with, unless said otherwise.
pub const DEFAULT_PREFIX: &str = "rk";
/// Longest prefix: it is in every key.
pub const MAX_PREFIX_BYTES: usize = 32;
/// Longest user of a Redis store, so that messages that name it stay short.
pub const MAX_USERNAME_BYTES: usize = 256;
/// Longest password of a Redis store: tokens of clouds that stand in for one have some 2 KiB.
pub const MAX_PASSWORD_BYTES: usize = 4_096;

pub(crate) const KIB: u64 = 1_024;
pub(crate) const MIB: u64 = 1_024 * KIB;
pub(crate) const GIB: u64 = 1_024 * MIB;

/// A named store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreConfig {
    /// Its name, unique in its file.
    pub name: Name,
    /// Where it keeps counts.
    pub kind: StoreKind,
}

/// Where a store keeps counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreKind {
    /// In the memory of the process.
    Memory(MemoryConfig),
    /// In Redis or Valkey, shared by several processes.
    Redis(RedisConfig),
}

impl StoreConfig {
    /// What a memory store is like; None if it is of another kind.
    #[must_use]
    pub const fn memory(&self) -> Option<&MemoryConfig> {
        if let StoreKind::Memory(memory) = &self.kind { Some(memory) } else { None }
    }

    /// What a Redis store is like; None if it is of another kind.
    #[must_use]
    pub const fn redis(&self) -> Option<&RedisConfig> {
        if let StoreKind::Redis(redis) = &self.kind { Some(redis) } else { None }
    }

    /// The shortest window that it can count, in microseconds.
    pub(crate) const fn min_window_us(&self) -> u64 {
        match self.kind {
            StoreKind::Memory(_) => 1,
            StoreKind::Redis(_) => MIN_SHARED_WINDOW.as_micros() as u64,
        }
    }
}

/// How large a memory store is and what it does when it is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryConfig {
    /// How many live pairs of key and limit it holds exactly, at least; 1 to [`MAX_MAX_KEYS`].
    pub max_keys: u64,
    /// Bytes for the logs of sliding windows; [`MIN_MAX_BYTES`] to [`MAX_MAX_BYTES`].
    pub max_bytes: u64,
    /// What happens to a newcomer that finds no place.
    pub on_full: OnFull,
}

impl Default for MemoryConfig {
    /// 1,000,000 keys, 256 MiB, share.
    fn default() -> Self {
        Self { max_keys: 1_000_000, max_bytes: 256 * MIB, on_full: OnFull::Share }
    }
}

/// What a full memory store does with a newcomer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFull {
    /// Newcomers share one overflow state per limit: stricter than they should find it, never looser.
    #[default]
    Share,
    /// Newcomers are refused.
    Deny,
}

impl OnFull {
    /// The words of the file, and what they mean.
    pub(crate) const WORDS: [(&'static str, Self); 2] = [("share", Self::Share), ("deny", Self::Deny)];
}

/// Where a Redis store is, and how it is asked. Every decision asks it: counts are exact.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedisConfig {
    /// The servers. User and password are those below, not those of the URL.
    pub url: StoreUrl,
    /// How long it may take to answer: [`MIN_TIMEOUT`] to [`MAX_TIMEOUT`].
    pub timeout: Duration,
    /// How many processes share it, 1 to [`MAX_INSTANCES`]: while it does not answer, `on_store_error: local` decides by
    /// this part of each limit.
    pub instances: u32,
    /// What all its keys begin with: 1 to [`MAX_PREFIX_BYTES`] of `[A-Za-z0-9_-]`.
    pub prefix: Box<str>,
    /// The user to be, that of the field before that of the URL; there is a password then.
    pub username: Option<Box<str>>,
    /// The password to give, that of the field before that of the URL.
    pub password: Option<Secret>,
}
