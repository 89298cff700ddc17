//! How the process is asked to end, or to read its configuration again.

use std::io;

/// What a process is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// To end.
    End,
    /// To read its configuration again, as service managers do by SIGHUP.
    #[cfg_attr(not(unix), expect(dead_code, reason = "there is no such signal"))]
    Reload,
}

/// The ways in which a process is asked for something.
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hangup: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits until the process is asked for something.
    pub(crate) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::End,
            _ = self.terminate.recv() => Asked::End,
            _ = self.hangup.recv() => Asked::Reload,
        }
    }
}

impl Signals {
    /// Waits until the process is asked to end.
    pub(crate) async fn end(&mut self) {
        while self.next().await != Asked::End {}
    }
}

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits until the process is asked for something.
    pub(crate) async fn next(&mut self) -> Asked {
        // Without a way to hear of Ctrl-C the process still ends by it, only less gently.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Asked::End
    }
}
