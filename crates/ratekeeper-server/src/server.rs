//! The life of a server: bind, serve, drain.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ratekeeper_policy::{Config, Listen, Listener, LogFormat, Secret as Token, is_loopback};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::app::App;
use crate::banner::banner;
use crate::cli::{self, Failure};
use crate::client::Address;
use crate::manager::Manager;
use crate::reload::{Reloader, Source};
use crate::signals::{Asked, Signals};
use crate::telemetry::Listener as Name;
use crate::telemetry::log::{Event, Loaded};
use crate::transport::{admin, http, tls};
use crate::voice::Voice;

/// How long the last lines of the log may take to be written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Addresses from the command line, instead of those of the file.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct Addresses {
    /// Listen for HTTP here instead of at the file's address
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<String>,
    /// Listen for operators here instead of at the file's address: metrics, keys
    #[arg(long, value_name = "ADDR")]
    pub(crate) admin: Option<String>,
}

impl Addresses {
    /// What is listened on when the file says `listen`.
    pub(crate) fn over(&self, listen: &Listen) -> Listen {
        let listener = |address: &Option<String>, of_file: &Option<Listener>| match (address, of_file) {
            (Some(address), Some(listener)) => {
                Some(Listener { address: address.clone(), ..listener.clone() })
            }
            (Some(address), None) => Some(Listener::new(address)),
            (None, of_file) => of_file.clone(),
        };
        Listen { http: listener(&self.http, &listen.http), admin: listener(&self.admin, &listen.admin) }
    }
}

/// A listener, and what answers behind it.
struct Door {
    name: Name,
    flag: &'static str,
    settings: Listener,
    tls: Option<TlsAcceptor>,
}

impl Door {
    fn new(name: Name, flag: &'static str, settings: Option<Listener>) -> Result<Option<Self>, Failure> {
        let Some(settings) = settings else { return Ok(None) };
        let tls = settings.tls.as_ref().map(tls::acceptor).transpose().map_err(Failure::BadInput)?;
        Ok(Some(Self { name, flag, settings, tls }))
    }

    async fn bind(&self) -> Result<TcpListener, Failure> {
        listen(&self.settings.address).await.map_err(|wrong| self.cannot_listen(&wrong))
    }

    fn cannot_listen(&self, wrong: &io::Error) -> Failure {
        let (address, flag) = (&self.settings.address, self.flag);
        let port = address.rsplit_once(':').map_or(address.as_str(), |(_, port)| port);
        match wrong.kind() {
            io::ErrorKind::AddrInUse => Failure::Other(format!(
                "error: port {port} is in use: another program listens on {address}; take another with `{flag} ADDR`"
            )),
            io::ErrorKind::InvalidInput => Failure::BadInput(format!(
                "error: `{address}` is no address to listen on: {wrong}; for example `{flag} 127.0.0.1:8080`"
            )),
            _ => Failure::Other(format!(
                "error: cannot listen on {address}: {wrong}; take another with `{flag} ADDR`"
            )),
        }
    }

    /// `http://ADDRESS`, as it was bound.
    fn url(&self, listener: &TcpListener) -> Result<String, Failure> {
        let bound = listener.local_addr().map_err(|wrong| self.cannot_listen(&wrong))?;
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Ok(format!("{scheme}://{bound}"))
    }
}

/// How many connections the system keeps for us until they are accepted: a crowd that comes at once, as after a
/// restart, is not told to try again a second later.
const BACKLOG: u32 = 4_096;

