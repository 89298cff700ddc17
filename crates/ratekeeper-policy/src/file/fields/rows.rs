//! The rows of the file outside its policies.

use super::forms::{ADDRESS, FILE, NAME, NETWORK, ORIGIN, SECRET};
use super::{Field, Foreign, Form, Need, Place, field, later, words};
use crate::client_ip::MAX_TRUSTED_PROXIES;
use crate::cors::MAX_ORIGINS;
use crate::file::decode::VERSION;
use crate::file::policies::MAX_POLICIES;
use crate::file::{client_ip, defaults, log};
use crate::headers::Dialect;
use crate::listen::{MAX_DEADLINE, MAX_MAX_CONNECTIONS, MIN_DEADLINE};
use crate::log::MAX_DENIED_PER_SECOND;
use crate::options::OnStoreError;

const ONLY_HTTP: &str = "only `http` and `admin` are served for now";

pub(in crate::file) const TOP: Place = Place {
    path: "the file",
    name: "the file",
    doc: "One YAML file says everything. What is not listed here is an error that says so.",
    fields: &[
        field("version", Form::Number(VERSION, VERSION), Need::Required, "The version of the format.", "1"),
        field(
            "listen",
            Form::Mapping(&super::LISTEN),
            Need::Optional("`http` and `admin` on loopback, at ports 8080 and 9090"),
            "Where the server listens; a listener that is not named is not opened.",
            "{ http: 0.0.0.0:8080, admin: 127.0.0.1:9090 }",
        ),
        field(
            "stores",
            Form::Named(&NAME, &Form::Mapping(&super::STORE), 1, usize::MAX),
            Need::Optional("one in memory, called `local`"),
            "Where counts are kept, by names that policies refer to.",
            "{ local: { memory: { max_keys: 1000000 } } }",
        ),
        field(
            "defaults",
            Form::Mapping(&super::DEFAULTS),
            Need::Optional("the defaults of its fields"),
            "What holds for each policy that does not say it itself.",
            "{ store: local }",
        ),
        field(
            "policies",
            Form::List(&Form::Mapping(&super::POLICY), 0, MAX_POLICIES),
            Need::Default("[]"),
            "Who is limited by what.",
            "[{ name: api, key: [ip], limits: [{ name: burst, algorithm: gcra, limit: 10/s }] }]",
        ),
        field(
            "log",
            Form::Mapping(&super::LOG),
            Need::Optional("the defaults of its fields"),
            "What is logged, and how: see [logs](logs.md).",
            "{ format: json }",
        ),
        field(
            "client_ip",
            Form::Mapping(&super::CLIENT_IP),
            Need::Optional("the defaults of its fields"),
            "Whose word is taken for where a request came from: see [the address of a client](reference.md#the-address-of-a-client).",
            "{ trusted_proxies: [10.0.0.0/8] }",
        ),
        field(
            "cors",
            Form::Mapping(&super::CORS),
            Need::Optional("no web page may ask"),
            "Which web pages may ask the HTTP listener from a browser, and read what they are answered.",
            "{ allow_origins: [\"https://app.example\"] }",
        ),
    ],
    rules: &[],
    foreign: None,
};

pub(in crate::file) const LISTEN: Place = Place {
    path: "listen",
    name: "`listen`",
    doc: "Two listeners cannot have one address and port.",
    fields: &[
        field(
            "http",
            Form::Either(&[Form::Text(&ADDRESS), Form::Mapping(&super::LISTENER)]),
            Need::Optional("not opened; without `listen`: `127.0.0.1:8080`"),
            "Where checks are answered, over HTTP/1.1 and HTTP/2, by whoever reaches it.",
            "0.0.0.0:8080",
        ),
        field(
            "admin",
            Form::Either(&[Form::Text(&ADDRESS), Form::Mapping(&super::ADMIN)]),
            Need::Optional("not opened; without `listen`: `127.0.0.1:9090`"),
            "Where metrics are and what changes state, over HTTP; off loopback (127.0.0.0/8, `[::1]`, `localhost`) it needs a token.",
            "127.0.0.1:9090",
        ),
        later("grpc", ONLY_HTTP),
        later("resp", ONLY_HTTP),
    ],
    rules: &[],
    foreign: None,
};

