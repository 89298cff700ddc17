//! On a clock that jumps over every wait, with real files.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use ratekeeper_core::Micros;

use super::*;
use crate::app::App;
use crate::server::Addresses;
use crate::voice::Voice;

struct Watched {
    folder: PathBuf,
    app: Arc<App>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn good(n: u32) -> String {
    format!(
        "version: 1\npolicies: [{{ name: p{n}, key: [ip], limits: [{{ name: l, algorithm: gcra, limit: {n}/s }}] }}]\n"
    )
}

impl Watched {
    /// A server of this text that looks at its file.
    fn new(text: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("ratekeeper-watch-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        let app = Arc::new(App::of(text));
        let watched = Self { folder, app: Arc::clone(&app) };
        watched.write(text);
        let reloader =
            Reloader::new(app, Source::File(watched.path()), Voice::default(), Addresses::default());
        tokio::spawn(reloader.watch());
        watched
    }

    fn path(&self) -> PathBuf {
        self.folder.join("ratekeeper.yaml")
    }

    fn write(&self, text: &str) {
        std::fs::write(self.path(), text).expect("the folder can be written");
    }

    /// What is at work: its first policy, since when, and when a reload failed last.
    fn state(&self) -> (String, Micros, Option<Micros>) {
        let live = self.app.live();
        let name = live.config().policies.first().map_or_else(String::new, |p| p.name().to_string());
        (name, live.since(), self.app.refused().map(|refused| refused.at))
    }
}

/// Long enough for a change to be seen.
async fn a_while() {
    sleep(POLL + SETTLE * 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_touch_reloads_nothing_and_a_change_is_taken() {
    let watched = Watched::new(&good(1));
    a_while().await;
    let before = watched.state();
    let open = std::fs::File::options().write(true).open(watched.path()).expect("it is there");
    let modified = open.metadata().expect("it is seen").modified().expect("it has a time");
    for ago in 1..4 {
        open.set_modified(modified - Duration::from_secs(ago)).expect("it is ours");
        a_while().await;
        assert_eq!(watched.state(), before);
    }
    watched.write(&good(22));
    a_while().await;
    let (name, since, failed) = watched.state();
    assert_eq!((name.as_str(), failed), ("p22", None));
    assert!(since > before.1);
}

#[tokio::test(start_paused = true)]
async fn what_was_written_while_the_server_started_is_seen() {
    let watched = Watched::new(&good(1));
    // Before the first look, and it looks as it did then but for its content.
    watched.write(&good(2));
    a_while().await;
    assert_eq!(watched.state().0, "p2");
}

#[tokio::test(start_paused = true)]
async fn a_file_written_in_two_halves_is_read_once_it_is_whole() {
    let watched = Watched::new(&good(1));
    a_while().await;
    let next = good(2) + &"#".repeat(100);
    let (half, _) = next.split_at(30);
    watched.write(half);
    // The half is found by the next look, and is whole before it is looked at again.
    sleep(POLL + SETTLE / 2).await;
    watched.write(&next);
    a_while().await;
    let (name, _, failed) = watched.state();
    assert_eq!((name.as_str(), failed), ("p2", None));
}

#[tokio::test(start_paused = true)]
async fn a_half_that_stays_is_refused_once_and_the_whole_is_taken() {
    let watched = Watched::new(&good(1));
    let next = good(2);
    let (half, _) = next.split_at(30);
    watched.write(half);
    a_while().await;
    let (name, _, failed) = watched.state();
    assert!(name == "p1" && failed.is_some());
    for _ in 0..5 {
        a_while().await;
        assert_eq!(watched.state().2, failed, "it is said once");
    }
    watched.write(&next);
    a_while().await;
    let (name, _, failed) = watched.state();
    assert_eq!((name.as_str(), failed), ("p2", None));
}

#[tokio::test(start_paused = true)]
async fn what_goes_back_to_what_is_at_work_is_no_failure_any_more() {
    let watched = Watched::new(&good(1));
    watched.write("version: 2\n");
    a_while().await;
    assert!(watched.state().2.is_some());
    watched.write(&good(1));
    a_while().await;
    let (name, _, failed) = watched.state();
    assert_eq!((name.as_str(), failed), ("p1", None));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_has_gone_is_said_once_and_taken_when_it_is_there_again() {
    let watched = Watched::new(&good(1));
    std::fs::remove_file(watched.path()).expect("it is there");
    a_while().await;
    let failed = watched.state().2;
    assert!(failed.is_some());
    a_while().await;
    assert_eq!(watched.state().2, failed);
    watched.write(&good(2));
    a_while().await;
    let (name, _, failed) = watched.state();
    assert_eq!((name.as_str(), failed), ("p2", None));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_never_comes_to_rest_is_looked_at_again_and_again() {
    let watched = Watched::new(&good(1));
    a_while().await;
    for n in 0..50 {
        watched.write(&(good(2) + &"#".repeat(n)));
        sleep(SETTLE / 2).await;
        assert_eq!(watched.state().0, "p1");
    }
    a_while().await;
    a_while().await;
    assert_eq!(watched.state().0, "p2");
}
