//! What a server is started with.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use super::super::folder::Folder;
use super::super::skew::Skew;
use super::super::{SERVER_BINARY, ports};
use super::{PASSWORD, RedisServer, USER};

pub(super) const CONFIG_FILE: &str = "redis.conf";

/// How often another port is tried when somebody else was quicker.
const PORT_TRIES: u32 = 10;

/// When the append-only file reaches the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendFsync {
    /// Once a second: a killed machine forgets the last one or two.
    EverySecond,
    /// Before each reply.
    Always,
    /// When the system likes.
    No,
}

/// Settings of a server that is to be started.
#[derive(Clone, Debug)]
pub struct Builder {
    port: Option<u16>,
    settings: Vec<(String, String)>,
    is_clustered: bool,
    is_sentinel: bool,
    has_tls: bool,
    is_skewed: bool,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            port: None,
            settings: Vec::new(),
            is_clustered: false,
            is_sentinel: false,
            has_tls: false,
            is_skewed: false,
        }
    }

    /// This port, and no other if it is taken.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// A line of the configuration: `name` and everything that follows it, quoted as the file wants it. Later
    /// ones win.
    #[must_use]
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// An argument of the command line, `--name value`. It is the same as [`config`](Self::config).
    #[must_use]
    pub fn arg(self, name: &str, value: &str) -> Self {
        let name = name.trim_start_matches("--").to_owned();
        self.config(&name, value)
    }

    /// Writes an append-only file, which [`RedisServer::restart`] reads.
    #[must_use]
    pub fn appendonly(self, fsync: AppendFsync) -> Self {
        let fsync = match fsync {
            AppendFsync::EverySecond => "everysec",
            AppendFsync::Always => "always",
            AppendFsync::No => "no",
        };
        self.config("appendonly", "yes").config("appendfsync", fsync)
    }

    /// Evicts by `policy`, for example `noeviction`, beyond so many bytes.
    #[must_use]
    pub fn maxmemory(self, bytes: u64, policy: &str) -> Self {
        self.config("maxmemory", &bytes.to_string()).config("maxmemory-policy", policy)
    }

    /// A user with rules of `ACL SETUSER`, for example `on >secret ~rk1:* +@read`; also `default`.
    #[must_use]
    pub fn user(self, name: &str, rules: &str) -> Self {
        self.config("user", &format!("{name} {rules}"))
    }

    /// A password for the default user.
    #[must_use]
    pub fn password(self, password: &str) -> Self {
        self.config("requirepass", password)
    }

    /// A second port that speaks TLS with this certificate and this key (PEM) and asks clients for none.
    #[must_use]
    pub fn tls(mut self, certificate: &Path, key: &Path) -> Self {
        self.has_tls = true;
        let path = |path: &Path| format!("\"{}\"", path.display());
        self.config("tls-cert-file", &path(certificate))
            .config("tls-key-file", &path(key))
            .config("tls-ca-cert-file", &path(certificate))
            .config("tls-auth-clients", "no")
    }

    /// A wall clock that [`RedisServer::set_skew`] shifts. Needs a C compiler.
    #[must_use]
    pub fn skewed(mut self) -> Self {
        self.is_skewed = true;
        self
    }

    pub(crate) fn clustered(mut self) -> Self {
        self.is_clustered = true;
        self.config("cluster-enabled", "yes")
    }

    pub(crate) fn sentinel(mut self) -> Self {
        self.is_sentinel = true;
        self
    }

    /// Starts it and waits until it answers.
    ///
    /// # Panics
    /// If `redis-server` is missing, refuses a setting, or does not answer within ten seconds.
    #[must_use]
    #[track_caller]
    pub fn start(self) -> RedisServer {
        for _ in 0..PORT_TRIES {
            let server = self.prepare();
            match server.launch() {
                Ok(()) => return server,
                Err(error) if self.port.is_none() && error.contains("Address already in use") => {}
                Err(error) => panic!("{error}"),
            }
        }
        panic!("{PORT_TRIES} free ports in a row were taken by somebody else before redis-server had them");
    }

    /// Chooses ports and writes the file.
    fn prepare(&self) -> RedisServer {
        let folder = Folder::new();
        let port = self.port.unwrap_or_else(ports::free);
        let tls_port = self.has_tls.then(ports::free);
        let text = self.text(folder.path(), port, tls_port);
        std::fs::write(folder.path().join(CONFIG_FILE), text).expect("the temporary folder can be written");
        RedisServer {
            process: Mutex::new(None),
            is_stopped: AtomicBool::new(false),
            binary: std::env::var_os(SERVER_BINARY)
                .map_or_else(|| PathBuf::from("redis-server"), PathBuf::from),
            is_sentinel: self.is_sentinel,
            port,
            tls_port,
            skew: self.is_skewed.then(|| Skew::new(folder.path())),
            folder,
        }
    }

    fn text(&self, folder: &Path, port: u16, tls_port: Option<u16>) -> String {
        let mut lines = format!(
            "bind 127.0.0.1\nport {port}\ndaemonize no\ndir \"{}\"\nuser {USER} on >{PASSWORD} ~* &* +@all\n",
            folder.display()
        );
        if !self.is_sentinel {
            // Replicas come as the harness's user, whatever the test sets; and their first copy starts at once.
            let _ = write!(
                lines,
                "save \"\"\nmasteruser {USER}\nmasterauth {PASSWORD}\nrepl-diskless-sync-delay 0\n"
            );
        }
        if self.is_clustered {
            // By itself it would be the port plus 10,000, which nobody has looked at.
            let _ = writeln!(lines, "cluster-port {}", ports::free());
        }
        if let Some(port) = tls_port {
            let _ = writeln!(lines, "tls-port {port}");
        }
        for (name, value) in &self.settings {
            let _ = writeln!(lines, "{name} {value}");
        }
        lines
    }
}
