//! Child processes that end with their handle, and with the test process however that ends.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Reads until the pipe from the test process closes, which the system does when that process is gone, and then
/// ends the server and removes its folder. An interrupt from the terminal goes to it, too: it must outlive that.
const GUARD: &str =
    r#"trap '' INT TERM HUP; while read -r _; do :; done; kill -9 "$1" 2>/dev/null; rm -rf -- "$2""#;

/// A running server and its guard.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// Dropped without the kill first, it would take the end of the pipe for the end of the test process.
    guard: Child,
}

impl Process {
    /// Starts `command` with its output in `log`.
    pub(crate) fn start(command: &mut Command, folder: &Path, log: &Path) -> std::io::Result<Self> {
        let log = File::create(log)?;
        let mut child =
            command.current_dir(folder).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).spawn()?;
        let guard = Command::new("sh")
            .args(["-c", GUARD, "guard", &child.id().to_string()])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match guard {
            Ok(guard) => Ok(Self { child, guard }),
            Err(error) => {
                end(&mut child);
                Err(error)
            }
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        let has_ended = matches!(self.child.try_wait(), Ok(Some(_)));
        if has_ended {
            // Its number may be given to another process from now on.
            end(&mut self.guard);
        }
        has_ended
    }

    /// Sends a signal by its name, for example `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        // The shell has `kill` built in; the program of that name is a package that may be missing.
        let sent = Command::new("sh")
            .args(["-c", r#"kill -s "$1" "$2""#, "signal", name, &self.id().to_string()])
            .status();
        assert!(sent.is_ok_and(|status| status.success()), "signal {name} reaches process {}", self.id());
    }
}

impl Drop for Process {
    /// SIGKILL: nothing is saved, and a stopped process ends, too.
    fn drop(&mut self) {
        // The guard first: it must never meet a number that has been given to another process.
        end(&mut self.guard);
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}
