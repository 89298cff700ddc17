//! Where states live. One so far: [`memory`].

pub(crate) mod memory;
