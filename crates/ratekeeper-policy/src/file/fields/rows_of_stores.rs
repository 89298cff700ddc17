//! The rows of stores.

use super::forms::{NAME_OF_USER, PASSWORD, PREFIX, STORE_URL};
use super::{Foreign, Form, Need, Place, Rule, field, later, words};
use crate::file::stores::MODES;
use crate::stores::{
    MAX_INSTANCES, MAX_MAX_BYTES, MAX_MAX_KEYS, MAX_TIMEOUT, MIN_MAX_BYTES, MIN_TIMEOUT, OnFull,
};

pub(in crate::file) const ONLY_EXACT: &str = "only `exact` for now: every decision asks the store";

pub(in crate::file) const STORE: Place = Place {
    path: "stores.NAME",
    name: "a store",
    doc: "A store keeps the counts of the policies that name it.",
    fields: &[
        field(
            "memory",
            Form::Mapping(&super::MEMORY),
            Need::Required,
            "In the memory of the process; a restart forgets all.",
            "{ max_keys: 1000000, max_bytes: 256MiB, on_full: share }",
        ),
        field(
            "redis",
            Form::Mapping(&super::REDIS),
            Need::Required,
            "In Redis or Valkey: all processes that use it count together.",
            "{ url: \"redis://127.0.0.1:6379\", timeout: 20ms, instances: 3 }",
        ),
    ],
    rules: &[Rule::One(&["memory", "redis"])],
    foreign: Some(Foreign {
        words: &["valkey", "keydb", "dragonfly"],
        field: "redis",
        remedy: "write `redis`: it is for all servers that speak as Redis does",
    }),
};

const ON_FULL: [&str; 2] = words(&OnFull::WORDS);

pub(in crate::file) const MEMORY: Place = Place {
    path: "stores.NAME.memory",
    name: "`memory`",
    doc: "Memory is always bounded.",
    fields: &[
        field(
            "max_keys",
            Form::Number(1, MAX_MAX_KEYS),
            Need::Default("1000000"),
            "How many pairs of key and limit are kept exactly; 44 bytes each, reserved at the start.",
            "1000000",
        ),
        field(
            "max_bytes",
            Form::Size(MIN_MAX_BYTES, MAX_MAX_BYTES),
            Need::Default("256MiB"),
            "Memory for the entries of sliding-window logs.",
            "256MiB",
        ),
        field(
            "on_full",
            Form::Words(&ON_FULL),
            Need::Default("share"),
            "What becomes of a newcomer to a full table: those that `share` are decided together, never looser; `deny` refuses them.",
            "deny",
        ),
    ],
    rules: &[],
    foreign: None,
};

const EXACT: [&str; 1] = words(&MODES);

pub(in crate::file) const REDIS: Place = Place {
    path: "stores.NAME.redis",
    name: "`redis`",
    doc: "Redis from 6.2 on, or Valkey from 7.2 on. A limit there has a window of 1ms or more.",
    fields: &[
        field(
            "url",
            Form::Text(&STORE_URL),
            Need::Required,
            "Where the servers are; no message shows its user and password.",
            "rediss://redis.internal:6379/0",
        ),
        field(
            "timeout",
            Form::Duration(MIN_TIMEOUT.as_micros() as u64, MAX_TIMEOUT.as_micros() as u64),
            Need::Default("50ms"),
            "How long it may take to answer before `on_store_error` decides; the `deadline` of a listener may be shorter.",
            "20ms",
        ),
        field(
            "mode",
            Form::Words(&EXACT),
            Need::Default("exact"),
            "How it is asked: `exact` asks it for every decision.",
            "exact",
        ),
        field(
            "instances",
            Form::Number(1, MAX_INSTANCES as u64),
            Need::Default("1"),
            "How many processes share it. While it does not answer, `on_store_error: local` lets each have this part of a limit.",
            "3",
        ),
        field(
            "prefix",
            Form::Text(&PREFIX),
            Need::Default("rk"),
            "What its keys there begin with; stores with the same one count together.",
            "staging",
        ),
        field(
            "username",
            Form::Text(&NAME_OF_USER),
            Need::Optional("that of the `url`, else none"),
            "Which user of theirs to be; it needs a password.",
            "limiter",
        ),
        field(
            "password",
            Form::Text(&PASSWORD),
            Need::Optional("that of the `url`, else none"),
            "What servers ask for, as it is, without escapes; no message shows it.",
            "${REDIS_PASSWORD:-changeme}",
        ),
        later("lease_life", ONLY_EXACT),
        later("sync_every", ONLY_EXACT),
    ],
    rules: &[],
    foreign: Some(Foreign {
        words: &[
            "host",
            "hosts",
            "address",
            "addresses",
            "addr",
            "server",
            "servers",
            "port",
            "db",
            "database",
            "tls",
            "uri",
        ],
        field: "url",
        remedy: "it is all in the `url`: `rediss://redis.internal:6379/0` is over TLS, database 0",
    }),
};
