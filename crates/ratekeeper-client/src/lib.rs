//! The polite HTTP client: it obeys what servers say about waiting, and says so when it does not wait.
//!
//! A [`Polite`] is put around a tower service ([`PoliteLayer`], feature `tower`) or into a reqwest client (feature
//! `reqwest`). All calls with one key, by default the origin, share a gate: what one of them is told (`Retry-After` in all its
//! forms, `RateLimit` in all its dialects, `X-RateLimit-*`, the words of some providers) holds for all, so a
//! hundred tasks that were refused together do not come back together. Retries wait at least as long as they were
//! asked to, are spread by chance that is only ever added, cost a budget, and are made only of what may be repeated.
//!
//! ```
//! use std::time::Duration;
//! use http::{HeaderMap, StatusCode};
//! use ratekeeper_client::{Profile, ResponseHead, Wait, resolve};
//! let mut headers = HeaderMap::new();
//! headers.insert("date", "Mon, 03 Jun 2019 11:00:00 GMT".parse()?);
//! headers.insert("retry-after", "Mon, 03 Jun 2019 11:00:05 GMT".parse()?);
//! let refusal = ResponseHead::new(StatusCode::TOO_MANY_REQUESTS, &headers);
//! // By the server's own date: whether our clock is right does not matter.
//! assert_eq!(resolve(&refusal, &Profile::Auto).wait, Some(Wait::For(Duration::from_secs(5))));
//! # Ok::<(), http::header::InvalidHeaderValue>(())
//! ```
//!
//! # What this crate does not do
//! It limits nobody: for that there is `ratekeeper`, which it does not pull in. It opens no connection, follows no
//! redirection and has no TLS. It does not share what it learned with other processes, retry what streams, read
//! bodies unless told to (and then only reqwest's), or hide a refusal: when it gives up, the last answer is
//! returned, with a [`RetryReport`] that says why.
//!
//! The pure part has no runtime, clock or randomness, and is there without any feature: [`resolve`] reads, [`decide`]
//! decides, a [`Gate`] remembers; instants and jitter are arguments.

mod backoff;
mod budget;
mod dates;
mod decide;
mod draw;
mod event;
mod gate;
mod head;
mod hint;
mod numbers;
mod profile;
mod report;
mod settings;

#[cfg(any(feature = "tower", feature = "reqwest"))]
mod clock;
#[cfg(any(feature = "tower", feature = "reqwest"))]
mod dice;
#[cfg(any(feature = "tower", feature = "reqwest"))]
mod failure;
#[cfg(any(feature = "tower", feature = "reqwest"))]
mod lanes;
#[cfg(feature = "reqwest")]
mod middleware;
#[cfg(any(feature = "tower", feature = "reqwest"))]
mod polite;
#[cfg(any(feature = "tower", feature = "reqwest"))]
mod run;
#[cfg(feature = "tower")]
mod service;

pub use backoff::Backoff;
pub use budget::{Balance, Budget, Percent};
pub use decide::{Call, Failure, GiveUp, Next, Outcome, Why, decide, is_idempotent};
pub use draw::Draw;
pub use event::Event;
#[cfg(any(feature = "tower", feature = "reqwest"))]
pub use failure::failure_of;
pub use gate::{Entry, Gate, MAX_CLOSED, MAX_LEARNED, PROBE_AFTER, Send};
pub use head::RequestHead;
pub use hint::{
    Counter, Hint, HintSource, LimitInfo, MAX_BODY_BYTES, ResponseHead, Rules, Unit, Wait, resolve,
};
#[cfg(any(feature = "tower", feature = "reqwest"))]
pub use lanes::{MAX_KEYS, MAX_WAITING};
#[cfg(any(feature = "tower", feature = "reqwest"))]
pub use polite::{Builder, Polite, PoliteOptions};
pub use profile::{Class, Classify, Profile};
pub use report::{Gated, RetryReport};
#[cfg(feature = "tower")]
pub use service::{Cloned, Once, PoliteLayer, PoliteService, Replay};
pub use settings::{Generate, Pace, Repeat, Settings, SettingsError};

/// The code of the page about this crate compiles.
#[cfg(all(doctest, feature = "reqwest"))]
#[doc = include_str!("../../../docs/client.md")]
pub struct Page;
