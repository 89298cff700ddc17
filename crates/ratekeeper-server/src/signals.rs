//! How the process is asked to end, or to read its configuration again.

use std::io;

use crate::telemetry::log::{Event, Log};

/// The ways in which a process is asked to end.
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

    /// Waits until the process is asked to end.
    pub(crate) async fn next(&mut self, log: &Log) {
        let message = "reload is not available in this version; the configuration stays as it is";
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return,
                _ = self.terminate.recv() => return,
                // Service managers send it for "read your configuration again".
                _ = self.hangup.recv() => log.event(&Event::ReloadFailed { message }),
            }
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits until the process is asked to end.
    pub(crate) async fn next(&mut self, _: &Log) {
        // Without a way to hear of Ctrl-C the process still ends by it, only less gently.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
