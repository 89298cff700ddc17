//! `stores`: what keeps counts, and references to it.

use core::ops::Range;

use ratekeeper_core::{Name, StoreUrl, StoreUrlError};

use super::decode::{Decoder, Fields};
use super::fields;
use super::policies::all_or_none;
use super::tree::{Entry, Node};
use super::values::{parse_size, size_hint};
use crate::config::DEFAULT_STORE;
use crate::fault::{Fault, code};
use crate::hints::{did_you_mean, shown, thousands};
use crate::listen::{Listen, Listener, Secret};
use crate::stores::{
    DEFAULT_PREFIX, DEFAULT_TIMEOUT, MAX_INSTANCES, MAX_MAX_BYTES, MAX_MAX_KEYS, MAX_PASSWORD_BYTES,
    MAX_PREFIX_BYTES, MAX_TIMEOUT, MAX_USERNAME_BYTES, MIN_MAX_BYTES, MIN_TIMEOUT, MemoryConfig, OnFull,
    RedisConfig, StoreConfig, StoreKind,
};

/// How a Redis store is asked.
pub(super) const MODES: [(&str, ()); 1] = [("exact", ())];
/// Ways that come with a later version.
const LATER_MODES: [&str; 2] = ["leased", "approximate"];

/// The stores of a file, as far as references can be checked.
pub(super) enum Stores {
    Known(Vec<StoreConfig>),
    /// Something about them is wrong and reported: any reference may be right.
    Unclear,
}

impl Stores {
    /// The store of this name, if it is known.
    pub(super) fn get(&self, name: &Name) -> Option<&StoreConfig> {
        let Self::Known(stores) = self else { return None };
        stores.iter().find(|store| store.name == *name)
    }
}

impl Decoder<'_, '_> {
    pub(super) fn stores(&mut self, top: &Fields<'_>) -> Stores {
        let Some(entry) = top.get("stores") else {
            let default = Name::new(DEFAULT_STORE).ok().filter(|_| top.lacks("stores"));
            return default.map_or(Stores::Unclear, |name| {
                let kind = StoreKind::Memory(MemoryConfig::default());
                Stores::Known(vec![StoreConfig { name, kind }])
            });
        };
        let example = || "for example `stores: { local: { memory: { max_keys: 1000000 } } }`".to_owned();
        let Some(entries) = self.map(&entry.value, "`stores`", example) else { return Stores::Unclear };
        if entries.is_empty() {
            let fault = Fault::new(code::EMPTY, "`stores` names no store");
            self.report(&entry.value, fault.hint("leave it out for one memory store called `local`"));
            return Stores::Unclear;
        }
        let stores: Vec<_> = entries.iter().map(|entry| self.store_config(entry)).collect();
        stores.into_iter().collect::<Option<_>>().map_or(Stores::Unclear, Stores::Known)
    }

    fn store_config(&mut self, entry: &Entry) -> Option<StoreConfig> {
        let name = self.checked_name(entry.key_span.clone(), "the name of a store", &entry.key);
        let store = self.fields(&entry.value, &format!("store `{}`", shown(&entry.key)), &fields::STORE)?;
        if store.lacks("memory") && store.lacks("redis") {
            let fault =
                Fault::new(code::MISSING_FIELD, format!("store `{}` is of no kind", shown(&entry.key)));
            let hint = "for example `memory: { max_keys: 1000000 }` or `redis: { url: … }`";
            self.report(&entry.value, fault.hint(hint));
        }
        let (memory, redis) = (store.get("memory"), store.get("redis"));
        if let (Some(memory), Some(redis)) = (memory, redis) {
            let second = memory.key_span.start.max(redis.key_span.start);
            let at = if second == memory.key_span.start { memory } else { redis };
            let fault = Fault::new(code::OPTIONS_EXCLUDE, "`memory` and `redis` exclude each other");
            self.errors.add(at.key_span.clone(), fault.hint("make two stores of them, each with its name"));
        }
        // All mistakes are said at once, also of what is one too many.
        let memory = memory.map(|entry| self.memory(&entry.value).map(StoreKind::Memory));
        let redis = redis.map(|entry| self.redis(&entry.value).map(StoreKind::Redis));
        Some(StoreConfig { name: name?, kind: memory.or(redis)?? })
    }

