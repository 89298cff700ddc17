//! What no file of the repository may contain.

use super::{files, read};

fn sources() -> impl Iterator<Item = (String, String)> {
    files().into_iter().filter(|path| path.ends_with(".rs")).map(|path| {
        let text = read(&path);
        (path, text)
    })
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/")
        || path.ends_with("tests.rs")
        || path.contains("testkit")
        || path.starts_with("bench/")
}

#[test]
fn unfinished_places_do_not_land() {
    // Spelt in two halves, so that this file does not find itself.
    let marks =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("todo", "!("), concat!("unimplemented", "!(")];
    for (path, text) in sources() {
        for mark in marks {
            assert!(!text.contains(mark), "{path} contains {mark}");
        }
    }
}

#[test]
fn only_the_clock_files_read_the_clock() {
    let readers = [concat!("Instant::", "now("), concat!("SystemTime::", "now(")];
    // The polite client does without the library, and turns dates of servers that send no `Date` into waits.
    let allowed = ["crates/ratekeeper/src/clock.rs", "crates/ratekeeper-client/src/clock.rs"];
    for (path, text) in sources().filter(|(path, _)| !is_test(path) && !allowed.contains(&path.as_str())) {
        // A runtime's timers schedule work; they decide nothing.
        let text = if text.contains("use tokio::time") { text.replace(readers[0], "") } else { text };
        for reader in readers {
            assert!(!text.contains(reader), "{path} reads the clock");
        }
    }
}

#[test]
fn files_stay_readable() {
    for (path, text) in sources() {
        let lines = text.lines().count();
        assert!(lines <= 600, "{path} has {lines} lines: split it");
    }
}

#[test]
fn tests_do_not_sleep_to_make_time_pass() {
    let sleep = concat!("thread::", "sleep");
    for (path, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        for (number, _) in lines.iter().enumerate().filter(|(_, line)| line.contains(sleep)) {
            let before = &lines[number.saturating_sub(3)..=number];
            let reason = before.iter().any(|line| line.contains("//"));
            assert!(reason, "{path}:{}: a sleep says beside it what real thing it waits for", number + 1);
        }
    }
}

#[test]
fn documents_name_no_place_outside_the_repository() {
    let outside =
        [concat!("/", "work/"), concat!("shared", "/"), concat!("/", "root/"), concat!("/", "tmp/target")];
    for path in files().into_iter().filter(|path| !path.ends_with(".lock")) {
        let Ok(text) = std::fs::read_to_string(super::root().join(&path)) else { continue };
        for place in outside {
            assert!(!text.contains(place), "{path} names {place}");
        }
    }
}