/// Listens at the first address of a name that can be listened on.
async fn listen(address: &str) -> io::Result<TcpListener> {
    let mut last = None;
    for address in tokio::net::lookup_host(address).await? {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let listening = socket.and_then(|socket| {
            // A server that was just stopped leaves connections behind that are still being forgotten.
            #[cfg(unix)]
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(BACKLOG)
        });
        match listening {
            Ok(listener) => return Ok(listener),
            Err(wrong) => last = Some(wrong),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it names no address")))
}

/// What is served where.
pub(crate) struct Plan {
    http: Option<Door>,
    admin: Option<Door>,
    token: Option<Token>,
    addresses: Addresses,
    /// What is to run beside the listeners.
    pub(crate) beside: Option<Beside>,
}

/// Something that runs beside the listeners and ends with them.
pub(crate) struct Beside {
    /// What the banner says of it.
    pub(crate) line: String,
    /// What runs, given where HTTP is served; it is dropped when the server begins to end.
    pub(crate) run: Box<dyn FnOnce(Address) -> Running>,
}

/// What runs beside the listeners, until it ends or is dropped.
pub(crate) type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs something until `stop` changes.
async fn until(mut stop: watch::Receiver<bool>, run: impl Future<Output = ()>) {
    tokio::select! {
        () = run => {}
        _ = stop.changed() => {}
    }
}

impl Plan {
    /// The listeners of a configuration, with the addresses of the command line.
    ///
    /// # Errors
    /// If there is none, a certificate cannot be read, or everybody could reach the admin listener.
    pub(crate) fn new(config: &Config, source: &Source, addresses: Addresses) -> Result<Self, Failure> {
        let listen = addresses.over(&config.listen);
        let http = Door::new(Name::Http, "--http", listen.http)?;
        let admin = Door::new(Name::Admin, "--admin", listen.admin)?;
        if http.is_none() && admin.is_none() {
            let origin = source.name();
            let message = format!(
                "error: {origin} opens no listener: add `listen: {{ http: … }}`, or give `--http ADDR`"
            );
            return Err(Failure::BadInput(message));
        }
        let of_file = admin.as_ref().and_then(|door| door.settings.token.clone());
        let token = match of_file {
            Some(token) => Some(token),
            None => ratekeeper_policy::admin_token(&|name| std::env::var(name).ok())
                .map_err(|wrong| Failure::BadInput(format!("error: RATEKEEPER_ADMIN_TOKEN: {wrong}")))?,
        };
        if let Some(door) = admin.as_ref().filter(|_| token.is_none())
            && !is_loopback(&door.settings.address)
        {
            return Err(Failure::BadInput(format!(
                "error: {} can be reached from elsewhere, and admin has no token; set RATEKEEPER_ADMIN_TOKEN, or listen on 127.0.0.1",
                door.settings.address
            )));
        }
        Ok(Self { http, admin, token, addresses, beside: None })
    }

    /// Serves until the process is asked to end. `source` is where the configuration came from.
    ///
    /// # Errors
    /// If an address cannot be listened on.
    pub(crate) fn run(self, app: App, source: Source, voice: Voice) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|wrong| Failure::Other(format!("error: cannot start threads: {wrong}")))?;
        let done = runtime.block_on(self.serve(Arc::new(app), source, voice));
        // A file on a machine that does not answer is not waited for.
        runtime.shutdown_background();
        done
    }

    async fn serve(self, app: Arc<App>, source: Source, voice: Voice) -> Result<(), Failure> {
        // Before anybody can know that we listen: from then on a signal must find us ready to end well.
        let mut signals = Signals::new()
            .map_err(|wrong| Failure::Other(format!("error: cannot listen for signals: {wrong}")))?;
        let manager = Arc::new(Manager::of_environment());
        let (stop, stopped) = watch::channel(false);
        // Operators see the others out: readiness and the last numbers are asked for until then.
        let (stop_admin, admin_stopped) = watch::channel(false);
        let mut serving = JoinSet::new();
        let mut serving_admin = JoinSet::new();
        let mut urls = Vec::new();
        let origin = source.name();
        // One that cannot serve is an error of whoever has set it up; one that does not answer may do so yet.
        let notes = app.live_for_long().probe(None).await;
        for note in notes.map_err(|wrong| Failure::Other(format!("error: {wrong}")))? {
            if !voice.is_quiet() {
                cli::tell(&format!("warning: {note}"));
            }
        }
        let reloader = Reloader::new(Arc::clone(&app), source, voice, self.addresses);
        if let Some(door) = self.http {
            let listener = door.bind().await?;
            urls.push((door.name, door.url(&listener)?));
            let site = Arc::new(http::Service::new(Arc::clone(&app)));
            let most = door.settings.max_connections;
            serving.spawn(http::serve(listener, site, door.tls, most, stopped.clone()));
        }
        if let Some(door) = self.admin {
            let listener = door.bind().await?;
            urls.push((door.name, door.url(&listener)?));
            let site = Arc::new(admin::Admin::new(Arc::clone(&app), Arc::clone(&reloader), self.token));
            let most = door.settings.max_connections;
            serving_admin.spawn(http::serve(listener, site, door.tls, most, admin_stopped));
        }
        // People are told in words, programs in lines of one kind.
        let live = app.live_for_long();
        let config = live.config();
        if config.log.format == LogFormat::Json {
            let policies = config.policies.len();
            live.log().event(&Event::Config(Loaded { file: &origin, sha: config.source_sha(), policies }));
            for (name, url) in &urls {
                live.log().event(&Event::Listen { listener: *name, address: url });
            }
        } else if !voice.is_quiet() {
            cli::tell(&banner(
                &live,
                &origin,
                &urls,
                self.beside.as_ref().map(|beside| beside.line.as_str()),
            ));
        }
        if let (Some(beside), Some((_, url))) =
            (self.beside, urls.iter().find(|(name, _)| *name == Name::Http))
            && let Ok(address) = Address::of_url(url)
        {
            let run = (beside.run)(Address::of_listener(&address.to_string()));
            tokio::spawn(until(stopped.clone(), run));
        }
        drop(live);
        tokio::spawn(until(stopped, Arc::clone(&reloader).watch()));
        manager.ready();
        tokio::spawn({
            let manager = Arc::clone(&manager);
            async move { manager.assure().await }
        });
        while signals.next().await == Asked::Reload {
            let reloader = Arc::clone(&reloader);
            // In its own time: whoever asks for the end meanwhile is heard.
            tokio::spawn(async move { reloader.reload().await });
        }
        manager.stopping();
        app.drain();
        app.live().log().event(&Event::Drain);
        // An error means that nobody is left to be told.
        let _ = stop.send(true);
        tokio::select! {
            () = async {
                while serving.join_next().await.is_some() {}
                let _ = stop_admin.send(true);
                while serving_admin.join_next().await.is_some() {}
            } => {}
            () = signals.end() => {} // Asked twice: at once.
        }
        app.live().log().flush(FLUSH_TIMEOUT);
        Ok(())
    }
}
