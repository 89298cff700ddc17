//! Who is limited by what: the ratekeeper configuration file and its policies.
//!
//! [`Config::parse`] reads a file, whole or not at all, and reports every mistake at once, each with its
//! place and a remedy. [`Policies::plan`] and [`Policies::named`] say which limits a
//! request or a caller's key is asked by, and [`Applied::checks`] are the questions that a store decides.
//!
//! ```
//! use ratekeeper_policy::{Call, Config, Which};
//! let text = b"
//! version: 1
//! policies:
//!   - name: login
//!     key: [ip]
//!     limits: [{ name: tries, algorithm: sliding-window-log, limit: 10 per 10m }]
//! ";
//! let config = Config::parse("ratekeeper.yaml", text, &|_| None).expect("a good file");
//! let login = config.policy("login").expect("it is in the file");
//! let call = Call { key: Some("203.0.113.9"), keys: &[], cost: 1 };
//! let applied = login.named(&call, Which::All).expect("a good call");
//! assert!(applied.checks().all(|(_, check)| check.limit.name().as_str() == "tries"));
//! ```
//!
//! # What this crate does not do
//! It opens no file, reads no environment and no clock, and decides nothing: the text and the variables are
//! handed in, the answers come from a store.
//!
//! Modules: the file (`file`: tree with spans, table of fields, decoder, messages), what it means
//! (`config`, `listen`, `log`, `stores`, `policy` with `options` and `overrides`, `headers`, `key` and how it is written, `canonical`), a request (`facts`, `request`) and its
//! address (`client_ip`), which policies it fits (`matcher` with `path` and `glob`, `index`), what they do with it (`plan` with
//! `found`; `named` where the caller chose) and why (`explain`), one limit from words (`limit`), and the calendars of time zones (`calendar`, the only one
//! that knows them).

mod calendar;
mod canonical;
mod client_ip;
mod config;
mod cors;
mod explain;
mod facts;
mod fault;
mod few;
mod file;
mod found;
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;
mod glob;
mod headers;
mod hints;
mod index;
mod jitter;
mod key;
mod limit;
mod listen;
mod log;
mod matcher;
mod named;
mod options;
mod overrides;
mod path;
mod plan;
mod policy;
mod request;
mod stores;

pub use calendar::{UnknownZone, ZoneCalendar};
pub use canonical::canonical;
pub use client_ip::{
    ClientIp, DEFAULT_IPV6_PREFIX, Forwarding, Hop, MAX_ADDRESS_BYTES, MAX_FORWARDED_ELEMENTS,
    MAX_TRUSTED_PROXIES, Network, NetworkError, Walk, WalkEnd, parse_address,
};
pub use config::{Config, DEFAULT_STORE, FlagError, LimitFlags};
pub use cors::{Cors, MAX_ORIGIN_BYTES, MAX_ORIGINS};
pub use explain::{CostFrom, Explained, Explanation, Fate};
pub use facts::{Facts, Source};
pub use few::Few;
pub use file::{
    ConfigError, ConfigErrors, MAX_DEPTH, MAX_ERRORS, MAX_FILE_BYTES, MAX_OVERRIDES, MAX_POLICIES, Severity,
    json_schema,
};
pub use glob::{Glob, MAX_GLOB_BYTES, MAX_GLOB_STARS};
pub use headers::{Dialect, Headers, XRateLimit};
pub use hints::{is_invisible, nearest, thousands};
pub use index::Index;
pub use jitter::{Chance, Jitter, Stretch};
pub use key::{Alternative, KeyPart, KeySpec};
pub use listen::{
    ADMIN_TOKEN_VARIABLE, DEFAULT_ADMIN, DEFAULT_DEADLINE, DEFAULT_HTTP, DEFAULT_MAX_CONNECTIONS, Listen,
    Listener, MAX_DEADLINE, MAX_MAX_CONNECTIONS, MAX_TOKEN_BYTES, MIN_DEADLINE, MIN_TOKEN_BYTES, Secret, Tls,
    TokenError, admin_token, is_loopback,
};
pub use log::{LogConfig, LogFormat, LogKeys, LogLevel, MAX_DENIED_PER_SECOND};
pub use matcher::{MAX_MATCH_HEADERS, MAX_METHOD_BYTES, MAX_METHODS, Match, Misfit, Seen};
pub use named::{KeyDoubt, Which};
pub use options::{Action, CostSpec, MissingKey, Mode, OnExcess, OnStoreError, Options};
pub use overrides::{Act, Exception, ExceptionError, Numbers, Override, Overrides};
pub use path::{
    BadTarget, MAX_PATTERN_BYTES, MAX_PATTERN_SEGMENTS, MAX_TARGET_BYTES, NormalPath, PathPattern,
};
pub use plan::{Applied, Does, Exceptions, Plan, PlanError, Policies};
pub use policy::{Call, CallError, KeyField, Policy, PolicyLimit};
pub use request::Request;
pub use stores::{
    DEFAULT_PREFIX, DEFAULT_TIMEOUT, MAX_INSTANCES, MAX_MAX_BYTES, MAX_MAX_KEYS, MAX_PASSWORD_BYTES,
    MAX_PREFIX_BYTES, MAX_TIMEOUT, MAX_USERNAME_BYTES, MIN_MAX_BYTES, MIN_TIMEOUT, MemoryConfig, OnFull,
    RedisConfig, StoreConfig, StoreKind,
};
