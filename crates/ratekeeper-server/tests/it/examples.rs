//! Every folder of `examples` does what its page says, with the real binary: its page is run beside its files, and
//! shows the output of its script line by line.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::readme::Page;
use crate::support::{Folder, run, told};

/// What each example consists of.
const FILES: [&str; 3] = ["README.md", "client.py", "ratekeeper.yaml"];

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn read(name: &str, file: &str) -> String {
    let path = examples().join(name).join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|wrong| panic!("{}: {wrong}", path.display()))
}

/// Runs the page of an example in a copy of its folder.
fn run_example(name: &str, page: &str) -> Result<usize, String> {
    let folder = Folder::new();
    for file in FILES {
        folder.file(file, read(name, file));
    }
    Page::run_in(folder, page).map_err(|wrong| format!("examples/{name}/README.md, {wrong}"))
}

/// The server is started and the script is run: no page gets away with showing neither.
#[track_caller]
fn does_what_it_says(name: &str) {
    let page = read(name, "README.md");
    assert!(page.contains("\n$ ratekeeper serve\n") && page.contains("\n$ python3 client.py\n"), "{name}");
    assert_eq!(run_example(name, &page), Ok(2));
}

#[test]
fn a_right_password_gives_back_the_tries_of_its_account_only() {
    does_what_it_says("login");
}

#[test]
fn a_second_message_within_a_minute_is_429_with_its_fields() {
    does_what_it_says("sms");
}

#[test]
fn a_refusal_by_one_limit_is_free_at_the_other_and_its_wait_is_exact() {
    does_what_it_says("api-with-global-limit");
}

#[test]
fn tokens_are_held_settled_and_given_back() {
    does_what_it_says("llm-tokens");
}

#[test]
fn a_page_of_an_example_that_says_something_else_fails() {
    let page = read("sms", "README.md");
    for (right, not) in [(": sent\n", ": lost\n"), ("Retry-After: 60", "Retry-After: 61")] {
        assert!(page.contains(right), "{right}");
        assert!(run_example("sms", &page.replace(right, not)).is_err(), "{not}");
    }
}

#[test]
fn every_example_has_a_test_and_a_file_without_warnings() {
    let tests = include_str!("examples.rs");
    let mut found = 0;
    for entry in std::fs::read_dir(examples()).expect("there are examples") {
        let folder = entry.expect("a folder").path();
        let name = folder.file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
        assert!(tests.contains(&format!("does_what_it_says(\"{name}\")")), "{name} has no test");
        let files: BTreeSet<String> = std::fs::read_dir(&folder)
            .expect("an example is a folder")
            .map(|file| file.expect("a file").file_name().into_string().expect("UTF-8"))
            .collect();
        assert!(files.iter().eq(FILES.iter()), "{name}: {files:?}");
        let (stdout, stderr, code) = told(&run(&["validate", "-"], read(&name, "ratekeeper.yaml")));
        assert!(code == 0 && stdout.ends_with(" 0 errors, 0 warnings\n"), "{name}: {stdout}{stderr}");
        found += 1;
    }
    assert!(found >= 4, "{found}");
}
