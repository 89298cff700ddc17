//! Taking another configuration while serving: by a signal, a call, or because the file has changed.
//!
//! A file is read, checked and built aside; then one pointer is exchanged. Whatever is wrong with it changes nothing,
//! and is said in the log, in the metrics, at `/readyz?verbose` and to whoever has asked.

use std::path::PathBuf;
use std::sync::Arc;

use ratekeeper_policy::{Config, ConfigError, ConfigErrors, Listen, Listener};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::Mutex;

use crate::app::App;
use crate::digits::hex;
use crate::input::{self, Unreadable};
use crate::report::Report;
use crate::server::Addresses;
use crate::telemetry::log::{Event, Loaded, Refused};
use crate::voice::Voice;

mod watch;

/// How many mistakes `/readyz?verbose` shows; the log has the first, `POST /v1/reload` all.
const MAX_LINES: usize = 5;

/// Where a configuration came from.
pub(crate) enum Source {
    /// A file, which may change.
    File(PathBuf),
    /// Standard input, which has been read.
    Stdin,
    /// The program itself.
    BuiltIn,
}

impl Source {
    /// What `--config` names.
    pub(crate) fn of(file: PathBuf) -> Self {
        if input::is_stdin(&file) { Self::Stdin } else { Self::File(file) }
    }

    /// What people call it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(file) => input::shown(file),
            Self::Stdin => "<stdin>".to_owned(),
            Self::BuiltIn => "built in".to_owned(),
        }
    }

    fn read(&self) -> Result<Vec<u8>, Unreadable> {
        let never = |message: &str| {
            Err(Unreadable {
                message: message.to_owned(),
                hint: Some("only a file can be read again: name one with `--config FILE`"),
            })
        };
        match self {
            // A pipe, or a folder mounted in place of the file, would keep the reader waiting, and every reload behind it.
            Self::File(file) if std::fs::metadata(file).is_ok_and(|found| !found.is_file()) => {
                Err(Unreadable {
                    message: format!("cannot read {}: it is no regular file any more", input::shown(file)),
                    hint: None,
                })
            }
            Self::File(file) => input::read(file),
            Self::Stdin => never("the configuration came from stdin and cannot be reloaded"),
            Self::BuiltIn => never("the configuration is built in and cannot be reloaded"),
        }
    }
}

/// What came of a reload.
pub(crate) enum Outcome {
    /// Another configuration is at work.
    Taken(Taken),
    /// The present one stays. What was wrong, as `validate --format json` says it.
    Refused(String),
}

/// A configuration that was taken.
#[derive(Serialize)]
pub(crate) struct Taken {
    sha: String,
    /// What was lost by it, waits for a restart, or is hardly meant so.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// What was tried last. The same content is not tried again because it was touched.
#[derive(PartialEq, Eq)]
enum Tried {
    /// By the SHA-256 in hexadecimal digits.
    Content(String),
    Unreadable(String),
}

impl Tried {
    fn of(read: &Result<Vec<u8>, Unreadable>) -> Self {
        match read {
            Ok(text) => Self::Content(hex(&Sha256::digest(text))),
            Err(why) => Self::Unreadable(why.message.clone()),
        }
    }
}

/// Reads the configuration again and puts it to work, one reload after another.
pub(crate) struct Reloader {
    app: Arc<App>,
    source: Source,
    name: String,
    voice: Voice,
    addresses: Addresses,
    /// What the process listens on until it ends.
    running: Listen,
    /// Held for as long as a reload takes.
    tried: Arc<Mutex<Tried>>,
}

impl Reloader {
    pub(crate) fn new(app: Arc<App>, source: Source, voice: Voice, addresses: Addresses) -> Arc<Self> {
        let live = app.live_for_long();
        let running = addresses.over(&live.config().listen);
        let name = source.name();
        let tried = Tried::Content(live.config().source_sha256().to_owned());
        let tried = Arc::new(Mutex::new(tried));
        Arc::new(Self { app, source, name, voice, addresses, running, tried })
    }

    /// Reads and takes what is there now, whether it is new or not.
    pub(crate) async fn reload(self: &Arc<Self>) -> Outcome {
        let outcome = self.in_turn(|reloader, tried| {
            let read = reloader.source.read();
            *tried = Tried::of(&read);
            reloader.take(read)
        });
        // No reload panics; should one, nothing has been exchanged.
        outcome.await.unwrap_or_else(|| {
            Outcome::Refused(
                Report::of_whole(&self.name, "internal", "the reload was cut short", None).json(),
            )
        })
    }

    /// Reads what is there now, and takes it if it is not what was tried last.
    async fn reload_if_new(self: &Arc<Self>) {
        let done = self.in_turn(|reloader, tried| {
            let read = reloader.source.read();
            let now = Tried::of(&read);
            if *tried != now {
                *tried = now;
                reloader.take(read);
            }
        });
        done.await;
    }

    /// Does something that may take its time when nobody else does. It is done to its end, also if nobody waits for
    /// it any more.
    async fn in_turn<T: Send + 'static>(
        self: &Arc<Self>,
        task: impl FnOnce(&Self, &mut Tried) -> T + Send + 'static,
    ) -> Option<T> {
        let (reloader, mut tried) = (Arc::clone(self), Arc::clone(&self.tried).lock_owned().await);
        tokio::task::spawn_blocking(move || task(&reloader, &mut tried)).await.ok()
    }

