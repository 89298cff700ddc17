//! What a server answers from, and its life: build, bind, serve, drain.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratekeeper::{BuildError, MemoryStore, OnFull};
use ratekeeper_core::{Algorithm, Align, Ask, Check, Decision, ManualClock, Name, StoreError};
use ratekeeper_policy::{Config, Policy, PolicyLimit, StoreConfig, thousands};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::cli::{self, Failure};
use crate::{input, transport};

/// A configuration at work.
pub(crate) struct App {
    config: Config,
    stores: Vec<(Name, MemoryStore)>,
    draining: AtomicBool,
}

impl App {
    /// Builds the stores of a configuration, on the process's own clock.
    ///
    /// # Errors
    /// If a store cannot be built.
    pub(crate) fn new(config: Config) -> Result<Self, BuildError> {
        let stores = build_stores(&config, None)?;
        Ok(Self { config, stores, draining: AtomicBool::new(false) })
    }

    /// Lets the stores meet every limit, so that the memory they need is reserved now and not at some request.
    ///
    /// # Errors
    /// If a store cannot hold the limits of a policy.
    fn prepare(&self) -> Result<(), Failure> {
        for policy in &self.config.policies {
            // A look of cost 0 leaves nothing behind.
            let limits = policy.limits().iter();
            let checks: Vec<Check<'_>> =
                limits.map(|limit| Check { limit: &limit.named, key: "".into(), cost: 0 }).collect();
            if let Err(wrong) = self.decide(policy, &checks, Ask::Peek) {
                let name = policy.name();
                let message = format!("error: cannot hold the limits of policy `{name}`: {wrong}");
                return Err(Failure::Other(message));
            }
        }
        Ok(())
    }

    /// The configuration.
    pub(crate) const fn config(&self) -> &Config {
        &self.config
    }

    /// The stores, in the order of the configuration.
    pub(crate) fn stores(&self) -> &[(Name, MemoryStore)] {
        &self.stores
    }

