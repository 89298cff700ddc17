//! `ratekeeper explain`: which policies a request meets, by which key and limit, and why.

use std::path::Path;

use clap::Args;
use jiff::tz::TimeZone;
use ratekeeper_policy::{ADMIN_TOKEN_VARIABLE, DEFAULT_ADMIN, MIN_MAX_BYTES, MemoryConfig, StoreKind};

use crate::app::App;
use crate::cli::check::answer::harmless;
use crate::cli::check::{ask, of_url, refused};
use crate::cli::question::Question;
use crate::cli::simulate::at_once;
use crate::cli::{self, Failure, Format};
use crate::client::Address;
use crate::explained::Explained;
use crate::input::{self, ConfigArgs};
use crate::transport;
use crate::voice::Voice;

mod told;

/// Say which policies a request meets, by which key and limits, and why; nothing is taken
///
/// Asks the admin listener of a running server, which knows what has been used; with --offline the file alone is
/// looked at. Exit code 0: explained, 2: wrong input, 1: no answer.
#[derive(Args)]
pub(super) struct Explain {
    #[command(flatten)]
    question: Question,
    /// Ask no server: by the file alone, as if nothing had been used
    #[arg(long, conflicts_with = "server")]
    offline: bool,
    /// The admin listener to ask [default: listen.admin of the file, or http://127.0.0.1:9090]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
    /// How to say it: in words, or as the server's own object
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Whom to ask.
struct Whom {
    address: Address,
    /// Who says so.
    origin: String,
    token: Option<String>,
}

impl Explain {
    pub(super) fn run(self, voice: Voice) -> Result<(), Failure> {
        let question = self.question.body(true)?;
        let (explained, lead) = if self.offline {
            let file = self.config.file();
            let lead = format!("offline   by {} alone, as if nothing had been used", input::shown(&file));
            (offline(&file, &question)?, Some(lead))
        } else {
            (self.asked(question, voice)?, None)
        };
        match self.format {
            Format::Json => {
                if let Some(lead) = lead.filter(|_| !voice.is_quiet()) {
                    cli::tell(&lead);
                }
                let text = serde_json::to_string(&explained)
                    .map_err(|wrong| Failure::Other(format!("error: {wrong}")))?;
                cli::print(&(text + "\n"))
            }
            Format::Text => {
                let lead = lead.map_or_else(String::new, |lead| lead + "\n");
                cli::print(&(lead + &told::text(&explained, &TimeZone::system())))
            }
        }
    }

    /// What a running server says.
    fn asked(&self, question: Vec<u8>, voice: Voice) -> Result<Explained, Failure> {
        let Whom { address, origin, token } = self.whom()?;
        if voice.is_verbose() {
            cli::tell(&format!("asking http://{address}, from {origin}"));
        }
        let (status, body) = ask(&address, async |connection| {
            connection.post_with("/v1/explain", question, token.as_deref()).await
        })
        .map_err(|failure| match failure {
            Failure::Other(message) => {
                Failure::Other(format!("{message}; `--offline` explains by the file alone"))
            }
            other => other,
        })?;
        match status {
            200 => serde_json::from_slice(&body).map_err(|wrong| {
                Failure::Other(format!("error: http://{address} does not answer as ratekeeper does: {wrong}"))
            }),
            401 => Err(Failure::BadInput(format!(
                "error: http://{address} needs its token: give it in {ADMIN_TOKEN_VARIABLE}, or name the file that has it with `--config FILE`"
            ))),
            404 if is_not_served(&body) => Err(Failure::BadInput(format!(
                "error: http://{address} explains nothing: name the admin listener of a server with `--server URL`"
            ))),
            status => Err(refused(&address, status, &body)),
        }
    }

    /// The admin listener: by flag, file or default. Its token is that of the environment or of the file.
    fn whom(&self) -> Result<Whom, Failure> {
        let token = std::env::var(ADMIN_TOKEN_VARIABLE).ok().filter(|token| !token.is_empty());
        let file = self.config.file();
        let has_file = self.config.is_named() || Path::new(&file).exists();
        if let Some(url) = &self.server {
            let (address, origin) = of_url(url, "--server")?;
            // A file is read for its token, and only if it is meant.
            let of_file = || -> Result<Option<String>, Failure> {
                let admin = if self.config.is_named() { input::config(&file)?.listen.admin } else { None };
                Ok(admin.and_then(|admin| Some(admin.token?.expose().to_owned())))
            };
            let token = match token {
                Some(token) => Some(token),
                None => of_file()?,
            };
            return Ok(Whom { address, origin, token });
        }
        if !has_file {
            let address = Address::of_listener(DEFAULT_ADMIN);
            return Ok(Whom { address, origin: "the default".to_owned(), token });
        }
        let (config, origin) = (input::config(&file)?, input::shown(&file));
        match config.listen.admin {
            Some(admin) if admin.tls.is_none() => Ok(Whom {
                address: Address::of_listener(&admin.address),
                origin,
                token: admin.token.map(|token| token.expose().to_owned()).or(token),
            }),
            Some(admin) => Err(Failure::BadInput(format!(
                "error: {origin} listens on https://{}, and https is not available for asking in this version: name a listener without TLS with `--server URL`, or explain by the file alone with `--offline`",
                admin.address
            ))),
            None => Err(Failure::BadInput(format!(
                "error: {origin} opens no admin listener: name one with `--server URL`, or explain by the file alone with `--offline`"
            ))),
        }
    }
}

/// Whether nothing is served where was asked; else a 404 is about a policy.
fn is_not_served(body: &[u8]) -> bool {
    let problem = serde_json::from_slice::<serde_json::Value>(body).unwrap_or_default();
    problem.get("type").is_none_or(|kind| kind == "urn:ratekeeper:problem:not-found")
}

/// What a server would say that has just been started.
fn offline(file: &Path, question: &[u8]) -> Result<Explained, Failure> {
    let mut config = input::config(file)?;
    for store in &mut config.stores {
        // Nothing is kept in them.
        let given = store.memory().copied().unwrap_or_default();
        let least = MemoryConfig { max_keys: 1_000, max_bytes: MIN_MAX_BYTES, ..given };
        store.kind = StoreKind::Memory(least);
    }
    let app = App::new(config).map_err(|wrong| Failure::Other(format!("error: {wrong}")))?;
    // All of them are in memory, which answers at once.
    at_once(transport::http::explain(&app.live(), question))
        .map_err(|problem| Failure::BadInput(format!("error: {}", harmless(problem.detail()))))
}