    fn take(&self, read: Result<Vec<u8>, Unreadable>) -> Outcome {
        let text = match read {
            Ok(text) => text,
            Err(why) => {
                let message =
                    why.hint.map_or_else(|| why.message.clone(), |hint| format!("{}; {hint}", why.message));
                self.refused_whole(None, "unreadable", &message);
                return Outcome::Refused(Report::unreadable(&self.name, &why).json());
            }
        };
        let config = match input::parse(&self.name, &text) {
            Ok(config) => config,
            Err(errors) => {
                self.wrong(&text, &errors);
                return Outcome::Refused(Report::new(&self.name, Err(&errors), &[]).json());
            }
        };
        self.put_to_work(config).unwrap_or_else(|message| {
            self.refused_whole(Some(&sha(&text)), "cannot-be-held", &message);
            Outcome::Refused(Report::of_whole(&self.name, "cannot-be-held", &message, None).json())
        })
    }

    fn put_to_work(&self, mut config: Config) -> Result<Outcome, String> {
        // It was good when the process began, and its environment does not change.
        let _ = self.voice.tune(&mut config);
        let waiting = waiting(&self.running, &self.addresses.over(&config.listen));
        let warnings: Vec<String> = config.warnings().into_iter().map(|warning| warning.message).collect();
        let mut notes = self.app.reload_if(config, |before, next| {
            if !next.has_new_stores(Some(before)) {
                return Ok(Vec::new());
            }
            // This thread may wait: it is there for that.
            let runtime = tokio::runtime::Handle::try_current().map_err(|wrong| wrong.to_string())?;
            runtime.block_on(next.probe(Some(before)))
        })?;
        if !waiting.is_empty() {
            notes.push(format!("waits for a restart: {}", waiting.join(", ")));
        }
        notes.extend(warnings);
        let live = self.app.live();
        let config = live.config();
        let (sha, policies) = (config.source_sha(), config.policies.len());
        let message = Some(notes.join("; ")).filter(|message| !message.is_empty());
        let loaded = Loaded { file: &self.name, sha, policies };
        live.log().event(&Event::Reload { loaded, message: message.as_deref() });
        Ok(Outcome::Taken(Taken { sha: sha.to_owned(), notes }))
    }

    /// Says that a file has mistakes: the first with its place.
    fn wrong(&self, text: &[u8], errors: &ConfigErrors) {
        let Some(first) = errors.items.first() else { return };
        let mut message = first.message.clone();
        let more = errors.items.len() - 1;
        if more > 0 {
            message.push_str(&format!("; and {more} more"));
        }
        let (mut lines, mut places) = (Vec::new(), Vec::new());
        for ConfigError { line, column, message, code, .. } in errors.items.iter().take(MAX_LINES) {
            lines.push(format!("{}:{line}:{column}: {message}", self.name));
            places.push(format!("{line}:{column}: {code}"));
        }
        let hidden = errors.items.len().saturating_sub(MAX_LINES);
        if hidden > 0 {
            let rest = format!("and {hidden} more");
            lines.push(rest.clone());
            places.push(rest);
        }
        let place = Some((first.line, first.column));
        let refused =
            Refused { file: &self.name, sha: Some(&sha(text)), place, code: first.code, message: &message };
        self.refused(refused, lines, places);
    }

    /// Says that a file is not taken for what is wrong at no place of it.
    fn refused_whole(&self, sha: Option<&str>, code: &'static str, message: &str) {
        let refused = Refused { file: &self.name, sha, place: None, code, message };
        self.refused(refused, vec![message.to_owned()], vec![code.to_owned()]);
    }

    fn refused(&self, refused: Refused<'_>, lines: Vec<String>, places: Vec<String>) {
        self.app.refuse(lines, places);
        self.app.live().log().event(&Event::ReloadFailed(refused));
    }
}

/// The short name of a text, as that of a configuration.
fn sha(text: &[u8]) -> String {
    let mut digits = hex(&Sha256::digest(text));
    digits.truncate(7);
    digits
}

/// The fields that differ from what the process listens on, which only a restart changes.
fn waiting(running: &Listen, wanted: &Listen) -> Vec<String> {
    let mut fields = Vec::new();
    for (name, running, wanted) in
        [("http", &running.http, &wanted.http), ("admin", &running.admin, &wanted.admin)]
    {
        match (running, wanted) {
            (None, None) => {}
            (Some(running), Some(wanted)) => {
                let field = |field: &&str| format!("listen.{name}.{field}");
                fields.extend(differing(running, wanted).iter().map(field));
            }
            (None, Some(_)) | (Some(_), None) => fields.push(format!("listen.{name}")),
        }
    }
    fields
}

fn differing(running: &Listener, wanted: &Listener) -> Vec<&'static str> {
    let Listener { address, tls, max_connections, token, deadline: _ } = wanted;
    let fields = [
        ("address", *address != running.address),
        ("tls", *tls != running.tls),
        ("max_connections", *max_connections != running.max_connections),
        ("token", *token != running.token),
    ];
    fields.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests;
