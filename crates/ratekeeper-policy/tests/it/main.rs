//! The configuration file from outside.

mod behaviours;
mod client_ip;
mod client_ip_properties;
mod explain;
mod files;
mod listeners;
mod mistakes;
mod plans;
mod properties;
mod sample;
mod schema;
mod stores;
mod traces;

use ratekeeper_policy::{Config, ConfigErrors};

/// Reads a file without any environment. The schema accepts whatever is read.
#[track_caller]
fn parse(text: &str) -> Result<Config, ConfigErrors> {
    let read = Config::parse("ratekeeper.yaml", text.as_bytes(), &|_| None);
    if read.is_ok() {
        schema::accepts(text);
    }
    read
}

/// A file with one policy `p` with these limits, one a line.
fn limits(lines: &[&str]) -> String {
    let limits: String = lines.iter().map(|line| format!("      - {{ {line} }}\n")).collect();
    format!("version: 1\npolicies:\n  - name: p\n    key: [ip]\n    limits:\n{limits}")
}

/// The code of each mistake, in order.
fn codes(text: &str) -> Vec<&'static str> {
    parse(text).map_or_else(|errors| errors.items.iter().map(|item| item.code).collect(), |_| Vec::new())
}
