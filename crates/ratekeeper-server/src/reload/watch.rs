//! Looking whether the file has changed. Notifications of the system are not enough: they miss the symlinks that
//! Kubernetes exchanges, and files of other machines.

use std::fs::Metadata;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::sleep;

use super::{Reloader, Source};

/// Time between two looks: a change is live in a few seconds, and a look costs a few microseconds.
const POLL: Duration = Duration::from_secs(2);
/// How long a file must not have changed to be read: whoever writes it in several parts is quicker than that.
const SETTLE: Duration = Duration::from_millis(250);
/// How often a file is found changed again before its next turn is waited for.
const MAX_LOOKS: usize = 8;

/// What a file looks like from outside. None of it says that the content is another; its hash does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Look {
    length: u64,
    modified: Option<SystemTime>,
    /// Device and inode, where there are such.
    place: (u64, u64),
}

impl Look {
    /// The file behind all symlinks; `None` if there is none, or it cannot be seen.
    fn at(file: &Path) -> Option<Self> {
        let found = std::fs::metadata(file).ok()?;
        Some(Self { length: found.len(), modified: found.modified().ok(), place: place(&found) })
    }
}

#[cfg(unix)]
fn place(found: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt as _;
    (found.dev(), found.ino())
}

#[cfg(not(unix))]
fn place(_: &Metadata) -> (u64, u64) {
    (0, 0)
}

impl Reloader {
    /// Takes the file whenever its content has become another, as long as it is polled.
    pub(crate) async fn watch(self: Arc<Self>) {
        let Source::File(file) = &self.source else { return };
        // What was read at the start is not trusted to be what is there now: the first look reads it.
        let mut settled = None;
        loop {
            sleep(POLL).await;
            let mut seen = look(file).await;
            if settled == Some(seen) {
                continue;
            }
            for _ in 0..MAX_LOOKS {
                sleep(SETTLE).await;
                let again = look(file).await;
                if again == seen {
                    settled = Some(seen);
                    self.reload_if_new().await;
                    break;
                }
                seen = again;
            }
        }
    }
}

/// A look that does not hold up requests, should the file be on a machine that does not answer.
async fn look(file: &Path) -> Option<Look> {
    let file = file.to_owned();
    tokio::task::spawn_blocking(move || Look::at(&file)).await.ok().flatten()
}

#[cfg(test)]
mod tests;
