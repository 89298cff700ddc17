//! `log`: what is logged, and how.

use super::decode::{Decoder, Fields};
use super::fields;
use super::policies::all_or_none;
use super::tree::Node;
use crate::fault::{Fault, code};
use crate::hints::thousands;
use crate::log::{LogConfig, LogFormat, LogKeys, LogLevel, MAX_DENIED_PER_SECOND};

pub(super) const FORMATS: [(&str, LogFormat); 2] = [("text", LogFormat::Text), ("json", LogFormat::Json)];
pub(super) const LEVELS: [(&str, LogLevel); 4] = [
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
];
pub(super) const KEYS: [(&str, LogKeys); 3] =
    [("hash", LogKeys::Hash), ("plain", LogKeys::Plain), ("off", LogKeys::Off)];

impl Decoder<'_, '_> {
    pub(super) fn log(&mut self, top: &Fields<'_>) -> Option<LogConfig> {
        let default = LogConfig::default();
        let Some(entry) = top.get("log") else { return Some(default) };
        let log = self.fields(&entry.value, "`log`", &fields::LOG)?;
        let format = log.get("format").map(|entry| self.one_of(&entry.value, "format", &FORMATS));
        let level = log.get("level").map(|entry| self.one_of(&entry.value, "level", &LEVELS));
        let keys = log.get("keys").map(|entry| self.one_of(&entry.value, "keys", &KEYS));
        let denied = log.get("denied_per_second").map(|entry| self.denied_per_second(&entry.value));
        Some(LogConfig {
            format: all_or_none(format)?.unwrap_or(default.format),
            level: all_or_none(level)?.unwrap_or(default.level),
            keys: all_or_none(keys)?.unwrap_or(default.keys),
            denied_per_second: all_or_none(denied)?.unwrap_or(default.denied_per_second),
        })
    }

    fn denied_per_second(&mut self, node: &Node) -> Option<u32> {
        let number = self.number(node, "denied_per_second", "`denied_per_second: 10`")?;
        let fit = u32::try_from(number).ok().filter(|number| *number <= MAX_DENIED_PER_SECOND);
        if fit.is_none() {
            let message = format!("`denied_per_second` is 0 to {}", thousands(MAX_DENIED_PER_SECOND.into()));
            self.report(node, Fault::new(code::OUT_OF_RANGE, message).hint("what is not logged is counted"));
        }
        fit
    }
}
