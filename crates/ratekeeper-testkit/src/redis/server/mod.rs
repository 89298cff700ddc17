//! One `redis-server`.

mod builder;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use builder::{AppendFsync, Builder};

use super::folder::Folder;
use super::process::Process;
use super::resp::{Connection, Reply};
use super::skew::Skew;
use super::wait::{Stopwatch, pause};

/// How long a server may take until it answers.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// The harness has a user of its own, so that a test may set passwords and forbid commands as it likes.
pub(crate) const USER: &str = "testkit";
pub(crate) const PASSWORD: &str = "testkit";

/// A running server. It is killed, and its folder removed, on drop.
#[derive(Debug)]
pub struct RedisServer {
    /// Before the folder: fields are dropped in this order.
    process: Mutex<Option<Process>>,
    is_stopped: AtomicBool,
    binary: PathBuf,
    is_sentinel: bool,
    port: u16,
    tls_port: Option<u16>,
    skew: Option<Skew>,
    folder: Folder,
}

/// When a key goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    /// There is no such key.
    Missing,
    /// It stays.
    Never,
    /// It goes away.
    At {
        /// `PTTL`: milliseconds from now.
        left_ms: u64,
        /// `PEXPIRETIME`: milliseconds since the Unix epoch, by the server's clock.
        unix_ms: u64,
    },
}

impl RedisServer {
    /// Starts a server that saves nothing, on a free port.
    ///
    /// # Panics
    /// If `redis-server` is missing or does not answer within ten seconds.
    #[must_use]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// A server with settings.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// The port for plain connections on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port for TLS, if the server was built with it.
    ///
    /// # Panics
    /// If it was not.
    #[must_use]
    pub fn tls_port(&self) -> u16 {
        self.tls_port.expect("Builder::tls gives a server a port for it")
    }

    /// `redis://127.0.0.1:PORT`
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// `rediss://127.0.0.1:PORT`
    ///
    /// # Panics
    /// As [`tls_port`](Self::tls_port).
    #[must_use]
    pub fn tls_url(&self) -> String {
        format!("rediss://127.0.0.1:{}", self.tls_port())
    }

