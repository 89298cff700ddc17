//! The wires: each turns bytes into questions and answers into bytes, and decides nothing.

pub(crate) mod admin;
pub(crate) mod http;
pub(crate) mod tls;
