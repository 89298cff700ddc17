//! `ratekeeper check`: ask a running server, from a terminal or a script.

use std::path::Path;

use clap::Args;
use hyper::body::Bytes;
use jiff::tz::TimeZone;
use ratekeeper::ProcessClock;
use ratekeeper_core::Clock as _;
use ratekeeper_policy::DEFAULT_HTTP;
use ratekeeper_sim::hints::quoted;
use serde::Deserialize;

use crate::cli::question::Question;
use crate::cli::{self, Failure, Format};
use crate::client::{Address, Connection, Trouble};
use crate::input::{self, ConfigArgs};
use crate::voice::Voice;
use answer::{Answer, Asked, harmless};

pub(super) mod answer;

/// Where the server is, unless a flag says otherwise.
const SERVER_VARIABLE: &str = "RATEKEEPER_SERVER";

/// Take from the limits of a policy, or of those that a request matches, what a request would take, and say what was
/// answered (--peek looks)
///
/// Asks a running server. Exit code 0: allowed, 10: denied, 2: wrong input, 1: no answer.
#[derive(Args)]
pub(super) struct Check {
    #[command(flatten)]
    question: Question,
    /// Look only: nothing is taken
    #[arg(long)]
    peek: bool,
    /// Ask for no decision, but whether the server is ready: exit code 0, or 1 if it is not or ends
    #[arg(long, conflicts_with_all = ["policy", "attributes", "cost", "peek", "key_of", "format"])]
    ready: bool,
    /// The server to ask [default: $RATEKEEPER_SERVER, or listen.http of the file, or http://127.0.0.1:8080]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
    /// How to say it: in words, or as the server's own object
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// What is used of a problem object.
#[derive(Deserialize)]
struct Problem {
    detail: String,
}

impl Check {
    pub(super) fn run(self, voice: Voice) -> Result<(), Failure> {
        let (address, origin) = self.address()?;
        if voice.is_verbose() {
            cli::tell(&format!("asking http://{address}, from {origin}"));
        }
        if self.ready {
            return ready(&address);
        }
        let question = self.question.body(self.peek)?;
        let (status, body) = ask(&address, async |connection| connection.post("/v1/check", question).await)?;
        if status != 200 {
            return Err(refused(&address, status, &body));
        }
        let answer: Answer = serde_json::from_slice(&body).map_err(|wrong| {
            Failure::Other(format!("error: http://{address} does not answer as ratekeeper does: {wrong}"))
        })?;
        match self.format {
            Format::Json => cli::print(&(String::from_utf8_lossy(&body).into_owned() + "\n"))?,
            Format::Text => {
                let asked = Asked {
                    request: self.question.request(),
                    key: self.question.key(),
                    cost: self.question.cost(),
                    peek: self.peek,
                };
                cli::print(&answer.told(&asked, ProcessClock.now(), &TimeZone::system()))?;
            }
        }
        if answer.allowed { Ok(()) } else { Err(Failure::Denied) }
    }

    /// Whom to ask, and who says so: flag, environment, file, default.
    fn address(&self) -> Result<(Address, String), Failure> {
        if let Some(url) = &self.server {
            return of_url(url, "--server");
        }
        if let Some(url) = std::env::var_os(SERVER_VARIABLE).filter(|url| !url.is_empty()) {
            return of_url(&url.to_string_lossy(), SERVER_VARIABLE);
        }
        let file = self.config.file();
        // A file that nobody has named need not be there.
        if !self.config.is_named() && !Path::new(&file).exists() {
            return Ok((Address::of_listener(DEFAULT_HTTP), "the default".to_owned()));
        }
        let (config, origin) = (input::config(&file)?, input::shown(&file));
        match config.listen.http {
            Some(http) if http.tls.is_none() => Ok((Address::of_listener(&http.address), origin)),
            Some(http) => Err(Failure::BadInput(format!(
                "error: {origin} listens on https://{}, and https is not available for asking in this version: name a listener without TLS with `--server URL`",
                http.address
            ))),
            None => Err(Failure::BadInput(format!(
                "error: {origin} opens no HTTP listener: name a server with `--server URL`"
            ))),
        }
    }
}

pub(super) fn of_url(url: &str, origin: &str) -> Result<(Address, String), Failure> {
    let address =
        Address::of_url(url).map_err(|wrong| Failure::BadInput(format!("error: {origin}: {wrong}")))?;
    Ok((address, origin.to_owned()))
}

/// Whether the server answers and goes on doing so, for those who start servers and end them.
fn ready(address: &Address) -> Result<(), Failure> {
    match ask(address, async |connection| connection.get("/readyz").await)? {
        (200, _) => cli::print("ready\n"),
        (503, body) => Err(Failure::Other(format!(
            "not ready: http://{address} says {}",
            quoted(String::from_utf8_lossy(&body).trim_end())
        ))),
        (status, body) => Err(refused(address, status, &body)),
    }
}

/// What a server answers to a question.
///
/// # Errors
/// If it does not answer.
pub(super) fn ask(
    address: &Address,
    question: impl AsyncFnOnce(&mut Connection) -> Result<(u16, Bytes), Trouble>,
) -> Result<(u16, Vec<u8>), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|wrong| Failure::Other(format!("error: cannot open sockets: {wrong}")))?;
    let answer = runtime.block_on(async {
        let mut connection = Connection::open(address).await?;
        question(&mut connection).await
    });
    answer.map(|(status, body)| (status, body.to_vec())).map_err(|trouble| {
        let hint = match trouble {
            Trouble::Absent(_) => {
                "; start one with `ratekeeper serve` or `ratekeeper demo`, or name another with `--server URL`"
            }
            Trouble::Silent | Trouble::Strange(_) => "",
        };
        Failure::Other(format!("error: no answer from http://{address}: {trouble}{hint}"))
    })
}

/// What an answer other than 200 means to who asked.
pub(super) fn refused(address: &Address, status: u16, body: &[u8]) -> Failure {
    match (status, serde_json::from_slice(body)) {
        (400 | 404, Ok(Problem { detail })) => Failure::BadInput(format!("error: {}", harmless(&detail))),
        (_, Ok(Problem { detail })) => {
            Failure::Other(format!("error: http://{address} answers {status}: {}", harmless(&detail)))
        }
        (_, Err(_)) => Failure::Other(format!(
            "error: http://{address} answers {status}, and not as ratekeeper does: is another program there?"
        )),
    }
}