    /// The number of the process.
    ///
    /// # Panics
    /// If it was killed.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.lock().as_ref().expect("the server runs").id()
    }

    /// The folder with its data and its log.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What the server wrote to its log since it was started last.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Whether the process is there: also when it is stopped.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.lock().as_mut().is_some_and(|process| !process.has_ended())
    }

    /// Whether it can be asked: it runs and is not stopped.
    pub(crate) fn is_up(&self) -> bool {
        self.is_running() && !self.is_stopped.load(Ordering::SeqCst)
    }

    /// SIGKILL: nothing more is written, and the port is closed when this returns. No effect on a dead server.
    pub fn kill(&self) {
        self.lock().take();
    }

    /// Starts it again on the same port and the same data, killing it first if it still runs.
    ///
    /// # Panics
    /// If it does not answer within ten seconds.
    pub fn restart(&self) {
        self.kill();
        self.launch().unwrap_or_else(|error| panic!("{error}"));
    }

    /// SIGSTOP: connections stay and are even accepted, nobody answers.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.signal("STOP");
    }

    /// SIGCONT: what was sent in the meantime is executed now.
    pub fn cont(&self) {
        self.signal("CONT");
        self.is_stopped.store(false, Ordering::SeqCst);
    }

    fn signal(&self, name: &str) {
        self.lock().as_ref().expect("the server runs").signal(name);
    }

    /// A connection of its own, as a user that may do everything.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn connect(&self) -> io::Result<Connection> {
        let mut connection = Connection::open(self.port)?;
        match connection.call(&["AUTH", USER, PASSWORD])? {
            Reply::Status(_) => Ok(connection),
            other => Err(io::Error::other(format!("AUTH: {other:?}"))),
        }
    }

    /// Sends one command over a new connection. An error that the server answers is a reply like any other.
    ///
    /// # Panics
    /// If the server does not answer.
    #[track_caller]
    pub fn command<A: AsRef<[u8]>>(&self, words: &[A]) -> Reply {
        match self.try_command(words) {
            Ok(reply) => reply,
            Err(error) => {
                let name = words.first().map(|word| String::from_utf8_lossy(word.as_ref()));
                panic!("{name:?} on port {}: {error}; its log:\n{}", self.port, self.log())
            }
        }
    }

    /// Sends one command over a new connection.
    ///
    /// # Errors
    /// If the server does not answer.
    pub fn try_command<A: AsRef<[u8]>>(&self, words: &[A]) -> io::Result<Reply> {
        self.connect()?.call(words)
    }

    /// The fields of a section of `INFO`.
    #[must_use]
    #[track_caller]
    pub fn info(&self, section: &str) -> BTreeMap<String, String> {
        fields(&self.command(&["INFO", section]).good().text())
    }

    /// `master` or `slave`, by the server itself; nothing if it does not answer, for example because a sentinel
    /// that changes its role ends all connections.
    #[must_use]
    pub fn role(&self) -> Option<String> {
        self.replication("role")
    }

    /// Whether it follows a primary and has caught up with it once.
    pub(crate) fn is_linked(&self) -> bool {
        self.replication("master_link_status").is_some_and(|link| link == "up")
    }

    fn replication(&self, field: &str) -> Option<String> {
        let answer = self.try_command(&["INFO", "replication"]).ok()?;
        fields(&answer.text()).remove(field)
    }

    /// All keys of the first database, sorted.
    #[must_use]
    #[track_caller]
    pub fn keys(&self) -> Vec<String> {
        let (mut cursor, mut keys) = ("0".to_owned(), std::collections::BTreeSet::new());
        loop {
            let answer = self.command(&["SCAN", &cursor, "COUNT", "1000"]).good().items();
            let [next, found] = <[Reply; 2]>::try_from(answer).expect("SCAN answers a cursor and keys");
            keys.extend(found.items().iter().map(Reply::text));
            cursor = next.text();
            if cursor == "0" {
                return keys.into_iter().collect();
            }
        }
    }

    /// When a key goes away.
    #[must_use]
    #[track_caller]
    pub fn ttl(&self, key: &str) -> Ttl {
        // In one transaction, or the key could end in between.
        let mut connection = self.connect().unwrap_or_else(|error| panic!("port {}: {error}", self.port));
        let mut call = |words: &[&str]| connection.call(words).map(Reply::good);
        let answers = call(&["MULTI"])
            .and_then(|_| call(&["PTTL", key]))
            .and_then(|_| call(&["PEXPIRETIME", key]))
            .and_then(|_| call(&["EXEC"]))
            .unwrap_or_else(|error| panic!("PTTL on port {}: {error}", self.port));
        let numbers: Vec<i64> = answers.items().iter().map(Reply::int).collect();
        match (u64::try_from(numbers[0]), u64::try_from(numbers[1])) {
            (Ok(left_ms), Ok(unix_ms)) => Ttl::At { left_ms, unix_ms },
            _ if numbers[0] == -1 => Ttl::Never,
            _ => Ttl::Missing,
        }
    }

    /// Processor time that the server has used, user and system, in microseconds.
    #[must_use]
    #[track_caller]
    pub fn used_cpu(&self) -> u64 {
        let info = self.info("cpu");
        ["used_cpu_user", "used_cpu_sys"].iter().map(|name| micros(&info[*name])).sum()
    }

    /// The server's clock: microseconds since the Unix epoch.
    #[must_use]
    #[track_caller]
    pub fn time_us(&self) -> i64 {
        let parts: Vec<i64> = self.command(&["TIME"]).good().items().iter().map(Reply::int).collect();
        parts[0] * 1_000_000 + parts[1]
    }

    /// `SCRIPT FLUSH`: the server forgets every script.
    #[track_caller]
    pub fn flush_scripts(&self) {
        self.command(&["SCRIPT", "FLUSH", "SYNC"]).good();
    }

    /// Shifts the server's wall clock against the machine's, at once; zero sets it right.
    ///
    /// # Panics
    /// If the server was not built with [`Builder::skewed`].
    pub fn set_skew_us(&self, shift_us: i64) {
        self.skew.as_ref().expect("Builder::skewed gives a server such a clock").set_us(shift_us);
    }

    /// As [`set_skew_us`](Self::set_skew_us), for whole microseconds of `shift`.
    ///
    /// # Panics
    /// As there, and if the shift is longer than 2^63 microseconds.
    pub fn set_skew(&self, shift: Duration, backwards: bool) {
        let shift_us = i64::try_from(shift.as_micros()).expect("no clock is so wrong");
        self.set_skew_us(if backwards { -shift_us } else { shift_us });
    }

    fn lock(&self) -> MutexGuard<'_, Option<Process>> {
        // A test that panicked while it held the process has not changed it halfway.
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    /// Starts the process and waits until it answers.
    fn launch(&self) -> Result<(), String> {
        let mut command = Command::new(&self.binary);
        command.arg(self.folder.path().join(builder::CONFIG_FILE));
        if self.is_sentinel {
            command.arg("--sentinel");
        }
        if let Some(skew) = &self.skew {
            skew.apply(&mut command);
        }
        let process =
            Process::start(&mut command, self.folder.path(), &self.log_path()).map_err(|error| {
                let binary = self.binary.display();
                let way_out = super::WITHOUT_REDIS;
                format!(
                    "{binary} cannot be started ({error}): install the Debian package redis-server; \
                 {way_out}=1 leaves out the tests that need it"
                )
            })?;
        let id = process.id();
        self.is_stopped.store(false, Ordering::SeqCst);
        *self.lock() = Some(process);
        let watch = Stopwatch::start();
        while !self.answers_as(id) {
            let has_ended = !self.is_running();
            if has_ended || watch.elapsed() > START_PATIENCE {
                self.kill();
                return Err(format!(
                    "redis-server on port {} did not start; its log:\n{}",
                    self.port,
                    self.log()
                ));
            }
            pause();
        }
        Ok(())
    }

    /// Whether it answers, and not another server that was quicker to take the port.
    fn answers_as(&self, id: u32) -> bool {
        let Ok(mut connection) = self.connect() else { return false };
        let is_ready = connection.call(&["PING"]).is_ok_and(|reply| reply.error().is_none());
        let info =
            connection.call(&["INFO", "server"]).map(|reply| fields(&reply.text())).unwrap_or_default();
        is_ready && info.get("process_id").is_some_and(|found| *found == id.to_string())
    }
}

/// The lines `name:value` of `INFO`, `CLUSTER INFO` and their like.
pub(crate) fn fields(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Microseconds of seconds in decimal writing, rounded down.
fn micros(seconds: &str) -> u64 {
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let fraction: String = fraction.chars().chain("000000".chars()).take(6).collect();
    let number = |digits: &str| digits.parse::<u64>().unwrap_or_else(|_| panic!("not seconds: {seconds}"));
    number(whole) * 1_000_000 + number(&fraction)
}
