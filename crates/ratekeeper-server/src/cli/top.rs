//! `ratekeeper top`: what a running server decides, while it does.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Duration;

use clap::Args;
use ratekeeper::{ProcessClock, Stopwatch};
use ratekeeper_core::{Clock as _, parse_duration};
use ratekeeper_policy::{ADMIN_TOKEN_VARIABLE, DEFAULT_ADMIN, Secret, admin_token};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use self::page::{History, Tick, lines};
use self::sample::{Sample, Top as MostDenied};
use crate::cli::{self, Failure, Format};
use crate::client::{Address, Connection};
use crate::input::{self, ConfigArgs};
use crate::voice::Voice;

mod page;
mod sample;

/// How many of the most refused keys are asked for: one for each policy that a page shows, and some more.
const MOST_DENIED: &str = "/v1/top?limit=100";
/// The shortest time between two looks: a look costs the server a page of metrics.
const MIN_INTERVAL: Duration = Duration::from_millis(100);
const MAX_INTERVAL: Duration = Duration::from_secs(3_600);

/// What the screen shows instead until we leave it: no cursor, and lines that are cut, not folded.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l\u{1b}[?7l";
const LEAVE: &str = "\u{1b}[?7h\u{1b}[?25h\u{1b}[?1049l";
const HOME: &str = "\u{1b}[H";
const REST_OF_LINE: &str = "\u{1b}[K";
const REST_OF_SCREEN: &str = "\u{1b}[J";
const BOLD: (&str, &str) = ("\u{1b}[1m", "\u{1b}[0m");

/// Show what a running server decides: rates, refusals, who is refused most
///
/// Asks its admin listener. On a terminal a page that is drawn anew; elsewhere one JSON line each time.
#[derive(Args)]
pub(super) struct Top {
    /// The admin listener to ask [default: listen.admin of the file, or http://127.0.0.1:9090]
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    #[command(flatten)]
    config: ConfigArgs,
    /// How long between two looks
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = interval)]
    interval: Duration,
    /// End after so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    ticks: Option<u64>,
    /// End after the first
    #[arg(long, conflicts_with = "ticks")]
    once: bool,
    /// How to say it; off a terminal always as JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = parse_duration(text).ok().map(Duration::from_micros);
    interval
        .filter(|interval| (MIN_INTERVAL..=MAX_INTERVAL).contains(interval))
        .ok_or_else(|| "write a duration from 100ms to 1h, for example 2s".to_owned())
}

impl Top {
    pub(super) fn run(self, voice: Voice) -> Result<(), Failure> {
        let (address, origin, token) = self.whom()?;
        if voice.is_verbose() {
            cli::tell(&format!("asking http://{address}, from {origin}"));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|wrong| Failure::Other(format!("error: cannot open sockets: {wrong}")))?;
        let screen = (self.format == Format::Text && io::stdout().is_terminal()).then(Screen::default);
        let looker = Looker { address, token, connection: None };
        runtime.block_on(async {
            let ended = |kind| {
                signal(kind)
                    .map_err(|wrong| Failure::Other(format!("error: cannot listen for signals: {wrong}")))
            };
            let (mut interrupt, mut terminate) =
                (ended(SignalKind::interrupt())?, ended(SignalKind::terminate())?);
            tokio::select! {
                done = self.watch(looker, screen) => done,
                // The page goes, the screen comes back as it was.
                _ = interrupt.recv() => Ok(()),
                _ = terminate.recv() => Ok(()),
            }
        })
    }

    /// Whom to ask, who says so, and with which token.
    fn whom(&self) -> Result<(Address, String, Option<Secret>), Failure> {
        let of_environment = admin_token(&|name| std::env::var(name).ok())
            .map_err(|wrong| Failure::BadInput(format!("error: {ADMIN_TOKEN_VARIABLE}: {wrong}")))?;
        if let Some(url) = &self.server {
            let address = Address::of_url(url)
                .map_err(|wrong| Failure::BadInput(format!("error: --server: {wrong}")))?;
            return Ok((address, "--server".to_owned(), of_environment));
        }
        let file = self.config.file();
        // A file that nobody has named need not be there.
        if !self.config.is_named() && !Path::new(&file).exists() {
            return Ok((Address::of_listener(DEFAULT_ADMIN), "the default".to_owned(), of_environment));
        }
        let (config, origin) = (input::config(&file)?, input::shown(&file));
        match config.listen.admin {
            Some(admin) if admin.tls.is_none() => {
                Ok((Address::of_listener(&admin.address), origin, admin.token.or(of_environment)))
            }
            Some(admin) => Err(Failure::BadInput(format!(
                "error: {origin} listens on https://{}, and https is not available for asking in this version: name a listener without TLS with `--server URL`",
                admin.address
            ))),
            None => Err(Failure::BadInput(format!(
                "error: {origin} opens no admin listener: name one with `--server URL`"
            ))),
        }
    }

