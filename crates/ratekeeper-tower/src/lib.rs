//! Rate limits as a layer for tower 0.5, axum 0.8 and tonic 0.14.
//!
#![cfg_attr(feature = "axum", doc = "```")]
#![cfg_attr(not(feature = "axum"), doc = "```ignore")]
//! use axum::{Router, routing::get};
//! use ratekeeper::{Limit, Limiter, KeyedLimiter};
//! use ratekeeper_tower::{LimitBy as _, Limited, RateLimitLayer, bearer, client_ip};
//!
//! let users = KeyedLimiter::new(Limit::per_second(10).burst(20));
//! let global = Limiter::new(Limit::per_second(1_000));
//! let layer = RateLimitLayer::builder()
//!     .limit(users.by(bearer().or(client_ip())).named("user"))
//!     .limit(&global)                                    // decided together: all of them are charged, or none
//!     .refund_if(|response| response.status().is_server_error())
//!     .build()?;
//! let app: Router = Router::new()
//!     .route("/", get(|Limited(decision): Limited| async move { format!("{} left", decision.remaining) }))
//!     .layer(layer);
//! # Ok::<(), ratekeeper_tower::LayerError>(())
//! ```
//!
//! A key that the client writes itself tells nobody apart who invents another for each request: let an outer layer check
//! tokens and users first, or add a limit by [`client_ip`].
//!
//! A request that is let through reaches the service with its decision among the extensions ([`Decided`],
//! [`Limited`]), and its answer tells the client where it stands (`RateLimit-Policy`, `RateLimit`). One that is refused
//! is answered with 429, `Retry-After` and a problem object; a call of gRPC with `RESOURCE_EXHAUSTED` and the exact wait.
//!
//! # What this crate does not do
//! It has no server and opens no socket. It limits requests, not connections, and how often, not how many at once. It
//! never sleeps while a service becomes ready. Under another server than axum's and tonic's it must be told where the
//! address of the client stands ([`LayerBuilder::peer`]).
//!
//! # Features
//! `axum` (default): addresses and matched paths of axum, the extractor [`Limited`]. `tonic`: addresses of tonic's own
//! transport. `redis`: counts that a fleet shares.
//!
//! Modules: the layer and how it is put together (`layer`, `builder`, `options`, `rule`, `key`), its service (`service`,
//! `future`, `waiting`, `body`), what is looked at of a request (`facts`) and asked of it (`rules`, `policies` with
//! `from_config`, `in_line`, `shared`, `outcome`), what is answered (`book`, `fields`, `denied`, `grpc`) and handed on (`limited`).

mod body;
mod book;
mod builder;
mod denied;
mod facts;
mod fields;
mod from_config;
mod future;
mod grpc;
mod in_line;
mod key;
mod layer;
mod limited;
mod options;
mod outcome;
mod policies;
mod rule;
mod rules;
mod service;
#[cfg(feature = "redis")]
mod shared;
mod waiting;

pub use body::ResponseBody;
pub use builder::{DEFAULT_MAX_KEYS, LayerBuilder, LayerError};
pub use denied::Denied;
pub use future::ResponseFuture;
pub use key::{IntoKey, KeyBy, KeyError, KeyValue, bearer, client_ip, global, header, key_fn, matched_path};
pub use layer::RateLimitLayer;
pub use limited::Decided;
#[cfg(feature = "axum")]
pub use limited::{Limited, NotLimited};
pub use options::{Answered, DEFAULT_MAX_WAITING, Observed, Warning};
pub use ratekeeper_policy::{Config, Dialect, Headers, Jitter, MissingKey, Mode, XRateLimit};
pub use rule::{LimitBy, Rule};
pub use service::RateLimit;

/// The README's Rust blocks, run as documentation tests: this crate's tests know all that they use.
#[cfg(all(doctest, feature = "axum"))]
#[doc = include_str!("../../../README.md")]
struct Readme;
