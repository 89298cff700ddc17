//! The table of fields: what each place of the file knows, and what it will know. It drives the decoder, the
//! messages about unknown names, and whatever else must agree with them.

use crate::hints::nearest;

/// A kind of mapping in the file.
#[derive(Debug)]
pub(super) struct Place {
    /// As messages call it.
    pub(super) name: &'static str,
    pub(super) fields: &'static [Field],
    /// What other limiters call their fields.
    pub(super) foreign: Option<Foreign>,
}

/// Words of other limiters for one field of ours.
#[derive(Debug)]
pub(super) struct Foreign {
    words: &'static [&'static str],
    field: &'static str,
    remedy: &'static str,
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) status: Status,
}

#[derive(Debug)]
pub(super) enum Status {
    Built,
    /// Known, but not available in this version; with the remedy.
    Later(&'static str),
}

const fn built(name: &'static str) -> Field {
    Field { name, status: Status::Built }
}

const fn later(name: &'static str, remedy: &'static str) -> Field {
    Field { name, status: Status::Later(remedy) }
}

const LEAVE_OUT: &str = "leave it out for now";
const ONLY_HTTP: &str = "only `http` and `admin` are served for now";
const ONLY_MEMORY: &str = "only `memory` stores for now";
const NO_DESCRIPTORS: &str = "descriptors of Envoy are not served in this version";

impl Place {
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> + Clone {
        self.fields.iter().map(|field| field.name)
    }

    /// The names that can be written in this version.
    pub(super) fn built_names(&self) -> impl Iterator<Item = &'static str> + Clone {
        self.fields.iter().filter(|field| matches!(field.status, Status::Built)).map(|field| field.name)
    }

    /// The field of ours that a word of other limiters stands for, and what to write instead. A slip of the
    /// fingers counts, unless it is nearer to be one of ours.
    pub(super) fn foreign(&self, name: &str) -> Option<(&'static str, &'static str)> {
        let foreign = self.foreign.as_ref()?;
        let words = || foreign.words.iter().copied();
        let exact = words().any(|word| word == name);
        let slip = || nearest(name, self.names()).is_none() && nearest(name, words()).is_some();
        (exact || slip()).then_some((foreign.field, foreign.remedy))
    }

    pub(super) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

pub(super) const TOP: Place = Place {
    name: "the file",
    fields: &[
        built("version"),
        built("listen"),
        built("stores"),
        built("defaults"),
        built("policies"),
        built("log"),
        built("client_ip"),
        later("cors", LEAVE_OUT),
    ],
    foreign: None,
};

pub(super) const LISTEN: Place = Place {
    name: "`listen`",
    fields: &[built("http"), built("admin"), later("grpc", ONLY_HTTP), later("resp", ONLY_HTTP)],
    foreign: None,
};

pub(super) const LISTENER: Place = Place {
    name: "a listener",
    fields: &[built("address"), built("deadline"), built("tls"), built("max_connections")],
    foreign: Some(Foreign {
        words: &["token"],
        field: "token",
        remedy: "it belongs to `admin`: `http` is open to whoever reaches it",
    }),
};

pub(super) const ADMIN: Place = Place {
    name: "`admin`",
    fields: &[built("address"), built("deadline"), built("tls"), built("max_connections"), built("token")],
    foreign: None,
};

pub(super) const TLS: Place =
    Place { name: "`tls`", fields: &[built("cert"), built("key"), built("client_ca")], foreign: None };

pub(super) const LOG: Place = Place {
    name: "`log`",
    fields: &[built("format"), built("level"), built("keys"), built("denied_per_second")],
    foreign: None,
};

pub(super) const CLIENT_IP: Place = Place {
    name: "`client_ip`",
    fields: &[built("trusted_proxies"), built("header"), built("ipv6_prefix")],
    foreign: Some(Foreign {
        words: &["hops", "depth", "num_trusted_hops", "trust_proxy"],
        field: "trusted_proxies",
        remedy: "proxies are trusted by address, not by number: `trusted_proxies: [10.0.0.0/8]`",
    }),
};

pub(super) const STORE: Place =
    Place { name: "a store", fields: &[built("memory"), later("redis", ONLY_MEMORY)], foreign: None };

pub(super) const MEMORY: Place = Place {
    name: "`memory`",
    fields: &[built("max_keys"), built("max_bytes"), built("on_full")],
    foreign: None,
};

pub(super) const DEFAULTS: Place = Place {
    name: "`defaults`",
    fields: &[
        built("store"),
        built("headers"),
        built("on_store_error"),
        built("ratelimit_dialect"),
        built("retry_jitter"),
    ],
    foreign: None,
};

pub(super) const POLICY: Place = Place {
    name: "a policy",
    fields: &[
        built("name"),
        built("key"),
        built("limits"),
        built("store"),
        built("mode"),
        built("headers"),
        built("match"),
        built("action"),
        built("group"),
        built("replaces"),
        built("missing_key"),
        built("cost"),
        built("on_excess"),
        built("overrides"),
        later("sharing", ONLY_MEMORY),
        built("on_store_error"),
        built("ratelimit_dialect"),
        built("retry_jitter"),
    ],
    foreign: None,
};

pub(super) const MATCH: Place = Place {
    name: "`match`",
    fields: &[
        built("method"),
        built("path"),
        built("host"),
        built("headers"),
        later("domain", NO_DESCRIPTORS),
        later("descriptor", NO_DESCRIPTORS),
        later("entries", NO_DESCRIPTORS),
    ],
    foreign: Some(Foreign {
        words: &["url", "uri", "prefix", "route", "location"],
        field: "path",
        remedy: "write `path`: `/api/**` is `/api` and all below it",
    }),
};

/// The window of a limit, as others call it.
const WINDOW_WORDS: Foreign = Foreign {
    words: &["period", "window", "rate", "per", "interval", "duration", "unit", "seconds"],
    field: "limit",
    remedy: "the window is a part of the limit: `limit: 10 per 60s`",
};

pub(super) const COST: Place =
    Place { name: "`cost`", fields: &[built("header"), built("default"), built("max")], foreign: None };

pub(super) const OVERRIDE: Place =
    Place { name: "an override", fields: &[built("key"), built("limits"), built("action")], foreign: None };

pub(super) const OVERRIDDEN: Place = Place {
    name: "the numbers of an override",
    fields: &[built("limit"), built("burst"), built("queue"), built("max_wait")],
    foreign: Some(WINDOW_WORDS),
};

pub(super) const LIMIT: Place = Place {
    name: "a limit",
    fields: &[
        built("name"),
        built("algorithm"),
        built("limit"),
        built("burst"),
        built("queue"),
        built("max_wait"),
        built("align"),
        built("timezone"),
        built("key"),
    ],
    foreign: Some(WINDOW_WORDS),
};
