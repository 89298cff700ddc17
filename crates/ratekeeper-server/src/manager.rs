//! Telling the service manager that started us how we are: the protocol of systemd's `Type=notify`.
//!
//! A manager that wants to know names a datagram socket in `NOTIFY_SOCKET`; each message is one `KEY=value`. With
//! `WATCHDOG_USEC` it ends and starts a process anew that has been silent for so long. Without these variables, or
//! elsewhere than on Unix, nothing is said.

use std::io;
use std::time::Duration;

use tokio::time;

use crate::cli;

/// Where the manager listens.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";
/// After how many microseconds of silence it gives us up.
const WATCHDOG_VARIABLE: &str = "WATCHDOG_USEC";
/// Whom that is meant for, if not for whoever reads it.
const WATCHED_VARIABLE: &str = "WATCHDOG_PID";

/// The service manager, if there is one.
pub(crate) struct Manager {
    socket: Option<Socket>,
    watchdog: Option<Duration>,
}

impl Manager {
    /// The one that the environment names; one that cannot be talked to is warned about, and then there is none.
    pub(crate) fn of_environment() -> Self {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let is_for_us = number(WATCHED_VARIABLE).is_none_or(|pid| pid == u64::from(std::process::id()));
        let watchdog = number(WATCHDOG_VARIABLE).filter(|us| *us > 0 && is_for_us);
        let socket = std::env::var_os(SOCKET_VARIABLE).filter(|name| !name.is_empty());
        let socket = socket.and_then(|name| Socket::open(&name).map_err(|wrong| unheard(&wrong)).ok());
        Self { socket, watchdog: watchdog.map(Duration::from_micros) }
    }

    /// We listen: who depends on us may start.
    pub(crate) fn ready(&self) {
        if let Err(wrong) = self.tell("READY=1") {
            unheard(&wrong);
        }
    }

    /// We end, as we were asked to.
    pub(crate) fn stopping(&self) {
        // Should nobody hear it, we end all the same.
        let _ = self.tell("STOPPING=1");
    }

    /// Says again and again that we still run, if there is somebody who wants to know. For a task of its own
    /// among those that answer requests: when all of these hang, it does too.
    pub(crate) async fn assure(&self) {
        let (Some(_), Some(watchdog)) = (&self.socket, self.watchdog) else { return };
        // Twice as often as needed, as the protocol asks for: one may come late.
        let mut ticks = time::interval((watchdog / 2).max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // A manager that is being started anew misses some, and listens again.
            let _ = self.tell("WATCHDOG=1");
        }
    }

    fn tell(&self, message: &str) -> io::Result<()> {
        self.socket.as_ref().map_or(Ok(()), |socket| socket.send(message))
    }
}

/// Limiting goes on without a manager that hears of it.
fn unheard(wrong: &io::Error) {
    cli::tell(&format!("warning: cannot tell the service manager of {SOCKET_VARIABLE} how we are: {wrong}"));
}

#[cfg(unix)]
struct Socket {
    from: std::os::unix::net::UnixDatagram,
    to: std::os::unix::net::SocketAddr,
}

#[cfg(unix)]
impl Socket {
    fn open(name: &std::ffi::OsStr) -> io::Result<Self> {
        let from = std::os::unix::net::UnixDatagram::unbound()?;
        // The manager reads at once; a server must not wait for one that does not.
        from.set_nonblocking(true)?;
        Ok(Self { from, to: address(name)? })
    }

    fn send(&self, message: &str) -> io::Result<()> {
        self.from.send_to_addr(message.as_bytes(), &self.to).map(drop)
    }
}

/// A path, or after an `@` a name that is in no file system.
#[cfg(unix)]
fn address(name: &std::ffi::OsStr) -> io::Result<std::os::unix::net::SocketAddr> {
    #[cfg(target_os = "linux")]
    {
        use std::os::linux::net::SocketAddrExt as _;
        use std::os::unix::ffi::OsStrExt as _;
        if let Some(name) = name.as_bytes().strip_prefix(b"@") {
            return std::os::unix::net::SocketAddr::from_abstract_name(name);
        }
    }
    std::os::unix::net::SocketAddr::from_pathname(name)
}

#[cfg(not(unix))]
struct Socket;

#[cfg(not(unix))]
impl Socket {
    fn open(_: &std::ffi::OsStr) -> io::Result<Self> {
        Ok(Self)
    }

    fn send(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
}