    async fn watch(&self, mut looker: Looker, mut screen: Option<Screen>) -> Result<(), Failure> {
        let (mut before, _) = looker.look().await?;
        let mut history = History::default();
        let mut left = if self.once { Some(1) } else { self.ticks };
        let server = looker.address.to_string();
        while left != Some(0) {
            let watch = Stopwatch::start();
            sleep(self.interval).await;
            let (after, top) = match (looker.look().await, &mut screen) {
                (Ok(looked), _) => looked,
                // A server that is started anew is waited for, where somebody sees that.
                (Err(Failure::Other(trouble)), Some(screen)) => {
                    screen.draw(&[trouble])?;
                    continue;
                }
                (Err(trouble), _) => return Err(trouble),
            };
            let interval_ms = (watch.elapsed_ns() / 1_000_000).max(1);
            let now_s = ProcessClock.now().get() / 1_000_000;
            let tick = Tick::between(&server, &before, (&after, &top), interval_ms, now_s);
            match &mut screen {
                Some(screen) => {
                    history.add(&tick);
                    screen.draw(&lines(&tick, &history))?;
                }
                None => {
                    let line = serde_json::to_string(&tick);
                    let line = line.map_err(|wrong| Failure::Other(format!("error: {wrong}")))?;
                    cli::print(&(line + "\n"))?;
                }
            }
            before = after;
            left = left.map(|left| left - 1);
        }
        Ok(())
    }
}

/// Asks a server again and again.
struct Looker {
    address: Address,
    token: Option<Secret>,
    connection: Option<Connection>,
}

impl Looker {
    async fn look(&mut self) -> Result<(Sample, MostDenied), Failure> {
        let page = self.get("/metrics").await?;
        let top = self.get(MOST_DENIED).await?;
        let top = serde_json::from_slice(&top).map_err(|wrong| {
            Failure::Other(format!(
                "error: http://{} does not answer as ratekeeper does: {wrong}",
                self.address
            ))
        })?;
        Ok((Sample::read(&String::from_utf8_lossy(&page)), top))
    }

    async fn get(&mut self, target: &'static str) -> Result<Vec<u8>, Failure> {
        let address = &self.address;
        let silent = |trouble| Failure::Other(format!("error: no answer from http://{address}: {trouble}"));
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(address).await.map_err(silent)?,
        };
        let token = self.token.as_ref().map(Secret::expose);
        let (status, body) = connection.get_as(target, token).await.map_err(silent)?;
        self.connection = Some(connection);
        match status {
            200 => Ok(body.to_vec()),
            401 => Err(Failure::BadInput(format!(
                "error: http://{address} needs its token: set {ADMIN_TOKEN_VARIABLE}"
            ))),
            404 => Err(Failure::BadInput(format!(
                "error: http://{address} has no {target}: name the admin listener with `--server URL`"
            ))),
            status => Err(Failure::Other(format!("error: http://{address} answers {status} to {target}"))),
        }
    }
}

/// A terminal that shows the page, and what was there before when it is dropped.
struct Screen {
    is_plain: bool,
}

impl Default for Screen {
    fn default() -> Self {
        // Should nobody see it, there is nothing to be done about it.
        let _ = write!(io::stdout().lock(), "{ENTER}");
        Self { is_plain: std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) }
    }
}

impl Screen {
    fn draw(&mut self, lines: &[String]) -> Result<(), Failure> {
        let mut page = HOME.to_owned();
        for (nth, line) in lines.iter().enumerate() {
            let (bold, plain) = if nth == 0 && !self.is_plain { BOLD } else { ("", "") };
            page.extend([bold, line, plain, REST_OF_LINE, "\r\n"]);
        }
        page.push_str(REST_OF_SCREEN);
        cli::print(&page)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut stdout = io::stdout().lock();
        let _ = write!(stdout, "{LEAVE}").and_then(|()| stdout.flush());
    }
}