    /// Decides the limits of `policy` together.
    ///
    /// # Errors
    /// If the store cannot answer.
    pub(crate) fn decide(
        &self,
        policy: &Policy,
        checks: &[Check<'_>],
        ask: Ask,
    ) -> Result<Decision, StoreError> {
        let named = self.stores.iter().find(|(name, _)| name == policy.store());
        // The configuration is refused if a policy names a store that it does not have.
        let (_, store) = named.or_else(|| self.stores.first()).expect("every configuration has a store");
        store.decide_now(checks, ask)
    }

    /// Says that the server is about to end: `/readyz` tells.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether the server is about to end.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

/// The stores of a configuration, on `clock` or on the process's own.
///
/// # Errors
/// If a store cannot be built.
pub(crate) fn build_stores(
    config: &Config,
    clock: Option<&ManualClock>,
) -> Result<Vec<(Name, MemoryStore)>, BuildError> {
    let build = |store: &StoreConfig| {
        let on_full = match store.memory.on_full {
            ratekeeper_policy::OnFull::Share => OnFull::Share,
            ratekeeper_policy::OnFull::Deny => OnFull::Deny,
        };
        let memory = MemoryStore::builder()
            .max_keys(store.memory.max_keys)
            .max_bytes(store.memory.max_bytes)
            .on_full(on_full);
        let memory = match clock {
            Some(clock) => memory.clock(clock.clone()).build()?,
            None => memory.build()?,
        };
        Ok((store.name.clone(), memory))
    };
    config.stores.iter().map(build).collect()
}

/// Serves a configuration until the process is asked to end. `origin` is what people call the configuration,
/// `http` an address instead of its own.
///
/// # Errors
/// If a store cannot be built or an address cannot be listened on.
pub(crate) fn run(config: Config, origin: &str, http: Option<String>) -> Result<(), Failure> {
    let Some(address) = http.or_else(|| config.listen.http.as_ref().map(|http| http.address.clone())) else {
        let message =
            format!("error: {origin} opens no listener: add `listen: {{ http: … }}`, or give `--http ADDR`");
        return Err(Failure::BadInput(message));
    };
    let app =
        App::new(config).map_err(|wrong| Failure::Other(format!("error: cannot build a store: {wrong}")))?;
    app.prepare()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|wrong| Failure::Other(format!("error: cannot start threads: {wrong}")))?;
    runtime.block_on(serve(Arc::new(app), origin, &address))
}

async fn serve(app: Arc<App>, origin: &str, address: &str) -> Result<(), Failure> {
    // Before anybody can know that we listen: from then on a signal must find us ready to end well.
    let mut signals = Signals::new()
        .map_err(|wrong| Failure::Other(format!("error: cannot listen for signals: {wrong}")))?;
    let listener = TcpListener::bind(address).await.map_err(|wrong| cannot_listen(address, &wrong))?;
    let bound = listener.local_addr().map_err(|wrong| cannot_listen(address, &wrong))?;
    cli::tell(&banner(&app, origin, &bound.to_string()));
    let (stop, stopped) = watch::channel(false);
    let serving = tokio::spawn(transport::http::serve(listener, Arc::clone(&app), stopped));
    signals.next().await;
    app.drain();
    // An error means that nobody is left to be told.
    let _ = stop.send(true);
    tokio::select! {
        _ = serving => {}
        () = signals.next() => {} // Asked twice: at once.
    }
    Ok(())
}

fn cannot_listen(address: &str, wrong: &io::Error) -> Failure {
    let port = address.rsplit_once(':').map_or(address, |(_, port)| port);
    match wrong.kind() {
        io::ErrorKind::AddrInUse => Failure::Other(format!(
            "error: port {port} is in use: another program listens on {address}; take another with `--http ADDR`"
        )),
        io::ErrorKind::InvalidInput => Failure::BadInput(format!(
            "error: `{address}` is no address to listen on: {wrong}; for example `--http 127.0.0.1:8080`"
        )),
        _ => Failure::Other(format!(
            "error: cannot listen on {address}: {wrong}; take another with `--http ADDR`"
        )),
    }
}

/// What is said at the start: what is served, from where, and each policy on a line.
fn banner(app: &App, origin: &str, address: &str) -> String {
    let config = app.config();
    let mut text = format!(
        "ratekeeper {}   configuration {origin} (sha {})   {}",
        env!("CARGO_PKG_VERSION"),
        config.source_sha(),
        input::counts(config)
    );
    for (store, (_, memory)) in config.stores.iter().zip(app.stores()) {
        let keys = thousands(store.memory.max_keys);
        let mib = memory.memory_bytes().div_ceil(1_024 * 1_024);
        text.push_str(&format!("   store {}: memory, {keys} keys, {} MiB", store.name, thousands(mib)));
        let of_store = config.policies.iter().filter(|policy| *policy.store() == store.name);
        let is_log = |limit: &PolicyLimit| limit.named.limit().kind() == Algorithm::SlidingWindowLog;
        if of_store.flat_map(Policy::limits).any(is_log) {
            text.push_str(&format!(" + logs up to {}", size(store.memory.max_bytes)));
        }
    }
    text.push_str(&format!("\n  check  http://{address}/v1/check\n"));
    let width = config.policies.iter().map(|policy| policy.name().as_str().len()).max().unwrap_or(0);
    for policy in &config.policies {
        let limits: Vec<String> = policy.limits().iter().map(described).collect();
        let key = policy.key().map_or_else(String::new, |key| format!("key {key}   "));
        text.push_str(&format!("  policy {:width$}   {key}{}\n", policy.name().as_str(), limits.join(", ")));
    }
    text.push_str("  Ctrl-C stops the server\n");
    text
}

/// `burst: token-bucket 10/s, burst 20`, in the words of the file.
fn described(limit: &PolicyLimit) -> String {
    let (name, numbers) = (limit.named.name(), limit.named.limit());
    let spec = numbers.spec();
    let mut text = format!("{name}: {} {numbers}", numbers.kind());
    if let Some(burst) = spec.burst {
        text.push_str(&format!(" burst {burst}"));
    }
    if let Some(queue) = spec.queue {
        text.push_str(&format!(" queue {queue}"));
    }
    if let Some(wait) = spec.max_wait_us {
        text.push_str(&format!(" max_wait {:?}", Duration::from_micros(wait)));
    }
    match numbers.alignment() {
        Align::Epoch => {}
        Align::FirstRequest => text.push_str(" from the first request"),
        Align::Calendar(_) => {
            text.push_str(" by the calendar");
            if let Some(zone) = &limit.zone {
                text.push_str(&format!(" of {zone}"));
            }
        }
    }
    if let Some(key) = &limit.key {
        text.push_str(&format!(" key {key}"));
    }
    text
}

/// `256 MiB`: bytes in the largest unit that leaves a whole number.
fn size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| bytes.is_multiple_of(*unit)).unwrap_or((1, "B"));
    format!("{} {name}", thousands(bytes / unit))
}

/// The ways in which a process is asked to end.
struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hangup: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return,
                _ = self.terminate.recv() => return,
                // Service managers send it for "read your configuration again".
                _ = self.hangup.recv() => cli::tell(
                    "SIGHUP: reload is not available in this version; the configuration stays as it is",
                ),
            }
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    async fn next(&mut self) {
        // Without a way to hear of Ctrl-C the process still ends by it, only less gently.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
