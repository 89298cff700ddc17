//! The real binary, from outside: what it prints, how it ends, what it answers on its sockets.

mod bench;
mod check;
mod cli;
mod demo;
mod drain;
mod examples;
mod fields;
mod golden;
mod hostile;
mod http;
mod http2;
mod keys;
mod life;
mod openapi;
mod paper;
mod questions;
mod readme;
mod reload;
mod reservations;
mod simulate;
mod streams;
mod support;
mod tls;
mod vectors;
mod voice;
mod waits;
