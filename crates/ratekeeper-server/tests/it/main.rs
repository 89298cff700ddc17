//! The real binary, from outside: what it prints, how it ends, what it answers on its sockets.

mod bench;
mod check;
mod cli;
mod demo;
mod examples;
mod http;
mod life;
mod openapi;
mod questions;
mod readme;
mod simulate;
mod support;
mod vectors;
mod voice;