    fn memory(&mut self, node: &Node) -> Option<MemoryConfig> {
        let memory = self.fields(node, "`memory`", &fields::MEMORY)?;
        let default = MemoryConfig::default();
        let max_keys = match memory.get("max_keys") {
            Some(entry) => self.max_keys(&entry.value),
            None => Some(default.max_keys),
        };
        let max_bytes = match memory.get("max_bytes") {
            Some(entry) => self.max_bytes(&entry.value),
            None => Some(default.max_bytes),
        };
        let on_full = match memory.get("on_full") {
            Some(entry) => self.one_of(&entry.value, "on_full", &OnFull::WORDS),
            None => Some(default.on_full),
        };
        Some(MemoryConfig { max_keys: max_keys?, max_bytes: max_bytes?, on_full: on_full? })
    }

    fn max_keys(&mut self, node: &Node) -> Option<u64> {
        let number = self.number(node, "max_keys", "`max_keys: 1000000`")?;
        if (1..=MAX_MAX_KEYS).contains(&number) {
            return Some(number);
        }
        let message = format!("`max_keys` is 1 to {}", thousands(MAX_MAX_KEYS));
        let hint = if number == 0 { "memory is always bounded; 0 is never unlimited" } else { "take fewer" };
        self.report(node, Fault::new(code::OUT_OF_RANGE, message).hint(hint));
        None
    }

    fn max_bytes(&mut self, node: &Node) -> Option<u64> {
        let text = self.word(node, "`max_bytes`", "`max_bytes: 256MiB`")?;
        let Some(bytes) = parse_size(text) else {
            let fault = Fault::new(code::BAD_SIZE, "a size is a whole number and B, KiB, MiB or GiB");
            self.report(node, fault.hint(size_hint(text)));
            return None;
        };
        if (MIN_MAX_BYTES..=MAX_MAX_BYTES).contains(&bytes) {
            return Some(bytes);
        }
        let fault = Fault::new(code::OUT_OF_RANGE, "`max_bytes` is 4KiB to 1024GiB");
        self.report(node, fault.hint("it bounds the sliding-window logs; without such limits leave it out"));
        None
    }

    fn redis(&mut self, node: &Node) -> Option<RedisConfig> {
        let redis = self.fields(node, "`redis`", &fields::REDIS)?;
        if redis.lacks("url") {
            let fault = Fault::new(code::MISSING_FIELD, "`url` is missing");
            self.report(node, fault.hint("for example `url: redis://127.0.0.1:6379`"));
        }
        let url = redis.get("url").and_then(|entry| self.store_url(&entry.value));
        let timeout = redis
            .get("timeout")
            .map(|entry| self.waiting(&entry.value, "timeout", MIN_TIMEOUT..=MAX_TIMEOUT, "1ms to 10s"));
        let mode = redis.get("mode").map(|entry| self.store_mode(&entry.value));
        let instances = redis.get("instances").map(|entry| self.instances(&entry.value));
        let prefix = redis.get("prefix").map(|entry| self.prefix(&entry.value));
        let username = redis.get("username").map(|entry| self.username(&entry.value));
        let password = redis.get("password").map(|entry| self.password(&entry.value));
        // A password that is misspelt or wrong has been reported: there is one.
        let names_password = !redis.lacks("password");
        let (url, username, password) = (url?, all_or_none(username)?, all_or_none(password)?);
        let username = username.or_else(|| url.username().map(Into::into));
        let password = password.or_else(|| url.password().map(Secret::password));
        if username.is_some() && password.is_none() && !names_password {
            let place = redis.get("username").or_else(|| redis.get("url")).map_or(node, |entry| &entry.value);
            let fault = Fault::new(code::OPTION_NEEDS, "a user needs a `password`");
            // Whoever writes `redis://x@host` may mean a password.
            let hint =
                "add `password: ${REDIS_PASSWORD}`; a URL with a password alone is `redis://:PASSWORD@host`";
            self.report(place, fault.hint(hint));
            return None;
        }
        all_or_none(mode)?;
        Some(RedisConfig {
            url,
            timeout: all_or_none(timeout)?.unwrap_or(DEFAULT_TIMEOUT),
            instances: all_or_none(instances)?.unwrap_or(1),
            prefix: all_or_none(prefix)?.unwrap_or_else(|| DEFAULT_PREFIX.into()),
            username,
            password,
        })
    }

    /// No message repeats anything of it.
    fn store_url(&mut self, node: &Node) -> Option<StoreUrl> {
        let text = self.word(node, "`url`", "`url: redis://127.0.0.1:6379`")?;
        let fault =
            |wrong: StoreUrlError| Fault::new(code::BAD_STORE_URL, wrong.message()).hint(wrong.hint());
        StoreUrl::parse(text).map_err(|wrong| self.report(node, fault(wrong))).ok()
    }

