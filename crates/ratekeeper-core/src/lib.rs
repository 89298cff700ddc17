//! The arithmetic of ratekeeper: six rate-limiting algorithms as pure functions.
//!
//! [`evaluate`] answers one question: given a [`Limit`], a key's [`State`], a [`Moment`] and a cost, is the
//! request admitted, and what is the state then? [`decide_all`] folds several answers into one, all or
//! nothing. Everything is exact: integers in microseconds, fractions carried as fractions.
//!
//! ```
//! use ratekeeper_core::{Limit, Micros, Moment, Ask, State, StateRef, evaluate};
//! const API: Limit = Limit::per_second(10).burst(2);
//! let mut state = State::FRESH;
//! for (at_us, allowed) in [(0, true), (0, true), (99_999, false), (100_000, true)] {
//!     let answer = evaluate(&API, StateRef::Words(state), &Moment::at(Micros::new(at_us)), 1, Ask::Acquire);
//!     assert_eq!(answer.allowed(), allowed);
//!     if allowed {
//!         state = answer.next();
//!     }
//! }
//! ```
//!
//! # What this crate does not do
//! It reads no clock, does no I/O, keeps no keys, takes no locks, uses no floating point and depends on
//! nothing. Where states live and whose clock is read is the affair of a [`Store`]; most people want the
//! `ratekeeper` crate.
//!
//! Modules: [`Limit`] and its grammar (`limit`), instants and clocks (`time`), keys (`key`), the five
//! arithmetics (`algorithm`), one answer and the fold over several (`decision`), when those in line will be served
//! (`forecast`), what it says in HTTP fields (`headers`) and what a refusal does (`denial`), what a store promises
//! (`store`), and where one of Redis or Valkey is (`store_url`).

#![no_std]
extern crate alloc;

mod account;
mod algorithm;
mod convert;
mod decision;
mod denial;
mod elsewhere;
mod forecast;
mod headers;
mod key;
mod limit;
mod refused;
mod store;
mod store_url;
mod time;
mod words;

pub use account::Account;
pub use algorithm::sliding_window_log::{LOG_ENTRY_BYTES, Log};
pub use algorithm::{Algorithm, Moment, State, Token, UnknownAlgorithm};
pub use decision::{
    Ask, Decision, Evaluation, NO_ROOM_RETRY, StateRef, Step, Verdict, decide_all, decide_one, evaluate,
};
pub use denial::Denial;
pub use elsewhere::{Arithmetic, BackTerms, LogReading, Span, evaluate_log, evaluate_up_to};
pub use forecast::Forecast;
pub use headers::{
    LimitItem, MAX_FIELD_BYTES, MAX_FIELD_INTEGER, MAX_FIELD_ITEMS, Quota, ToldLimit, ToldPolicy, XRateLimit,
    policy_field, read_limit_field, read_policy_field, retry_after_seconds, write_decimal, write_limit_field,
};
pub use key::{Key, MAX_KEY_BYTES, Part};
pub use limit::{
    Align, Limit, LimitError, LimitSpec, MAX_AMOUNT, MAX_LOG_AMOUNT, MAX_WAIT_US, MAX_WINDOW_US,
    MIN_SHARED_WINDOW, Rate, parse_duration,
};
pub use refused::Refused;
pub use store::{Check, MAX_LIMITS, Name, NameError, NamedLimit, Store, StoreError, Trouble};
pub use store_url::{
    MAX_STORE_DATABASE, MAX_STORE_HOSTS, MAX_STORE_URL_BYTES, StoreUrl, StoreUrlError, Topology,
};
pub use time::{Calendar, Clock, ManualClock, Micros, Period, UtcCalendar, Window};
pub use words::{Reason, Source};