const AT: Field = field(
    "address",
    Form::Text(&ADDRESS),
    Need::Required,
    "Where it listens; port 0 is any free one.",
    "127.0.0.1:8080",
);
const DEADLINE: Field = field(
    "deadline",
    Form::Duration(MIN_DEADLINE.as_micros() as u64, MAX_DEADLINE.as_micros() as u64),
    Need::Default("50ms"),
    "How long a store may take to answer, whatever its own `timeout`; a store in memory answers at once.",
    "50ms",
);
const ENCRYPTED: Field = field(
    "tls",
    Form::Mapping(&super::TLS),
    Need::Optional("plain text"),
    "The files for TLS.",
    "{ cert: server.pem, key: server.key }",
);
const CONNECTIONS: Field = field(
    "max_connections",
    Form::Number(1, MAX_MAX_CONNECTIONS as u64),
    Need::Default("10000"),
    "How many connections are open at once; more wait until one of them ends.",
    "10000",
);

pub(in crate::file) const LISTENER: Place = Place {
    path: "listen.http",
    name: "a listener",
    doc: "An address is enough; a mapping says more.",
    fields: &[AT, DEADLINE, ENCRYPTED, CONNECTIONS],
    rules: &[],
    foreign: Some(Foreign {
        words: &["token"],
        field: "token",
        remedy: "it belongs to `admin`: `http` is open to whoever reaches it",
    }),
};

pub(in crate::file) const ADMIN: Place = Place {
    path: "listen.admin",
    name: "`admin`",
    doc: "As `listen.http`, with a token.",
    fields: &[
        AT,
        DEADLINE,
        ENCRYPTED,
        CONNECTIONS,
        field(
            "token",
            Form::Text(&SECRET),
            Need::Optional("that of `RATEKEEPER_ADMIN_TOKEN`, if it is set"),
            "What requests must send as `Authorization: Bearer TOKEN`; no message shows it.",
            "${ADMIN_TOKEN}",
        ),
    ],
    rules: &[],
    foreign: None,
};

pub(in crate::file) const TLS: Place = Place {
    path: "listen.http.tls",
    name: "`tls`",
    doc: "PEM files, the same below `listen.admin`.",
    fields: &[
        field(
            "cert",
            Form::Text(&FILE),
            Need::Required,
            "The certificate chain that is shown.",
            "server.pem",
        ),
        field(
            "key",
            Form::Text(&FILE),
            Need::Required,
            "The private key of its first certificate.",
            "server.key",
        ),
        field(
            "client_ca",
            Form::Text(&FILE),
            Need::Optional("clients show none"),
            "The authorities that a client's certificate must come from.",
            "clients.pem",
        ),
    ],
    rules: &[],
    foreign: None,
};

const FORMATS: [&str; 2] = words(&log::FORMATS);
const LEVELS: [&str; 4] = words(&log::LEVELS);
const KEYS: [&str; 3] = words(&log::KEYS);

pub(in crate::file) const LOG: Place = Place {
    path: "log",
    name: "`log`",
    doc: "Lines go to stderr.",
    fields: &[
        field(
            "format",
            Form::Words(&FORMATS),
            Need::Default("text"),
            "How a line is written: for people, or as `json`, one object a line.",
            "json",
        ),
        field(
            "level",
            Form::Words(&LEVELS),
            Need::Default("info"),
            "The least urgent lines that are written.",
            "warn",
        ),
        field(
            "keys",
            Form::Words(&KEYS),
            Need::Default("hash"),
            "What of a client's key is written: a hash, the key itself (`plain`), or nothing (`off`).",
            "off",
        ),
        field(
            "denied_per_second",
            Form::Number(0, MAX_DENIED_PER_SECOND as u64),
            Need::Default("10"),
            "How many refusals of a policy are written in a second; the others are counted.",
            "10",
        ),
    ],
    rules: &[],
    foreign: None,
};