    fn store_mode(&mut self, node: &Node) -> Option<()> {
        let typed = self.word(node, "`mode`", "`mode: exact`")?;
        if LATER_MODES.contains(&typed) {
            let fault =
                Fault::new(code::NOT_AVAILABLE, format!("`{typed}` is not available in this version"));
            self.report(node, fault.hint(fields::ONLY_EXACT));
            return None;
        }
        self.one_of(node, "mode", &MODES)
    }

    fn instances(&mut self, node: &Node) -> Option<u32> {
        let number = self.number(node, "instances", "`instances: 3`")?;
        let fit = u32::try_from(number).ok().filter(|number| (1..=MAX_INSTANCES).contains(number));
        if fit.is_none() {
            let message = format!("`instances` is 1 to {}", thousands(MAX_INSTANCES.into()));
            let hint = if number == 0 { "this process is one of them" } else { "take fewer" };
            self.report(node, Fault::new(code::OUT_OF_RANGE, message).hint(hint));
        }
        fit
    }

    fn prefix(&mut self, node: &Node) -> Option<Box<str>> {
        let text = self.text(node, "`prefix`", "`prefix: rk`")?;
        let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        if text.len() <= MAX_PREFIX_BYTES && text.bytes().all(good) {
            return Some(text.into());
        }
        let fault = Fault::new(code::BAD_NAME, format!("`prefix` cannot be `{}`", shown(text)));
        self.report(node, fault.hint("1 to 32 of A-Z, a-z, 0-9, `_` and `-`"));
        None
    }

    fn username(&mut self, node: &Node) -> Option<Box<str>> {
        // What looks like a number is a user too.
        let text = self.word(node, "`username`", "`username: limiter`")?;
        if text.len() <= MAX_USERNAME_BYTES && !text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Some(text.into());
        }
        let fault = Fault::new(code::BAD_NAME, "`username` is text without spaces, of at most 256 bytes");
        self.report(node, fault.hint("for example `username: limiter`"));
        None
    }

    fn password(&mut self, node: &Node) -> Option<Secret> {
        // Digits are a password too, and no message may ask to quote them: it would repeat them.
        let text = self.word(node, "`password`", "`password: ${REDIS_PASSWORD}`")?;
        if text.len() <= MAX_PASSWORD_BYTES {
            return Some(Secret::password(text));
        }
        let message = format!("`password` is at most {} bytes", thousands(MAX_PASSWORD_BYTES as u64));
        self.report(
            node,
            Fault::new(code::OUT_OF_RANGE, message).hint("write the password itself, not its file"),
        );
        None
    }

    /// Warns of stores that may take longer than who asks them waits.
    pub(super) fn timeouts(&mut self, top: &Fields<'_>, listen: &Listen, stores: &Stores) {
        let Stores::Known(stores) = stores else { return };
        let listeners = [("http", &listen.http), ("admin", &listen.admin)];
        let deadline = |(name, listener): (&'static str, &Option<Listener>)| {
            listener.as_ref().map(|listener| (listener.deadline, name))
        };
        let Some((deadline, listener)) = listeners.into_iter().filter_map(deadline).min() else { return };
        for store in stores {
            let Some(redis) = store.redis().filter(|redis| redis.timeout > deadline) else { continue };
            let Some(place) = top.get("stores").and_then(|entry| timeout_span(&entry.value, &store.name))
            else {
                continue;
            };
            let message = format!(
                "store `{}` may take {:?}, and `{listener}` waits for {deadline:?}",
                store.name, redis.timeout
            );
            let hint =
                format!("the shorter one counts: lower `timeout`, or raise `deadline` of `{listener}`");
            self.errors.warn(place, Fault::new(code::TIMEOUT_ABOVE_DEADLINE, message).hint(hint));
        }
    }

    /// The `store` of a mapping, which must exist.
    pub(super) fn store(&mut self, fields: &Fields<'_>, stores: &Stores) -> Option<Name> {
        let node = &fields.get("store")?.value;
        let text = self.text(node, "`store`", "`store: local`")?;
        let Stores::Known(stores) = stores else { return Name::new(text).ok() };
        let found = stores.iter().find(|store| store.name.as_str() == text);
        if found.is_none() {
            let fault = Fault::new(code::UNKNOWN_STORE, format!("there is no store `{}`", shown(text)));
            self.report(node, fault.hint(did_you_mean(text, stores.iter().map(|store| store.name.as_str()))));
        }
        found.map(|store| store.name.clone())
    }
}

/// Where the timeout of a store is said, or else where it would be.
fn timeout_span(stores: &Node, name: &Name) -> Option<Range<usize>> {
    let redis = stores.field(name.as_str())?.field("redis")?;
    Some(redis.field("timeout").map_or_else(|| redis.mark(), |timeout| timeout.span.clone()))
}
