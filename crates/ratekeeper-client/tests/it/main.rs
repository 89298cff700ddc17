//! The polite client against servers that are functions, on a clock that jumps; and against real sockets.

mod behaviours;
mod calls;
mod crawling;
mod gates;
mod herd;
mod hints;
mod properties;
mod sockets;
mod streams;
mod support;