const FORWARDING: [&str; 2] = words(&client_ip::HEADERS);

pub(in crate::file) const CORS: Place = Place {
    path: "cors",
    name: "`cors`",
    doc: "Browsers ask before a page sends a check, and keep its answer from the page, unless its origin is allowed.",
    fields: &[field(
        "allow_origins",
        Form::Set(&Form::Text(&ORIGIN), 0, MAX_ORIGINS),
        Need::Required,
        "The pages that may; `\"*\"` is every page.",
        "[\"https://app.example\"]",
    )],
    rules: &[],
    foreign: Some(Foreign {
        words: &["origins", "allowed_origins", "access_control_allow_origin"],
        field: "allow_origins",
        remedy: "write `allow_origins: [\"https://app.example\"]`",
    }),
};

pub(in crate::file) const CLIENT_IP: Place = Place {
    path: "client_ip",
    name: "`client_ip`",
    doc: "Without trusted proxies the client is whoever is connected.",
    fields: &[
        field(
            "trusted_proxies",
            Form::Set(&Form::Text(&NETWORK), 0, MAX_TRUSTED_PROXIES),
            Need::Default("[]"),
            "The proxies whose word counts.",
            "[10.0.0.0/8, 2001:db8::/32]",
        ),
        field(
            "header",
            Form::Words(&FORWARDING),
            Need::Default("x-forwarded-for"),
            "Where they say whom they answer for.",
            "forwarded",
        ),
        field(
            "ipv6_prefix",
            Form::Number(1, 128),
            Need::Default("64"),
            "How many leading bits of an IPv6 address tell clients apart.",
            "56",
        ),
    ],
    rules: &[],
    foreign: Some(Foreign {
        words: &["hops", "depth", "num_trusted_hops", "trust_proxy"],
        field: "trusted_proxies",
        remedy: "proxies are trusted by address, not by number: `trusted_proxies: [10.0.0.0/8]`",
    }),
};

const HEADERS: [&str; 4] = defaults::FIELDS;
const DIALECTS: [&str; 2] = words(&Dialect::WORDS);
const WITHOUT_STORE: [&str; 3] = words(&OnStoreError::WORDS);

pub(super) const USES_STORE: Field = field(
    "store",
    Form::Text(&NAME),
    Need::Optional("the only one; with several it is required"),
    "A name below `stores`: where counts are kept.",
    "local",
);
pub(super) const SENDS_HEADERS: Field = field(
    "headers",
    Form::Set(&Form::Words(&HEADERS), 0, HEADERS.len()),
    Need::Default("[ratelimit, retry-after]"),
    "Which fields answers have; of `x-ratelimit` (reset as Unix time) and `x-ratelimit-delta` (seconds to go) only one. A 429 has `RateLimit`, \
     `RateLimit-Policy` and `Retry-After` in any case.",
    "[ratelimit, retry-after, x-ratelimit]",
);
pub(super) const ON_STORE_ERROR: Field = field(
    "on_store_error",
    Form::Words(&WITHOUT_STORE),
    Need::Default("local"),
    "What decides while a store does not answer: this instance's share of the limit (`local`), or everything passes, or nothing. A store \
     in memory always answers.",
    "deny",
);
pub(super) const DIALECT: Field = field(
    "ratelimit_dialect",
    Form::Words(&DIALECTS),
    Need::Default("rt"),
    "What the numbers of `RateLimit` are called: `r` and `t`, or `both` those and `a` and `w`.",
    "both",
);
pub(super) const JITTER: Field = field(
    "retry_jitter",
    Form::Share,
    Need::Default("0"),
    "How much longer, at most, than the wait that is left a refusal says at random, as a share of it: those who are refused together do not \
     come back together.",
    "0.2",
);

pub(in crate::file) const DEFAULTS: Place = Place {
    path: "defaults",
    name: "`defaults`",
    doc: "Each of these can also be said by a policy.",
    fields: &[USES_STORE, SENDS_HEADERS, ON_STORE_ERROR, DIALECT, JITTER],
    rules: &[],
    foreign: None,
};
