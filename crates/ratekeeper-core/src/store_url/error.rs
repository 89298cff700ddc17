//! [`StoreUrlError`]: what of a URL cannot be read, and what to write instead.

use core::fmt;

/// Why a text is no [`StoreUrl`](super::StoreUrl). It has nothing of the text, which may hold a password anywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StoreUrlError {
    /// Longer than [`MAX_STORE_URL_BYTES`](super::MAX_STORE_URL_BYTES).
    TooLong,
    /// It begins with none of the schemes.
    Scheme,
    /// User or password have a character that is not escaped, or an escape that is none.
    Credentials,
    /// A host is not there.
    NoHost,
    /// A host is neither a name nor an address.
    Host,
    /// More than [`MAX_STORE_HOSTS`](super::MAX_STORE_HOSTS).
    TooManyHosts,
    /// Several hosts, and neither sentinels nor a cluster.
    OneHost,
    /// A port is not 1 to 65535.
    Port,
    /// Sentinels without the name of what they watch.
    NoMaster,
    /// That name has a character that sentinels do not take.
    Master,
    /// The database is no number, or above [`MAX_STORE_DATABASE`](super::MAX_STORE_DATABASE).
    Database,
    /// A cluster, and another database than 0.
    ClusterDatabase,
    /// There is a `?` or a `#`.
    Options,
}

impl StoreUrlError {
    /// What is wrong.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::TooLong => "the URL of a store is at most 2,048 bytes",
            Self::Scheme => "the URL of a store begins with `redis://` or one of its kin",
            Self::Credentials => "user and password of a URL write special characters as `%XX`",
            Self::NoHost => "the URL of a store names a host",
            Self::Host => "a host is a name, an address of IPv4, or one of IPv6 in brackets",
            Self::TooManyHosts => "the URL of a store names at most 32 hosts",
            Self::OneHost => "this URL names one host, and there are several",
            Self::Port => "a port is 1 to 65535",
            Self::NoMaster => "a URL of sentinels ends with the name of what they watch",
            Self::Master => "what sentinels watch is named by letters, digits, `.`, `-` and `_`",
            Self::Database => "the database of a URL is a number, 0 to 2147483647",
            Self::ClusterDatabase => "a cluster has the database 0 only",
            Self::Options => "the URL of a store has no options",
        }
    }

    /// What to write instead.
    #[must_use]
    pub const fn hint(self) -> &'static str {
        match self {
            Self::TooLong => "a few of the hosts are enough to find the others",
            Self::Scheme => {
                "`redis://`, `redis+sentinel://` or `redis+cluster://`, for TLS `rediss://`, `rediss+sentinel://` or \
                 `rediss+cluster://`; all for Valkey too"
            }
            Self::Credentials => {
                "`%40` for `@`, `%2F` for `/`, `%3A` for `:`, `%25` for `%`; or use the fields `username` and `password`"
            }
            Self::NoHost => "for example `redis://127.0.0.1:6379`",
            Self::Host => "for example `redis://redis.internal:6379` or `redis://[::1]:6379`",
            Self::TooManyHosts => "a few of them are enough to find the others",
            Self::OneHost => "several are `redis+cluster://h1,h2` or `redis+sentinel://h1,h2/NAME`",
            Self::Port => "leave it out for 6379, or 26379 of sentinels",
            Self::NoMaster => "for example `redis+sentinel://h1,h2/mymaster`",
            Self::Master => "for example `redis+sentinel://h1,h2/mymaster/0`",
            Self::Database => "for example `redis://127.0.0.1:6379/2`, or leave it out for 0",
            Self::ClusterDatabase => "leave it out; a `prefix` keeps stores apart",
            Self::Options => "leave out what begins with `?` or `#`; options are fields beside `url`",
        }
    }
}

impl fmt::Display for StoreUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl core::error::Error for StoreUrlError {}
