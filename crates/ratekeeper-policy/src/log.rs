//! What is logged, and how.

/// Most lines about refusals in a second: more is a second load on whoever is under one.
pub const MAX_DENIED_PER_SECOND: u32 = 10_000;

/// What is logged, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogConfig {
    /// How a line is written.
    pub format: LogFormat,
    /// The least urgent lines that are written.
    pub level: LogLevel,
    /// What of a client's key is written.
    pub keys: LogKeys,
    /// How many refusals of a policy are written in a second, 0 to [`MAX_DENIED_PER_SECOND`]; the others are
    /// counted.
    pub denied_per_second: u32,
}

impl Default for LogConfig {
    /// Text, from `info` on, keys hashed, 10 refusals a second.
    fn default() -> Self {
        Self {
            format: LogFormat::default(),
            level: LogLevel::default(),
            keys: LogKeys::default(),
            denied_per_second: 10,
        }
    }
}

/// How a line is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// How urgent a line is: the more urgent, the less.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum LogLevel {
    /// Something does not work.
    Error,
    /// Something works otherwise than was asked for.
    Warn,
    /// What has happened.
    #[default]
    Info,
    /// What helps to find a mistake.
    Debug,
}

/// What of a client's key is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogKeys {
    /// A hash: lines about one client can be told to be, but not who it is.
    #[default]
    Hash,
    /// The key itself.
    Plain,
    /// Nothing.
    Off,
}
