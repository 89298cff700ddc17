//! The configuration file: text → tree with spans (`tree`) → configuration (`decode`, by the table of
//! `fields`), with every mistake collected (`errors`) and shown at its place (`render`). For
//! editors the table of fields is written as a JSON Schema (`schema`).

mod client_ip;
mod cors;
mod decode;
mod defaults;
mod errors;
mod fields;
mod json;
mod listen;
mod log;
mod matching;
mod options;
mod overrides;
mod policies;
mod relations;
mod render;
mod scalar;
mod schema;
mod stores;
mod tree;
mod values;
mod variables;
mod warnings;

pub use errors::{ConfigError, ConfigErrors, MAX_ERRORS, Severity};
pub(crate) use json::of_single;
pub use overrides::MAX_OVERRIDES;
pub use policies::MAX_POLICIES;
pub use schema::json_schema;
pub use tree::MAX_DEPTH;

use crate::client_ip::ClientIp;
use crate::cors::Cors;
use crate::fault::{Fault, code};
use crate::listen::Listen;
use crate::log::LogConfig;
use crate::plan::Policies;
use crate::stores::StoreConfig;
use errors::Errors;

/// The largest file: 100 bytes for each of 10,000 policies, and a bound on what a reload can cost.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// What a file says.
pub(crate) struct Content {
    pub(crate) listen: Listen,
    pub(crate) log: LogConfig,
    pub(crate) client_ip: ClientIp,
    pub(crate) cors: Cors,
    pub(crate) stores: Vec<StoreConfig>,
    pub(crate) policies: Policies,
    /// The policies as they are written, as a JSON list.
    pub(crate) policies_json: String,
    /// The same without the keys of overrides.
    pub(crate) policies_json_public: String,
    /// What can be used, but is hardly meant so.
    pub(crate) warnings: ConfigErrors,
}

/// Reads a file whole, or says all that is wrong with it.
pub(crate) fn parse(
    file: &str,
    bytes: &[u8],
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Content, ConfigErrors> {
    if bytes.len() > MAX_FILE_BYTES {
        let fault = Fault::new(code::FILE_TOO_LARGE, "the file is larger than 1 MiB");
        // Its text is not looked at, so there is no line to show.
        return Err(ConfigErrors::whole_file(file, fault));
    }
    let text = match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let lossy = String::from_utf8_lossy(bytes);
            let mut errors = Errors::new(file, &lossy);
            let fault = Fault::new(code::NOT_UTF8, "the file is not UTF-8 text").hint("save it as UTF-8");
            errors.add(error.valid_up_to()..error.valid_up_to() + 1, fault);
            return Err(errors.finish());
        }
    };
    let mut errors = Errors::new(file, text);
    if text.starts_with('\u{feff}') {
        let fault = Fault::new(code::BYTE_ORDER_MARK, "the file begins with a byte order mark");
        errors.add(0..3, fault.hint("save it as UTF-8 without one"));
        return Err(errors.finish());
    }
    let content = tree::parse(text, env, &mut errors).and_then(|root| {
        errors.counts = policies::counts(&root);
        decode::decode(&root, env, &mut errors)
    });
    match content {
        Some(content) if errors.is_empty() => Ok(Content { warnings: errors.warnings(), ..content }),
        _ => Err(errors.finish()),
    }
}
