//! Where states live: in the process's [`memory`], or with feature `redis` where a fleet shares them.

pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;
